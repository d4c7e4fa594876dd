"""Learning what all frames share: the animal's length, width and opacity, and what its calibration got wrong.

A feature-free bundle adjustment. Every frame keeps its own unknowns; the body's and the cameras' few numbers are
shared. Each frame's unknowns are eliminated (Schur complement), the shared step is solved for, and the frames follow.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from midline3d.appearance import KNOTS, LONGEST, WIDEST, Optics, Profile, Shape, optics, shape_derivatives
from midline3d.cameras import Cameras, projection_jacobian, refined, refinement_jacobian, scale
from midline3d.curve import rotation_exp, rotation_log
from midline3d.fitting.damping import Damping
from midline3d.fitting.second_order import Evaluation, Problem, add_priors, evaluate, take_step
from midline3d.kernels import System
from midline3d.kernels.normal import assemble, shift_and_appearance_derivatives, vertex_derivatives
from midline3d.settings import BodySettings
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState

_NAMES = [item.name for item in fields(Shape)]
TIPS = slice(_NAMES.index("head_tip"), _NAMES.index("tail_tip") + 1)
"""Where the tips stand among `Shape`'s numbers."""
LONGEST_STEP = 0.3
"""Most that a step may change one of the body's numbers, most of which are logarithms: further off the equations say
nothing."""
SETTLED = 0.03
"""Energy: learning has converged once an iteration gains less. Relative to the energy itself, which is mostly noise, it
would stop long before the ends have found their place."""

ROUNDED = (1e-7, 1e-6, 1e-5, 1e-4)
"""Shares of a frame's largest diagonal element that are added to all where its normal equations are not positive."""

DAMPING = Damping(least=1e-7)
"""Some hundred numbers of all frames together are known better than those of one."""


@dataclass(frozen=True)
class Body:
    """The animal's own constants."""

    shape: Shape
    sharp: Float[Tensor, ""]
    """sigma of its middle in perfect focus, mm."""
    length: Float[Tensor, ""]
    """mm."""
    unsure: tuple[float, float] = (0.0, 0.0)
    """Standard deviations of where the head ends and where the tail does, of the length (see `tracking.seen_ends`)."""

    def profile(self, vertices: int, scale: Float[Tensor, " camera"], floor: float) -> Profile:
        """The taper in views of the given magnifications (px per mm)."""
        return Profile(self.shape, self.sharp * scale, self.length * scale, vertices, floor, self.unsure)

    def on(self, device: torch.device) -> Body:
        """The same body on another device."""
        shape = Shape(**{item.name: getattr(self.shape, item.name).to(device) for item in fields(Shape)})
        return replace(self, shape=shape, sharp=self.sharp.to(device), length=self.length.to(device))

    def reversed(self) -> Body:
        """The same body read from the other end."""
        shape = self.shape
        return replace(
            self,
            shape=Shape(
                head_share=shape.tail_share,
                head_bluntness=shape.tail_bluntness,
                tail_share=shape.head_share,
                tail_bluntness=shape.head_bluntness,
                head_tip=shape.tail_tip,
                tail_tip=shape.head_tip,
                head_opacity=shape.tail_opacity,
                tail_opacity=shape.head_opacity,
                depth=shape.depth,
                tissue=shape.tissue.flip(-1),
            ),
            unsure=self.unsure[::-1],
        )

    def numbers(self) -> Float[Tensor, " number"]:
        """All constants, as logarithms: the tissue's, the tapers', the sharp width, the length; but the tips as log
        odds against the widest."""
        *tapers, tissue = (getattr(self.shape, item.name) for item in fields(Shape))
        numbers = torch.stack([*tapers, self.sharp, self.length]).log()
        numbers[TIPS] = torch.stack([self.shape.head_tip, self.shape.tail_tip]).div(WIDEST).logit(eps=1e-6)
        return torch.cat([tissue, numbers])

    @staticmethod
    def of(numbers: Float[Tensor, " number"]) -> Body:
        tapers = len(_NAMES) - 1
        tissue, others = numbers[: -tapers - 2], numbers[-tapers - 2 :]
        rest = torch.cat([others[: TIPS.start].exp(), WIDEST * others[TIPS].sigmoid(), others[TIPS.stop :].exp()])
        shape = Shape(**dict(zip(_NAMES, [*rest[:tapers], tissue], strict=True)))
        return Body(shape, rest[-2], rest[-1])


