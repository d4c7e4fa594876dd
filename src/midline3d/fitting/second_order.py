"""Levenberg-Marquardt on the pixel residuals and priors: a handful of iterations a frame."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

import torch

from midline3d import compiled, curve, fused
from midline3d.appearance import Look, Profile, optics
from midline3d.cameras import project, scale
from midline3d.fitting.normal import Basis, Layout, System, pixel_system
from midline3d.fitting.pins import Pins, pin_energy, with_pins
from midline3d.fitting.views import Views
from midline3d.rendering import Objective, Products, products, render
from midline3d.settings import SecondOrderSettings
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import Bounds, FrameState, where

MOST_LOG_LENGTH, MOST_LOG_LOOK = 0.1, 0.3
"""What one step may change at most in the logarithms of the length and of the views' sigma, iota and rho."""


TERMS = ("pixels", "curvature", "temporal")
"""Of the energy."""


@dataclass(frozen=True)
class Problem:
    """A batch of frames to fit, and everything that stays fixed while they are."""

    views: Views
    taper: Profile
    basis: Basis
    objective: Objective
    weights: SecondOrderSettings
    bounds: Bounds
    anchor: FrameState
    """What the temporal terms pull towards: the frame before."""
    pins: Pins | None = None
    """Places that the midline was told to run through."""

    @cached_property
    def layout(self) -> Layout:
        basis = self.views.cameras.shift_basis
        return Layout(self.basis.matrix.shape[1], basis.shape[2], basis.shape[0])

    @cached_property
    def stiffness(self) -> Float[Tensor, "vertex both"]:
        """Q of the curvature's energy sum(K' Q K), by the vertices and, behind them, by the nodes."""
        return _stiffness(self.basis, self.weights.smoothness, self.weights.size)

    @cached_property
    def keeping(self) -> Float[Tensor, " kept"]:
        """Weights of what `_kept` returns."""
        return _keeping(self.basis, self.weights, self.layout)

    @cached_property
    def prior_hessian(self) -> Float[Tensor, "unknown unknown"]:
        """H of the curvature's and the temporal terms: both are quadratic, so that it never changes."""
        block = self.basis.matrix.mT @ self.stiffness[:, len(self.basis.matrix) :]
        return torch.block_diag(block.new_zeros(5, 5), block, block, torch.diag(self.keeping))


@dataclass(frozen=True)
class Evaluation:
    """A state held against the images."""

    state: FrameState
    look: Look
    products: Products
    energy: Float[Tensor, " batch"]
    terms: dict[str, Float[Tensor, " batch"]]
    prior_gradient: Float[Tensor, "batch unknown"]
    """g of the curvature's and the temporal terms."""


@dataclass(frozen=True)
class Fit:
    state: FrameState
    energy: Float[Tensor, " batch"]
    terms: dict[str, Float[Tensor, " batch"]]
    iterations: Int[Tensor, " batch"]

    def __getitem__(self, index: list[int]) -> Fit:
        terms = {name: value[index] for name, value in self.terms.items()}
        return Fit(self.state[index], self.energy[index], terms, self.iterations[index])


def evaluate(problem: Problem, state: FrameState) -> Evaluation:
    seen = optics(problem.views.cameras, state.points, state.frames[..., 0])
    look = problem.taper.look(state.view_look, seen)
    centre = project(problem.views.cameras, state.points, state.shift)
    pixels = products(look.blobs(centre, state.rho), problem.views.images, problem.objective)
    energy, terms, gradient = _energies(problem, state, pixels.loss)
    named = dict(zip(TERMS, terms.unbind(), strict=True))
    if problem.pins is not None:
        named["pins"] = pin_energy(problem.pins, problem.views.cameras, state)
        energy = energy + named["pins"]
    return Evaluation(state, look, pixels, energy, named, gradient)


