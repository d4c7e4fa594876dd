"""How a recording begins: a frame that shows the animal well, the best of many starts, the body, the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from midline3d.appearance import KNOTS, PaperTaper, Profile
from midline3d.cameras import scale
from midline3d.errors import InputError
from midline3d.fitting.body import Body, Learned, Rig, Shared, SharedPrior, learn
from midline3d.fitting.normal import spline_basis
from midline3d.fitting.second_order import Problem, evaluate, fit, rendered
from midline3d.fitting.start import first_guesses
from midline3d.rendering import Objective
from midline3d.settings import BodySettings, SecondOrderSettings, StartSettings
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState, merged
from midline3d.tracking.clip import Clip
from midline3d.tracking.veil import Veil, learn_veil

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0: unknown)."""


@dataclass(frozen=True)
class Beginning:
    """Everything that following the animal needs."""

    clip: Clip
    """With the cameras refined."""
    frame: int
    state: FrameState
    """Of that frame, a batch of one."""
    body: Body
    taper: Profile
    head_odds: float
    """Evidence that keypoint 0 is the head, in natural log odds."""


def problem_of(
    clip: Clip, frames: list[int], taper: Profile, anchor: FrameState, weights: SecondOrderSettings
) -> Problem:
    """The second-order problem of a batch of frames."""
    pixels, curve = clip.settings.pixels, clip.settings.curve
    return Problem(
        views=clip.views(frames),
        taper=taper,
        basis=spline_basis(curve.vertices, curve.nodes, torch.float32, clip.device),
        objective=Objective(pixels.cutoff, robust=pixels.robust),
        weights=weights,
        bounds=clip.bounds(),
        anchor=anchor,
    )


@dataclass(frozen=True)
class Rehearsal:
    """The frames that the animal was followed through to learn from, and its states there."""

    frames: list[int]
    states: FrameState

    def reversed(self) -> Rehearsal:
        return Rehearsal(self.frames, self.states.reversed())


@dataclass(frozen=True)
class Lesson:
    """What a choice of a rehearsal's frames have taught, keypoint 0 taken for the head."""

    clip: Clip
    """With the cameras refined."""
    frames: list[int]
    result: Learned
    misfit: float
    """Mean energy of the frames, their images unmasked, and their part of what the body's own prior costs."""


def agreed(lessons: list[Lesson], settings: StartSettings) -> bool:
    """Whether the best have come to the same animal. Two may be wrong alike, where a coil hides itself for long."""
    best = lessons[: settings.agreeing]
    if len(best) < settings.agreeing:
        return False
    lengths, misfits = [float(each.result.body.length) for each in best], [each.misfit for each in best]
    return all(max(values) - min(values) < settings.agreement * min(values) for values in (lengths, misfits))


def begin(clip: Clip, generator: torch.Generator, progress: Progress) -> Beginning:
    """From nothing to a body and a first state: begun from several frames, the best kept, the head put first."""
    tried: list[tuple[Rehearsal, Lesson]] = []
    for frame in start_frames(clip, clip.settings.start.tries):
        progress(f"searching for the worm in frame {clip.prepared.start + frame}", 0, 0)
        rehearsal = rehearse(clip, frame, first_state(clip, frame, generator), progress)
        progress("learning the body", 0, 0)
        tried.append((rehearsal, learned(clip, rehearsal)))
        tried.sort(key=lambda each: each[1].misfit)
        if agreed([lesson for _, lesson in tried], clip.settings.start):
            break
    rehearsal, lesson = tried[0]
    progress("telling head from tail", 0, 0)
    turned = learned(clip, rehearsal.reversed())
    odds = (turned.result.energy - lesson.result.energy) / 2 + forward_odds(clip, rehearsal)
    return beginning_of(lesson if odds >= 0 else turned, abs(odds))


def beginning_of(lesson: Lesson, odds: float) -> Beginning:
    result, clip, middle = lesson.result, lesson.clip, len(lesson.frames) // 2
    taper = body_taper(clip, lesson.frames[0], result.body)
    return Beginning(clip, lesson.frames[middle], result.state[[middle]], result.body, taper, odds)


