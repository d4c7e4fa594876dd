"""Results and truth as datasets, indexed by the frame's number in the recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.store import PENDING, ResultParts, open_result

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


def points_of(dataset: xr.Dataset) -> Array:
    """(frame, keypoint, 3) mm."""
    position = dataset.position.isel(individual=0).transpose("frame", "keypoint", "space")
    return np.asarray(position.values, dtype=np.float64)


def lost_in(dataset: xr.Dataset) -> Flags:
    """(frame,) whether a frame has no midline."""
    lost = np.asarray(~np.isfinite(points_of(dataset)).all((-2, -1)))
    if "status" in dataset:
        lost = lost | np.isin(dataset.status.values.astype(str), ["lost", "unreadable"])
    return lost


def started(result: ResultParts) -> NDArray[np.int64]:
    """Numbers of the frames, without those that a growing result has not come to yet: those are not lost."""
    if "status" not in result.head:
        return result.numbers
    return result.numbers[result.small(("status",)).status.values.astype(str) != PENDING]


def by_frame(dataset: xr.Dataset) -> xr.Dataset:
    """Indexed by the frame's number in the recording, which is worked out from the time where it is not given."""
    if "frame" not in dataset.coords:
        fps = float(dataset.attrs.get("fps", 1.0))
        dataset = dataset.assign_coords(frame=("time", np.rint(dataset.time.values * fps).astype(np.int64)))
    return dataset.swap_dims(time="frame")


def opened(source: xr.Dataset | Path | str) -> xr.Dataset:
    """A dataset that has midlines in space and in the pictures."""
    dataset = source if isinstance(source, xr.Dataset) else open_result(source)
    _check(dataset, source)
    return dataset


def in_parts(source: xr.Dataset | Path | str) -> ResultParts:
    """The same, to be read some frames at a time."""
    parts = ResultParts(source)
    _check(parts.head, source)
    if (np.diff(parts.numbers) <= 0).any():
        name = "a dataset" if isinstance(source, xr.Dataset) else source
        raise InputError(f"{name}: its frames are not in order; sort them by their time, each once")
    return parts


def check_truth(source: xr.Dataset | Path | str) -> None:
    """Says what a truth is where a file, or a folder, holds none."""
    if isinstance(source, xr.Dataset):
        return
    try:
        _check(ResultParts(source).head, source)
    except InputError:
        raise InputError(
            f"{source}: is no truth; give truth.nc of a simulated recording, or a netCDF file like it: position (mm) "
            "and projection (px) of the true midlines, by the frame's number"
        ) from None


def _check(dataset: xr.Dataset, source: xr.Dataset | Path | str) -> None:
    for name in ("position", "projection"):
        if name not in dataset:
            raise InputError(
                f"{source if not isinstance(source, xr.Dataset) else 'the dataset'}: has no '{name}'; give a result"
            )