def _energies(
    problem: Problem, state: FrameState, losses: Float[Tensor, "batch camera"]
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "term batch"], Float[Tensor, "batch unknown"]]:
    """The energy, its `TERMS`, and the gradient of the last two."""
    curvature, weight = state.curvature.mT.flatten(1), problem.weights.pixels
    # A row for each direction of each frame, and one matrix: a product of batches costs ten times as much.
    slope = (curvature.view(-1, state.vertices) @ problem.stiffness).view(len(state), 2, -1)
    if fused.takes(losses, slope, *vars(state).values(), *vars(problem.anchor).values()):
        return fused.energy(vars(state), vars(problem.anchor), losses, slope, problem.keeping, weight)
    kept = _kept(problem, state)
    pull = problem.keeping * kept
    bending = (curvature * slope[..., : state.vertices].flatten(1)).sum(1)
    terms = torch.stack([weight * losses.sum(1), bending, (pull * kept).sum(1)])
    bend = slope[..., state.vertices :].flatten(1)
    return terms.sum(0), terms, torch.cat([bend.new_zeros(len(bend), 5), bend, pull], 1)


def normal_equations(problem: Problem, at: Evaluation) -> System:
    """H and g of the whole energy: pixels, curvature, temporal terms and pins."""
    cameras, weight, sums = problem.views.cameras, problem.weights.pixels, at.products
    if problem.pins is not None:
        sums = with_pins(sums, problem.pins, cameras, at.state, weight)
    system = pixel_system(sums, at.state, at.look, cameras, problem.basis, problem.layout)
    return System(
        torch.add(problem.prior_hessian, system.hessian, alpha=weight),
        torch.add(at.prior_gradient, system.gradient, alpha=weight),
    )


def add_priors(problem: Problem, at: Evaluation, system: System) -> System:
    """The system with the curvature's and the temporal terms on top; unknowns behind the frame's own are let be."""
    hessian, gradient = system.hessian.clone(), system.gradient.clone()
    count = problem.layout.count
    hessian[:, :count, :count] += problem.prior_hessian
    gradient[:, :count] += at.prior_gradient
    return System(hessian, gradient)


def rendered(problem: Problem, state: FrameState) -> Float[Tensor, "batch camera w w"]:
    """What the images should be."""
    cameras = problem.views.cameras
    look = problem.taper.look(state.view_look, optics(cameras, state.points, state.frames[..., 0]))
    blobs = look.blobs(project(cameras, state.points, state.shift), state.rho)
    return render(blobs, problem.views.images, problem.objective.cutoff).image


def fit(problem: Problem, state: FrameState, iterations: int) -> Fit:
    """The batch to convergence: each frame stops by itself once a step moves its vertices by hardly a pixel's share."""
    at = evaluate(problem, state)
    per_mm = scale(problem.views.cameras, state.points).mean(1)
    damping = torch.full_like(per_mm, 1e-3)
    active = torch.ones_like(per_mm, dtype=torch.bool)
    taken = torch.zeros_like(per_mm, dtype=torch.long)
    for _ in range(iterations):
        step = solve(normal_equations(problem, at), damping)
        trial = evaluate(problem, moved(problem, at.state, step))
        better = active & (trial.energy < at.energy)
        way = (trial.state.points - at.state.points).square().sum(-1).mean(1).sqrt() * per_mm
        taken += active
        # A step that would hardly move anything ends the fit, whether it was an improvement or not. One that could not
        # be solved for (NaN) does not: more damping will.
        active = active & ~(way <= problem.weights.settled)
        damping = torch.where(better, damping * 0.2, damping * 8).clamp(1e-6, 1e4)
        at = chosen(better, trial, at)
        if not active.any():
            break
    return Fit(at.state, at.energy, at.terms, taken)


def solve(system: System, damping: Float[Tensor, " batch"]) -> Float[Tensor, "batch unknown"]:
    """The damped step. In float64: the unknowns' scales differ by more than float32 can hold."""
    if compiled.takes(system.hessian, system.gradient, damping):
        return compiled.solve(system.hessian, system.gradient, damping)
    hessian, gradient = system.hessian.double(), system.gradient.double()
    diagonal = torch.diagonal(hessian, dim1=1, dim2=2)
    diagonal += diagonal * damping[:, None] + 1e-9 * diagonal.amax(1, keepdim=True)
    factor, _ = torch.linalg.cholesky_ex(hessian)
    # Not cholesky_solve: for batches on a GPU it takes memory while it runs, which no CUDA graph can record.
    half = torch.linalg.solve_triangular(factor, -gradient[..., None], upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True).squeeze(-1).to(system.gradient.dtype)


