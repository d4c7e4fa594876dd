"""Where a recording begins: random straight lines in one batch, grown and pulled onto the animal, the best kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.nn.functional import avg_pool2d, interpolate

from midline3d import curve
from midline3d.appearance import PaperTaper
from midline3d.cameras import Cameras, scale
from midline3d.fitting.adam import descend
from midline3d.fitting.objective import Descent
from midline3d.fitting.views import Views
from midline3d.settings import AdamSettings, Settings
from midline3d.shapes import Float, Tensor
from midline3d.state import Bounds, FrameState

USUAL_LENGTH, USUAL_SIGMA, USUAL_AREA = 1.1, 4.0, 900.0
"""mm, px and px^2 of the worm for which the steps of `AdamSettings` and the weights of the losses are given."""
COARSE_SIGMA = 1.5
"""px that the worm's sigma is brought down to for the search: thinner, it would fall between the pixels."""
COARSE_VERTICES = 64


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


def random_starts(views: Views, length: float, sigma: float, vertices: int, generator: torch.Generator) -> FrameState:
    """A short straight line through the local origin of every frame, turned at random; length and sigma in mm."""
    images = views.images
    count = len(images)
    frames = torch.linalg.qr(torch.randn(count, 3, 3, generator=generator)).Q.to(images)
    frames = frames * torch.linalg.det(frames)[:, None, None]
    curvature = torch.zeros(count, vertices, 2).to(images)
    lengths = torch.full((count,), length).to(images)
    middle = torch.full((count,), vertices // 2, device=images.device)
    made = curve.integrate(torch.zeros(count, 3).to(images), frames, curvature, lengths, middle)
    width = (sigma * scale(views.cameras, made.points)).expand(count, images.shape[1])
    return FrameState(
        points=made.points,
        frames=made.frames,
        curvature=curvature,
        length=lengths,
        shift=torch.zeros(count, views.cameras.shift_basis.shape[2]).to(images),
        sigma=width.clone(),
        iota=torch.full_like(width, 0.8),
        rho=torch.full_like(width, 1.1),
        defocus=torch.zeros_like(width),
    )


def search(
    views: Views, length: float, sigma: float, settings: Settings, bounds: Bounds, generator: torch.Generator
) -> Guesses:
    """All starts of all frames in one batch, after descent on coarse images. Length and sigma: about the worm's, mm.

    On the CPU, wherever the images lie: some hundred short steps of small images are all launches on a GPU.
    """
    device = views.images.device
    views = Views(views.images.cpu(), views.cameras.to("cpu"))
    starts, frames = settings.start.starts, len(views.images)
    per_px = float(sigma * scale(views.cameras, views.images.new_zeros(frames, 1, 3)).mean())
    factor = max(1, int(per_px / COARSE_SIGMA))
    rows = torch.arange(frames, device=views.images.device).repeat_interleave(starts)
    coarse = _rows(coarser(views, factor), rows)
    width = per_px / factor
    scaled = _scaled(settings, length, width)
    near = replace(bounds, length=(0.4 * length, 2.0 * length), sigma=(0.3 * width, 4 * width))
    begin = random_starts(coarse, settings.start.length * length, sigma, COARSE_VERTICES, generator)
    taper = PaperTaper(COARSE_VERTICES, scaled.adam.sigma_min, scaled.adam.iota_min)
    weights = replace(settings.losses, pixels=settings.losses.pixels * _area(length, width, factor, views))
    descent = Descent(coarse, taper, weights, near, scaled.adam, settings.pixels.cutoff)
    floor = torch.linspace(settings.start.length, settings.start.longest, settings.start.warm_up) * length
    found = descend(descent, begin, generator, floor)
    loss = found.losses.total().view(frames, starts)
    order = loss.argsort(1)
    picked = (torch.arange(frames, device=order.device)[:, None] * starts + order).flatten()
    state = finer(found.state[picked], factor, settings.curve.vertices)
    return Guesses(state.to(device), loss.gather(1, order).to(device))


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


def finer(state: FrameState, factor: int, vertices: int) -> FrameState:
    """States of coarse views as those of the whole ones, with more vertices."""
    bend = interpolate(state.curvature.mT, vertices, mode="linear", align_corners=True).mT.contiguous()
    old = state.vertices // 2
    middle = torch.full((len(state),), vertices // 2, device=bend.device)
    # The middle vertex of an even number lies half a segment beyond the middle of the body.
    made = curve.integrate(state.points[:, old], state.frames[:, old], bend, state.length, middle)
    return replace(state, points=made.points, frames=made.frames, curvature=bend, sigma=state.sigma * factor)


def _rows(views: Views, rows: Tensor) -> Views:
    values = {name: value if name == "shift_basis" else value[rows] for name, value in vars(views.cameras).items()}
    # In one piece, once: the renderer would make a copy of its own at every step.
    return Views(views.images[rows].contiguous(), Cameras(**values))


def _area(length: float, width: float, factor: int, views: Views) -> float:
    """How much smaller the worm's image is than the usual one: the pixels' weight grows by it."""
    per_mm = float(scale(views.cameras, views.images.new_zeros(len(views.images), 1, 3)).mean()) / factor
    return USUAL_AREA / max(1.0, length * per_mm * 2 * width)


def _scaled(settings: Settings, length: float, width: float) -> Settings:
    """The steps for a worm of this length (mm) and sigma (px). No masks: before the animal is found they would hide it.
    No early stop: the starts are compared at the end."""
    adam, long, wide = settings.adam, length / USUAL_LENGTH, width / USUAL_SIGMA
    steps: AdamSettings = replace(
        adam,
        position=adam.position * long,
        length=adam.length * long,
        shift=adam.shift,
        sigma=adam.sigma * wide,
        sigma_min=adam.sigma_min * wide,
        steps=settings.start.steps,
        theta=0.0,
        settled=0.0,
        patience=settings.start.steps,
    )
    return replace(settings, adam=steps)
