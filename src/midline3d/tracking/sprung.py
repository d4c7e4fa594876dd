"""Springs of an end, in groups that can be put right side by side (see `mending` and `contested`)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache

import numpy as np

from midline3d.tracking.clip_frames import ClipFrames, known_with
from midline3d.tracking.contested import second_midlines, ways_across, without_springs
from midline3d.tracking.follow import Tracked
from midline3d.tracking.mending import KnownFrame, mended, springs

NEAR = 20
"""Frames between two springs of an end that are taken as one matter from the beginning."""


@dataclass(frozen=True)
class Sprung:
    """Springs of an end that lie near each other."""

    at: tuple[int, ...]
    """Frames behind which an end springs."""
    others: tuple[int, ...]
    """The other springs around, which are left alone."""
    around: tuple[int, int]
    """The first frame, and the one behind the last, that they may have to do with."""

    @staticmethod
    def of(at: tuple[int, ...], sprung: list[int], frames: ClipFrames) -> Sprung:
        """Some of all springs, which are in order."""
        reach = frames.beginning.clip.settings.repair.farthest
        around = max(0, at[0] - reach), min(len(frames.beginning.clip), at[-1] + reach + 2)
        near = sprung[bisect_left(sprung, around[0]) : bisect_left(sprung, around[1])]
        return Sprung(at, tuple(one for one in near if one not in at), around)


@dataclass(frozen=True)
class Mending:
    """What came of springs of an end that lie near each other."""

    better: list[Tracked]
    """Frames that come out better."""
    contested: dict[int, float]
    """By frame, the probability that another midline is the right one (see `contested.second_midlines`)."""

    def span(self, at: tuple[int, ...]) -> tuple[int, int]:
        """The first and the last frame that springs `at` some frames have to do with."""
        touched = [*at, *(one + 1 for one in at), *(tracked.frame for tracked in self.better), *self.contested]
        return min(touched), max(touched)


def mend(frames: ClipFrames, sprung: Sprung) -> Mending:
    """What comes of springs that lie near each other."""
    beginning, better = frames.beginning, dict[int, Tracked]()
    stored = cache(frames.known)  # the same frames are asked for again and again

    def known(frame: int) -> KnownFrame | None:
        return known_with(frames, better, frame) if frame in better else stored(frame)

    def left() -> list[int]:
        return [one for one in springs_among(frames, better, range(*sprung.around)) if one not in sprung.others]

    for tracked in mended(beginning, list(sprung.at), known):
        better[tracked.frame] = tracked
    across = ways_across(beginning, left(), known)
    again = {tracked.frame: tracked for tracked in without_springs(beginning, across, known)}
    if again:
        better |= again
        across = ways_across(beginning, left(), known)
    return Mending(list(better.values()), second_midlines(beginning, across, known))


def apart_by(least: int, places: list[int]) -> list[tuple[int, ...]]:
    """Places in groups, each of which is so far from the next."""
    cuts = np.flatnonzero(np.diff(places) >= least) + 1
    return [tuple(group.tolist()) for group in np.split(np.array(places, dtype=np.int64), cuts)]


def joined(groups: list[tuple[int, ...]], spans: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Groups of places, those in one whose spans touch; all in order."""
    made, ends = list[tuple[int, ...]](), list[int]()
    for group, (first, last) in zip(groups, spans, strict=True):
        if ends and first <= ends[-1]:
            made[-1], ends[-1] = made[-1] + group, max(ends[-1], last)
        else:
            made.append(group)
            ends.append(last)
    return made


def springs_among(frames: ClipFrames, better: dict[int, Tracked], some: range) -> list[int]:
    """Those of some frames behind which an end springs."""
    clip = frames.beginning.clip
    ends, middle = np.full((len(some), 2, 3), np.nan), np.full((len(some), 3), np.nan)
    for frame, position in frames.midlines(some):
        new = better[frame].fit if frame in better else None
        points = position if new is None else clip.world(new.state, [frame])[0].numpy()
        if points is not None:
            ends[frame - some.start], middle[frame - some.start] = points[[0, -1]], points.mean(0)
    found = springs(ends, middle, float(frames.beginning.body.length), clip.settings.judging.sprung)
    return (some.start + found).tolist()
