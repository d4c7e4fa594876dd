"""Midlines as they might have been: drawn around those of a result, as far off as it says that it may be.

An error has four parts. To the side of the body and along it, it is as large as `sigma_across` and `sigma_along` say,
alike over some of the body and for some time. The tips may be bent otherwise than they are drawn. The body as a whole
is shaken: cameras tremble, which no single frame shows, but the scatter of the centroid in time does. And the
calibration turns and stretches all of it alike. Where a result says nothing of itself, only scatter is drawn: to the
side, along, and as a whole.

All numbers were measured against the truth of simulated recordings (presets swim, coil, blur, seeds 41 to 56, 25
frames a second; preset varied, even seeds, 7 to 200 frames a second), after the best rigid motion of every frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from midline3d.kinematics.deviations import Deviations
from midline3d.kinematics.grid import BLOCK, Midlines
from midline3d.kinematics.shape import bishop

Array = NDArray[np.float64]
Off = Callable[[slice], Array]
"""Tells how far some frames' midlines are drawn off: of all at once it would take gigabytes."""
SHORT, ACROSS, ALONG, WHOLE = 0.035, 0.07, 0.33, 0.5
"""Body lengths over which errors are alike, as standard deviations of a Gaussian: to the side those of a single frame
and those that last (4 and 9 of 128 keypoints), along the body, and of the body as a whole. To the side the change from
frame to frame correlates by 0.65 at 4 keypoints and 0.2 at 8 in every recording, what lasts by 0.85 at 4, 0.6 at 8 and
0.3 at 16; along the body errors correlate by 0.9 at 16, 0.7 at 32 and 0.3 at 64."""
SLOW = 0.16
"""s over which errors are alike in time, likewise. It is the posture that they depend on, so that it is seconds and not
frames: half of the correlation is left after 0.15 to 0.2 s at 7, 25, 37 and 68 frames a second."""
FAST = 0.04
"""Share of the variance to the side that is new in every frame: 0.02 to 0.07."""
STEADY_ACROSS, STEADY_ALONG = 0.3, 0.75
"""Shares of the variance that are the same in all frames, 0.1 to 0.6 and 0.5 to 1: the learned body's ends do not
move."""
WANDER = 0.8
"""Variance of the slow part of the whole body's error, in that of its scatter from frame to frame."""
TIP, TIP_BEND, TIP_FLAT = 0.085, 2.0, 0.3
"""Body lengths from either end over which the curvature is less and less known, the standard deviation of each of its
components at the very end, 1/body length, and the share by which it is drawn too small there: all images of a tip are
faint, and a smooth curve is drawn. They are 1.5 to 3 and 0.2 to 0.6 at head and tail, in clear and blurred recordings
alike."""
TURN, STRAIN = 0.03, 0.02
"""What a calibration that is off by a few px makes of the world, the same in all frames: rad by which it turns it about
each axis, and the share by which it stretches and shears it. Of 30 recordings with errors of 2 to 5 px the median is
turned by 0.06 rad about some axis, and stretched by 0.04 along the worst."""
SEED = 12
"""Of all draws: the same result has the same standard deviations."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """All that is needed to draw midlines around those of a result."""

    lines: Midlines
    deviations: Deviations
    axes: NDArray[np.float32]
    """(time, 3, keypoint, 3) tangent and two directions to the side, carried along the body and in time."""

    def points(self, number: int) -> Array:
        """(time, keypoint, 3) mm: one draw. The same number gives the same draw."""
        rng = np.random.default_rng((SEED, number))
        off, lines = self.deviations, self.lines
        along, across, whole = self._along(rng), self._across(rng), self._whole(rng)
        world = off.calibration * _world(rng) if off.calibration else np.zeros((3, 3))
        middle = np.nanmean(lines.points, (0, 1))
        points = np.empty_like(lines.points)
        for first in range(0, len(points), BLOCK):
            some = slice(first, first + BLOCK)
            own = np.concatenate([along(some), across(some)], 1).astype(np.float32)
            moved = np.einsum("tak,taki->tki", own, self.axes[some])
            points[some] = lines.points[some] + moved + whole(some).transpose(0, 2, 1)
            points[some] += (lines.points[some] - middle) @ world
        return points

    def _across(self, rng: np.random.Generator) -> Off:
        """(time, 2, keypoint) mm to the side."""
        off, count = self.deviations, len(self.lines.valid)
        places = _stretched(off.across)
        fast = _field(rng, (count, 2), places / SHORT)
        if not off.stated:
            return lambda some: fast(some) * off.across[some, None]
        slow = _field(rng, (count, 2), places / ACROSS, SLOW * self.lines.fps)
        steady, tips = _field(rng, (1, 2), places / ACROSS), self._tips(rng)
        shares = np.sqrt((FAST, 1 - FAST - STEADY_ACROSS, STEADY_ACROSS))

        def sides(some: slice) -> Array:
            alike = shares[0] * fast(some) + shares[1] * slow(some) + shares[2] * steady(some)
            return np.asarray(alike * off.across[some, None] + self.lines.length[some, None, None] * tips(some))

        return sides

    def _along(self, rng: np.random.Generator) -> Off:
        """(time, 1, keypoint) mm along the body."""
        off, (count, keypoints) = self.deviations, self.lines.points.shape[:2]
        places = np.linspace(0, 1 / ALONG, keypoints)
        if not off.stated:
            single = _field(rng, (count, 1), places)
            return lambda some: single(some) * off.along[some, None]
        slow = _field(rng, (count, 1), places, SLOW * self.lines.fps)
        steady, shares = _field(rng, (1, 1), places), np.sqrt((1 - STEADY_ALONG, STEADY_ALONG))
        return lambda some: (shares[0] * slow(some) + shares[1] * steady(some)) * off.along[some, None]

    def _tips(self, rng: np.random.Generator) -> Off:
        """(time, 2, keypoint) body lengths: what bends of the tips move them by, half of it the same at all times.

        With x from where the tip begins to its end, the curvature is b x / TIP, and the place off by b x^3 / (6 TIP).
        """
        count, keypoints = self.lines.points.shape[:2]
        place = np.linspace(0, 1, keypoints)
        bends = np.stack([np.maximum(TIP - place, 0), np.maximum(TIP - 1 + place, 0)]) ** 3 / (6 * TIP)
        # Two ends that have nothing to do with each other.
        ends = np.array([0.0, 100.0])
        free, same = _field(rng, (count, 2), ends, SLOW * self.lines.fps), _field(rng, (1, 2), ends)
        known = round(TIP * (keypoints - 1))
        curvature, turned = self.lines.body.curvature[:, [known, -1 - known]], rng.standard_normal(2)

        def tips(some: slice) -> Array:
            flat = np.stack([curvature[some].real, curvature[some].imag], 1) * turned
            return np.asarray((TIP_BEND / np.sqrt(2) * (free(some) + same(some)) + TIP_FLAT * flat) @ bends)

        return tips

    def _whole(self, rng: np.random.Generator) -> Off:
        """(time, 3, keypoint or 1) mm by which all of the body is off: shaken as it is, and slowly turned as well."""
        off, (count, keypoints) = self.deviations, self.lines.points.shape[:2]
        shaken = rng.standard_normal((count, 3, 1))
        places = np.linspace(0, 1 / WHOLE, keypoints)
        slow = _field(rng, (count, 3), places, SLOW * self.lines.fps)
        share = np.sqrt(WANDER / _kernel(places).mean())
        return lambda some: off.whole * (shaken[some] + share * slow(some))


def cloud(lines: Midlines, deviations: Deviations) -> Cloud:
    """The directions in which midlines are drawn, beside how far."""
    count, keypoints = lines.points.shape[:2]
    axes = np.full((count, 3, keypoints, 3), np.nan, np.float32)
    there, middle = np.flatnonzero(lines.valid), keypoints // 2
    for first in range(0, len(there), BLOCK):
        some = there[first : first + BLOCK]
        found = bishop(lines.points[some])
        side = np.cross(found.tangent, found.normal)
        # The same turn about the tangent all along the body: that by which the middle's normal is carried in time.
        carried = lines.body.normal[some]
        cosine = (carried * found.normal[:, middle]).sum(-1)[:, None, None]
        sine = (carried * side[:, middle]).sum(-1)[:, None, None]
        normal = cosine * found.normal + sine * side
        axes[some] = np.stack([found.tangent, normal, np.cross(found.tangent, normal)], 1)
    return Cloud(lines, deviations, axes)


def _field(rng: np.random.Generator, shape: tuple[int, int], places: Array, slow: float = 0.0) -> Off:
    """(time, direction, keypoint) normal numbers of variance 1, alike over 1 of the places and over `slow` frames; of
    one moment for all alike."""
    factor = _factor(tuple(places.tolist()))
    beyond = int(np.ceil(4 * slow))
    white = rng.standard_normal((shape[0] + 2 * beyond, shape[1], factor.shape[0]))
    if beyond:
        # Numbers that were smoothed by a Gaussian correlate as one that is wider by the root of 2.
        width = slow / np.sqrt(2)
        impulse = np.zeros(2 * beyond + 1)
        impulse[beyond] = 1
        size = np.sqrt(np.square(gaussian_filter1d(impulse, width)).sum())
        white = gaussian_filter1d(white, width, axis=0)[beyond : beyond + shape[0]] / size
    return lambda some: np.asarray((white[some] if len(white) > 1 else white) @ factor)


def _stretched(across: Array) -> Array:
    """(keypoint,) places along the body, closer together where errors are larger than in its middle, as at its ends.

    A free end is off by the angle at which it leaves: far, but no more bent than the rest. Bends go as the error over
    the square of the length over which it is alike.
    """
    size = np.median(across, 0)
    density = np.minimum(1, np.sqrt(np.median(size) / np.maximum(size, 1e-12)))
    steps = (density[1:] + density[:-1]) / 2 / (len(size) - 1)
    return np.concatenate([[0.0], np.cumsum(steps)])


def _kernel(places: Array) -> Array:
    return np.asarray(np.exp(-np.square(places[:, None] - places) / 2))


@lru_cache(maxsize=16)
def _factor(places: tuple[float, ...]) -> Array:
    """(number, place): so many independent numbers become values that correlate as the kernel says."""
    values, vectors = np.linalg.eigh(_kernel(np.array(places)))
    kept = values > 1e-6 * values.max()
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)


def _world(rng: np.random.Generator) -> Array:
    """(3, 3) what a calibration adds to the unit matrix: a small rotation, a stretch and a shear."""
    turn, strain = rng.standard_normal((2, 3, 3))
    return np.asarray(TURN / np.sqrt(2) * (turn - turn.T) + STRAIN / 2 * (strain + strain.T))
