"""Learning the animal, its cameras and what the views do to its light, from frames in which it was found."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from midline3d.appearance import KNOTS, Profile
from midline3d.cameras import project, scale
from midline3d.fitting.body import (
    SETTLED,
    Body,
    Learned,
    Rig,
    Shared,
    SharedPrior,
    average_body,
    learn,
    length_variance,
)
from midline3d.fitting.second_order import Problem, rendered
from midline3d.fitting.views import Views
from midline3d.kernels import spline_basis
from midline3d.rendering import Objective
from midline3d.settings import SecondOrderSettings, Settings
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState
from midline3d.tracking.clip import Clip
from midline3d.tracking.dirt import Dirt, LeftOver, find_dirt, straight_on
from midline3d.tracking.evidence import body_width
from midline3d.tracking.masks import grown_in_cells, squares_around
from midline3d.tracking.threads import on_all_cores
from midline3d.tracking.veil import learn_veil

HELD = 1e12
"""Weight of a squared number that is to stay where it is: far above what any image says."""

MOST_PROFILES = 3
"""Times at most that lengths are tried: again where a clearly better minimum was found, which 7 of 53 animals had."""
MOST_LENGTHS = 8
"""Lengths at most that are tried on either side: by 16 % no animal was found too short."""
UNLIKELY = 4.0
"""Nats, tempered, by which a length fits worse than the best, and no further one is tried: it counts a fiftieth."""
ROUGH = 0.3
"""Nats, tempered: a length's fit has converged once an iteration gains less, which moves the mean of lengths by less
than their own uncertainty."""
LENGTH_FRAMES = 8
"""Frames of the sample that lengths are tried on. With 16 of them the lengths of seven animals differed by 0.4 % in
the median, the energies of all frames together were as low, and it took more than twice as long."""
LENGTH_ITERATIONS = 25
"""At most, for each length: it starts beside the one before."""


@dataclass(frozen=True)
class Sample:
    """Frames that the animal was followed through to learn from, and its states there."""

    frames: list[int]
    """Within the clip."""
    states: FrameState
    """A row for each frame, in its own local world."""

    def spread(self, count: int) -> Sample:
        """At most `count` of them, evenly spread."""
        chosen = np.linspace(0, len(self.frames) - 1, min(count, len(self.frames))).round().astype(int).tolist()
        return Sample([self.frames[place] for place in chosen], self.states[chosen])


@dataclass(frozen=True)
class Animal:
    """What a sample of frames has taught, keypoint 0 taken for the head."""

    clip: Clip
    """With the cameras refined, the veil and the spread of faint light measured."""
    sample: Sample
    body: Body
    change: Float[Tensor, "camera 4"]
    """Of the cameras, against the calibration (see `cameras.refined`)."""
    energy: float
    """Of all the sample's frames, and what the body's own prior costs."""


def problem_of(
    clip: Clip,
    frames: list[int],
    taper: Profile,
    anchor: FrameState,
    weights: SecondOrderSettings,
    views: Views | None = None,
) -> Problem:
    """The second-order problem of a batch of frames; `views`, where they are not the clip's own."""
    pixels, curve = clip.settings.pixels, clip.settings.curve
    return Problem(
        views=clip.views(frames) if views is None else views,
        taper=taper,
        basis=spline_basis(curve.vertices, curve.nodes, torch.float32, clip.device),
        objective=Objective(pixels.cutoff, robust=pixels.robust),
        weights=weights,
        bounds=clip.bounds(),
        anchor=anchor,
    )


def nat(settings: Settings) -> float:
    """The energy that is worth a factor of e in likelihood: r^2 / (2 b^2) for every pixel."""
    return 2 * settings.second_order.pixels * settings.pixels.model_error**2


def learned(clip: Clip, sample: Sample) -> Animal:
    """The body, the cameras, the veil and the spread of faint light, from nothing but a sample of frames."""
    settings = clip.settings
    body = average_body(settings.body, sample.states.length.median())
    animal = Animal(clip, sample, body, Shared.unchanged(body, clip.cameras.count).cameras, np.inf)
    for _ in range(settings.body.rounds):
        animal = remeasured(fitted(clip, animal, settings.body.first_iterations))
    return fitted(clip, animal, settings.body.iterations)


def turned(clip: Clip, animal: Animal) -> Animal:
    """The same animal read from the other end, and learned again from there."""
    sample = Sample(animal.sample.frames, animal.sample.states.reversed())
    # An average animal has its head at keypoint 0 whichever way the frames are read.
    body = animal.body.reversed() if clip.settings.body.learned else animal.body
    return fitted(clip, replace(animal, sample=sample, body=body), clip.settings.body.iterations)


