"""An end that is folded back upon its own body is told from a bend, and what lies beyond the fold is taken off."""

from dataclasses import replace

import pytest
import torch
from scenes import worm
from test_batch import CPU, FRAMES, quick_settings

from midline3d.bench import drawn_clip
from midline3d.state import FrameState, merged
from midline3d.synth.scene import Plan
from midline3d.tracking import folded_ends
from midline3d.tracking.folded_ends import folded_back, unfolded
from midline3d.tracking.learning import Animal, Sample, average_body

VERTICES = 128


def hooked(beyond: float, turn: float = 3.0) -> FrameState:
    """A straight worm whose tail turns by an angle (rad) within 3 % of the body, that share of it before its end."""
    state = worm(vertices=VERTICES)
    place = torch.linspace(0, 1, VERTICES, dtype=state.curvature.dtype)
    bend = torch.zeros_like(state.curvature)
    bend[..., 0] = turn / 0.03 * ((place - (1 - beyond)).abs() < 0.015)
    return replace(state, curvature=bend).rebuilt(torch.tensor([0]))


@pytest.mark.parametrize("beyond", [0.06, 0.12, 0.2])
def test_a_fold_is_found_at_the_end_that_has_it(beyond: float) -> None:
    state = hooked(beyond)
    assert float(folded_back(state, tail=True)) == pytest.approx(beyond, abs=0.02)
    assert float(folded_back(state, tail=False)) == 0
    assert float(folded_back(state.reversed(), tail=False)) == pytest.approx(beyond, abs=0.02)


def test_a_bend_is_no_fold_nor_is_one_far_from_the_end() -> None:
    both = merged([hooked(0.12, turn=1.8), hooked(0.4)])
    assert folded_back(both, tail=True).tolist() == [0, 0]


@pytest.mark.parametrize(("folded", "better", "shortened"), [(4, True, 1), (4, False, 0), (1, True, 0)])
def test_a_body_is_unfolded_where_many_frames_are_folded_and_it_fits_better(
    folded: int, better: bool, shortened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = quick_settings()
    settings = replace(settings, body=replace(settings.body, stretch=0.02))
    clip = drawn_clip(Plan("clean", FRAMES, size=320, px_per_mm=90.0, seed=0), settings, CPU, window=140)
    states = merged([hooked(0.12)] * folded + [hooked(0.12, turn=0.5)] * (6 - folded))
    body = average_body(settings.body, torch.tensor(1.0))
    animal = Animal(clip, Sample(list(range(6)), states), body, torch.zeros(3, 4), 100.0)
    asked: list[float] = []

    def at_length(_: object, before: Animal, length: torch.Tensor, tail: bool) -> Animal:
        assert tail
        asked.append(float(length))
        return replace(before, sample=Sample(before.sample.frames, hooked(0.12, turn=0.5)[[0] * 6]))

    monkeypatch.setattr(folded_ends, "at_length", at_length)
    monkeypatch.setattr(folded_ends, "fitted", lambda _, of, *__: replace(of, energy=90.0 if better else 110.0))
    found = unfolded(clip, animal)
    assert (found is not animal) == bool(shortened)
    assert asked == ([pytest.approx(0.88, abs=0.02)] if folded > 1 else [])
