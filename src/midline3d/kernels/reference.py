"""The reference: every sum of a step as it is written down, in plain torch, on any device and with gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from midline3d import curve
from midline3d.appearance import BlobAppearance, Optics, Profile, ViewAppearance, optics
from midline3d.cameras import Cameras, project
from midline3d.curve import Curve
from midline3d.kernels import normal
from midline3d.kernels.basis import Basis
from midline3d.kernels.contract import Energy, Prior, StepLimits, System
from midline3d.kernels.layout import Layout
from midline3d.rendering import Products
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState


def bending(prior: Prior, state: FrameState) -> Float[Tensor, "batch 2 both"]:
    """K' Q of both directions of the curvature, by the vertices and, behind them, by the nodes."""
    curvature = state.curvature.mT.flatten(1)
    # A row for each direction of each frame, and one matrix: a product of batches costs ten times as much.
    return (curvature.view(-1, state.vertices) @ prior.stiffness).view(len(state), 2, -1)


def energy(prior: Prior, state: FrameState, losses: Float[Tensor, "batch camera"]) -> Energy:
    """Weighted losses of the pixels, sum(K' Q K), and the weighted squares of what has changed since the anchor."""
    slope, change = bending(prior, state), _change(prior.anchor, state)
    gradient = prior.keeping * change
    bent = (state.curvature.mT.flatten(1) * slope[..., : state.vertices].flatten(1)).sum(1)
    terms = torch.stack([prior.pixels * losses.sum(1), bent, (gradient * change).sum(1)])
    # The place and the direction of the middle vertex are free.
    free = slope.new_zeros(len(state), prior.layout.bend.start)
    return Energy(terms.sum(0), terms, torch.cat([free, slope[..., state.vertices :].flatten(1), gradient], 1))


def _change(before: FrameState, state: FrameState) -> Float[Tensor, "batch kept"]:
    """What has changed since the anchor, in the order of `Layout.kept`; the defocus counts from 0."""
    views = state.sigma.shape[1]
    ratio = _sizes(state) / _sizes(before)
    log_length, appearance, rho = ratio.log().split([1, 2 * views, views], 1)
    return torch.cat([log_length, state.shift - before.shift, appearance, state.defocus, rho], 1)


def _sizes(state: FrameState) -> Float[Tensor, "batch size"]:
    return torch.cat([state.length[:, None], state.sigma, state.iota, state.rho], 1)


def solve(system: System, damping: Float[Tensor, " batch"]) -> Float[Tensor, "batch unknown"]:
    """-(H + damping diag(H))^-1 g. In float64: the unknowns' scales differ by more than float32 can hold."""
    hessian, gradient = system.hessian.double(), system.gradient.double()
    diagonal = torch.diagonal(hessian, dim1=1, dim2=2)
    diagonal += diagonal * damping[:, None] + 1e-9 * diagonal.amax(1, keepdim=True)
    factor, failed = torch.linalg.cholesky_ex(hessian)
    # Not cholesky_solve: for batches on a GPU it takes memory while it runs, which no CUDA graph can record.
    half = torch.linalg.solve_triangular(factor, -gradient[..., None], upper=False)
    step = torch.linalg.solve_triangular(factor.mT, half, upper=True).squeeze(-1)
    # A matrix that is not positive leaves a factor of anything behind: NaN asks for more damping.
    return torch.where(failed[:, None] == 0, step, torch.nan).to(system.gradient.dtype)


def take_step(
    state: FrameState, step: Float[Tensor, "batch unknown"], basis: Basis, layout: Layout, limits: StepLimits
) -> FrameState:
    """The state after a step of the unknowns: the middle vertex moves and turns, the curve is made anew about it."""
    middle = state.vertices // 2
    bishop = state.bishop[:, middle]
    turn = (bishop[..., 1:] @ step[:, layout.turn, None]).squeeze(-1)
    bend = basis.matrix @ step[:, layout.bend].unflatten(1, (2, -1)).mT
    sigma, iota, defocus, rho = step[:, layout.appearance].unflatten(1, (4, -1)).unbind(1)
    longest, most = limits.log_length, limits.log_appearance
    there = replace(
        state,
        curvature=state.curvature + bend,
        length=state.length * step[:, layout.length].clamp(-longest, longest).exp(),
        shift=state.shift + step[:, layout.shift],
        sigma=state.sigma * sigma.clamp(-most, most).exp(),
        iota=state.iota * iota.clamp(-most, most).exp(),
        defocus=state.defocus + defocus,
        rho=state.rho * rho.clamp(-most, most).exp(),
    ).within(limits.bounds)
    turned = curve.orthonormal(curve.rotation_exp(turn) @ bishop)
    place = state.points[:, middle] + step[:, layout.move]
    made = curve.integrate(place, turned, there.curvature, there.length, state.middle())
    return replace(there, points=made.points, bishop=made.bishop)


@dataclass(frozen=True)
class TorchBackend:
    """The equations behind the backends' contract."""

    def integrate(
        self,
        position: Float[Tensor, "batch 3"],
        bishop: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        return curve.integrate(position, bishop, curvature, length, start)

    def through(
        self,
        position: Float[Tensor, "batch 3"],
        bishop: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        return self.integrate(position, curve.orthonormal(bishop), curvature, length, start)

    def project(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None
    ) -> Float[Tensor, "batch camera vertex 2"]:
        return project(cameras, points, shift)

    def optics(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], tangents: Float[Tensor, "batch vertex 3"]
    ) -> Optics:
        return optics(cameras, points, tangents)

    def appearance(self, profile: Profile, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        return profile.apply(view, optics)

    def energy(self, prior: Prior, state: FrameState, losses: Float[Tensor, "batch camera"]) -> Energy:
        return energy(prior, state, losses)

    def pixel_system(
        self,
        products: Products,
        state: FrameState,
        appearance: BlobAppearance,
        cameras: Cameras,
        basis: Basis,
        layout: Layout,
    ) -> System:
        return normal.pixel_system(products, state, appearance, cameras, basis, layout)

    def solve(self, system: System, damping: Float[Tensor, " batch"]) -> Float[Tensor, "batch unknown"]:
        return solve(system, damping)

    def take_step(
        self, state: FrameState, step: Float[Tensor, "batch unknown"], basis: Basis, layout: Layout, limits: StepLimits
    ) -> FrameState:
        return take_step(state, step, basis, layout, limits)

    def clamped(self, state: FrameState, bounds: Bounds) -> FrameState:
        held, rows, middle = state.within(bounds), torch.arange(len(state), device=state.points.device), state.middle()
        made = self.through(held.points[rows, middle], held.bishop[rows, middle], held.curvature, held.length, middle)
        return replace(held, points=made.points, bishop=made.bishop)
