"""Where a recording begins: random straight lines in one batch, grown and pulled onto the animal, the best kept."""

from __future__ import annotations

from dataclasses import replace

import torch

from midline3d import curve
from midline3d.appearance import Taper
from midline3d.cameras import scale
from midline3d.fitting.adam import descend
from midline3d.fitting.objective import Descent
from midline3d.fitting.views import Views
from midline3d.settings import AdamSettings, Settings
from midline3d.shapes import Float, Tensor
from midline3d.state import Bounds, FrameState


def random_starts(count: int, views: Views, length: float, vertices: int, generator: torch.Generator) -> FrameState:
    """Short straight lines through the local origin, turned at random."""
    images = views.images
    frames = torch.linalg.qr(torch.randn(count, 3, 3, generator=generator)).Q.to(images)
    frames = frames * torch.linalg.det(frames)[:, None, None]
    curvature = torch.zeros(count, vertices, 2).to(images)
    lengths = torch.full((count,), length).to(images)
    middle = torch.full((count,), vertices // 2, device=images.device)
    made = curve.integrate(torch.zeros(count, 3).to(images), frames, curvature, lengths, middle)
    cameras = images.shape[1]
    # An adult is some 60 um thick: its sigma in px follows from the magnification alone.
    sigma = (0.03 * scale(views.cameras, made.points)).expand(count, cameras)
    return FrameState(
        points=made.points,
        frames=made.frames,
        curvature=curvature,
        length=lengths,
        shift=torch.zeros(count, views.cameras.shift_basis.shape[2]).to(images),
        sigma=sigma.clone(),
        iota=torch.full_like(sigma, 0.8),
        rho=torch.full_like(sigma, 1.1),
        defocus=torch.zeros_like(sigma),
    )


def first_guesses(
    views: Views, taper: Taper, settings: Settings, bounds: Bounds, generator: torch.Generator
) -> tuple[FrameState, Float[Tensor, " start"]]:
    """All starts of one frame after descent, best first, with their losses. `views` is a batch of that one frame."""
    begin = settings.start
    # In one piece, once: the renderer would make a copy of its own at every step.
    many = Views(views.images.expand(begin.starts, -1, -1, -1).contiguous(), views.cameras)
    state = random_starts(begin.starts, many, begin.length, settings.curve.vertices, generator)
    descent = Descent(many, taper, settings.losses, bounds, _searching(settings), settings.pixels.cutoff)
    floor = torch.linspace(begin.length, 0.8 * sum(bounds.length) / 2, begin.warm_up)
    found = descend(descent, state, generator, floor)
    total = found.losses.total()
    order = total.argsort()
    return found.state[order], total[order]


def _searching(settings: Settings) -> AdamSettings:
    # No masks yet: before the animal is found they would hide it. No early stop: the starts are compared at the end.
    return replace(settings.adam, steps=settings.start.steps, theta=0.0, settled=0.0, patience=settings.start.steps)
