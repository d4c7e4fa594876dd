"""The simulated rig: nearly telecentric cameras at right angles, and a calibration of them that is a few pixels off.

Projection is OpenCV's own, so that nothing here can share a mistake with `midline3d.cameras`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

_VIEWS = (
    ((1, 0, 0), (0, 1, 0)),  # X right, Y down
    ((1, 0, 0), (0, 0, -1)),  # X right, Z up
    ((0, 0, 1), (0, 1, 0)),  # Z right, Y down
    ((0.5**0.5, 0, -(0.5**0.5)), (-(6**-0.5), 2 * 6**-0.5, -(6**-0.5))),  # along the cube's diagonal
)
MOST_CAMERAS = len(_VIEWS)


@dataclass(frozen=True)
class Camera:
    """One camera in OpenCV's convention; mm and px, pixel centres at integers."""

    name: str
    size: int
    matrix: Array
    distortions: Array
    rotation: Array
    translation: Array

    def project(self, points: Array) -> Array:
        """(..., 3) mm -> (..., 2) px."""
        flat = np.ascontiguousarray(points.reshape(-1, 1, 3))
        turn = Rotation.from_matrix(self.rotation).as_rotvec()
        image, _ = cv2.projectPoints(flat, turn, self.translation, self.matrix, self.distortions)
        return np.asarray(image, dtype=np.float64).reshape(*points.shape[:-1], 2)

    def depth(self, points: Array) -> Array:
        """Distance along the camera's axis, mm."""
        return points @ self.rotation[2] + self.translation[2]

    def describe(self) -> dict[str, Any]:
        """As a calibration file writes it."""
        return {
            "name": self.name,
            "size": [self.size, self.size],
            "matrix": self.matrix.tolist(),
            "distortions": self.distortions.tolist(),
            "rotation": self.rotation.tolist(),
            "translation": self.translation.tolist(),
        }


def make_rig(count: int, size: int, px_per_mm: float, rng: np.random.Generator) -> tuple[Camera, ...]:
    """The cameras that take the pictures."""
    rig = []
    for index, (right, down) in enumerate(_VIEWS[:count]):
        ideal = np.array([right, down, np.cross(right, down)])
        tilt = Rotation.from_rotvec(rng.normal(0, np.radians(1.2), 3)).as_matrix()
        depth = rng.uniform(1000, 1400)
        focal = px_per_mm * depth * rng.uniform(0.985, 1.015)
        centre = (size - 1) / 2 + rng.uniform(-8, 8, 2)
        matrix = np.array([[focal, 0, centre[0]], [0, focal * rng.uniform(0.9995, 1.0005), centre[1]], [0, 0, 1]])
        # About half a pixel of distortion at the middle of an edge, whatever the focal length.
        edge = size / 2 / focal
        radial, tangential = rng.normal(0, 0.6) / (focal * edge**3), rng.normal(0, 0.15, 2) / (focal * edge**2)
        distortions = np.array([radial, 0, *tangential, 0])
        translation = np.array([*rng.normal(0, 0.02, 2), depth])
        rig.append(Camera(f"cam{index}", size, matrix, distortions, tilt @ ideal, translation))
    return tuple(rig)


def miscalibrate(
    rig: tuple[Camera, ...], error: float, rng: np.random.Generator, warp: float = 0.0
) -> tuple[Camera, ...]:
    """The calibration handed to the user: each camera off by `error` px rms over the field of view.

    `warp` is how much of that lies in the distortion, against pose, focal length and principal point.
    """
    return tuple(_miscalibrated(camera, error, rng, warp) for camera in rig)


def reprojection_error(camera: Camera, other: Camera) -> float:
    """Rms distance in px of the two cameras' images of points spread over their common field of view."""
    half = 0.35 * camera.size / camera.matrix[0, 0] * camera.translation[2]
    grid = np.stack(np.meshgrid(*[np.linspace(-half, half, 5)] * 3), -1).reshape(-1, 3)
    return float(np.sqrt(np.square(camera.project(grid) - other.project(grid)).sum(-1).mean()))


def _miscalibrated(camera: Camera, error: float, rng: np.random.Generator, warp: float) -> Camera:
    if error == 0:
        return camera
    field = 0.2 * camera.size
    turn, move, shift = rng.normal(0, 0.5 / field, 3), rng.normal(0, 0.6, 2), rng.normal(0, 0.6, 2)
    zoom = rng.normal(0, 0.3 / field)
    scale = camera.translation[2] / camera.matrix[0, 0]
    edge = camera.size / 2 / camera.matrix[0, 0]
    radial = warp * rng.normal() / (camera.matrix[0, 0] * edge**3) if warp else 0.0

    def wrong_by(amount: float) -> Camera:
        matrix = camera.matrix.copy()
        matrix[:2, :2] *= 1 + amount * zoom
        matrix[:2, 2] += amount * shift
        rotation = Rotation.from_rotvec(amount * turn).as_matrix() @ camera.rotation
        translation = camera.translation + amount * scale * np.array([*move, 0])
        distortions = camera.distortions + amount * radial * np.eye(5)[0]
        return replace(camera, matrix=matrix, distortions=distortions, rotation=rotation, translation=translation)

    amount = error
    for _ in range(4):  # the error is nearly proportional to the amount
        amount *= error / reprojection_error(camera, wrong_by(amount))
    return wrong_by(amount)
