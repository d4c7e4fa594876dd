"""Whether the stated standard deviations hold: how often the truth lies within so many of them, along the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

REGIONS = {"head": (0.0, 0.08), "middle": (0.08, 0.92), "tail": (0.92, 1.0)}
"""Shares of the length from head to tail."""
DIRECTIONS = ("across", "along")
WITHIN = {50: 0.6745, 68: 1.0, 90: 1.6449, 95: 1.96}
"""Percent of a normal distribution that lie within so many standard deviations."""
OBLIQUE = 0.5
"""Views that see a place of the body shorter than this share of its length say little about errors along it."""
DRAWS = 1000
"""Of recordings with replacement, for the intervals."""


def coverage(seen: Array, goal: Array, across: Array, along: Array, per_mm: Array, length: Array) -> dict[str, Any]:
    """One recording's sums: for each region and direction the number of errors, the sum of their z^2, and how many lie
    within each of `WITHIN`.

    seen, goal: (frame, camera, keypoint, 2) px, head first; across, along: (frame, keypoint) mm; per_mm: (camera,)
    px/mm; length: (frame,) the true one, mm. Frames with NaN are left out.
    """
    step = np.gradient(goal, axis=2)
    size = np.linalg.norm(step, axis=-1, keepdims=True)
    tangent = step / np.maximum(size, 1e-9)
    off = seen - goal
    forwards = (off * tangent).sum(-1) / per_mm[:, None]
    sideways = (off[..., 0] * tangent[..., 1] - off[..., 1] * tangent[..., 0]) / per_mm[:, None]
    whole = length[:, None, None] / (goal.shape[2] - 1) * per_mm[:, None]
    share = size[..., 0] / whole
    z = {
        "across": sideways / across[:, None],
        "along": np.where(share > OBLIQUE, forwards / np.maximum(share, OBLIQUE) / along[:, None], np.nan),
    }
    place = np.linspace(0, 1, goal.shape[2])
    found: dict[str, Any] = {}
    for region, (first, last) in REGIONS.items():
        inside = (place >= first) & (place <= last)
        found[region] = {name: _sums(z[name][..., inside]) for name in DIRECTIONS}
    return found


def _sums(z: Array) -> list[float]:
    z = np.abs(z[np.isfinite(z)])
    return [float(len(z)), float((z**2).sum()), *(float((z <= bound).sum()) for bound in WITHIN.values())]


def recording_coverage(found: xr.Dataset, true: xr.Dataset, counted: Flags, flipped: Flags) -> dict[str, Any] | None:
    """The same of a result and the truth of its simulated recording, over the frames counted; None where the result
    states no deviations."""
    if "sigma_across" not in found or not np.isfinite(found.sigma_across.values[counted]).any():
        return None
    seen = found.projection.sel(camera=true.camera.values).transpose("frame", "camera", "keypoint", "image").values
    across, along = (found[name].transpose("frame", "keypoint").values for name in ("sigma_across", "sigma_along"))
    seen, across, along = (np.array(each, dtype=np.float64) for each in (seen, across, along))
    seen[flipped], across[flipped], along[flipped] = seen[flipped, :, ::-1], across[flipped, ::-1], along[flipped, ::-1]
    goal = _resampled(true.projection.transpose("frame", "camera", "keypoint", "image").values, seen.shape[2])
    per_mm = np.atleast_1d(true.attrs["px_per_mm"]).astype(np.float64)
    return coverage(seen[counted], goal[counted], across[counted], along[counted], per_mm, true.length.values[counted])


def _resampled(lines: Array, count: int) -> Array:
    """Lines with equally spaced points, of so many points each."""
    place = np.linspace(0, lines.shape[2] - 1, count)
    low = np.minimum(place.astype(int), lines.shape[2] - 2)
    share = (place - low)[:, None]
    return lines[:, :, low] * (1 - share) + lines[:, :, low + 1] * share


def pooled(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """For each region and direction: mean z^2, and the percentage within each of `WITHIN` with a 95 % interval over
    recordings drawn with replacement."""
    if not rows:
        return {}
    chosen = np.random.default_rng(0).integers(0, len(rows), (DRAWS, len(rows)))
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for region in REGIONS:
        found[region] = {}
        for name in DIRECTIONS:
            sums = np.array([row[region][name] for row in rows])
            total, drawn = sums.sum(0), sums[chosen].sum(1)
            share = 100 * total[2:] / max(total[0], 1)
            shares = 100 * drawn[:, 2:] / np.maximum(drawn[:, :1], 1)
            low, high = np.percentile(shares, (2.5, 97.5), axis=0)
            found[region][name] = {
                "mean_z2": float(total[1] / max(total[0], 1)),
                "within": {
                    str(percent): [float(each[index]) for each in (share, low, high)]
                    for index, percent in enumerate(WITHIN)
                },
            }
    return found