def of_expected_length(clip: Clip, animal: Animal) -> Animal:
    """The animal as long as all lengths are on average, each counted by its profile likelihood.

    A tail that fades says little about where it ends: longer ones fit nearly as well, while shorter ones leave light
    over, so that the likeliest length lies short of the expected one. And learning may have come to rest beside its
    minimum: short of a thin tail, where no slope led on, or with a head drawn out to a needle that nobody sees. A nat
    counts as often less as the priors count more (`sure`), since what the model gets wrong repeats itself in every
    frame.
    """
    own = clip.settings.body
    if not own.learned or not own.stretch:
        return animal
    less, nearest = _on_fewer_frames(clip, animal)
    for _ in range(MOST_PROFILES):
        tried = _profile(less, nearest)
        best = min(tried.values(), key=lambda each: each.energy)
        if not best.energy < nearest.energy - less.settings.body.sure * nat(clip.settings):
            break
        nearest = best  # another minimum, whose own lengths are asked for
    places = np.array(list(tried))
    energies = np.array([tried[place].energy for place in places]) / (less.settings.body.sure * nat(clip.settings))
    weights = np.exp(energies.min() - energies)
    expected = float(np.sum(weights * places) / np.sum(weights))
    unsure = own.stretch * float(np.sum(weights * (places - expected) ** 2) / np.sum(weights)) ** 0.5
    nearest = tried[min(tried, key=lambda place: abs(place - expected))]
    length = (1 + expected * own.stretch) * tried[0].body.length
    known = replace(animal, body=replace(nearest.body, length=animal.body.length), change=nearest.change)
    # Which end of the other frames has to give way is not known: what was tried may have moved either.
    whole = on_all_cores(lambda tail: at_length(clip, known, length, tail), (True, False))
    best = min(whole, key=lambda each: float(np.nan_to_num(each.energy, nan=np.inf)))
    # What half of the frames expect may be unlikely by all of them.
    unlikely = animal.energy + UNLIKELY * own.sure * nat(clip.settings)
    chosen = best if best.energy < unlikely else animal
    # Which end another length would move is not known: either may be the one.
    return replace(chosen, body=replace(chosen.body, unsure=(unsure, unsure)))


def _on_fewer_frames(clip: Clip, animal: Animal) -> tuple[Clip, Animal]:
    """The animal by `LENGTH_FRAMES` of its frames, and the clip with priors that count as much less."""
    few, own = animal.sample.spread(LENGTH_FRAMES), clip.settings.body
    sure = own.sure * len(few.frames) / len(animal.sample.frames)
    less = replace(clip, settings=replace(clip.settings, body=replace(own, sure=sure)))
    return less, fitted(less, replace(animal, sample=few), LENGTH_ITERATIONS)


def _profile(clip: Clip, animal: Animal) -> dict[int, Animal]:
    """The animal by its length, in steps from its own, for as long as they are likely."""
    tried = {0: animal}
    for way in on_all_cores(lambda direction: _lengths(clip, animal, direction), (1, -1)):
        tried |= way
    return tried


def _lengths(clip: Clip, animal: Animal, direction: int) -> dict[int, Animal]:
    """The animal by its length, ever longer (direction 1) or shorter (-1), for as long as that is likely."""
    own, tried = clip.settings.body, {0: animal}
    ends: tuple[bool, ...] = (True, False)
    for place in range(direction, direction * (MOST_LENGTHS + 1), direction):
        length = (1 + place * own.stretch) * animal.body.length
        made = {tail: at_length(clip, tried[place - direction], length, tail) for tail in ends}
        made = {tail: each for tail, each in made.items() if np.isfinite(each.energy)}
        if not made:
            break
        better = min(made, key=lambda tail: made[tail].energy)
        ends, tried[place] = (better,), made[better]
        least = min(each.energy for each in tried.values())
        if tried[place].energy > least + UNLIKELY * own.sure * nat(clip.settings):
            break
    return tried


def at_length(clip: Clip, animal: Animal, length: Float[Tensor, ""], tail: bool) -> Animal:
    """The animal with another length, by its tail or by its head; then all else is fitted again from there."""
    other = resized(animal, length, tail)
    prior = _prior(clip.settings, clip, other)
    middle, weight = prior.middle.clone(), prior.weight.clone()
    middle[-1], weight[-1] = length.log(), HELD
    rough = ROUGH * clip.settings.body.sure * nat(clip.settings)
    return fitted(clip, other, LENGTH_ITERATIONS, SharedPrior(middle, weight), rough)


