"""Where a recording begins: random straight lines in one batch, fitted to coarse images first, the best kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import avg_pool2d, conv2d, interpolate

from midline3d.cameras import scale
from midline3d.fitting.body import average_body
from midline3d.fitting.contact import as_bodies
from midline3d.fitting.second_order import Fit, Problem, fit
from midline3d.fitting.views import Views
from midline3d.kernels import select_backend, spline_basis
from midline3d.rendering import Objective
from midline3d.settings import Settings
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState


@dataclass(frozen=True)
class Level:
    """How much of the images a search looks at, and how."""

    blur: float
    """Standard deviation of a Gaussian laid over the images, in sigmas of the worm: how far a curve feels its light."""
    pixel: float
    """Size of a pixel, in the same unit: as large as the blurred worm allows."""
    contrast: float
    """Brightness of the body's middle before logarithms are taken: the higher, the more faint light counts."""
    robust: float
    """c of Cauchy's loss."""
    vertices: int
    nodes: int
    keep_length: float
    """Weight of squared log length against the worm's. It makes a short line grow over the body, by a tenth a step, and
    keeps it from being content with a part of it."""
    iterations: int


LEVELS = (
    Level(
        blur=3.0,
        pixel=2.0,
        contrast=2.0,
        robust=math.inf,
        vertices=24,
        nodes=10,
        keep_length=100.0,
        iterations=25,
    ),
    Level(
        blur=0.0,
        pixel=0.7,
        contrast=5.0,
        robust=1.0,
        vertices=64,
        nodes=24,
        keep_length=10.0,
        iterations=15,
    ),
)
"""Blurred, so that a line anywhere near the worm is drawn onto it; then as it is. Over nine recordings in coils, blur
and dirt 99 of 100 curves that the first level kept lay on the worm after the second; a third level between them gained
nothing."""
SHARP = 1e3
"""Weight of squared defocus: blur that changes with depth is not searched for."""
ROUGH = 0.1
"""px of the coarse images: a start has settled once a step moves it by less."""
LENGTHS, WIDTHS = (0.2, 2.0), (0.7, 2.0)
"""Of the silhouette's length, and of the width that the worm has in a level's images: between what a start stays."""
IOTA, RHO = 0.8, 1.1
"""Brightness, as a share of the body's middle, and sharpness that a start begins with: those of most animals."""
BRIGHT, FAINTEST = 0.99, 0.1
"""Quantile of a coarse image that is the worm's brightness there, and its least, as a share of the level's contrast: a
view that does not show the worm has but noise."""
PIXEL = 1 / 12
"""px^2: variance that a pixel's own width adds to an image's."""


@dataclass(frozen=True)
class Guesses:
    """What a search has found in each of its frames, best first."""

    state: FrameState
    """A batch of frame * start rows."""
    loss: Float[Tensor, "frame start"]

    def best(self, count: int) -> FrameState:
        """The best `count` of every frame, frame after frame."""
        frames, starts = self.loss.shape
        chosen = torch.arange(frames)[:, None] * starts + torch.arange(min(count, starts))
        return self.state[chosen.flatten().tolist()]


@dataclass(frozen=True)
class Worm:
    """About the size of what is searched for."""

    length: float
    """mm."""
    sigma: float
    """mm."""


def search(
    views: Views, length: float, sigma: float, settings: Settings, bounds: Bounds, generator: torch.Generator
) -> Guesses:
    """The best starts of every frame, by second order on coarse images. Length and sigma: about the worm's, mm.

    On the CPU, wherever the images lie: some dozen short steps of small images are all launches on a GPU.
    """
    device, worm = views.images.device, Worm(length, sigma)
    views = Views(views.images.cpu(), views.cameras.to("cpu"))
    frames = len(views.images)
    rows = torch.arange(frames).repeat_interleave(settings.start.starts)
    state: FrameState | None = None
    for level in LEVELS:
        found, energy = _fitted(level, views, rows, worm, state, settings, bounds, generator)
        rows, loss, state = _best(found, energy.view(frames, -1), settings.start.kept)
    assert state is not None
    state = replace(
        refined(state, settings.curve.vertices),
        sigma=(sigma * _per_mm(views)).expand(len(state), -1).clone(),
        iota=torch.full_like(state.iota, IOTA),
    )
    return Guesses(state.to(device), loss.to(device))


def _best(found: Fit, energy: Float[Tensor, "frame start"], count: int) -> tuple[Tensor, Tensor, FrameState]:
    """The frames' numbers, the energies and the states of the `count` best of every frame, best first."""
    frames = len(energy)
    loss, order = energy.sort(1)
    loss, order = loss[:, :count], order[:, :count]
    picked = torch.arange(frames)[:, None] * energy.shape[1] + order
    return torch.arange(frames).repeat_interleave(loss.shape[1]), loss, found.state[picked.flatten()]


