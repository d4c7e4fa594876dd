"""Midlines of other programs, or of hand, read as a result has them: to measure, and to compare methods.

Forms that are read (docs/export.md has examples); lengths are mm in the calibration's world, head first:

    .csv, .parquet   long: columns frame, keypoint, x, y, z, and if known u_CAMERA, v_CAMERA; a row for every point
                     wide: columns frame, x_0, y_0, z_0, x_1 ...; a row for every frame
                     Anipose's: columns fnum, NAME_x, NAME_y, NAME_z ...; in the order of the columns
    .npz             position (frame, keypoint, 3); and where they are known frame (frame,) and fps
    .nc              position with the dimensions time, space, keypoint and individual, as a result or `movement` has it
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.reading import shortened
from midline3d.world import world_of

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
APPLIED = "applied_frame"
"""Attribute of an exported file: the world that its places have been brought to already."""
LARGEST = 10**9
"""Numbers of frames beyond this are no numbers of frames."""


def read(path: Path | str, fps: float | None = None) -> xr.Dataset:
    """Midlines from a file: position (time, space, keypoint, individual), mm, and frame numbers.

    A long table with columns u_CAMERA, v_CAMERA also gives projection (time, camera, keypoint, image), px.
    fps: frames a second, where the file does not say them. What is missing in a frame makes it lost: NaN.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file of midlines; check the path")
    suffix = path.suffix.lower()
    if suffix in (".csv", ".parquet"):
        return _from_table(_table(path), path, fps)
    if suffix == ".npz":
        return _from_npz(path, fps)
    if suffix in (".nc", ".h5"):
        return _from_netcdf(path, fps)
    raise InputError(f"{path}: midlines are read from .csv, .parquet, .npz or .nc, not '{suffix}'")


def make(points: Array, frames: NDArray[np.int64], fps: float | None, source: str) -> xr.Dataset:
    """A dataset of midlines (frame, keypoint, 3), checked. source: opens every complaint."""
    if points.ndim != 3 or points.shape[2] != 3 or points.shape[1] < 2 or len(points) < 1:
        raise InputError(f"{source}: the positions have the shape {points.shape}; (frame, keypoint, 3) is needed")
    if frames.shape != points.shape[:1] or len(np.unique(frames)) != len(frames):
        raise InputError(f"{source}: the frames' numbers are not one for each frame; number every frame once")
    if fps is not None and not (np.isfinite(fps) and fps > 0):
        raise InputError(f"{source}: fps is {fps}; give the frames a second")
    order = np.argsort(frames)
    points, frames = points[order], frames[order]
    good: NDArray[np.bool_] = np.asarray(np.isfinite(points).all((1, 2)))
    points = np.where(good[:, None, None], points, np.nan)
    attributes = {"source_software": "unknown", "ds_type": "poses"} | ({} if fps is None else {"fps": float(fps)})
    mm = {"units": "mm", "long_name": "midline from head (keypoint 0) to tail, in the calibration's world"}
    return xr.Dataset(
        {
            "position": (("time", "space", "keypoint", "individual"), points.transpose(0, 2, 1)[..., None], mm),
            "status": (("time",), np.where(good, "ok", "lost").astype(object)),
        },
        {
            "time": frames / (fps or 1.0),
            "frame": ("time", frames),
            "space": ["x", "y", "z"],
            "keypoint": np.arange(points.shape[1]),
            "individual": ["worm"],
        },
        attributes,
    )


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(path) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    except ImportError:
        raise InputError(f"{path}: Parquet needs pyarrow; pip install 'midline3d[parquet]'") from None
    except (ValueError, OSError, KeyError) as fault:
        raise InputError(f"{path}: cannot be read as a table ({shortened(fault)}); is it whole?") from None


def _from_table(table: pd.DataFrame, path: Path, fps: float | None) -> xr.Dataset:
    names = [str(name).strip() for name in table.columns]
    table.columns = names
    if {"frame", "keypoint", "x", "y", "z"} <= set(names):
        return _from_long(table, path, fps or _rate(table))
    if "fnum" in names:
        return _from_anipose(table, path, fps)
    numbers = [int(found[1]) for name in names if (found := re.fullmatch(r"x_(\d+)", name))]
    if "frame" not in names or not numbers:
        listed = shortened(", ".join(names[:8]))
        raise InputError(
            f"{path}: the columns {listed} are no midlines; give frame, keypoint, x, y, z or frame, x_0, y_0, z_0 ..."
        )
    columns = [f"{axis}_{number}" for number in sorted(numbers) for axis in "xyz"]
    points = _numbers(table, columns, path).reshape(len(table), -1, 3)
    return make(points, _whole(table, "frame", path), fps or _rate(table), str(path))


