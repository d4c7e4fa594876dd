"""netCDF for `movement`, and MATLAB's .mat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from midline3d.errors import InputError
from midline3d.export.material import Choice, Material
from midline3d.files import size
from midline3d.midlines import APPLIED
from midline3d.store.dataset import write_netcdf
from midline3d.world import ATTRIBUTE, CALIBRATION

MOST = 4_000_000_000
"""Bytes that a structure of MATLAB's format 5 can hold, or so."""
SINGULAR_SINCE = (0, 17)
"""From this version of `movement` on its dimensions are keypoint and individual; before, keypoints and individuals."""


def write_movement(parts: Iterator[Material], path: Path, choice: Choice) -> None:
    """A poses dataset of `movement`: position and confidence in its order of dimensions, the rest beside them."""
    write_netcdf(path, (for_movement(part, choice) for part in parts))


def for_movement(material: Material, choice: Choice) -> xr.Dataset:
    """A result as `movement` names it."""
    result = material.result
    result = result.assign_coords(keypoint=("keypoint", material.names, result.keypoint.attrs))
    attributes = {name: value for name, value in result.attrs.items() if name != ATTRIBUTE}
    if material.world is not CALIBRATION:
        attributes[APPLIED] = material.world.as_json()
    result = result.assign_attrs(attributes)
    result.attrs.pop(ATTRIBUTE, None)
    if _version(choice.movement) < SINGULAR_SINCE:
        result = result.rename(keypoint="keypoints", individual="individuals")
    return result


def _version(wanted: str) -> tuple[int, ...]:
    """The version to write for: the one asked for, or the installed one, or the newest."""
    if wanted:
        if not re.fullmatch(r"\d+(\.\d+)+.*", wanted):
            raise InputError(f"'{wanted}' is no version of movement; write one such as 0.15")
        return tuple(int(number) for number in re.findall(r"\d+", wanted)[:2])
    from importlib.metadata import PackageNotFoundError, version

    try:
        return tuple(int(number) for number in re.findall(r"\d+", version("movement"))[:2])
    except PackageNotFoundError:
        return SINGULAR_SINCE


def write_mat(material: Material, path: Path, choice: Choice) -> None:
    """A .mat file with one structure, `midline`: every variable by its name, and `units` and `meaning` of each.

    position is (frame, keypoint, axis); other variables keep the order of dimensions of midline.nc.
    """
    del choice  # one form there is
    from scipy.io import savemat

    result = material.result
    if result.nbytes > MOST:
        raise InputError(
            f"a .mat file holds 4 GB at most, and this result has {size(result.nbytes)}; "
            "export fewer points with --keypoints, or to parquet"
        )
    content: dict[str, Any] = {"position": material.points}
    for name, variable in result.variables.items():
        if name != "position":
            content[str(name)] = _cells(variable.values)
    content["confidence"] = result.confidence.isel(individual=0).values
    content |= {
        "units": {str(name): variable.attrs.get("units", "") for name, variable in result.variables.items()},
        "meaning": {str(name): variable.attrs.get("long_name", "") for name, variable in result.variables.items()},
        "fps": float(result.attrs["fps"]),
        "recording": str(result.attrs.get("recording", "")),
        "world": {
            "rotation": material.world.rotation,
            "origin_mm": material.world.origin,
            "source": material.world.source,
        },
    }
    savemat(path, {"midline": content}, long_field_names=True, do_compression=True, oned_as="column")


def _cells(values: np.ndarray) -> Any:
    """Text as a cell array, which MATLAB knows; numbers as they are."""
    return values.astype(object).reshape(-1, 1) if values.dtype.kind in "OUS" else values