def moved(problem: Problem, state: FrameState, step: Float[Tensor, "batch unknown"]) -> FrameState:
    """The state after a step of the unknowns."""
    matrix, bounds = problem.basis.matrix, problem.bounds
    limits = (MOST_LOG_LENGTH, MOST_LOG_LOOK, *bounds.numbers())
    if compiled.takes(step, matrix, *vars(state).values()):
        return FrameState(**compiled.moved(vars(state), step, matrix, limits))
    if fused.takes(step, matrix, *vars(state).values()):
        return FrameState(**fused.moved(vars(state), step, matrix, limits))
    layout = problem.layout
    middle = state.vertices // 2
    frame = state.frames[:, middle]
    turn = (frame[..., 1:] @ step[:, 3:5, None]).squeeze(-1)
    bend = matrix @ step[:, layout.bend].unflatten(1, (2, -1)).mT
    sigma, iota, defocus, rho = step[:, layout.look].unflatten(1, (4, -1)).unbind(1)
    most = MOST_LOG_LOOK
    there = replace(
        state,
        curvature=state.curvature + bend,
        length=state.length * step[:, layout.length].clamp(-MOST_LOG_LENGTH, MOST_LOG_LENGTH).exp(),
        shift=state.shift + step[:, layout.shift],
        sigma=state.sigma * sigma.clamp(-most, most).exp(),
        iota=state.iota * iota.clamp(-most, most).exp(),
        defocus=state.defocus + defocus,
        rho=state.rho * rho.clamp(-most, most).exp(),
    ).within(bounds)
    turned = curve.orthonormal(curve.rotation_exp(turn) @ frame)
    place = state.points[:, middle] + step[:, :3]
    made = curve.integrate(place, turned, there.curvature, there.length, state.middle())
    return replace(there, points=made.points, frames=made.frames)


def chosen(choice: Bool[Tensor, " batch"], first: Evaluation, second: Evaluation) -> Evaluation:
    """Frame by frame the first where `choice` holds, else the second."""
    if choice.is_cpu and bool(choice.all()):
        return first
    if choice.is_cpu and not choice.any():
        return second

    def pick(one: Tensor, other: Tensor) -> Tensor:
        return torch.where(choice.view(-1, *[1] * (one.ndim - 1)), one, other)

    def record(one: Look | Products, other: Look | Products) -> dict[str, Tensor]:
        return {item.name: pick(getattr(one, item.name), getattr(other, item.name)) for item in fields(one)}

    return Evaluation(
        state=where(choice, first.state, second.state),
        look=Look(**record(first.look, second.look)),
        products=Products(**record(first.products, second.products)),
        energy=pick(first.energy, second.energy),
        terms={name: pick(first.terms[name], second.terms[name]) for name in first.terms},
        prior_gradient=pick(first.prior_gradient, second.prior_gradient),
    )


@lru_cache(maxsize=8)
def _stiffness(basis: Basis, smoothness: float, size: float) -> Float[Tensor, "vertex both"]:
    """(Q, Q @ basis): smoothness over first and second neighbours, and size."""
    matrix = basis.matrix
    count = len(matrix)
    eye = torch.eye(count, dtype=matrix.dtype, device=matrix.device)
    first, second = eye[1:] - eye[:-1], eye[2:] - eye[:-2]
    smooth = smoothness * (first.mT @ first + second.mT @ second / 2)
    whole = (smooth + size * eye) / (count - 1) ** 2
    return torch.cat([whole, whole @ matrix], 1)


@lru_cache(maxsize=8)
def _keeping(basis: Basis, weights: SecondOrderSettings, layout: Layout) -> Float[Tensor, " kept"]:
    views = layout.cameras
    each = [
        (1, weights.keep_length),
        (layout.axes, weights.keep_shift),
        (2 * views, weights.keep_look),
        (views, weights.small_defocus),
        (views, weights.keep_look),
    ]
    return torch.cat([basis.matrix.new_full((count,), weight) for count, weight in each])


def _kept(problem: Problem, state: FrameState) -> Float[Tensor, "batch kept"]:
    """What has changed since the anchor, in the layout's order: log length, shift, log looks (defocus from 0)."""
    before, views = problem.anchor, problem.layout.cameras
    ratio = _sizes(state) / _sizes(before)
    log_length, look, rho = ratio.log().split([1, 2 * views, views], 1)
    return torch.cat([log_length, state.shift - before.shift, look, state.defocus, rho], 1)


def _sizes(state: FrameState) -> Float[Tensor, "batch size"]:
    return torch.cat([state.length[:, None], state.sigma, state.iota, state.rho], 1)
