"""How a recording begins: a frame that shows the animal well, the best of many starts, the body, the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from midline3d.appearance import PaperTaper, Profile, Shape
from midline3d.cameras import scale
from midline3d.errors import InputError
from midline3d.fitting.body import Body, Rig, SharedPrior, learn
from midline3d.fitting.normal import spline_basis
from midline3d.fitting.second_order import Problem, evaluate, fit, focused
from midline3d.fitting.start import first_guesses
from midline3d.rendering import Objective
from midline3d.settings import BodySettings, SecondOrderSettings
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState, merged
from midline3d.tracking.clip import Clip

Report = Callable[[str], None]


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
    misfit: float
    """Mean energy of the frames that the body was learned from, their images unmasked."""
    head_odds: float
    """Evidence that keypoint 0 is the head, in natural log odds."""


def problem_of(
    clip: Clip, frames: list[int], taper: Profile, anchor: FrameState, weights: SecondOrderSettings
) -> Problem:
    """The second-order problem of a batch of frames."""
    pixels, curve = clip.settings.pixels, clip.settings.curve
    return Problem(
        views=clip.views(frames, pixels.contrast),
        taper=taper,
        basis=spline_basis(curve.vertices, curve.nodes, torch.float32, clip.device),
        objective=Objective(pixels.cutoff, robust=pixels.robust),
        weights=weights,
        bounds=clip.bounds(pixels.contrast),
        shares=torch.ones(len(frames), curve.vertices, device=clip.device),
        anchor=anchor,
    )


def begin(clip: Clip, generator: torch.Generator, report: Report) -> Beginning:
    """From nothing to a body and a first state: begun from several frames, the best kept."""
    tried = []
    for frame in start_frames(clip, clip.settings.start.tries):
        report(f"searching for the worm in frame {clip.prepared.start + frame}")
        state, body = first_state(clip, frame, generator)
        frames, states = rehearse(clip, frame, state, body, report)
        report(f"learning the body from {len(frames)} frames")
        tried.append(learned(clip, frames, states, body))
    return min(tried, key=lambda beginning: beginning.misfit)


def start_frames(clip: Clip, count: int) -> list[int]:
    """Of some frames spread over the first part, those in which the animal is spread out most in all views."""
    found = clip.found
    if not found:
        raise InputError(
            "the worm was found in no frame: run `midline3d check` to see what the cameras show, "
            "and set `worm` and `background` in recording.toml"
        )
    early = found[: clip.settings.body.span]
    some = sorted({early[round(place)] for place in np.linspace(0, len(early) - 1, 12)})
    images = clip.views(some, 1.0).images
    weight = torch.where(images > 0.25, images, 0.0)
    size = images.shape[-1]
    place = torch.arange(size, dtype=images.dtype, device=images.device)
    mass = weight.sum((2, 3)).clamp(min=1e-6)
    spread = torch.zeros_like(mass)
    for axis in (2, 3):
        marginal = weight.sum(axis)
        mean = (marginal * place).sum(-1) / mass
        spread = spread + (marginal * (place - mean[..., None]).square()).sum(-1) / mass
    order = spread.sum(1).argsort(descending=True).tolist()
    chosen = [order[0]]
    for other in order[1:]:
        # Not its neighbour, which shows the same.
        if len(chosen) < count and min(abs(other - known) for known in chosen) > 1:
            chosen.append(other)
    return [some[index] for index in chosen]


def first_state(clip: Clip, frame: int, generator: torch.Generator) -> tuple[FrameState, Body]:
    """The best of many random starts in one frame, fitted to the end with an average animal's body."""
    settings = clip.settings
    unit = clip.views([frame], 1.0)
    paper = PaperTaper(settings.curve.vertices, settings.adam.sigma_min, settings.adam.iota_min)
    guesses, _ = first_guesses(unit, paper, settings, clip.bounds(1.0), generator)
    best = guesses[slice(0, settings.start.polish)]
    best = replace(best, iota=best.iota * settings.pixels.contrast)
    body = average_body(settings.body, best.length[0])
    taper = body.profile(settings.curve.vertices, _scales(clip, frame), settings.pixels.floor)
    free = replace(settings.second_order, keep_length=0.0)
    problem = problem_of(clip, [frame] * len(best), taper, best, free)
    rough = fit(problem, best, settings.second_order.first_iterations).state
    done = fit(focused(problem, rough), rough, settings.second_order.first_iterations)
    winner = int(done.energy.argmin())
    return done.state[[winner]], average_body(settings.body, done.state.length[winner])


def rehearse(clip: Clip, frame: int, state: FrameState, body: Body, report: Report) -> tuple[list[int], FrameState]:
    """Follow the animal through the frames that its body is learned from, both ways from the first."""
    settings = clip.settings
    taper = body.profile(settings.curve.vertices, _scales(clip, frame), settings.pixels.floor)
    # The length may still change, but not from one frame to the next by what a hidden tail would gain.
    weights = replace(settings.second_order, keep_length=settings.second_order.keep_length * 1e-2)
    states = {frame: state}
    near = sorted(clip.found, key=lambda other: abs(other - frame))[: settings.body.span]
    for other in near[1:]:
        before = min(states, key=lambda known: abs(known - other))
        start = clip.carried(states[before], before, other)
        problem = focused(problem_of(clip, [other], taper, start, weights), start)
        states[other] = fit(problem, start, weights.iterations).state
        report(f"rehearsing {len(states)} of {len(near)} frames")
    frames = sorted(states)
    return frames, merged([states[other] for other in frames])


