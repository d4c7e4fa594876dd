"""Following the animal from one frame to the next, with what to do when a frame does not fit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from midline3d.cameras import project
from midline3d.fitting.second_order import Evaluation, Fit, Problem, evaluate, fit
from midline3d.fitting.start import search
from midline3d.kernels import select_backend
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState, merged
from midline3d.store import Reason, Status
from midline3d.tracking.begin import Beginning
from midline3d.tracking.clip import Clip
from midline3d.tracking.evidence import Evidence, evidence
from midline3d.tracking.judging import Verdict, judge
from midline3d.tracking.learning import problem_of
from midline3d.tracking.paper import descended, drawn_by_paper

SEARCHED, SEARCHED_EVERY = (0, 1, 3, 6), 10
"""Frames since the animal was lost after which the whole crop is searched, and every so many later: a search costs
as much as some forty frames, and what hid the animal seldom passes at once."""
SLIDES = (-3 / 32, -1 / 32, 1 / 32, 3 / 32)
"""Of the body's length: how far starts around a state are slid along it. An animal swims a fiftieth of its length
between frames; an end that was caught by something may have slid by a tenth."""
STRAIGHTENED = (0.8, 0.5)
"""Of the curvature: starts around a state that are less bent, because too bent a curve seldom comes undone."""
SHARPEST = 1.2
"""Of the body's sigma in perfect focus: about its usual width in the images, for a search."""


@dataclass(frozen=True)
class Tracked:
    """One frame's outcome."""

    frame: int
    """Within the clip."""
    status: Status
    reason: Reason
    fit: Fit | None = None
    projection: Float[Tensor, "camera vertex 2"] | None = None
    """px in the full frames, float64."""
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Candidate:
    """A fit of one frame, and what is thought of it."""

    fit: Fit
    evidence: Evidence
    verdict: Verdict


@dataclass
class Track:
    """What following the animal has come to know: its last states, and for how long it has been lost."""

    states: deque[tuple[int, FrameState]]
    lost: int = 0
    """Located frames in a row that nothing fitted."""
    doubted: bool = False
    """Whether the last located frame was other than ok."""
    seed: int = 0
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)

    @staticmethod
    def of(beginning: Beginning) -> Track:
        return Track(deque([(beginning.frame, beginning.state)], maxlen=2))

    def settle(self, clip: Clip, frame: int, found: Candidate) -> Tracked:
        """A frame's outcome; unless it is lost, the next starts from it."""
        verdict = found.verdict
        self.doubted = verdict.status != "ok"
        if verdict.status == "lost":
            self.lost += 1
            return Tracked(frame, "lost", verdict.reason, evidence=found.evidence)
        self.lost = 0
        self.states.append((frame, found.fit.state))
        return outcome(clip, frame, found)

    def searching(self) -> bool:
        """Whether to search the whole crop: at once, then less and less often, but every tenth frame at least."""
        return self.lost in SEARCHED or self.lost % SEARCHED_EVERY == 0


def follow(beginning: Beginning, frames: list[int], track: Track | None = None) -> Iterator[Tracked]:
    """The frames in the order given, each from the one before; the first from the beginning's state, or the track's.

    Frames that were not located, or that no start fits, come out lost and are stepped over.
    """
    clip = beginning.clip
    track = track or Track.of(beginning)
    for frame in frames:
        if not clip.located(frame):
            yield missing(clip, frame)
            continue
        yield track.settle(clip, frame, _fitted(beginning, frame, track))


def outcome(clip: Clip, frame: int, found: Candidate) -> Tracked:
    """The outcome of a frame that was found."""
    verdict, projection = found.verdict, _projection(clip, frame, found.fit.state)
    kept = replace(found.fit, at=None)
    return Tracked(frame, verdict.status, verdict.reason, kept, projection, found.evidence)


def fitted_from(beginning: Beginning, frame: int, start: FrameState) -> Candidate:
    """A frame fitted from one start, a batch of one in its own local world, and judged by its images alone."""
    clip, weights = beginning.clip, beginning.clip.settings.second_order
    problem = problem_of(clip, [frame], beginning.taper, start, weights)
    found = fit(problem, start, weights.retry_iterations)
    observed = evidence(problem, found.state, clip.contrast, clip.noise, clip.settings.evidence)
    return Candidate(found, observed, judge(observed, 0.0, clip.settings.judging))


def missing(clip: Clip, frame: int) -> Tracked:
    """The outcome of a frame in which the animal was not located."""
    unreadable = clip.prepared.log.unreadable[frame]
    return Tracked(frame, "unreadable", "unreadable") if unreadable else Tracked(frame, "lost", "not located")


def _fitted(beginning: Beginning, frame: int, track: Track) -> Candidate:
    """The best fit from where the animal was, or from where it was going; from further off if neither will do."""
    clip = beginning.clip
    place, _ = track.states[-1]
    starts = merged(_predictions(clip, frame, list(track.states)))
    anchor = starts[[0]]
    adjacent = abs(frame - place) == 1
    problem = problem_of(clip, [frame], beginning.taper, anchor, clip.settings.second_order)

    def judged(found: Fit, drawn: Tensor | None = None) -> Candidate:
        observed = evidence(problem, found.state, clip.contrast, clip.noise, clip.settings.evidence, drawn, found.at)
        travelled = _travelled(found.state, starts) if adjacent else 0.0
        return Candidate(found, observed, judge(observed, travelled, clip.settings.judging))

    if clip.settings.tracking.fitter == "adam":
        found = descended(clip, frame, anchor)
        return judged(found, drawn_by_paper(clip, [frame], found.state))
    best_start = _best(problem, starts)
    found = fit(problem, best_start.state, clip.settings.second_order.iterations, best_start)
    if not clip.settings.tracking.recovery:
        return judged(found)
    if not settled(found, clip):
        found = _lower(found, _softly(beginning, frame, starts))
    best = judged(found)
    if best.verdict.status == "ok":
        return best
    best = _better(best, judged(_again(beginning, frame, anchor, _further(anchor))))
    if best.verdict.status == "lost" and track.searching():
        found = _again(beginning, frame, anchor, _searched(beginning, frame, anchor, track.generator))
        best = _better(best, judged(found))
    return best


