"""The small sums of a second-order step in Triton: a launch or two each, where torch needs hundreds.

Every function here has a plain-torch twin that says what it means, and most a sibling in `compiled`, which serves the
CPU. `takes` says whether these are to be used. Nothing waits for the host, so that all can be recorded in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch

from midline3d.shapes import Float, Int, Tensor

if TYPE_CHECKING:
    from types import ModuleType

_STATE = ("points", "frames", "curvature", "length", "shift", "sigma", "iota", "rho", "defocus")
_KEPT = ("length", "shift", "sigma", "iota", "defocus", "rho")
_SHAPE = (
    "head_share", "head_bluntness", "tail_share", "tail_bluntness", "head_opacity", "tail_opacity", "depth", "tissue",
)  # fmt: skip
_BLOCK, _TILE, _DEPTH = 8, 32, 32
"""Nodes of a program that derives vertices; side of a tile of the normal equations, and vertices it takes at once."""


def takes(*tensors: Tensor) -> bool:
    """Whether these functions serve the tensors: float32 on a GPU, with no gradient to be had."""
    for tensor in tensors:
        if not tensor.is_cuda or tensor.dtype is not torch.float32 or type(tensor) is not Tensor:
            return False
    gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    # Within torch.func's transforms a tensor has no memory of its own.
    return not gradient and torch._C._functorch.peek_interpreter_stack() is None and _has_triton()


def integrate(
    position: Float[Tensor, "batch 3"],
    frame: Float[Tensor, "batch 3 3"],
    curvature: Float[Tensor, "batch vertex 2"],
    length: Float[Tensor, " batch"],
    start: Int[Tensor, " batch"],
) -> tuple[Float[Tensor, "batch vertex 3"], Float[Tensor, "batch vertex 3 3"]]:
    """Points and frames: `curve.integrate`."""
    batch, vertices, _ = curvature.shape
    points, frames = curvature.new_empty(batch, vertices, 3), curvature.new_empty(batch, vertices, 3, 3)
    (bends,), rows = _rows(curvature)
    with _on(curvature):
        _views().integrate_curve[(batch,)](
            position.contiguous(), frame.contiguous(), bends, length.contiguous(), start.contiguous(), points, frames,
            *rows, vertices, _padded(vertices),
        )  # fmt: skip
    return points, frames


def moved(
    state: Mapping[str, Tensor],
    step: Float[Tensor, "batch unknown"],
    basis: Float[Tensor, "vertex node"],
    limits: tuple[float, ...],
) -> dict[str, Tensor]:
    """All tensors of a `FrameState` after a step: `second_order.moved`; `limits` as in `compiled.moved`."""
    vertices, nodes = basis.shape
    batch, cameras = state["sigma"].shape
    axes = state["shift"].shape[1]
    old, rows = _rows(*(state[name] for name in _STATE))
    made = {name: step.new_empty(state[name].shape) for name in _STATE[2:]}
    place, frame = step.new_empty(batch, 3), step.new_empty(batch, 3, 3)
    longest, look, circles, *rest = limits
    with _on(step):
        _views().take_step[(batch,)](
            step.contiguous(), basis, *old, place, frame, *made.values(), *rows,
            longest, look, 2 * torch.pi * circles, *rest, vertices, nodes, cameras, axes,
            _padded(vertices), _padded(nodes), _padded(max(axes, cameras), 1), num_warps=8,
        )  # fmt: skip
    middle = torch.full((batch,), vertices // 2, device=step.device)
    points, frames = integrate(place, frame, made["curvature"], made["length"], middle)
    return {"points": points, "frames": frames, **made}


def project(
    rig: Mapping[str, Tensor], points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None
) -> Float[Tensor, "batch camera vertex 2"]:
    """Image points: `cameras.project`; `rig` are the tensors of `Cameras`."""
    batch, vertices, _ = points.shape
    cameras, _, axes = rig["shift_basis"].shape
    names = ("focal", "centre", "distortion", "rotation", "translation")
    own, views = _rig(rig, names, batch)
    (places, aside), rows = _rows(points, points if shift is None else shift)
    out = points.new_empty(batch, cameras, vertices, 2)
    with _on(points):
        _views().project_view[(batch, cameras)](
            *views, rig["shift_basis"].contiguous(), places, aside, out, *rows, own, vertices, cameras, axes,
            shift is not None, _padded(vertices),
        )  # fmt: skip
    return out


def optics(
    rig: Mapping[str, Tensor],
    points: Float[Tensor, "batch vertex 3"],
    tangents: Float[Tensor, "batch vertex 3"],
    longest: float,
) -> tuple[Float[Tensor, "batch camera vertex"], Float[Tensor, "batch camera vertex"]]:
    """Stretch and depth: `appearance.optics`."""
    batch, vertices, _ = points.shape
    cameras = len(rig["shift_basis"])
    own, views = _rig(rig, ("rotation", "translation"), batch)
    (places,), row = _rows(points)
    made = [points.new_empty(batch, cameras, vertices) for _ in range(2)]
    with _on(points):
        _views().see_view[(batch, cameras)](
            *views, places, tangents, *made, *row, *tangents.stride(), own, longest, vertices, cameras,
            _padded(vertices),
        )  # fmt: skip
    return made[0], made[1]


def look(
    view: tuple[Tensor, Tensor, Tensor],
    seen: tuple[Tensor, Tensor],
    shape: Mapping[str, Tensor],
    hats: Float[Tensor, "vertex knot"],
    sharp: Float[Tensor, "*batch camera"],
    length: Float[Tensor, "*batch camera"],
    floor: float,
    cap: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """sigma, iota and their derivatives by the views: `appearance.Profile.look`, `hats` being `appearance.hats`."""
    batch, cameras, vertices = seen[0].shape
    looks, rows = _rows(*view)
    numbers = [shape[name].contiguous() for name in _SHAPE]
    made = [seen[0].new_empty(batch, cameras, vertices, *more) for more in ((), (), (2, 3))]
    knots = hats.shape[1]
    with _on(sharp):
        _views().look_view[(batch, cameras)](
            *looks, *(part.contiguous() for part in seen), sharp.contiguous(), length.contiguous(), *numbers, hats,
            *made, *rows, int(sharp.ndim == 2), floor, cap, vertices, cameras, knots, _padded(vertices),
            _padded(knots, 1),
        )  # fmt: skip
    return made[0], made[1], made[2]


def energy(
    state: Mapping[str, Tensor],
    anchor: Mapping[str, Tensor],
    losses: Float[Tensor, "batch camera"],
    slope: Float[Tensor, "batch 2 both"],
    keeping: Float[Tensor, " kept"],
    pixel_weight: float,
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "term batch"], Float[Tensor, "batch unknown"]]:
    """The energy, its terms and the priors' gradient: what `second_order.evaluate` ends with."""
    batch, vertices, _ = state["curvature"].shape
    cameras, axes = losses.shape[1], state["shift"].shape[1]
    nodes = slope.shape[2] - vertices
    (bends,), row = _rows(state["curvature"])
    now, now_rows = _rows(*(state[name] for name in _KEPT))
    old, old_rows = _rows(*(anchor[name] for name in _KEPT))
    total, terms = losses.new_empty(batch), losses.new_empty(3, batch)
    gradient = losses.new_empty(batch, 5 + 2 * nodes + len(keeping))
    with _on(losses):
        _systems().sum_energy[(batch,)](
            losses.contiguous(), bends, slope.contiguous(), keeping, *now, *old, total, terms, gradient,
            *row, *now_rows, *old_rows, pixel_weight, batch, vertices, nodes, cameras, axes,
            _padded(vertices), _padded(nodes), _padded(max(axes, cameras), 1),
        )  # fmt: skip
    return total, terms, gradient