def average_body(settings: BodySettings, length: Float[Tensor, ""]) -> Body:
    """An animal as it may be before it is seen."""
    head, tail = (settings.head_share, settings.head_bluntness), (settings.tail_share, settings.tail_bluntness)
    opacity = (settings.opacity, settings.opacity)
    numbers = (*head, *tail, settings.head_tip, settings.tail_tip, *opacity, settings.depth)
    shape = {name: torch.tensor(number).to(length) for name, number in zip(_NAMES[:-1], numbers, strict=True)}
    return Body(Shape(**shape, tissue=torch.zeros(len(KNOTS)).to(length)), settings.sharp * length, length)


@dataclass(frozen=True)
class Rig:
    """The cameras before any refinement, and where the frames lie in their world."""

    cameras: Cameras
    """float64."""
    centres: Float[Tensor, "batch 3"]
    """Local origins of the frames, mm."""
    crops: Float[Tensor, "batch camera 2"]
    """First pixels of the crops, px."""

    @property
    def pivot(self) -> Float[Tensor, " 3"]:
        """The point about which cameras turn and magnify, mm: the mean of the frames' places."""
        return self.centres.mean(0)

    def refined(self, change: Float[Tensor, "camera 4"]) -> Cameras:
        """The whole rig after a change of every camera (see `cameras.refined`)."""
        return refined(self.cameras, change.to(self.cameras.focal), self.pivot)

    def local(self, change: Float[Tensor, "camera 4"]) -> Cameras:
        """The refined cameras as each frame sees them, in the changes' own dtype and device."""
        cameras = self.refined(change.double().cpu()).local(self.centres, self.crops)
        return cameras.to(change.dtype).to(change.device)


@dataclass(frozen=True)
class Shared:
    """What all frames have in common: the body's numbers, and four of every camera (see `cameras.refined`)."""

    body: Float[Tensor, " number"]
    cameras: Float[Tensor, "camera 4"]

    @staticmethod
    def unchanged(body: Body, cameras: int) -> Shared:
        """A body, and cameras as they were calibrated."""
        numbers = body.numbers()
        return Shared(numbers, numbers.new_zeros(cameras, 4))

    def stepped(self, step: Float[Tensor, " shared"]) -> Shared:
        """After a step of `flat`'s numbers, none of the body's longer than `LONGEST_STEP`."""
        count = self.cameras.numel()
        turned = self.cameras + step[:count].view_as(self.cameras)
        return Shared(self.body + step[count:].clamp(-LONGEST_STEP, LONGEST_STEP), turned)

    def flat(self) -> Float[Tensor, " shared"]:
        """All numbers in one row, the cameras' first."""
        return torch.cat([self.cameras.flatten(), self.body])


@dataclass(frozen=True)
class SharedPrior:
    """Where the shared numbers lie before any image is seen: normal, the body's in their logarithms."""

    middle: Float[Tensor, " shared"]
    weight: Float[Tensor, " shared"]

    def energy(self, shared: Shared) -> Float[Tensor, ""]:
        """What the shared numbers cost by how far they lie from the middle."""
        return (self.weight * (shared.flat() - self.middle).square()).sum()


@dataclass(frozen=True)
class Learned:
    """What came out of learning: the body, the cameras, and the frames that it was learned from."""

    body: Body
    cameras: Cameras
    """The whole rig, refined; float64."""
    change: Float[Tensor, "camera 4"]
    state: FrameState
    energy: float
    iterations: int


@dataclass(frozen=True)
class _Point:
    """Where the learning stands."""

    shared: Shared
    problem: Problem
    at: Evaluation
    energy: float


