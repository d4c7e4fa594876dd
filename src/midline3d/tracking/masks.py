"""Masks of the crops: pixels around points, and pixels around those of another mask."""

from __future__ import annotations

from functools import cache

import torch
from torch.nn.functional import avg_pool2d, pad

from midline3d.shapes import Bool, Float, Tensor

CELL = 4
"""px: side of the cells of `grown_in_cells`."""


def squares_around(
    points: Float[Tensor, "batch camera point 2"], size: int, radius: int
) -> Bool[Tensor, "batch camera w w"]:
    """Pixels of crops of `size` px within a square of `radius` px around any of the points (px); NaN has none."""
    # Points far outside, which no integer holds, are brought to where their square still misses the crop.
    middle = torch.nan_to_num(points, nan=-2.0 * size).clamp(-2 * size, 3 * size).round().long() + radius
    wide = size + 2 * radius
    inside = ((middle >= 0) & (middle < wide)).all(-1)
    batch, camera, _ = inside.nonzero(as_tuple=True)
    u, v = middle[inside].unbind(-1)
    mask = torch.zeros(*points.shape[:2], wide, wide, dtype=torch.bool, device=points.device)
    mask[batch, camera, v, u] = True
    return _in_a_row(_in_a_row(mask, 2, 2 * radius + 1), 3, 2 * radius + 1)


def _in_a_row(mask: Bool[Tensor, "batch camera h w"], axis: int, count: int) -> Bool[Tensor, "batch camera hh ww"]:
    """Whether any of `count` neighbours along an axis, from each pixel on, is one of the mask's, in doubling steps."""
    known = 1
    while known < count:
        step, left = min(known, count - known), mask.shape[axis]
        mask = mask.narrow(axis, 0, left - step) | mask.narrow(axis, step, left - step)
        known += step
    return mask


def grown(mask: Bool[Tensor, "batch camera h w"], radius: int) -> Bool[Tensor, "batch camera h w"]:
    """All pixels within a square of `radius` px around any of the mask's."""
    return _in_a_row(_in_a_row(pad(mask, 4 * (radius,)), 2, 2 * radius + 1), 3, 2 * radius + 1)


def grown_in_cells(mask: Bool[Tensor, "batch camera h w"], radius: float) -> Bool[Tensor, "batch camera h w"]:
    """As `grown`, by about `radius` px: in cells of 4 x 4 px, which costs a sixteenth."""
    height, width = mask.shape[2:]
    whole = pad(mask, (0, -width % CELL, 0, -height % CELL)).contiguous()
    # The four pixels of a cell in a row are bytes side by side: one number.
    one, two, three, four = (whole.view(torch.int32) != 0).unflatten(2, (-1, CELL)).unbind(3)
    cells = grown(one | two | three | four, max(1, round(radius / CELL)))
    shape = (*cells.shape[:3], CELL, cells.shape[3], CELL)
    return cells[:, :, :, None, :, None].expand(shape).reshape(whole.shape)[..., :height, :width]


def averaged(images: Float[Tensor, "batch camera h w"]) -> Float[Tensor, "batch camera h w"]:
    """Means over 3 x 3 px; at the border over as many as there are."""
    if not images.is_cpu:
        return avg_pool2d(images, 3, stride=1, padding=1, count_include_pad=False)
    # The same sums in the same order, whole pictures at a time: torch's own goes pixel by pixel, and takes five times
    # as long.
    height, width = images.shape[2:]
    around = pad(images, (1, 1, 1, 1))
    total = torch.zeros_like(images)
    for v in range(3):
        for u in range(3):
            total += around[..., v : v + height, u : u + width]
    return total / _neighbours(height, width).to(images)


@cache
def _neighbours(height: int, width: int) -> Float[Tensor, "h w"]:
    """How many pixels each has around it, itself included."""
    rows, columns = (
        3 - (torch.arange(size) == 0).float() - (torch.arange(size) == size - 1).float() for size in (height, width)
    )
    return rows[:, None] * columns
