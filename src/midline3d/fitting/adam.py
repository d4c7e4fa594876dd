"""The paper's optimiser: steps of Adam, centre-shifts, plateau decay, convergence."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from midline3d import scoring
from midline3d.fitting.objective import PARAMETERS, Descent, Slope, assembled, row, slope, widths
from midline3d.kernels import select_backend
from midline3d.losses import Losses
from midline3d.settings import AdamSettings
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState, where

MEANS = (0.9, 0.99)
"""Shares that Adam's running means of the gradient and of its square keep at a step. That of the square goes over 100
steps where 1000 are usual: a frame takes no more."""


@dataclass(frozen=True)
class AdamFit:
    """A batch of frames after descent: the best state that each has passed through."""

    state: FrameState
    losses: Losses
    shares: Float[Tensor, "batch vertex"]
    steps: Int[Tensor, " batch"]
    history: Float[Tensor, "step batch"]
    """Total loss at every step."""


def descend(
    descent: Descent, state: FrameState, generator: torch.Generator, length_floor: Tensor | None = None
) -> AdamFit:
    """Adam until every frame of the batch has converged or the steps are used up.

    `length_floor` (step,) in mm, where given, is the length warm-up: no curve may be shorter at that step.
    """
    settings = descent.settings
    kernels = select_backend(state.points.device.type, state.points.dtype)
    adam = _Adam(settings, state)
    best: _Passed | None = None
    history: list[Tensor] = []
    pace = _Pace(settings, len(state), state.points.device)
    for step in range(settings.steps):
        start = _draw_start(state, settings.spread, generator)
        values = row(state, start)
        there = slope(descent, values, state, start)
        here = _Passed(there, there.terms.total())
        history.append(here.total)
        shortest = None if length_floor is None or step >= len(length_floor) else float(length_floor[step])
        warm = shortest is not None
        better = torch.ones_like(pace.running) if best is None or warm else here.total < best.total
        best = here if best is None else here.where(better, best)
        running = pace.update(history, better, warm)
        if not warm and not bool(running.any()):
            break
        state = assembled(adam.step(values, there.gradient, pace.factor), state, start)
        state = kernels.clamped(state, _no_shorter(descent.bounds, shortest))
        if settings.shift_every and step % settings.shift_every == settings.shift_every - 1:
            by = scoring.centre_shift(there.shares, settings.shift_sensitivity, settings.shift_largest)
            state = state.shifted(by) if bool(by.any()) else state
    assert best is not None
    return AdamFit(best.at.state, best.at.terms, best.at.shares, pace.steps, torch.stack(history))


@dataclass(frozen=True)
class _Passed:
    """A place that the descent has passed through, and what it was worth."""

    at: Slope
    total: Float[Tensor, " batch"]

    def where(self, better: Tensor, other: _Passed) -> _Passed:
        """Frame by frame this one where it is better, else the other."""
        if bool(better.all()):
            return self
        if not bool(better.any()):
            return other
        names = [item.name for item in fields(Losses)]
        one, two = self.at.terms, other.at.terms
        at = Slope(
            state=where(better, self.at.state, other.at.state),
            terms=Losses(**{name: torch.where(better, getattr(one, name), getattr(two, name)) for name in names}),
            shares=torch.where(better[:, None], self.at.shares, other.at.shares),
            gradient=torch.where(better[:, None], self.at.gradient, other.at.gradient),
        )
        return _Passed(at, torch.where(better, self.total, other.total))


class _Adam:
    """Adam's two running means of the gradient."""

    def __init__(self, settings: AdamSettings, state: FrameState) -> None:
        each = state.length.new_tensor([getattr(settings, name) for name in PARAMETERS])
        self.rates = each.repeat_interleave(torch.tensor(widths(state), device=each.device))
        self.first = self.rates.new_zeros(len(state), len(self.rates))
        self.second = torch.zeros_like(self.first)
        self.steps = 0

    def step(self, values: Tensor, gradient: Tensor, factor: float) -> Float[Tensor, "batch parameter"]:
        """The parameters after a step of `factor` times their rates."""
        self.steps += 1
        self.first.lerp_(gradient, 1 - MEANS[0])
        self.second.mul_(MEANS[1]).addcmul_(gradient, gradient, value=1 - MEANS[1])
        size = self.second.sqrt().div_((1 - MEANS[1] ** self.steps) ** 0.5).add_(1e-8)
        return values.addcmul(self.first / size, self.rates, value=-factor / (1 - MEANS[0] ** self.steps))


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
            before, recent = torch.stack(history[-2 * window :]).unflatten(0, (2, window)).mean(1)
            self.running = self.running & (before - recent > self.settings.settled * recent)
        return self.running


def _draw_start(state: FrameState, spread: float, generator: torch.Generator) -> Tensor:
    """n_0: a vertex about the middle, drawn anew for each step so that no kink grows at one place."""
    count = state.vertices
    noise = torch.randn(len(state), generator=generator).to(state.points.device)
    return (count / 2 + noise * (spread * count)).round().long().clamp(0, count - 1)


def _no_shorter(bounds: Bounds, shortest: float | None) -> Bounds:
    low, high = bounds.length
    return bounds if shortest is None else replace(bounds, length=(max(low, shortest), high))
