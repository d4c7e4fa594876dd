"""Everything that a report tells of a result, read once; what is not there is known with the reason why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d import kinematics
from midline3d.calibration import load_calibration
from midline3d.cameras import Cameras
from midline3d.errors import InputError
from midline3d.store import About, Edit, EditLog, info, open_result
from midline3d.store.edits import standing
from midline3d.tracking.clip import Clip, kept_clip, with_kept_basis

Array = NDArray[np.float64]
DRAWS = 8
"""Midlines drawn for standard deviations: a shaded band may be wrong by a quarter of its width, and long recordings
have a report, too."""


class Undrawable(Exception):  # noqa: N818 - no error: the report says it in place of the figure
    """A figure cannot be drawn of this result; the sentence that stands in its place."""


@dataclass(frozen=True, eq=False)
class Material:
    """A result, and what lies beside it."""

    path: Path
    """As it was given: a folder, or a midline.nc."""
    about: About
    result: xr.Dataset
    measured: xr.Dataset | None = None
    """Its kinematics."""
    clip: Clip | None = None
    """Its crops, and the cameras as they were refined."""
    cameras: Cameras | None = None
    edits: tuple[Edit, ...] = ()
    """Those that stand."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """By the names above, why one of them is None."""

    @property
    def folder(self) -> Path:
        return self.path.parent if self.path.is_file() else self.path

    @property
    def views(self) -> list[str]:
        """Names of the cameras."""
        return [str(name) for name in self.result.camera.values] if "camera" in self.result.coords else []

    @property
    def frames(self) -> NDArray[np.int64]:
        numbers: NDArray[np.int64] = self.result.frame.values.astype(np.int64)
        return numbers

    @property
    def seconds(self) -> Array:
        return np.asarray(self.result.time.values, np.float64)

    @property
    def status(self) -> NDArray[np.str_]:
        return np.asarray(self.result.status.values.astype(str))

    @property
    def found(self) -> NDArray[np.bool_]:
        """(frame,) whether there is a midline."""
        position = self.result.position.transpose("time", ...).values
        return np.asarray(np.isfinite(position).reshape(len(position), -1).all(1))

    def variable(self, name: str) -> Array:
        """A variable of the result, time first; refused where the result has none, or no number in it."""
        if name not in self.result:
            raise Undrawable(f"This result has no '{name}': it was made by another version, or another program.")
        values = np.asarray(self.result[name].transpose("time", ...).values, np.float64)
        if not np.isfinite(values).any():
            raise Undrawable(f"No frame of this result has a number for '{name}'.")
        return values

    def kinematics(self) -> xr.Dataset:
        if self.measured is None:
            raise Undrawable(self.missing["measured"])
        return self.measured

    def quantity(self, name: str) -> xr.DataArray:
        """A variable of the kinematics; refused where it is not given."""
        measured = self.kinematics()
        if name not in measured:
            raise Undrawable(f"Left out: {measured.attrs.get('left_out', f'the kinematics do not tell the {name}')}.")
        return measured[name]


def gathered(path: Path) -> Material:
    """The result in a folder, or in a midline.nc, with whatever lies beside it."""
    about, result = info(path), open_result(path)
    folder = path.parent if path.is_file() else path
    there: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, read in (
        ("measured", lambda: kinematics.of(result, kinematics.Options(draws=DRAWS))),
        ("clip", lambda: kept_clip(folder, result)),
        ("cameras", lambda: _cameras(folder, result)),
    ):
        try:
            there[name] = read()
        except (InputError, OSError, ValueError, KeyError, np.linalg.LinAlgError) as fault:
            missing[name] = _sentence(fault)
    edits = tuple(standing(EditLog(folder).read()))
    return Material(path, about, result, edits=edits, missing=missing, **there)


def _cameras(folder: Path, result: xr.Dataset) -> Cameras:
    names = tuple(str(name) for name in result.camera.values)
    return with_kept_basis(folder, load_calibration(folder / "calibration.json").cameras_for(names).to_cameras())


def _sentence(fault: Exception) -> str:
    text = " ".join(str(fault).split())
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
