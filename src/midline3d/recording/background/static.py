"""The background of one view, beside the worm: what was ever seen uncovered, static dirt, and light filled in."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field, Mask, fill, light_field, masked_median, sorted_stack
from midline3d.recording.background.signal import Tone, density_of, signal

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
STANDS = (3.0, 8.0)
"""Standard deviations of the noise, and grey levels of 255, by which a static thing must stand out of the light."""
BORDERS = 0.4
"""Share of a thing's border that is worm, above which it is a still spot of a worm's side."""
ALWAYS, HEAVY = 0.8, 0.4
"""Share of samples in which a pixel is the worm's, and share of its mass, above which a static thing is a worm at
rest."""
LEAST_NOISE = 0.3
"""Grey levels: rounding alone makes so much."""
BARE = 0.75
"""Quantile of the samples, by their light, that shows dirt as it is beside the worm."""


def standing(stack: Field, light: Field, tone: Tone) -> tuple[Field, Mask]:
    """Smoothed signals of the samples against the light, and the static things in them, without the worm.

    A worm's inside can be as still as dirt while it hardly leaves its place, but its own moving edges fence it in:
    what stands still belongs to the background only if still pixels lead from it to the open background.
    """
    fields = np.stack([cv2.GaussianBlur(signal(picture, light, tone), (0, 0), 1.0) for picture in stack])
    ordered = sorted_stack(fields)
    spare = 1 if len(stack) > MANY else 0
    base, most = ordered[spare], ordered[-1 - spare]
    noise = float(np.median(most - base)) / 3 + LEAST_NOISE
    slopes = (cv2.Sobel(base, cv2.CV_32F, across, 1 - across, scale=1 / 8) for across in (1, 0))
    moving = ((most - base) > MOVES * noise + SLOPE * np.hypot(*slopes)).astype(np.uint8)
    fence = cv2.dilate(cv2.morphologyEx(moving, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)), np.ones((3, 3), np.uint8))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(1 - fence, connectivity=4)
    largest = 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax()) if len(stats) > 1 else -1
    reached = cv2.dilate((labels == largest).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    stands = np.abs(ordered[len(ordered) // 2] - np.median(base)) > max(STANDS[0] * noise, STANDS[1])
    things = stands & reached & (moving == 0)
    return fields, _standing_free(things, (stands | (moving > 0)) & ~things)


def _standing_free(things: Mask, worm: Mask) -> Mask:
    """The things that border on light rather than on what may be worm: the rest are still spots of a worm's side."""
    number, labels, stats, _ = cv2.connectedComponentsWithStats(things.astype(np.uint8), connectivity=8)
    free = np.zeros(number, np.bool_)
    for thing in range(1, number):
        left, top, width, height = (int(value) for value in stats[thing][:4])
        part = (slice(max(0, top - 2), top + height + 2), slice(max(0, left - 2), left + width + 2))
        inside = labels[part] == thing
        ring = (cv2.dilate(inside.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0) & ~inside
        free[thing] = worm[part][ring].mean() < BORDERS
    return free[labels]


def heaviest(things: Mask, fields: Field) -> float:
    """Mass of the heaviest of some static things, px^2 of these pictures."""
    _, labels = cv2.connectedComponents(things.astype(np.uint8), connectivity=8)
    density = density_of(masked_median(fields)[0])
    return float(np.bincount(labels[things], density[things], 1).max())


def without_heavy(things: Mask, fields: Field, masks: NDArray[np.bool_], mass: float) -> Mask:
    """Static things less those that are as heavy as a good part of a worm where the worm always is: a worm at rest.

    mass: the worm's usual one, px^2 of these pictures.
    """
    _, labels = cv2.connectedComponents(things.astype(np.uint8), connectivity=8)
    inside = things & (masks.mean(0) > ALWAYS)
    density = density_of(masked_median(fields)[0])
    weight = np.bincount(labels[inside], density[inside], labels.max() + 1)
    return things & (weight <= HEAVY * mass)[labels]


def beside_worm(stack: NDArray, masks: NDArray[np.bool_], dirt: Mask, reach: float, tone: Tone) -> Field:
    """Background of a registered stack: the median beside the worm, and light filled in where that was never seen.

    dirt: static things, kept as they are. reach: px over which the light around is averaged.
    """
    field, count = masked_median(stack, masks)
    known = count >= min(SEEN, len(stack))
    if known.all():
        return field
    spot = cv2.dilate(dirt.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    filled = fill(field, known & ~spot, reach)
    # Dirt that the worm hardly ever leaves: as it was in the quarter of samples that show most light.
    bare = np.quantile(stack[:, spot & ~known], BARE if tone.side == "dark" else 1 - BARE, axis=0)
    filled[spot & ~known] = bare
    return np.where(known, field, filled).astype(np.float32)


def even_light(stack: NDArray[np.float32], masks: NDArray[np.bool_] | None, reach: float) -> Field:
    """The smooth light of a stack of pictures."""
    field, count = masked_median(stack, masks)
    return light_field(fill(field, count > 0, reach), LIGHT)
