"""Stated standard deviations against how far fits of noisy pictures really scatter."""

from dataclasses import replace

import pytest
import torch
from scenes import BOUNDS, as_float, rig, worm
from torch import Tensor

from midline3d.cameras import projection_jacobian
from midline3d.fitting.body import average_body
from midline3d.fitting.second_order import Problem, fit, rendered
from midline3d.fitting.uncertainty import ENDS_OFF, WIDER_ACROSS, deviations, sandwich
from midline3d.fitting.views import Views
from midline3d.kernels import spline_basis
from midline3d.rendering import Objective
from midline3d.settings import Settings
from midline3d.state import FrameState

N, SIZE, PER_MM, DRAWS = 64, 96, 60.0, 48


def animals(count: int) -> FrameState:
    """The same bent worm so many times, 60 px long."""
    state = as_float(worm(1, N, seed=5))
    state = replace(state, curvature=0.5 * state.curvature, sigma=torch.full((1, 3), 2.0), iota=torch.full((1, 3), 3.0))
    state = state.rebuilt(state.middle())
    return state.translated(-state.points.mean(1))[[0] * count]


def problem_of(state: FrameState, images: Tensor | None = None) -> Problem:
    settings = Settings()
    body = average_body(settings.body, torch.tensor(1.0))
    blank = torch.zeros(len(state), 3, SIZE, SIZE)
    made = Problem(
        views=Views(blank, rig(3, SIZE, PER_MM).to(torch.float32)),
        taper=body.profile(N, torch.full((3,), PER_MM), 0.5),
        basis=spline_basis(N, 20, torch.float32, "cpu"),
        objective=Objective(3e-3, robust=1.0),
        weights=settings.second_order,
        bounds=BOUNDS,
        anchor=state,
    )
    return replace(made, views=replace(made.views, images=rendered(made, state) if images is None else images))


def noisy(state: FrameState, level: float) -> Problem:
    clean = problem_of(state)
    noise = torch.randn(clean.views.images.shape, generator=torch.Generator().manual_seed(0))
    return problem_of(state, clean.views.images + level * noise)


def seen_errors(problem: Problem, found: FrameState, right: FrameState) -> Tensor:
    """Where the views together see the vertices, against where they are: along T, M1, M2 (batch, vertex, 3), mm."""
    cameras = problem.views.cameras
    jacobian = projection_jacobian(cameras, right.points)
    shifted = (jacobian.mT @ (cameras.shift_basis @ (found.shift - right.shift)[:, None, :, None])[:, :, None]).sum(1)
    moved = torch.linalg.solve((jacobian.mT @ jacobian).sum(1), shifted).squeeze(-1)
    return (right.bishop.mT @ (found.points - right.points + moved)[..., None]).squeeze(-1)


def test_they_are_as_large_as_the_scatter_of_fits() -> None:
    """About their own mean: smoothness pulls all fits to the same side, by a twentieth of a pixel here."""
    right = animals(DRAWS)
    problem = noisy(right, 0.2)
    found = fit(problem, right, 60).state
    stated = sandwich(problem, found)
    scatter = seen_errors(problem, found, right).std(0)
    middle = slice(N // 8, -N // 8)
    across = stated.across[:, middle].square().mean() / scatter[middle, 1:].square().mean()
    along = stated.along[:, middle].square().mean() / scatter[middle, 0].square().mean()
    assert 0.7 < across**0.5 < 1.4 and 0.7 < along**0.5 < 1.4


def test_ends_are_less_exact_than_the_middle() -> None:
    right = animals(4)
    problem = noisy(right, 0.2)
    across = sandwich(problem, fit(problem, right, 60).state).across.mean(0)
    assert across[[0, -1]].min() > 2 * across[N // 4 : -N // 4].mean()


def test_what_is_stated_is_wider_and_the_ends_are_unsure_along_the_body() -> None:
    right = animals(2)
    problem = noisy(right, 0.2)
    found = fit(problem, right, 60).state
    problem = replace(problem, taper=replace(problem.taper, unsure=(0.01, 0.02)))
    raw, stated = sandwich(problem, found), deviations(problem, found)
    wider = stated.across / raw.across
    assert wider.aminmax() == pytest.approx((min(WIDER_ACROSS), max(WIDER_ACROSS)))
    assert (stated.along > 4 * raw.along).all()
    width = float(problem.taper.sharp.mean()) / PER_MM
    assert stated.along[:, 0].min() > ENDS_OFF[0] * width and stated.along[:, -1].min() > ENDS_OFF[1] * width
    assert stated.along[:, N // 2].max() < stated.along[:, [0, -1]].min()


def test_what_is_open_of_an_end_is_told_there_and_fades_to_the_other() -> None:
    right = animals(2)
    problem = noisy(right, 0.2)
    found = fit(problem, right, 60).state
    other = replace(problem, taper=replace(problem.taper, unsure=(0.02, 0.05)))
    before, after = deviations(problem, found), deviations(other, found)
    assert torch.equal(before.across, after.across)
    more = (after.along.square() - before.along.square()).sqrt() / found.length[:, None]
    assert more[:, 0].tolist() == pytest.approx([0.02] * 2, rel=1e-3)
    assert more[:, -1].tolist() == pytest.approx([0.05] * 2, rel=1e-3)
    assert more[:, N // 2].max() < 0.4 * 0.05
