"""Many clips followed at once on one device, each at its own pace.

A slot holds one clip. A tick is one Levenberg-Marquardt trial of every slot, decided on the device alone: a slot whose
frame has settled writes it down and takes its next one at once, while the others go on. Nothing waits for the host, so
that on a GPU the tick is recorded once as a CUDA graph and then replayed; on the CPU it just runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import torch

from midline3d.appearance import Profile, Shape
from midline3d.cameras import packed_cameras, unpacked_cameras
from midline3d.fitting.second_order import (
    DAMPING,
    TERMS,
    Evaluation,
    Fit,
    Problem,
    evaluate,
    normal_equations,
    take_step,
)
from midline3d.fitting.views import Views
from midline3d.kernels import System, spline_basis
from midline3d.rendering import Objective
from midline3d.shapes import Bool, Float, Int, Tensor
from midline3d.state import Bounds, FrameState, merged, packed, unpacked
from midline3d.tracking.begin import Beginning
from midline3d.tracking.clip import Clip, balanced
from midline3d.tracking.evidence import Evidence, evidence

RENEWED = 0.25
"""Share of the slots that may take a new frame in one tick: a frame takes six or so, more places would stay empty."""
JUDGED_AT_ONCE = 128
"""Frames whose evidence is taken at once: at three views of 200 px they want some hundred MB."""


@dataclass(frozen=True)
class FrameSequence:
    """A clip's frames in the order in which they are followed, and where the animal was before the first of them."""

    beginning: Beginning
    frames: list[int]
    state: FrameState
    """A batch of one."""
    at: int
    """Frame of that state."""

    @staticmethod
    def directions(beginning: Beginning) -> list[FrameSequence]:
        """From the beginning to the end, and back to the start, over all frames in which the animal was located."""
        first, found = beginning.frame, beginning.clip.found
        directions = [
            [frame for frame in found if frame >= first],
            [frame for frame in reversed(found) if frame < first],
        ]
        return [FrameSequence(beginning, direction, beginning.state, first) for direction in directions if direction]


@dataclass(frozen=True)
class _FrameBank:
    """What all slots look at: every clip's frames one after the other, and what is known of each."""

    images: Tensor
    """(frame, camera, w, w), 8 bits: an eighth of what floats with their masks would take."""
    rig: Float[Tensor, "frame number"]
    """The cameras in every frame's local world, rows of `packed_cameras`."""
    offset: Float[Tensor, "frame 3"]
    """What carries a state from the frame before into this one's local world, mm."""
    steady: Bool[Tensor, " frame"]
    """Whether the frame and the two before it follow one another directly."""
    first: Int[Tensor, " slot"]
    last: Int[Tensor, " slot"]
    picture: Float[Tensor, "frame camera 4"] | None
    """What the cameras' pictures cover of the crops (see `Views.picture`)."""
    dark: Float[Tensor, "slot camera 1 1"]
    gain: Float[Tensor, "slot camera 1 1"]


