"""The way that the centroid takes through space: length, straightness, spreading, persistence, sinuosity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.kinematics.smoothing import Flags

Array = NDArray[np.float64]
LAGS = 24
"""Lags at most, spread evenly over their logarithm."""
LONGEST_LAG = 0.25
"""Share of the recording: over longer lags hardly any two pairs are independent."""


@dataclass(frozen=True, eq=False)
class Path:
    """The centroid's way."""

    length: Array
    """(time,) mm from the first frame; across gaps the straight line is taken."""
    straightness: float
    """Distance from the first to the last place, as a share of the way."""
    lags: NDArray[np.int64]
    """(lag,) frames."""
    displacement: Array
    """(lag,) mm^2: mean squared displacement."""
    displacement_error: Array
    """(lag,) mm^2: its standard error, of as many independent pairs as lags fit into the recording."""
    correlation: Array
    """(lag,) mean cosine between directions of motion that far apart."""
    persistence_time: float
    """s: lag at which that cosine falls under 1 / e; NaN where it does not within the lags."""
    sinuosity: float
    """1/mm^0.5."""


def path(places: Array, velocity: Array, valid: Flags, fps: float, step: float) -> Path:
    """Of the smoothed centroid (time, 3), mm, and its velocity, mm/s. step: s, of the sinuosity's steps."""
    there = np.flatnonzero(valid)
    length = np.full(len(valid), np.nan)
    strides = np.linalg.norm(np.diff(places[there], axis=0), axis=-1)
    length[there] = np.concatenate([[0.0], np.cumsum(strides)])[: len(there)]
    total = float(strides.sum())
    straight = float(np.linalg.norm(places[there[-1]] - places[there[0]]) / total) if total > 0 else float("nan")
    lags = _lags(len(valid))
    speed = np.linalg.norm(velocity, axis=-1, keepdims=True)
    direction = velocity / np.where(speed > 0, speed, np.nan)
    squares = [_pairs(places, lag, lambda a, b: np.square(b - a).sum(-1)) for lag in lags]
    cosines = np.array([_mean(_pairs(direction, lag, lambda a, b: (a * b).sum(-1))) for lag in lags])
    return Path(
        length=length,
        straightness=straight,
        lags=lags,
        displacement=np.array([_mean(values) for values in squares]),
        displacement_error=np.array([_error(values, lag) for values, lag in zip(squares, lags, strict=True)]),
        correlation=cosines,
        persistence_time=_falls(lags / fps, cosines),
        sinuosity=sinuosity(places[:: max(1, round(step * fps))]),
    )


def sinuosity(places: Array) -> float:
    """2 / sqrt(p ((1 + c) / (1 - c) + b^2)), 1/mm^0.5, of places (step, 3): 0 for a straight line (Benhamou, in 3D).

    p is the mean step, c the mean cosine of the angles between steps, b the steps' standard deviation over their mean.
    """
    steps = np.diff(places, axis=0)
    sizes = np.linalg.norm(steps, axis=-1)
    known = np.isfinite(sizes) & (sizes > 0)
    both = known[1:] & known[:-1]
    if both.sum() < 2:
        return float("nan")
    cosines = (steps[1:] * steps[:-1]).sum(-1)[both] / (sizes[1:] * sizes[:-1])[both]
    mean, cosine = float(sizes[known].mean()), float(cosines.mean())
    if cosine > 1 - 1e-12:
        return 0.0
    unequal = float(sizes[known].std()) / mean
    return 2 / np.sqrt(mean * ((1 + cosine) / (1 - cosine) + unequal**2))


def _lags(count: int) -> NDArray[np.int64]:
    longest = max(1, int(LONGEST_LAG * count))
    return np.unique(np.geomspace(1, longest, LAGS).round().astype(np.int64))


def _pairs(values: Array, lag: int, measure: Callable[[Array, Array], Array]) -> Array:
    """Measures of all pairs of frames so far apart, where both are there."""
    found = measure(values[:-lag], values[lag:])
    return np.asarray(found[np.isfinite(found)])


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")


def _error(values: Array, lag: int) -> float:
    independent = values.size / lag
    return float(values.std() / np.sqrt(independent)) if independent > 1 else float("nan")


def _falls(lags: Array, cosines: Array) -> float:
    """Where the cosine first falls under 1 / e, between two lags by a straight line; at lag 0 it is 1."""
    times, values = np.concatenate([[0.0], lags]), np.concatenate([[1.0], cosines])
    under = np.flatnonzero(values < np.exp(-1))
    if not len(under):
        return float("nan")
    after = int(under[0])
    low, high = values[after], values[after - 1]
    share = (high - np.exp(-1)) / (high - low)
    return float(times[after - 1] + share * (times[after] - times[after - 1]))
