"""A learned body ends where its light ends: what no image shows is cut off, and what all of them show is grown. How
gently its light fades says how surely that is the end.

A tail that thins to a thread and then ends fits best as one that fades for ever, which goes on far beyond it: what is
drawn there is so faint that it costs nothing. And a head that is pale for a stretch fits nearly as well without it
where noise hides it in every single frame. One frame does not tell, but all of them together do. Along the curve and
straight on from its ends, over all frames that the body was learned from and all views, light is measured to a share
of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from midline3d.cameras import project
from midline3d.fitting.views import room_around
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState
from midline3d.tracking.clip import Clip
from midline3d.tracking.evidence import body_width, light_at
from midline3d.tracking.learning import UNLIKELY, Animal, at_length, body_taper, drawn_light, nat, stretched
from midline3d.tracking.masks import averaged

NOTHING = 0.02
"""Of the body's brightness: less light than this above that beside the curve is none. At the true ends of simulated
animals of three image models, and at clicks on real ones, there is 1 to 46 % of it, where a tail was drawn too long
0.3 % at most, known to 0.6 %."""
LEFT_AT_HEAD, LEFT_AT_TAIL = 0.02, 0.003
"""Of the body's brightness: more light than this, left over straight on from an end, above that beside it, is more of
the body. Tails thin to threads that show a hundredth of it: over 53 animals of three image models the 90th percentile
of the ends was nearer with 0.003 than with 0.005 and 0.02. Heads end bluntly, and in a coil what the rest of the body
leaves over may lie before them: with a tail's limit one of twelve was drawn 3 px too long."""
ONWARD = 0.1
"""Of the length: how far beyond an end light is looked for at a time."""
DEAR = 12.0
"""Nats, tempered, by which a tail that goes on as all images show may fit worse than without: what it costs is to be
unlike other animals, whose tails are no threads. For heads it is `UNLIKELY`. With that for tails, too, four of 13 were
given half of what showed of them, and ended 0.5 to 3.6 px shorter."""
FADES = (0.05, 0.005)
"""Of the body's brightness: an end's light fades from this much to this little. Of other shares tried nearby none
foretold better how far ends are off."""
OPEN = (0.3, 0.5)
"""Standard deviations of where a head and where a tail ends, in lengths over which its light fades. Over 110 animals of
two image models 73 and 94 % of the heads and 71 and 94 % of the tails were within one and within two. How likely longer
and shorter bodies are says next to nothing of how far ends are off, and nothing beyond this."""
SHARPEST = 1.0
"""px over which the light of a perfectly sharp end seems to fade."""
STEP = 0.005
"""Of the length: half a pixel of a worm of 100 px. A tail that falls short by less is left as it is."""
SURE = 2.0
"""Standard errors by which light must fall short of the one, or exceed the other: where noise hides an end, nothing is
cut off and nothing grown."""
WINDOW = 3
"""Vertices over which light is averaged: some 3 px."""
FEWEST = 12
"""Images, of all frames and views together, whose spread tells how exactly their median is known."""
ROUNDS = 3
"""Times at most that ends are cut off, and grown: the rest may slide along the body while it is fitted again."""


@dataclass(frozen=True)
class Ends:
    """How far the body should reach less at either end, or more, as shares of its length."""

    head: float
    tail: float


def as_far_as_seen(clip: Clip, animal: Animal, right: float = 1.0) -> Animal:
    """The animal without what of its ends no image shows, and with what all images show beyond them; `clip` has the
    cameras as they were calibrated. right: the probability that keypoint 0 is the head."""
    own = clip.settings.body
    if not own.learned or not own.stretch:
        return animal
    for _ in range(ROUNDS):
        unseen = unseen_ends(animal)
        share = max(unseen.head, unseen.tail)
        if share < own.stretch:
            break
        animal = at_length(clip, animal, (1 - share) * animal.body.length, unseen.tail >= unseen.head)
    animal, more = _as_far_as_lit(clip, animal)
    # Light that was not taken: for a thread, say, the body may need another shape than is found from here.
    missed = Ends(more.head if more.head > own.stretch / 2 else 0.0, more.tail)
    head, tail = _open_ends(animal, right)
    unsure = math.hypot(head, missed.head), math.hypot(tail, missed.tail)
    return replace(animal, body=replace(animal.body, unsure=unsure))


