"""Bubbles: a ring like the worm's own light around a middle that is lighter than the light.

Where a worm comes near one that stays where it is, both are found as one thing, and a bubble that is never seen apart
from the worm would never become part of the background. But no worm is lighter than the light where it is darker
elsewhere: by its middle a bubble is known in samples that the worm covers, too. One that drifts is in no background,
and darker than the worm it draws the midline around itself: there its own light is taken off every frame, as most
directions from its centre show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field
from midline3d.recording.background.ranks import middle_and_quantile
from midline3d.recording.background.signal import density_of
from midline3d.recording.connected import connected

DIRECTIONS = 32
"""From a bubble's middle, in which its ring is looked for."""
ANGLES = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)[:, None]
ACROSS, DOWN = np.cos(ANGLES), np.sin(ANGLES)
"""(direction, 1) px that a px on the way leads to the right and down."""
ROUND, EVEN = 0.9, 0.5
"""Share of these directions in which a ring has to be seen, and of its usual light there: a worm that lies curled up is
open somewhere, or lies over itself. Of two bubbles nine of ten directions had 0.97 to 0.99 of it, of a worm less than
nothing."""
SHALLOW = 0.35
"""Of the ring's light: a middle that is lighter than the light by less may be a worm's own fringe. Those two had 0.5
and 0.7."""
CLOSED, SHALLOWEST, PART = 0.9, 0.15, 0.5
"""A middle that is less light than that, but still by so much of the ring's light, is a bubble's if nine of ten
directions have so much of the ring's usual light, and all of the ring is lighter than so much of the worm: else it may
be the worm itself, curled up to a ring. Of seven bubbles of one image model, on or beside a worm, middles were lighter
by 0.17 to 0.38, and nine of ten directions had 0.9 and more."""
FAINT = 0.2
"""Of the ring's light: where it has fallen below, the ring ends."""
WIDEST = 4.0
"""Times as far from its centre as a bubble's middle reaches that its ring may end."""
CHANGED = 0.25
"""Of a bubble's light: what a sample has more or less than usual on average, above which something lies before it."""
SAME_SIZE = 1.2
"""Times that bubbles may differ in size and still be one."""
OFTEN = 0.5
"""Share of samples in which a bubble of one size must be seen: a worm lies curled up to a ring now and then."""
STEP = 0.5
"""px between the places at which light is looked at on the way from a bubble's centre."""


@dataclass(frozen=True, eq=False)
class Bubble:
    """A bubble in one picture."""

    centre: tuple[float, float]
    """px, u and v."""
    reach: float
    """px from its centre at which its ring ends."""
    shallow: bool
    """Whether its middle alone would not tell it from a worm that is curled up."""
    mass: float
    """px^2, as the worm's: by its usual light in all directions."""

    def around(self, shape: tuple[int, ...]) -> tuple[tuple[slice, slice], Field]:
        """The part of a picture that it is in, with a px around it, and how many px the pixels there lie from its
        centre."""
        far = self.reach + 1
        part, away = [], []
        for middle, size in zip(self.centre[::-1], shape, strict=True):
            first, last = max(0, math.floor(middle - far)), min(size, math.ceil(middle + far) + 1)
            part.append(slice(first, last))
            away.append(np.arange(first, last) - middle)
        return (part[0], part[1]), np.hypot(away[1], away[0][:, None]).astype(np.float32)


def bubbles_in(field: Field, least: float) -> list[Bubble]:
    """The bubbles in a signal against the light, the worm bright on 0; least: by which a thing must stand out of it."""
    if not field.min() < -least:
        return []
    labels, stats, centres = connected((field < -least).view(np.uint8))
    found = []
    for core, (left, top, width, height, area) in enumerate(stats[1:].tolist(), 1):
        part = (slice(top, top + height), slice(left, left + width))
        depth = -float(field[part][labels[part] == core].min())
        found.append(_bubble(field, (float(centres[core, 0]), float(centres[core, 1])), area, depth, least))
    return [bubble for bubble in found if bubble is not None]


