"""CSV and Parquet: long with a row for every point, wide with a row for every frame, and Anipose's own columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from midline3d.errors import InputError
from midline3d.export.material import Choice, Material

NANOMETRE, MILLIPIXEL = 6, 3
"""Decimals of mm and px: as fine as any microscope tells, and half the size of all digits."""


def write_csv(parts: Iterator[Material], path: Path, choice: Choice) -> None:
    """A CSV file, long or wide; every frame with its true number, NaN where there is nothing."""
    _rows(path, (wide(part) if choice.wide else long(part) for part in parts))


def _rows(path: Path, tables: Iterator[pd.DataFrame]) -> None:
    """Tables one below the other."""
    for number, table in enumerate(tables):
        table.to_csv(path, mode="a" if number else "w", header=not number, index=False, na_rep="NaN")


def write_parquet(parts: Iterator[Material], path: Path, choice: Choice) -> None:
    """The same as Parquet."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow; pip install 'midline3d[parquet]'") from None
    writer = None
    try:
        for part in parts:
            rows = arrow.Table.from_pandas(wide(part) if choice.wide else long(part), preserve_index=False)
            writer = writer or parquet.ParquetWriter(path, rows.schema)
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()


def write_anipose(parts: Iterator[Material], path: Path, choice: Choice) -> None:
    """A CSV file with the columns of Anipose's pose-3d files: NAME_x, _y, _z, _error, _ncams, _score, M, center, fnum.

    error is NaN: a midline is fitted to the pictures, not triangulated from points, and leaves no error in px by point.
    ncams counts the cameras that see the point.
    """
    del choice  # one form there is
    _rows(path, map(anipose, parts))


def anipose(material: Material) -> pd.DataFrame:
    """A row for every frame, in Anipose's columns."""
    points, result = material.points, material.result
    score = result.confidence.isel(individual=0).transpose("time", "keypoint").values
    seen = _seen(material)
    columns: dict[str, object] = {}
    for place, name in enumerate(material.names):
        columns |= {f"{name}_{axis}": points[:, place, index].round(NANOMETRE) for index, axis in enumerate("xyz")}
        columns[f"{name}_error"] = np.full(len(points), np.nan)
        columns[f"{name}_ncams"] = seen[:, place]
        columns[f"{name}_score"] = score[:, place].round(4)
    rotation, origin = material.world.rotation, material.world.origin
    columns |= {f"M_{row}{column}": rotation[row, column] for row in range(3) for column in range(3)}
    columns |= {f"center_{axis}": origin[axis] for axis in range(3)}
    return pd.DataFrame(columns | {"fnum": material.frames}, index=range(len(points)))


def long(material: Material) -> pd.DataFrame:
    """A row for every keypoint of every frame."""
    result, points = material.result, material.points
    count, keypoints = points.shape[:2]
    columns = {
        "frame": np.repeat(material.frames, keypoints),
        "time": np.repeat(result.time.values, keypoints),
        "keypoint": np.tile(result.keypoint.values, count),
    }
    columns |= {axis: points[..., index].ravel().round(NANOMETRE) for index, axis in enumerate("xyz")}
    confidence = result.confidence.isel(individual=0).transpose("time", "keypoint").values
    columns["confidence"] = confidence.ravel().round(4)
    for name in ("sigma_across", "sigma_along"):
        if name in result:
            columns[name] = result[name].transpose("time", "keypoint").values.ravel().round(NANOMETRE)
    for camera in result.camera.values if "projection" in result else ():
        pixels = result.projection.sel(camera=camera).transpose("time", "keypoint", "image").values.reshape(-1, 2)
        columns |= {f"{axis}_{camera}": pixels[:, index].round(MILLIPIXEL) for index, axis in enumerate("uv")}
    columns["status"] = np.repeat(np.array(material.words("status"), object), keypoints)
    return pd.DataFrame(columns)


def wide(material: Material) -> pd.DataFrame:
    """A row for every frame."""
    result, points = material.result, material.points
    columns: dict[str, object] = {"frame": material.frames, "time": result.time.values}
    columns |= {name: material.words(name) for name in ("status", "reason", "edited") if name in result}
    columns |= {
        f"source_frame_{camera}": result.source_frame.sel(camera=camera).values for camera in _sources(material)
    }
    columns["length"] = result.length.values.round(NANOMETRE)
    for place, keypoint in enumerate(result.keypoint.values.tolist()):
        columns |= {f"{axis}_{keypoint}": points[:, place, index].round(NANOMETRE) for index, axis in enumerate("xyz")}
    return pd.DataFrame(columns)


def _sources(material: Material) -> list[str]:
    return [str(name) for name in material.result.camera.values] if "source_frame" in material.result else []


def _seen(material: Material) -> np.ndarray:
    """(time, keypoint) cameras in whose picture a point lies."""
    result = material.result
    pixels = result.projection.transpose("time", "camera", "keypoint", "image").values
    inside = np.isfinite(pixels).all(-1)
    for place, camera in enumerate(material.calibration.cameras if material.calibration else ()):
        if camera.size is not None:
            inside[:, place] &= ((pixels[:, place] > -0.5) & (pixels[:, place] < np.array(camera.size) - 0.5)).all(-1)
    return np.asarray(inside.sum(1))
