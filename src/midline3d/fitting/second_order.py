"""Levenberg-Marquardt on the pixel residuals and priors: a handful of iterations a frame."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

import torch

from midline3d.appearance import BlobAppearance, Profile
from midline3d.cameras import scale
from midline3d.fitting.damping import Damping
from midline3d.fitting.pins import Pins, pin_energy, with_pins
from midline3d.fitting.views import Views, room_around
from midline3d.kernels import Backend, Basis, Layout, Prior, StepLimits, System, select_backend
from midline3d.rendering import Blobs, Objective, Products, products, render
from midline3d.settings import SecondOrderSettings
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import Bounds, FrameState, merged, where

MOST_LOG_LENGTH, MOST_LOG_APPEARANCE = 0.1, 0.3
"""What one step may change at most in the logarithms of the length and of the views' sigma, iota and rho."""


DAMPING = Damping()
MOST_ACTIVE = 0.95
"""Share of a batch's frames that are not at rest yet, from which on the others are put aside: taking the rows of a
batch apart costs a thirtieth of drawing them."""
OUTSIDE = 2.0
"""Sigmas beyond a picture's border from which on a blob is not seen at all."""
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
    """The frame before, which the temporal terms hold the state to."""
    pins: Pins | None = None
    """Places that the midline has to run through."""
    backend: Backend | None = None
    """Who does the sums; none: the fastest."""

    def taken(self, rows: Int[Tensor, " row"]) -> Problem:
        """Some of the frames."""
        return replace(
            self,
            views=self.views.taken(rows),
            taper=self.taper.taken(rows),
            anchor=self.anchor[rows],
            pins=None if self.pins is None else self.pins.taken(rows),
        )

    @cached_property
    def kernels(self) -> Backend:
        """The backend of this problem: the one it was given, else the fastest for its images' device and dtype."""
        images = self.views.images
        return self.backend or select_backend(images.device.type, images.dtype)

    @cached_property
    def layout(self) -> Layout:
        """Where each unknown of a frame stands."""
        basis = self.views.cameras.shift_basis
        return Layout(self.basis.matrix.shape[1], basis.shape[2], basis.shape[0])

    @cached_property
    def prior(self) -> Prior:
        """What holds the frames beside their pixels."""
        stiffness = _stiffness(self.basis, self.weights.smoothness, self.weights.size)
        keeping = _keeping(self.basis, self.weights, self.layout)
        return Prior(self.anchor, stiffness, keeping, self.layout, self.weights.pixels)

    @cached_property
    def limits(self) -> StepLimits:
        """What one step may change at most."""
        return StepLimits(MOST_LOG_LENGTH, MOST_LOG_APPEARANCE, self.bounds)

    @cached_property
    def prior_hessian(self) -> Float[Tensor, "unknown unknown"]:
        """H of the curvature's and the temporal terms: both are quadratic, so that it never changes."""
        free = self.basis.matrix.new_zeros(2 * (self.layout.bend.start,))
        block = self.basis.matrix.mT @ self.prior.stiffness[:, len(self.basis.matrix) :]
        return torch.block_diag(free, block, block, torch.diag(self.prior.keeping))


@dataclass(frozen=True)
class Evaluation:
    """A state held against the images."""

    state: FrameState
    appearance: BlobAppearance
    products: Products
    energy: Float[Tensor, " batch"]
    terms: dict[str, Float[Tensor, " batch"]]
    prior_gradient: Float[Tensor, "batch unknown"]
    """g of the curvature's and the temporal terms."""

    def taken(self, rows: Int[Tensor, " row"]) -> Evaluation:
        """Of some of the frames."""

        def record(one: BlobAppearance | Products) -> dict[str, Tensor]:
            return {name: value[rows] for name, value in vars(one).items()}

        return Evaluation(
            state=self.state[rows],
            appearance=BlobAppearance(**record(self.appearance)),
            products=Products(**record(self.products)),
            energy=self.energy[rows],
            terms={name: value[rows] for name, value in self.terms.items()},
            prior_gradient=self.prior_gradient[rows],
        )


@dataclass(frozen=True)
class Fit:
    """A batch of frames after their last iteration: states, energies and their terms, and iterations taken."""

    state: FrameState
    energy: Float[Tensor, " batch"]
    terms: dict[str, Float[Tensor, " batch"]]
    iterations: Int[Tensor, " batch"]
    at: Evaluation | None = None
    """The states held against the images, for as long as the whole batch is meant and came to rest at once: it is
    large."""

    @staticmethod
    def joined(parts: list[Fit], rows: Int[Tensor, " batch"]) -> Fit:
        """One batch out of several, whose frames belong into these rows."""
        back = rows.argsort().tolist()
        terms = {name: torch.cat([part.terms[name] for part in parts]) for name in parts[0].terms}
        energy, iterations = (torch.cat([getattr(part, name) for part in parts]) for name in ("energy", "iterations"))
        return Fit(merged([part.state for part in parts]), energy, terms, iterations)[back]

    def __getitem__(self, index: list[int]) -> Fit:
        terms = {name: value[index] for name, value in self.terms.items()}
        return Fit(self.state[index], self.energy[index], terms, self.iterations[index])