def _open_ends(animal: Animal, right: float) -> tuple[float, float]:
    """Standard deviations of where the head and the tail end, of the length: by how gently their light fades, either
    being the other with what is left of the probability `right`; by how likely longer and shorter bodies are where the
    images are too few to tell."""
    fading = fading_ends(animal)
    if fading is None:
        return animal.body.unsure
    sharpest = SHARPEST / (float(animal.body.length) * animal.clip.prepared.scale)
    head, tail = (right * share**2 + (1 - right) * other**2 for share, other in (OPEN, OPEN[::-1]))
    return head**0.5 * max(fading.head - sharpest, 0.0), tail**0.5 * max(fading.tail - sharpest, 0.0)


def _as_far_as_lit(clip: Clip, animal: Animal) -> tuple[Animal, Ends]:
    """The animal with what all images show beyond its ends, and what they still show beyond those."""
    own, more, energy = clip.settings.body, Ends(0.0, 0.0), animal.energy
    for rounds in range(ROUNDS + 1):
        more = left_beyond(animal)
        if rounds == ROUNDS or (more.head < own.stretch and more.tail < STEP):
            break
        # A head goes on by no less than lengths are tried in.
        due = more if more.head >= own.stretch else Ends(0.0, more.tail)
        grown = _grown(clip, animal, due, energy)
        if grown is None:
            break
        animal = grown
    return animal, more


def _grown(clip: Clip, animal: Animal, more: Ends, energy: float) -> Animal | None:
    """The animal longer by what is left over beyond an end, or by half of it, and so on: as much as the body takes.
    None where it takes nothing. energy: of the animal before it was made longer."""
    share, tail = max(more.head, more.tail), more.tail >= more.head
    most = energy + (DEAR if tail else UNLIKELY) * clip.settings.body.sure * nat(clip.settings)
    while share >= STEP:
        grown = at_length(clip, animal, (1 + share) * animal.body.length, tail)
        if grown.energy < most:
            return grown
        share /= 2
    return None


def unseen_ends(animal: Animal) -> Ends:
    """What of an animal lies where all frames and views together show no more light than beside it."""
    seen = _light_along(animal, animal.sample.states, light_of(animal))
    if seen is None:
        return Ends(0.0, 0.0)
    dark = ((seen.above + SURE * seen.error < NOTHING) & (seen.light < animal.clip.settings.evidence.faint)).tolist()
    count = len(dark)
    head = next((place for place in range(count) if not dark[place]), 0)
    tail = next((place for place in range(count) if not dark[count - 1 - place]), 0)
    return Ends(head / (count - 1), tail / (count - 1))


def left_beyond(animal: Animal) -> Ends:
    """How far straight on from an animal's ends all frames and views together show light that is not drawn, at most
    `ONWARD`. Where another part of the body is drawn, too much is left over for so faint a thing as a tail."""
    clip, sample = animal.clip, animal.sample
    drawn = drawn_light(clip, sample, body_taper(clip, sample.frames[0], animal.body))
    drawn, found = averaged(drawn / clip.brightness[:, None, None]), []
    left = light_of(animal) - drawn
    beside_body = left.masked_fill(drawn > clip.settings.dirt.covered, torch.nan)
    for tail, light, least in ((False, left, LEFT_AT_HEAD), (True, beside_body, LEFT_AT_TAIL)):
        longer = stretched(sample.states, ONWARD, tail)
        seen = _light_along(animal, longer, light)
        if seen is None:
            return Ends(0.0, 0.0)
        lit = seen.above - SURE * seen.error > least
        added = round(ONWARD / (1 + ONWARD) * (len(lit) - 1))
        beyond = (lit[-added:] if tail else lit[:added].flip(0)).tolist()
        # The end's own blur is drawn right beyond it, and leaves nothing over there.
        first = next((place for place, is_lit in enumerate(beyond) if is_lit), added)
        last = next((place for place in range(first, added) if not beyond[place]), added)
        near = first <= added // 3
        found.append(last / added * ONWARD if near and last > first else 0.0)
    return Ends(*found)


