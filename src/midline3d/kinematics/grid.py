"""Midlines at equal steps of time, ready to be measured: gaps are there, and known to be gaps."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.kinematics.plane import Carried, carried, same_angle
from midline3d.kinematics.shape import BLOCK, bishop, by_blocks
from midline3d.kinematics.smoothing import Flags
from midline3d.world import World

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
FEWEST_KEYPOINTS = 8
"""Of a midline whose derivatives are to be taken."""


@dataclass(frozen=True, eq=False)
class Midlines:
    """Midlines on a grid of time without holes; NaN where there is none."""

    rows: NDArray[np.int64]
    """(frame of the result,) its place on the grid."""
    fps: float
    points: Array
    """(time, keypoint, 3) mm, in the world."""
    valid: Flags
    """(time,)"""
    length: Array
    """(time,) mm."""
    body: Carried
    """Curvature in a frame that is carried along in time."""


def midlines_of(result: xr.Dataset, world: World, without: tuple[str, ...]) -> Midlines:
    """The midlines of a result, of truth, or of whatever has `position` with the dimensions of a result."""
    numbers, fps = _times(result)
    first = int(numbers.min())
    rows, count = numbers - first, int(numbers.max()) - first + 1
    placed, gone = _points(result), _left_out(result, without)
    if placed.shape[1] < FEWEST_KEYPOINTS:
        raise InputError(
            f"the midlines have {placed.shape[1]} keypoints, but {FEWEST_KEYPOINTS} are needed to tell how they bend"
        )
    points = np.full((count, *placed.shape[1:]), np.nan)
    for first in range(0, len(rows), BLOCK):
        some = slice(first, first + BLOCK)
        points[rows[some]] = world.points(placed[some].astype(np.float64))
    points[rows[gone]] = np.nan
    valid: Flags = np.asarray(by_blocks(lambda part: np.isfinite(part).all((1, 2)), points))
    if not valid.any():
        raise InputError("the result has no frame with a midline; look at `midline3d info` for the reasons")
    stored = None
    if "curvature" in result and "bishop" in result.curvature.dims:
        pair = result.curvature.transpose("time", "keypoint", "bishop").values
        stored = np.full(points.shape[:2], np.nan + 0j, np.result_type(pair, np.complex64))
        stored.real[rows], stored.imag[rows] = pair[..., 0], pair[..., 1]
    length, body = _bodies(points, valid, stored)
    return Midlines(rows, fps, points, valid, length, body)


def moved(lines: Midlines, points: Array) -> Midlines:
    """The same with other points; what the fit knew of the curvature is not theirs."""
    length, body = _bodies(points, lines.valid, None)
    return replace(lines, points=points, length=length, body=body)


def is_placed(result: xr.Dataset) -> bool:
    """Whether positions say where the animal is: not where the images were worm-centred crops already."""
    try:
        inputs = json.loads(result.attrs.get("inputs", "{}"))
    except (TypeError, ValueError):
        return True
    return not (isinstance(inputs, dict) and inputs.get("centre") == "fixed")


def _bodies(points: Array, valid: Flags, stored: Complex | None) -> tuple[Array, Carried]:
    """Length and curvature of every midline, in blocks of frames."""
    count, vertices = points.shape[:2]
    curvature = np.full((count, vertices), np.nan + 0j)
    tangent, normal, length = np.full((count, 3), np.nan), np.full((count, 3), np.nan), np.full(count, np.nan)
    there = np.flatnonzero(valid)
    for first in range(0, len(there), BLOCK):
        some = there[first : first + BLOCK]
        found = bishop(points[some])
        length[some], middle = found.length, vertices // 2
        tangent[some], normal[some] = found.tangent[:, middle], found.normal[:, middle]
        curvature[some] = found.curvature
        if stored is not None:
            # The fit's own, where it is there: differences of points, taken twice, would only add rounding.
            fitted = stored[some].astype(np.complex128)
            known: Flags = np.asarray(np.isfinite(fitted).all(-1))
            turned = same_angle(np.nan_to_num(fitted), found)
            curvature[some] = np.where(known[:, None], turned, found.curvature)
    return length, carried(curvature, tangent, normal, valid)


def _points(result: xr.Dataset) -> NDArray[np.floating]:
    """(frame, keypoint, 3) mm, as the result holds them."""
    if "position" not in result:
        raise InputError("the dataset has no 'position'; give a result, or midlines read by midline3d.midlines.read")
    position = result.position
    individual = next((name for name in ("individual", "individuals") if name in position.dims), None)
    keypoint = "keypoint" if "keypoint" in position.dims else "keypoints"
    if individual is not None:
        position = position.isel({individual: 0})
    points: NDArray[np.floating] = position.transpose("time", keypoint, "space").values
    return points


def _left_out(result: xr.Dataset, without: tuple[str, ...]) -> Flags:
    """(frame,) whether a frame is one of those that are to be left out."""
    if not without or "status" not in result:
        return np.zeros(result.sizes["time"], np.bool_)
    return np.isin(result.status.values.astype(str), without)


def _times(result: xr.Dataset) -> tuple[NDArray[np.int64], float]:
    """Frame numbers and frames a second."""
    fps = float(result.attrs.get("fps", 0.0) or 0.0)
    times = result.time.values if "time" in result.coords else np.zeros(0)
    if not fps and len(times) > 1 and np.issubdtype(times.dtype, np.floating):
        fps = 1 / float(np.median(np.diff(times)))
    if not fps > 0:
        raise InputError("the dataset says no frames a second; add them as its attribute 'fps'")
    if "frame" in result.coords:
        numbers = result.frame.values.astype(np.int64)
    else:
        numbers = np.rint(times.astype(np.float64) * fps).astype(np.int64)
    if len(numbers) < 1 or (np.diff(numbers) <= 0).any():
        raise InputError("the frames are not in order of time, or there are none; sort them by their number")
    return numbers, fps