def bare_bubbles(fields: Field, usual: Field, least: float) -> NDArray[np.bool_] | None:
    """(sample, height, width) where samples of one view show a bubble that stays there, with no worm before it; None
    where there is none.

    fields: (sample, height, width) signals against the light; usual: their median; least: see `bubbles_in`.
    """
    found = [bubble for bubble in bubbles_in(usual, least) if not bubble.shallow]
    if not found:
        return None
    bare = np.zeros(fields.shape, np.bool_)
    for bubble in found:
        part, distance = bubble.around(usual.shape)
        disc = distance <= bubble.reach + 1
        light = usual[part][disc]
        for field, shown in zip(fields, bare, strict=True):
            shown[part] |= disc & bool(np.abs(field[part][disc] - light).mean() < CHANGED * np.abs(light).mean())
    return bare


def sizes_of_bubbles(fields: Sequence[Field], least: float, worm: float) -> list[float]:
    """px from the centre to where the ring ends, of bubbles that are not background: those that most samples of one
    view show in one size, wherever. worm: its mass, px^2 of these pictures."""

    def known(field: Field) -> list[float]:
        found = bubbles_in(smoothed(field), least)
        return [bubble.reach for bubble in found if not bubble.shallow or bubble.mass < PART * worm]

    reaches = [np.array(known(field)) for field in fields]
    sizes: list[float] = []
    for size in sorted(np.concatenate([*reaches, np.zeros(0)]).tolist()):
        seen = np.mean([(np.abs(np.log(reach / size)) < np.log(SAME_SIZE)).any() for reach in reaches])
        if seen > OFTEN and (not sizes or size > SAME_SIZE * sizes[-1]):
            sizes.append(float(size))
    return sizes


def without_bubbles(field: Field, sizes: Sequence[float], least: float) -> Field:
    """A signal less the light of the bubbles of these sizes in it; what lies before or beside them is left."""
    if not sizes:
        return field
    for bubble in bubbles_in(smoothed(field), least):
        if min(abs(np.log(bubble.reach / size)) for size in sizes) < np.log(SAME_SIZE):
            far = np.arange(0, bubble.reach + STEP, STEP)
            light = np.median(_around(field, bubble.centre, far), 0)
            part, distance = bubble.around(field.shape)
            field = field.copy()
            field[part] -= np.interp(distance, far, light, right=0).astype(np.float32)
    return field


def smoothed(field: Field) -> Field:
    """A signal without the noise of single pixels."""
    return np.asarray(cv2.GaussianBlur(field, (0, 0), 1.0))


def _bubble(field: Field, centre: tuple[float, float], area: float, depth: float, least: float) -> Bubble | None:
    """The bubble whose middle has so many px and is lighter than the light by `depth`; None where it has no ring of the
    worm's sign around it, which stands out by `least` or more."""
    radius = (area / np.pi) ** 0.5
    far = np.arange(STEP, WIDEST * radius + 2, STEP)
    light = _around(field, centre, far)
    # In nearly all directions, whatever else lies in the others.
    level, ring = middle_and_quantile(light, 1 - ROUND)
    peak = int(ring.argmax())
    shallow = bool(depth < SHALLOW * level[peak])
    even, shallowest = (CLOSED, SHALLOWEST) if shallow else (EVEN, SHALLOW)
    if ring[peak] < max(least, even * level[peak]) or depth < shallowest * level[peak]:
        return None
    ends = np.flatnonzero(ring[peak:] < FAINT * ring[peak])
    if not len(ends):
        return None
    end = peak + int(ends[0])
    mass = 2 * np.pi * STEP * float(np.sum(far[:end] * density_of(level[:end])))
    return Bubble(centre, float(far[end]), shallow, mass)


def _around(field: Field, centre: tuple[float, float], far: NDArray[np.float64]) -> Field:
    """(direction, distance) a signal's light in all directions from a centre, so many px away."""
    across, down = centre[0] + far * ACROSS, centre[1] + far * DOWN
    return np.asarray(cv2.remap(field, across.astype(np.float32), down.astype(np.float32), cv2.INTER_LINEAR))
