"""A strong cheap method of today: minimal paths in every view, matched along the body, triangulated, smoothed.

Each view's midline is the path of least cost between the ends of its silhouette. Two paths are matched by dynamic
programming: both are walked from end to end, and a pair costs its distance from the epipolar geometry and how far its
3D point is seen from the third view's path. The pair of views that fits best leads, the others are looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from midline3d.baselines.lines import arc_length, evenly, smoothed, turned_like
from midline3d.baselines.pictures import centred, traced_path
from midline3d.baselines.scene import Array, Frame, Traced, sampled

ERROR = 0.7
"""px: how far triangulated points lie off the midline."""
STALL = 0.6
"""px squared: what it costs to walk on in one view alone."""
ACROSS = 6.0
"""px: about as wide as the body, in which the middle of the light is sought."""
ROUNDS = 3
"""Times that the views' shifts are taken from what the match leaves over, and the paths matched again."""


@dataclass(frozen=True)
class Match:
    """Two views' paths, walked together."""

    cost: float
    """px squared, the mean over the steps."""
    views: tuple[int, int]
    steps: NDArray[np.int64]
    """(step, 2) places on the two paths."""
    turned: bool
    """Whether the second path is walked from its other end."""


@dataclass(frozen=True)
class Paths:
    """Minimal paths, epipolar dynamic programming, triangulation, smoothing."""

    def trace(self, frame: Frame, before: Traced | None) -> Traced | None:
        found = [traced_path(image, noise) for image, noise in zip(frame.images, frame.noise, strict=True)]
        if any(path is None or len(path) < 8 for path in found):
            return None
        paths = [_finer(path, image) for path, image in zip(found, frame.images, strict=True) if path is not None]
        shift = np.zeros(frame.axes) if before is None else before.shift
        for _ in range(ROUNDS):
            match = best_match(frame, paths, shift)
            points, pixels = _triangulated(frame, paths, match, shift)
            shift = _left_over(frame, points, pixels)
        curve = smoothed(points, ERROR / frame.scale)
        return None if curve is None else Traced(turned_like(curve, before), shift)


def best_match(frame: Frame, paths: list[Array], shift: Array) -> Match:
    """The pair of views, and the direction, in which two paths fit together best."""
    aligned = [path - move for path, move in zip(paths, frame.moves(shift), strict=True)]
    away = [ndimage.distance_transform_edt(~_drawn(path, frame.window)) for path in aligned]
    # The longer of two paths hides less of itself: three views give three pairs, each both ways round.
    pairs = [pair for pair in permutations(range(len(paths)), 2) if pair[0] < pair[1]]
    found = []
    for pair in pairs:
        cost = _pair_cost(frame, aligned, away, pair)
        for turned in (False, True):
            total, steps = walked(cost[:, ::-1] if turned else cost)
            found.append(Match(total, pair, steps, turned))
    return min(found, key=lambda match: match.cost)


def walked(cost: Array) -> tuple[float, NDArray[np.int64]]:
    """The cheapest way through a matrix from its first corner to its last, one step on in either or both at a time.

    Returns the mean cost of a step and the (step, 2) places. A step in one direction alone costs `STALL` more.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(2, rows + columns + 1):  # all of an anti-diagonal at once: none waits for another
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        earlier = np.stack([total[i - 1, j - 1], total[i - 1, j] + STALL, total[i, j - 1] + STALL])
        total[i, j] = cost[i - 1, j - 1] + earlier.min(0)
    steps, row, column = [], rows, columns
    while row > 0 and column > 0:
        steps.append((row - 1, column - 1))
        before = (total[row - 1, column - 1], total[row - 1, column] + STALL, total[row, column - 1] + STALL)
        down, right = ((1, 1), (1, 0), (0, 1))[int(np.argmin(before))]
        row, column = row - down, column - right
    return float(total[rows, columns] / len(steps)), np.array(steps[::-1])


def _pair_cost(frame: Frame, paths: list[Array], away: list[Array], pair: tuple[int, int]) -> Array:
    """(point, point) px squared: how badly two paths' points are images of one, in their views and in all others."""
    a, b = pair
    slope = np.concatenate([frame.slope[a], frame.slope[b]])
    solve = np.linalg.pinv(slope)
    seen = np.concatenate(
        np.broadcast_arrays((paths[a] - frame.base[a])[:, None], (paths[b] - frame.base[b])[None]), -1
    )
    points = seen @ solve.T
    cost = np.square(points @ slope.T - seen).sum(-1)
    for view in range(len(paths)):
        if view not in pair:
            pixels = frame.base[view] + points @ frame.slope[view].T
            far = sampled(away[view], pixels)
            outside = ((pixels < 0) | (pixels > frame.window - 1)).any(-1)
            cost = cost + np.square(np.where(outside, frame.window / 4, np.minimum(far, frame.window / 4)))
    return cost


def _triangulated(frame: Frame, paths: list[Array], match: Match, shift: Array) -> tuple[Array, Array]:
    """(step, 3) mm and (camera, step, 2) px: the matched points, and the nearest of the other views' paths."""
    moves = frame.moves(shift)
    a, b = match.views
    second = paths[b][::-1] if match.turned else paths[b]
    pixels = np.zeros((len(paths), len(match.steps), 2))
    pixels[a], pixels[b] = paths[a][match.steps[:, 0]] - moves[a], second[match.steps[:, 1]] - moves[b]
    slope = np.concatenate([frame.slope[a], frame.slope[b]])
    seen = np.concatenate([pixels[a] - frame.base[a], pixels[b] - frame.base[b]], -1)
    points = seen @ np.linalg.pinv(slope).T
    for view in range(len(paths)):
        if view not in match.views:
            _, nearest = cKDTree(paths[view]).query(frame.parallel(points)[view] + moves[view])
            pixels[view] = paths[view][nearest] - moves[view]
    return frame.triangulate(pixels), pixels + moves[:, None]


def _left_over(frame: Frame, points: Array, pixels: Array) -> Array:
    """(axis,) px: the relative shifts that explain how far the paths lie from the points' projections."""
    rest = np.median(pixels - frame.project(points), axis=1).ravel()
    basis = frame.cameras.shift_basis.numpy().reshape(-1, frame.axes)
    # What moves the animal in all views alike is no shift of theirs.
    both = np.concatenate([basis, frame.slope.reshape(-1, 3) / frame.scale], 1)
    return np.linalg.lstsq(both, rest, rcond=None)[0][: frame.axes]


def _finer(path: Array, image: Array) -> Array:
    """A path of pixels, rounded off and centred on the light, at steps of a pixel; its ends stay where they are."""
    smooth = ndimage.gaussian_filter1d(path, 2.0, axis=0, mode="nearest")
    smooth[[0, -1]] = path[[0, -1]]
    smooth = centred(smooth, image, ACROSS)
    return evenly(smooth, max(8, round(float(arc_length(smooth)[-1])) + 1))


def _drawn(path: Array, window: int) -> NDArray[np.bool_]:
    mask = np.zeros((window, window), dtype=bool)
    u, v = np.clip(np.rint(path), 0, window - 1).astype(int).T
    mask[v, u] = True
    return mask
