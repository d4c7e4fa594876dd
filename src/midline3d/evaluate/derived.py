"""Whether the standard deviations of the kinematics hold: measured quantities beside those of the true midlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d import kinematics
from midline3d.errors import InputError
from midline3d.evaluate.geometry import evenly
from midline3d.evaluate.opening import by_frame, check_truth, opened, points_of
from midline3d.evaluate.words import table_of
from midline3d.kinematics.quantities import MEASURED, STD
from midline3d.kinematics.spread import change, matched

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]
WITHIN = {68: 1.0, 95: 1.96}
"""Percent of a normal distribution that lie within so many standard deviations."""


@dataclass(frozen=True)
class Held:
    """How well one quantity's standard deviations hold."""

    values: int
    """That have both a true one and a standard deviation."""
    mean_z2: float
    """Mean of ((measured - true) / standard deviation)^2: 1 where they hold."""
    median_z2: float
    """0.45 where they hold, whatever a few wild values do."""
    within: Mapping[int, float]
    """Percent within as many standard deviations as hold 68 and 95 % of a normal distribution."""


def derived_z(
    result: xr.Dataset | Path | str, truth: xr.Dataset | Path | str, options: kinematics.Options | None = None
) -> dict[str, Array]:
    """For every quantity (measured - true) / standard deviation, as one row of numbers.

    The truth is measured over the frames that the result has, with its ends in the result's order: which of them is
    the head is another question, and so are frames that are wrong; those of `options.without` are left out of both.
    """
    check_truth(truth)
    result, truth = opened(result), opened(truth)
    options = options or kinematics.Options(without=("suspect",))
    found = kinematics.of(result, options)
    true = kinematics.of(_in_its_place(result, truth, options.without), replace(options, draws=0, without=()))
    stated = {str(name): found[name].values for name in found.data_vars}
    values = matched(stated, {str(name): true[name].values for name in true.data_vars})
    return {
        name: _z(change(MEASURED[name], stated[name], np.asarray(values[name])), stated[name + STD])
        for name in MEASURED
        if name + STD in stated and name in values
    }


def _z(off: Array, deviation: Array) -> Array:
    """Of what is known, and can be off at all: the path's length is 0 in its first frame."""
    known = np.isfinite(off) & (deviation > 0)
    return np.asarray(off[known] / deviation[known])


def _in_its_place(result: xr.Dataset, truth: xr.Dataset, without: tuple[str, ...]) -> xr.Dataset:
    """The true midlines under the result's frames and with as many keypoints, NaN where the result has none."""
    frames, rows = by_frame(result), by_frame(truth)
    missing = np.setdiff1d(frames.frame.values, rows.frame.values)
    if len(missing):
        raise InputError(f"the truth has no frame {missing[0]}; give the truth of this recording")
    points, goal = points_of(frames), points_of(rows.sel(frame=frames.frame.values))
    goal = np.stack([evenly(line, points.shape[1]) for line in goal])
    gone = ~np.isfinite(points).all((1, 2))
    if "status" in result:
        gone |= np.isin(result.status.values.astype(str), without)
    there = ~gone
    if not there.any():
        raise InputError("the result has no frame with a midline that could be held against the truth")
    apart, turned = (np.linalg.norm(points - each, axis=-1)[there].mean() for each in (goal, goal[:, ::-1]))
    goal = goal[:, ::-1].copy() if turned < apart else goal.copy()
    # Where the world's origin lies is the calibration's affair, and nothing but the centroid's place depends on it.
    goal += (points - goal)[there].mean((0, 1))
    goal[gone] = np.nan
    placed = (("time", "space", "keypoint", "individual"), goal.transpose(0, 2, 1)[..., None])
    kept = {name: result[name] for name in ("time", "frame") if name in result.coords}
    shared = {name: result.attrs[name] for name in ("fps", "frame", "inputs") if name in result.attrs}
    return xr.Dataset({"position": placed}, kept, shared)


def held(recordings: Sequence[Mapping[str, Array]]) -> dict[str, Held]:
    """Of all recordings together; each counts alike that has the quantity, however many values of it."""
    found = {}
    for name in MEASURED:
        parts = [each[name] for each in recordings if name in each and each[name].size]
        if not parts:
            continue
        squares = [np.square(part) for part in parts]
        found[name] = Held(
            values=sum(len(part) for part in parts),
            mean_z2=float(np.mean([part.mean() for part in squares])),
            median_z2=float(np.mean([np.median(part) for part in squares])),
            within={
                percent: 100 * float(np.mean([(part <= bound**2).mean() for part in squares]))
                for percent, bound in WITHIN.items()
            },
        )
    return found


def held_table(rows: Mapping[str, Held], recordings: int) -> Table:
    """The figures for people."""
    title = f"standard deviations of the kinematics against the truth of {recordings} recording{'s'[: recordings > 1]}"
    columns = ("quantity", "values", "mean z²", "median z²", *(f"within {percent} %" for percent in WITHIN))
    lines = [
        (
            name,
            str(row.values),
            f"{row.mean_z2:.2f}",
            f"{row.median_z2:.2f}",
            *(f"{row.within[p]:.0f} %" for p in WITHIN),
        )
        for name, row in rows.items()
    ]
    return table_of(title, columns, lines, "where they hold: mean z² 1, median z² 0.45, 68 % and 95 %")
