"""Medians and quantiles of small samples, of which every picture takes several.

The same numbers as `np.median` and `np.quantile`, which spend most of their time on other matters than a sample of some
thousand values, with Python's lock held. All values have to be numbers: one that is none would be sorted to the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def median(values: NDArray[Any]) -> Any:
    """The median of all values of an array, in its own precision."""
    return _middle(np.sort(values, axis=None))


def middle_and_quantile(layers: NDArray[Any], share: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """The median of some layers, pixel by pixel, and what this share of them stay under: linear between two of them."""
    ordered = np.sort(layers, axis=0)
    below = int(share * (len(ordered) - 1))
    part = share * (len(ordered) - 1) - below
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    step = high - low
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) * ordered.dtype.type(0.5)
    return middle, low + step * part if part < 0.5 else high - step * (1 - part)


def deviation_of(ordered: NDArray[Any], share: float) -> float:
    """How far this share of sorted values is from their median at most: a quantile, linear between two of them."""
    middle = _middle(ordered)
    place = share * (len(ordered) - 1)
    below = int(place)
    part = place - below
    low, high = (_nearest(ordered, middle, rank) for rank in (below, min(below + 1, len(ordered) - 1)))
    step = float(high - low)
    return float(low) + step * part if part < 0.5 else float(high) - step * (1 - part)


def _middle(ordered: NDArray[Any]) -> Any:
    """The median of sorted values."""
    low, high = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2]
    return low if ordered.size % 2 else (low + high) * ordered.dtype.type(0.5)


def _nearest(ordered: NDArray[Any], middle: Any, rank: int) -> Any:
    """Distance from `middle` of the value that so many are nearer to it than: the nearest ones stand side by side."""
    return np.maximum(middle - ordered[: ordered.size - rank], ordered[rank:] - middle).min()
