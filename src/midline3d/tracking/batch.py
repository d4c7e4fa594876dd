"""Many clips followed at once on one device, each at its own pace.

A slot holds one clip. A tick is one Levenberg-Marquardt trial of every slot, decided on the device alone: a slot whose
frame has settled writes it down and takes its next one at once, while the others go on. Nothing waits for the host, so
that on a GPU the tick is recorded once as a CUDA graph and then replayed; on the CPU it just runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch

from midline3d import scoring
from midline3d.appearance import Profile, Shape
from midline3d.cameras import Cameras, scale
from midline3d.fitting.normal import spline_basis
from midline3d.fitting.second_order import Problem, evaluate, focused, moved, normal_equations, solve
from midline3d.fitting.views import Views
from midline3d.rendering import Objective
from midline3d.settings import Settings
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import Bounds, FrameState, merged, where
from midline3d.tracking.begin import Beginning
from midline3d.tracking.clip import Clip

WATCHED = 32
"""Ticks between two looks at how far the slots have come, on a GPU."""
RENEWED = 0.25
"""Share of the slots that may take a new frame in one tick: a frame takes six or so, more places would stay empty."""


@dataclass(frozen=True)
class Reel:
    """A clip's frames in the order in which they are followed, and where the animal was before the first of them."""

    beginning: Beginning
    frames: list[int]
    state: FrameState
    """A batch of one."""
    at: int
    """Frame of that state."""

    @staticmethod
    def ways(beginning: Beginning) -> list[Reel]:
        """From the beginning to the end, and back to the start, over all frames in which the animal was located."""
        first, found = beginning.frame, beginning.clip.found
        ways = [[frame for frame in found if frame >= first], [frame for frame in reversed(found) if frame < first]]
        return [Reel(beginning, way, beginning.state, first) for way in ways if way]


@dataclass(frozen=True)
class Followed:
    """A reel's outcome, frame by frame in the reel's order."""

    state: FrameState
    energy: Float[Tensor, " frame"]
    iterations: Int[Tensor, " frame"]
    shares: Float[Tensor, "frame vertex"]


@dataclass(frozen=True)
class _Film:
    """What all slots look at: every clip's frames one after the other, and what is told of each."""

    images: Tensor
    """(frame, camera, w, w), 8 bits: an eighth of what floats with their masks would take."""
    centre: Float[Tensor, "frame camera 2"]
    translation: Float[Tensor, "frame camera 3"]
    offset: Float[Tensor, "frame 3"]
    """What carries a state from the frame before into this one's local world, mm."""
    steady: Bool[Tensor, " frame"]
    """Whether the frame and the two before it follow one another directly."""
    first: Int[Tensor, " slot"]
    last: Int[Tensor, " slot"]
    dark: Float[Tensor, "slot camera 1 1"]
    gain: Float[Tensor, "slot camera 1 1"]
    most: Float[Tensor, "slot 1 1 1"]
    """Brightness at which images are cut."""