def settled(found: Fit, clip: Clip) -> bool:
    """Whether the fit of one frame came to rest before its iterations were used up."""
    return int(found.iterations) < clip.settings.second_order.iterations


def _softly(beginning: Beginning, frame: int, starts: FrameState) -> Fit:
    """Fitted first as if faint light were less exactly known, then as it is.

    At full contrast a tip that has moved by more than its width is beyond the reach of its own light, and the curve
    would rather be bent towards it in the wrong way.
    """
    clip, weights = beginning.clip, beginning.clip.settings.second_order
    softer = clip.settings.tracking.softer
    soft = replace(clip, error=softer * clip.error)
    begin = replace(starts, iota=starts.iota / softer)
    count = [frame] * len(begin)
    rough = fit(
        problem_of(soft, count, beginning.taper, begin[[0] * len(begin)], weights), begin, weights.retry_iterations
    )
    start = replace(rough.state, iota=rough.state.iota * softer)
    fine = problem_of(clip, count, beginning.taper, starts[[0] * len(begin)], weights)
    done = fit(fine, start, weights.retry_iterations)
    return done[[int(torch.nan_to_num(done.energy, nan=torch.inf).argmin())]]


def _lower(one: Fit, other: Fit) -> Fit:
    """The fit with less energy."""
    return other if not float(one.energy) <= float(other.energy) else one


def _better(one: Candidate, other: Candidate) -> Candidate:
    """The one with the better status, else the one with less energy."""
    rank = ("lost", "suspect", "ok")
    first, second = (rank.index(each.verdict.status) for each in (one, other))
    if first != second:
        return one if first > second else other
    return one if float(one.fit.energy) <= float(other.fit.energy) else other


def _again(beginning: Beginning, frame: int, anchor: FrameState, starts: FrameState) -> Fit:
    """The best of fits from many starts."""
    clip, weights = beginning.clip, beginning.clip.settings.second_order
    many = problem_of(clip, [frame] * len(starts), beginning.taper, anchor[[0] * len(starts)], weights)
    tried = fit(many, starts, weights.retry_iterations)
    return tried[[int(torch.nan_to_num(tried.energy, nan=torch.inf).argmin())]]


def _further(state: FrameState) -> FrameState:
    """Starts around a state: moved along the body both ways, less bent, and brought to the middle of the crop."""
    slides = [max(1, round(abs(share) * state.vertices)) * (1 if share > 0 else -1) for share in SLIDES]
    moves = [torch.tensor([by], device=state.points.device) for by in slides]
    straighter = [replace(state, curvature=state.curvature * share).rebuilt(state.middle()) for share in STRAIGHTENED]
    # The crop lies around where the animal was located, wherever it was before.
    centred = state.translated(-state.points.mean(1))
    return merged([*(state.shifted(by) for by in moves), *straighter, centred, centred.reversed()])


def _searched(beginning: Beginning, frame: int, anchor: FrameState, generator: torch.Generator) -> FrameState:
    """The best of random starts in the whole crop, as the known body, either way round."""
    clip, body = beginning.clip, beginning.body
    settings = clip.settings
    guesses = search(
        clip.plain_views([frame]),
        float(body.length),
        SHARPEST * float(body.sharp),
        settings,
        clip.plain_bounds(),
        generator,
    )
    best = guesses.best(settings.start.polish)
    best = replace(
        best,
        length=anchor.length.expand(len(best)).clone(),
        **{name: getattr(anchor, name).expand(len(best), -1).clone() for name in ("sigma", "iota", "rho", "defocus")},
    ).rebuilt(best.middle())
    return merged([best, best.reversed()])


def _predictions(clip: Clip, frame: int, states: list[tuple[int, FrameState]]) -> list[FrameState]:
    """The last state as it was, and carried on by its last motion; after a gap, also in the middle of the crop."""
    place, last = states[-1]
    here = clip.carried(last, place, frame)
    if abs(frame - place) != 1:
        return [here, here.translated(-here.points.mean(1))]
    if len(states) < 2 or abs(place - states[-2][0]) != 1:
        return [here]
    before = clip.carried(states[-2][1], states[-2][0], frame)
    onward = replace(
        here,
        points=2 * here.points - before.points,
        bishop=2 * here.bishop - before.bishop,
        curvature=2 * here.curvature - before.curvature,
    )
    kernels = select_backend(clip.device.type, onward.points.dtype)
    return [here, kernels.clamped(onward, clip.bounds())]


def _travelled(state: FrameState, starts: FrameState) -> float:
    """Mean way of the vertices from the nearest of the starts, in body lengths."""
    distances = (state.points - starts.points).norm(dim=-1).mean(1) / state.length
    return float(distances.amin())


def _best(problem: Problem, starts: FrameState) -> Evaluation:
    """The start with the least energy, held against the images."""
    tried = [evaluate(problem, starts[[index]]) for index in range(len(starts))]
    energies = np.array([float(each.energy) for each in tried])
    return tried[int(np.nan_to_num(energies, nan=np.inf).argmin())]


def _projection(clip: Clip, frame: int, state: FrameState) -> Float[Tensor, "camera vertex 2"]:
    points = clip.world(state, [frame])
    return project(clip.cameras, points, state.shift.double().cpu())[0]