def learn(
    problem: Problem,
    rig: Rig,
    state: FrameState,
    shared: Shared,
    prior: SharedPrior,
    iterations: int,
    settled: float = SETTLED,
) -> Learned:
    """The body, the cameras and all frames together, by Levenberg-Marquardt from where they stand, until an iteration
    gains less than `settled`."""
    here = _evaluated(problem, rig, prior, shared, state)
    system = _system(here, rig)
    damping, done = torch.tensor(DAMPING.first, dtype=torch.float64), 0
    while done < iterations and damping < DAMPING.most:
        done += 1
        own, step = _step(here, system, prior, float(damping))
        there = _evaluated(problem, rig, prior, here.shared.stepped(step), take_step(here.problem, here.at.state, own))
        gain = here.energy - there.energy
        better = DAMPING.better(damping.new_tensor(here.energy), damping.new_tensor(there.energy))
        damping = DAMPING.next(damping, better)
        if better:
            here = there
        if 0 < gain < settled:
            break
        if better and done < iterations:
            system = _system(here, rig)
    shared, state = _turned_back(here.shared, rig, here.at.state)
    energy = here.energy - float(prior.energy(here.shared) - prior.energy(shared))
    whole = rig.refined(shared.cameras.double().cpu())
    return Learned(Body.of(shared.body), whole, shared.cameras, state, energy, done)


def _turned_back(shared: Shared, rig: Rig, state: FrameState) -> tuple[Shared, FrameState]:
    """The same pictures, without what all cameras were turned by alike: that is the world's turn, which no image tells.

    A world that may turn does: by a degree or so while it was learned in simulated recordings, by four in a real one.
    """
    rotation, turns = rig.cameras.rotation[0].cpu(), rotation_exp(shared.cameras[:, :3].double().cpu())
    back = torch.eye(3, dtype=torch.float64)
    for _ in range(2):  # the mean of turns is itself one only for small ones, such as the first time leaves
        alike = (rotation.mT @ rotation_log(turns)[..., None]).mean(0).mT
        turn = rotation_exp(alike)[0]
        turns, back = turns @ rotation @ turn.mT @ rotation.mT, turn @ back
    arm = (rig.centres - rig.pivot).cpu()
    moved = (arm @ back.mT - arm)[:, None]
    world = back.to(state.points)
    turned = replace(state, points=state.points @ world.mT + moved.to(state.points), bishop=world @ state.bishop)
    cameras = torch.cat([rotation_log(turns).to(shared.cameras), shared.cameras[:, 3:]], 1)
    return replace(shared, cameras=cameras), turned


def _evaluated(problem: Problem, rig: Rig, prior: SharedPrior, shared: Shared, state: FrameState) -> _Point:
    body = Body.of(shared.body)
    cameras = rig.local(shared.cameras)
    magnification = scale(cameras, torch.zeros_like(state.points[:, :1])).mean(0)
    taper = body.profile(state.vertices, magnification, problem.taper.floor)
    problem = replace(problem, taper=taper, views=replace(problem.views, cameras=cameras))
    long, middle = replace(state, length=body.length.expand(len(state))), state.vertices // 2
    made = problem.kernels.through(
        long.points[:, middle], long.bishop[:, middle], long.curvature, long.length, state.middle()
    )
    at = evaluate(problem, replace(long, points=made.points, bishop=made.bishop))
    return _Point(shared, problem, at, float(at.energy.sum() + prior.energy(shared)))


@dataclass(frozen=True)
class SchurComplement:
    """The shared numbers' normal equations, every frame's own unknowns eliminated (Schur complement)."""

    hessian: Float[Tensor, "shared shared"]
    slope: Float[Tensor, " shared"]
    own: list[int]
    """Places of the unknowns that are a frame's own."""
    solved: Float[Tensor, "batch own shared_and_one"]
    """What a frame's own unknowns follow the shared ones by, and in the last column by themselves."""


