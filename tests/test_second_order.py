"""Frames fitted in a batch: each as if it were alone, and none drawn once it has come to rest."""

from dataclasses import replace

import pytest
import torch
from test_uncertainty import SIZE, N, animals, noisy

from midline3d.fitting import second_order
from midline3d.fitting.pins import BODY, Pins
from midline3d.fitting.second_order import Evaluation, Problem, fit
from midline3d.state import FrameState


def far_and_near() -> tuple[Problem, FrameState]:
    """Six frames that begin ever farther off, so that each needs more iterations than the one before."""
    right = animals(6)
    away = torch.linspace(0, 0.06, 6)[:, None, None] * torch.tensor([1.0, -0.5, 0.7])
    return noisy(right, 0.2), replace(right, points=right.points + away)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_frame_comes_out_of_a_batch_as_it_does_alone(pinned: bool) -> None:
    problem, start = far_and_near()
    if pinned:
        places = torch.full((6, 1, 2), SIZE / 2)
        pins = Pins(torch.zeros(6, 1, dtype=torch.long), torch.full((6, 1), BODY), places, torch.full((6, 1), 0.1))
        problem = replace(problem, pins=pins)
    together = fit(problem, start, 60)
    assert len(together.iterations.unique()) > 2, "they do not come to rest at once"
    for row in range(6):
        one = torch.tensor([row])
        alone = fit(problem.taken(one), start[one], 60)
        assert int(alone.iterations) == int(together.iterations[row])
        assert torch.equal(alone.state.points[0], together.state.points[row])
        assert torch.equal(alone.energy[0], together.energy[row])
        assert all(torch.equal(value[0], together.terms[name][row]) for name, value in alone.terms.items())


def test_no_frame_is_drawn_that_has_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, start = far_and_near()
    drawn: list[int] = []
    evaluate = second_order.evaluate

    def counted(problem: Problem, state: FrameState) -> Evaluation:
        drawn.append(len(state))
        return evaluate(problem, state)

    monkeypatch.setattr(second_order, "evaluate", counted)
    found = fit(problem, start, 60)
    assert sum(drawn) == 6 + int(found.iterations.sum()) and found.state.points.shape == (6, N, 3)
    assert found.at is None, "what the whole batch was drawn as is not kept"


def test_what_lies_beyond_a_picture_is_not_held_against_the_body() -> None:
    """The first picture ends in the middle of the body: its other half is found by the other two."""
    right = animals(1)
    problem, start = noisy(right, 0.05), replace(right, points=right.points + 0.02)
    end = float(problem.kernels.project(problem.views.cameras, right.points, right.shift)[0, 0, :, 0].median())
    images = problem.views.images.clone()
    images[:, 0, :, round(end) + 1 :] = 0
    picture = torch.tensor([0.0, SIZE - 1, 0.0, SIZE - 1]).repeat(1, 3, 1)
    picture[:, 0, 1] = round(end)
    cut = replace(problem, views=replace(problem.views, images=images))
    known = replace(cut, views=replace(cut.views, picture=picture))
    off = [float((fit(each, start, 60).state.points - right.points).norm(dim=-1).mean()) for each in (cut, known)]
    assert off[1] < 0.6 * off[0]
