"""Which way round an animal is learned: by the way it moves, and by its blunter end."""

from types import SimpleNamespace
from typing import Any

import pytest

from midline3d.settings import Settings
from midline3d.tracking import begin

CLIP: Any = SimpleNamespace(settings=Settings())
HEADS = CLIP.settings.heads


def animal(blunter: float) -> Any:
    """One at whose last keypoint light takes so much longer to rise, as a natural logarithm."""
    return SimpleNamespace(clip=CLIP, blunter=blunter)


BLUNT_HEAD, BLUNT_TAIL, ALIKE = animal(1.4), animal(-1.4), animal(0.0)


@pytest.fixture(autouse=True)
def as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin, "blunter_head", lambda one, other: (one.blunter - other.blunter) / 2)


def test_the_blunter_end_is_the_head_whichever_way_the_animal_is_given() -> None:
    assert begin.shape_odds(BLUNT_HEAD, BLUNT_TAIL) == HEADS.most_shape_odds
    assert begin.shape_odds(BLUNT_TAIL, BLUNT_HEAD) == -HEADS.most_shape_odds
    # Either way round the same end is blunter: nothing is said.
    assert begin.shape_odds(BLUNT_HEAD, BLUNT_HEAD) == 0
    assert abs(begin.shape_odds(ALIKE, BLUNT_TAIL)) < begin.shape_odds(BLUNT_HEAD, BLUNT_TAIL)


@pytest.mark.parametrize(("forward", "turned"), [(-1.0, False), (1.0, False), (-HEADS.most_odds - 0.1, True)])
def test_motion_outvotes_a_blunt_end_only_where_it_is_seen_for_long(
    monkeypatch: pytest.MonkeyPatch, forward: float, turned: bool
) -> None:
    monkeypatch.setattr(begin, "turned", lambda *_: BLUNT_TAIL)
    chosen, odds, by_shape = begin.head_first(CLIP, BLUNT_HEAD, forward)
    assert chosen is (BLUNT_TAIL if turned else BLUNT_HEAD)
    assert odds == pytest.approx(abs(HEADS.most_shape_odds + forward))
    assert by_shape == (-1 if turned else 1) * HEADS.most_shape_odds


def test_where_the_ends_are_alike_the_motion_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin, "turned", lambda *_: ALIKE)
    assert begin.head_first(CLIP, ALIKE, 1.2) == (ALIKE, pytest.approx(1.2), 0)