def fading_ends(animal: Animal) -> Ends | None:
    """Over how much of an animal's length the light of its ends fades (`FADES`), by all frames and views together,
    along the body and straight on from its ends; None where its images are too few."""
    light, found = light_of(animal), list[float]()
    for tail in (False, True):
        seen = _light_along(animal, stretched(animal.sample.states, ONWARD, tail), light)
        if seen is None:
            return None
        # What no picture shows may be as bright as can be.
        level = torch.where(seen.error.isinf(), 1.0, seen.level)
        outward = (level if tail else level.flip(0)).double().numpy()
        share = ONWARD / (1 + ONWARD) * (len(outward) - 1)
        outward = outward[round(len(outward) - 1 - 2 * share) :]
        much, little = (_falls_to(outward, level) for level in FADES)
        found.append((little - much) / share * ONWARD)
    return Ends(*found)


def _falls_to(light: Float[np.ndarray, " vertex"], level: float) -> float:
    """The first place, between vertices, at which light falls to a level; the last vertex where it never does."""
    below = np.flatnonzero(light < level)
    if len(below) == 0:
        return float(len(light) - 1)
    first = int(below[0])
    return first - 1 + float((light[first - 1] - level) / (light[first - 1] - light[first])) if first else 0.0


@dataclass(frozen=True)
class _Seen:
    """Light along a curve by all images together, of the body's brightness."""

    light: Float[Tensor, " vertex"]
    above: Float[Tensor, " vertex"]
    """What it has more than the darker of both sides: other parts of the body and dirt lie on one."""
    error: Float[Tensor, " vertex"]
    """Standard error of that."""
    level: Float[Tensor, " vertex"]
    """What it has more than both sides on average, or than the darker where something lies on one: noise makes the
    darker of two too dark."""


def light_of(animal: Animal) -> Float[Tensor, "frame camera w w"]:
    """The light of an animal's frames, of the body's brightness."""
    clip, frames = animal.clip, animal.sample.frames
    light = clip.without_dirt(clip.without_veil(clip.signal(frames)), frames)
    return averaged(light / clip.brightness[:, None, None])


def _light_along(animal: Animal, states: FrameState, light: Float[Tensor, "frame camera w w"]) -> _Seen | None:
    """Light along curves in an animal's frames; None where its images are too few."""
    clip, frames = animal.clip, animal.sample.frames
    seen = project(clip.local_cameras(frames), states.points, states.shift)
    if seen.shape[0] * seen.shape[1] < FEWEST:
        return None
    along = torch.nn.functional.normalize(torch.gradient(seen, dim=2)[0], dim=-1)
    width = body_width(body_taper(clip, frames[0], animal.body), clip.settings.evidence)
    across = torch.stack([-along[..., 1], along[..., 0]], -1) * width[:, None, None]
    picture = clip.picture(frames)

    def sampled(places: Float[Tensor, "frame camera vertex 2"]) -> Float[Tensor, "image vertex"]:
        """Of every image; NaN beyond the pictures."""
        there = light_at(light, places).masked_fill(room_around(places, picture) < 1, torch.nan).flatten(0, 1)
        padded = torch.nn.functional.pad(there[:, None], (WINDOW // 2, WINDOW // 2), mode="replicate")
        return torch.nn.functional.avg_pool1d(padded, WINDOW, stride=1)[:, 0]

    middle, error = _stacked(sampled(seen))
    beside, its_error = _stacked(torch.stack([sampled(seen + across), sampled(seen - across)], 1))
    side = beside.argmin(0)
    background, its_error = (each.gather(0, side[None])[0] for each in (beside, its_error))
    above, error = middle - background, (error.square() + its_error.square()).sqrt()
    level = middle - torch.where(beside.amax(0) - background > NOTHING, background, beside.mean(0))
    hidden = ~above.isfinite()
    above, level = (each.masked_fill(hidden, 0.0) for each in (above, level))
    return _Seen(middle, above, error.masked_fill(hidden, torch.inf), level)


def _stacked(light: Float[Tensor, "image *side vertex"]) -> tuple[Tensor, Tensor]:
    """Light in the middle one of many images, and its standard error. By medians: dirt and crossings move neither. The
    factors are a normal distribution's."""
    middle = light.nanmedian(0).values
    spread = 1.4826 * (light - middle).abs().nanmedian(0).values
    return middle, 1.2533 * spread / light.isfinite().sum(0).clamp(min=1).sqrt()
