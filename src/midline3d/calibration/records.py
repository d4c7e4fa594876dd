"""A calibrated rig, every number checked, in mm."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError

Array = NDArray[np.float64]

MILLIMETRES = {"mm": 1.0, "um": 1e-3, "µm": 1e-3, "μm": 1e-3, "micron": 1e-3, "cm": 10.0, "m": 1e3, "in": 25.4}
"""What one of each unit is in mm."""
FARTHEST = 1e6
"""mm, and px: no camera stands a kilometre away, and no principal point lies a million px beside the image."""
STRONGEST = 1e20
"""Distortions beyond this are no lens, but a long one's, whose image is a thousandth of its focal length, are large: a
px in the corner of its image may be a k2 of 1e9 or a k3 of 1e14. Whether they fold or bend the image is what tells (see
`sanity`)."""


@dataclass(frozen=True, eq=False)
class Camera:
    """One calibrated camera in OpenCV's convention: x_cam = R X + t, pixel centres at integers."""

    name: str
    size: tuple[int, int] | None
    """Width and height in px; None where the file does not say."""
    matrix: Array
    """3 x 3, px."""
    distortions: Array
    """k1, k2, p1, p2, k3."""
    rotation: Array
    """3 x 3, world to camera."""
    translation: Array
    """3, mm."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rig of two cameras or more, in mm whatever the file's unit was."""

    cameras: tuple[Camera, ...]
    units: str = "mm"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(camera.name for camera in self.cameras)

    def cameras_for(self, names: list[str] | tuple[str, ...]) -> Calibration:
        """The cameras of these names, in this order."""
        known = {camera.name: camera for camera in self.cameras}
        for name in names:
            if name not in known:
                raise InputError(
                    f"the calibration has no camera '{name}', only {', '.join(known)}: "
                    "give the recording's cameras the calibration's names"
                )
        return Calibration(tuple(known[name] for name in names), self.units)

    def to_cameras(self) -> rig.Cameras:
        """The rig as the method uses it, float64."""
        stacked = (
            torch.from_numpy(np.stack([getattr(camera, item) for camera in self.cameras]))
            for item in ("matrix", "distortions", "rotation", "translation")
        )
        return rig.make_cameras(*stacked)

    def with_cameras(self, cameras: rig.Cameras) -> Calibration:
        """The same cameras with the rig's numbers: a refined calibration."""
        changed = []
        for place, camera in enumerate(self.cameras):
            matrix = camera.matrix.copy()
            matrix[0, 0], matrix[1, 1] = cameras.focal[0, place].tolist()
            matrix[:2, 2] = cameras.centre[0, place].numpy()
            rotation, translation = cameras.rotation[0, place].numpy(), cameras.translation[0, place].numpy()
            changed.append(dataclasses.replace(camera, matrix=matrix, rotation=rotation, translation=translation))
        return dataclasses.replace(self, cameras=tuple(changed))


def make_calibration(cameras: list[Camera], units: str, source: str) -> Calibration:
    """Cameras of one file, checked together and brought to mm."""
    if len(cameras) < 2:
        raise InputError(f"{source}: holds {len(cameras)} camera(s), but two or more are needed to see in 3D")
    names = [camera.name for camera in cameras]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{source}: two cameras are named '{twice}'; give each its own name")
    if units not in MILLIMETRES:
        raise InputError(f"{source}: the unit '{units}' is not known; use one of {', '.join(MILLIMETRES)}")
    factor = MILLIMETRES[units]
    scaled = tuple(dataclasses.replace(camera, translation=camera.translation * factor) for camera in cameras)
    for camera in scaled:
        _bounded(camera.translation, FARTHEST, "translation in mm", f"{source}: camera '{camera.name}'")
    poses = [np.hstack([camera.rotation, camera.translation[:, None]]) for camera in scaled]
    if all(np.allclose(poses[0], pose, rtol=1e-9, atol=1e-9) for pose in poses[1:]):
        raise InputError(
            f"{source}: all cameras stand in the same place, so depth cannot be seen; calibrate their poses"
        )
    return Calibration(scaled)


def make_camera(
    source: str,
    name: str,
    size: ArrayLike | None,
    matrix: ArrayLike,
    distortions: ArrayLike,
    rotation: ArrayLike,
    translation: ArrayLike,
) -> Camera:
    """One camera from what a file says, each number checked; `source` opens every complaint."""
    label = f"{source}: camera '{name}'"
    return Camera(
        name=name,
        size=_size(size, label),
        matrix=_intrinsic(numbers(matrix, (3, 3), "matrix", label), label),
        distortions=_distortions(distortions, label),
        rotation=_rotation(rotation, label),
        translation=_bounded(numbers(translation, (3,), "translation", label), FARTHEST * 1e3, "translation", label),
    )


