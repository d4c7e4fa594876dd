"""The paper's optimiser on small pictures."""

from dataclasses import replace

import pytest
import torch
from scenes import BOUNDS, as_float, rig, worm

from midline3d.appearance import PaperTaper, optics
from midline3d.cameras import project
from midline3d.fitting.adam import AdamFit, descend
from midline3d.fitting.objective import Descent, measure
from midline3d.fitting.views import Views
from midline3d.rendering import render
from midline3d.settings import AdamSettings, LossWeights
from midline3d.state import FrameState

N, SIZE = 32, 48
TAPER = PaperTaper(N, 0.9, 0.2)


def descent(truth: FrameState, steps: int, blank: bool = False, **changes: float) -> Descent:
    """Pictures of `truth`, and a descent onto them."""
    cameras = rig(3, SIZE, 30.0).to(torch.float32)
    images = torch.zeros(len(truth), 3, SIZE, SIZE)
    if not blank:
        appearance = TAPER.apply(truth.view_appearance, optics(cameras, truth.points, truth.bishop[..., 0]))
        images = render(appearance.blobs(project(cameras, truth.points, truth.shift), truth.rho), images, 1e-3).image
    settings = replace(AdamSettings(), steps=steps, **changes)
    return Descent(Views(images, cameras), TAPER, LossWeights(), BOUNDS, settings, 1e-3)


def truth(batch: int = 2) -> FrameState:
    """Gently bent: the weights of the losses are made for 128 vertices."""
    state = as_float(worm(batch, N, seed=5))
    return replace(state, curvature=0.4 * state.curvature).rebuilt(state.middle())


def off(state: FrameState) -> FrameState:
    """The worm a little aside and a little too straight."""
    return replace(state, points=state.points + 0.03, curvature=0.8 * state.curvature).rebuilt(state.middle())


def run(job: Descent, state: FrameState, seed: int = 0) -> AdamFit:
    return descend(job, state, torch.Generator().manual_seed(seed))


def test_steps_lower_the_loss_and_come_nearer() -> None:
    right = truth()
    job = descent(right, 40)
    start = off(right)
    before = measure(job, start)[0].total()
    found = run(job, start)
    assert (found.losses.total() < 0.5 * before).all()

    def away(state: FrameState) -> torch.Tensor:
        return (state.points - right.points).norm(dim=-1).mean(1)

    assert (away(found.state) < 0.6 * away(start)).all()
    assert found.history.shape[1] == 2 and (found.steps <= 40).all()


def test_the_best_state_is_what_its_loss_says() -> None:
    job = descent(truth(), 12, shift_every=0)
    found = run(job, off(truth()))
    again = measure(job, found.state)[0].total()
    assert again.tolist() == pytest.approx(found.losses.total().tolist(), rel=1e-4)


def test_the_same_seed_gives_the_same_bits() -> None:
    job, start = descent(truth(), 15), off(truth())
    one, two, other = run(job, start, 1), run(job, start, 1), run(job, start, 2)
    assert torch.equal(one.state.points, two.state.points) and torch.equal(one.history, two.history)
    assert not torch.equal(one.state.points, other.state.points)


def test_a_frame_is_the_same_alone_or_in_a_batch() -> None:
    job, start = descent(truth(2), 1), off(truth(2))
    both = measure(job, start)[0].total()
    for index in range(2):
        alone = replace(job, views=Views(job.views.images[[index]], job.views.cameras))
        assert measure(alone, start[[index]])[0].total().item() == pytest.approx(both[index].item(), rel=1e-4)


def test_a_blank_picture_gives_numbers_not_nan() -> None:
    found = run(descent(truth(), 15, blank=True), truth())
    assert all(torch.isfinite(value).all() for value in vars(found.state).values())
    assert torch.isfinite(found.history).all() and not found.shares.any()


def test_zero_curvature_and_a_worm_outside_the_picture() -> None:
    start = truth()
    straight = replace(start, curvature=torch.zeros_like(start.curvature)).rebuilt(start.middle())
    outside = replace(straight, points=straight.points + 5.0)
    for state in (straight, outside):
        found = run(descent(truth(), 10), state)
        assert all(torch.isfinite(value).all() for value in vars(found.state).values())


def test_everything_stays_within_its_bounds() -> None:
    tight = replace(BOUNDS, length=(0.95, 1.05), sigma=(1.5, 1.9), circles=0.5)
    job = replace(descent(truth(), 20), bounds=tight)
    state = run(job, off(truth()).clamped(tight)).state
    assert (state.length >= 0.95).all() and (state.length <= 1.05).all()
    assert (state.sigma >= 1.5).all() and (state.sigma <= 1.9).all()
    assert state.curvature.norm(dim=-1).max() <= torch.pi * (1 + 1e-5)


def test_a_converged_frame_stops() -> None:
    right = truth(1)
    found = run(descent(right, 80, settled=0.05), right)
    assert found.steps.item() < 80 and len(found.history) < 80
