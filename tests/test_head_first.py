"""Which way round an animal is learned: by shape and motion, at lengths of their own where these say little."""

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
    """Names of the animals whose expected length was asked for; the motion says nothing."""
    asked: list[str] = []

    def of_expected_length(_: Any, one: Any) -> Any:
        asked.append(one.name)
        # The other way round had come to rest beside its minimum.
        return animal(one.name, one.energy - 1000.0 * (one.name == "other"))

    monkeypatch.setattr(begin, "of_expected_length", of_expected_length)
    monkeypatch.setattr(begin, "forward_odds", lambda *_: 0.0)
    return asked


def test_where_the_shapes_are_sure_no_length_is_asked_for(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begin, "turned", lambda *_: animal("other", 1e6))
    chosen: Any
    chosen, odds, measured = begin.head_first(CLIP, animal("this", 100.0))
    assert (chosen.name, measured, asked) == ("this", False, [])
    assert odds >= CLIP.settings.heads.most_odds


def test_where_they_are_not_both_ways_are_compared_at_their_own_lengths(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(begin, "turned", lambda *_: animal("other", 100.1))
    chosen: Any
    chosen, odds, measured = begin.head_first(CLIP, animal("this", 100.0))
    assert (chosen.name, measured, asked) == ("other", True, ["this", "other"])
    assert odds > 0
