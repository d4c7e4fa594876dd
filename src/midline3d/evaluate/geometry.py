"""Distances between midlines: of points to lines, and of shapes whatever their place and direction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def distance_to_polyline(points: Array, line: Array) -> Array:
    """Distance of points (point, d) to the nearest place on a polyline (node, d)."""
    return distance_to_segments(points, line[:-1], line[1:])[0].min(-1)


def nearest_on_polyline(points: Array, line: Array) -> tuple[Array, Array]:
    """The same, and where on the polyline that place is, in nodes from its first: (point,) each."""
    distance, share = distance_to_segments(points, line[:-1], line[1:])
    segment = distance.argmin(-1)
    rows = np.arange(len(points))
    return distance[rows, segment], segment + share[rows, segment]


def distance_to_segments(points: Array, start: Array, end: Array) -> tuple[Array, Array]:
    """(point, segment) distance of points (point, d) to segments (segment, d), and the share of each passed there."""
    way = end - start
    square = np.maximum(np.square(way).sum(-1), 1e-300)
    from_start = points[:, None] - start
    share = np.clip((from_start * way).sum(-1) / square, 0, 1)
    return np.linalg.norm(from_start - share[..., None] * way, axis=-1), share


def rigid_distance(points: Array, goal: Array) -> float:
    """Rms distance of two point sets (point, 3) after the best rotation and translation (Kabsch)."""
    a, b = points - points.mean(0), goal - goal.mean(0)
    u, _, vt = np.linalg.svd(a.T @ b)
    mirror = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])  # a worm's mirror image is another shape
    return float(np.sqrt(np.square(a @ u @ mirror @ vt - b).sum(-1).mean()))


def arc_length(curve: Array) -> Array:
    """(node,) way along a polyline (node, d) from its first node."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=-1))])


def evenly(curve: Array, count: int = 128) -> Array:
    """`count` points at equal steps along a polyline."""
    way = arc_length(curve)
    goal = np.linspace(0, way[-1], count)
    return np.stack([np.interp(goal, way, axis) for axis in curve.T], -1)
