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
from midline3d.cameras import Cameras
from midline3d.curve import Curve
from midline3d.kernels.basis import Basis
from midline3d.kernels.contract import Energy, Prior, StepLimits, System
from midline3d.kernels.curves_triton import integrate_curve, take_step
from midline3d.kernels.layout import Layout
from midline3d.kernels.reference import TorchBackend, bending
from midline3d.kernels.systems_triton import couple_blobs, derive_places, multiply_places, sum_energy
from midline3d.kernels.views_triton import optics_view, project_view, taper_view
from midline3d.rendering import Products
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
        batch, vertices, nodes, cameras, axes = len(state), state.vertices, layout.nodes, layout.cameras, layout.axes
        (old,), (old_row,) = _rows(packed(state))
        made = step.new_empty(old.shape)
        place, bishop = step.new_empty(batch, 3), step.new_empty(batch, 3, 3)
        with _on(step):
            take_step[(batch,)](
                step.contiguous(), basis.matrix, old, place, bishop, made, old_row, made.stride(0),
                _step_limits(limits, step.device), _places(layout, step.device), vertices, nodes, cameras, axes,
                _padded(vertices), _padded(nodes), _padded(max(axes, cameras), 1), num_warps=8,
            )  # fmt: skip
        there = unpacked(made, state)
        _integrate(place, bishop, there.curvature, there.length, state.middle(), made)
        return there

    def project(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None
    ) -> Float[Tensor, "batch camera vertex 2"]:
        batch, vertices, _ = points.shape
        count, _, axes = cameras.shift_basis.shape
        own, views = _rig(cameras, ("focal", "centre", "distortion", "rotation", "translation"), batch)
        (places, aside), rows = _rows(points, points if shift is None else shift)
        out = points.new_empty(batch, count, vertices, 2)
        with _on(points):
            project_view[(batch, count)](
                *views, cameras.shift_basis.contiguous(), places, aside, out, *rows, own, vertices, count, axes,
                shift is not None, _padded(vertices),
            )  # fmt: skip
        return out

    def optics(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], tangents: Float[Tensor, "batch vertex 3"]
    ) -> Optics:
        batch, vertices, _ = points.shape
        own, views = _rig(cameras, ("rotation", "translation"), batch)
        (places,), row = _rows(points)
        made = [points.new_empty(batch, cameras.count, vertices) for _ in range(2)]
        with _on(points):
            optics_view[(batch, cameras.count)](
                *views, places, tangents, *made, *row, *tangents.stride(), own, vertices, cameras.count,
                _padded(vertices),
            )  # fmt: skip
        return Optics(*made)

    def appearance(self, profile: Profile, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        batch, cameras, vertices = optics.stretch.shape
        own, rows = _rows(view.sigma, view.iota, view.defocus)
        bodies = profile.rows
        matrix = hats(vertices, profile.sharp.dtype, profile.sharp.device)
        made = [optics.stretch.new_empty(batch, cameras, vertices, *more) for more in ((), (), (2, 3))]
        with _on(profile.sharp):
            taper_view[(batch, cameras)](
                *own, optics.stretch.contiguous(), optics.beyond.contiguous(), bodies, matrix, *made, *rows,
                bodies.stride(0) if len(bodies) > 1 else 0, profile.floor, vertices, cameras, matrix.shape[1],
                _padded(vertices), _padded(matrix.shape[1], 1),
            )  # fmt: skip
        return BlobAppearance(*made)

    def energy(self, prior: Prior, state: FrameState, losses: Float[Tensor, "batch camera"]) -> Energy:
        slope = bending(prior, state)
        batch, vertices, _ = state.curvature.shape
        nodes, axes, cameras = prior.layout.nodes, prior.layout.axes, prior.layout.cameras
        both, rows = _rows(packed(state), packed(prior.anchor))
        energies = losses.new_empty(4, batch)
        gradient = losses.new_empty(batch, prior.layout.count)
        with _on(losses):
            sum_energy[(batch,)](
                losses.contiguous(), slope.contiguous(), prior.keeping, *both, energies, gradient, *rows,
                _places(prior.layout, losses.device), prior.pixels, batch, vertices, nodes, cameras, axes,
                _padded(vertices), _padded(nodes), _padded(max(axes, cameras), 1),
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
        batch, vertices = len(state), state.vertices
        own, views = _rig(cameras, ("focal", "distortion", "rotation", "translation"), batch)
        shape, others, count = layout.shape_count, layout.count - layout.shape_count, layout.count
        (at, turns, wide), (at_row, turns_row, wide_row) = _rows(state.points, state.bishop, state.rho)
        places = at.new_empty(batch, vertices, 3, shape)
        spatial, coupling = at.new_empty(batch, vertices, 3, 3), at.new_empty(batch, vertices, 3, others + 1)
        hessian, gradient = at.new_empty(batch, count, count), at.new_empty(batch, count)
        padded = _padded(vertices)
        with _on(at):
            derive_places[(batch, -(-layout.nodes // _BLOCK) + 1)](
                at, turns, basis.segments.contiguous(), places, at_row, turns_row,
                _places(layout, at.device), vertices, layout.nodes, shape, padded, _BLOCK,
            )  # fmt: skip
            couple_blobs[(batch,)](
                *views, cameras.shift_basis.contiguous(), products.gram.contiguous(), products.slope.contiguous(), at,
                appearance.by_view.contiguous(), wide, spatial, coupling, hessian, gradient, at_row, wide_row, own,
                vertices, layout.cameras, layout.axes, shape, padded, _padded(others + 1), num_warps=8, num_stages=1,
            )  # fmt: skip
            multiply_places[(batch, -(-shape // _TILE), -(-(count + 1) // _TILE))](
                places, spatial, coupling, hessian, gradient, vertices, shape, others, _TILE, _DEPTH, num_stages=2
            )
        return System(hessian, gradient)


@cache
def _places(layout: Layout, device: torch.device) -> Tensor:
    """The layout where the kernels read it; made once, so that nothing is copied while a graph is recorded."""
    return torch.tensor(layout.places(), device=device)


@cache
def _step_limits(limits: StepLimits, device: torch.device) -> Tensor:
    """The limits where `take_step` reads them, in its order; made once, as `_places` is."""
    bounds, view = limits.bounds, limits.log_appearance
    numbers = [limits.log_length, *bounds.length, view, *bounds.sigma, view, *bounds.iota, view, *bounds.rho]
    return torch.tensor([*numbers, 2 * torch.pi * bounds.circles, bounds.defocus], dtype=torch.float64, device=device)


def _integrate(
    position: Tensor, bishop: Tensor, curvature: Tensor, length: Tensor, start: Tensor, made: Tensor
) -> None:
    """Points and Bishop frames of the curves, to the beginning of the rows of `made`."""
    batch, vertices, _ = curvature.shape
    (bends, lengths), rows = _rows(curvature, length)
    with _on(curvature):
        integrate_curve[(batch,)](
            position.contiguous(), bishop.contiguous(), bends, lengths, start.contiguous(), made,
            *rows, made.stride(0), vertices, _padded(vertices),
        )  # fmt: skip


def _rows(*tensors: Tensor) -> tuple[list[Tensor], list[int]]:
    """The tensors, each frame's part in one piece, and what lies between two frames."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise ValueError("a tensor asks for its gradient, which the kernels lose: use TorchBackend")
    whole = [tensor if not len(tensor) or tensor[0].is_contiguous() else tensor.contiguous() for tensor in tensors]
    return whole, [tensor.stride(0) for tensor in whole]


def _rig(cameras: Cameras, names: tuple[str, ...], batch: int) -> tuple[int, list[Tensor]]:
    """Whether every frame has cameras of its own, and the tensors asked for."""
    rig: list[Tensor] = [getattr(cameras, name) for name in names]
    own = any(len(tensor) > 1 for tensor in rig)
    size = batch if own else 1
    return int(own), [tensor.expand(size, *tensor.shape[1:]).contiguous() for tensor in rig]


def _padded(count: int, least: int = 16) -> int:
    """The next power of 2, and no less than a matrix product takes."""
    return max(least, 1 << (count - 1).bit_length())


def _on(tensor: Tensor) -> Any:
    return torch.cuda.device_of(tensor)
