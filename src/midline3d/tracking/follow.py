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
from midline3d.settings import Settings
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState, merged
from midline3d.store import Reason, Status
from midline3d.tracking.begin import Beginning
from midline3d.tracking.clip import Clip
from midline3d.tracking.evidence import Evidence, evidence
from midline3d.tracking.judging import Verdict, judge, rank
from midline3d.tracking.learning import problem_of
from midline3d.tracking.paper import descended, drawn_by_paper

SEARCHED, SEARCHED_EVERY = (0, 1, 3, 6), 10
"""Frames since the animal was lost after which the whole crop is searched, and every so many later: a search costs
as much as some forty frames, and what hid the animal seldom passes at once. In the same frames of those in a row that
are uncertain other starts are tried: mostly it is the recording that leaves them so."""
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
    """A batch of one; None where the animal was not found."""
    projection: Float[Tensor, "camera vertex 2"] | None = None
    """px in the full frames, float64; None where there is no fit."""
    evidence: Evidence | None = None
    """A batch of one; None where nothing was fitted."""


@dataclass(frozen=True)
class Candidate:
    """A fit of one frame, what its images say to it, and what it is called by that."""

    fit: Fit
    evidence: Evidence
    verdict: Verdict


@dataclass
class Track:
    """What following the animal has come to know: its last states, and for how long it has been lost."""

    states: deque[tuple[int, FrameState]]
    """The last two frames in which it was found (within the clip) and their states there, batches of one."""
    lost: int = 0
    """Located frames in a row that nothing fitted."""
    doubted: bool = False
    """Whether the last located frame was other than ok."""
    uncertain: int = 0
    """Located frames in a row that were no more than uncertain."""
    seed: int = 0
    """Of the searches' random numbers."""
    generator: torch.Generator = field(init=False)
    """Gives them, from the seed on."""

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)

    @staticmethod
    def of(beginning: Beginning) -> Track:
        """The track at the frame that a recording begins with."""
        return Track(deque([(beginning.frame, beginning.state)], maxlen=2))

    def settle(self, clip: Clip, frame: int, found: Candidate) -> Tracked:
        """A frame's outcome; unless it is lost, the next starts from it."""
        verdict = found.verdict
        self.doubted = verdict.status != "ok"
        self.uncertain = self.uncertain + 1 if verdict.reason == "uncertain" else 0
        if verdict.status == "lost":
            self.lost += 1
            return Tracked(frame, "lost", verdict.reason, evidence=found.evidence)
        self.lost = 0
        self.states.append((frame, found.fit.state))
        return outcome(clip, frame, found)

    def searching(self) -> bool:
        """Whether to search the whole crop: at once, then less and less often, but every tenth frame at least."""
        return _due(self.lost)

    def doubting(self) -> bool:
        """Whether to try other starts for a frame that is no more than uncertain, as seldom."""
        return _due(self.uncertain)


def _due(since: int) -> bool:
    """Whether what costs much is done after so many frames in a row."""
    return since in SEARCHED or since % SEARCHED_EVERY == 0


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
    (found,) = each_fitted_from(beginning, [frame], start)
    return found


def each_fitted_from(beginning: Beginning, frames: list[int], starts: FrameState) -> list[Candidate]:
    """The frames, each fitted from a start of its own as by `fitted_from`, in one batch."""
    clip, weights = beginning.clip, beginning.clip.settings.second_order
    problem = problem_of(clip, frames, beginning.taper, starts, weights)
    found = fit(problem, starts, weights.retry_iterations)
    observed = evidence(problem, found.state, clip.contrast, clip.noise, clip.settings.evidence)
    rows = [(found[[row]], observed[[row]]) for row in range(len(frames))]
    return [Candidate(one, seen, judge(seen, 0.0, clip.settings.judging)) for one, seen in rows]