def resized(animal: Animal, length: Float[Tensor, ""], tail: bool) -> Animal:
    """The animal with another length, by its tail or by its head, the rest as it is."""
    share = float(length / animal.body.length) - 1
    sample = Sample(animal.sample.frames, stretched(animal.sample.states, share, tail))
    return replace(animal, sample=sample, body=replace(animal.body, length=length))


def stretched(state: FrameState, share: float, tail: bool) -> FrameState:
    """Curves that go straight on behind the tail, or before the head, by a share of their length; the rest stays."""
    count = state.vertices
    place = torch.arange(count, device=state.points.device) * (1 + share) - (0 if tail else share * (count - 1))
    low = place.floor().clamp(0, count - 2).long()
    along = (place - low)[:, None].to(state.curvature)
    bend = state.curvature[:, low] * (1 - along) + state.curvature[:, low + 1] * along
    inside = ((place >= 0) & (place <= count - 1))[:, None]
    bend = torch.where(inside, (1 + share) * bend, 0.0)
    fixed = torch.full((len(state),), 0 if tail else count - 1, device=state.points.device)
    return replace(state, curvature=bend, length=(1 + share) * state.length).rebuilt(fixed)


def length_std(clip: Clip, animal: Animal) -> float:
    """Standard deviation of the animal's length, mm: what all frames together and a loose prior leave open, times
    `BodySettings.beyond_noise`, and what is open of where it ends (see `tracking.seen_ends`)."""
    settings = clip.settings
    loose = replace(settings, body=replace(settings.body, sure=1.0, learned=True, refine_cameras=True))
    problem, rig = _task(clip, animal)
    prior = _prior(loose, clip, animal)
    shared = Shared(animal.body.numbers(), animal.change)
    variance = length_variance(problem, rig, animal.sample.states, shared, prior) * nat(settings) / 2
    around = settings.body.beyond_noise * max(variance, 0.0) ** 0.5
    return float(animal.body.length) * math.hypot(around, *animal.body.unsure)


def fitted(
    clip: Clip, animal: Animal, iterations: int, prior: SharedPrior | None = None, settled: float = SETTLED
) -> Animal:
    """Body, cameras and frames together from where they stand; `clip` has the cameras as they were calibrated."""
    problem, rig = _task(clip, animal)
    shared = Shared(animal.body.numbers(), animal.change)
    prior = prior or _prior(clip.settings, clip, animal)
    found: Learned = learn(problem, rig, animal.sample.states, shared, prior, iterations, settled)
    there = replace(animal.clip, cameras=found.cameras)
    body = replace(found.body, unsure=animal.body.unsure)
    return Animal(there, Sample(animal.sample.frames, found.state), body, found.change, found.energy)


def _task(clip: Clip, animal: Animal) -> tuple[Problem, Rig]:
    """The frames that an animal is learned from, the length free, and the cameras as they were calibrated."""
    frames, states = animal.sample.frames, animal.sample.states
    here = replace(animal.clip, cameras=clip.cameras)
    free = replace(clip.settings.second_order, keep_length=0.0)
    problem = problem_of(here, frames, body_taper(here, frames[0], animal.body), states, free)
    return problem, Rig(clip.cameras, clip.centres(frames), clip.origins(frames))


def _prior(settings: Settings, clip: Clip, animal: Animal) -> SharedPrior:
    """Where body and cameras lie before any image is seen, the length where the animal's is."""
    return shared_prior(settings, average_body(settings.body, animal.body.length), clip.cameras.count)


def remeasured(animal: Animal) -> Animal:
    """The animal with the dirt, the veil and the spread of faint light by what its body leaves over."""
    clip, sample, frames = animal.clip, animal.sample, animal.sample.frames
    taper = body_taper(clip, frames[0], animal.body)
    drawn = drawn_light(clip, sample, taper)
    if clip.settings.dirt.removed:
        clip = replace(clip, dirt=dirt_beside(clip, sample, taper, drawn))
    signal = clip.without_dirt(clip.signal(frames), frames)
    spread = clip.error[:, None, None] + clip.settings.pixels.model_error * drawn
    own = clip.settings.body
    veil = learn_veil(signal, drawn, spread, float(taper.sharp.mean()), own.veil_damping) if own.veil else None
    left = ((signal if veil is None else veil.removed(signal)) - drawn).abs()
    error = clip.error.clone()
    for view, peak in enumerate(drawn.amax((0, 2, 3)).tolist()):
        beside = (drawn[:, view] > 0) & (drawn[:, view] < clip.settings.body.beside * peak)
        if bool(beside.any()):
            # What 68 % of the residuals stay under is a standard deviation that dirt does not move.
            error[view] = float(np.quantile(left[:, view][beside].cpu().numpy(), 0.68))
    there = clip.measured(error, veil)
    states = replace(sample.states, iota=sample.states.iota * there.contrast / clip.contrast)
    return replace(animal, clip=there, sample=Sample(frames, states))


