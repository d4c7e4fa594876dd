"""Which end of an animal is the blunter: the one at which light rises more steeply from nothing.

What was learned of the body does not say it. A body is learned with a blunt head at keypoint 0, and read the wrong way
round it slides along the animal until it has one: it ends short of the true tail, where that is as wide as a head. So
the light itself is asked, of all frames together, from beyond the ends inwards.
"""

from __future__ import annotations

import numpy as np
import torch

from midline3d.cameras import project
from midline3d.fitting.views import room_around
from midline3d.shapes import Float, Tensor
from midline3d.tracking.evidence import body_width, light_at
from midline3d.tracking.learning import Animal, body_taper, stretched
from midline3d.tracking.seen_ends import light_of

RISES = (0.03, 0.2)
"""Of the body's usual light across it, between which light rises at an end. Of 51 animals of two image models, learned
either way round, 40 were told rightly by it."""
BEYOND = 0.15
"""Of the length: how far beyond its ends the light begins that is looked at."""
ACROSS, STEPS, EDGE = 1.3, 27, 3
"""Widths of the body to either side at which its light is summed, at how many places in all, and how many of these on
either side tell what lies behind it."""
APART, ALONG = 2.2, 5.0
"""Widths of the body within which another part of it hides an end's light, and how far along the body that begins."""
USUAL = 0.85
"""Quantile of the light across the body that is its usual one."""
FEWEST = 3
"""Frames that tell a view's light at a place."""
KNOWN = 2.5
"""Standard errors that a level must stand out of the noise."""
LASTS = 4
"""Vertices in a row at which light must have risen: a speck before an end is shorter."""
SHORTEST = 0.004
"""Of the length: a shorter rise is not told from none."""
MOST = 1.5
"""Most that one reading says, as it stands in `blunter_head`: more is a view in which an end was hardly seen."""


def blunter_head(animal: Animal, turned: Animal) -> float:
    """Natural logarithm of how much longer light takes to rise at the last keypoint than at keypoint 0, positive where
    keypoint 0 is the blunter end; 0 where nothing tells. turned: the animal learned the other way round."""
    return (_longer_tail(light_across(animal)) - _longer_tail(light_across(turned))) / 2


def light_across(animal: Animal) -> Float[Tensor, "frame camera vertex"]:
    """Light summed across an animal in its frames, from `BEYOND` before its head to as far behind its tail; NaN where
    another part of it or the picture's border is near."""
    clip, sample = animal.clip, animal.sample
    states = stretched(stretched(sample.states, BEYOND, True), BEYOND / (1 + BEYOND), False)
    seen = project(clip.local_cameras(sample.frames), states.points, states.shift)
    way = torch.nn.functional.normalize(torch.gradient(seen, dim=2)[0], dim=-1)
    width = body_width(body_taper(clip, sample.frames[0], animal.body), clip.settings.evidence).view(1, -1, 1, 1)
    aside, light = width * torch.stack([-way[..., 1], way[..., 0]], -1), light_of(animal)
    steps = torch.linspace(-ACROSS, ACROSS, STEPS).tolist()
    section = torch.stack([light_at(light, seen + step * aside) for step in steps], -1)
    behind = torch.minimum(section[..., :EDGE].mean(-1), section[..., -EDGE:].mean(-1))
    room = room_around(seen, clip.picture(sample.frames))
    return (section.mean(-1) - behind).masked_fill(_beside_itself(seen, width) | (room < 1), torch.nan)


def _beside_itself(
    seen: Float[Tensor, "frame camera vertex 2"], width: Float[Tensor, "1 camera 1 1"]
) -> Float[Tensor, "frame camera vertex"]:
    """Where another part of the body lies; of what goes on beyond its ends nothing counts as body."""
    count = seen.shape[2]
    place = torch.linspace(-BEYOND, 1 + BEYOND, count)
    body = (place >= 0) & (place <= 1)
    gone = torch.nn.functional.pad(seen.diff(dim=2).norm(dim=-1).cumsum(-1), (1, 0))
    far = (gone[..., :, None] - gone[..., None, :]).abs() > ALONG * width
    return ((torch.cdist(seen, seen) < APART * width) & far & body).any(-1)


def _longer_tail(light: Float[Tensor, "frame camera vertex"]) -> float:
    """Natural logarithm of how much longer light takes to rise behind than before: the middle one of all views that
    tell."""
    told = [ratio for view in light.double().unbind(1) if np.isfinite(ratio := _ratio(view.numpy()))]
    return float(np.clip(np.median(told), -MOST, MOST)) if told else 0.0


def _ratio(light: Float[np.ndarray, "frame vertex"]) -> float:
    """Of one view; NaN where it does not tell."""
    count, place = np.isfinite(light).sum(0), np.linspace(-BEYOND, 1 + BEYOND, light.shape[1])
    body, told = (place > 0) & (place < 1), count >= FEWEST
    if not (told & body).any() or not (told & ~body).any():
        return np.nan
    known = np.ma.masked_invalid(light)
    middle = np.ma.median(known, 0)
    # The factors are a normal distribution's.
    error = 1.2533 * 1.4826 * np.ma.median(abs(known - middle), 0) / np.sqrt(np.maximum(count, 1))
    usual = float(np.quantile(middle.data[told & body], USUAL))
    if not usual > 0:
        return np.nan
    least = KNOWN * float(np.median(error.data[told & ~body])) / usual
    steady = np.convolve(np.where(told, middle.filled(np.nan), np.nan) / usual, np.full(3, 1 / 3), "same")
    before, behind = (_rise(one, place, max(RISES[0], least), RISES[1]) for one in (steady, steady[::-1]))
    return float(np.log(max(behind, SHORTEST) / max(before, SHORTEST)))


def _rise(light: Float[np.ndarray, " vertex"], place: Float[np.ndarray, " vertex"], low: float, high: float) -> float:
    """Over how much of the length light rises from one level to another, going inwards; NaN where it is not seen to."""
    return _reaches(light, place, high) - _reaches(light, place, low)


def _reaches(light: Float[np.ndarray, " vertex"], place: Float[np.ndarray, " vertex"], level: float) -> float:
    """The first place, between vertices, from which on light stays above a level; NaN where it is not seen to rise."""
    above = np.convolve(light >= level, np.ones(LASTS), "valid") == LASTS
    first = next((vertex for vertex in np.flatnonzero(above).tolist() if vertex and light[vertex - 1] < level), 0)
    if not first:
        return np.nan
    share = (level - light[first - 1]) / (light[first] - light[first - 1])
    return float(place[first - 1] + share * (place[first] - place[first - 1]))
