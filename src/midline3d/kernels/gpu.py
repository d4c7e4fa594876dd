"""The Triton backend: a launch or two for each sum of a step, where torch needs hundreds.

What Triton does not do (solving the normal equations) is the reference's. Nothing waits for the host, so that all can
be recorded in a CUDA graph. Imported only where a GPU is asked for, since Triton is optional and slow to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from midline3d.appearance import BlobAppearance, Optics, Profile, ViewAppearance, hats
from midline3d.cameras import Cameras, packed_cameras
from midline3d.curve import Curve
from midline3d.kernels.basis import Basis
from midline3d.kernels.contract import Energy, Prior, StepLimits, System
from midline3d.kernels.curves_triton import integrate_curve, take_step
from midline3d.kernels.layout import Layout
from midline3d.kernels.reference import TorchBackend, bending
from midline3d.kernels.systems_triton import couple_blobs, derive_places, multiply_places, sum_energy
from midline3d.kernels.views_triton import optics_view, project_view, taper_view
from midline3d.rendering import Products
from midline3d.rows import side_by_side
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import FrameState, packed, unpacked

_BLOCK, _TILE, _DEPTH = 8, 32, 32
"""Nodes of a program that derives vertices; side of a tile of the normal equations, and vertices it takes at once."""


@dataclass(frozen=True)
class TritonBackend(TorchBackend):
    """The kernels behind the backends' contract: float32 on a GPU, without gradients."""

    def integrate(
        self,
        position: Float[Tensor, "batch 3"],
        bishop: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        batch, vertices, _ = curvature.shape
        made = curvature.new_empty(batch, 12 * vertices)
        _integrate(position, bishop, curvature, length, start, made)
        points, made_bishop = made.split([3 * vertices, 9 * vertices], 1)
        return Curve(points.unflatten(1, (vertices, 3)), made_bishop.unflatten(1, (vertices, 3, 3)))

    def take_step(
        self, state: FrameState, step: Float[Tensor, "batch unknown"], basis: Basis, layout: Layout, limits: StepLimits
    ) -> FrameState:
        batch, vertices = len(state), state.vertices
        old = packed(state)
        made = step.new_empty(old.shape)
        place, bishop = step.new_empty(batch, 3), step.new_empty(batch, 3, 3)
        with _on(step):
            take_step[(batch,)](
                step.contiguous(), basis.matrix, *_rows(old), _step_limits(limits, step.device),
                _numbers(layout, step.device), vertices, place, bishop, *_rows(made),
                _padded(vertices), _padded(layout.nodes), _few(layout), num_warps=8,
            )  # fmt: skip
        there = unpacked(made, state)
        _integrate(place, bishop, there.curvature, there.length, state.middle(), made)
        return there

    def project(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None
    ) -> Float[Tensor, "batch camera vertex 2"]:
        batch, vertices, _ = points.shape
        count, _, axes = cameras.shift_basis.shape
        out = points.new_empty(batch, count, vertices, 2)
        with _on(points):
            project_view[(batch, count)](
                *_rig(cameras), cameras.shift_basis.contiguous(), *_rows(points),
                *_rows(points if shift is None else shift), vertices, axes, out, shift is not None, _padded(vertices),
            )  # fmt: skip
        return out

    def optics(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], tangents: Float[Tensor, "batch vertex 3"]
    ) -> Optics:
        batch, vertices, _ = points.shape
        made = [points.new_empty(batch, cameras.count, vertices) for _ in range(2)]
        with _on(points):
            optics_view[(batch, cameras.count)](
                *_rig(cameras), *_rows(points), tangents, *tangents.stride(), vertices, *made, _padded(vertices)
            )
        return Optics(*made)

    def appearance(self, profile: Profile, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        batch, cameras, vertices = optics.stretch.shape
        views, bodies = side_by_side([view.sigma, view.iota, view.defocus]), profile.rows
        matrix = hats(vertices, profile.sharp.dtype, profile.sharp.device)
        made = [optics.stretch.new_empty(batch, cameras, vertices, *more) for more in ((), (), (2, 3))]
        with _on(profile.sharp):
            taper_view[(batch, cameras)](
                *_rows(views), optics.stretch.contiguous(), optics.beyond.contiguous(), *_shared_rows(bodies),
                matrix, matrix.shape[1], profile.floor, vertices, *made, _padded(vertices), _padded(matrix.shape[1], 1),
            )  # fmt: skip
        return BlobAppearance(*made)

    def energy(self, prior: Prior, state: FrameState, losses: Float[Tensor, "batch camera"]) -> Energy:
        slope = bending(prior, state)
        batch, vertices, layout = len(state), state.vertices, prior.layout
        energies = losses.new_empty(4, batch)
        gradient = losses.new_empty(batch, layout.count)
        with _on(losses):
            sum_energy[(batch,)](
                losses.contiguous(), prior.pixels, slope.contiguous(), prior.keeping, *_rows(packed(state)),
                *_rows(packed(prior.anchor)), _numbers(layout, losses.device), vertices, energies, gradient,
                _padded(vertices), _padded(layout.nodes), _few(layout),
            )  # fmt: skip
        return Energy(energies[0], energies[1:], gradient)

    def pixel_system(
        self,
        products: Products,
        state: FrameState,
        appearance: BlobAppearance,
        cameras: Cameras,
        basis: Basis,
        layout: Layout,
    ) -> System:
        batch, vertices, padded = len(state), state.vertices, _padded(state.vertices)
        shape, others, count = layout.shape_count, layout.count - layout.shape_count, layout.count
        at = packed(state)
        places = at.new_empty(batch, vertices, 3, shape)
        spatial, coupling = at.new_empty(batch, vertices, 3, 3), at.new_empty(batch, vertices, 3, others + 1)
        hessian, gradient = at.new_empty(batch, count, count), at.new_empty(batch, count)
        sizes = _numbers(layout, at.device), vertices
        with _on(at):
            derive_places[(batch, -(-layout.nodes // _BLOCK) + 1)](
                *_rows(at), basis.segments.contiguous(), *sizes, places, padded, _BLOCK
            )
            couple_blobs[(batch,)](
                *_rig(cameras), cameras.shift_basis.contiguous(), *_rows(at), appearance.by_view.contiguous(),
                products.gram.contiguous(), products.slope.contiguous(), *sizes, spatial, coupling, hessian, gradient,
                padded, _padded(others + 1), num_warps=8, num_stages=1,
            )  # fmt: skip
            multiply_places[(batch, -(-shape // _TILE), -(-(count + 1) // _TILE))](
                places, spatial, coupling, *sizes, hessian, gradient, _TILE, _DEPTH, num_stages=2
            )
        return System(hessian, gradient)


@cache
def _numbers(layout: Layout, device: torch.device) -> Tensor:
    """The layout where the kernels read it; made once, so that nothing is copied while a graph is recorded."""
    return torch.tensor(layout.numbers(), dtype=torch.int32, device=device)


@cache
def _step_limits(limits: StepLimits, device: torch.device) -> Tensor:
    """The limits where `take_step` reads them, in its order; made once, as `_numbers` is."""
    bounds, view = limits.bounds, limits.log_appearance
    numbers = [limits.log_length, *bounds.length, view, *bounds.sigma, view, *bounds.iota, view, *bounds.rho]
    return torch.tensor([*numbers, 2 * torch.pi * bounds.circles, bounds.defocus], dtype=torch.float64, device=device)


def _integrate(
    position: Tensor, bishop: Tensor, curvature: Tensor, length: Tensor, start: Tensor, made: Tensor
) -> None:
    """Points and Bishop frames of the curves, to the beginning of the rows of `made`."""
    batch, vertices, _ = curvature.shape
    with _on(curvature):
        integrate_curve[(batch,)](
            position.contiguous(), bishop.contiguous(), *_rows(curvature), *_rows(length), start.contiguous(),
            vertices, *_rows(made), _padded(vertices),
        )  # fmt: skip


def _rows(tensor: Tensor) -> tuple[Tensor, int]:
    """The tensor, each frame's part in one piece, and what lies between two frames."""
    if torch.is_grad_enabled() and tensor.requires_grad:
        raise ValueError("a tensor asks for its gradient, which the kernels lose: use TorchBackend")
    whole = tensor if not len(tensor) or tensor[0].is_contiguous() else tensor.contiguous()
    return whole, whole.stride(0)


def _shared_rows(tensor: Tensor) -> tuple[Tensor, int]:
    """As `_rows`, where all frames may share one row: then nothing lies between two frames."""
    whole, between = _rows(tensor)
    return whole, between if len(whole) > 1 else 0


def _rig(cameras: Cameras) -> tuple[Tensor, int]:
    """The cameras' rows, and what lies between those of two frames."""
    return _shared_rows(packed_cameras(cameras))


def _few(layout: Layout) -> int:
    """Room for a number of every view, or of every shift."""
    return _padded(max(layout.axes, layout.cameras), 1)


def _padded(count: int, least: int = 16) -> int:
    """The next power of 2, and no less than a matrix product takes."""
    return max(least, 1 << (count - 1).bit_length())


def _on(tensor: Tensor) -> Any:
    return torch.cuda.device_of(tensor)
