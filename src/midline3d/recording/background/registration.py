"""How far a camera's picture has moved: static dirt in the background tells, where there is any."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field
from midline3d.recording.background.ranks import median
from midline3d.recording.sources import Picture

Array = NDArray[np.float64]

POINTS = 2000
"""The steepest pixels of a background that are compared: more of them say no more."""
FEWEST = 150
"""Fewer steep pixels than this are no dirt to hold on to."""
CELL = 64
"""px: steep pixels of one such square count as one thing."""
THINGS = 8
"""Things that must agree where the worm may be one of them: it reaches over four or five squares."""
STEEP, LEAST_SLOPE = 6.0, 0.5
"""Times the median slope, and grey levels per px, above which a pixel is steep: below both it is noise."""
THING = 15
"""Steep pixels of a square that make it a thing."""
FARTHEST = 20.0
"""px: pictures do not move further; what says so has taken hold of the worm."""
ITERATIONS = 4
"""At most: each is a step of Newton's, and two or three settle."""
SMOOTHED = 0.8
"""px: Gaussian over a background before its slopes are taken, so that they are not those of single pixels' noise."""
LEAST_NOISE = 0.3
"""Grey levels: rounding alone makes so much."""
SETTLED = 0.01
"""px: a step under which the registration has converged."""
SMALLEST = 0.02
"""px under which a picture is left where it is: interpolation would blur it for nothing."""
PRECISION = 0.1
"""px: a registration that is not known to this is taken as none."""


@dataclass(frozen=True, eq=False)
class Texture:
    """The steep pixels of a worm-free background."""

    points: Field
    """(2, point) u, v."""
    value: Field
    slope: Field
    """(point, 2) grey levels per px."""


def texture_of(background: Field, things: int = 1) -> Texture | None:
    """What of a background can show a registration; None where it is too even, or has fewer than so many things in
    it."""
    smooth = cv2.GaussianBlur(background, (0, 0), SMOOTHED)
    across = cv2.Sobel(smooth, cv2.CV_32F, 1, 0, ksize=3, scale=1 / 8)
    down = cv2.Sobel(smooth, cv2.CV_32F, 0, 1, ksize=3, scale=1 / 8)
    steepness = np.hypot(across, down)
    steepness[:3], steepness[-3:], steepness[:, :3], steepness[:, -3:] = 0, 0, 0, 0
    limit = max(STEEP * float(np.median(steepness)), LEAST_SLOPE)
    steep = np.flatnonzero(steepness > limit)
    if steep.size < FEWEST:
        return None
    steep = steep[np.argsort(-steepness.flat[steep])]
    rows, columns = np.unravel_index(steep, background.shape)
    cells = rows // CELL * 10_000 + columns // CELL
    _, first, cell, share = np.unique(cells, return_index=True, return_inverse=True, return_counts=True)
    if (share >= THING).sum() < things:
        return None
    # No thing may outvote the others: the steepest pixels of each.
    by_cell = np.argsort(cell, kind="stable")
    rank = np.empty(len(cell), np.int64)
    rank[by_cell] = np.arange(len(cell)) - np.repeat(np.cumsum(share) - share, share)
    chosen = rank < POINTS // len(first)
    rows, columns = rows[chosen], columns[chosen]
    points = np.stack([columns, rows]).astype(np.float32)
    slope = np.stack([across[rows, columns], down[rows, columns]], -1)
    return Texture(points, smooth[rows, columns], slope)


def registration_of(picture: Field, texture: Texture | None, light: float) -> Array:
    """(2,) px by which the picture lies beside the background: what was at x is at x + registration."""
    registration = np.zeros(2)
    if texture is None:
        return registration
    for _ in range(ITERATIONS):
        place = texture.points + registration[:, None].astype(np.float32)
        seen = _smooth_at(picture, place) / np.float32(light)
        away = seen - texture.value
        spread = 1.4826 * float(median(np.abs(away - median(away)))) + LEAST_NOISE
        weight = 1 / (1 + (away / (2 * spread)) ** 2) ** 2
        weighted = (texture.slope * weight[:, None]).T
        normal = weighted @ texture.slope
        (xx, xy), (_, yy) = normal.tolist()
        information = (xx + yy) / 2 - math.hypot((xx - yy) / 2, xy)  # the lesser eigenvalue
        if not information > 0:
            return np.zeros(2)
        change = np.linalg.solve(normal.astype(np.float64), weighted @ away)
        registration = registration - change
        if np.abs(registration).max() > FARTHEST:
            return np.zeros(2)
        if np.abs(change).max() < SETTLED:
            break
    # Judged where it has arrived: before, a picture that lies far off is nothing but spread.
    if information < (spread / PRECISION) ** 2:
        return np.zeros(2)
    return registration


def _smooth_at(picture: Field, place: Field) -> Field:
    """The picture at (2, point) between pixels; linear interpolation smooths about as much as the texture was."""
    # Points side by side, not one below the other: OpenCV goes by rows.
    return cv2.remap(picture, place[:1], place[1:], cv2.INTER_LINEAR)[0]


def translated(picture: Picture | Field, by: Array) -> NDArray:
    """The picture moved by a fraction of a few px."""
    if not np.abs(by).max() > SMALLEST:
        return picture
    across, down = (_cubic_taps(float(way)) for way in by)
    # Rows, then columns, in floats: two to three times as fast as warping, which knows of no direction.
    field: NDArray = cv2.sepFilter2D(picture, cv2.CV_32F, across, down, borderType=cv2.BORDER_REPLICATE)
    if picture.dtype.kind == "f":
        return field
    field += np.float32(0.5)
    return np.clip(field, 0, np.iinfo(picture.dtype).max, out=field).astype(picture.dtype)


def _cubic_taps(by: float) -> NDArray[np.float32]:
    """What a pixel takes of its neighbours when a row moves by so many px: cubic interpolation, OpenCV's sharpness."""
    whole = math.floor(by)
    reach = abs(whole) + 3
    away = np.abs(np.arange(-reach, reach + 1) + by)
    near = (1.25 * away - 2.25) * away**2 + 1
    far = -0.75 * (((away - 5) * away + 8) * away - 4)
    return np.where(away <= 1, near, np.where(away < 2, far, 0)).astype(np.float32)
