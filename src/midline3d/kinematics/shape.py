"""The shape of single midlines: Bishop frame, curvature, torsion, handedness, planarity, spread, writhe.

u runs from head to tail in [0, 1], K = m1 + i m2 is the curvature in a Bishop frame times the length l. That frame
may be turned about the tangent by one free angle, K becoming K e^(ia): nothing here but `bishop` itself depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
BLOCK = 1024
"""Frames that are worked on at once: some 30 MB."""
WRITHE_POINTS = 64
"""Points that the writhe is computed from: the pairs of all 128 would take four times as long for a per mille."""
WRITHE_PAIRS = 32_000
"""Pairs of segments that are worked on at once: those of 16 frames."""


@dataclass(frozen=True, eq=False)
class Bishop:
    """Curves in their Bishop frames."""

    tangent: Array
    """(time, vertex, 3)."""
    normal: Array
    """(time, vertex, 3) M1; M2 is tangent x normal."""
    curvature: Complex
    """(time, vertex) K, 1/body length."""
    length: Array
    """(time,) mm."""


def by_blocks(work: Callable[..., NDArray], *arrays: NDArray) -> NDArray:
    """`work` of arrays that lead with time, where it takes each frame by itself: what it holds on the way is then that
    of some frames, and not gigabytes of a long recording."""
    count = len(arrays[0])
    firsts = range(0, max(count, 1), BLOCK)
    return np.concatenate([work(*(each[first : first + BLOCK] for each in arrays)) for first in firsts])


def derivative(values: NDArray, axis: int = 1) -> NDArray:
    """d/du of values at equal steps of u, to the fourth order, one-sided at the ends."""
    v = np.moveaxis(values, axis, 0)
    step = 1 / (len(v) - 1)
    found = np.empty_like(v)
    found[2:-2] = (v[:-4] - 8 * v[1:-3] + 8 * v[3:-1] - v[4:]) / 12
    for place, weights in ((0, (-25, 48, -36, 16, -3)), (1, (-3, -10, 18, -6, 1))):
        found[place] = sum(weight * v[index] for index, weight in enumerate(weights)) / 12
        found[-1 - place] = -sum(weight * v[-1 - index] for index, weight in enumerate(weights)) / 12
    return np.moveaxis(found / step, 0, axis)


def integral(values: NDArray, axis: int = 1) -> NDArray:
    """Integral over u from head to tail of values at equal steps of u (Simpson where the count is odd)."""
    from scipy.integrate import simpson

    return np.asarray(simpson(values, dx=1 / (values.shape[axis] - 1), axis=axis))


def bishop(points: Array) -> Bishop:
    """Bishop frames and K of curves (time, vertex, 3) at equal steps of arc length.

    T = r' / |r'|, K = l (T' . M1 + i T' . M2) / |r'|, with M1 carried along by double reflection, which turns it about
    T by no more than the fourth order of the step.
    """
    velocity = derivative(points)
    speed = np.linalg.norm(velocity, axis=-1)
    tangent = velocity / speed[..., None]
    length = integral(speed)
    normal = _transported(points, tangent)
    change = derivative(tangent) * (length[:, None] / speed)[..., None]
    across = np.cross(tangent, normal)
    curvature = (change * normal).sum(-1) + 1j * (change * across).sum(-1)
    return Bishop(tangent, normal, curvature, length)


def least_turn(vector: Array, old: Array, new: Array) -> Array:
    """`vector` (..., 3) turned by the least rotation that takes the unit vector `old` to `new`."""
    axis, cosine = np.cross(old, new), (old * new).sum(-1, keepdims=True)
    turned = np.cross(axis, vector)
    return np.asarray(vector + turned + np.cross(axis, turned) / np.maximum(1 + cosine, 1e-12))


def _transported(points: Array, tangent: Array) -> Array:
    first = np.eye(3)[np.abs(tangent[:, 0]).argmin(-1)]
    first = first - (first * tangent[:, 0]).sum(-1, keepdims=True) * tangent[:, 0]
    normals = [first / np.linalg.norm(first, axis=-1, keepdims=True)]
    for place in range(points.shape[1] - 1):
        chord = points[:, place + 1] - points[:, place]
        mirrored = _reflected(normals[-1], chord), _reflected(tangent[:, place], chord)
        normals.append(_reflected(mirrored[0], tangent[:, place + 1] - mirrored[1]))
    return np.stack(normals, 1)


def _reflected(vector: Array, across: Array) -> Array:
    size = np.maximum(np.square(across).sum(-1, keepdims=True), 1e-300)
    return np.asarray(vector - 2 * (vector * across).sum(-1, keepdims=True) / size * across)


def turning(curvature: Complex) -> Array:
    """(time, vertex) Im(conj(K) K'): |K|^2 times the torsion, per unit of u."""
    return np.asarray((np.conj(curvature) * derivative(curvature)).imag)


def torsion(curvature: Complex, length: Array, limit: float) -> Array:
    """(time, vertex) 1/mm: Im(conj(K) K') / (l |K|^2), NaN where |K| is under `limit` (1/body length)."""
    bent = np.abs(curvature) > limit
    square = np.where(bent, np.square(np.abs(curvature)), np.nan)
    return np.asarray(turning(curvature) / square / length[:, None])


def handedness(curvature: Complex, length: Array) -> Array:
    """(time,) 1/mm: int Im(conj(K) K') du / (l int |K|^2 du): torsion by squared curvature, above 0 right-handed."""
    bent = integral(np.square(np.abs(curvature)))
    return np.asarray(integral(turning(curvature)) / np.where(bent > 0, bent, np.nan) / length)


def planarity(curvature: Complex) -> Array:
    """(time,) |int K^2 du| / int |K|^2 du: 1 for a curve in a plane, 0 where no plane is bent in more than another."""
    bent = integral(np.square(np.abs(curvature)))
    return np.asarray(np.abs(integral(curvature**2)) / np.where(bent > 0, bent, np.nan))


def spread(points: Array) -> Array:
    """(time, 3) mm^2: eigenvalues of the covariance of the points along the body, the largest first."""
    away = points - integral(points)[:, None]
    covariance = integral(away[..., :, None] * away[..., None, :])
    return np.linalg.eigvalsh(covariance)[:, ::-1]


def nonplanarity(eigenvalues: Array) -> Array:
    """(time,) share of the points' variance that lies outside their best plane: e3 / (e1 + e2 + e3)."""
    return np.asarray(eigenvalues[:, 2] / eigenvalues.sum(-1))


def writhe(points: Array, count: int = WRITHE_POINTS) -> Array:
    """(time,) Gauss' integral: (1 / 4 pi) double int (dr x ds) . (r - s) / |r - s|^3 over the curve with itself.

    Of polygons of `count` points, exactly: every pair of segments adds the solid angle of the directions from which
    they cross.
    """
    every = np.unique(np.linspace(0, points.shape[1] - 1, count).round().astype(int))
    # Axes first, so that every sum runs over whole rows; few frames at a time, so that the pairs stay in the cache.
    axes = np.ascontiguousarray(np.moveaxis(points[:, every], -1, 0))
    step = max(1, 2 * WRITHE_PAIRS // count**2)
    parts = [_writhe(axes[:, first : first + step]) for first in range(0, len(points), step)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _writhe(p: Array) -> Array:
    """Of polygons (3, time, point)."""
    first, second = np.triu_indices(p.shape[2] - 1, 2)
    a, b, c, d = p[:, :, first], p[:, :, first + 1], p[:, :, second], p[:, :, second + 1]
    ac, ad, bc, bd = c - a, d - a, c - b, d - b
    units = [_unit(_cross(one, other)) for one, other in ((ac, ad), (ad, bd), (bd, bc), (bc, ac))]
    pairs = zip(units, (*units[1:], units[0]), strict=True)
    angle = sum(np.arcsin(np.clip(_dot(one, other), -1, 1)) for one, other in pairs)
    side = np.sign(_dot(_cross(d - c, b - a), ac))
    return np.asarray((angle * side).sum(-1) / (2 * np.pi))


def _cross(a: Array, b: Array) -> Array:
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def _unit(a: Array) -> Array:
    return np.asarray(a / np.maximum(np.sqrt(_dot(a, a)), 1e-300))