def _schur_complement(here: _Point, system: System, damping: float) -> SchurComplement:
    layout, hessian, gradient = here.problem.layout, system.hessian, system.gradient
    count = layout.count
    # The length's column among the frame's unknowns is the body's last number, for all frames.
    own = [index for index in range(count) if index != layout.length]
    common = [*range(count, hessian.shape[1]), layout.length]
    frames, coupling = hessian[:, own][:, :, own], hessian[:, own][:, :, common]
    diagonal = torch.diagonal(frames, dim1=1, dim2=2)
    diagonal += damping * diagonal + 1e-9 * diagonal.amax(1, keepdim=True)
    solved = torch.cholesky_solve(torch.cat([coupling, gradient[:, own, None]], -1), _factor(frames))
    reduced = (hessian[:, common][:, :, common] - coupling.mT @ solved[..., :-1]).sum(0)
    slope = (gradient[:, common] - (coupling.mT @ solved[..., -1:]).squeeze(-1)).sum(0)
    return SchurComplement(reduced, slope, own, solved)


def _factor(frames: Float[Tensor, "batch own own"]) -> Float[Tensor, "batch own own"]:
    """Cholesky factors of the frames' normal equations.

    The pixels' sums are float32, so that what a frame hardly knows can come out negative by their rounding: a worm that
    leaves the picture had -1e-3 beside 3e4. Such frames are damped until they can be solved, the others are left alone.
    """
    largest = torch.diagonal(frames, dim1=1, dim2=2).amax(1)
    more = torch.zeros_like(largest)
    for share in ROUNDED:
        factor, failed = torch.linalg.cholesky_ex(_with_diagonal(frames, more))
        if not bool(failed.any()):
            return factor
        more = torch.where(failed > 0, share * largest, more)
    return torch.linalg.cholesky(_with_diagonal(frames, more))


def _with_diagonal(frames: Float[Tensor, "batch own own"], more: Float[Tensor, " batch"]) -> Tensor:
    """The matrices with a number of their own added to the whole diagonal of each."""
    return frames + torch.diag_embed(more[:, None].expand(-1, frames.shape[1]))


def _step(
    here: _Point, system: System, prior: SharedPrior, damping: float
) -> tuple[Float[Tensor, "batch unknown"], Float[Tensor, " shared"]]:
    """Steps of the frames' unknowns and of the shared numbers, each frame's own length held by the body's."""
    reduced, weight = _schur_complement(here, system, damping), prior.weight.double()
    hessian = reduced.hessian + torch.diag(weight + damping * torch.diagonal(reduced.hessian).clamp(min=1e-6))
    slope = reduced.slope + weight * (here.shared.flat() - prior.middle).double()
    step = -torch.linalg.solve(hessian, slope)
    frames, count = len(system.hessian), here.problem.layout.count
    full = torch.zeros(frames, count, dtype=torch.float64, device=step.device)
    full[:, reduced.own] = -(reduced.solved[..., -1] + reduced.solved[..., :-1] @ step)
    dtype = here.shared.body.dtype
    return full.to(dtype), step.to(dtype)


def length_variance(problem: Problem, rig: Rig, state: FrameState, shared: Shared, prior: SharedPrior) -> float:
    """Variance of the logarithm of the length by all frames together, everything else free, for each unit of energy.

    The energy rises by 1 where the length is off by the root of it and all else has followed.
    """
    here = _evaluated(problem, rig, prior, shared, state)
    hessian = _schur_complement(here, _system(here, rig), 0.0).hessian + torch.diag(prior.weight.double())
    last = torch.zeros(len(hessian), dtype=hessian.dtype, device=hessian.device)
    last[-1] = 1.0
    return float(torch.linalg.solve(hessian, last)[-1])