def system(
    rig: Mapping[str, Tensor],
    gram: Float[Tensor, "batch camera vertex 5 5"],
    slope: Float[Tensor, "batch camera vertex 5"],
    points: Float[Tensor, "batch vertex 3"],
    frames: Float[Tensor, "batch vertex 3 3"],
    segments: Float[Tensor, "segment node"],
    by_view: Float[Tensor, "batch camera vertex 2 3"],
    rho: Float[Tensor, "batch camera"],
) -> tuple[Float[Tensor, "batch unknown unknown"], Float[Tensor, "batch unknown"]]:
    """H and g: `normal.pixel_system`."""
    batch, vertices, _ = points.shape
    nodes = segments.shape[1]
    cameras, _, axes = rig["shift_basis"].shape
    own, views = _rig(rig, ("focal", "distortion", "rotation", "translation"), batch)
    shape, others = 6 + 2 * nodes, axes + 4 * cameras
    count, tiles = shape + others, -(-(shape + others + 1) // _TILE)
    (at, turns, wide), (at_row, turns_row, wide_row) = _rows(points, frames, rho)
    places = points.new_empty(batch, vertices, 3, shape)
    spatial, coupling = points.new_empty(batch, vertices, 3, 3), points.new_empty(batch, vertices, 3, others + 1)
    hessian, gradient = points.new_empty(batch, count, count), points.new_empty(batch, count)
    kernels, padded = _systems(), _padded(vertices)
    with _on(points):
        kernels.derive_places[(batch, -(-nodes // _BLOCK) + 1)](
            at, turns, segments.contiguous(), places, at_row, turns_row, vertices, nodes, padded, _BLOCK
        )
        kernels.couple_blobs[(batch,)](
            *views, rig["shift_basis"].contiguous(), gram.contiguous(), slope.contiguous(), at, by_view.contiguous(),
            wide, spatial, coupling, hessian, gradient, at_row, wide_row, own, vertices, cameras, axes, shape,
            padded, _padded(others + 1), num_warps=8, num_stages=1,
        )  # fmt: skip
        kernels.multiply_places[(batch, -(-shape // _TILE), tiles)](
            places, spatial, coupling, hessian, gradient, vertices, shape, others, _TILE, _DEPTH, num_stages=2
        )
    return hessian, gradient


def _rows(*tensors: Tensor) -> tuple[list[Tensor], list[int]]:
    """The tensors, each frame's part in one piece, and what lies between two frames."""
    whole = [tensor if not len(tensor) or tensor[0].is_contiguous() else tensor.contiguous() for tensor in tensors]
    return whole, [tensor.stride(0) for tensor in whole]


def _rig(rig: Mapping[str, Tensor], names: tuple[str, ...], batch: int) -> tuple[int, list[Tensor]]:
    """Whether every frame has cameras of its own, and the tensors asked for."""
    own = any(len(rig[name]) > 1 for name in names)
    size = batch if own else 1
    return int(own), [rig[name].expand(size, *rig[name].shape[1:]).contiguous() for name in names]


def _padded(count: int, least: int = 16) -> int:
    """The next power of 2, and no less than a matrix product takes."""
    return max(least, 1 << (count - 1).bit_length())


def _on(tensor: Tensor) -> Any:
    return torch.cuda.device_of(tensor)


def _views() -> ModuleType:
    # Not above: Triton is optional, and slow to import.
    from midline3d.fused import view_kernels

    return view_kernels


def _systems() -> ModuleType:
    from midline3d.fused import system_kernels

    return system_kernels


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
