"""The Triton backend: a launch or two for each sum of a step, where torch needs hundreds.

What Triton does not do (solving the normal equations) is the reference's. Nothing waits for the host, so that all can
be recorded in a CUDA graph. Imported only where a GPU is asked for, since Triton is optional and slow to import.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import torch

from midline3d.appearance import CAP, LONGEST, BlobAppearance, Optics, Profile, Shape, ViewAppearance, hats
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
from midline3d.state import FrameState

_STATE = ("points", "frames", "curvature", "length", "shift", "sigma", "iota", "rho", "defocus")
_KEPT = ("length", "shift", "sigma", "iota", "defocus", "rho")
_BLOCK, _TILE, _DEPTH = 8, 32, 32
"""Nodes of a program that derives vertices; side of a tile of the normal equations, and vertices it takes at once."""


@dataclass(frozen=True)
class TritonBackend(TorchBackend):
    """The kernels behind the backends' contract: float32 on a GPU, without gradients."""

    def integrate(
        self,
        position: Float[Tensor, "batch 3"],
        frame: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        batch, vertices, _ = curvature.shape
        points, frames = curvature.new_empty(batch, vertices, 3), curvature.new_empty(batch, vertices, 3, 3)
        (bends,), rows = _rows(curvature)
        with _on(curvature):
            integrate_curve[(batch,)](
                position.contiguous(), frame.contiguous(), bends, length.contiguous(), start.contiguous(),
                points, frames, *rows, vertices, _padded(vertices),
            )  # fmt: skip
        return Curve(points, frames)

    def take_step(
        self, state: FrameState, step: Float[Tensor, "batch unknown"], basis: Basis, layout: Layout, limits: StepLimits
    ) -> FrameState:
        batch, vertices, bounds = len(state), state.vertices, limits.bounds
        nodes, cameras, axes = layout.nodes, layout.cameras, layout.axes
        old, rows = _rows(*(getattr(state, name) for name in _STATE))
        made = {name: step.new_empty(getattr(state, name).shape) for name in _STATE[2:]}
        place, frame = step.new_empty(batch, 3), step.new_empty(batch, 3, 3)
        with _on(step):
            take_step[(batch,)](
                step.contiguous(), basis.matrix, *old, place, frame, *made.values(), *rows,
                limits.log_length, limits.log_appearance, 2 * torch.pi * bounds.circles, bounds.defocus,
                *bounds.length, *bounds.sigma, *bounds.iota, *bounds.rho, _places(layout, step.device),
                vertices, nodes, cameras, axes,
                _padded(vertices), _padded(nodes), _padded(max(axes, cameras), 1), num_warps=8,
            )  # fmt: skip
        # Not torch.tensor: a number that is made on the host would be copied there, and waited for.
        middle = torch.full((batch,), vertices // 2, device=step.device)
        curve = self.integrate(place, frame, made["curvature"], made["length"], middle)
        return FrameState(points=curve.points, frames=curve.frames, **made)

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
                *views, places, tangents, *made, *row, *tangents.stride(), own, LONGEST, vertices, cameras.count,
                _padded(vertices),
            )  # fmt: skip
        return Optics(*made)

    def appearance(self, profile: Profile, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        batch, cameras, vertices = optics.stretch.shape
        own, rows = _rows(view.sigma, view.iota, view.defocus)
        shape = [getattr(profile.shape, item.name).contiguous() for item in fields(Shape)]
        matrix = hats(vertices, profile.sharp.dtype, profile.sharp.device)
        made = [optics.stretch.new_empty(batch, cameras, vertices, *more) for more in ((), (), (2, 3))]
        with _on(profile.sharp):
            taper_view[(batch, cameras)](
                *own, optics.stretch.contiguous(), optics.beyond.contiguous(), profile.sharp.contiguous(),
                profile.length.contiguous(), *shape, matrix, *made, *rows, int(profile.sharp.ndim == 2),
                profile.floor, CAP, vertices, cameras, matrix.shape[1], _padded(vertices), _padded(matrix.shape[1], 1),
            )  # fmt: skip
        return BlobAppearance(*made)

    def energy(self, prior: Prior, state: FrameState, losses: Float[Tensor, "batch camera"]) -> Energy:
        slope = bending(prior, state)
        batch, vertices, _ = state.curvature.shape
        nodes, axes, cameras = prior.layout.nodes, prior.layout.axes, prior.layout.cameras
        (bends,), row = _rows(state.curvature)
        now, now_rows = _rows(*(getattr(state, name) for name in _KEPT))
        old, old_rows = _rows(*(getattr(prior.anchor, name) for name in _KEPT))
        total, terms = losses.new_empty(batch), losses.new_empty(3, batch)
        gradient = losses.new_empty(batch, prior.layout.count)
        with _on(losses):
            sum_energy[(batch,)](
                losses.contiguous(), bends, slope.contiguous(), prior.keeping, *now, *old, total, terms, gradient,
                *row, *now_rows, *old_rows, _places(prior.layout, losses.device), prior.pixels,
                batch, vertices, nodes, cameras, axes,
                _padded(vertices), _padded(nodes), _padded(max(axes, cameras), 1),
            )  # fmt: skip
        return Energy(total, terms, gradient)

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
        (at, turns, wide), (at_row, turns_row, wide_row) = _rows(state.points, state.frames, state.rho)
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
