"""The paper's optimiser: project, render, score, and a step of Adam; centre-shifts, plateau decay, convergence."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from midline3d import losses, scoring
from midline3d.appearance import Taper, optics
from midline3d.cameras import project
from midline3d.fitting.views import Views
from midline3d.losses import Losses
from midline3d.rendering import Blobs, render
from midline3d.settings import AdamSettings, LossWeights
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState, where


@dataclass(frozen=True)
class AdamFit:
    """A batch of frames after descent: the best state that each has passed through."""

    state: FrameState
    losses: Losses
    shares: Float[Tensor, "batch vertex"]
    steps: Int[Tensor, " batch"]
    history: Float[Tensor, "step batch"]
    """Total loss at every step."""


@dataclass(frozen=True)
class Descent:
    """What stays fixed while a batch descends."""

    views: Views
    taper: Taper
    weights: LossWeights
    bounds: Bounds
    settings: AdamSettings
    cutoff: float
    """Share of its peak under which a blob is cut."""
    previous: FrameState | None = None
    """The frame before, for the temporal loss; none for a first frame."""


def measure(descent: Descent, state: FrameState) -> tuple[Losses, Float[Tensor, "batch vertex"]]:
    """All weighted loss terms and the relative scores of a state; differentiable."""
    views = descent.views
    # Detached: light's way through the body should darken the image, not turn the curve.
    seen = optics(views.cameras, state.points.detach(), state.frames[..., 0].detach())
    look = descent.taper.look(state.view_look, seen)
    blobs = look.blobs(project(views.cameras, state.points, state.shift), state.rho)
    rendering = render(blobs, views.images, descent.cutoff)
    curved, shares = losses.curve_terms(rendering.overlap, blobs, state, views.cameras, descent.bounds.circles)
    target = _target(descent, shares, blobs)
    zero = torch.zeros_like(state.length)
    terms = Losses(
        pixels=losses.pixel_loss(rendering.image, target),
        temporal=zero if descent.previous is None else losses.temporal_loss(state, descent.previous),
        **curved,
    )
    return terms.weighted(descent.weights), shares


def _target(descent: Descent, shares: Tensor, blobs: Blobs) -> Tensor:
    settings, images = descent.settings, descent.views.images
    if settings.theta == 0:
        return images
    with torch.no_grad():
        mask = render(scoring.mask_blobs(blobs, shares), images, descent.cutoff).image
    return scoring.masked(images, mask, settings.theta, settings.outside)


def descend(
    descent: Descent, state: FrameState, generator: torch.Generator, length_floor: Tensor | None = None
) -> AdamFit:
    """Adam until every frame of the batch has converged or the steps are used up.

    `length_floor` (step,) in mm, where given, is the length warm-up: no curve may be shorter at that step.
    """
    settings = descent.settings
    leaves = _leaves(state)
    rates = {name: getattr(settings, name) for name in leaves}
    groups = [{"params": [leaf], "lr": rates[name], "rate": rates[name]} for name, leaf in leaves.items()]
    optimiser = torch.optim.Adam(groups, betas=(0.9, 0.99))
    best: _Passed | None = None
    history: list[Tensor] = []
    pace = _Pace(settings, len(state), state.points.device)
    for step in range(settings.steps):
        start = _draw_start(state, settings.spread, generator)
        _load(leaves, state, start)
        made = _assembled(leaves, state, start)
        terms, shares = measure(descent, made)
        total = terms.total()
        optimiser.zero_grad()
        total.sum().backward()
        history.append(total.detach())
        shortest = length_floor[step] if length_floor is not None and step < len(length_floor) else None
        here = _Passed(_detached(made), _let_go(terms), shares, total.detach())
        better = torch.ones_like(pace.running) if best is None or shortest is not None else here.total < best.total
        best = here if best is None else here.where(better, best)
        running = pace.update(history, better, shortest is not None)
        if shortest is None and not bool(running.any()):
            break
        for group in optimiser.param_groups:
            group["lr"] = group["rate"] * pace.factor
        optimiser.step()
        state = _stepped(descent, leaves, state, start, shortest)
        if settings.shift_every and step % settings.shift_every == settings.shift_every - 1:
            by = scoring.centre_shift(shares, settings.shift_sensitivity, settings.shift_largest)
            state = state.shifted(by) if bool(by.any()) else state
    assert best is not None
    return AdamFit(best.state, best.terms, best.shares, pace.steps, torch.stack(history))


@dataclass(frozen=True)
class _Passed:
    """A state that the descent has passed through, and what it was worth."""

    state: FrameState
    terms: Losses
    shares: Float[Tensor, "batch vertex"]
    total: Float[Tensor, " batch"]

    def where(self, better: Tensor, other: _Passed) -> _Passed:
        """Frame by frame this one where it is better, else the other."""
        names = [item.name for item in fields(Losses)]
        mixed = {name: torch.where(better, getattr(self.terms, name), getattr(other.terms, name)) for name in names}
        return _Passed(
            state=where(better, self.state, other.state),
            terms=Losses(**mixed),
            shares=torch.where(better[:, None], self.shares, other.shares),
            total=torch.where(better, self.total, other.total),
        )


def _let_go(terms: Losses) -> Losses:
    return Losses(**{item.name: getattr(terms, item.name).detach() for item in fields(Losses)})


class _Pace:
    """Plateau decay of the rates for the batch, convergence for each frame."""

    def __init__(self, settings: AdamSettings, batch: int, device: torch.device) -> None:
        self.settings = settings
        self.factor = 1.0
        self.idle = 0
        self.running = torch.ones(batch, dtype=torch.bool, device=device)
        self.steps = torch.zeros(batch, dtype=torch.long, device=device)

    def update(self, history: list[Tensor], better: Tensor, warm: bool) -> Tensor:
        """Which frames still run. A frame is done once the mean of its last `window` losses has hardly fallen."""
        self.steps += self.running
        if warm:
            return self.running
        self.idle = 0 if bool((better & self.running).any()) else self.idle + 1
        if self.idle >= self.settings.patience:
            self.factor = max(self.factor * self.settings.decay, self.settings.smallest)
            self.idle = 0
        window = self.settings.window
        if len(history) >= 2 * window:
            recent = torch.stack(history[-window:]).mean(0)
            before = torch.stack(history[-2 * window : -window]).mean(0)
            self.running = self.running & (before - recent > self.settings.settled * recent)
        return self.running


def _leaves(state: FrameState) -> dict[str, Tensor]:
    """The parameters that Adam moves: position and frame are those of the step's start vertex."""
    middle = state.vertices // 2
    values = {"position": state.points[:, middle], "frame": state.frames[:, middle]}
    values |= {name: getattr(state, name) for name in ("curvature", "length", "shift", "sigma", "iota", "rho")}
    return {name: value.detach().clone().requires_grad_() for name, value in values.items()}