def numbers(values: ArrayLike, shape: tuple[int, ...] | None, what: str, label: str) -> Array:
    """Finite float64 numbers of a shape (None: a flat row of any length)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{label}: the {what} is not an array of numbers; write it as a list of numbers") from None
    if array.size == (math.prod(shape) if shape else array.size):
        array = array.reshape(shape if shape else -1)
    else:
        wanted = " x ".join(map(str, shape or ()))
        raise InputError(f"{label}: the {what} has {array.size} numbers, but {wanted} are needed; correct it")
    if not np.isfinite(array).all():
        fault = array[~np.isfinite(array)][0]
        raise InputError(f"{label}: the {what} contains {fault}; calibrate again, that calibration did not converge")
    return array


def _bounded(values: Array, limit: float, what: str, label: str) -> Array:
    """The values, unless one is beyond what any camera can have."""
    if values.size and not np.abs(values).max() <= limit:
        worst = values.flat[int(np.abs(values).argmax())]
        raise InputError(
            f"{label}: the {what} contains {worst:g}, beyond {limit:g}; is it in the right unit, and whole?"
        )
    return values


def _size(size: ArrayLike | None, label: str) -> tuple[int, int] | None:
    if size is None:
        return None
    width, height = numbers(size, (2,), "size", label)
    if width < 1 or height < 1 or width != int(width) or height != int(height) or max(width, height) > 1e6:
        raise InputError(f"{label}: the size is {width:g} x {height:g}; give the images' width and height in whole px")
    return int(width), int(height)


def _intrinsic(matrix: Array, label: str) -> Array:
    if not np.allclose(matrix[2], (0, 0, 1)) or matrix[1, 0] != 0:
        raise InputError(f"{label}: the matrix is not [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]; is it transposed?")
    if not (1 <= matrix[0, 0] < 1e9 and 1 <= matrix[1, 1] < 1e9):
        raise InputError(
            f"{label}: the matrix is singular (focal lengths {matrix[0, 0]:g} and {matrix[1, 1]:g} px, 1 to 1e9 are "
            "possible); calibrate again"
        )
    _bounded(matrix[:2, 2], FARTHEST, "matrix", label)
    if abs(matrix[0, 1]) > 1e-6 * matrix[0, 0]:
        raise InputError(f"{label}: the matrix has a skew of {matrix[0, 1]:g} px; calibrate with the skew fixed at 0")
    return matrix


def _distortions(values: ArrayLike, label: str) -> Array:
    """k1, k2, p1, p2, k3; OpenCV's longer models only where they say no more than that."""
    given = numbers(values, None, "distortions", label)
    if given.size not in (0, 4, 5, 8, 12, 14):
        raise InputError(f"{label}: {given.size} distortions were given, but OpenCV's are k1, k2, p1, p2, k3")
    if given[5:].any():
        raise InputError(
            f"{label}: distortion number 6 or later is {given[5:][given[5:] != 0][0]:g}, but only k1, k2, p1, p2, k3 "
            "are modelled; calibrate without the rational, thin-prism and tilted models"
        )
    _bounded(given, STRONGEST, "list of distortions", label)
    distortions = np.zeros(5)
    distortions[: min(given.size, 5)] = given[:5]
    return distortions


def _rotation(values: ArrayLike, label: str) -> Array:
    """A rotation matrix from a matrix or from Rodrigues' vector, made exactly orthonormal."""
    given = numbers(values, None, "rotation", label)
    if given.size == 3:
        return _rodrigues(_turn(_bounded(given, 1e3, "rotation (rad)", label), label))
    matrix = numbers(given, (3, 3), "rotation", label)
    left, spread, right = np.linalg.svd(_bounded(matrix, 1e3, "rotation", label))
    if np.abs(spread - 1).max() > 1e-2:
        raise InputError(
            f"{label}: the rotation is not a rotation matrix (its singular values are "
            f"{', '.join(f'{value:.3g}' for value in spread)} instead of 1); correct it"
        )
    if np.linalg.det(matrix) < 0:
        raise InputError(f"{label}: the rotation mirrors space (determinant -1); flip the sign of one axis")
    # Files carry few digits: the nearest rotation is what was meant.
    return np.asarray(left @ right)


def _turn(vector: Array, label: str) -> Array:
    """A rotation vector, if no more than a whole turn: longer ones are degrees."""
    length = float(np.linalg.norm(vector))
    if length > 2 * math.pi + 1e-6:
        raise InputError(
            f"{label}: the rotation vector turns by {length:.4g}, but in radians a whole turn is {2 * math.pi:.4g}; if "
            "these are degrees, multiply them by pi / 180"
        )
    return vector


def _rodrigues(vector: Array) -> Array:
    angle = float(np.linalg.norm(vector))
    if angle == 0:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
