"""Several ways through a recording at once, run ahead on the device and judged behind it as `follow` judges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from midline3d.tracking.batch import Batch, Reel, record
from midline3d.tracking.begin import Beginning
from midline3d.tracking.follow import Candidate, Track, Tracked, follow, settled
from midline3d.tracking.judging import judge

WATCHED = 32
"""Ticks between two looks at how far the slots have come, on a GPU."""
STRETCH = 2000
"""Frames of a way that lie on the device at once: at three views of 200 px that is 240 MB."""


def track_ways(beginning: Beginning, ways: list[list[int]], tracks: list[Track] | None = None) -> Iterator[Tracked]:
    """The ways as suits the clip's device and fitter: run ahead on a GPU, else frame after frame.

    tracks: where each way goes on from, else from the beginning. They know no more than the frames that have come out.
    """
    clip, tracks = beginning.clip, tracks or [Track.of(beginning) for _ in ways]
    if clip.device.type == "cuda" and clip.settings.tracking.fitter == "second-order":
        yield from follow_ways(beginning, ways, tracks)
    else:
        for way, track in zip(ways, tracks, strict=True):
            yield from follow(beginning, way, track)


@torch.no_grad()
def follow_ways(
    beginning: Beginning, ways: list[list[int]], tracks: list[Track] | None = None, stretch: int = STRETCH
) -> Iterator[Tracked]:
    """What `follow` gives of every way, as it comes: each way in its order, the ways among one another.

    Frames that were not located come first.
    """
    located = beginning.clip.located
    for way in ways:
        yield from follow(beginning, [frame for frame in way if not located(frame)])
    found = [[frame for frame in way if located(frame)] for way in ways]
    tracks = tracks or [Track.of(beginning) for _ in ways]
    for first in range(0, max(map(len, found), default=0), stretch):
        parts = [way[first : first + stretch] for way in found]
        yield from _run([_Way(beginning, part, track) for part, track in zip(parts, tracks, strict=True)])


@dataclass
class _Way:
    """One way's frames on the device, and how far they have been judged."""

    beginning: Beginning
    frames: list[int]
    track: Track
    judged: int = 0

    def reel(self) -> Reel:
        at, state = self.track.states[-1]
        return Reel(self.beginning, self.frames, state, at)

    def watch(self, batch: Batch, slot: int, done: int) -> Iterator[Tracked]:
        """Judges what has been written; where it does not fit, `follow` takes over until it does again."""
        clip, first = self.beginning.clip, self.judged
        done = min(done, len(self.frames))
        if done <= first:
            return
        fit, told = batch.fits(slot, first, done)
        for place in range(done - first):
            frame, one = self.frames[first + place], told[[place]]
            verdict = judge(one, 0.0, clip.settings.judging)
            if verdict.status != "ok" or not settled(fit[[place]], clip):
                yield from self.recover(batch, slot)
                return
            self.judged += 1
            yield self.track.settle(clip, frame, Candidate(fit[[place]], one, verdict))

    def recover(self, batch: Batch, slot: int) -> Iterator[Tracked]:
        """Frame after frame from what the track knows, until one is ok."""
        states = [(frame, state.to(batch.device)) for frame, state in self.track.states]
        self.track.states.clear()
        self.track.states.extend(states)
        for tracked in follow(self.beginning, self.frames[self.judged :], self.track):
            self.judged += 1
            yield tracked
            if tracked.status == "ok":
                break
        batch.restart(slot, self.judged, list(self.track.states))


def _reels(ways: list[_Way]) -> list[Reel]:
    """A slot for each way. One that has come to its end takes a frame of another: a smaller batch rounds otherwise."""
    other = next(way.reel() for way in ways if way.frames)
    return [way.reel() if way.frames else replace(other, frames=other.frames[:1]) for way in ways]


def _run(ways: list[_Way]) -> Iterator[Tracked]:
    device = ways[0].beginning.clip.device
    batch = Batch(_reels(ways), device)
    for slot, way in enumerate(ways):
        if way.track.doubted and way.frames:
            yield from way.recover(batch, slot)
        else:
            batch.restart(slot, 0, list(way.track.states))
    run, ticks = (record(batch), WATCHED) if device.type == "cuda" else (batch.tick, 1)
    while any(way.judged < len(way.frames) for way in ways):
        for _ in range(ticks):
            run()
        for slot, (way, done) in enumerate(zip(ways, batch.done(), strict=True)):
            yield from way.watch(batch, slot, done)
