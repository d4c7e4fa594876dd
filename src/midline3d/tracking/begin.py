"""How a recording begins: searched for at several places, confirmed by following, the body learned, the head found."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from midline3d.appearance import Profile
from midline3d.cameras import project, scale
from midline3d.errors import InputError
from midline3d.fitting.body import Body, average_body
from midline3d.fitting.contact import as_bodies, through_itself
from midline3d.fitting.second_order import fit
from midline3d.fitting.start import search
from midline3d.fitting.views import room_around
from midline3d.reading import number_of
from midline3d.settings import BodySettings, SecondOrderSettings
from midline3d.shapes import Float
from midline3d.state import FrameState, merged
from midline3d.tracking.caught_ends import with_dirt, without_dirt
from midline3d.tracking.clip import Clip
from midline3d.tracking.evidence import body_width, evidence
from midline3d.tracking.folded_ends import unfolded
from midline3d.tracking.judging import judge
from midline3d.tracking.learning import (
    Animal,
    Sample,
    body_taper,
    learned,
    length_std,
    of_expected_length,
    problem_of,
)
from midline3d.tracking.locomotion import forward_odds
from midline3d.tracking.orientation import head_first, of_either_end
from midline3d.tracking.paper import drawn_by_paper, searched_by_adam
from midline3d.tracking.seen_ends import as_far_as_seen
from midline3d.tracking.silhouette import Size, worm_size

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0: unknown)."""


BODY = 0.25
"""Of the body's brightness: what is brighter counts when frames are ordered by how far the worm is spread out. Which
come first is all that hangs on it."""
AGAIN = 2
"""Times at most that a recording is begun again, from other random starts, because its animal passes through itself."""
MANY_THROUGH = 1 / 3
"""Of the frames that an animal is learned from: one that passes through itself in more of them is folded wrongly. It
may well fit better than the right one, for a tight coil is as well drawn by turns that lie inside each other."""
CHOICE = 4
"""Frames looked at for every place that may be begun from: of several the most spread out is easiest to begin."""


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
    shape_odds: float
    """Of that, what the body's shape says."""
    length_std: float | None
    """Standard deviation of the body's length, mm; None where nothing was learned."""


@dataclass(frozen=True)
class Start:
    """The animal as it was found in one frame, before its body is known."""

    frame: int
    state: FrameState
    """A batch of one."""
    explained: float
    """Share of the light, in the view that is explained worst."""
    confirmed: bool = False
    """Whether a search in another frame has led to the same curve."""


def begin(clip: Clip, generator: torch.Generator, progress: Progress) -> Beginning:
    """From nothing to a body and a first state.

    On the CPU, wherever the clip is: hundreds of steps of a few frames are all launches on a GPU, and every device then
    follows the same body.
    """
    here = clip.on(torch.device("cpu"))
    start = find_start(here, generator, progress)
    if not learns(clip.settings.body):
        return _as_found(here, start, clip.device)
    animal, followed = learned_from(here, start, progress)
    for _ in range(AGAIN):
        if frames_through(animal) <= MANY_THROUGH:
            break
        other, its_frames = learned_from(here, find_start(here, generator, progress), progress)
        if frames_through(other) < frames_through(animal):
            animal, followed = other, its_frames
    progress("telling head from tail", 0, 0)
    midlines = here.world(followed.states, followed.frames).numpy()
    forward = forward_odds(midlines, followed.frames, clip.settings.heads)
    animal, odds, by_shape = head_first(here, animal, forward)
    animal = with_its_ends(here, animal, 1 / (1 + math.exp(-odds)))
    return _in_the_middle(here, animal, (odds, by_shape), clip.device)


def with_its_ends(clip: Clip, animal: Animal, right: float) -> Animal:
    """The animal as long as all its frames say, where keypoint 0 is the head with the probability `right`."""
    either = replace(clip, settings=replace(clip.settings, body=of_either_end(clip.settings.body, right)))
    animal = of_expected_length(either, without_dirt(either, animal))
    animal = as_far_as_seen(either, animal, right)
    return animal if animal.clip.dirt is None else with_dirt(animal)


def learned_from(clip: Clip, start: Start, progress: Progress) -> tuple[Animal, Sample]:
    """The animal as it is learned from one start, and all the frames that it was followed through."""
    followed = borne_out(clip, follow_sample(clip, start.frame, start.state, progress))
    sample = wholly_shown(clip, followed).spread(clip.settings.body.frames)
    progress("learning the body", 0, 0)
    return unfolded(clip, learned(clip, sample)), followed


