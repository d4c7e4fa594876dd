"""Derivatives in time, smoothed, and the scatter of single frames around them; gaps are no obstacle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
CHANNELS = 9
"""That are fitted at once: what is held on the way takes ten times as much as they do."""
FEWEST = 4
"""Frames that a quadratic with any judgement of its noise needs."""
LEAST_SPREAD = 1e-6
"""Determinant of the offsets' mean products: 0.03 for a full window, 5e-4 for half of one."""


@dataclass(frozen=True)
class Window:
    """A stretch of time around each frame, of so many frames on either side."""

    half: int
    fps: float

    @staticmethod
    def of(seconds: float, fps: float) -> Window:
        """The window nearest to a duration, of five frames at least."""
        return Window(max(2, round((seconds * fps - 1) / 2)), fps)

    def __str__(self) -> str:
        count = 2 * self.half + 1
        return f"local quadratic over {count} frames ({count / self.fps:.3g} s)"


@dataclass(frozen=True, eq=False)
class Smooth:
    """A quadratic fitted around every frame; NaN where the frame itself is not there, or too few are around it."""

    value: Array
    """(time, channel) in the values' unit."""
    rate: Array
    """(time, channel) per second."""
    scatter: Array
    """(channel,) standard deviation of single frames around the fit; what varies more slowly is not seen in it."""


def local_quadratic(values: Array, valid: Flags, window: Window) -> Smooth:
    """Least-squares quadratics through the valid frames of a window around each frame (Savitzky-Golay with gaps).

    values: (time, channel) at equal steps of time. With weights w that are 1 at valid frames and 0 elsewhere, and
    offsets o in units of half a window, it solves sum(w o^(j + k)) c_k = sum(w o^j y), j and k from 0 to 2.
    """
    half, count = window.half, len(values)
    offsets = np.arange(-half, half + 1) / half
    there = valid.astype(np.float64)
    sums = np.stack([_windowed(there, offsets**power) for power in range(5)], -1)
    left = np.stack([sums[:, row : row + 3] for row in range(3)], 1)
    good = valid & (sums[:, 0] > FEWEST - 0.5)
    # Not so where all frames that are there lie close together on one side, next to a gap.
    good[good] &= np.linalg.det(left[good] / sums[good, :1, None]) > LEAST_SPREAD
    inverse = np.full((count, 3, 3), np.nan)
    inverse[good] = np.linalg.inv(left[good])
    value, rate, spread = np.empty(values.shape), np.empty(values.shape), np.empty(values.shape[1])
    single = np.sqrt(np.maximum(1 - inverse[:, 0, 0], 1e-9))[:, None]
    for first in range(0, values.shape[1], CHANNELS):
        some = slice(first, first + CHANNELS)
        filled = np.where(valid[:, None], values[:, some], 0.0)
        right = np.stack([_windowed(filled, offsets**power) for power in range(3)], 1)
        value[:, some], slope = np.einsum("tij,tjc->itc", inverse[:, :2], right)
        rate[:, some] = slope * window.fps / half
        residual = np.where(good[:, None], values[:, some] - value[:, some], np.nan) / single
        spread[some] = _spread(residual)
    return Smooth(value, rate, spread)


def scatter(values: Array, valid: Flags, window: Window) -> float:
    """Standard deviation of single frames' values (time, ...) around their smooth course, over all channels."""
    fit = local_quadratic(values.reshape(len(values), -1), valid, window)
    known = fit.scatter[np.isfinite(fit.scatter)]
    return float(np.sqrt(np.square(known).mean())) if known.size else float("nan")


def _windowed(values: Array, weights: Array) -> Array:
    return np.asarray(correlate1d(values, weights, axis=0, mode="constant", cval=0.0))


def _spread(residual: Array) -> Array:
    """Robust standard deviation of each column: by the median, which a few wild frames do not move."""
    known = np.isfinite(residual).any(0)
    found = np.full(residual.shape[1], np.nan)
    found[known] = 1.4826 * np.nanmedian(np.abs(residual[:, known]), 0)
    return found
