"""Curves and motions whose kinematics are known on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d import kinematics

Array = NDArray[np.float64]
FPS = 25.0
VERTICES = 128


def helix(radius: float, pitch: float, turns: float, vertices: int = VERTICES) -> Array:
    """(vertex, 3) a right-handed helix at equal steps of arc length; pitch: rise for each turn."""
    angle = np.linspace(0, 2 * np.pi * turns, vertices)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), pitch * angle / (2 * np.pi)], -1)


def circle(radius: float, angle: float, vertices: int = VERTICES) -> Array:
    """(vertex, 3) an arc in a tilted plane."""
    turn = np.linspace(0, angle, vertices)
    flat = radius * np.stack([np.cos(turn), np.sin(turn), 0 * turn], -1)
    return flat @ rotation((0.3, -0.8, 0.5)).T


def rotation(vector: tuple[float, float, float] | Array) -> Array:
    """Matrix of a rotation vector."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec(vector).as_matrix()


def planar(bend: Callable[[Array], Array], length: float = 1.0, vertices: int = VERTICES) -> Array:
    """(vertex, 3) the curve in the x-y plane whose curvature at u is bend(u) / length, its middle at the origin.

    The tangent's angle and the places are summed over steps 32 times as fine, by the trapezoidal rule.
    """
    fine = np.linspace(0, 1, 32 * (vertices - 1) + 1)
    angle = _summed(bend(fine), fine)
    angle -= angle[len(fine) // 2]
    points = np.stack([_summed(np.cos(angle), fine), _summed(np.sin(angle), fine), 0 * fine], -1)[::32] * length
    return points - points.mean(0)


def _summed(values: Array, at: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(at))])


def result(points: Array, fps: float = FPS, first: int = 0, **attributes: object) -> xr.Dataset:
    """A dataset of midlines (time, vertex, 3) as a result has them."""
    frames = np.arange(first, first + len(points))
    return xr.Dataset(
        {
            "position": (("time", "space", "keypoint", "individual"), points.transpose(0, 2, 1)[..., None]),
            "status": (("time",), np.full(len(points), "ok", object)),
        },
        {
            "time": frames / fps,
            "frame": ("time", frames),
            "space": ["x", "y", "z"],
            "keypoint": np.arange(points.shape[1]),
            "individual": ["worm"],
        },
        {"fps": fps, **attributes},
    )


def measured(dataset: xr.Dataset, options: kinematics.Options | None = None) -> xr.Dataset:
    """Kinematics without standard deviations, which take most of the time."""
    return kinematics.of(dataset, replace(options or kinematics.Options(), draws=0))
