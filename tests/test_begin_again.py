"""A recording is begun again where its animal passes through itself in many frames."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from midline3d.settings import Settings
from midline3d.tracking import begin
from midline3d.tracking.begin import AGAIN, MANY_THROUGH


class Clip:
    settings = Settings()
    device = torch.device("cpu")

    def on(self, _: torch.device) -> Any:
        return self

    def world(self, *_: object) -> torch.Tensor:
        return torch.zeros(1, 8, 3)


@pytest.mark.parametrize(
    ("through", "tried", "taken"),
    [
        ([0.0], 1, 0),
        ([MANY_THROUGH], 1, 0),
        ([0.6, 0.1], 2, 1),
        ([0.6, 0.9, 0.5], AGAIN + 1, 2),
        ([0.5, 0.6, 0.5], AGAIN + 1, 0),
    ],
)
def test_of_several_beginnings_the_one_that_passes_least_through_itself_is_taken(
    through: list[float], tried: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    animals = [SimpleNamespace(number=number) for number in range(len(through))]
    left, one = iter(animals), SimpleNamespace(states=None, frames=[0])
    begun: list[object] = []

    def find_start(*_: object) -> None:
        begun.append(None)

    monkeypatch.setattr(begin, "find_start", find_start)
    monkeypatch.setattr(begin, "learned_from", lambda *_: (next(left), one))
    monkeypatch.setattr(begin, "frames_through", lambda animal: through[animal.number])
    monkeypatch.setattr(begin, "forward_odds", lambda *_: 1.0)
    monkeypatch.setattr(begin, "head_first", lambda _, animal, forward: (animal, forward, 0.0))
    monkeypatch.setattr(begin, "with_its_ends", lambda _, animal, right: animal)
    monkeypatch.setattr(begin, "_in_the_middle", lambda _, animal, *others: animal)
    clip: Any = Clip()
    found: Any = begin.begin(clip, torch.Generator(), lambda *_: None)
    assert (len(begun), found.number) == (tried, taken)
