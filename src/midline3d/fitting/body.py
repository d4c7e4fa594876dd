"""Learning the body: one length, width and opacity along it for all frames of a recording.

A bundle adjustment. Every frame keeps its own unknowns; the body's few numbers are shared. Each frame's unknowns are
eliminated (Schur complement), the body's step is solved for, and the frames follow.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from midline3d.appearance import Optics, Profile, Shape, optics
from midline3d.cameras import projection_jacobian
from midline3d.fitting.normal import System, assemble, shift_and_look_derivatives, vertex_derivatives
from midline3d.fitting.second_order import Evaluation, Problem, add_priors, evaluate, moved
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState


@dataclass(frozen=True)
class Body:
    """The animal's own constants."""

    shape: Shape
    sharp: Float[Tensor, ""]
    """sigma of its middle in perfect focus, mm."""
    length: Float[Tensor, ""]
    """mm."""

    def profile(self, vertices: int, scale: Float[Tensor, " camera"], floor: float) -> Profile:
        """The taper in views of the given magnifications (px per mm)."""
        width, opacity = self.shape.profile(vertices)
        return Profile(width, opacity, self.sharp * scale, self.shape.depth, floor)

    def numbers(self) -> Float[Tensor, " number"]:
        """All constants, as logarithms: the tissue's, the tapers', the sharp width, the length."""
        *tapers, tissue = (getattr(self.shape, item.name) for item in fields(Shape))
        return torch.cat([tissue, torch.stack([*tapers, self.sharp, self.length]).log()])

    @staticmethod
    def of(numbers: Float[Tensor, " number"]) -> Body:
        tapers = len(fields(Shape)) - 1
        tissue, rest = numbers[: -tapers - 2], numbers[-tapers - 2 :].exp()
        return Body(Shape(*rest[:tapers].unbind(), tissue), rest[-2], rest[-1])


@dataclass(frozen=True)
class BodyPrior:
    """Where the body's numbers lie before any image is seen: log-normal."""

    middle: Float[Tensor, " number"]
    weight: Float[Tensor, " number"]

    def energy(self, numbers: Tensor) -> Tensor:
        return (self.weight * (numbers - self.middle).square()).sum()


@dataclass(frozen=True)
class Learned:
    body: Body
    state: FrameState
    energy: float
    iterations: int


def learn(
    problem: Problem, state: FrameState, body: Body, prior: BodyPrior, scale: Tensor, iterations: int = 30
) -> Learned:
    """The body and all frames together, to convergence, by Levenberg-Marquardt."""
    floor = problem.taper.floor  # type: ignore[attr-defined]
    numbers = body.numbers()

    def look_at(numbers: Tensor, state: FrameState) -> tuple[Problem, Evaluation, Tensor]:
        body = Body.of(numbers)
        here = replace(problem, taper=body.profile(state.vertices, scale, floor))
        at = evaluate(here, replace(state, length=body.length.expand(len(state))).rebuilt(state.middle()))
        return here, at, at.energy.sum() + prior.energy(numbers)

    here, at, energy = look_at(numbers, state)
    damping = 1e-3
    done = 0
    for _ in range(iterations):
        done += 1
        own, shared = _step(here, at, numbers, prior, scale, floor, damping)
        next_numbers = numbers + shared.clamp(-0.3, 0.3)
        there, trial, next_energy = look_at(next_numbers, moved(here, at.state, own))
        gain = float(energy - next_energy)
        if gain > 0:
            converged = gain < 2e-6 * float(energy)
            here, at, numbers, energy = there, trial, next_numbers, next_energy
            damping = max(damping * 0.2, 1e-7)
            if converged:
                break
        else:
            damping *= 8
            if damping > 1e4:
                break
    return Learned(Body.of(numbers), at.state, float(energy), done)


def _step(
    problem: Problem, at: Evaluation, numbers: Tensor, prior: BodyPrior, scale: Tensor, floor: float, damping: float
) -> tuple[Float[Tensor, "batch unknown"], Float[Tensor, " number"]]:
    """Steps of the frames' unknowns and of the body's numbers, with the frames' own length held by the body's."""
    layout = problem.layout
    places = vertex_derivatives(at.state, problem.basis)
    others = shift_and_look_derivatives(at.state, at.look, problem.views.cameras, layout)
    jacobian = projection_jacobian(problem.views.cameras, at.state.points)
    by_body = _look_by_numbers(at.state, numbers, scale, floor, optics(problem.views.cameras, at.state.points, at.state.frames[..., 0]))
    system = assemble(at.products, places, jacobian, torch.cat([others, by_body], -1))
    system = System(system.hessian * problem.weights.pixels, system.gradient * problem.weights.pixels)
    count, shared = layout.count, len(numbers)
    # The length's column among the frame's unknowns is the body's last number, for all frames.
    own = [index for index in range(count) if index != layout.length]
    common = [*range(count, count + shared - 1), layout.length]
    system = add_priors(problem, at, system)
    hessian, gradient = system.hessian.double(), system.gradient.double()
    frames = hessian[:, own][:, :, own]
    diagonal = torch.diagonal(frames, dim1=1, dim2=2)
    diagonal += damping * diagonal + 1e-9 * diagonal.amax(1, keepdim=True)
    coupling = hessian[:, own][:, :, common]
    factor = torch.linalg.cholesky(frames)
    right = torch.cat([coupling, gradient[:, own, None]], -1)
    solved = torch.cholesky_solve(right, factor)
    reduced = (hessian[:, common][:, :, common] - coupling.mT @ solved[..., :-1]).sum(0)
    slope = (gradient[:, common] - (coupling.mT @ solved[..., -1:]).squeeze(-1)).sum(0)
    weight = prior.weight.double()
    reduced = reduced + torch.diag(weight + damping * torch.diagonal(reduced).clamp(min=1e-6))
    slope = slope + weight * (numbers - prior.middle).double()
    step = -torch.linalg.solve(reduced, slope)
    follow = -(solved[..., -1] + solved[..., :-1] @ step)
    full = torch.zeros(len(frames), count, dtype=torch.float64, device=frames.device)
    full[:, own] = follow
    return full.to(numbers.dtype), step.to(numbers.dtype)


def _look_by_numbers(
    state: FrameState, numbers: Float[Tensor, " number"], scale: Tensor, floor: float, seen: Optics
) -> Float[Tensor, "batch camera vertex 5 number"]:
    """d(u, v, sigma, iota, rho) of every blob by the body's numbers but the length."""

    def look(values: Tensor) -> Tensor:
        taper = Body.of(torch.cat([values, numbers[-1:]])).profile(state.vertices, scale, floor)
        there = taper.look(state.view_look, seen)
        return torch.stack([there.sigma, there.iota], -1)

    slopes = torch.func.jacfwd(look)(numbers[:-1])
    out = slopes.new_zeros(*slopes.shape[:3], 5, slopes.shape[-1])
    out[..., 2:4, :] = slopes
    return out
