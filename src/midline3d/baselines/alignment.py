"""Relative shifts of the views: those for which most of what they show meets in voxel space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from midline3d.baselines.pictures import silhouette
from midline3d.baselines.scene import Array, Flags, Frame
from midline3d.baselines.voxels import box, looked_up

STEPS = (4.0, 2.0, 1.0, 0.5)
"""px: of the search, one after the other."""
FURTHEST = 24.0
"""px: further than this no shift is sought."""
ABOUT = 2.5
"""px: nor further than this from where the search starts."""


def best_shift(frame: Frame, masks: Sequence[Flags], soft: float, start: Array | None = None) -> Array:
    """(axis,) px: the relative shifts that make the intersection of the masks, each blurred by `soft` px, largest.

    A search by steps along one shift at a time; start: about which it is sought, else about none.
    """
    shift = np.zeros(frame.axes) if start is None else start.copy()
    steps, reach = (STEPS, FURTHEST) if start is None else (STEPS[2:], ABOUT)
    grid = box(frame, masks, shift, pitch=2.0, margin=12.0)
    if grid is None:
        return shift
    points = grid.centres()
    pixels = frame.parallel(points)
    near = [ndimage.distance_transform_edt(~mask) <= 14 for mask in masks]
    kept = np.logical_and.reduce(looked_up(pixels, near, frame.moves(shift)))
    pixels = pixels[:, kept]
    wide, narrow = ([_glow(mask, blur) for mask in masks] for blur in (max(soft, 3.0), soft))
    for step in steps:
        pictures = wide if step > 1 else narrow
        shift = _climbed(frame, pixels, pictures, shift, (step, reach))
    return shift


def constant_shift(frames: Sequence[Frame]) -> Array:
    """(axis,) px: one alignment of the views for a whole recording, the median of what some of its frames say."""
    found = [best_shift(frame, silhouettes(frame), soft=1.5) for frame in frames]
    return np.median(found, axis=0)


def silhouettes(frame: Frame) -> list[Flags]:
    """The animal's pixels in every view."""
    return [silhouette(image, noise) for image, noise in zip(frame.images, frame.noise, strict=True)]


def _climbed(
    frame: Frame, pixels: Array, pictures: Sequence[NDArray], start: Array, steps: tuple[float, float]
) -> Array:
    """The shift from which no step along one axis meets more. steps: one step, and how far they may lead, px."""
    (step, reach), shift = steps, start
    best = _meeting(pixels, pictures, frame.moves(shift))
    better = True
    while better:
        better = False
        for axis in range(len(shift)):
            for way in (-step, step):
                trial = shift.copy()
                trial[axis] += way
                met = _meeting(pixels, pictures, frame.moves(trial))
                if met > best and abs(trial[axis] - start[axis]) <= reach:
                    shift, best, better = trial, met, True
    return shift


def _meeting(pixels: Array, pictures: Sequence[NDArray], moves: Array) -> float:
    """How much meets: the sum over voxels of the product of what the views show there."""
    return float(np.multiply.reduce(looked_up(pixels, pictures, moves)).sum())


def _glow(mask: Flags, blur: float) -> NDArray[np.float32]:
    """A mask that fades out around itself."""
    away = ndimage.distance_transform_edt(~mask)
    return np.exp(-0.5 * np.square(away / blur)).astype(np.float32)
