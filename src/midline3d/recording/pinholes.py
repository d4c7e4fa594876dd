"""A rig's cameras in plain numbers, for the handful of points of a frame in which the worm is located.

The same as `cameras`, without shifts and gradients. A frame has a hundred readings of a few points each: there torch's
calls take ten times as long as the arithmetic, and hold Python's lock while they do. Everything goes element by
element, in one order, so that no last bit depends on where numbers lie in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from midline3d.cameras import Cameras
from midline3d.distortion import distorted, slopes, undistorted

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pinholes:
    """Cameras that all points share."""

    focal: Array
    """(camera, 2) px."""
    centre: Array
    """(camera, 2) px."""
    distortion: Array
    """(camera, 5) k1, k2, p1, p2, k3."""
    rotation: Array
    """(camera, 3, 3)"""
    translation: Array
    """(camera, 3) mm."""

    @staticmethod
    def of(cameras: Cameras) -> Pinholes:
        """The cameras of a rig that has one set of them."""
        return Pinholes(*(getattr(cameras, item.name)[0].numpy() for item in fields(Pinholes)))

    def only(self, used: NDArray[np.int64]) -> Pinholes:
        """Some cameras of the rig."""
        return Pinholes(*(values[used] for values in vars(self).values()))


def project(cameras: Pinholes, points: Array) -> Array:
    """(point, camera, 2) px: the images of (point, 3) mm."""
    return _images(cameras, _plane(_in_camera(cameras, points))).transpose(2, 0, 1)


def triangulate(cameras: Pinholes, pixels: Array, steps: int = 4) -> Array:
    """(point, 3) mm nearest to (point, camera, 2) px in all views: `cameras.triangulate`."""
    wanted = np.ascontiguousarray(pixels.transpose(1, 2, 0))
    points = _nearest_to_rays(cameras, wanted)
    for _ in range(steps):
        points = points + _step(cameras, points, wanted)
    return points


# Below, points come last: (camera, axis, point).


def _in_camera(cameras: Pinholes, points: Array) -> Array:
    """x, y, z in every camera's axes, mm, of (point, 3)."""
    return (cameras.rotation[..., None] * points.T).sum(2) + cameras.translation[..., None]


def _plane(in_camera: Array) -> Array:
    """Image points on the plane at depth 1."""
    return in_camera[:, :2] / in_camera[:, 2:]


def _distorted(cameras: Pinholes, plane: Array) -> Array:
    """Where a lens shows points of the plane at depth 1."""
    return np.stack(distorted(plane[:, 0], plane[:, 1], *cameras.distortion.T[..., None]), 1)


def _images(cameras: Pinholes, plane: Array) -> Array:
    """u, v in px of points on the plane at depth 1."""
    return _distorted(cameras, plane) * cameras.focal[..., None] + cameras.centre[..., None]


def _nearest_to_rays(cameras: Pinholes, pixels: Array) -> Array:
    """(point, 3) mm: where the rays through the pixels meet in the least-squares sense."""
    plane = _undistorted(cameras, pixels)
    direction = np.concatenate([plane, np.ones_like(plane[:, :1])], 1)
    ray = (cameras.rotation[..., None] * direction[:, :, None]).sum(1)
    ray /= np.sqrt((direction * direction).sum(1, keepdims=True))
    eye = -(cameras.rotation * cameras.translation[..., None]).sum(1)
    across = np.eye(3)[..., None] - ray[:, :, None] * ray[:, None]  # of a vector, what is across the ray
    return _solution(across.sum(0), (across * eye[:, None, :, None]).sum((0, 2)))


def _undistorted(cameras: Pinholes, pixels: Array) -> Array:
    """The points on the plane at depth 1 whose images are the pixels: see `cameras.rays_through`."""
    seen = (pixels - cameras.centre[..., None]) / cameras.focal[..., None]
    lens = tuple(cameras.distortion.T[..., None])
    return np.stack(undistorted(seen[:, 0], seen[:, 1], lens, 4 * np.finfo(np.float64).eps), 1)


def _step(cameras: Pinholes, points: Array, pixels: Array) -> Array:
    """(point, 3) mm: the Gauss-Newton step of points towards their pixels."""
    in_camera = _in_camera(cameras, points)
    plane = _plane(in_camera)
    slope = _slopes(cameras, plane, in_camera[:, 2])
    away = pixels - _images(cameras, plane)
    normal = (slope[:, :, :, None] * slope[:, :, None]).sum((0, 1))
    return _solution(normal, (slope * away[:, :, None]).sum((0, 1)))


def _slopes(cameras: Pinholes, plane: Array, depth: Array) -> Array:
    """(camera, 2, 3, point) derivatives of u and v by X, Y and Z, px per mm: `cameras.projection_jacobian`."""
    xx, xy, yy = slopes(plane[:, 0], plane[:, 1], *cameras.distortion.T[..., None])
    turn = cameras.rotation[..., None]
    across = (turn[:, :2] - plane[:, :, None] * turn[:, 2:]) / depth[:, None, None]
    distortion = np.stack([xx, xy, xy, yy], 1).reshape(len(plane), 2, 2, 1, -1)
    return cameras.focal[..., None, None] * (distortion * across[:, None]).sum(2)


def _solution(matrix: Array, goal: Array) -> Array:
    """(point, 3): the solutions of symmetric systems (3, 3, point) and (3, point), by Cramer's rule."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = matrix
    inverse = np.array(
        [
            [yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy],
            [xz * yz - xy * zz, xx * zz - xz * xz, xy * xz - xx * yz],
            [xy * yz - xz * yy, xy * xz - xx * yz, xx * yy - xy * xy],
        ]
    )
    determinant = (matrix[0] * inverse[0]).sum(0)
    return ((inverse * goal).sum(1) / determinant).T