def _system(here: _Point, rig: Rig) -> System:
    """H and g of every frame's unknowns, the cameras' numbers, and the body's but the length; float64."""
    problem, at = here.problem, here.at
    cameras, state, weight = problem.views.cameras, at.state, problem.weights.pixels
    pivot = (rig.pivot - rig.centres).to(state.points)
    seen = optics(cameras, state.points, state.bishop[..., 0])
    others = torch.cat(
        [
            shift_and_appearance_derivatives(state, at.appearance, cameras, problem.layout),
            _by_cameras(refinement_jacobian(cameras, state.points, pivot)),
            _by_body(shape_derivatives(problem.taper, state.view_appearance, seen)),
        ],
        -1,
    )
    pixels = assemble(at.products, _coordinates(here), _by_coordinates(here, seen), others)
    system = add_priors(problem, at, System(weight * pixels.hessian, weight * pixels.gradient))
    return System(system.hessian.double(), system.gradient.double())


def _coordinates(here: _Point) -> Float[Tensor, "batch vertex 9 unknown"]:
    """What the views see of a vertex, by the unknowns that move vertices: its place, the mean of all, its tangent."""
    state = here.at.state
    places = vertex_derivatives(state, here.problem.basis)
    middle = places.mean(1, keepdim=True).expand_as(places)
    return torch.cat([places, middle, _tangent_derivatives(state, places)], 2)


def _by_coordinates(here: _Point, seen: Optics) -> Float[Tensor, "batch camera vertex 4 9"]:
    """Each blob's u, v, sigma and iota by `_coordinates`: where it lies, and how it looks from there.

    While a frame is fitted, the light's way through the body and its distance from focus are made anew after every step
    and held during it. Here they count: what they would gain along the body is as much as its length hangs on.
    """
    problem, state, appearance = here.problem, here.at.state, here.at.appearance
    cameras = problem.views.cameras
    out = appearance.sigma.new_zeros(*appearance.sigma.shape, 4, 9)
    out[..., :2, :3] = projection_jacobian(cameras, state.points)
    axis = cameras.rotation[:, :, None, 2]
    blurred = appearance.by_view[..., 2] / torch.where(seen.beyond.abs() > 1e-6, seen.beyond, 1e-6)[..., None]
    focus = (blurred * state.defocus[:, :, None, None])[..., None] * axis[..., None, :]
    out[..., 2:, :3], out[..., 2:, 3:6] = focus, -focus
    along = (axis * state.bishop[:, None, :, :, 0]).sum(-1)
    longer = torch.where(seen.stretch < LONGEST, along * seen.stretch.square(), 0.0)
    out[..., 3, 6:] = (appearance.iota * problem.taper.shape.depth * longer)[..., None] * axis
    return out


def _tangent_derivatives(state: FrameState, places: Tensor) -> Float[Tensor, "batch vertex 3 unknown"]:
    """dT of every vertex, by differences of its neighbours' dP."""
    ahead, behind = places.roll(-1, 1), places.roll(1, 1)
    ahead[:, -1], behind[:, 0] = places[:, -1], places[:, 0]
    steps = places.new_full((state.vertices, 1, 1), 2.0)
    steps[0] = steps[-1] = 1.0
    moved_by = (ahead - behind) / steps * (state.vertices - 1) / state.length[:, None, None, None]
    tangent = state.bishop[..., 0][..., None]
    return moved_by - tangent * (tangent * moved_by).sum(2, keepdim=True)


def _by_cameras(
    jacobian: Float[Tensor, "batch camera vertex 2 4"],
) -> Float[Tensor, "batch camera vertex 5 number"]:
    """Each blob's five numbers by all cameras' numbers: only a camera's own move its blobs."""
    count = jacobian.shape[1]
    out = jacobian.new_zeros(*jacobian.shape[:3], 5, 4 * count)
    for camera in range(count):
        out[:, camera, :, :2, 4 * camera : 4 * camera + 4] = jacobian[:, camera]
    return out


def _by_body(
    derivatives: Float[Tensor, "batch camera vertex 2 number"],
) -> Float[Tensor, "batch camera vertex 5 number"]:
    """Each blob's five numbers by the body's but the length, from those of sigma and iota."""
    return torch.nn.functional.pad(derivatives, (0, 0, 2, 1))