class Batch:
    """The slots' memory, all of it made once and then written in place, as a CUDA graph wants it."""

    def __init__(self, reels: list[Reel], device: torch.device) -> None:
        clip = reels[0].beginning.clip
        if any(_common(reel.beginning.clip.settings) != _common(clip.settings) for reel in reels):
            raise ValueError("the clips of a batch must share their settings, the contrast aside")
        self.reels, self.device, self.settings = reels, device, clip.settings
        self.film = _film(reels, device)
        slots, (_, *shape) = len(reels), self.film.images.shape
        # The row behind the last takes what is written for nobody.
        self._images = torch.zeros(slots + 1, *shape, device=device)
        self.problem = self._problem(_on(merged([reel.state for reel in reels]), device))
        at = evaluate(self.problem, self.problem.anchor)
        self.at = replace(at, state=_copied(at.state), terms={})
        self.per_mm = scale(self.problem.views.cameras, at.state.points).mean(1)
        self.rows = torch.arange(slots, device=device)
        self.frame = self.film.first.clone()
        self.damping = torch.ones(slots, device=device)
        self.taken = torch.zeros(slots, dtype=torch.long, device=device)
        self.fresh = torch.zeros(slots, dtype=torch.bool, device=device)
        """A frame just taken: its start is held against the images before any step."""
        self.waiting = torch.ones(slots, dtype=torch.bool, device=device)
        """A frame written down, the next not taken yet."""
        self.renewed = max(1, math.ceil(RENEWED * slots)) if slots > 2 else slots
        width = self._record().shape[1]
        self.written = torch.full((len(self.film.images) + 1, width), math.nan, device=device)

    def _problem(self, start: FrameState) -> Problem:
        reels, film, device = self.reels, self.film, self.device
        pixels, curve = self.settings.pixels, self.settings.curve
        rigs = [reel.beginning.clip.cameras for reel in reels]
        fixed = {
            name: torch.cat([getattr(rig, name) for rig in rigs]).float().to(device)
            for name in ("focal", "distortion", "rotation")
        }
        basis = rigs[0].shift_basis
        if any(not torch.allclose(rig.shift_basis, basis) for rig in rigs):
            raise ValueError("the clips of a batch must share the directions of their relative shifts")
        cameras = Cameras(
            centre=film.centre[film.first],
            translation=film.translation[film.first],
            shift_basis=basis.float().to(device),
            **fixed,
        )
        return Problem(
            views=Views(self._images[:-1], cameras),
            taper=_profiles([reel.beginning.taper for reel in reels], device),
            basis=spline_basis(curve.vertices, curve.nodes, torch.float32, device),
            objective=Objective(pixels.cutoff, robust=pixels.robust),
            weights=self.settings.second_order,
            bounds=_widest([reel.beginning.clip for reel in reels]),
            shares=torch.ones(len(reels), curve.vertices, device=device),
            anchor=_copied(start),
        )

    def tick(self) -> None:
        """One trial of every slot, then new frames for those that have settled."""
        problem, at, weights = self.problem, self.at, self.problem.weights
        active = (self.frame <= self.film.last) & ~self.waiting
        step = solve(normal_equations(problem, at), self.damping)
        state = where(self.fresh, at.state, moved(problem, at.state, step))
        trial = evaluate(problem, state)
        better = active & (self.fresh | (trial.energy < at.energy))
        way = (state.points - at.state.points).square().sum(-1).mean(1).sqrt() * self.per_mm
        self.taken += active & ~self.fresh
        settled = active & ~self.fresh & ((way <= weights.settled) | (self.taken >= weights.iterations))
        damped = (self.damping * torch.where(better, 0.2, 8.0)).clamp(1e-6, 1e4)
        self.damping.copy_(torch.where(self.fresh, 1e-3, damped))
        for new, old in zip(_tensors(trial), _tensors(at), strict=True):
            torch.where(better.view(-1, *[1] * (old.ndim - 1)), new, old, out=old)
        self.fresh.zero_()
        self._write(settled)
        self._renew()

    def _record(self) -> Float[Tensor, "slot number"]:
        """What is kept of every slot's frame."""
        at = self.at
        raw = (at.products.overlap / (at.look.sigma * at.look.iota)).amin(1)
        parts = [*vars(at.state).values(), at.energy, self.taken.float(), raw]
        return torch.cat([part.view(len(part), -1) for part in parts], 1)

    def _write(self, settled: Tensor) -> None:
        nobody = len(self.written) - 1
        self.written[torch.where(settled, self.frame, nobody)] = self._record()
        self.frame += settled
        self.waiting |= settled & (self.frame <= self.film.last)

    def _renew(self) -> None:
        """The next frame for the slots that wait, as many as one tick takes: images, cameras, start, mask."""
        film, cameras = self.film, self.problem.views.cameras
        rows = self.waiting.to(torch.int8).topk(self.renewed).indices if self.renewed < len(self.rows) else self.rows
        due = self.waiting[rows]
        frame = torch.minimum(self.frame, film.last)[rows]
        for name in ("centre", "translation"):
            ours = getattr(cameras, name)
            ours[rows] = torch.where(due.view(-1, 1, 1), getattr(film, name)[frame], ours[rows])
        images = film.images[frame].float().sub_(film.dark[rows]).mul_(film.gain[rows])
        images = torch.minimum(images.clamp_(min=0), film.most[rows])
        offset = torch.where(due[:, None], film.offset[frame], 0.0)
        # The anchor is still the frame before, told where the last one was.
        here, before = self.at.state[rows].moved(offset), self.problem.anchor[rows].moved(offset)
        problem = self._part(rows, images, here)
        start = self._start(problem, here, before, film.steady[frame])
        self._images[torch.where(due, rows, len(self.rows))] = focused(problem, start).views.images
        for new, old in ((start, self.at.state), (here, self.problem.anchor)):
            for value, place in zip(vars(new).values(), vars(old).values(), strict=True):
                place[rows] = torch.where(due.view(-1, *[1] * (place.ndim - 1)), value, place[rows])
        self.fresh[rows] |= due
        self.taken[rows] = torch.where(due, 0, self.taken[rows])
        self.waiting.index_fill_(0, rows, False)

    def _part(self, rows: Tensor, images: Tensor, anchor: FrameState) -> Problem:
        """The problem of some slots alone, their images not masked yet."""
        problem, taper = self.problem, self.problem.taper
        shape = Shape(**{name: value[rows] for name, value in vars(taper.shape).items()})
        return replace(
            problem,
            views=Views(images, _rows(problem.views.cameras, rows)),
            taper=replace(taper, shape=shape, sharp=taper.sharp[rows], length=taper.length[rows]),
            shares=problem.shares[rows],
            anchor=anchor,
        )

    def _start(self, problem: Problem, here: FrameState, before: FrameState, steady: Tensor) -> FrameState:
        """Where the animal was, or, where that fits better, where it was going: as `follow` starts a frame."""
        onward = replace(
            here,
            points=2 * here.points - before.points,
            frames=2 * here.frames - before.frames,
            curvature=2 * here.curvature - before.curvature,
        ).clamped(problem.bounds)
        further = steady & (evaluate(problem, onward).energy < evaluate(problem, here).energy)
        return where(further, onward, here)

    def running(self) -> bool:
        """Whether any frame is left: the host waits for the device here, and nowhere else."""
        return bool((self.frame <= self.film.last).any())

    def done(self) -> int:
        """Frames written down so far, of all slots."""
        return int((self.frame - self.film.first).sum())

    def followed(self) -> list[Followed]:
        """Every reel's outcome, on the CPU."""
        written = self.written.cpu()
        results = []
        for slot, reel in enumerate(self.reels):
            first = int(self.film.first[slot])
            part = written[first : first + len(reel.frames)]
            values, place = {}, 0
            for name, value in vars(self.at.state).items():
                values[name] = part[:, place : place + value[0].numel()].reshape(len(part), *value.shape[1:])
                place += value[0].numel()
            shares = scoring.relative(scoring.single_peak(part[:, place + 2 :]))
            results.append(Followed(FrameState(**values), part[:, place], part[:, place + 1].long(), shares))
        return results


