"""Curves through points: smoothed, and sampled at equal steps."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.interpolate import splev, splprep

from midline3d.baselines.scene import Array, Traced

KEYPOINTS = 128
"""Points of every midline that is handed over, as a result has them."""


def arc_length(curve: Array) -> Array:
    """(node,) way along a polyline from its first node."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=-1))])


def evenly(curve: Array, count: int = KEYPOINTS) -> Array:
    """`count` points at equal steps along a polyline (node, d)."""
    way = arc_length(curve)
    goal = np.linspace(0, way[-1], count)
    return np.stack([np.interp(goal, way, axis) for axis in curve.T], -1)


def smoothed(points: Array, error: float, count: int = KEYPOINTS) -> Array | None:
    """A smooth curve through ordered points (point, d) that are `error` off each, at equal steps; None if too few."""
    apart = np.concatenate([[True], np.linalg.norm(np.diff(points, axis=0), axis=-1) > 1e-9])
    points = points[apart]
    if len(points) < 6:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FITPACK says so where it cannot be as smooth as was asked: then it is less
        spline, _ = splprep(points.T, s=len(points) * error**2 * points.shape[1], k=3)
    return evenly(np.stack(splev(np.linspace(0, 1, 4 * count), spline), -1), count)


def turned_like(curve: Array, before: Traced | None) -> Array:
    """The curve in the direction in which it lies nearer to the one before."""
    if before is None:
        return curve
    old = evenly(before.points, len(curve))
    straight, turned = (float(np.linalg.norm(way - old, axis=-1).mean()) for way in (curve, curve[::-1]))
    return curve[::-1].copy() if turned < straight else curve
