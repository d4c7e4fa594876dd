"""How far midlines may be off: what a result says of itself, or what its midlines scatter by in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from midline3d.kinematics.grid import Midlines
from midline3d.kinematics.shape import by_blocks, integral
from midline3d.kinematics.smoothing import Flags, Window, local_quadratic

Array = NDArray[np.float64]
SMOOTH = (0.16, 0.07)
"""s and body lengths over which stated deviations are smoothed: no shorter than their errors are alike (see `draws`).
Of one frame and keypoint they are noisy, and a curve that is off by noise is bent more than any animal."""
TWO_VIEWS = 2.0
"""Times farther that a calibration is off where two cameras have no third to hold them."""


@dataclass(frozen=True, eq=False)
class Deviations:
    """Standard deviations of midlines."""

    across: Array
    """(time, keypoint) mm, to either side."""
    along: Array
    """(time, keypoint) mm."""
    whole: float
    """mm: of the whole body from frame to frame, along each axis."""
    calibration: float
    """How far the calibration may be off, in that of three cameras; 0 where nothing is known of it."""
    stated: bool
    """Whether the result itself says the first two; else they are what the keypoints scatter by in time."""


def deviations_of(result: xr.Dataset, lines: Midlines, window: Window) -> Deviations | None:
    """What the result says, and where it says nothing, what its midlines scatter by around their smooth course.

    None where nothing is known: it says nothing, and has too few frames to scatter.
    """
    centroid = np.full((len(lines.valid), 3), np.nan)
    centroid[lines.valid] = by_blocks(integral, lines.points)[lines.valid]
    whole = _root(local_quadratic(centroid, lines.valid, window).scatter)
    across, along = (_stated(result, name, lines) for name in ("sigma_across", "sigma_along"))
    if across is not None and along is not None:
        return Deviations(across, along, whole, TWO_VIEWS if result.sizes.get("camera") == 2 else 1.0, True)
    count, keypoints = lines.points.shape[:2]
    shape = (lines.points - centroid[:, None]).reshape(count, -1)
    spread = local_quadratic(shape, lines.valid, window).scatter.reshape(keypoints, 3)
    if not np.isfinite(spread).all():
        return None
    sizes = np.broadcast_to(np.sqrt(np.square(spread).mean(-1)), (count, keypoints))
    return Deviations(sizes, sizes, whole, 0.0, False)


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
    width = (SMOOTH[0] * lines.fps, SMOOTH[1] * len(lines.points[0]))
    return np.asarray(np.exp(gaussian_filter(np.log(np.maximum(found, 1e-9)), width, mode="nearest")))