def drawn_light(clip: Clip, sample: Sample, taper: Profile) -> Float[Tensor, "frame camera w w"]:
    """What is drawn of a body in some frames, in the crops' units."""
    frames, states, size = sample.frames, sample.states, clip.prepared.window
    views = Views(states.points.new_zeros(len(frames), clip.cameras.count, size, size), clip.local_cameras(frames))
    problem = problem_of(clip, frames, taper, states, clip.settings.second_order, views)
    return rendered(problem, states) * (clip.brightness / clip.contrast)[:, None, None]


def dirt_beside(clip: Clip, sample: Sample, taper: Profile, drawn: Float[Tensor, "frame camera w w"]) -> Dirt:
    """The dirt beside a body that is drawn in some frames; each speaks for others as far as others speak for it.

    drawn: as `drawn_light` gives it.
    """
    left, settings = light_left_over(clip, sample, taper, drawn), clip.settings.dirt
    return find_dirt(left, list(range(len(sample.frames))), settings, settings.reach)


def light_left_over(clip: Clip, sample: Sample, taper: Profile, drawn: Float[Tensor, "frame camera w w"]) -> LeftOver:
    """What a body leaves over that is drawn in some frames, as `drawn_light` gives it."""
    settings, evidence, frames = clip.settings.dirt, clip.settings.evidence, sample.frames
    light = clip.signal(frames)
    left = clip.without_veil(light) - drawn
    width = float(body_width(taper, evidence).expand(len(frames), -1).mean())
    body = drawn > settings.covered * clip.brightness[:, None, None]
    onward = project(clip.local_cameras(frames), straight_on(sample.states, settings.onward), sample.states.shift)
    ways = onward.unflatten(2, (2, -1))
    beyond = torch.stack([squares_around(way, drawn.shape[-1], round(width)) for way in ways.unbind(2)], 2)
    return LeftOver(
        frames=frames,
        places=clip.places(frames),
        light=torch.where(body, torch.nan, left).cpu(),
        beyond=beyond.cpu(),
        ways=ways[..., [0, -1], :].cpu(),
        near=grown_in_cells(body | beyond.any(2), width * evidence.reach).cpu(),
        noise=torch.from_numpy(clip.prepared.noise).float(),
    )


def body_taper(clip: Clip, frame: int, body: Body) -> Profile:
    """The body as the views of a frame magnify it."""
    magnification = scale(clip.local_cameras([frame]), torch.zeros(1, 1, 3, device=clip.device))[0]
    return body.profile(clip.settings.curve.vertices, magnification, clip.settings.pixels.floor)


def shared_prior(settings: Settings, body: Body, cameras: int) -> SharedPrior:
    """Where body and cameras lie before any image is seen: half a nat for every squared standard deviation, times
    `sure`."""
    own = settings.body
    middle = body.numbers()
    tissue = [own.tip_spread, *[own.tissue_spread] * (len(KNOTS) - 2), own.tip_spread]
    head = [own.head_share_spread, own.head_bluntness_spread]
    tail = [own.tail_share_spread, own.tail_bluntness_spread]
    tips, opacity = [own.head_tip_spread, own.tail_tip_spread], [own.opacity_spread] * 2
    rig = ([own.turn_spread] * 3 + [own.magnification_spread]) * cameras
    # The length itself is free: any lies within a factor of e^10.
    spread = [*rig, *tissue, *head, *tail, *tips, *opacity, own.depth_spread, own.sharp_spread, 10.0]
    weight = own.sure * nat(settings) / 2 / torch.tensor(spread).to(middle).square()
    weight[: len(rig)] += 0.0 if own.refine_cameras else HELD
    weight[len(rig) :] += 0.0 if own.learned else HELD
    return SharedPrior(torch.cat([torch.zeros(len(rig)).to(middle), middle]), weight)
