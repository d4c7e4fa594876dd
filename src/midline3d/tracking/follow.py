"""Following the animal from one frame to the next, with what to do when a frame does not fit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from midline3d.appearance import PaperTaper
from midline3d.cameras import project
from midline3d.fitting.adam import Descent, descend
from midline3d.fitting.second_order import Fit, Problem, evaluate, fit, rendered
from midline3d.losses import Losses
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState, merged
from midline3d.store import Status
from midline3d.tracking.begin import Beginning
from midline3d.tracking.learning import problem_of
from midline3d.tracking.clip import Clip


@dataclass(frozen=True)
class Tracked:
    """One frame's outcome."""

    frame: int
    """Within the clip."""
    status: Status
    fit: Fit | None
    projection: Float[Tensor, "camera vertex 2"] | None
    """px in the full frames, float64."""


@dataclass(frozen=True)
class Track:
    """What following the animal has come to know: its last states, and how well frames usually fit."""

    states: deque[tuple[int, FrameState]]
    usual: deque[float]

    @staticmethod
    def of(beginning: Beginning) -> Track:
        return Track(deque([(beginning.frame, beginning.state)], maxlen=2), deque(maxlen=50))

    @property
    def level(self) -> float:
        """The usual misfit, infinite before there are enough."""
        return float(np.median(self.usual)) if len(self.usual) >= 5 else np.inf

    def judged(self, clip: Clip, frame: int, found: Fit, misfit: float) -> Tracked:
        """A frame's outcome; unless it is lost, the next starts from it."""
        settings, level = clip.settings.tracking, self.level
        if misfit > settings.lost * level:
            return Tracked(frame, "lost", None, None)
        self.usual.append(misfit)
        self.states.append((frame, found.state))
        status: Status = "suspect" if misfit > settings.suspect * level else "ok"
        return Tracked(frame, status, found, _projection(clip, frame, found.state))


def follow(beginning: Beginning, frames: list[int], track: Track | None = None) -> Iterator[Tracked]:
    """The frames in the order given, each from the one before; the first from the beginning's state, or the track's.

    Frames that were not located, or that no start fits, come out lost and are stepped over.
    """
    clip = beginning.clip
    track = track or Track.of(beginning)
    located = set(clip.found)
    for frame in frames:
        if frame not in located:
            missing: Status = "unreadable" if clip.prepared.log.status[frame] == 3 else "lost"
            yield Tracked(frame, missing, None, None)
            continue
        yield track.judged(clip, frame, *_fitted(beginning, frame, track))


def _fitted(beginning: Beginning, frame: int, track: Track) -> tuple[Fit, float]:
    """The best fit from where the animal was, or from where it was going; from further off if neither will do."""
    clip = beginning.clip
    weights = clip.settings.second_order
    starts = merged(_predictions(clip, frame, list(track.states)))
    anchor = starts[[0]]
    problem = problem_of(clip, [frame], beginning.taper, anchor, weights)
    if clip.settings.tracking.fitter == "adam":
        found = _descended(clip, frame, anchor)
        return found, float(misfit(problem, found.state))
    best = _best(problem, starts)
    found = fit(problem, best, weights.iterations)
    missed = float(misfit(problem, found.state))
    if missed <= clip.settings.tracking.suspect * track.level:
        return found, missed
    others = _further(starts[[0]])
    many = problem_of(clip, [frame] * len(others), beginning.taper, _repeated(anchor, len(others)), weights)
    tried = fit(many, others, 2 * weights.iterations)
    winner = tried.state[[int(tried.energy.argmin())]]
    again = fit(problem, winner, weights.iterations)
    other = float(misfit(problem, again.state))
    return (again, other) if other < missed else (found, missed)


def _descended(clip: Clip, frame: int, start: FrameState) -> Fit:
    """The paper's way: Adam from the frame before, with its taper, masks and centre-shifts, on plain brightness."""
    settings, contrast = clip.settings, clip.contrast
    start = replace(start, iota=start.iota / contrast, defocus=torch.zeros_like(start.defocus))
    descent = Descent(
        views=clip.plain_views([frame]),
        taper=PaperTaper(settings.curve.vertices, settings.adam.sigma_min, settings.adam.iota_min),
        weights=settings.losses,
        bounds=clip.plain_bounds(),
        settings=settings.adam,
        cutoff=settings.pixels.cutoff,
        previous=start,
    )
    done = descend(descent, start, torch.Generator().manual_seed(frame))
    state = replace(done.state, iota=done.state.iota * contrast)
    terms = {item.name: getattr(done.losses, item.name) for item in fields(Losses)}
    return Fit(state, done.losses.total(), terms, done.shares, done.steps)


def _predictions(clip: Clip, frame: int, states: list[tuple[int, FrameState]]) -> list[FrameState]:
    """The last state as it was, and carried on by its last motion."""
    place, last = states[-1]
    here = clip.carried(last, place, frame)
    if len(states) < 2 or abs(place - states[-2][0]) != 1 or abs(frame - place) != 1:
        return [here]
    before = clip.carried(states[-2][1], states[-2][0], frame)
    onward = replace(
        here,
        points=2 * here.points - before.points,
        frames=2 * here.frames - before.frames,
        curvature=2 * here.curvature - before.curvature,
    )
    return [here, onward.clamped(clip.bounds())]


def _best(problem: Problem, starts: FrameState) -> FrameState:
    """The start with the least energy."""
    energies = [float(evaluate(problem, starts[[index]]).energy) for index in range(len(starts))]
    return starts[[int(np.argmin(energies))]]


def _further(state: FrameState) -> FrameState:
    """Starts around a state: moved along the body both ways, and less bent."""
    few = max(1, state.vertices // 32)
    moves = [torch.tensor([by], device=state.points.device) for by in (-3 * few, -few, few, 3 * few)]
    straighter = [replace(state, curvature=state.curvature * share).rebuilt(state.middle()) for share in (0.8, 1.0)]
    return merged([*(state.shifted(by) for by in moves), *straighter])


def _repeated(state: FrameState, count: int) -> FrameState:
    return state[[0] * count]


def misfit(problem: Problem, state: FrameState) -> Float[Tensor, " batch"]:
    """Mean squared residual over the pixels that the animal covers or should cover."""
    images, image = problem.views.images, rendered(problem, state)
    covered = image > 0.05 * image.amax((1, 2, 3), keepdim=True)
    squared = torch.where(covered, (image.log1p() - images.log1p()).square(), 0.0)
    return squared.sum((1, 2, 3)) / covered.sum((1, 2, 3))


def _projection(clip: Clip, frame: int, state: FrameState) -> Float[Tensor, "camera vertex 2"]:
    points = clip.world(state, [frame])
    return project(clip.cameras, points, state.shift.double().cpu())[0]
