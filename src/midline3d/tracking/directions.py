"""Several directions through a recording at once, run ahead on the device and judged behind it as `follow` judges."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from midline3d.errors import InputError
from midline3d.fitting.second_order import Fit
from midline3d.tracking.batch import Batch, FrameSequence, record
from midline3d.tracking.begin import Beginning
from midline3d.tracking.checkpoint import on_cpu
from midline3d.tracking.evidence import Evidence
from midline3d.tracking.follow import Candidate, Track, Tracked, follow, settled
from midline3d.tracking.judging import judge

WATCHED = 32
"""Ticks between two looks at how far the slots have come, on a GPU."""
SLOTS = 256
"""Directions that are followed at once: beyond that a large GPU gains little, and every slot wants its frames in
memory."""
STRETCH = 2000
"""Frames of a direction that lie on the device at once: at three views of 200 px that is 240 MB."""
MOST_FRAMES = 40_000
"""Frames of all directions together that do: 4.8 GB."""


@dataclass(frozen=True)
class Direction:
    """Frames in the order in which they are followed."""

    beginning: Beginning
    frames: list[int]
    track: Track
    """Where it goes on from. It knows no more than the frames that have come out."""

    @staticmethod
    def of(beginning: Beginning, frames: list[int]) -> Direction:
        """From the beginning."""
        return Direction(beginning, frames, Track.of(beginning))


Outcome = tuple[int, Tracked]
"""Number of a direction, and what became of its next frame."""


def track_directions(directions: Sequence[Direction]) -> Iterator[Outcome]:
    """The directions as suits the clip's device and fitter: run ahead on a GPU, else frame after frame."""
    clip = directions[0].beginning.clip
    if clip.device.type == "cuda" and clip.settings.tracking.fitter == "second-order":
        yield from follow_directions(directions)
    else:
        for index, direction in enumerate(directions):
            for tracked in follow(direction.beginning, direction.frames, direction.track):
                yield index, tracked


@torch.no_grad()
def follow_directions(directions: Sequence[Direction], slots: int = SLOTS, stretch: int = STRETCH) -> Iterator[Outcome]:
    """What `follow` gives of every direction, as it comes: each in its own order, all of them among one another.

    Frames that were not located come first. Where the device has no memory for so many slots, half of them follow.
    """
    left, passed, first = dict[int, list[int]](), Counter[int](), 0
    for index, direction in enumerate(directions):
        located = direction.beginning.clip.located
        for tracked in follow(
            direction.beginning, [frame for frame in direction.frames if not located(frame)], direction.track
        ):
            yield index, tracked
        left[index] = [frame for frame in direction.frames if located(frame)]
    while first < len(directions):
        group = range(first, min(first + slots, len(directions)))
        try:
            for index, tracked in _stretches(
                directions, {index: left[index][passed[index] :] for index in group}, stretch
            ):
                passed[index] += 1
                yield index, tracked
        except torch.cuda.OutOfMemoryError:
            slots = _fewer(slots, len(group))
            continue
        first = group.stop


def _fewer(slots: int, used: int) -> int:
    """Half as many slots as did not fit."""
    if used < 2:
        raise InputError(
            "the GPU has no memory left for a single slot; end what else uses it, or give --device cpu"
        ) from None
    half = min(slots, used) // 2
    warnings.warn(f"the GPU has no memory for {used} slots at once: going on with {half}", stacklevel=3)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return half


def _stretches(directions: Sequence[Direction], frames: dict[int, list[int]], stretch: int) -> Iterator[Outcome]:
    """Some directions at once, so many frames of them at a time as the device holds."""
    at_once = max(1, min(stretch, MOST_FRAMES // max(1, len(frames))))
    for first in range(0, max(map(len, frames.values()), default=0), at_once):
        slots = [
            _Slot(index, directions[index].beginning, list_of[first : first + at_once], directions[index].track)
            for index, list_of in frames.items()
        ]
        yield from _run(slots)


@dataclass
class _Slot:
    """One direction's frames on the device, and how far they have been judged."""

    direction: int
    beginning: Beginning
    frames: list[int]
    track: Track
    judged: int = 0

    @cached_property
    def here(self) -> Beginning:
        """The same on the CPU, for what is done frame after frame."""
        return on_cpu(self.beginning)

    def sequence(self) -> FrameSequence:
        at, state = self.track.states[-1]
        return FrameSequence(self.beginning, self.frames, state, at)

    def watch(self, batch: Batch, slot: int, fit: Fit, observed: Evidence) -> Iterator[Outcome]:
        """Judges what has been written; where it does not fit, `follow` takes over until it does again."""
        clip = self.beginning.clip
        for place in range(len(fit.iterations)):
            one, frame = observed[[place]], self.frames[self.judged]
            verdict = judge(one, 0.0, clip.settings.judging)
            if verdict.status != "ok" or not settled(fit[[place]], clip):
                yield from self.recover(batch, slot)
                return
            self.judged += 1
            yield self.direction, self.track.settle(clip, frame, Candidate(fit[[place]], one, verdict))

    def recover(self, batch: Batch, slot: int) -> Iterator[Outcome]:
        """Frame after frame from what the track knows, until one is ok."""
        states = [(frame, state.to(self.here.clip.device)) for frame, state in self.track.states]
        self.track.states.clear()
        self.track.states.extend(states)
        for tracked in follow(self.here, self.frames[self.judged :], self.track):
            self.judged += 1
            yield self.direction, tracked
            if tracked.status == "ok":
                break
        batch.restart(slot, self.judged, list(self.track.states))


def _sequences(slots: list[_Slot]) -> list[FrameSequence]:
    """A sequence for each slot. One that has come to its end takes a frame of another: a smaller batch rounds
    otherwise."""
    other = next(slot.sequence() for slot in slots if slot.frames)
    return [slot.sequence() if slot.frames else replace(other, frames=other.frames[:1]) for slot in slots]


def _run(slots: list[_Slot]) -> Iterator[Outcome]:
    device = slots[0].beginning.clip.device
    batch = Batch(_sequences(slots), device)
    for place, slot in enumerate(slots):
        if slot.track.doubted and slot.frames:
            yield from slot.recover(batch, place)
        else:
            batch.restart(place, 0, list(slot.track.states))
    run, ticks = (record(batch), WATCHED) if device.type == "cuda" else (batch.tick, 1)
    while any(slot.judged < len(slot.frames) for slot in slots):
        for _ in range(ticks):
            run()
        ready = {
            place: range(slot.judged, min(done, len(slot.frames)))
            for place, (slot, done) in enumerate(zip(slots, batch.done(), strict=True))
            if slot.judged < min(done, len(slot.frames))
        }
        # All slots in one: a look at a few frames costs as much as at a hundred.
        for place, (fit, observed) in batch.fits(ready).items() if ready else ():
            yield from slots[place].watch(batch, place, fit, observed)
