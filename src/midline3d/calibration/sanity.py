"""Whether a rig can be what it says: every camera before the animal, none behind, at a magnification that there is."""

from __future__ import annotations

import numpy as np

from midline3d.calibration.records import Array, Calibration, Camera
from midline3d.cameras import UNDISTORTING
from midline3d.errors import InputError

MAGNIFICATION = (5.0, 5000.0)
"""px per mm: below, a worm of 1 mm is a speck; above, no light microscope goes."""
ANGLE = 2.0
"""Degrees: views closer together than this in direction do not tell depth."""
BENT = 0.5
"""px: what undistorting and distorting an image point may leave; a model that folds the image leaves far more."""


def check_rig(calibration: Calibration, sizes: list[tuple[int, int]], source: str) -> None:
    """Says in one sentence what cannot be right about cameras with images of these sizes (width, height in px)."""
    rays = []
    for camera, size in zip(calibration.cameras, sizes, strict=True):
        _check_distortion(camera, size, source)
        middle = (np.array([size], np.float64) - 1) / 2
        rays.append(camera.rotation.T @ np.append(_plane(camera, middle)[0], 1.0))
    meeting = _meeting(calibration, np.stack(rays), source)
    for camera, size in zip(calibration.cameras, sizes, strict=True):
        _check_place(camera, size, meeting, source)


def _check_place(camera: Camera, size: tuple[int, int], meeting: Array, source: str) -> None:
    """The point that all cameras look at must lie before the camera, near its image, at a possible magnification."""
    label = f"{source}: camera '{camera.name}'"
    seen = camera.rotation @ meeting + camera.translation
    if not seen[2] > 0:
        raise InputError(
            f"{label} has the place that all cameras look at {-seen[2]:.3g} mm behind it; give rotation and "
            "translation from the world to the camera (x_cam = R X + t), not the other way round"
        )
    focal = np.array([camera.matrix[0, 0], camera.matrix[1, 1]])
    for scale in (focal / seen[2]).tolist():
        if not MAGNIFICATION[0] <= scale <= MAGNIFICATION[1]:
            raise InputError(
                f"{label} has {scale:.3g} px/mm where the cameras look, but {MAGNIFICATION[0]:g} to "
                f'{MAGNIFICATION[1]:g} are possible; are the focal length (px) and the "units" (mm, um, ...) right?'
            )
    place = seen[:2] / seen[2] * focal + camera.matrix[:2, 2]
    if not (np.abs(place - np.array(size) / 2) <= 1.5 * np.array(size)).all():
        raise InputError(
            f"{label} does not look where the others do: their common point lies at ({place[0]:.4g}, {place[1]:.4g}) "
            f"of its {size[0]} x {size[1]} px; check its pose, or its name"
        )


def _meeting(calibration: Calibration, rays: Array, source: str) -> Array:
    """(3,) mm: the point nearest to the rays through all image centres."""
    rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
    places = np.stack([-camera.rotation.T @ camera.translation for camera in calibration.cameras])
    apart = np.degrees(np.arccos(np.clip(np.abs(rays @ rays.T).min(), 0, 1)))
    if not apart >= ANGLE:
        raise InputError(
            f"{source}: all cameras look in the same direction, {apart:.2g} degrees apart (limit {ANGLE:g}), so depth "
            "cannot be seen; is each camera's own rotation given?"
        )
    across = np.eye(3) - rays[:, :, None] * rays[:, None, :]
    return np.asarray(np.linalg.solve(across.sum(0), (across @ places[..., None]).sum(0))[:, 0])


def _check_distortion(camera: Camera, size: tuple[int, int], source: str) -> None:
    """The distortion must be a correction: one that folds the image over cannot be undone."""
    width, height = size
    border = np.array([[u, v] for u in (0, width / 2, width) for v in (0, height / 2, height)])
    focal = np.array([camera.matrix[0, 0], camera.matrix[1, 1]])
    with np.errstate(all="ignore"):
        back = _distorted(_plane(camera, border), camera.distortions) * focal + camera.matrix[:2, 2]
    if not (np.linalg.norm(back - border, axis=-1) < BENT).all():
        given = ", ".join(f"{value:g}" for value in camera.distortions)
        raise InputError(
            f"{source}: the distortions of camera '{camera.name}' ({given}) fold its image of {width} x {height} px "
            f"(focal lengths {focal[0]:g} and {focal[1]:g} px) over; calibrate again, with fewer coefficients"
        )


def _plane(camera: Camera, pixels: Array) -> Array:
    """(point, 2) undistorted directions x / z, y / z of pixels, by the fixed point that the method itself uses."""
    goal = (pixels - camera.matrix[:2, 2]) / np.array([camera.matrix[0, 0], camera.matrix[1, 1]])
    plane = goal
    with np.errstate(all="ignore"):
        for _ in range(UNDISTORTING):
            plane = plane - (_distorted(plane, camera.distortions) - goal)
    return np.asarray(plane)


def _distorted(plane: Array, distortions: Array) -> Array:
    k1, k2, p1, p2, k3 = distortions
    x, y = plane.T
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    u = radial * x + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    v = radial * y + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return np.stack([u, v], -1)
