"""Whether a rig can be what it says: every camera before the animal, none behind, at a magnification that there is."""

from __future__ import annotations

import warnings

import numpy as np

from midline3d.calibration.records import Array, Calibration, Camera
from midline3d.distortion import distorted, undistorted
from midline3d.errors import InputError

MAGNIFICATION = (5.0, 5000.0)
"""px per mm: below, a worm of 1 mm is a speck; above, no light microscope goes."""
ANGLE = 2.0
"""Degrees: views closer together than this in direction do not tell depth."""
BENT = 0.5
"""px: what undistorting and distorting an image point may leave; beyond a fold, where nothing is shown, it is more."""
NEEDED = 0.5
"""Share of width and height, in the middle of the image, that must be shown without a fold: the animal is there."""
MOST = 0.5
"""Of its distance from the principal point: farther than this no lens moves a point in the middle of its image."""
LOOKS = 17
"""Image points in a row, and rows, that are looked at for a fold."""


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
    """Distortions that fold the image over show nothing beyond the fold, which must not lie where the animal is."""
    share = np.stack(np.meshgrid(*[np.linspace(0, 1, LOOKS)] * 2), -1).reshape(-1, 2)
    needed = (np.abs(share - 0.5) <= NEEDED / 2).all(-1)
    focal, centre = np.array([camera.matrix[0, 0], camera.matrix[1, 1]]), camera.matrix[:2, 2]
    pixels = share * size
    with np.errstate(all="ignore"):
        plane = _plane(camera, pixels)
        shown = np.stack(distorted(*plane.T, *camera.distortions), -1) * focal + centre
        hidden = ~(np.linalg.norm(shown - pixels, axis=-1) < BENT)
        moved, away = (np.linalg.norm(each, axis=-1) for each in (plane * focal + centre - pixels, pixels - centre))
    label = f"{source}: the distortions of camera '{camera.name}' ({', '.join(f'{k:g}' for k in camera.distortions)})"
    image = f"its image of {size[0]} x {size[1]} px (focal lengths {focal[0]:g} and {focal[1]:g} px)"
    if (hidden & needed).any():
        raise InputError(f"{label} fold {image} over; calibrate again, with fewer coefficients")
    if (needed & (moved > MOST * away + BENT)).any():
        most = f"by up to {moved[needed].max():.0f} px"
        raise InputError(f"{label} bend {image} {most}; calibrate again, with fewer coefficients")
    if hidden.any():
        warnings.warn(
            f"{label} fold {image} over, {away[hidden].min():.0f} px from the principal point: a worm that goes so far "
            "is not placed rightly; calibrate again, with fewer coefficients",
            stacklevel=2,
        )


def _plane(camera: Camera, pixels: Array) -> Array:
    """(point, 2) undistorted directions x / z, y / z of pixels."""
    u, v = ((pixels - camera.matrix[:2, 2]) / np.array([camera.matrix[0, 0], camera.matrix[1, 1]])).T
    with np.errstate(all="ignore"):
        return np.stack(undistorted(u, v, tuple(camera.distortions), 4 * np.finfo(np.float64).eps), -1)