def _draw_start(state: FrameState, spread: float, generator: torch.Generator) -> Tensor:
    """n_0: a vertex about the middle, drawn anew for each step so that no kink grows at one place."""
    count = state.vertices
    noise = torch.randn(len(state), generator=generator).to(state.points.device)
    return (count / 2 + noise * (spread * count)).round().long().clamp(0, count - 1)


def _load(leaves: dict[str, Tensor], state: FrameState, start: Tensor) -> None:
    rows = torch.arange(len(state), device=start.device)
    with torch.no_grad():
        leaves["position"].copy_(state.points[rows, start])
        leaves["frame"].copy_(state.frames[rows, start])
        for name in ("curvature", "length", "shift", "sigma", "iota", "rho"):
            leaves[name].copy_(getattr(state, name))


def _assembled(leaves: dict[str, Tensor], state: FrameState, start: Tensor) -> FrameState:
    """The state as a differentiable function of the leaves (eq. 1)."""
    rows = torch.arange(len(state), device=start.device)
    points = state.points.index_put((rows, start), leaves["position"])
    frames = state.frames.index_put((rows, start), leaves["frame"])
    rest = {name: leaves[name] for name in ("curvature", "length", "shift", "sigma", "iota", "rho")}
    return replace(state, points=points, frames=frames, **rest).rebuilt(start)


def _stepped(
    descent: Descent, leaves: dict[str, Tensor], state: FrameState, start: Tensor, shortest: Tensor | None
) -> FrameState:
    """The leaves after Adam's step as a state again: bounded, and the full curve recomputed from n_0."""
    with torch.no_grad():
        made = _assembled(leaves, state, start).clamped(descent.bounds)
        if shortest is not None:
            made = replace(made, length=made.length.clamp(min=float(shortest))).rebuilt(made.middle())
        return made


def _detached(state: FrameState) -> FrameState:
    return FrameState(**{item.name: getattr(state, item.name).detach() for item in fields(FrameState)})
