"""Midlines as they might have been: drawn around those of a result, as far off as it says that it may be.

One error has three parts. To the side of the body and along it, it is as large as `sigma_across` and `sigma_along` say,
alike over some of the body and for some time. And the body as a whole is shaken: cameras tremble, and a calibration that is
not exact moves the animal as it turns. No single frame shows that, but the scatter of its centroid in time does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from midline3d.kinematics.grid import BLOCK, Midlines
from midline3d.kinematics.shape import bishop, integral
from midline3d.kinematics.smoothing import Flags, Window, local_quadratic

Array = NDArray[np.float64]
SHORT, ACROSS, ALONG, WHOLE = 0.035, 0.07, 0.33, 0.5
"""Body lengths over which errors are alike, as standard deviations of a Gaussian: to the side those of a single frame and
those that last (4 and 9 of 128 keypoints), along the body, and of the body as a whole. Measured against the truth of
simulated recordings, after the best rigid motion: the change from frame to frame to the side correlates by 0.65 at 4
keypoints and 0.2 at 8 in every one of them, the rest by 0.85 at 4, 0.6 at 8 and 0.3 at 16; along the body by 0.9 at 16, 0.7
at 32 and 0.3 at 64."""
SLOW = 0.16
"""s over which errors are alike in time, likewise. It is the posture that they depend on, and so it is seconds and not
frames: 0.5 is left of the correlation after 0.15 to 0.2 s at 7, 25, 37 and 68 frames a second."""
FAST = 0.04
"""Share of the variance to the side that is new in every frame."""
STEADY_ACROSS, STEADY_ALONG = 0.3, 0.75
"""Shares of the variance that are the same in all frames: the learned body's ends do not move."""
WANDER = 1.15
"""Variance of the slow part of the whole body's error, in that of its scatter from frame to frame."""
SEED = 12


@dataclass(frozen=True, eq=False)
class Deviations:
    """How far midlines may be off."""

    across: Array
    """(time, keypoint) mm, to either side."""
    along: Array
    """(time, keypoint) mm."""
    whole: float
    """mm: of the whole body from frame to frame, along each axis."""
    fast: float
    """Share of the variance to the side that is new in every frame."""
    stated: bool
    """Whether the result itself says the first two; else they are what the keypoints scatter by in time."""


def deviations_of(result: xr.Dataset, lines: Midlines, window: Window) -> Deviations:
    """What the result says, and where it says nothing, what its midlines scatter by around their smooth course in time."""
    centroid = np.full((len(lines.valid), 3), np.nan)
    centroid[lines.valid] = integral(lines.points[lines.valid])
    whole = _root(local_quadratic(centroid, lines.valid, window).scatter)
    across, along = (_stated(result, name, lines) for name in ("sigma_across", "sigma_along"))
    if across is not None and along is not None:
        return Deviations(across, along, whole, FAST, True)
    count, keypoints = lines.points.shape[:2]
    shape = (lines.points - centroid[:, None]).reshape(count, -1)
    spread = local_quadratic(shape, lines.valid, window).scatter.reshape(keypoints, 3)
    sizes = np.broadcast_to(np.nan_to_num(np.sqrt(np.square(spread).mean(-1))), (count, keypoints))
    return Deviations(sizes, sizes, whole, 1.0, False)


def _root(scatter: Array) -> float:
    """Root mean square of all axes; 0 where nothing is known."""
    known = scatter[np.isfinite(scatter)]
    return float(np.sqrt(np.square(known).mean())) if known.size else 0.0


def _stated(result: xr.Dataset, name: str, lines: Midlines) -> Array | None:
    """A deviation that the result has, on the grid of time; frames without one have their keypoints' medians."""
    if name not in result or result[name].sizes.get("keypoint") != lines.points.shape[1]:
        return None
    found = np.full(lines.points.shape[:2], np.nan)
    found[lines.rows] = result[name].transpose("time", "keypoint").values
    known: Flags = np.asarray(np.isfinite(found).all(-1))
    if not known.any():
        return None
    found[~known] = np.median(found[known], 0)
    return found


