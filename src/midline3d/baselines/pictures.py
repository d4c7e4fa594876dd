"""What classical image processing finds in one view: the silhouette, the midline's pixels, a path along it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.filters import apply_hysteresis_threshold
from skimage.graph import MCP_Geometric

from midline3d.baselines.scene import Array, Flags, sampled

SURE, FAINT = 0.45, 0.15
"""Of the body's brightness: what is the animal for sure, and what belongs to it where it touches that."""
CLEAR = 4.0
"""Standard deviations of the noise that faint light must stand out by."""
EVERYWHERE = np.ones((3, 3))


@dataclass(frozen=True)
class Ridges:
    """Where a view is brighter than to either side."""

    strength: Array
    """(w, w) second derivative across, times its scale squared: some 0.5 on the middle of a clear body."""
    crest: Flags
    """(w, w) pixels on the crest itself: a line one or two px wide."""


def silhouette(image: Array, noise: float) -> Flags:
    """(w, w) the animal's pixels: the largest piece that stands out of the noise, its small holes closed."""
    smooth = ndimage.gaussian_filter(image, 0.8)
    low = max(FAINT, CLEAR * noise * 0.45)  # the blur takes more than half of the noise away
    mask = apply_hysteresis_threshold(smooth, low, max(SURE, 1.5 * low))
    return largest(mask)


def largest(mask: Flags) -> Flags:
    """The largest piece of a mask, diagonals joined."""
    pieces, count = ndimage.label(mask, EVERYWHERE)
    if count < 2:
        return np.asarray(mask, dtype=bool)
    sizes = np.bincount(pieces.ravel())
    sizes[0] = 0
    return np.asarray(pieces == sizes.argmax())


def width(mask: Flags) -> float:
    """How wide the animal is, px: twice the largest distances to its outline, along its middle."""
    depth = ndimage.distance_transform_edt(mask)
    middle = depth[(depth == ndimage.maximum_filter(depth, 3)) & (depth > 1)]
    return float(2 * np.median(middle)) if middle.size else 2.0


def ridges(image: Array, wide: float) -> Ridges:
    """Ridges of a view at the scale of a body `wide` px across."""
    scale = float(np.clip(0.32 * wide, 1.2, 5.0))
    vv, uu, uv = (ndimage.gaussian_filter(image, scale, order) for order in ((2, 0), (0, 2), (1, 1)))
    half, turn = 0.5 * (uu - vv), np.hypot(0.5 * (uu - vv), uv)
    least = 0.5 * (uu + vv) - turn
    strength = np.maximum(-least, 0) * scale**2
    # Across the ridge: the eigenvector of the smallest eigenvalue, (u, v) = (uv, least - uu) or (half - turn, uv).
    across = np.where((half < 0)[..., None], np.stack([half - turn, uv], -1), np.stack([uv, -half - turn], -1))
    across = across / np.maximum(np.linalg.norm(across, axis=-1, keepdims=True), 1e-12)
    v, u = np.mgrid[: image.shape[0], : image.shape[1]].astype(float)
    place = np.stack([u, v], -1)
    beside = [sampled(strength, place + step * across) for step in (-1.0, 1.0)]
    crest = (strength >= beside[0]) & (strength >= beside[1]) & (strength > 0)
    return Ridges(strength, crest)


def midline_pixels(image: Array, noise: float, mask: Flags) -> Flags:
    """(w, w) pixels of the midline: crests of ridges as wide as the body, inside its silhouette."""
    found = ridges(image, width(mask))
    strong = apply_hysteresis_threshold(np.where(found.crest, found.strength, 0), max(0.05, 3 * noise), 0.25)
    return np.asarray(strong & ndimage.binary_dilation(mask))


def path_between(cost: Array, start: NDArray[np.int64], end: NDArray[np.int64]) -> Array:
    """(pixel, 2) the path (u, v) from one pixel to another that costs least."""
    search = MCP_Geometric(cost)
    search.find_costs([tuple(start[::-1])], [tuple(end[::-1])])
    return np.array(search.traceback(tuple(end[::-1])), dtype=np.float64)[:, ::-1]


def farthest(cost: Array, mask: Flags, start: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pixel (u, v) of a mask that is the longest way from another, as the cost counts."""
    reached, _ = MCP_Geometric(np.where(mask, cost, -1.0)).find_costs([tuple(start[::-1])])
    reached = np.where(mask & np.isfinite(reached), reached, -1)
    return np.array(np.unravel_index(int(reached.argmax()), mask.shape)[::-1])


def path_cost(image: Array, noise: float, mask: Flags) -> Array:
    """(w, w) what a step costs: little along the middle of the animal, much beside it."""
    strength = ridges(image, width(mask)).strength
    inside = ndimage.distance_transform_edt(mask)
    worth = strength / max(float(strength[mask].max(initial=0)), 1e-9) + 0.3 * inside / max(float(inside.max()), 1e-9)
    return np.asarray(1 / (0.03 + worth) + np.where(mask, 0, 30 / max(1.0, 1 + noise)))


def traced_path(image: Array, noise: float, ends: Array | None = None) -> Array | None:
    """(pixel, 2) the midline in one view as a minimal path, px (u, v); None where there is nothing to trace.

    ends: (2, 2) where the ends are expected; without, those of the longest way through the silhouette.
    """
    mask = silhouette(image, noise)
    if mask.sum() < 12:
        return None
    cost = path_cost(image, noise, mask)
    if ends is None:
        even = np.ones_like(cost)
        pixels = np.argwhere(mask)[:, ::-1]
        first = farthest(even, mask, pixels[len(pixels) // 2])
        second = farthest(even, mask, first)
        start, stop = farthest(even, mask, second), second
    else:
        start, stop = (np.clip(np.rint(end), 0, image.shape[0] - 1).astype(np.int64) for end in ends)
    return path_between(cost, start, stop)


def centred(path: Array, image: Array, wide: float) -> Array:
    """A path (point, 2) moved across itself onto the middle of the light there, point by point; the ends stay."""
    smooth = ndimage.gaussian_filter(np.maximum(image, 0), 0.7)
    offsets = np.linspace(-0.6 * wide, 0.6 * wide, 25)
    for _ in range(2):
        along = ndimage.gaussian_filter1d(np.gradient(path, axis=0), 2.0, axis=0, mode="nearest")
        along /= np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), 1e-9)
        across = np.stack([-along[:, 1], along[:, 0]], -1)
        light = sampled(smooth, path[:, None] + offsets[:, None] * across[:, None])
        light = np.square(np.maximum(light - light.min(1, keepdims=True), 0)) + 1e-9
        move = (light * offsets).sum(1) / light.sum(1)
        move = ndimage.gaussian_filter1d(move, 2.0, mode="nearest")
        move[[0, -1]] = 0
        path = path + move[:, None] * across
    return path