@torch.no_grad()
def follow_all(
    reels: list[Reel], device: torch.device, progress: Callable[[int, int], None] | None = None
) -> list[Followed]:
    """All reels from their first frame to their last; `progress` is told the frames done and all there are."""
    batch = Batch(reels, device)
    total = sum(len(reel.frames) for reel in reels)
    run, ticks = (record(batch), WATCHED) if device.type == "cuda" else (batch.tick, 1)
    while batch.running():
        for _ in range(ticks):
            run()
        if progress:
            progress(batch.done(), total)
    return batch.followed()


@torch.no_grad()
def record(batch: Batch, fused: bool = False) -> Callable[[], None]:
    """The tick as a CUDA graph. The ticks that warm it up are the first of the run.

    Fused by torch.compile a tick has fewer kernels and takes half the time; compiling it takes some 40 s.
    """
    tick = torch.compile(batch.tick, dynamic=False) if fused else batch.tick
    side = torch.cuda.Stream(batch.device)
    side.wait_stream(torch.cuda.current_stream(batch.device))
    with torch.cuda.stream(side):
        for _ in range(3):
            tick()
    torch.cuda.current_stream(batch.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tick()
    return graph.replay


def _film(reels: list[Reel], device: torch.device) -> _Film:
    images, centre, translation, offset, steady, dark, gain, most = [], [], [], [], [], [], [], []
    for reel in reels:
        clip = reel.beginning.clip
        images.append(clip.pixels(reel.frames).to(device))
        cameras = clip.cameras.local(clip.centres(reel.frames), clip.origins(reel.frames))
        centre.append(cameras.centre)
        translation.append(cameras.translation)
        places = clip.centres([reel.at, *reel.frames])
        offset.append(places[:-1] - places[1:])
        step = torch.tensor([reel.at, reel.at, *reel.frames]).diff().abs() == 1
        steady.append(step[1:] & step[:-1])
        dark.append(torch.from_numpy(clip.prepared.offset))
        gain.append(clip.settings.pixels.contrast / clip.brightness)
        most.append(torch.tensor(2 * clip.settings.pixels.contrast))
    ends = torch.tensor([len(reel.frames) for reel in reels]).cumsum(0)
    first = torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]])

    def told(parts: list[Tensor], join: Callable[[list[Tensor]], Tensor] = torch.cat) -> Tensor:
        return join([part.cpu() for part in parts]).float().to(device)

    return _Film(
        images=torch.cat(images),
        centre=told(centre),
        translation=told(translation),
        offset=told(offset),
        steady=torch.cat(steady).to(device),
        first=first.to(device),
        last=(ends - 1).to(device),
        dark=told(dark, torch.stack)[..., None, None],
        gain=told(gain, torch.stack)[..., None, None],
        most=told(most, torch.stack)[..., None, None, None],
    )


