"""What is exported: a result in the world that users speak of, with the keypoints and frames they want."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.calibration import Calibration, load_calibration
from midline3d.errors import InputError
from midline3d.store import ResultParts, open_result
from midline3d.world import CALIBRATION, World, world_of

Array = NDArray[Any]
BLOCK = 1024
"""Frames that are written at once: some 30 MB of tables."""


@dataclass(frozen=True)
class Choice:
    """What to export, and how."""

    wide: bool = False
    """Tables with a row for every frame, not for every point."""
    keypoints: int | None = None
    """Of so many, evenly spread from head to tail; all without."""
    without: tuple[str, ...] = ()
    """Statuses of frames that are to be NaN, such as suspect."""
    world: World | None = None
    """In which places are given; the result's own without."""
    start: datetime | None = None
    """When the recording began, for NWB, which asks for it."""
    movement: str = ""
    """The version of `movement` that is to load the file; the installed one, or else the newest, without."""


@dataclass(frozen=True, eq=False)
class Material:
    """A result as it is to be written."""

    result: xr.Dataset
    """Positions in `world`; chosen keypoints alone."""
    world: World
    calibration: Calibration | None
    """The cameras, in the calibration's world; None where they do not lie beside the result."""

    @property
    def points(self) -> Array:
        """(time, keypoint, 3) mm, NaN where there is no midline."""
        return np.asarray(self.result.position.isel(individual=0).transpose("time", "keypoint", "space").values)

    @property
    def frames(self) -> Array:
        """(time,) the frames' numbers in the recording."""
        return np.asarray(self.result.frame.values)

    @property
    def names(self) -> list[str]:
        """Of the keypoints: k000 the head, and so on, in an order that sorting keeps."""
        return [f"k{number:03d}" for number in self.result.keypoint.values.tolist()]

    def words(self, name: str) -> list[str]:
        """(time,) status, reason or edited."""
        return [str(word) for word in self.result[name].values] if name in self.result else []


def folder_of(result: Path) -> Path:
    """The folder of a result that is given by it, or by its midline.nc."""
    return result.parent if result.is_file() else result


def material(path: Path, choice: Choice) -> Material:
    """Opens a result and brings it to what is wanted."""
    return _brought(open_result(path), path, choice, _cameras(path))


def material_in_parts(path: Path, choice: Choice) -> Iterator[Material]:
    """The same, `BLOCK` frames at a time."""
    cameras = _cameras(path)
    for part in ResultParts(path).each(block=BLOCK):
        yield _brought(part, path, choice, cameras)


def _cameras(path: Path) -> Calibration | None:
    beside = folder_of(path) / "calibration.json"
    return load_calibration(beside) if beside.is_file() else None


def _brought(result: xr.Dataset, path: Path, choice: Choice, cameras: Calibration | None) -> Material:
    if "position" not in result or "frame" not in result.coords:
        raise InputError(f"{path}: has no positions or no frame numbers; give the result of a reconstruction")
    world = world_of(result.attrs) if choice.world is None else choice.world
    result = _thinned(result, choice.keypoints)
    position = result.position.transpose("time", "individual", "keypoint", "space")
    places = world.points(position.values.astype(np.float64))
    if choice.without and "status" in result:
        gone = np.isin(result.status.values.astype(str), choice.without)
        places[gone] = np.nan
        result = _blanked(result, gone)
    meaning = {"units": "mm", "long_name": f"midline from head (keypoint 0) to tail, in {axes(world)}"}
    given = xr.DataArray(places, dims=position.dims, attrs=meaning)
    result = result.assign(position=given.transpose(*result.position.dims))
    return Material(result, world, cameras)


def _thinned(result: xr.Dataset, count: int | None) -> xr.Dataset:
    there = result.sizes["keypoint"]
    if count is None or count == there:
        return result
    if not 2 <= count <= there:
        raise InputError(f"{count} keypoints were asked for; give 2 to {there}")
    return result.isel(keypoint=np.linspace(0, there - 1, count).round().astype(int))


def _blanked(result: xr.Dataset, gone: Array) -> xr.Dataset:
    """Without the numbers of frames that are left out; what became of them is still said."""
    kept = xr.DataArray(~gone, dims="time")
    return result.assign(
        {
            name: variable.where(kept)
            for name, variable in result.data_vars.items()
            if "time" in variable.dims and variable.dtype.kind == "f"
        }
    )


def axes(world: World) -> str:
    """What the axes are, in words."""
    if world is CALIBRATION:
        return world.source
    return f"the world given by {world.source}: x along the heading, y to its left, z up"


def description(material: Material) -> str:
    """Where the numbers come from, in a sentence."""
    attributes = material.result.attrs
    about = f"of the recording {attributes['recording']} " if "recording" in attributes else ""
    return f"3D midlines {about}by midline3d {attributes.get('version', '')}: mm, head first, in {axes(material.world)}"