def start_frames(clip: Clip, count: int) -> list[int]:
    """Of some frames of the first part, the one in which the animal is spread out most, then others far from those
    before: neighbours would be misread alike."""
    found = clip.found
    if not found:
        raise InputError(
            "the worm was found in no frame: run `midline3d check` to see what the cameras show, "
            "and set `worm` and `background` in recording.toml"
        )
    early = found[: clip.settings.body.span]
    some = sorted({early[round(place)] for place in np.linspace(0, len(early) - 1, 12)})
    images = clip.plain_views(some).images
    weight = torch.where(images > 0.25, images, 0.0)
    size = images.shape[-1]
    place = torch.arange(size, dtype=images.dtype, device=images.device)
    mass = weight.sum((2, 3)).clamp(min=1e-6)
    spread = torch.zeros_like(mass)
    for axis in (2, 3):
        marginal = weight.sum(axis)
        mean = (marginal * place).sum(-1) / mass
        spread = spread + (marginal * (place - mean[..., None]).square()).sum(-1) / mass
    chosen = [some[int(spread.sum(1).argmax())]]
    while len(chosen) < min(count, len(some)):
        chosen.append(max(some, key=lambda other: min(abs(other - known) for known in chosen)))
    return chosen


def first_state(clip: Clip, frame: int, generator: torch.Generator) -> FrameState:
    """The best of many random starts in one frame, fitted to the end as an average animal, either way round."""
    settings = clip.settings
    unit = clip.plain_views([frame])
    paper = PaperTaper(settings.curve.vertices, settings.adam.sigma_min, settings.adam.iota_min)
    guesses, _ = first_guesses(unit, paper, settings, clip.plain_bounds(), generator)
    best = guesses[slice(0, settings.start.polish)]
    best = replace(best, iota=best.iota * clip.contrast)
    taper = body_taper(clip, frame, average_body(settings.body, best.length[0]))
    free, most = replace(settings.second_order, keep_length=0.0), settings.second_order.first_iterations
    rough = fit(problem_of(clip, [frame] * len(best), taper, best, free), best, most)
    winner = rough.state[[int(rough.energy.argmin())]]
    ways = merged([winner, winner.reversed()])
    done = fit(problem_of(clip, [frame] * 2, taper, ways, free), ways, most)
    return done.state[[int(done.energy.argmin())]]


def rehearse(clip: Clip, frame: int, state: FrameState, progress: Progress) -> Rehearsal:
    """Follow the animal through the frames that its body is learned from, both ways from the first."""
    settings = clip.settings
    taper = body_taper(clip, frame, average_body(settings.body, state.length[0]))
    # The length may still change, but not from one frame to the next by what a hidden tail would gain.
    weights = replace(settings.second_order, keep_length=settings.second_order.keep_length * 1e-2)
    states = {frame: state}
    near = sorted(clip.found, key=lambda other: abs(other - frame))[: settings.body.span]
    for other in near[1:]:
        before = min(states, key=lambda known: abs(known - other))
        start = clip.carried(states[before], before, other)
        problem = problem_of(clip, [other], taper, start, weights)
        states[other] = fit(problem, start, weights.iterations).state
        progress("rehearsing", len(states), len(near))
    frames = sorted(states)
    return Rehearsal(frames, merged([states[other] for other in frames]))


def learned(clip: Clip, rehearsal: Rehearsal) -> Lesson:
    """The body, the cameras and what the views scatter, from a choice of the rehearsed frames."""
    settings, frames, states = clip.settings, rehearsal.frames, rehearsal.states
    count = min(settings.body.frames, len(frames))
    chosen = np.linspace(0, len(frames) - 1, count).round().astype(int).tolist()
    some, state = [frames[place] for place in chosen], states[chosen]
    body = average_body(settings.body, states.length.median())
    free = replace(settings.second_order, keep_length=0.0)
    rig = Rig(clip.cameras, clip.centres(some), clip.origins(some))
    prior = shared_prior(settings.body, body, count, clip.cameras.count)
    shared = Shared.unchanged(body, clip.cameras.count)
    for done in range(settings.body.rounds):
        problem = problem_of(clip, some, body_taper(clip, some[0], body), state, free)
        result = learn(problem, rig, state, shared, prior, settings.body.iterations)
        shared, state = Shared(result.body.numbers(), result.change), result.state
        if done + 1 < settings.body.rounds:
            clip, state = remeasured(replace(clip, cameras=result.cameras), some, result)
            clip = replace(clip, cameras=rig.cameras)
    clip = replace(clip, cameras=result.cameras)
    whole = problem_of(clip, some, body_taper(clip, some[0], result.body), result.state, free)
    unlikely = prior.energy(shared) / count
    return Lesson(clip, some, result, float(evaluate(whole, result.state).energy.mean() + unlikely))


