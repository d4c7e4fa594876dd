"""Levenberg-Marquardt on the pixel residuals and priors: a handful of iterations a frame."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from midline3d import curve, scoring
from midline3d.appearance import Look, Profile, optics
from midline3d.cameras import project, scale
from midline3d.fitting.normal import Basis, Layout, System, pixel_system
from midline3d.fitting.views import Views
from midline3d.rendering import Objective, Products, products
from midline3d.settings import SecondOrderSettings
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import Bounds, FrameState, where


@dataclass(frozen=True)
class Problem:
    """A batch of frames to fit, and everything that stays fixed while they are."""

    views: Views
    taper: Profile
    basis: Basis
    objective: Objective
    weights: SecondOrderSettings
    bounds: Bounds
    shares: Float[Tensor, "batch vertex"]
    """S-hat, for the masks: of the frame before, and fixed, so that a lower energy is a better fit."""
    anchor: FrameState
    """What the temporal terms pull towards: the frame before."""

    @property
    def layout(self) -> Layout:
        basis = self.views.cameras.shift_basis
        return Layout(self.basis.matrix.shape[1], basis.shape[2], basis.shape[0])


@dataclass(frozen=True)
class Evaluation:
    """A state held against the images."""

    state: FrameState
    look: Look
    products: Products
    energy: Float[Tensor, " batch"]
    terms: dict[str, Float[Tensor, " batch"]]


@dataclass(frozen=True)
class Fit:
    state: FrameState
    energy: Float[Tensor, " batch"]
    terms: dict[str, Float[Tensor, " batch"]]
    shares: Float[Tensor, "batch vertex"]
    iterations: Int[Tensor, " batch"]


def evaluate(problem: Problem, state: FrameState) -> Evaluation:
    seen = optics(problem.views.cameras, state.points, state.frames[..., 0])
    look = problem.taper.look(state.view_look, seen)
    centre = project(problem.views.cameras, state.points, state.shift)
    pixels = products(look.blobs(centre, state.rho), problem.views.images, problem.shares, problem.objective)
    weights = problem.weights
    bend, _ = _curvature_prior(problem, state)
    log_length, shift, log_look = _kept(problem, state)
    terms = {
        "pixels": weights.pixels * pixels.loss.sum(1),
        "curvature": bend,
        "temporal": weights.keep_length * log_length.square()
        + weights.keep_shift * shift.square().sum(1)
        + weights.keep_look * log_look.square().sum(1),
    }
    return Evaluation(state, look, pixels, torch.stack(list(terms.values())).sum(0), terms)


def normal_equations(problem: Problem, at: Evaluation) -> System:
    """H and g of the whole energy: pixels, curvature and temporal terms."""
    system = pixel_system(at.products, at.state, at.look, problem.views.cameras, problem.basis, problem.layout)
    weight = problem.weights.pixels
    return add_priors(problem, at, System(weight * system.hessian, weight * system.gradient))


def add_priors(problem: Problem, at: Evaluation, system: System) -> System:
    """The system with the curvature's and the temporal terms on top; further unknowns behind the frame's own are let be."""
    layout, weights = problem.layout, problem.weights
    hessian, gradient = system.hessian.clone(), system.gradient.clone()
    _, slope = _curvature_prior(problem, at.state)
    matrix = problem.basis.matrix
    block = matrix.mT @ _curvature_matrix(problem, at.state) @ matrix
    nodes = layout.nodes
    gradient[:, layout.bend] += (slope.mT @ matrix).flatten(1)
    for part in (slice(5, 5 + nodes), slice(5 + nodes, 5 + 2 * nodes)):
        hessian[:, part, part] += block
    log_length, shift, log_look = _kept(problem, at.state)
    diagonal = torch.diagonal(hessian, dim1=1, dim2=2)
    for place, weight, offset in (
        (slice(layout.length, layout.length + 1), weights.keep_length, log_length[:, None]),
        (layout.shift, weights.keep_shift, shift),
        (layout.look, weights.keep_look, log_look),
    ):
        diagonal[:, place] += weight
        gradient[:, place] += weight * offset
    return System(hessian, gradient)


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
        # A step that would hardly move anything ends the fit, whether it was an improvement or not.
        active = active & (way > problem.weights.settled)
        damping = torch.where(better, damping * 0.2, damping * 8).clamp(1e-6, 1e4)
        at = chosen(better, trial, at)
        if not active.any():
            break
    blobs = at.look.blobs(project(problem.views.cameras, at.state.points, at.state.shift), at.state.rho)
    shares = scoring.relative(scoring.single_peak(scoring.raw_scores(at.products.overlap, blobs)))
    return Fit(at.state, at.energy, at.terms, shares, taken)


def solve(system: System, damping: Float[Tensor, " batch"]) -> Float[Tensor, "batch unknown"]:
    """The damped step. In float64: the unknowns' scales differ by more than float32 can hold."""
    hessian, gradient = system.hessian.double(), system.gradient.double()
    diagonal = torch.diagonal(hessian, dim1=1, dim2=2)
    diagonal += diagonal * damping[:, None] + 1e-9 * diagonal.amax(1, keepdim=True)
    factor, _ = torch.linalg.cholesky_ex(hessian)
    return -torch.cholesky_solve(gradient[..., None], factor).squeeze(-1).to(system.gradient.dtype)