def frames_through(animal: Animal) -> float:
    """Share of the frames that an animal was learned from in which it passes through itself."""
    clip, frames, states = animal.clip, animal.sample.frames, animal.sample.states
    taper = body_taper(clip, frames[0], animal.body)
    width = body_width(taper, clip.settings.evidence).expand(len(frames), -1)
    through = through_itself(taper, clip.local_cameras(frames), states, width)
    return float((through > clip.settings.judging.through).double().mean())


def learns(settings: BodySettings) -> bool:
    """Whether anything is learned of the animal, its cameras or their light before it is followed."""
    return settings.learned or settings.refine_cameras or settings.rounds > 0


def _as_found(clip: Clip, start: Start, device: torch.device) -> Beginning:
    """The beginning where nothing is learned: an average animal of the length that was found, either way round."""
    there, state = clip.on(device), start.state.to(device)
    body = average_body(clip.settings.body, state.length[0])
    return Beginning(there, start.frame, state, body, body_taper(there, start.frame, body), 0.0, 0.0, None)


def _in_the_middle(calibrated: Clip, animal: Animal, odds: tuple[float, float], device: torch.device) -> Beginning:
    """The beginning in the middle of an animal's sample, on a device.

    calibrated: the clip before anything was learned.
    """
    sample, middle = animal.sample, len(animal.sample.frames) // 2
    spread = length_std(calibrated, animal)
    clip, body = animal.clip.on(device), animal.body.on(device)
    taper = body_taper(clip, sample.frames[0], body)
    return Beginning(clip, sample.frames[middle], sample.states[[middle]].to(device), body, taper, *odds, spread)


def find_start(clip: Clip, generator: torch.Generator, progress: Progress) -> Start:
    """The frame whose search explains its light best, of those that a second search has confirmed."""
    settings = clip.settings.start
    size = size_of(clip)
    tried: list[Start] = []
    for done, pairs in enumerate(start_pairs(clip)):
        if done == settings.rounds:
            break
        if not settings.confirmed:
            pairs = [pair[:1] for pair in pairs]
        progress(f"searching for the worm in {number_of(sum(map(len, pairs)), 'frame')}", done, settings.rounds)
        starts = iter(searched(clip, [frame for pair in pairs for frame in pair], size, generator))
        found = [[next(starts) for _ in pair] for pair in pairs]
        tried.extend(_confirmed(clip, found) if settings.confirmed else [start for pair in found for start in pair])
        if not settings.confirmed:
            break
        if any(start.confirmed for start in tried):
            tried.extend(_confirmed(clip, _overlooked(clip, tried)))
            break
    best = max(tried, key=lambda start: (start.confirmed, start.explained))
    if settings.confirmed and not best.confirmed and len(clip.found) > 1:
        warnings.warn(
            f"searched for in {number_of(len(tried), 'frame')}, the worm was nowhere found twice in the same posture: "
            f"the result starts from frame {clip.prepared.start + best.frame}, look there first",
            stacklevel=2,
        )
    return best


def size_of(clip: Clip) -> Size:
    """The worm's scale by its silhouettes in frames all over the recording."""
    found = _found(clip)
    some = sorted({found[round(place)] for place in np.linspace(0, len(found) - 1, clip.settings.start.size_frames)})
    views = clip.plain_views(some)
    per_mm = scale(views.cameras, views.images.new_zeros(len(some), 1, 3)).mean(0)
    size = worm_size(views.images, per_mm)
    if size is None:
        raise InputError(
            "nothing stands out in the crops: run `midline3d check --picture` to see what the cameras show"
        )
    return size


