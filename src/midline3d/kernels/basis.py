"""Curvature from few numbers: splines over the body."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import torch

from midline3d import curve
from midline3d.shapes import Float, Tensor


@dataclass(frozen=True)
class Basis:
    """K = basis @ nodes: a smooth curvature has fewer unknowns than vertices."""

    matrix: Float[Tensor, "vertex node"]

    @cached_property
    def segments(self) -> Float[Tensor, "segment node"]:
        """Mean curvature of each segment by the nodes (the linear part of `curve.segment_rotations`)."""
        vertices, nodes = self.matrix.shape
        flat = torch.zeros(nodes, vertices, 2, dtype=self.matrix.dtype, device=self.matrix.device)
        flat[..., 0] = self.matrix.mT
        return curve.segment_rotations(flat)[..., 2].mT * (vertices - 1)


@cache
def spline_basis(vertices: int, nodes: int, dtype: torch.dtype, device: torch.device | str) -> Basis:
    """Cubic B-splines with equal knots over the body; as many nodes as vertices gives every vertex its own."""
    if nodes >= vertices:
        return Basis(torch.eye(vertices, dtype=dtype, device=device))
    place = torch.linspace(0, nodes - 3, vertices, dtype=torch.float64)
    x = (place[:, None] - torch.arange(-1, nodes - 1, dtype=torch.float64)).abs()
    near = 2 / 3 - x.square() + x**3 / 2
    far = (2 - x).clamp(min=0) ** 3 / 6
    return Basis(torch.where(x < 1, near, far).to(dtype=dtype, device=device))