def moved(problem: Problem, state: FrameState, step: Float[Tensor, "batch unknown"]) -> FrameState:
    """The state after a step of the unknowns."""
    layout = problem.layout
    middle = state.vertices // 2
    frame = state.frames[:, middle]
    turn = (frame[..., 1:] @ step[:, 3:5, None]).squeeze(-1)
    bend = (problem.basis.matrix @ step[:, layout.bend].unflatten(1, (2, -1)).mT)
    sigma, iota, defocus, rho = step[:, layout.look].unflatten(1, (4, -1)).unbind(1)
    points, frames = state.points.clone(), state.frames.clone()
    points[:, middle] += step[:, :3]
    frames[:, middle] = curve.rotation_exp(turn) @ frame
    return replace(
        state,
        points=points,
        frames=frames,
        curvature=state.curvature + bend,
        length=state.length * step[:, layout.length].clamp(-0.1, 0.1).exp(),
        shift=state.shift + step[:, layout.shift],
        sigma=state.sigma * sigma.clamp(-0.3, 0.3).exp(),
        iota=state.iota * iota.clamp(-0.3, 0.3).exp(),
        defocus=state.defocus + defocus,
        rho=state.rho * rho.clamp(-0.3, 0.3).exp(),
    ).clamped(problem.bounds)


def chosen(choice: Bool[Tensor, " batch"], first: Evaluation, second: Evaluation) -> Evaluation:
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
    )


def _curvature_matrix(problem: Problem, state: FrameState) -> Float[Tensor, "vertex vertex"]:
    """Q of the curvature's energy sum(K' Q K): smoothness over first and second neighbours, and size."""
    weights, count = problem.weights, state.vertices
    eye = torch.eye(count, dtype=state.points.dtype, device=state.points.device)
    first, second = eye[1:] - eye[:-1], eye[2:] - eye[:-2]
    smooth = weights.smoothness * (first.mT @ first + second.mT @ second / 2)
    return (smooth + weights.size * eye) / (count - 1) ** 2


def _curvature_prior(
    problem: Problem, state: FrameState
) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch vertex 2"]]:
    """The curvature's energy and half its gradient."""
    slope = _curvature_matrix(problem, state) @ state.curvature
    return (state.curvature * slope).sum((1, 2)), slope


def _kept(problem: Problem, state: FrameState) -> tuple[Tensor, Tensor, Tensor]:
    """What has changed since the anchor: log length, shift, and the log looks in the layout's order."""
    before = problem.anchor
    sigma, iota, rho = ((getattr(state, name) / getattr(before, name)).log() for name in ("sigma", "iota", "rho"))
    looks = torch.cat([sigma, iota, state.defocus, rho], 1)
    return (state.length / before.length).log(), state.shift - before.shift, looks
