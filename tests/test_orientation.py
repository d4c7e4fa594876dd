"""Which way round an animal is learned: by the way it moves, and by its blunter end."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from midline3d.fitting.body import average_body
from midline3d.settings import BodySettings, Settings
from midline3d.tracking import orientation

CLIP: Any = SimpleNamespace(settings=Settings())
HEADS = CLIP.settings.heads


def animal(blunter: float, **ends: float) -> Any:
    """An average one but for these numbers of its shape, at whose last keypoint light takes so much longer to rise, as
    a natural logarithm."""
    body = average_body(BodySettings(**ends), torch.tensor(1.0))
    return SimpleNamespace(clip=CLIP, blunter=blunter, body=body)


BLUNT_HEAD = animal(1.4, head_bluntness=0.3, tail_bluntness=0.9)
BLUNT_TAIL = animal(-1.4, head_bluntness=0.9, tail_bluntness=0.3)
ALIKE = animal(0.0, head_share=0.2, tail_share=0.2, head_bluntness=0.6, tail_bluntness=0.6)
SLIGHTLY_BLUNT = animal(0.2, head_share=0.2, tail_share=0.2, head_bluntness=0.6, tail_bluntness=0.6)
PALE = animal(-0.7, head_bluntness=0.3, tail_bluntness=0.9)
"""A wide head that light goes through."""


@pytest.fixture(autouse=True)
def as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orientation, "blunter_head", lambda one, other: (one.blunter - other.blunter) / 2)


def test_the_blunter_end_is_the_head_whichever_way_the_animal_is_given() -> None:
    assert orientation.shape_odds(BLUNT_HEAD, BLUNT_TAIL) == HEADS.most_shape_odds
    assert orientation.shape_odds(BLUNT_TAIL, BLUNT_HEAD) == -HEADS.most_shape_odds
    # Either way round the same end is blunter: nothing is said.
    assert orientation.shape_odds(BLUNT_HEAD, BLUNT_HEAD) == 0
    assert orientation.shape_odds(PALE, PALE) == 0
    assert orientation.shape_odds(PALE, ALIKE) == pytest.approx(HEADS.most_width_odds - 0.35 / HEADS.blunter)
    assert 0 < orientation.shape_odds(SLIGHTLY_BLUNT, ALIKE) < HEADS.most_shape_odds


@pytest.mark.parametrize(("forward", "turned"), [(-0.5, False), (1.0, False), (-HEADS.at_once, True)])
def test_motion_outvotes_a_blunt_end_but_where_hardly_any_is_seen(
    monkeypatch: pytest.MonkeyPatch, forward: float, turned: bool
) -> None:
    monkeypatch.setattr(orientation, "turned", lambda *_: BLUNT_TAIL)
    chosen, odds, by_shape = orientation.head_first(CLIP, BLUNT_HEAD, forward)
    assert chosen is (BLUNT_TAIL if turned else BLUNT_HEAD)
    assert odds == pytest.approx(abs(HEADS.most_shape_odds + forward))
    assert by_shape == (-1 if turned else 1) * HEADS.most_shape_odds


def test_where_the_ends_are_alike_the_motion_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orientation, "turned", lambda *_: ALIKE)
    assert orientation.head_first(CLIP, ALIKE, 1.2) == (ALIKE, pytest.approx(1.2), 0)


def test_ends_of_an_animal_that_may_be_read_either_way_may_be_either() -> None:
    sure = Settings().body
    surely, either, other = (orientation.of_either_end(sure, right) for right in (1.0, 0.5, 0.0))
    for kind in ("share", "bluntness", "tip"):
        head, tail = f"head_{kind}", f"tail_{kind}"
        for part in ("", "_spread"):
            assert getattr(surely, head + part) == pytest.approx(getattr(sure, head + part))
            assert getattr(other, head + part) == pytest.approx(getattr(sure, tail + part))
            assert getattr(either, head + part) == pytest.approx(getattr(either, tail + part))
        assert getattr(either, head) == pytest.approx((getattr(sure, head) * getattr(sure, tail)) ** 0.5)
    # The variance of both together: their own, and that of their means.
    apart = math.log(sure.tail_bluntness / sure.head_bluntness) / 2
    within = (sure.head_bluntness_spread**2 + sure.tail_bluntness_spread**2) / 2
    assert either.head_bluntness_spread == pytest.approx(math.hypot(within**0.5, apart))
