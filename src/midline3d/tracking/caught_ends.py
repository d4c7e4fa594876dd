"""Ends of a learned body that lie on dirt: the body is tried without them.

Where dirt lies beside an end in several views, the body that fits best may be one that goes on through it, in every
frame that it is learned from; then no frame ever shows what of that light is dirt. So the end is cut off, and what the
rest leaves over is looked at again. Light that stays where it is is dirt's, and is taken off; light that moves along
with the body is left, and the end grows back to it. The shorter body counts where it leaves less over.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from midline3d.settings import DirtSettings
from midline3d.tracking.clip import Clip
from midline3d.tracking.evidence import body_width
from midline3d.tracking.learning import (
    LENGTH_ITERATIONS,
    ROUGH,
    Animal,
    body_taper,
    dirt_beside,
    drawn_light,
    fitted,
    nat,
    resized,
)
from midline3d.tracking.masks import grown
from midline3d.tracking.threads import on_all_cores

ROUNDS = 2
"""Times that ends are cut off: the second time the first one's dirt is known, and the other end may come off."""
END = 0.1
"""Of the body's brightness: where the whole body is brighter by more than without its end, the end is drawn."""
BESIDE = 2.0
"""Widths of the body around an end within which dirt could be drawn as more of it."""


def without_dirt(clip: Clip, animal: Animal) -> Animal:
    """The animal without what of its ends is dirt; `clip` has the cameras as they were calibrated."""
    settings = clip.settings
    if not settings.dirt.removed or not settings.body.learned:
        return animal
    rough = ROUGH * settings.body.sure * nat(settings)
    for _ in range(ROUNDS):
        ends = [tail for tail in (True, False) if _doubtful(animal, tail, settings.dirt)]
        if not ends:
            break
        best = whole = fitted(clip, with_dirt(animal), LENGTH_ITERATIONS, settled=rough)
        for tried in on_all_cores(partial(_grown_back, clip, whole, rough), ends):
            if tried.energy < best.energy - settings.body.sure * nat(settings):
                best = tried
        animal = best
        if best is whole:
            break
    return animal


def _grown_back(clip: Clip, whole: Animal, rough: float, tail: bool) -> Animal:
    """The animal with its tail or its head cut off, and grown again to what moves along with it."""
    tried = resized(whole, (1 - clip.settings.dirt.trimmed) * whole.body.length, tail)
    # The dirt under the end shows once it is gone, and what of that was the animal's once it has grown back.
    for _ in range(2):
        tried = fitted(clip, with_dirt(tried), LENGTH_ITERATIONS, settled=rough)
    return tried


def with_dirt(animal: Animal) -> Animal:
    """The animal with the dirt by what its body leaves over."""
    clip, sample = animal.clip, animal.sample
    taper = body_taper(clip, sample.frames[0], animal.body)
    dirt = dirt_beside(clip, sample, taper, drawn_light(clip, sample, taper))
    return replace(animal, clip=replace(clip, dirt=dirt))


def _doubtful(animal: Animal, tail: bool, settings: DirtSettings) -> bool:
    """Whether two views show dirt beside the tail, or beside the head."""
    clip, frames = animal.clip, animal.sample.frames
    if clip.dirt is None:
        return False
    taper = body_taper(clip, frames[0], animal.body)
    cut = resized(animal, (1 - settings.trimmed) * animal.body.length, tail)
    rest = drawn_light(clip, cut.sample, body_taper(clip, frames[0], cut.body))
    end = drawn_light(clip, animal.sample, taper) - rest
    unit = clip.brightness[:, None, None]
    width = float(body_width(taper, clip.settings.evidence).mean())
    near = grown(end > END * unit, round(BESIDE * width))
    nothing = torch.zeros_like(end)
    light = (nothing - clip.without_dirt(nothing, frames)) / unit
    pieces = torch.where(near, light, 0.0).sum((2, 3)).mean(0) / width**2
    return bool((pieces > settings.beside).sum() >= 2)