def evaluate(problem: Problem, state: FrameState) -> Evaluation:
    """Draws the states, and sums what the images and the priors say of them."""
    appearance, blobs = _drawn(problem, state)
    pixels = _pixels(problem, blobs)
    sums = problem.kernels.energy(problem.prior, state, pixels.loss)
    energy, named = sums.total, dict(zip(TERMS, sums.terms.unbind(), strict=True))
    if problem.pins is not None:
        named["pins"] = pin_energy(problem.pins, problem.views.cameras, state)
        energy = energy + named["pins"]
    return Evaluation(state, appearance, pixels, energy, named, sums.prior_gradient)


def _pixels(problem: Problem, blobs: Blobs) -> Products:
    """What the images say of blobs; beyond the cameras' pictures, where there are none, that they are right."""
    views = problem.views
    found = products(blobs, views.images, problem.objective, views.picture)
    if views.picture is None:
        return found
    seen = room_around(blobs.centre, views.picture) >= -OUTSIDE * blobs.sigma
    return replace(found, gram=found.gram * seen[..., None, None])


def _drawn(problem: Problem, state: FrameState) -> tuple[BlobAppearance, Blobs]:
    """The states' appearance in the problem's views, and the blobs that they are drawn by."""
    kernels, cameras = problem.kernels, problem.views.cameras
    optics = kernels.optics(cameras, state.points, state.bishop[..., 0])
    appearance = kernels.appearance(problem.taper, state.view_appearance, optics)
    return appearance, appearance.blobs(kernels.project(cameras, state.points, state.shift), state.rho)


def normal_equations(problem: Problem, at: Evaluation) -> System:
    """H and g of the whole energy: pixels, curvature, temporal terms and pins."""
    cameras, weight, sums = problem.views.cameras, problem.weights.pixels, at.products
    if problem.pins is not None:
        sums = with_pins(sums, problem.pins, cameras, at.state, weight)
    system = problem.kernels.pixel_system(sums, at.state, at.appearance, cameras, problem.basis, problem.layout)
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
    _, blobs = _drawn(problem, state)
    return render(blobs, problem.views.images, problem.objective.cutoff).image


def fit(problem: Problem, state: FrameState, iterations: int, at: Evaluation | None = None) -> Fit:
    """The batch to convergence: each frame stops by itself once a step moves its vertices by hardly a pixel's share.

    `at`: the states held against the images, where that is known already.
    """
    at = evaluate(problem, state) if at is None else at
    per_mm = scale(problem.views.cameras, state.points).mean(1)
    damping = torch.full_like(per_mm, DAMPING.first)
    active = torch.ones_like(per_mm, dtype=torch.bool)
    taken = torch.zeros_like(per_mm, dtype=torch.long)
    rows, settled = torch.arange(len(state)), list[tuple[Tensor, Fit]]()
    for _ in range(iterations):
        if active.is_cpu and int(active.sum()) <= MOST_ACTIVE * len(active):
            # Frames at rest would be drawn as often as the slowest one needs.
            still, on = (each.nonzero().squeeze(1) for each in (~active, active))
            settled.append((rows[still], Fit(at.state, at.energy, at.terms, taken)[still.tolist()]))
            problem, at, rows = problem.taken(on), at.taken(on), rows[on]
            per_mm, damping, taken, active = per_mm[on], damping[on], taken[on], active[on]
        step = problem.kernels.solve(normal_equations(problem, at), damping)
        trial = evaluate(problem, take_step(problem, at.state, step))
        better = active & DAMPING.better(at.energy, trial.energy)
        way = (trial.state.points - at.state.points).square().sum(-1).mean(1).sqrt() * per_mm
        taken += active
        # A step that would hardly move anything ends the fit, whether it was an improvement or not. One that could not
        # be solved for (NaN) does not: more damping will.
        active = active & ~(way <= problem.weights.settled)
        damping = DAMPING.next(damping, better)
        at = chosen(better, trial, at)
        if not active.any():
            break
    last = Fit(at.state, at.energy, at.terms, taken, at)
    if not settled:
        return last
    return Fit.joined([*(part for _, part in settled), last], torch.cat([*(place for place, _ in settled), rows]))


def take_step(problem: Problem, state: FrameState, step: Float[Tensor, "batch unknown"]) -> FrameState:
    """The state after a step of the unknowns."""
    return problem.kernels.take_step(state, step, problem.basis, problem.layout, problem.limits)


def chosen(choice: Bool[Tensor, " batch"], first: Evaluation, second: Evaluation) -> Evaluation:
    """Frame by frame the first where `choice` holds, else the second."""
    if choice.is_cpu and bool(choice.all()):
        return first
    if choice.is_cpu and not choice.any():
        return second

    def pick(one: Tensor, other: Tensor) -> Tensor:
        return torch.where(choice.view(-1, *[1] * (one.ndim - 1)), one, other)

    def record(one: BlobAppearance | Products, other: BlobAppearance | Products) -> dict[str, Tensor]:
        return {item.name: pick(getattr(one, item.name), getattr(other, item.name)) for item in fields(one)}

    return Evaluation(
        state=where(choice, first.state, second.state),
        appearance=BlobAppearance(**record(first.appearance, second.appearance)),
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
        (2 * views, weights.keep_appearance),
        (views, weights.small_defocus),
        (views, weights.keep_appearance),
    ]
    return torch.cat([basis.matrix.new_full((count,), weight) for count, weight in each])