def learned(clip: Clip, frames: list[int], states: FrameState, body: Body) -> Beginning:
    """The body and the cameras from a choice of the rehearsed frames, and all turned so that the head comes first."""
    settings = clip.settings
    count = min(settings.body.frames, len(frames))
    chosen = np.linspace(0, len(frames) - 1, count).round().astype(int).tolist()
    some, start = [frames[place] for place in chosen], states[chosen]
    body = average_body(settings.body, states.length.median())
    taper = body.profile(settings.curve.vertices, _scales(clip, some[0]), settings.pixels.floor)
    free = replace(settings.second_order, keep_length=0.0)
    problem = focused(problem_of(clip, some, taper, start, free), start)
    rig = Rig(clip.cameras, clip.centres(some), clip.origins(some))
    prior = shared_prior(settings.body, body, count, clip.cameras.count)
    result = learn(problem, rig, start, body, prior, settings.body.iterations)
    clip = replace(clip, cameras=result.cameras)
    whole = body_taper(clip, some, result.body)
    misfit = float(evaluate(problem_of(clip, some, whole, result.state, free), result.state).energy.mean())
    odds = head_odds(clip, frames, states, result.body)
    state, body = result.state, result.body
    if odds < 0:
        state, body = state.reversed(), replace(body, shape=reversed_shape(body.shape))
    best = count // 2
    return Beginning(clip, some[best], state[[best]], body, body_taper(clip, some, body), misfit, abs(odds))


def body_taper(clip: Clip, frames: list[int], body: Body) -> Profile:
    """The body as the views of these frames magnify it."""
    return body.profile(clip.settings.curve.vertices, _scales(clip, frames[0]), clip.settings.pixels.floor)


def average_body(settings: BodySettings, length: Float[Tensor, ""]) -> Body:
    """An animal as it may be before it is seen, alike at both ends."""
    share, blunt, opacity = settings.share, settings.bluntness, settings.opacity
    numbers = torch.tensor([share, blunt, share, blunt, opacity, opacity, settings.depth]).log().to(length)
    tissue = torch.zeros(settings.knots).to(length)
    return Body.of(torch.cat([tissue, numbers, torch.stack([settings.sharp * length, length]).log()]))


def shared_prior(settings: BodySettings, body: Body, frames: int, cameras: int) -> SharedPrior:
    middle = body.numbers()
    tissue = [settings.tissue_spread] * settings.knots
    tissue[0] = tissue[-1] = settings.tip_spread
    taper = [settings.share_spread, settings.bluntness_spread] * 2 + [settings.opacity_spread] * 2
    rig = ([settings.turn_spread] * 3 + [settings.magnification_spread]) * cameras
    # The length itself is free: any lies within a factor of e^10.
    spread = [*rig, *tissue, *taper, settings.depth_spread, settings.sharp_spread, 10.0]
    weight = settings.sure * frames / torch.tensor(spread).to(middle).square()
    return SharedPrior(torch.cat([torch.zeros(len(rig)).to(middle), middle]), weight)


def head_odds(clip: Clip, frames: list[int], states: FrameState, body: Body) -> float:
    """How much speaks for keypoint 0 being the head: it is the blunter end, and worms mostly go forwards."""
    place = torch.linspace(0, 1, states.vertices, device=clip.device)
    width, opacity = body.shape.profile(place, torch.zeros(2, device=clip.device))
    mass = width.square() * opacity
    near = max(1, states.vertices // 10)
    blunter = float((mass[:near].sum() / mass[-near:].sum()).log())
    world = clip.world(states, frames)
    steps = np.diff(frames)
    middle = slice(states.vertices // 4, 3 * states.vertices // 4)
    tangent = states.frames[:-1, middle, :, 0].double().cpu()
    forward = -((world[1:, middle] - world[:-1, middle]) * tangent).sum(-1).mean(1).numpy()
    forward = forward[steps == 1] / float(body.length) if (steps == 1).any() else np.zeros(1)
    spread = forward.std() / np.sqrt(len(forward)) + 1e-3
    return 6.0 * blunter + float(np.clip(forward.mean() / spread, -3, 3))


def reversed_shape(shape: Shape) -> Shape:
    values = {item.name: getattr(shape, item.name) for item in fields(Shape)}
    for part in ("share", "bluntness", "opacity"):
        values[f"head_{part}"], values[f"tail_{part}"] = values[f"tail_{part}"], values[f"head_{part}"]
    return Shape(**{**values, "tissue": shape.tissue.flip(0)})


def _scales(clip: Clip, frame: int) -> Float[Tensor, " camera"]:
    """Magnification of every view, px per mm."""
    views = clip.views([frame], 1.0)
    return scale(views.cameras, torch.zeros(1, 1, 3, device=clip.device))[0]
