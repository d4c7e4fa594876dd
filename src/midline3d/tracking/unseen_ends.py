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
from midline3d.tracking.evidence import body_width, light_at
from midline3d.tracking.learning import Animal, at_length, body_taper
from midline3d.tracking.masks import averaged

NOTHING = 0.02
"""Of the body's brightness: less light than this above that beside the curve is none. At the true ends of simulated
animals of three image models, and at clicks on real ones, there is 1 to 46 % of it, where a tail was drawn too long
0.3 % at most, known to 0.6 %."""
SURE = 2.0
"""Standard errors by which light must fall short of that: where noise hides a tail, nothing is cut off."""
WINDOW = 3
"""Vertices over which light is averaged: some 3 px."""
FEWEST = 12
"""Images, of all frames and views together, whose spread tells how exactly their median is known."""
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
    """What of an animal lies where all frames and views together show no more light than beside it."""
    images, beside_them = light_along(animal)
    if len(images) < FEWEST:
        return Unseen(0.0, 0.0)
    light, beside = _stacked(images), _stacked(beside_them)
    # Other parts of the body and dirt lie on one side: the darker one tells what there is without the body.
    side = beside.middle.argmin(0)
    background, its_error = (each.gather(0, side[None])[0] for each in (beside.middle, beside.error))
    above = light.middle - background + SURE * (light.error.square() + its_error.square()).sqrt()
    dark = ((above < NOTHING) & (light.middle < animal.clip.settings.evidence.faint)).tolist()
    count = len(dark)
    head = next((place for place in range(count) if not dark[place]), 0)
    tail = next((place for place in range(count) if not dark[count - 1 - place]), 0)
    return Unseen(head / (count - 1), tail / (count - 1))


@dataclass(frozen=True)
class _Stacked:
    """Light in the middle one of many images, and its standard error."""

    middle: Float[Tensor, "*side vertex"]
    error: Float[Tensor, "*side vertex"]


def _stacked(light: Float[Tensor, "image *side vertex"]) -> _Stacked:
    """By medians: dirt and crossings move neither. The factors are a normal distribution's."""
    middle = light.nanmedian(0).values
    spread = 1.4826 * (light - middle).abs().nanmedian(0).values
    return _Stacked(middle, 1.2533 * spread / light.isfinite().sum(0).clamp(min=1).sqrt())


def light_along(animal: Animal) -> tuple[Float[Tensor, "image vertex"], Float[Tensor, "image 2 vertex"]]:
    """Light along the curve, and a body's width to both sides of it, in every frame and view; of the body's brightness,
    NaN beyond the pictures."""
    clip, frames, states = animal.clip, animal.sample.frames, animal.sample.states
    light = clip.without_dirt(clip.without_veil(clip.signal(frames)), frames)
    light = averaged(light / clip.brightness[:, None, None])
    seen = project(clip.local_cameras(frames), states.points, states.shift)
    along = torch.nn.functional.normalize(torch.gradient(seen, dim=2)[0], dim=-1)
    width = body_width(body_taper(clip, frames[0], animal.body), clip.settings.evidence)
    across = torch.stack([-along[..., 1], along[..., 0]], -1) * width[:, None, None]
    picture = clip.picture(frames)

    def sampled(places: Float[Tensor, "frame camera vertex 2"]) -> Float[Tensor, "image vertex"]:
        there = light_at(light, places).masked_fill(room_around(places, picture) < 1, torch.nan).flatten(0, 1)
        padded = torch.nn.functional.pad(there[:, None], (WINDOW // 2, WINDOW // 2), mode="replicate")
        return torch.nn.functional.avg_pool1d(padded, WINDOW, stride=1)[:, 0]

    return sampled(seen), torch.stack([sampled(seen + across), sampled(seen - across)], 1)
