"""A frame is unsure where what comes from beyond a spring fits it nearly as well; what also moves evenly is taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from midline3d.settings import Settings
from midline3d.shapes import Tensor
from midline3d.tracking import contested
from midline3d.tracking.contested import HOPELESS, second_midlines, ways_across, without_springs
from midline3d.tracking.learning import nat
from midline3d.tracking.mending import KnownFrame

SETTINGS = Settings()
TEMPERED = SETTINGS.body.sure * nat(SETTINGS)
SCALE = 100.0
"""px per mm."""
SPRUNG = [0.0] * 4 + [20.0] * 4
"""px by which the head lies to the side: it springs behind the fourth frame."""
CAUGHT = [0.0, 0.0, 6.0, 12.0, 20.0, 0.0, 0.0, 0.0]
"""It is drawn away little by little, and springs back behind the fifth."""


def curve(head: float) -> Any:
    points = torch.zeros(1, 5, 3)
    points[0, 0, 1] = head / SCALE
    return SimpleNamespace(points=points)


class Clip(list[int]):
    settings = SETTINGS
    prepared = SimpleNamespace(scale=SCALE)

    def carried(self, state: Any, old: int, new: int) -> Any:
        return state

    def world(self, state: Any, frames: list[int]) -> Tensor:
        return state.points


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Any]]:
    """Frames with heads at these places; carried on across a spring, either side stays where it is (or moves on by some
    px first), and fits worse by so many tempered nats."""

    def made(
        heads: list[float], worse: Callable[[int], float], status: str = "ok", first: float = 0.0
    ) -> tuple[Any, Any]:
        moved = {heads[frame]: heads[frame] + first for frame in range(len(heads))}

        def fitted(_: Any, frame: int, start: Any) -> Any:
            head = float(start.points[0, 0, 1]) * SCALE
            state = curve(moved.get(round(head, 3), head))
            fit = SimpleNamespace(state=state, energy=10.0 + worse(frame) * TEMPERED)
            return SimpleNamespace(fit=fit, verdict=SimpleNamespace(status=status))

        monkeypatch.setattr(contested, "fitted_from", fitted)
        monkeypatch.setattr(contested, "outcome", lambda clip, frame, found: frame)
        clip = Clip(range(len(heads)))
        return SimpleNamespace(clip=clip), lambda frame: KnownFrame(curve(heads[frame]), 10.0, "ok")

    return made


def test_the_less_it_fits_worse_the_likelier_it_is(scene: Any) -> None:
    beginning, read = scene(SPRUNG, lambda frame: 0.5 * abs(frame - 3.5))
    found = second_midlines(beginning, ways_across(beginning, [3], read), read)
    assert found == pytest.approx({frame: 1 / (1 + math.exp(0.5 * abs(frame - 3.5))) for frame in range(8)})


def test_what_fits_far_worse_is_not_carried_on(scene: Any) -> None:
    beginning, read = scene(SPRUNG, lambda frame: HOPELESS + 1 if frame in (1, 6) else 1.0)
    assert sorted(second_midlines(beginning, ways_across(beginning, [3], read), read)) == [2, 3, 4, 5]


def test_a_lost_one_is_none(scene: Any) -> None:
    beginning, read = scene(SPRUNG, lambda frame: 0.0, "lost")
    assert second_midlines(beginning, ways_across(beginning, [3], read), read) == {}


def test_what_lies_near_is_the_same(scene: Any) -> None:
    beginning, read = scene([0.0] * 4 + [7.0] * 4, lambda frame: 0.0)
    assert second_midlines(beginning, ways_across(beginning, [3], read), read) == {}


def test_what_springs_itself_to_get_away_is_none(scene: Any) -> None:
    beginning, read = scene(SPRUNG, lambda frame: 0.0, first=25.0)
    assert second_midlines(beginning, ways_across(beginning, [3], read), read) == {}
    assert list(without_springs(beginning, ways_across(beginning, [3], read), read)) == []


@pytest.mark.parametrize(("worse", "taken"), [(0.5, [4, 3]), (1.5, [])])
def test_a_way_that_meets_what_was_there_without_a_spring_is_taken(scene: Any, worse: float, taken: list[int]) -> None:
    beginning, read = scene(CAUGHT, lambda frame: worse if frame < 5 else HOPELESS + 1)
    assert list(without_springs(beginning, ways_across(beginning, [4], read), read)) == taken


@pytest.mark.parametrize(("better", "taken"), [(2.0, [4, 5, 6, 7]), (0.5, [])])
def test_a_way_that_fits_clearly_better_is_taken(scene: Any, better: float, taken: list[int]) -> None:
    """Nothing was there to meet: the head is wrong from the spring on to the end."""
    beginning, read = scene(SPRUNG, lambda frame: -better if frame > 3 else HOPELESS + 1)
    assert list(without_springs(beginning, ways_across(beginning, [3], read), read)) == taken