class Batch:
    """The slots' memory, all of it made once and then written in place, as a CUDA graph wants it."""

    def __init__(self, sequences: list[FrameSequence], device: torch.device) -> None:
        clip = sequences[0].beginning.clip
        if any(sequence.beginning.clip.settings != clip.settings for sequence in sequences):
            raise ValueError("the clips of a batch must share their settings")
        self.sequences, self.device, self.settings = sequences, device, clip.settings
        self.bank = bank = _frame_bank(sequences, device)
        slots = len(sequences)
        start = merged([sequence.state.to(device) for sequence in sequences])
        self._like = start
        # The row behind the last takes what is written for nobody.
        self._images = torch.zeros(slots + 1, *bank.images.shape[1:], device=device)
        self._anchor = _extended(packed(start))
        self._rig = _extended(bank.rig[bank.first])
        self.problem = self._problem()
        self._kept = _extended(self._row(evaluate(self.problem, start)))
        self.rows = torch.arange(slots, device=device)
        # The recording's, not the first frame's: a run that goes on in the middle must settle where it would have.
        self.per_mm = torch.stack([_per_mm(sequence.beginning) for sequence in sequences]).to(device)
        self.frame = bank.first.clone()
        self.damping = torch.ones(slots, device=device)
        self.taken = torch.zeros(slots, dtype=torch.long, device=device)
        self.fresh = torch.zeros(slots, dtype=torch.bool, device=device)
        """A frame just taken: its start is held against the images before any step."""
        self.waiting = torch.ones(slots, dtype=torch.bool, device=device)
        """A frame written down, the next not taken yet."""
        self.renewed = max(1, math.ceil(RENEWED * slots)) if slots > 2 else slots
        self.written = torch.full((len(bank.images) + 1, self._written() + 1), math.nan, device=device)
        """Of every frame what `_row` begins with, up to the system, and the iterations."""

    def _problem(self) -> Problem:
        sequences, device = self.sequences, self.device
        pixels, curve = self.settings.pixels, self.settings.curve
        rigs = [sequence.beginning.clip.cameras for sequence in sequences]
        basis = rigs[0].shift_basis
        if any(not torch.allclose(rig.shift_basis, basis) for rig in rigs):
            raise ValueError("the clips of a batch must share the directions of their relative shifts")
        return Problem(
            views=Views(self._images[:-1], unpacked_cameras(self._rig[:-1], basis.float().to(device))),
            taper=_profiles([sequence.beginning.taper for sequence in sequences], device),
            basis=spline_basis(curve.vertices, curve.nodes, torch.float32, device),
            objective=Objective(pixels.cutoff, robust=pixels.robust),
            weights=self.settings.second_order,
            bounds=_widest([sequence.beginning.clip for sequence in sequences]),
            anchor=self._unpacked(self._anchor[:-1]),
        )

    def _unpacked(self, rows: Float[Tensor, "slot number"]) -> FrameState:
        return unpacked(rows, self._like)

    def _row(self, at: Evaluation) -> Float[Tensor, "slot number"]:
        """All that is kept of an evaluation: state, energy, its terms, and the system of the next step."""
        system = normal_equations(self.problem, at)
        numbers = torch.stack([at.energy, *at.terms.values()], 1)
        return torch.cat([packed(at.state), numbers, system.gradient, system.hessian.flatten(1)], 1)

    def _written(self) -> int:
        """How much of a slot's row is written down."""
        return self._kept.shape[1] - self.problem.layout.count * (self.problem.layout.count + 1)

    def tick(self) -> None:
        """One trial of every slot, then new frames for those that have settled."""
        problem, weights = self.problem, self.problem.weights
        kept = self._kept[:-1]
        size = self._anchor.shape[1]
        gradient, hessian = kept[:, self._written() :].split([problem.layout.count, problem.layout.count**2], 1)
        old, energy = self._unpacked(kept), kept[:, size]
        step = problem.kernels.solve(System(hessian.unflatten(1, (problem.layout.count, -1)), gradient), self.damping)
        tried = torch.where(self.fresh[:, None], kept[:, :size], packed(take_step(problem, old, step)))
        trial = evaluate(problem, self._unpacked(tried))
        active = (self.frame <= self.bank.last) & ~self.waiting
        stepped = active & ~self.fresh
        better = active & (self.fresh | DAMPING.better(energy, trial.energy))
        travelled = (trial.state.points - old.points).square().sum(-1).mean(1).sqrt() * self.per_mm
        self.taken += stepped
        settled = stepped & ((travelled <= weights.settled) | (self.taken >= weights.iterations))
        self.damping.copy_(torch.where(self.fresh, DAMPING.first, DAMPING.next(self.damping, better)))
        torch.where(better[:, None], self._row(trial), kept, out=kept)
        self.fresh.zero_()
        self._write(settled)
        self._renew()

    def _write(self, settled: Tensor) -> None:
        row = torch.cat([self._kept[:-1, : self._written()], self.taken[:, None].float()], 1)
        self.written[torch.where(settled, self.frame, len(self.written) - 1)] = row
        self.frame += settled
        self.waiting |= settled & (self.frame <= self.bank.last)

    def _renew(self) -> None:
        """The next frame for the slots that wait, as many as one tick takes: images, cameras, start."""
        bank, slots = self.bank, len(self.rows)
        rows = self.waiting.to(torch.int8).topk(self.renewed).indices if self.renewed < slots else self.rows
        due = self.waiting[rows]
        frame = torch.minimum(self.frame[rows], bank.last[rows])
        # Where nothing is due all goes to the row that is nobody's.
        target = torch.where(due, rows, slots)
        self._rig[target] = bank.rig[frame]
        size = self._anchor.shape[1]
        # The anchor is still the frame before, in the local world of the last one.
        here, before = (
            self._unpacked(state[rows]).translated(bank.offset[frame]) for state in (self._kept[:, :size], self._anchor)
        )
        start, images = self._start(rows, frame, here, before)
        self._images[target] = images
        self._kept[target, :size], self._anchor[target] = start, packed(here)
        self.fresh[rows] |= due
        self.taken[rows] = torch.where(due, 0, self.taken[rows])
        self.waiting.index_fill_(0, rows, False)

    def images(self, frame: Tensor, slot: Tensor) -> Float[Tensor, "frame camera height width"]:
        """Frames of the bank at the brightness that their slots' clips ask for."""
        bank = self.bank
        return balanced(bank.images[frame].float().sub_(bank.dark[slot]).mul_(bank.gain[slot]))

    def part(self, slot: Tensor, frame: Tensor, images: Tensor, anchor: FrameState, whole: bool = False) -> Problem:
        """The problem of frames of the bank, each as its slot sees it; whole: as if pictures had no border, as a tick
        takes them."""
        problem, taper, basis = self.problem, self.problem.taper, self.problem.views.cameras.shift_basis
        shape = Shape(**{name: value[slot] for name, value in vars(taper.shape).items()})
        picture = None if whole or self.bank.picture is None else self.bank.picture[frame]
        return replace(
            problem,
            views=Views(images, unpacked_cameras(self.bank.rig[frame], basis), picture),
            taper=replace(taper, shape=shape, sharp=taper.sharp[slot], length=taper.length[slot]),
            anchor=anchor,
        )

    def _start(self, slot: Tensor, frame: Tensor, here: FrameState, before: FrameState) -> tuple[Tensor, Tensor]:
        """Where the animal was, or, where that fits better, where it was going: as `follow` starts a frame. And the
        frame's images."""
        onward = replace(
            here,
            points=2 * here.points - before.points,
            bishop=2 * here.bishop - before.bishop,
            curvature=2 * here.curvature - before.curvature,
        )
        onward = self.problem.kernels.clamped(onward, self.problem.bounds)
        count, images = len(slot), self.images(frame, slot)
        # Both in one batch: launches are what a few slots cost.
        starts = torch.cat([packed(here), packed(onward)])
        anchor = self._unpacked(starts[:count].repeat(2, 1))
        both = self.part(slot.repeat(2), frame.repeat(2), images.repeat(2, 1, 1, 1), anchor, whole=True)
        energy = evaluate(both, self._unpacked(starts)).energy
        further = self.bank.steady[frame] & (energy[count:] < energy[:count])
        return torch.where(further[:, None], starts[count:], starts[:count]), images

    def running(self) -> bool:
        """Whether any frame is left: the host waits for the device here."""
        return bool((self.frame <= self.bank.last).any())

    def done(self) -> list[int]:
        """Frames written down so far, of every slot."""
        return (self.frame - self.bank.first).tolist()

    def fits(self, ready: Mapping[int, range]) -> dict[int, tuple[Fit, Evidence]]:
        """What slots have written of their sequences' frames at these places, on the CPU, and what speaks for it."""
        found: dict[int, tuple[Fit, Evidence]] = {}
        clips = {id(self.sequences[slot].beginning.clip): self.sequences[slot].beginning.clip for slot in ready}
        for own, clip in clips.items():
            slots = [slot for slot in ready if id(self.sequences[slot].beginning.clip) == own]
            counts = [len(ready[slot]) for slot in slots]
            places = torch.tensor([place for slot in slots for place in ready[slot]], device=self.device)
            rows = torch.tensor(slots, device=self.device).repeat_interleave(torch.tensor(counts, device=self.device))
            fit, observed = self._judged(clip, rows, places + self.bank.first[rows])
            first = 0
            for slot, count in zip(slots, counts, strict=True):
                part = list(range(first, first + count))
                found[slot], first = (fit[part], observed[part]), first + count
        return found

    def _judged(self, clip: Clip, slot: Tensor, frame: Tensor) -> tuple[Fit, Evidence]:
        """What was written of frames of the bank by slots of one clip, some at a time."""
        contrast, noise = clip.contrast.to(self.device), clip.noise.to(self.device)
        unsure = self.sequences[int(slot[0])].beginning.taper.unsure
        parts: list[Evidence] = []
        for slots, frames in zip(slot.split(JUDGED_AT_ONCE), frame.split(JUDGED_AT_ONCE), strict=True):
            state = self._unpacked(self.written[frames])
            problem = self.part(slots, frames, self.images(frames, slots), state)
            problem = replace(problem, taper=replace(problem.taper, unsure=unsure))
            parts.append(evidence(problem, state, contrast, noise, clip.settings.evidence).cpu())
        names = vars(parts[0])
        observed = Evidence(**{name: torch.cat([getattr(part, name) for part in parts]) for name in names})
        return self._fit(self.written[frame].cpu()), observed

    def _fit(self, rows: Tensor) -> Fit:
        size, terms = self._anchor.shape[1], len(TERMS)
        energy, parts, taken = rows[:, size:].split([1, terms, 1], 1)
        return Fit(
            state=self._unpacked(rows),
            energy=energy[:, 0],
            terms=dict(zip(TERMS, parts.unbind(1), strict=True)),
            iterations=taken[:, 0].long(),
        )

    def followed(self) -> list[Fit]:
        """Every sequence's outcome frame by frame, in the sequence's order, on the CPU."""
        written = self.written[:-1].cpu().split([len(sequence.frames) for sequence in self.sequences])
        return [self._fit(rows) for rows in written]

    def restart(self, slot: int, place: int, states: list[tuple[int, FrameState]]) -> None:
        """A slot goes on with its sequence's frame number `place`, from the last of the states given with their
        frames."""
        sequence, row = self.sequences[slot], int(self.bank.first[slot]) + place
        self.frame[slot], self.fresh[slot], self.waiting[slot] = row, False, place < len(sequence.frames)
        if place == len(sequence.frames):
            return
        clip, (before, earlier), (at, last) = sequence.beginning.clip, states[0], states[-1]
        self._kept[slot, : self._anchor.shape[1]] = packed(last.to(self.device))[0]
        self._anchor[slot] = packed(clip.carried(earlier, before, at).to(self.device))[0]
        places = clip.centres([at, *sequence.frames[place : place + 2]])
        known = _steady([before, at, *sequence.frames[place : place + 2]])
        for index, offset in enumerate(places[:-1] - places[1:]):
            self.bank.offset[row + index] = offset.float()
            self.bank.steady[row + index] = known[index]