def _common(settings: Settings) -> Settings:
    """The settings less the contrast, which follows each recording's noise."""
    return replace(settings, pixels=replace(settings.pixels, contrast=0.0))


def _widest(clips: list[Clip]) -> Bounds:
    """Bounds that hold for every clip: those of the intensity follow the contrast."""
    own = [clip.bounds(clip.settings.pixels.contrast) for clip in clips]
    return replace(own[0], iota=(min(each.iota[0] for each in own), max(each.iota[1] for each in own)))


def _profiles(tapers: list[Profile], device: torch.device) -> Profile:
    """The animals' tapers as one, a row for each slot."""

    def stacked(values: list[Tensor]) -> Tensor:
        return torch.stack([value.to(device) for value in values])

    numbers = {item.name: stacked([getattr(taper.shape, item.name) for taper in tapers]) for item in fields(Shape)}
    shape = {name: value.view(len(tapers), 1, -1) for name, value in numbers.items()}
    return replace(
        tapers[0],
        shape=Shape(**shape),
        sharp=stacked([taper.sharp for taper in tapers]),
        length=stacked([taper.length for taper in tapers]),
    )


def _rows(cameras: Cameras, rows: Tensor) -> Cameras:
    values = {name: value if name == "shift_basis" else value[rows] for name, value in vars(cameras).items()}
    return Cameras(**values)


def _on(state: FrameState, device: torch.device) -> FrameState:
    return FrameState(**{name: value.to(device) for name, value in vars(state).items()})


def _copied(state: FrameState) -> FrameState:
    return FrameState(**{name: value.clone() for name, value in vars(state).items()})


def _tensors(evaluation: object) -> list[Tensor]:
    """All tensors of an evaluation in a fixed order, the energy's terms aside."""
    found: list[Tensor] = []
    for value in vars(evaluation).values():
        if isinstance(value, Tensor):
            found.append(value)
        elif not isinstance(value, dict):
            found += _tensors(value)
    return found
