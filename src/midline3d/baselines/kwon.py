"""Kwon et al. (2013, 2015): silhouettes meet in voxel space, and the longest line of what is left is the worm.

Rays are parallel, as they assume; the views' directions and magnifications are the calibration's. Their optics are
aligned by hand once: here one alignment of the views for the whole recording takes that place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from midline3d.baselines.alignment import constant_shift, silhouettes
from midline3d.baselines.ends import carried_on
from midline3d.baselines.lines import smoothed, turned_like
from midline3d.baselines.scene import Array, Frame, Traced
from midline3d.baselines.voxels import TOUCHING, box, intersection, longest_path, thinned

ERROR = 1.0
"""px: how far thinned voxels lie off the midline."""


@dataclass(frozen=True, eq=False)
class Kwon:
    """Silhouettes, voxels, thinning, longest path."""

    shift: Array
    """(axis,) px."""

    @staticmethod
    def of(frames: Sequence[Frame]) -> Kwon:
        """frames: some of the recording's, by which the views are aligned."""
        return Kwon(constant_shift(frames))

    def trace(self, frame: Frame, before: Traced | None) -> Traced | None:
        masks = silhouettes(frame)
        grid = box(frame, masks, self.shift, pitch=1.0)
        if grid is None:
            return None
        voxels = thinned(intersection(frame, grid, masks, self.shift))
        way = longest_path(grid.places(voxels), TOUCHING * grid.pitch)
        curve = smoothed(way, ERROR / frame.scale)
        if curve is None:
            return None
        whole = carried_on(curve, frame, masks, self.shift)
        return Traced(turned_like(whole, before), self.shift)