def remeasured(clip: Clip, frames: list[int], result: Learned) -> tuple[Clip, FrameState]:
    """The clip with the veil and the spread of faint light by what the body leaves over, and the states in its units."""
    taper = body_taper(clip, frames[0], result.body)
    problem = problem_of(clip, frames, taper, result.state, clip.settings.second_order)
    unit = (clip.contrast / clip.brightness)[:, None, None]
    drawn = rendered(problem, result.state) / unit
    signal = clip.signal(frames)
    spread = clip.error[:, None, None] + clip.settings.pixels.model_error * drawn
    veil = learn_veil(signal, drawn, spread, float(taper.sharp.mean()))
    left = (veil.removed(signal) - drawn).abs()
    peak = drawn.amax((0, 2, 3))
    error = []
    for view in range(len(peak)):
        beside = (drawn[:, view] > 0) & (drawn[:, view] < 0.15 * peak[view])
        # What 68 % of the residuals stay under is a standard deviation that dirt does not move.
        error.append(left[:, view][beside].quantile(0.68) if bool(beside.any()) else clip.error[view])
    there = clip.measured(torch.stack(error), veil)
    return there, replace(result.state, iota=result.state.iota * there.contrast / clip.contrast)


def body_taper(clip: Clip, frame: int, body: Body) -> Profile:
    """The body as the views of a frame magnify it."""
    views = clip.plain_views([frame])
    magnification = scale(views.cameras, torch.zeros(1, 1, 3, device=clip.device))[0]
    return body.profile(clip.settings.curve.vertices, magnification, clip.settings.pixels.floor)


def average_body(settings: BodySettings, length: Float[Tensor, ""]) -> Body:
    """An animal as it may be before it is seen."""
    head, tail = (settings.head_share, settings.head_bluntness), (settings.tail_share, settings.tail_bluntness)
    numbers = torch.tensor([*head, *tail, settings.opacity, settings.opacity, settings.depth]).log().to(length)
    tissue = torch.zeros(len(KNOTS)).to(length)
    return Body.of(torch.cat([tissue, numbers, torch.stack([settings.sharp * length, length]).log()]))


def shared_prior(settings: BodySettings, body: Body, frames: int, cameras: int) -> SharedPrior:
    middle = body.numbers()
    tissue = [settings.tip_spread, *[settings.tissue_spread] * (len(KNOTS) - 2), settings.tip_spread]
    head = [settings.head_share_spread, settings.head_bluntness_spread]
    tail = [settings.tail_share_spread, settings.tail_bluntness_spread]
    opacity = [settings.opacity_spread] * 2
    rig = ([settings.turn_spread] * 3 + [settings.magnification_spread]) * cameras
    # The length itself is free: any lies within a factor of e^10.
    spread = [*rig, *tissue, *head, *tail, *opacity, settings.depth_spread, settings.sharp_spread, 10.0]
    weight = settings.sure / torch.tensor(spread).to(middle).square()
    return SharedPrior(torch.cat([torch.zeros(len(rig)).to(middle), middle]), weight)


def forward_odds(clip: Clip, rehearsal: Rehearsal) -> float:
    """How much the motion speaks for keypoint 0 being the head, in natural log odds: worms mostly go forwards."""
    states, steps = rehearsal.states, np.diff(rehearsal.frames)
    if not (steps == 1).any():
        return 0.0
    world = clip.world(states, rehearsal.frames)
    middle = slice(states.vertices // 4, 3 * states.vertices // 4)
    tangent = states.frames[:-1, middle, :, 0].double().cpu()
    forward = -((world[1:, middle] - world[:-1, middle]) * tangent).sum(-1).mean(1).numpy()
    forward = forward[steps == 1] / float(states.length.median())
    spread = forward.std() / np.sqrt(len(forward)) + 1e-3
    return float(np.clip(forward.mean() / spread, -3, 3))
