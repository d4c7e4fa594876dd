"""Voxel space: pictures lifted into it and intersected, what is left thinned to lines, the longest of them followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from skimage.morphology import skeletonize

from midline3d.baselines.scene import Array, Flags, Frame

COARSE = 4.0
"""px: pitch of the grid by which the animal's box is found."""
TOUCHING = 1.8
"""Voxels are neighbours up to this distance, in pitches: across a corner too."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Voxels of a box about the animal."""

    first: Array
    """(3,) mm: centre of the first voxel."""
    pitch: float
    """mm."""
    shape: tuple[int, int, int]

    def centres(self) -> Array:
        """(voxel, 3) mm, the last axis running fastest."""
        axes = [self.first[axis] + self.pitch * np.arange(self.shape[axis]) for axis in range(3)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)

    def places(self, indices: NDArray[np.integer] | Array) -> Array:
        """(voxel, 3) mm of voxels given by their indices (voxel, 3)."""
        return self.first + self.pitch * np.asarray(indices, dtype=np.float64)


def box(frame: Frame, masks: Sequence[Flags], shift: Array, pitch: float, margin: float = 6.0) -> Grid | None:
    """Voxels of `pitch` px about all that lies within `margin` px of every view's mask; None where nothing does."""
    step = COARSE / frame.scale
    half = int(np.ceil(0.75 * frame.window / COARSE))
    coarse = Grid(np.full(3, -half * step), step, (2 * half + 1,) * 3)
    grown = [ndimage.distance_transform_edt(~mask) <= margin + COARSE for mask in masks]
    there = np.flatnonzero(np.logical_and.reduce(seen_in(frame, coarse.centres(), grown, shift)))
    if not len(there):
        return None
    found = coarse.centres()[there]
    low, high = found.min(0) - step, found.max(0) + step
    fine = pitch / frame.scale
    return Grid(low, fine, tuple(int(n) for n in np.ceil((high - low) / fine).astype(int) + 1))  # type: ignore[arg-type]


def seen_in(frame: Frame, points: Array, pictures: Sequence[NDArray], shift: Array) -> list[NDArray]:
    """Per view (point,) the value of a picture at the pixel in which a point is seen, by parallel rays; 0 outside."""
    return looked_up(frame.parallel(points), pictures, frame.moves(shift))


def looked_up(pixels: Array, pictures: Sequence[NDArray], moves: Array) -> list[NDArray]:
    """Per view (point,) values at the pixels (camera, point, 2), each view moved by `moves` (camera, 2); 0 outside."""
    found = []
    for seen, picture, move in zip(pixels, pictures, moves, strict=True):
        u, v = np.rint(seen + move).astype(np.int32).T
        inside = (u >= 0) & (v >= 0) & (u < picture.shape[1]) & (v < picture.shape[0])
        values = picture[np.where(inside, v, 0), np.where(inside, u, 0)]
        found.append(np.where(inside, values, np.zeros(1, picture.dtype)))
    return found


def intersection(frame: Frame, grid: Grid, masks: Sequence[Flags], shift: Array, exact: bool = False) -> Flags:
    """The grid's voxels that every view's mask shows, as a volume. exact: by the cameras, not by parallel rays."""
    points = grid.centres()
    pixels = frame.project(points) if exact else frame.parallel(points)
    return np.logical_and.reduce(looked_up(pixels, masks, frame.moves(shift))).reshape(grid.shape)


def thinned(volume: Flags) -> NDArray[np.int64]:
    """(voxel, 3) indices of the lines that are left of a volume's largest piece when it is thinned."""
    pieces, count = ndimage.label(volume, np.ones((3, 3, 3)))
    if count == 0:
        return np.zeros((0, 3), dtype=np.int64)
    sizes = np.bincount(pieces.ravel())
    sizes[0] = 0
    return np.argwhere(skeletonize(pieces == sizes.argmax()))


def longest_path(points: Array, reach: float, power: float = 1.0) -> Array:
    """(node, 3) the longest of all shortest ways through points (point, 3), each joined to those within `reach`.

    power: a step counts as its length to this power when the shortest way is sought; above 1, many short steps are
    better than a leap, so that gaps are crossed where there is nothing else. Of several pieces the largest is taken.
    """
    if len(points) < 2:
        return points
    pairs = cKDTree(points).query_pairs(reach, output_type="ndarray")
    if not len(pairs):
        return points[:1]
    weight = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=-1) ** power
    graph = coo_matrix((weight, (pairs[:, 0], pairs[:, 1])), shape=(len(points),) * 2).tocsr()
    _, piece = connected_components(graph, directed=False)
    start = int(np.flatnonzero(piece == np.bincount(piece).argmax())[0])
    for _ in range(2):  # the point farthest from any point is an end
        reached = dijkstra(graph, directed=False, indices=start)
        start = int(np.where(np.isfinite(reached), reached, -1).argmax())
    reached, before = dijkstra(graph, directed=False, indices=start, return_predecessors=True)
    node = int(np.where(np.isfinite(reached), reached, -1).argmax())
    way = [node]
    while before[node] >= 0:
        node = int(before[node])
        way.append(node)
    return points[way]