def _from_long(table: pd.DataFrame, path: Path, fps: float | None) -> xr.Dataset:
    frames, keypoints = _whole(table, "frame", path), _whole(table, "keypoint", path)
    if table.duplicated(["frame", "keypoint"]).any():
        row = int(np.flatnonzero(table.duplicated(["frame", "keypoint"]))[0])
        raise InputError(f"{path}: frame {frames[row]} has keypoint {keypoints[row]} twice; leave one out")
    numbers, rows = np.unique(frames, return_inverse=True)
    places, columns = np.unique(keypoints, return_inverse=True)
    if len(numbers) * len(places) > 20 * len(table) + 1000:
        raise InputError(f"{path}: hardly any frame has every keypoint; number keypoints alike in all frames")
    points = np.full((len(numbers), len(places), 3), np.nan)
    points[rows, columns] = _numbers(table, ["x", "y", "z"], path)
    found = make(points, numbers, fps, str(path))
    names = [str(name)[2:] for name in table.columns if str(name).startswith("u_") and f"v_{name[2:]}" in table.columns]
    if not names:
        return found
    pixels = np.full((len(numbers), len(places), len(names), 2), np.nan)
    listed = [f"{axis}_{name}" for name in names for axis in "uv"]
    pixels[rows, columns] = _numbers(table, listed, path).reshape(-1, len(names), 2)
    px = {"units": "px", "long_name": "midline in the full pictures"}
    seen = ("time", "camera", "keypoint", "image"), pixels.transpose(0, 2, 1, 3), px
    return found.assign(projection=seen).assign_coords(camera=names, image=["u", "v"])


def _from_anipose(table: pd.DataFrame, path: Path, fps: float | None) -> xr.Dataset:
    keypoints = [name[:-2] for name in table.columns if name.endswith("_x")]
    columns = [f"{name}_{axis}" for name in keypoints for axis in "xyz"]
    missing = [name for name in columns if name not in table.columns]
    if missing or not keypoints:
        raise InputError(f"{path}: the column '{(missing or ['NAME_x'])[0]}' is missing; give Anipose's pose-3d file")
    points = _numbers(table, columns, path).reshape(len(table), -1, 3)
    turn, move = (
        [f"M_{row}{column}" for row in range(3) for column in range(3)],
        [f"center_{axis}" for axis in range(3)],
    )
    if {*turn, *move} <= set(table.columns):
        # Anipose says by what it turned and moved them: p = (x - center) M^T, undone here.
        points = points @ _numbers(table, turn, path).reshape(-1, 3, 3) + _numbers(table, move, path)[:, None]
    return make(points, _whole(table, "fnum", path), fps, str(path))


def _from_npz(path: Path, fps: float | None) -> xr.Dataset:
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files if name in ("position", "frame", "fps")}
    except (OSError, ValueError, KeyError, EOFError) as fault:
        raise InputError(f"{path}: cannot be read as .npz ({shortened(fault)}); is it whole?") from None
    if "position" not in arrays or arrays["position"].dtype.kind not in "fiu":
        raise InputError(f"{path}: holds no array of numbers named 'position'; save (frame, keypoint, 3) under it")
    points = arrays["position"].astype(np.float64)
    frames = np.asarray(arrays.get("frame", np.arange(len(points)))).ravel()
    if frames.dtype.kind not in "iu":
        raise InputError(f"{path}: 'frame' holds no whole numbers; give the frames' numbers in the recording")
    rate = fps if fps is not None or "fps" not in arrays else float(np.ravel(arrays["fps"])[0])
    return make(points, frames.astype(np.int64), rate, str(path))


def _from_netcdf(path: Path, fps: float | None) -> xr.Dataset:
    try:
        dataset = xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError, RuntimeError) as fault:
        raise InputError(f"{path}: cannot be read as netCDF ({shortened(fault)}); is it whole?") from None
    dataset = dataset.rename({name: name[:-1] for name in ("keypoints", "individuals") if name in dataset.dims})
    if "position" not in dataset or not {"time", "space", "keypoint"} <= set(dataset.position.dims):
        raise InputError(f"{path}: has no 'position' of time, space and keypoint; give a result or a poses dataset")
    position = dataset.position.isel(individual=0) if "individual" in dataset.position.dims else dataset.position
    rate = fps or float(dataset.attrs.get("fps", 0)) or None
    points = position.transpose("time", "keypoint", "space").values.astype(np.float64)
    world = world_of({"frame": dataset.attrs.get(APPLIED, "")})
    if "frame" in dataset.coords:
        frames = dataset.frame.values.astype(np.int64)
    else:
        frames = np.rint(dataset.time.values.astype(np.float64) * (rate or 1.0)).astype(np.int64)
    return make(points @ world.rotation + world.origin, frames, rate, str(path))


def _numbers(table: pd.DataFrame, columns: list[str], path: Path) -> Array:
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise InputError(f"{path}: the column '{missing[0]}' is missing; add it")
    try:
        return table[columns].to_numpy(np.float64)
    except (ValueError, TypeError):
        raise InputError(
            f"{path}: the columns {columns[0]} ... {columns[-1]} hold more than numbers; mend it"
        ) from None


def _whole(table: pd.DataFrame, column: str, path: Path) -> NDArray[np.int64]:
    values = _numbers(table, [column], path)[:, 0]
    if not np.isfinite(values).all() or (values != np.rint(values)).any() or (np.abs(values) > LARGEST).any():
        raise InputError(f"{path}: the column '{column}' holds more than whole numbers; mend it")
    return np.asarray(values.astype(np.int64))


def _rate(table: pd.DataFrame) -> float | None:
    """Frames a second, where there is a column of times (s)."""
    if "time" not in table.columns or len(table) < 2:
        return None
    rows: Any = table.drop_duplicates("frame")[["frame", "time"]].to_numpy(np.float64)
    span = rows[-1] - rows[0]
    return float(span[0] / span[1]) if span[1] > 0 else None
