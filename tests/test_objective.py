"""Adam's loss and its gradient: float32 by the fast renderer against float64, and float64 against differences."""

from dataclasses import fields, replace

import pytest
import torch
from scenes import BOUNDS, as_float, relative, rig, worm
from torch import Tensor

from midline3d.appearance import PaperTaper, optics
from midline3d.cameras import Cameras, project
from midline3d.fitting.objective import PARAMETERS, Descent, Slope, assembled, row, slope, widths
from midline3d.fitting.views import Views
from midline3d.losses import Losses
from midline3d.rendering import Compiled, Reference, render, select_renderer
from midline3d.settings import AdamSettings, LossWeights
from midline3d.state import FrameState

pytestmark = pytest.mark.skipif(
    not isinstance(select_renderer("cpu"), Compiled),
    reason="the compiled renderer was not built: no C compiler at installation",
)

N, CUTOFF = 24, 1e-3
TERMS = [item.name for item in fields(Losses)]
NOTHING = replace(LossWeights(), **dict.fromkeys(TERMS, 0.0))
# Shares of the largest value of each parameter's gradient. float32 renders are right to 1e-6 of a blob's peak, and a
# pixel at a blob's very edge may count in one and not in the other; curvature and position add many of those up.
TOLERANCE = {"pixels": 3e-4, "scores": 3e-4}
EXACT = 3e-6


def as_double(record: FrameState | Cameras) -> FrameState | Cameras:
    """Numbers that fit into float32, in float64."""
    return type(record)(**{name: value.float().double() for name, value in vars(record).items()})


