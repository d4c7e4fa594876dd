"""How exactly a fitted midline is known: a standard deviation across the body and one along it, for every vertex.

At the solution, small errors of the images move the unknowns by H^-1 g, with g the slope that the errors add. What the
model gets wrong is the same over a stretch of the body as long as it is wide, and independent from one such stretch to
the next and from view to view. So the slopes are summed over stretches, and the unknowns' covariance is the sandwich
H^-1 (sum g g') H^-1. It needs no level of noise: what is left over at the solution is the level. How much wider the
errors really are was measured on simulated animals, in `WIDER_ACROSS`, `WIDER_ALONG` and `ENDS_OFF`. What is stated is
where the midline lies against the images: an error of the calibration that moves all views together is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from midline3d.cameras import projection_jacobian, scale
from midline3d.fitting.second_order import Evaluation, Problem, evaluate, normal_equations
from midline3d.kernels.normal import shift_and_appearance_derivatives, vertex_derivatives
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState

STRETCH = 8
"""Vertices of a stretch at 128: an animal is some fifteen times as long as wide. 4 to 32 give the same to a tenth."""
WIDER_ACROSS = (2.85, 3.8, 3.1)
"""Times that midlines of simulated animals were farther off to their side than the sandwich says, at the head, in the
middle and at the tail: the fit takes a part of every error along, and smoothness pulls all frames to the same side.
Over 155 animals of five image models, such that 68 and 95 % of the errors lie within one and two standard deviations as
nearly as one factor can have it: errors have longer tails than a normal distribution."""
WIDER_ALONG = (4.4, 6.7, 4.8)
"""The same along the body, apart from what is wrong with its ends."""
ENDS_OFF = (0.38, 0.3)
"""Standard deviation of where a learned body ends, head and tail, in widths of the sharp body (sigma), however sharply
its light ends: what the model gets wrong there is the same in all frames, so that no frame shows it. It fades to the
other end as the square of the place, and so does what is open of the end (`Body.unsure`). Of 151 animals of four image
models: half of it would do for one, and is too little for the three others."""
PLACES = (0.0, 0.08, 0.16, 0.84, 0.92, 1.0)
"""Shares of the length: the head until the second, the middle from the third to the fourth, the tail from the fifth."""


@dataclass(frozen=True)
class Deviations:
    """Standard deviations of a batch of midlines against the images, mm."""

    across: Float[Tensor, "batch vertex"]
    """To either side: the same number for both directions, the root of their mean square."""
    along: Float[Tensor, "batch vertex"]


def deviations(problem: Problem, state: FrameState, at: Evaluation | None = None) -> Deviations:
    """Standard deviations as they hold for simulated animals. The states are solutions of the problem; `at`: the states
    held against its images, where that is known already."""
    raw, place = sandwich(problem, state, at), torch.linspace(0, 1, state.vertices).to(state.points)
    width = (problem.taper.sharp / scale(problem.views.cameras, state.points)).mean(1, keepdim=True)
    ends = torch.zeros_like(raw.along)
    for near, off, unsure in zip(((1 - place).square(), place.square()), ENDS_OFF, problem.taper.unsure, strict=True):
        ends = ends + near.square() * ((off * width).square() + (unsure * state.length[:, None]).square())
    along = (_by_region(WIDER_ALONG, place) * raw.along).square() + ends
    return Deviations(across=_by_region(WIDER_ACROSS, place) * raw.across, along=along.sqrt())


def _by_region(factors: tuple[float, float, float], place: Float[Tensor, " vertex"]) -> Float[Tensor, " vertex"]:
    """Of the head, the middle and the tail, at every vertex, one passing into the next (see `PLACES`)."""
    return _interpolated(factors, len(place)).to(place)


@cache
def _interpolated(factors: tuple[float, float, float], vertices: int) -> Float[Tensor, " vertex"]:
    """`_by_region`, float64: the same for every frame."""
    (head, middle, tail), place = factors, torch.linspace(0, 1, vertices)
    return torch.from_numpy(np.interp(place, PLACES, (head, head, middle, middle, tail, tail)))


@torch.no_grad()
def sandwich(problem: Problem, state: FrameState, at: Evaluation | None = None) -> Deviations:
    """Standard deviations by the covariance at the solution alone."""
    at = evaluate(problem, state) if at is None else at
    hessian = normal_equations(problem, at).hessian.double()
    diagonal = torch.diagonal(hessian, dim1=1, dim2=2)
    diagonal += 1e-9 * diagonal
    factor, failed = torch.linalg.cholesky_ex(hessian)
    vertices = vertex_derivatives(state, problem.basis)
    jacobian = projection_jacobian(problem.views.cameras, state.points)
    slopes = _stretch_slopes(problem, at, vertices, jacobian)
    moves = torch.cholesky_solve(slopes.double().mT, factor).to(vertices)
    directions = _apparent(problem, vertices, jacobian).flatten(1, 2) @ moves
    # Along T, M1 and M2 of the vertex.
    directions = (state.bishop[..., None] * directions.unflatten(1, (-1, 3, 1))).sum(2)
    squares = directions.square().sum(-1)
    squares[failed > 0] = torch.nan
    return Deviations(across=squares[..., 1:].mean(-1).sqrt(), along=squares[..., 0].sqrt())


def _stretch_slopes(
    problem: Problem, at: Evaluation, vertices: Tensor, jacobian: Tensor
) -> Float[Tensor, "batch stretch unknown"]:
    """Slope of the pixels' energy by all unknowns, of every stretch of the body in every view by itself.

    Sums of small products, not products of matrices: of these there would be one for every vertex.
    """
    slope = problem.weights.pixels * at.products.slope
    others = shift_and_appearance_derivatives(at.state, at.appearance, problem.views.cameras, problem.layout)
    direct = _stretches((slope[..., None] * others).sum(-2), 2).sum(3)
    places = _stretches((slope[..., :2, None] * jacobian).sum(-2), 2)
    # One product for each stretch: its places in all views by its vertices' derivatives.
    shape = places.transpose(1, 2).flatten(3) @ _stretches(vertices, 1).flatten(2, 3)
    return torch.cat([shape.transpose(1, 2), direct], -1).flatten(1, 2)


def _stretches(values: Tensor, axis: int) -> Tensor:
    """The axis of vertices in two: stretches, and the vertices of each; the last one filled up with nothing."""
    count = values.shape[axis]
    size = max(1, STRETCH * count // 128)
    missing = -count % size
    if missing:
        values = torch.cat([values, torch.zeros_like(values.narrow(axis, 0, missing))], axis)
    return values.unflatten(axis, (-1, size))


def _apparent(problem: Problem, vertices: Tensor, jacobian: Tensor) -> Float[Tensor, "batch vertex 3 unknown"]:
    """Derivatives of where the views together see a vertex: its place, and what the relative shifts do to it."""
    cameras, layout = problem.views.cameras, problem.layout
    gram = (jacobian[..., None] * jacobian[..., None, :]).sum((1, 3))
    axes = cameras.shift_basis.to(jacobian)
    shifted = (jacobian[..., None] * axes[:, None, :, None]).sum((1, 3))
    lifted = (torch.linalg.inv(gram)[..., None] * shifted[..., None, :, :]).sum(-2)
    appearance = vertices.new_zeros(*vertices.shape[:-1], 4 * layout.cameras)
    return torch.cat([vertices, lifted, appearance], -1)