@dataclass(frozen=True, eq=False)
class Cloud:
    """All that is needed to draw midlines around those of a result."""

    lines: Midlines
    deviations: Deviations
    axes: NDArray[np.float32]
    """(time, keypoint, 3, 3) tangent and two directions to the side, carried along the body and in time."""

    def points(self, number: int) -> Array:
        """(time, keypoint, 3) mm: one draw. The same number gives the same draw."""
        rng = np.random.default_rng((SEED, number))
        count, keypoints = self.lines.points.shape[:2]
        slow, off = SLOW * self.lines.fps, self.deviations
        sides = _field(rng, (count, 2), keypoints, SHORT, 0.0) * np.sqrt(off.fast)
        lasting = np.sqrt((1 - STEADY_ACROSS - off.fast, STEADY_ACROSS)) if off.fast < 1 else np.zeros(2)
        sides += lasting[0] * _field(rng, (count, 2), keypoints, ACROSS, slow)
        sides += lasting[1] * _field(rng, (1, 2), keypoints, ACROSS, 0.0)
        forth = np.sqrt(1 - STEADY_ALONG) * _field(rng, (count, 1), keypoints, ALONG, slow)
        forth += np.sqrt(STEADY_ALONG) * _field(rng, (1, 1), keypoints, ALONG, 0.0)
        shaken = _field(rng, (count, 3), keypoints, WHOLE, 0.0)
        shaken += np.sqrt(WANDER) * _field(rng, (count, 3), keypoints, WHOLE, slow)
        shaken *= off.whole / _of_centroid(keypoints)
        own = np.concatenate([forth * off.along[:, None], sides * off.across[:, None]], 1)
        moved = np.einsum("tak,tkai->tki", own.astype(np.float32), self.axes)
        return np.asarray(self.lines.points + moved + shaken.transpose(0, 2, 1))


def cloud(lines: Midlines, deviations: Deviations) -> Cloud:
    """The directions in which midlines are drawn, beside how far."""
    count, keypoints = lines.points.shape[:2]
    axes = np.full((count, keypoints, 3, 3), np.nan, np.float32)
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
        axes[some] = np.stack([found.tangent, normal, np.cross(found.tangent, normal)], 2)
    return Cloud(lines, deviations, axes)


def _field(rng: np.random.Generator, shape: tuple[int, int], keypoints: int, reach: float, slow: float) -> Array:
    """(time, direction, keypoint) normal numbers of variance 1, alike over `reach` body lengths and `slow` frames."""
    factor = _factor(keypoints, reach)
    beyond = int(np.ceil(4 * slow))
    white = rng.standard_normal((shape[0] + 2 * beyond, shape[1], factor.shape[0]))
    if beyond:
        # Numbers that were smoothed by a Gaussian correlate as one that is wider by the root of 2.
        width = slow / np.sqrt(2)
        impulse = np.zeros(2 * beyond + 1)
        impulse[beyond] = 1
        size = np.sqrt(np.square(gaussian_filter1d(impulse, width, truncate=4)).sum())
        white = gaussian_filter1d(white, width, axis=0, truncate=4)[beyond : beyond + shape[0]] / size
    return np.asarray(white @ factor)


def _kernel(keypoints: int, reach: float) -> Array:
    place = np.linspace(0, 1, keypoints)
    return np.asarray(np.exp(-np.square((place[:, None] - place) / reach) / 2))


def _factor(keypoints: int, reach: float) -> Array:
    """(number, keypoint): so many independent numbers become values along the body that correlate as the kernel says."""
    values, vectors = np.linalg.eigh(_kernel(keypoints, reach))
    kept = values > 1e-6 * values.max()
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)


def _of_centroid(keypoints: int) -> float:
    """Standard deviation of the centroid where every keypoint's is 1 and they are alike over `WHOLE`."""
    return float(np.sqrt(_kernel(keypoints, WHOLE).mean()))
