"""How the animal moves: velocity and speed of its centroid, forward speed, slip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.kinematics.shape import by_blocks, derivative, integral
from midline3d.kinematics.smoothing import Flags, Smooth, Window, local_quadratic

Array = NDArray[np.float64]
PLACES = 33
"""Places along the body whose own velocities are given."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Place and motion of every frame, NaN where there is no midline."""

    centroid: Smooth
    """(time, 3) mm and mm/s: mean of the midline's points."""
    speed: Array
    """(time,) mm/s."""
    forward: Array
    """(time,) mm/s along the body, above 0 head first."""
    sideways: Array
    """(time,) share of the motion that goes across the body: 0 along its own track, 1 broadside."""


def motion(points: Array, valid: Flags, window: Window) -> Motion:
    """Of midlines (time, vertex, 3), mm. r(u, t) is a point of the body, T its tangent from head to tail.

    centroid = int r du, velocity = d/dt of it, speed = |velocity|; forward = -int dr/dt . T du;
    sideways = int |dr/dt - (dr/dt . T) T|^2 du / int |dr/dt|^2 du.
    """
    centroid = np.full((len(points), 3), np.nan)
    centroid[valid] = by_blocks(integral, points)[valid]
    course = local_quadratic(centroid, valid, window)
    every = np.linspace(0, points.shape[1] - 1, min(PLACES, points.shape[1])).round().astype(int)
    some = points[:, every]
    parts = local_quadratic(some.reshape(len(points), -1), valid, window)
    velocity = parts.rate.reshape(some.shape)
    tangent = by_blocks(lambda part: _tangents(part)[:, every], points)
    along = (velocity * tangent).sum(-1)
    whole = np.square(velocity).sum(-1)
    total = integral(whole)
    return Motion(
        centroid=course,
        speed=np.linalg.norm(course.rate, axis=-1),
        forward=-integral(along),
        sideways=integral(np.maximum(whole - along**2, 0)) / np.where(total > 0, total, np.nan),
    )


def _tangents(points: Array) -> Array:
    velocity = derivative(points)
    return np.asarray(velocity / np.linalg.norm(velocity, axis=-1, keepdims=True))


def slip(forward: Array, wave_speed: Array) -> Array:
    """(time,) 1 - forward / wave speed: 0 where the body follows its own track, 1 where the wave runs in place."""
    return np.asarray(1 - forward / wave_speed)