def missing(clip: Clip, frame: int) -> Tracked:
    """The outcome of a frame in which the animal was not located."""
    unreadable = clip.prepared.log.is_unreadable(frame)
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
    best_start = _best_start(problem, starts)
    found = fit(problem, best_start.state, clip.settings.second_order.iterations, best_start)
    if not clip.settings.tracking.recovery:
        return judged(found)
    if not settled(found, clip):
        found = _less_energy(found, _fitted_softly(beginning, frame, starts))
    best = judged(found)
    if best.verdict.status == "ok" or (best.verdict.reason == "uncertain" and not track.doubting()):
        return best
    best = _better(best, judged(_fitted_from_many(beginning, frame, anchor, _starts_around(anchor))))
    if best.verdict.status == "lost" and track.searching():
        starts_anywhere = searched_starts(beginning, [frame], anchor, clip.settings, track.generator)
        best = _better(best, judged(_fitted_from_many(beginning, frame, anchor, starts_anywhere)))
    return best


def settled(found: Fit, clip: Clip) -> bool:
    """Whether the fit of one frame came to rest before its iterations were used up."""
    return int(found.iterations) < clip.settings.second_order.iterations


def _fitted_softly(beginning: Beginning, frame: int, starts: FrameState) -> Fit:
    """The best fit of a frame from some starts, each fitted first as if faint light were less exactly known, then as it
    is.

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
    return least_energy(fit(fine, start, weights.retry_iterations))


def least_energy(tried: Fit) -> Fit:
    """The one of several fits with the least energy, a batch of one."""
    return tried[[int(torch.nan_to_num(tried.energy, nan=torch.inf).argmin())]]


def _less_energy(one: Fit, other: Fit) -> Fit:
    """The one of two fits with less energy."""
    return other if not float(one.energy) <= float(other.energy) else one


def _better(one: Candidate, other: Candidate) -> Candidate:
    """The one with the better status, else the one with less energy."""
    first, second = (rank(each.verdict.status) for each in (one, other))
    if first != second:
        return one if first > second else other
    return one if float(one.fit.energy) <= float(other.fit.energy) else other


def _fitted_from_many(beginning: Beginning, frame: int, anchor: FrameState, starts: FrameState) -> Fit:
    """The best of fits of a frame from many starts, all held to one anchor (a batch of one)."""
    clip, weights = beginning.clip, beginning.clip.settings.second_order
    many = problem_of(clip, [frame] * len(starts), beginning.taper, anchor[[0] * len(starts)], weights)
    return least_energy(fit(many, starts, weights.retry_iterations))


def _starts_around(state: FrameState) -> FrameState:
    """Starts around a state: moved along the body both ways, less bent, and brought to the middle of the crop."""
    slides = [max(1, round(abs(share) * state.vertices)) * (1 if share > 0 else -1) for share in SLIDES]
    moves = [torch.tensor([by], device=state.points.device) for by in slides]
    straighter = [replace(state, curvature=state.curvature * share).rebuilt(state.middle()) for share in STRAIGHTENED]
    # The crop lies around where the animal was located, wherever it was before.
    centred = state.translated(-state.points.mean(1))
    return merged([*(state.shifted(by) for by in moves), *straighter, centred, centred.reversed()])


def searched_starts(
    beginning: Beginning, frames: list[int], known: FrameState, settings: Settings, generator: torch.Generator
) -> FrameState:
    """The best random starts in the whole crops, `settings.start.polish` for each frame, then the same reversed.

    known: a state of the body, a batch of one, whose length and appearance the starts are given.
    """
    clip, body = beginning.clip, beginning.body
    length, width = float(body.length), SHARPEST * float(body.sharp)
    guesses = search(clip.plain_views(frames), length, width, settings, clip.plain_bounds(), generator)
    best = guesses.best(settings.start.polish)
    best = replace(
        best,
        length=known.length.expand(len(best)).clone(),
        **{name: getattr(known, name).expand(len(best), -1).clone() for name in ("sigma", "iota", "rho", "defocus")},
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


def _best_start(problem: Problem, starts: FrameState) -> Evaluation:
    """The start with the least energy, held against the images."""
    tried = [evaluate(problem, starts[[index]]) for index in range(len(starts))]
    energies = np.array([float(each.energy) for each in tried])
    return tried[int(np.nan_to_num(energies, nan=np.inf).argmin())]


def _projection(clip: Clip, frame: int, state: FrameState) -> Float[Tensor, "camera vertex 2"]:
    """Image points of a state (a batch of one), px in the full frames, float64."""
    points = clip.world(state, [frame])
    return project(clip.cameras, points, state.shift.double().cpu())[0]
