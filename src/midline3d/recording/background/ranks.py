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
    ordered = np.sort(values, axis=None)
    low, high = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2]
    return low if ordered.size % 2 else (low + high) * ordered.dtype.type(0.5)


def quantile_of(ordered: NDArray[Any], share: float) -> float:
    """The value below which this share of sorted values lies, linear between two of them."""
    place = share * (len(ordered) - 1)
    below = int(place)
    part = place - below
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    step = float(high - low)
    return float(low) + step * part if part < 0.5 else float(high) - step * (1 - part)
