"""The background of one view, beside the worm: what was ever seen uncovered, static dirt, and light filled in."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field, Mask, fill, light_field, masked_median, sorted_stack
from midline3d.recording.background.registration import CELL, LEAST_SLOPE, SMOOTHED, STEEP, THING, THINGS
from midline3d.recording.background.signal import Tone, density_of, signal
from midline3d.recording.slenderness import area_by_width, filled

LIGHT = 0.2
"""Of the picture's shorter side: the width over which the light is even enough to be distinguished from dirt."""
SEEN = 5
"""Samples in which a pixel must lie free of the worm for their median to count."""
MANY = 7
"""Samples beyond which the least and the greatest of a pixel's values are left out, so that one flash does not move
it."""
MOVES, SLOPE = 6.0, 0.4
"""Standard deviations of the noise, and px at the local slope, by which a moving pixel must change: an edge that is
registered to a fraction of a px changes, too."""
UNSTEADY = 1.5
"""Times the px that most things' edges seem to move, by which one at rest may."""
STANDS = (3.0, 8.0)
"""Standard deviations of the noise, and grey levels of 255, by which a static thing must stand out of the light."""
BORDERS = 0.4
"""Share of a thing's border that is worm, above which it is a still spot of a worm's side."""
ALWAYS, HEAVY = 0.8, 0.4
"""Share of samples in which a pixel is the worm's, and share of its mass, above which a static thing is a worm at
rest."""
WITHIN = 0.4
"""Share of a static thing's light that lies where the worm always is, below which it is not the worm at rest: fibres
that cross each other there and go on beyond. Of those that were looked at, of four image models, fibres had 0.14 to
0.48, worms at rest 0.45 and more, mostly all of it."""
ROUND = 2.5
"""Length over width, holes filled, below which a static thing is round: a bubble, or two that touch. Of the static
things as heavy as a worm that were looked at, bubbles had 0.9 to 2.1, worms at rest 3.6 and more."""
GOES_ON = 0.5
"""Of a still thing's light: where more than that is left just beyond most of its edge, it is a part of something
larger. Of 149 pieces in 109 recordings of three image models the worm's own mostly had 0.6 to 0.9 there on the mean,
dirt 0.1 to 0.5; by the median a bubble that the worm half hides is not mistaken, and some of the worm's own are."""
LEAST_NOISE = 0.3
"""Grey levels: rounding alone makes so much."""
BARE = 0.75
"""Quantile of the samples, by their light, that shows dirt as it is beside the worm."""


@dataclass(frozen=True, eq=False)
class Standing:
    """What stands still in a stack of samples, the worm left out."""

    fields: Field
    """(sample, height, width) smoothed signals against the light."""
    usual: Field
    """(height, width) their median."""
    things: Mask
    """(height, width)"""
    least: float
    """By how much of the signal a thing must stand out of the light."""

    def heaviest(self) -> float:
        """Mass of the heaviest of the things, px^2 of these pictures."""
        _, labels = cv2.connectedComponents(self.things.astype(np.uint8), connectivity=8)
        density = density_of(self.usual[self.things])
        return float(np.bincount(labels[self.things], density, 1).max())

    def at_rest(
        self,
        masks: NDArray[np.bool_],
        mass: float,
        slender: bool = False,
        itself: NDArray[np.bool_] | None = None,
    ) -> Mask:
        """Those of the things that are the worm at rest by this view: as heavy as a good part of it, and mostly where
        it always is.

        masks: where it may be. mass: its usual one, px^2 of these pictures. slender: whether it was seen stretched out;
        then what is round is not the worm. itself: where it was seen, once that includes what of it is at rest.
        """
        _, labels = cv2.connectedComponents(self.things.astype(np.uint8), connectivity=8)
        there = self.things & ((masks if itself is None else itself).mean(0) > ALWAYS)
        within, whole = (
            np.bincount(labels[part], density_of(self.usual[part]), labels.max() + 1) for part in (there, self.things)
        )
        rests = (within > HEAVY * mass) & (within > WITHIN * whole)
        if slender:
            round_ones = [thing for thing in np.flatnonzero(rests) if area_by_width(filled(labels == thing)) < ROUND]
            rests[round_ones] = False
        return self.things & rests[labels]

    def without_worm(self, masks: NDArray[np.bool_], at_rest: Mask | None) -> Mask:
        """The things less the worm at rest, and less those where the worm always is that go on beyond their edge, as
        dirt does not. masks: where it may be."""
        beside = self.things & ~self._going_on(self.things & (masks.mean(0) > ALWAYS))
        return beside if at_rest is None else beside & ~at_rest

    def _going_on(self, inside: Mask) -> Mask:
        """Those of some pixels of the things beyond most of whose edge their light goes on."""
        labels, parts = _pieces(inside)
        found = np.zeros(len(parts) + 1, np.bool_)
        for piece, part in enumerate(parts, 1):
            within, light = labels[part] == piece, self.usual[part]
            beyond, level = _ring(within) & ~self.things[part], light[within].mean()
            # What is as light as no worm is, such as the middle of a bubble, is dirt.
            found[piece] = level > 0 and beyond.any() and np.median(light[beyond]) > GOES_ON * level
        return found[labels]


def stands_out(noise: float) -> float:
    """By how much of a signal with this noise a thing must stand out of the light."""
    return max(STANDS[0] * noise, STANDS[1])


