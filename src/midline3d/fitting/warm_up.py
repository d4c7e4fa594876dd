"""The paper's first frame: short random lines that Adam pulls onto the animal while their least length grows."""

from __future__ import annotations

from dataclasses import replace

import torch

from midline3d.appearance import PaperTaper
from midline3d.cameras import scale
from midline3d.fitting.adam import descend
from midline3d.fitting.objective import Descent
from midline3d.fitting.start import Guesses, coarser, random_starts, refined
from midline3d.fitting.views import Views
from midline3d.settings import AdamSettings, Settings
from midline3d.state import Bounds

USUAL_LENGTH, USUAL_SIGMA, USUAL_AREA = 1.1, 4.0, 900.0
"""mm, px and px^2 of the worm for which the steps of `AdamSettings` and the weights of the losses are given."""
COARSE_SIGMA = 1.5
"""px that the worm's sigma is brought down to: thinner, it would fall between the pixels."""
COARSE_VERTICES = 64
"""Enough for a body of some 40 px."""
LENGTHS, WIDTHS = (0.4, 2.0), (0.3, 4.0)
"""Of the silhouette's length and width: between what a start stays. A coil hides a part of itself, dirt adds to it."""


def search(
    views: Views, length: float, sigma: float, settings: Settings, bounds: Bounds, generator: torch.Generator
) -> Guesses:
    """All starts of all frames in one batch, after descent on coarse images. Length and sigma: about the worm's, mm."""
    adam, starts, frames = settings.adam, settings.start.starts, len(views.images)
    per_mm = float(scale(views.cameras, views.images.new_zeros(frames, 1, 3)).mean())
    factor = max(1, int(sigma * per_mm / COARSE_SIGMA))
    rows = torch.arange(frames, device=views.images.device).repeat_interleave(starts)
    coarse, width = coarser(views, factor).taken(rows), sigma * per_mm / factor
    area = length * per_mm / factor * 2 * width
    scaled = _scaled(adam, length, width)
    descent = Descent(
        views=coarse,
        taper=PaperTaper(COARSE_VERTICES, scaled.sigma_min, scaled.iota_min),
        weights=replace(settings.losses, pixels=settings.losses.pixels * USUAL_AREA / max(1.0, area)),
        bounds=replace(
            bounds, length=(LENGTHS[0] * length, LENGTHS[1] * length), sigma=(WIDTHS[0] * width, WIDTHS[1] * width)
        ),
        settings=scaled,
        cutoff=settings.pixels.cutoff,
    )
    begin = random_starts(coarse, adam.shortest * length, sigma, COARSE_VERTICES, generator)
    floor = torch.linspace(adam.shortest, adam.longest, adam.warm_up) * length
    found = descend(descent, begin, generator, floor)
    loss, order = found.losses.total().view(frames, starts).sort(1)
    state = found.state[(torch.arange(frames, device=order.device)[:, None] * starts + order).flatten()]
    return Guesses(replace(refined(state, settings.curve.vertices), sigma=state.sigma * factor), loss)


def _scaled(adam: AdamSettings, length: float, width: float) -> AdamSettings:
    """The steps for a worm of this length (mm) and sigma (px). No masks: before the animal is found they would hide it.
    No early stop: the starts are compared at the end."""
    long, wide = length / USUAL_LENGTH, width / USUAL_SIGMA
    return replace(
        adam,
        position=adam.position * long,
        length=adam.length * long,
        sigma=adam.sigma * wide,
        sigma_min=adam.sigma_min * wide,
        steps=adam.first_steps,
        theta=0.0,
        settled=0.0,
        patience=adam.first_steps,
    )
