"""Salfelder et al. (2021), "reconst": midline pixels of every view meet in voxel space, the views shifted to meet most.

Their network that finds midline pixels is replaced by a detector of ridges as wide as the body; the finite-element
curve through the voxels that remain by a smoothing spline through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from skimage.morphology import skeletonize

from midline3d.baselines.alignment import best_shift, constant_shift, silhouettes
from midline3d.baselines.ends import carried_on
from midline3d.baselines.lines import smoothed, turned_like
from midline3d.baselines.pictures import midline_pixels
from midline3d.baselines.scene import Array, Flags, Frame, Traced
from midline3d.baselines.voxels import box, intersection, longest_path

THICK = 2.0
"""px: half the width of the band about midline pixels that is lifted into voxel space."""
GAP = 6.0
"""px: between remaining voxels that may be crossed."""
ERROR = 1.0
"""px: how far the remaining voxels lie off the midline."""


@dataclass(frozen=True, eq=False)
class Reconst:
    """Midline pixels, shifts, voxels, thinning, a smooth curve."""

    shift: Array
    """(axis,) px: the recording's usual shifts, about which every frame's own are sought. Lines alone meet more where
    they are wrongly made to run along a view's rays, so that a search from nothing wanders off."""

    @staticmethod
    def of(frames: Sequence[Frame]) -> Reconst:
        """frames: some of the recording's, by which the views are aligned."""
        return Reconst(constant_shift(frames))

    def trace(self, frame: Frame, before: Traced | None) -> Traced | None:
        lines = midlines_in(frame)
        if not all(line.any() for line in lines):
            return None
        shift = best_shift(frame, lines, soft=2.0, start=self.shift)
        bands = [ndimage.distance_transform_edt(~line) <= THICK for line in lines]
        grid = box(frame, bands, shift, pitch=1.0)
        if grid is None:
            return None
        voxels = np.argwhere(skeletonize(intersection(frame, grid, bands, shift, exact=True)))
        way = longest_path(grid.places(voxels), GAP * grid.pitch, power=2.0)
        curve = smoothed(way, ERROR / frame.scale)
        if curve is None:
            return None
        whole = carried_on(curve, frame, silhouettes(frame), shift)
        return Traced(turned_like(whole, before), shift)


def midlines_in(frame: Frame) -> list[Flags]:
    """The midline's pixels in every view."""
    views = zip(frame.images, frame.noise, silhouettes(frame), strict=True)
    return [midline_pixels(image, noise, mask) for image, noise, mask in views]