@torch.no_grad()
def record(batch: Batch) -> Callable[[], None]:
    """The tick as a CUDA graph. The ticks that warm it up are the first of the run."""
    side = torch.cuda.Stream(batch.device)
    side.wait_stream(torch.cuda.current_stream(batch.device))
    with torch.cuda.stream(side):
        for _ in range(3):
            batch.tick()
    torch.cuda.current_stream(batch.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch.tick()
    return graph.replay


def _frame_bank(sequences: list[FrameSequence], device: torch.device) -> _FrameBank:
    images, rig, offset, steady, picture, dark, gain = [], [], [], [], [], [], []
    for sequence in sequences:
        clip = sequence.beginning.clip
        images.append(clip.pixels(sequence.frames).to(device))
        rig.append(packed_cameras(clip.cameras.local(clip.centres(sequence.frames), clip.origins(sequence.frames))))
        places = clip.centres([sequence.at, *sequence.frames])
        offset.append(places[:-1] - places[1:])
        steady.append(_steady([sequence.at, sequence.at, *sequence.frames]))
        picture.append(clip.covered(sequence.frames))
        dark.append(torch.from_numpy(clip.prepared.offset))
        gain.append(clip.contrast / clip.brightness)
    beyond = any(sequence.beginning.clip.picture(sequence.frames) is not None for sequence in sequences)
    ends = torch.tensor([len(sequence.frames) for sequence in sequences]).cumsum(0)
    first = torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]])

    def joined(parts: list[Tensor], join: Callable[[list[Tensor]], Tensor] = torch.cat) -> Tensor:
        return join([part.cpu() for part in parts]).float().to(device)

    return _FrameBank(
        images=torch.cat(images),
        rig=joined(rig),
        offset=joined(offset),
        steady=torch.cat(steady).to(device),
        picture=joined(picture) if beyond else None,
        first=first.to(device),
        last=(ends - 1).to(device),
        dark=joined(dark, torch.stack)[..., None, None],
        gain=joined(gain, torch.stack)[..., None, None],
    )


def _per_mm(beginning: Beginning) -> Float[Tensor, ""]:
    """px per mm, the mean of the views."""
    return (beginning.taper.length / beginning.body.length).mean()


def _steady(frames: list[int]) -> Bool[Tensor, " frame"]:
    """For every frame but the first two, whether it and the two before it follow one another directly."""
    near = torch.tensor(frames).diff().abs() == 1
    return near[1:] & near[:-1]


def _widest(clips: list[Clip]) -> Bounds:
    """Bounds that hold for every clip: those of the intensity follow the contrast."""
    own = [clip.bounds() for clip in clips]
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


def _extended(rows: Tensor) -> Tensor:
    """With a row more."""
    return torch.cat([rows, torch.zeros_like(rows[:1])])
