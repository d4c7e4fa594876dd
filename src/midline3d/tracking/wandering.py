"""Views that wander off against each other: no camera does that, but a view in which something else is followed."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHAKEN = 9
"""Frames whose median is taken: a camera that shakes comes back within a few."""
WITHIN = 50
"""Frames within which views must not wander: two seconds. Over hours cameras drift by more."""
FARTHEST = 7.0
"""px that they may. In 217 recordings of four image models they wandered by 7.8 to 25 in six, all of them wrong in most
frames (a view followed a clump or a bubble), and by 5.8 at most in all others."""


def wandering(shifts: Array) -> NDArray[np.bool_]:
    """(frame,) whether the views wander around this frame; shifts: (frame, axis) px, NaN where nothing was found."""
    if not shifts.size or not np.isfinite(shifts).any():
        return np.zeros(len(shifts), np.bool_)
    steady = np.stack([_medians(axis) for axis in shifts.T], -1)
    count = min(WITHIN, len(steady))
    windows = len(steady) - count + 1
    low = high = steady[:windows]
    for later in range(1, count):
        low, high = (
            outermost(known, steady[later : later + windows]) for outermost, known in ((np.fmin, low), (np.fmax, high))
        )
    far = (high - low > FARTHEST).any(1)
    # A frame belongs to the windows that begin up to `count` - 1 frames before it.
    return np.convolve(far, np.ones(count)) > 0


def _medians(values: Array) -> Array:
    """Of the frames around each; NaN where none of them has a value."""
    around = sliding_window_view(np.pad(values, SHAKEN // 2, constant_values=np.nan), SHAKEN)
    found = np.full(len(values), np.nan)
    some = np.isfinite(around).any(1)
    found[some] = np.nanmedian(around[some], 1)
    return found