def standing(stack: Field, light: Field, tone: Tone) -> Standing:
    """Smoothed signals of the samples against the light, and the static things in them, without the worm.

    A worm's inside can be as still as dirt while it hardly leaves its place, but its own moving edges fence it in:
    what stands still belongs to the background only if still pixels lead from it to the open background.
    """
    fields = np.empty(stack.shape, np.float32)
    for picture, field in zip(stack, fields, strict=True):
        cv2.GaussianBlur(signal(picture, light, tone), (0, 0), 1.0, dst=field)
    spare, last = 1 if len(stack) > MANY else 0, len(stack) - 1
    base, low, high, most = sorted_stack(fields, (spare, last // 2, len(stack) // 2, last - spare))
    noise = float(np.median(most - base)) / 3 + LEAST_NOISE
    usual = (low + high) / 2
    still = np.maximum(SLOPE * _slope(base), unsteadiness(usual, most - base - MOVES / 2 * noise))
    moving = ((most - base) > MOVES * noise + still).astype(np.uint8)
    fence = cv2.dilate(cv2.morphologyEx(moving, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)), np.ones((3, 3), np.uint8))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(1 - fence, connectivity=4)
    largest = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax()) if len(stats) > 1 else -1
    reached = cv2.dilate((labels == largest).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    least = stands_out(noise)
    stands = np.abs(high - np.median(base)) > least
    things = stands & reached & (moving == 0)
    return Standing(fields, usual, _standing_free(things, (stands | (moving > 0)) & ~things), least)


def unsteadiness(usual: Field, change: Field) -> Field:
    """(height, width) by how much things at rest may change: strongly compressed pictures of a shaken camera move block
    by block, which no registration mends.

    By the px that most things' edges seem to move, which must be more than the worm can be; 0 where they are few.

    usual: what is mostly seen; change: by how much that changes beyond its noise.
    """
    slope = _slope(cv2.GaussianBlur(usual, (0, 0), SMOOTHED))
    rows, columns = np.nonzero(slope > max(STEEP * float(np.median(slope)), LEAST_SLOPE))
    _, cell, share = np.unique(rows // CELL * usual.shape[1] + columns // CELL, return_inverse=True, return_counts=True)
    things = np.flatnonzero(share >= THING)
    if len(things) < THINGS:
        return np.zeros_like(usual)
    moved = np.maximum(change[rows, columns], 0) / slope[rows, columns]
    usually = float(np.median([np.median(moved[cell == thing]) for thing in things]))
    if usually < SLOPE:
        return np.zeros_like(usual)
    return UNSTEADY * usually * np.asarray(cv2.dilate(slope, np.ones((3, 3), np.uint8)))


def _slope(field: Field) -> Field:
    """How steep a field is, per px."""
    return np.hypot(*(cv2.Sobel(field, cv2.CV_32F, across, 1 - across, scale=1 / 8) for across in (1, 0)))


def _standing_free(things: Mask, worm: Mask) -> Mask:
    """The things that border on light rather than on what may be worm: the rest are still spots of a worm's side."""
    labels, parts = _pieces(things)
    free = np.zeros(len(parts) + 1, np.bool_)
    for thing, part in enumerate(parts, 1):
        free[thing] = worm[part][_ring(labels[part] == thing)].mean() < BORDERS
    return free[labels]


def _pieces(mask: Mask) -> tuple[NDArray[np.int32], list[tuple[slice, slice]]]:
    """The connected pieces of a mask, numbered from 1 on, and the part of the picture that each is in, with two px
    around it."""
    _, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    return np.asarray(labels, np.int32), [
        (slice(max(0, top - 2), top + height + 2), slice(max(0, left - 2), left + width + 2))
        for left, top, width, height in stats[1:, :4].tolist()
    ]


def _ring(inside: Mask) -> Mask:
    """What lies within two px of a mask."""
    return (cv2.dilate(inside.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0) & ~inside


@dataclass(frozen=True, eq=False)
class BesideWorm:
    """A registered stack of samples where the worm is not."""

    stack: NDArray
    """(sample, height, width)"""
    field: Field
    """(height, width) the median beside the worm."""
    count: NDArray[np.int32]
    """(height, width) samples that it is of."""
    reach: float
    """px over which the light around is averaged."""

    @staticmethod
    def of(stack: NDArray, masks: NDArray[np.bool_], reach: float) -> BesideWorm:
        """The samples beside these masks of the worm."""
        return BesideWorm(stack, *masked_median(stack, masks), reach)

    def background(self, dirt: Mask, tone: Tone) -> Field:
        """The median beside the worm, and light filled in where that was never seen.

        dirt: static things, kept as they are.
        """
        known = self.count >= min(SEEN, len(self.stack))
        if known.all():
            return self.field
        spot = cv2.dilate(dirt.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
        filled = fill(self.field, known & ~spot, self.reach)
        # Dirt that the worm hardly ever leaves: as it was in the quarter of samples that show most light.
        bare = np.quantile(self.stack[:, spot & ~known], BARE if tone.side == "dark" else 1 - BARE, axis=0)
        filled[spot & ~known] = bare
        return np.where(known, self.field, filled).astype(np.float32)

    def light(self) -> Field:
        """The smooth light of the pictures."""
        return light_field(fill(self.field, self.count > 0, self.reach), LIGHT)
