"""Masks of the crops: pixels around points, and pixels around those of another mask."""

from __future__ import annotations

import torch
from torch.nn.functional import max_pool2d

from midline3d.shapes import Bool, Float, Tensor

CELL = 4
"""px: side of the cells of `grown_in_cells`."""


def squares_around(
    points: Float[Tensor, "batch camera point 2"], size: int, radius: int
) -> Bool[Tensor, "batch camera w w"]:
    """Pixels of crops of `size` px within a square of `radius` px around any of the points (px); NaN has none."""
    mask = torch.zeros(*points.shape[:2], size, size, dtype=torch.bool, device=points.device)
    across = torch.arange(-radius, radius + 1, device=points.device)
    square = torch.cartesian_prod(across, across)
    # Points far outside, which no integer holds, are brought to where their square still misses the crop.
    middle = torch.nan_to_num(points, nan=-2.0 * size).clamp(-2 * size, 3 * size).round().long()
    u, v = (middle[..., None, :] + square).unbind(-1)
    inside = (u >= 0) & (u < size) & (v >= 0) & (v < size)
    batch, camera, _, _ = inside.nonzero(as_tuple=True)
    mask[batch, camera, v[inside], u[inside]] = True
    return mask


def grown(mask: Bool[Tensor, "batch camera h w"], radius: int) -> Bool[Tensor, "batch camera h w"]:
    """All pixels within a square of `radius` px around any of the mask's, in two passes of one dimension."""
    wide = max_pool2d(mask.float(), (2 * radius + 1, 1), 1, (radius, 0))
    return max_pool2d(wide, (1, 2 * radius + 1), 1, (0, radius)) > 0


def grown_in_cells(mask: Bool[Tensor, "batch camera h w"], radius: float) -> Bool[Tensor, "batch camera h w"]:
    """As `grown`, by about `radius` px: in cells of 4 x 4 px, which costs a sixteenth."""
    cells = max_pool2d(mask.float(), CELL, ceil_mode=True) > 0
    cells = grown(cells, max(1, round(radius / CELL)))
    whole = cells.repeat_interleave(CELL, 2).repeat_interleave(CELL, 3)
    return whole[..., : mask.shape[2], : mask.shape[3]]