def start_pairs(clip: Clip, found: list[int] | None = None) -> Iterator[list[tuple[int, ...]]]:
    """Places of the whole recording, the most spread out first, each with a second frame close by; some at a time.

    found: only of these frames, in all of which the worm was located.
    """
    found, settings = found or _found(clip), clip.settings.start
    some = sorted(
        {found[round(place)] for place in np.linspace(0, len(found) - 1, CHOICE * settings.pairs * settings.rounds)}
    )
    order = np.argsort(-_extent(clip, some))
    left = [some[place] for place in order]
    located = set(found)
    while left:
        chosen = [left.pop(0)]
        while left and len(chosen) < settings.pairs:
            # Among the better half of what is left the one that is farthest from those before.
            better = left[: max(1, len(left) // 2)]
            farthest = max(better, key=lambda other: min(abs(other - known) for known in chosen))
            chosen.append(farthest)
            left.remove(farthest)
        yield [_pair(frame, settings.apart, located) for frame in chosen]


def _pair(frame: int, apart: int, located: set[int]) -> tuple[int, ...]:
    """The frame, and another that is reached from it through frames in which the worm was located."""
    for far in range(apart, 0, -1):
        for direction in (1, -1):
            if all(frame + direction * step in located for step in range(1, far + 1)):
                return frame, frame + direction * far
    return (frame,)


def _found(clip: Clip) -> list[int]:
    if not clip.found:
        raise InputError(
            "the worm was found in no frame: run `midline3d check` to see what the cameras show, "
            "and set `worm` and `background` in recording.toml"
        )
    return clip.found


def _extent(clip: Clip, frames: list[int]) -> Float[np.ndarray, " frame"]:
    """How far the light is spread in each frame, all views together."""
    extents = []
    for frame in frames:
        weight = clip.plain_views([frame]).images[0].clamp(0, 1)
        weight = torch.where(weight > BODY, weight, 0.0)
        place = torch.arange(weight.shape[-1], dtype=weight.dtype, device=weight.device)
        mass = weight.sum((1, 2)).clamp(min=1e-6)
        spread = torch.zeros_like(mass)
        for axis in (1, 2):
            marginal = weight.sum(axis)
            mean = (marginal * place).sum(-1) / mass
            spread = spread + (marginal * (place - mean[:, None]).square()).sum(-1) / mass
        extents.append(float(spread.sum()))
    return np.array(extents)


def searched(clip: Clip, frames: list[int], size: Size, generator: torch.Generator) -> list[Start]:
    """The best of many random starts in each of the frames, fitted to the end."""
    drawn = None
    if clip.settings.start.search == "adam":
        states = searched_by_adam(clip, frames, size, generator)
        taper = body_taper(clip, frames[0], average_body(clip.settings.body, states.length.median()))
        drawn = drawn_by_paper(clip, frames, states)
    else:
        states, taper = _searched(clip, frames, size, generator)
    problem = problem_of(clip, frames, taper, states, clip.settings.second_order)
    worst = (
        evidence(problem, states, clip.contrast, clip.noise, clip.settings.evidence, drawn).explained.amin(1).tolist()
    )
    return [Start(frame, states[[row]], worst[row]) for row, frame in enumerate(frames)]


def _searched(clip: Clip, frames: list[int], size: Size, generator: torch.Generator) -> tuple[FrameState, Profile]:
    """The best start of each frame by second order, fitted to the end as an average animal both ways round, which is
    given along."""
    settings = clip.settings
    guesses = search(clip.plain_views(frames), size.length, size.sigma, settings, clip.plain_bounds(), generator)
    best = guesses.best(settings.start.polish)
    best = replace(best, iota=best.iota * clip.contrast)
    # An animal's ends differ: the wrong way round it comes out too short, and no start would ever turn.
    best, count = merged([best, best.reversed()]), len(best) // len(frames)
    many = 2 * [frame for frame in frames for _ in range(count)]
    taper = body_taper(clip, frames[0], average_body(settings.body, best.length.median()))
    weights = replace(settings.second_order, keep_length=settings.start.keep_length)
    anchor = replace(best, length=torch.full_like(best.length, settings.start.whole * size.length))
    problem = problem_of(clip, many, taper, anchor, weights)
    done = fit(problem, best, settings.second_order.first_iterations)
    energy = as_bodies(problem, done, settings.evidence.width, settings.judging.through)
    energy = energy.view(2, len(frames), count).movedim(0, 1).flatten(1)
    direction, place = energy.argmin(1) // count, energy.argmin(1) % count
    rows = (direction * len(frames) + torch.arange(len(frames), device=direction.device)) * count + place
    return done.state[rows], taper


def _confirmed(clip: Clip, pairs: list[list[Start]]) -> list[Start]:
    """The starts of all pairs: confirmed where following the one leads to the other. Followed side by side."""
    single = [pair[0] for pair in pairs if len(pair) == 1]
    twos = [pair for pair in pairs if len(pair) == 2]
    if not twos:
        return single
    paths = [range(one.frame, other.frame, 1 if other.frame > one.frame else -1) for one, other in twos]
    states = [one.state for one, _ in twos]
    length = merged(states).length.median()
    taper = body_taper(clip, twos[0][0].frame, average_body(clip.settings.body, length))
    for done in range(max(map(len, paths))):
        rows = [row for row, path in enumerate(paths) if done < len(path)]
        steps = [Step(paths[row][done], paths[row][done] + paths[row].step, states[row]) for row in rows]
        for row, state in zip(rows, _stepped(clip, taper, steps), strict=True):
            states[row] = state
    confirmed = []
    for (one, other), state in zip(twos, states, strict=True):
        near = clip.settings.start.agree * float(other.state.sigma.mean())
        same = distance(clip, other.frame, state, other.state) < near
        confirmed += [replace(start, confirmed=same) for start in (one, other)]
    return [*confirmed, *single]


def _overlooked(clip: Clip, tried: list[Start]) -> list[list[Start]]:
    """Pairs of starts of which one explains clearly more light than all that were confirmed, and the other lies close
    enough to confirm it.

    What lies beside the worm can be found again, too: among fibres two frames agreed on a curve of twice the worm's
    length, while the worm itself had been found in two others, each paired with one where it was not.
    """
    settings, located = clip.settings.start, set(_found(clip))
    known = max(start.explained for start in tried if start.confirmed)
    better = [start for start in tried if not start.confirmed and start.explained > known + settings.clearer]
    pairs = []
    for start in better:
        others = [
            other
            for other in tried
            if settings.apart <= 2 * abs(other.frame - start.frame) <= 4 * settings.apart
            and located.issuperset(range(min(start.frame, other.frame), max(start.frame, other.frame)))
        ]
        if others:
            pairs.append([start, max(others, key=lambda other: other.explained)])
    return pairs


@dataclass(frozen=True)
class Step:
    """From one frame, whose state is known, to another."""

    old: int
    new: int
    state: FrameState
    """Of the old frame, a batch of one."""


def _stepped(clip: Clip, taper: Profile, steps: list[Step]) -> list[FrameState]:
    """The states in the steps' new frames, in one batch."""
    weights = _learning_weights(clip)
    start = merged([clip.carried(step.state, step.old, step.new) for step in steps])
    problem = problem_of(clip, [step.new for step in steps], taper, start, weights)
    found = fit(problem, start, weights.iterations).state
    return [found[[row]] for row in range(len(steps))]


def distance(clip: Clip, frame: int, one: FrameState, other: FrameState) -> float:
    """Mean distance of two curves in the views, px, either way round."""
    first, second = (project(clip.local_cameras([frame]), state.points, state.shift)[0] for state in (one, other))
    away = torch.cdist(first, second)
    return float((away.amin(1).mean() + away.amin(2).mean()) / 2)


def _learning_weights(clip: Clip) -> SecondOrderSettings:
    """Weights while the length is not known yet, and no frame has to come to rest."""
    weights, start = clip.settings.second_order, clip.settings.start
    settled = max(weights.settled, start.settled)
    return replace(weights, keep_length=weights.keep_length * start.loose_length, settled=settled)


def follow_sample(clip: Clip, frame: int, state: FrameState, progress: Progress) -> Sample:
    """Follow the animal through the frames that its body is learned from, both ways from the first at once."""
    settings = clip.settings
    taper = body_taper(clip, frame, average_body(settings.body, state.length[0]))
    states = {frame: state}
    near = sorted(clip.found, key=lambda other: abs(other - frame))[: settings.body.span]
    onward, back = sorted(other for other in near if other > frame), sorted(other for other in near if other < frame)
    paths = [[frame, *onward], [frame, *reversed(back)]]
    for done in range(1, max(map(len, paths))):
        both = [(path[done - 1], path[done]) for path in paths if done < len(path)]
        found = _stepped(clip, taper, [Step(old, new, states[old]) for old, new in both])
        states |= {new: state for (_, new), state in zip(both, found, strict=True)}
        progress("following the worm to learn its body", len(states), len(near))
    frames = sorted(states)
    return Sample(frames, merged([states[other] for other in frames]))


def borne_out(clip: Clip, sample: Sample) -> Sample:
    """The frames of a sample that are not lost by what their images say to the animal; all frames where all are.

    An animal that leaves is followed into nothing, and what is drawn there would be learned from.
    """
    frames, states, settings = sample.frames, sample.states, clip.settings
    taper = body_taper(clip, frames[0], average_body(settings.body, states.length.median()))
    problem = problem_of(clip, frames, taper, states, settings.second_order)
    observed = evidence(problem, states, clip.contrast, clip.noise, settings.evidence)
    chosen = [row for row in range(len(frames)) if judge(observed[[row]], 0.0, settings.judging).status != "lost"]
    return Sample([frames[row] for row in chosen], states[chosen]) if chosen else sample


def wholly_shown(clip: Clip, sample: Sample) -> Sample:
    """The frames of a sample that show all of the animal in all pictures; all frames where those are too few."""
    seen = project(clip.local_cameras(sample.frames), sample.states.points, sample.states.shift)
    whole = (room_around(seen, clip.picture(sample.frames)) >= 0).flatten(1).all(1)
    chosen = whole.nonzero().flatten().tolist()
    if len(chosen) == len(sample.frames) or len(chosen) < clip.settings.body.frames:
        return sample
    return Sample([sample.frames[row] for row in chosen], sample.states[chosen])
