"""Ends of a learned body that no image shows: the body is made as much shorter.

A tail that thins to a thread and then ends fits best as one that fades for ever, which goes on far beyond it: what is
drawn there is so faint that it costs nothing. One frame does not tell, but all of them together do. Along the curve,
over all frames that the body was learned from and all views, light is measured to a share of the noise, and where
there is none there is no body.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from midline3d.cameras import project
from midline3d.fitting.views import room_around
from midline3d.shapes import Float, Tensor
from midline3d.tracking.clip import Clip
from midline3d.tracking.evidence import light_at
from midline3d.tracking.learning import Animal, at_length
from midline3d.tracking.masks import averaged

NOTHING = 0.02
"""Of the body's brightness: less light is none. At the true ends of simulated animals of four image models, and at
clicks on real ones, there is 1 to 40 % of it, and 2 px beyond less than 1 % where nothing else lies."""
SURE = 2.0
"""Standard errors by which light must fall short of that: where noise hides a tail, nothing is cut off."""
WINDOW = 3
"""Vertices over which light is averaged: some 3 px."""
ROUNDS = 3
"""Times at most that ends are cut off: the rest may slide along the body while it is fitted again."""


@dataclass(frozen=True)
class Unseen:
    """How much of the body no image shows at either end, as shares of its length."""

    head: float
    tail: float


def as_far_as_seen(clip: Clip, animal: Animal) -> Animal:
    """The animal without what of its ends no image shows; `clip` has the cameras as they were calibrated."""
    own = clip.settings.body
    if not own.learned or not own.stretch:
        return animal
    for _ in range(ROUNDS):
        unseen = unseen_ends(animal)
        share = max(unseen.head, unseen.tail)
        if share < own.stretch:
            break
        animal = at_length(clip, animal, (1 - share) * animal.body.length, unseen.tail >= unseen.head)
    return animal


def unseen_ends(animal: Animal) -> Unseen:
    """What of an animal lies where all frames and views together show nothing."""
    light = light_along(animal)
    middle = light.nanmedian(0).values
    # A median's standard error, by the median distance to it: dirt and crossings do not move either.
    spread = 1.4826 * (light - middle).abs().nanmedian(0).values
    error = 1.2533 * spread / light.isfinite().sum(0).clamp(min=1).sqrt()
    dark = (middle + SURE * error < NOTHING).tolist()
    count = len(dark)
    head = next((place for place in range(count) if not dark[place]), 0)
    tail = next((place for place in range(count) if not dark[count - 1 - place]), 0)
    return Unseen(head / (count - 1), tail / (count - 1))


def light_along(animal: Animal) -> Float[Tensor, "image vertex"]:
    """Light along the curve in every frame and view, of the body's brightness; NaN beyond the pictures."""
    clip, frames, states = animal.clip, animal.sample.frames, animal.sample.states
    light = clip.without_dirt(clip.signal(frames), frames)
    light = (light if clip.veil is None else clip.veil.removed(light)) / clip.brightness[:, None, None]
    seen = project(clip.local_cameras(frames), states.points, states.shift)
    along = light_at(averaged(light), seen)
    along = along.masked_fill(room_around(seen, clip.picture(frames)) < 1, torch.nan).flatten(0, 1)
    # The ends' own windows are shorter.
    inside = torch.nn.functional.avg_pool1d(
        along[:, None], WINDOW, stride=1, padding=WINDOW // 2, count_include_pad=False
    )
    return inside[:, 0]
