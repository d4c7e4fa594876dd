"""The paper's way of fitting a frame: Adam with its taper, masks, scores and centre-shifts, on plain brightness.

No second order anywhere: neither before, to find the animal, nor after, to put frames right.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

from midline3d.appearance import PaperTaper, optics
from midline3d.cameras import project
from midline3d.errors import InputError
from midline3d.fitting.adam import descend
from midline3d.fitting.objective import Descent
from midline3d.fitting.second_order import Fit
from midline3d.fitting.warm_up import search
from midline3d.losses import Losses
from midline3d.rendering import render
from midline3d.settings import AdamSettings
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState
from midline3d.tracking.clip import Clip
from midline3d.tracking.silhouette import Size


def descended(clip: Clip, frame: int, start: FrameState) -> Fit:
    """A frame fitted from where the animal was in the one before."""
    return _descended(clip, [frame], start, clip.settings.adam, torch.Generator().manual_seed(frame), tracked=True)


def searched_by_adam(clip: Clip, frames: list[int], size: Size, generator: torch.Generator) -> FrameState:
    """The best of many random starts in each of the frames: short lines that grow on coarse images, the best of them
    fitted to the end on the images themselves."""
    settings = clip.settings
    guesses = search(clip.plain_views(frames), size.length, size.sigma, settings, clip.plain_bounds(), generator)
    best = guesses.best(settings.start.polish)
    count = len(best) // len(frames)
    many = [frame for frame in frames for _ in range(count)]
    longer = replace(settings.adam, steps=settings.adam.first_steps)
    begin = replace(best, iota=best.iota * clip.contrast)
    found = _descended(clip, many, begin, longer, generator, tracked=False)
    loss = torch.nan_to_num(found.energy, nan=torch.inf).view(len(frames), count)
    return found.state[torch.arange(len(frames), device=loss.device) * count + loss.argmin(1)]


def drawn_by_paper(clip: Clip, frames: list[int], state: FrameState) -> Float[Tensor, "batch camera w w"]:
    """The render of states by the paper's taper, of the body's brightness."""
    views, plain = clip.plain_views(frames), _plain(clip, state)
    seen = optics(views.cameras, plain.points, plain.bishop[..., 0])
    appearance = _taper(clip).apply(plain.view_appearance, seen)
    blobs = appearance.blobs(project(views.cameras, plain.points, plain.shift), plain.rho)
    return render(blobs, views.images, clip.settings.pixels.cutoff).image


def _descended(
    clip: Clip,
    frames: list[int],
    start: FrameState,
    adam: AdamSettings,
    generator: torch.Generator,
    tracked: bool,
) -> Fit:
    """States of the clip's brightness fitted by Adam; tracked: the temporal loss holds them to where they start."""
    settings, held = clip.settings, _held(adam, start.sigma.shape[1])
    fixed = {name: start.sigma.new_tensor(values).expand_as(start.sigma) for name, values in held.items()}
    plain = replace(_plain(clip, start), **fixed)
    rates: dict[str, Any] = dict.fromkeys(held, 0.0)
    still = replace(adam, **rates)
    descent = Descent(
        views=clip.plain_views(frames),
        taper=_taper(clip),
        weights=settings.losses,
        bounds=clip.plain_bounds(),
        settings=still,
        cutoff=settings.pixels.cutoff,
        previous=plain if tracked else None,
    )
    done = descend(descent, plain, generator)
    terms = {item.name: getattr(done.losses, item.name) for item in fields(Losses)}
    state = replace(done.state, iota=done.state.iota * clip.contrast)
    return Fit(state, done.losses.total(), terms, done.steps)


def _plain(clip: Clip, state: FrameState) -> FrameState:
    """A state at the brightness of `Clip.plain_views`, without the blur that changes with depth."""
    return replace(state, iota=state.iota / clip.contrast, defocus=torch.zeros_like(state.defocus))


def _taper(clip: Clip) -> PaperTaper:
    adam = clip.settings.adam
    return PaperTaper(clip.settings.curve.vertices, adam.sigma_min, adam.iota_min)


def _held(adam: AdamSettings, views: int) -> dict[str, tuple[float, ...]]:
    """What is held of each view's appearance, by its name."""
    each = {"sigma": adam.held_sigma, "iota": adam.held_iota, "rho": adam.held_rho}
    for name, values in each.items():
        if values and len(values) != views:
            raise InputError(
                f"'adam.held_{name}' has {len(values)} numbers for {views} cameras; give one for each camera"
            )
    return {name: values for name, values in each.items() if values}