def _fitted(
    level: Level,
    views: Views,
    rows: Int[Tensor, " row"],
    worm: Worm,
    state: FrameState | None,
    settings: Settings,
    bounds: Bounds,
    generator: torch.Generator,
) -> tuple[Fit, Float[Tensor, " row"]]:
    """All rows, by the numbers of their frames, at one level: from where they stand, or from random lines. With the
    energies by which they are ranked."""
    own = worm.sigma * float(_per_mm(views).mean())
    factor = max(1, round(level.pixel * own))
    blur = level.blur * own / factor
    coarse = blurred(coarser(views, factor), blur)
    coarse = replace(coarse, images=coarse.images * level.contrast).taken(rows)
    width = math.sqrt((own / factor) ** 2 + blur**2 + PIXEL + settings.pixels.floor**2)
    if state is None:
        state = random_starts(coarse, settings.start.length * worm.length, worm.sigma, level.vertices, generator)
    else:
        state = refined(state, level.vertices)
    # Focus and light are not known yet, and what one level has taken them for says nothing of the next.
    bright = coarse.images.flatten(2).quantile(BRIGHT, dim=2)
    state = replace(
        state,
        sigma=torch.full_like(state.sigma, width),
        iota=bright.clamp(FAINTEST * level.contrast, 2 * level.contrast),
        rho=torch.ones_like(state.rho),
        defocus=torch.zeros_like(state.defocus),
    )
    near = replace(
        bounds,
        length=(LENGTHS[0] * worm.length, LENGTHS[1] * worm.length),
        sigma=(WIDTHS[0] * width, WIDTHS[1] * width),
        iota=(bounds.iota[0] * level.contrast, bounds.iota[1] * level.contrast),
    )
    problem = _problem(level, coarse, worm, factor, state, settings, near)
    found = fit(problem, state, level.iterations)
    if level is not LEVELS[-1]:  # a dozen vertices on blurred images do not tell touching parts from one another
        return found, torch.nan_to_num(found.energy, nan=torch.inf)
    return found, as_bodies(problem, found, settings.evidence.width, settings.judging.through)


def _problem(
    level: Level, views: Views, worm: Worm, factor: int, state: FrameState, settings: Settings, bounds: Bounds
) -> Problem:
    """An average animal of the worm's size in coarse views."""
    own, share = settings.second_order, level.vertices / settings.curve.vertices
    # The energies are sums over pixels and vertices: with fewer of them, each counts for more or less.
    weights = replace(
        own,
        pixels=own.pixels * factor**2,
        smoothness=own.smoothness * share**3,
        size=own.size * share,
        keep_length=level.keep_length,
        small_defocus=SHARP,
        settled=ROUGH,
    )
    body = average_body(settings.body, state.length.new_tensor(worm.length))
    body = replace(body, sharp=state.length.new_tensor(worm.sigma))
    return Problem(
        views=views,
        taper=body.profile(level.vertices, _per_mm(views), settings.pixels.floor),
        basis=spline_basis(level.vertices, level.nodes, torch.float32, "cpu"),
        objective=Objective(settings.pixels.cutoff, robust=level.robust),
        weights=weights,
        bounds=bounds,
        anchor=replace(state, length=torch.full_like(state.length, settings.start.whole * worm.length)),
    )


def random_starts(views: Views, length: float, sigma: float, vertices: int, generator: torch.Generator) -> FrameState:
    """A short straight line through the local origin of every frame, turned at random; length and sigma in mm."""
    images = views.images
    count = len(images)
    bishop = torch.linalg.qr(torch.randn(count, 3, 3, generator=generator)).Q.to(images)
    bishop = bishop * torch.linalg.det(bishop)[:, None, None]
    curvature = torch.zeros(count, vertices, 2).to(images)
    lengths = torch.full((count,), length).to(images)
    middle = torch.full((count,), vertices // 2, device=images.device)
    kernels = select_backend(images.device.type, images.dtype)
    made = kernels.integrate(torch.zeros(count, 3).to(images), bishop, curvature, lengths, middle)
    width = (sigma * scale(views.cameras, made.points)).expand(count, images.shape[1])
    return FrameState(
        points=made.points,
        bishop=made.bishop,
        curvature=curvature,
        length=lengths,
        shift=torch.zeros(count, views.cameras.shift_basis.shape[2]).to(images),
        sigma=width.clone(),
        iota=torch.full_like(width, IOTA),
        rho=torch.full_like(width, RHO),
        defocus=torch.zeros_like(width),
    )


def coarser(views: Views, factor: int) -> Views:
    """The views with pixels `factor` times as large."""
    if factor == 1:
        return views
    cameras = views.cameras
    small = replace(
        cameras,
        focal=cameras.focal / factor,
        centre=(cameras.centre + 0.5) / factor - 0.5,
        shift_basis=cameras.shift_basis / factor,
    )
    return Views(avg_pool2d(views.images, factor).contiguous(), small)


def blurred(views: Views, sigma: float) -> Views:
    """The views under a Gaussian of this standard deviation, px; beyond the border is nothing."""
    if sigma <= 0:
        return views
    reach = math.ceil(3 * sigma)
    place = torch.arange(-reach, reach + 1).to(views.images)
    row = torch.exp(-place.square() / (2 * sigma**2))
    row = (row / row.sum()).view(1, 1, 1, -1)
    images = conv2d(views.images.flatten(0, 1)[:, None], row, padding=(0, reach))
    images = conv2d(images, row.mT, padding=(reach, 0))
    return replace(views, images=images.view_as(views.images).contiguous())


def refined(state: FrameState, vertices: int) -> FrameState:
    """The same curves with another number of vertices."""
    bend = interpolate(state.curvature.mT, vertices, mode="linear", align_corners=True).mT.contiguous()
    old = state.vertices // 2
    middle = torch.full((len(state),), vertices // 2, device=bend.device)
    # The middle vertex of an even number lies half a segment beyond the middle of the body.
    kernels = select_backend(bend.device.type, bend.dtype)
    made = kernels.integrate(state.points[:, old], state.bishop[:, old], bend, state.length, middle)
    return replace(state, points=made.points, bishop=made.bishop, curvature=bend)


def _per_mm(views: Views) -> Float[Tensor, " camera"]:
    """px per mm of every view, at the local origins."""
    return scale(views.cameras, views.images.new_zeros(len(views.images), 1, 3)).mean(0)