def coiled(batch: int, seed: int) -> FrameState:
    """Worms that meet themselves and lie askew in the picture, their frames no rotations any more."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    state = worm(batch, N, seed=seed)
    bend = state.curvature * 0.5 + torch.tensor([12.0, 3.0], dtype=torch.float64)
    state = replace(
        state,
        curvature=bend,
        points=state.points + 0.05 * noise(batch, 1, 3),
        length=state.length * (1 + 0.1 * noise(batch)),
        shift=noise(batch, 3),
        sigma=state.sigma * (1 + 0.1 * noise(batch, 3)),
        iota=state.iota * (1 + 0.1 * noise(batch, 3)),
        rho=state.rho * (1 + 0.05 * noise(batch, 3)),
    ).rebuilt(state.middle())
    return as_double(replace(state, bishop=state.bishop + 0.05 * noise(batch, N, 3, 3)))


def pictures(truth: FrameState, cameras: Cameras, size: tuple[int, int]) -> Tensor:
    taper = PaperTaper(N, 0.9, 0.2)
    appearance = taper.apply(truth.view_appearance, optics(cameras, truth.points, truth.bishop[..., 0]))
    blank = torch.zeros(len(truth), 3, *size, dtype=torch.float64)
    images = render(appearance.blobs(project(cameras, truth.points, truth.shift), truth.rho), blank, CUTOFF).image
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return (images + 0.05 * noise).float().double()


def both_directions(state: FrameState, job: Descent, start: Tensor) -> tuple[Slope, Slope]:
    """In float32 and in float64."""
    views = Views(job.views.images.float(), job.views.cameras.to(torch.float32))
    previous = None if job.previous is None else as_float(job.previous)
    low = replace(job, views=views, previous=previous)
    values = row(state, start).float()
    found = slope(low, values, as_float(state), start)
    return found, slope(job, values.double(), state, start)


def a_job(batch: int, seed: int, weights: LossWeights, theta: float, size: tuple[int, int], own: bool) -> Descent:
    cameras = as_double(rig(3, min(size), 30.0, distortion=0.5))
    if own:
        origin = 0.01 * torch.arange(3 * batch, dtype=torch.float64).view(batch, 3)
        crop = torch.arange(6 * batch, dtype=torch.float64).view(batch, 3, 2) / 4
        cameras = as_double(cameras.local(origin, crop))
    views = Views(pictures(coiled(batch, seed + 100), cameras, size), cameras)
    settings = replace(AdamSettings(), theta=theta)
    return Descent(views, PaperTaper(N, 0.9, 0.2), weights, BOUNDS, settings, CUTOFF, coiled(batch, seed + 200))


def assert_alike(found: Slope, right: Slope, state: FrameState, tolerance: float) -> None:
    for name in TERMS:
        assert relative(getattr(found.terms, name).double(), getattr(right.terms, name)) < 1e-5, name
    assert relative(found.shares.double(), right.shares) < 1e-4
    assert relative(found.state.points.double(), right.state.points) < EXACT
    parts = [each.gradient.double().split(widths(state), 1) for each in (found, right)]
    # Forces that cancel leave the rounding of their size behind.
    rounding = EXACT * right.gradient.abs().max()
    for name, one, other in zip(PARAMETERS, *parts, strict=True):
        assert (one - other).abs().max() < tolerance * other.abs().max() + rounding, name


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("term", TERMS)
def test_each_term(term: str, batch: int, seed: int) -> None:
    job = a_job(batch, seed, replace(NOTHING, **{term: 0.7}), 0.0, (48, 48), own=False)
    state = coiled(batch, seed)
    start = torch.tensor([N // 2, 0, N - 1])[seed : seed + batch] if batch == 1 else torch.tensor([5, 0, N - 1])
    found, right = both_directions(state, job, start)
    assert getattr(right.terms, term).min() > 0
    assert_alike(found, right, state, TOLERANCE.get(term, EXACT))


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own-cameras"])
@pytest.mark.parametrize("theta", [0.0, 0.1], ids=["whole", "masked"])
@pytest.mark.parametrize("size", [(48, 48), (37, 53)], ids=str)
def test_all_terms_together(size: tuple[int, int], theta: float, own: bool) -> None:
    state = coiled(2, 7)
    job = a_job(2, 7, replace(LossWeights(), temporal=0.5), theta, size, own)
    found, right = both_directions(state, job, torch.tensor([11, 14]))
    assert_alike(found, right, state, 3e-4)


def test_views_thinner_and_fainter_than_the_tips() -> None:
    state = coiled(1, 3)
    thin = as_double(replace(state, sigma=state.sigma * 0.4, iota=state.iota * 0.2))
    found, right = both_directions(thin, a_job(1, 3, LossWeights(), 0.0, (48, 48), own=False), torch.tensor([12]))
    assert_alike(found, right, state, 1e-3)


def test_a_curve_that_meets_nothing() -> None:
    state = coiled(1, 4)
    job = a_job(1, 4, LossWeights(), 0.1, (32, 32), own=False)
    outside = replace(state, points=state.points + 9.0)
    found, right = both_directions(outside, job, torch.tensor([12]))
    assert found.terms.scores.item() == 0 and not found.shares.any()
    # The frame's gradient is what is left of forces that cancel.
    assert_alike(found, right, state, 0.1)


def test_the_fast_renderer_is_the_dense_one() -> None:
    state, job = coiled(1, 0), a_job(1, 0, LossWeights(), 0.0, (32, 32), own=False)
    start = torch.tensor([12])
    views = Views(job.views.images.float(), job.views.cameras.to(torch.float32))
    low, single = as_float(state), replace(job, views=views, previous=None)
    dense = slope(replace(single, renderer=Reference()), row(low, start), low, start)
    fast = slope(single, row(low, start), low, start)
    assert not fast.gradient.requires_grad and not fast.state.points.requires_grad
    assert relative(fast.gradient, dense.gradient) < 1e-3


def test_the_gradient_against_differences() -> None:
    """Of all terms that are smooth, by every kind of parameter, along some random directions."""
    state, start = coiled(1, 5), torch.tensor([12])
    smooth = replace(LossWeights(), scores=0.0, intersections=0.0, temporal=0.5)
    job = a_job(1, 5, smooth, 0.0, (48, 48), own=False)
    values = row(state, start)
    found = slope(job, values, state, start).gradient
    generator, step = torch.Generator().manual_seed(1), 1e-6
    for part in torch.arange(values.shape[1]).split(widths(state)):
        way = torch.zeros_like(values)
        way[:, part] = torch.randn(1, len(part), generator=generator, dtype=torch.float64)
        ahead, behind = (slope(job, values + sign * step * way, state, start).terms.total() for sign in (1, -1))
        assert relative((found * way).sum(1), (ahead - behind) / (2 * step)) < 0.02


def test_a_row_holds_all_that_adam_moves() -> None:
    state = worm(2, N).rebuilt(torch.tensor([3, 20]))
    start = torch.tensor([3, 20])
    again = assembled(row(state, start), state, start)
    assert sum(widths(state)) == row(state, start).shape[1]
    for name, value in vars(again).items():
        assert torch.allclose(value, getattr(state, name), atol=1e-9), name
