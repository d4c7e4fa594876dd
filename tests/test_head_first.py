"""Which way round an animal is learned: by its motion, and by its shape where that says little."""

from types import SimpleNamespace
from typing import Any

import pytest

from midline3d.settings import Settings
from midline3d.tracking import begin

CLIP: Any = SimpleNamespace(settings=Settings())


def animal(name: str, energy: float) -> Any:
    return SimpleNamespace(name=name, energy=energy, sample=None, clip=CLIP)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the animals whose expected length was asked for."""
    asked: list[str] = []

    def of_expected_length(_: Any, one: Any) -> Any:
        asked.append(one.name)
        # The other way round had come to rest beside its minimum.
        return animal(one.name, one.energy - 1000.0 * (one.name == "other"))

    monkeypatch.setattr(begin, "of_expected_length", of_expected_length)
    return asked


def test_where_the_motion_is_sure_no_length_is_asked_for(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin, "turned", lambda *_: animal("other", 1e6))
    heads = CLIP.settings.heads
    chosen: Any
    for forward, name in ((heads.most_odds, "this"), (-heads.most_odds, "other")):
        chosen, odds, measured = begin.head_first(CLIP, animal("this", 100.0), forward)
        assert (chosen.name, measured, asked) == (name, False, [])
        assert odds == pytest.approx(heads.most_odds + heads.most_shape_odds * (1 if name == "this" else -1))


def test_where_the_shape_decides_both_ways_are_compared_at_their_own_lengths(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(begin, "turned", lambda *_: animal("other", 100.1))
    chosen: Any
    chosen, odds, measured = begin.head_first(CLIP, animal("this", 100.0), 0.0)
    assert (chosen.name, measured, asked) == ("other", True, ["this", "other"])
    assert 0 < odds <= CLIP.settings.heads.most_shape_odds
