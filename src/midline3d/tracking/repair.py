"""What is put right once all frames are there: turned where head and tail were exchanged, closed where one side lost.

Following sees one frame and the one before. Held against one another, the frames of a whole recording tell more: which
stretches are the other way round (see `heads`), which frames were lost coming from one side only, where two clips do
not meet, and where an end springs (see `mending` and `contested`).
"""

from __future__ import annotations

import json
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.reading import number_of
from midline3d.store import FrameResult, Result
from midline3d.store.dataset import STRETCHES
from midline3d.store.manifest import runs
from midline3d.tracking.begin import Beginning, Progress
from midline3d.tracking.checkpoint import plain
from midline3d.tracking.cleaning import Cleaned, clean, frames_to_clean, parts_of
from midline3d.tracking.clip import DIRT
from midline3d.tracking.clip_frames import ClipFrames, known_with, record_with
from midline3d.tracking.dirt import Dirt
from midline3d.tracking.follow import Track, Tracked, fitted_from, follow, outcome
from midline3d.tracking.heads import Links, Reading, as_learned, read_heads, voters, votes
from midline3d.tracking.judging import rank
from midline3d.tracking.judging_together import judged_together
from midline3d.tracking.locomotion import forward_odds
from midline3d.tracking.mending import KnownFrame
from midline3d.tracking.rigid import LOOKED_AT, evenly
from midline3d.tracking.second_look import frames_to_search, searched_again, searched_here
from midline3d.tracking.sprung import NEAR, Mending, Sprung, apart_by, joined, mend, springs_among

HEADS = "heads"
"""Name under which a run keeps which of its frames are to be turned round."""
TURNED = 64
"""Frames whose votes are taken in one batch; and that are turned round before the next word of progress."""
TAIL_FIRST = 0.8
"""Log odds against keypoint 0 being the head from which on a run says so."""
Votes = dict[int, float]
"""Log odds that a frame (within the clip) is the body's way round (see `heads.votes`)."""
CLEANING, MENDING = "fitting again without dirt", "fitting again where an end has sprung"
"""What is being done, for the progress."""
Parts = list[tuple[list[int], list[int]]]
"""Frames whose dirt is asked for, some at a time, each with the frames that tell it (see `cleaning.parts_of`)."""
Batches = Iterable[dict[int, KnownFrame | None]]
"""Frames that are searched together, by what is known of them."""


class Hands(Protocol):
    """Who does what can be done some frames at a time."""

    def cleaned(self, frames: ClipFrames, parts: Parts, progress: Progress) -> list[Cleaned]:
        """What becomes of every part of the frames whose dirt is asked for (see `cleaning`)."""

    def searched(self, beginning: Beginning, batches: Batches) -> Iterable[list[Tracked]]:
        """As `second_look.searched_here`."""

    def mended(self, frames: ClipFrames, groups: list[Sprung], progress: Progress) -> Iterable[Mending]:
        """What comes of every group of springs (see `mend`), in order."""


class Here(Hands):
    """This process alone."""

    def cleaned(self, frames: ClipFrames, parts: Parts, progress: Progress) -> list[Cleaned]:
        """One part after the other, each on all cores."""
        done, total, made = 0, sum(len(chosen) for chosen, _ in parts), list[Cleaned]()
        for chosen, found in parts:
            progress(CLEANING, done, total)
            made.append(clean(frames.beginning, chosen, found, frames.states))
            done += len(chosen)
        return made

    def searched(self, beginning: Beginning, batches: Batches) -> Iterable[list[Tracked]]:
        """As `second_look.searched_here`."""
        return searched_here(beginning, batches)

    def mended(self, frames: ClipFrames, groups: list[Sprung], progress: Progress) -> Iterable[Mending]:
        """One group after the other."""
        for number, group in enumerate(groups):
            progress(MENDING, number, len(groups))
            yield mend(frames, group)


def head_votes(frames: ClipFrames, links: Links) -> Votes:
    """The votes of some of every stretch of the frames that are linked."""
    chosen = voters(links, frames.beginning.clip.settings.heads)
    taken: Votes = {}
    for first in range(0, len(chosen), TURNED):
        part = chosen[first : first + TURNED]
        states = [state for state in map(frames.state, part) if state is not None]
        taken |= dict(zip(part, votes(frames.beginning, part, states).tolist(), strict=True))
    return taken


def put_right(
    beginning: Beginning,
    result: Result,
    progress: Progress,
    known_votes: Votes | None = None,
    seams: tuple[int, ...] = (),
    hands: Hands | None = None,
) -> str:
    """Puts everything right, and says what was done, for the log. Killed at any moment and done again it comes to the
    same, for what it had written is taken back first (see `clips.planned`).

    known_votes: votes, where clips have taken them; seams: first frames of clips that do not meet the one before;
    hands: who does what can be done some frames at a time, if not this process alone.
    """
    hands = hands or Here()
    frames = ClipFrames(beginning, result)
    if beginning.clip.settings.tracking.fitter != "second-order":
        links = frames.links(range(len(beginning.clip)))
        result.note(**{STRETCHES: _stretches(frames, links, None, beginning.head_odds)})
        return "nothing is put right of what the paper's way has found"
    turned = _turn(frames, known_votes, progress)
    frames, cleaned_frames = _cleaned(frames, progress, hands)
    better = _better(frames, cleaned_frames, seams, progress, hands)
    if frames.beginning.clip.dirt is not None:
        result.keep(DIRT, plain(frames.beginning.clip.dirt))
    for tracked in better.values():
        frames.write(tracked)
    allowed = frames.beginning.clip.settings.tracking
    mended_frames, contested = _mended(frames, progress, hands) if allowed.mend else (set(), {})
    apart = _apart(frames, seams)
    for frame, record in (contested | apart).items():
        result.append(frames.start + frame, record)
    changed = judged_together(frames)
    result.flush()
    return (
        f"{number_of(turned, 'frame')} turned round, {len(cleaned_frames)} fitted again without dirt, "
        f"{len((better.keys() | mended_frames) - cleaned_frames.keys())} came out better from their other side, "
        f"{len(apart)} suspect where two clips do not meet, "
        f"{sum(record.status == 'suspect' for record in contested.values())} where another midline fits as well, "
        f"{changed} judged otherwise for the frames around them"
    )


def _cleaned(frames: ClipFrames, progress: Progress, hands: Hands) -> tuple[ClipFrames, dict[int, Tracked]]:
    """The frames with all the dirt known that they show together, and those of them fitted again that have any."""
    clip = frames.beginning.clip
    left = dict[int, float]()
    for frame in range(len(clip)) if clip.settings.dirt.removed else ():
        record = frames.read(frame)
        if record is not None and record.unexplained is not None:
            left[frame] = float(np.max(record.unexplained))
    chosen = frames_to_clean(clip, left)
    if not chosen:
        return frames, {}
    parts = hands.cleaned(frames, parts_of(frames.beginning, chosen, sorted(left)), progress)
    dirt = Dirt.joined([part.dirt for part in parts])
    again = {tracked.frame: tracked for part in parts for tracked in part.again}
    return replace(frames, beginning=replace(frames.beginning, clip=replace(clip, dirt=dirt))), again


def _better(
    frames: ClipFrames, better: dict[int, Tracked], seams: tuple[int, ...], progress: Progress, hands: Hands
) -> dict[int, Tracked]:
    """Frames that come out better than they were, by all that the settings allow to be tried; and those that have."""
    beginning, allowed = frames.beginning, frames.beginning.clip.settings.tracking
    better = better | (_closed(frames, better, seams) if allowed.recovery else {})
    if allowed.second_look:
        progress("looking again", 0, 0)
        chosen = frames_to_search(beginning, frames.doubted)
        closed = set(better)
        known = partial(known_with, frames, better, still=True)
        for tracked in searched_again(beginning, chosen, known, hands.searched):
            if tracked.frame not in closed or tracked.status == "ok":
                better[tracked.frame] = tracked
    return better


def _mended(frames: ClipFrames, progress: Progress, hands: Hands) -> tuple[set[int], dict[int, FrameResult]]:
    """Puts right what lies beside springs of an end, and writes it down: the frames that has changed, and those that
    are less sure than they seem, because another midline fits them nearly as well."""
    sprung, done = springs_among(frames, {}, range(len(frames.beginning.clip))), dict[tuple[int, ...], Mending]()
    groups = [group for group in apart_by(NEAR, sprung) if group]
    while new := [group for group in groups if group not in done]:
        # None of them sees what becomes of the others, so that they may be done side by side. Those that come to touch
        # the same frames are done once more, as one.
        done |= zip(
            new, hands.mended(frames, [Sprung.of(group, sprung, frames) for group in new], progress), strict=True
        )
        groups = joined(groups, [done[group].span(group) for group in groups])
    changed, contested = set[int](), dict[int, float]()
    for group in groups:
        for tracked in done[group].better:
            frames.write(tracked)
            changed.add(tracked.frame)
        contested |= done[group].contested
    return changed, _contested(frames, contested)


def _turn(frames: ClipFrames, known_votes: Votes | None, progress: Progress) -> int:
    """Turns round what is the wrong way round, and notes how sure the head is; returns how many frames that were."""
    result, count = frames.result, len(frames.beginning.clip)
    if not frames.beginning.clip.settings.tracking.turn:
        odds = frames.beginning.head_odds
        result.note(**{STRETCHES: _stretches(frames, frames.links(range(count)), None, odds)})
        return 0
    kept = result.kept(HEADS)
    if kept is None:
        progress("telling head from tail all along", 0, 0)
        links = frames.links(range(count))
        known_votes = head_votes(frames, links) if known_votes is None else known_votes
        there = sorted(set(known_votes) & set(links.frames.tolist()))
        reading = read_heads(links, there, np.array([known_votes[frame] for frame in there]))
        reading = as_learned(reading, links, frames.beginning.frame, frames.beginning.clip.settings.body.span)
        # From here on a frame is turned once it has come anew.
        odds = _head_odds(frames, reading.turned)
        stretches = _stretches(frames, links, reading, odds)
        kept = {"turned": reading.turned, "since": result.last, "stretches": stretches, "odds": odds}
        result.keep(HEADS, kept)
    result.note(**{STRETCHES: kept["stretches"]}, head_confidence=float(torch.tensor(kept["odds"]).sigmoid()))
    if kept["odds"] < -TAIL_FIRST:
        warnings.warn(
            "in most of this recording the worm goes tail first by its keypoints: look which end is the head, and "
            "exchange them in the viewer (S) if need be",
            stacklevel=2,
        )
    left = [frame for frame in kept["turned"].tolist() if not result.later(frames.start + frame, kept["since"])]
    for first in range(0, len(left), TURNED):
        progress("turning frames round", first, len(left))
        for tracked in _reversed(frames, left[first : first + TURNED]):
            frames.write(tracked)
    result.flush()
    return len(kept["turned"])


def _reversed(frames: ClipFrames, some: list[int]) -> Iterator[Tracked]:
    """Frames fitted again with head and tail exchanged."""
    beginning = frames.beginning
    for frame in some:
        state = frames.state(frame)
        if state is not None:
            yield outcome(beginning.clip, frame, fitted_from(beginning, frame, state.reversed()))


def _head_odds(frames: ClipFrames, turned: NDArray[np.int64]) -> float:
    """Log odds that keypoint 0 is the head, by the way the animal moves in all of a recording that is longer than what
    its body was learned from; a worm may go backwards for as long as that took. turned: frames that will be."""
    beginning = frames.beginning
    settings = beginning.clip.settings
    if len(beginning.clip) <= settings.body.span:
        return beginning.head_odds
    first = evenly(len(beginning.clip) - 1, LOOKED_AT)
    pairs = np.unique(np.concatenate([first, first + 1])).tolist()
    back = set(turned.tolist())
    midlines = {
        frame: record.position[:: -1 if frame in back else 1].astype(np.float64)
        for frame in pairs
        if (record := frames.read(frame)) is not None and record.position is not None
    }
    if not midlines:
        return beginning.head_odds
    forward = forward_odds(np.stack(list(midlines.values())), list(midlines), settings.heads)
    return beginning.shape_odds + forward


def _stretches(frames: ClipFrames, links: Links, reading: Reading | None, odds: float) -> str:
    """How sure the head is from which frame to which, as `STRETCHES` wants it; odds: that it is keypoint 0 of the body,
    in natural logarithms."""
    if not len(links.frames):
        return "[]"
    learned = float(torch.tensor(odds).sigmoid())
    sure = np.ones(len(links.frames)) if reading is None else reading.sure
    right = np.round(learned * sure + (1 - learned) * (1 - sure), 4)
    # A frame that has no midline yet is as sure as the nearest that has one.
    count = len(frames.beginning.clip)
    nearest = np.searchsorted((links.frames[1:] + links.frames[:-1]) / 2, np.arange(count))
    every = right[nearest]
    cuts = [0, *(np.flatnonzero(np.diff(every)) + 1).tolist(), count]
    return json.dumps(
        [[frames.start + first, frames.start + end - 1, float(every[first])] for first, end in pairwise(cuts)]
    )


def _closed(frames: ClipFrames, known: dict[int, Tracked], seams: tuple[int, ...]) -> dict[int, Tracked]:
    """Frames that come out better when they are followed from their other side: lost ones, and across seams."""
    clip = frames.beginning.clip
    lost = [frame for frame in range(len(clip)) if clip.located(frame) and frames.read(frame) is None]
    entries = [entry for first, last in runs(lost) for entry in ((first, 1), (last, -1))]
    entries += [entry for seam in seams for entry in ((seam, 1), (seam - 1, -1))]
    better = dict(known)
    for frame, direction in entries:
        better |= {tracked.frame: tracked for tracked in _across(frames, frame, direction, better)}
    return better


def _across(frames: ClipFrames, first: int, direction: int, better: dict[int, Tracked]) -> Iterator[Tracked]:
    """From the frame before `first` on, for as long as that is better than what is there or has come since."""
    beginning, clip = frames.beginning, frames.beginning.clip
    states = [
        (frame, frames.state(frame)) for frame in (first - 2 * direction, first - direction) if 0 <= frame < len(clip)
    ]
    if not states or states[-1][1] is None:
        return
    track = Track(deque(((frame, state) for frame, state in states if state is not None), maxlen=2))
    track.lost = 2  # the whole crop was searched when the frame was first lost
    onward = range(first, len(clip) if direction > 0 else -1, direction)[: clip.settings.repair.farthest]
    for tracked in follow(beginning, list(onward), track):
        old = record_with(frames, better, tracked.frame)
        if tracked.fit is None or (old is not None and not _gains(tracked, old, clip.settings.repair.least_gain)):
            return
        yield tracked


def _gains(tracked: Tracked, old: FrameResult, least: float) -> bool:
    """Whether a frame has come out better than it was."""
    new, before = rank(tracked.status), rank(old.status)
    if tracked.fit is None or old.loss is None or new < before:
        return False
    return new > before or float(tracked.fit.energy) < old.loss - least


def _contested(frames: ClipFrames, others: dict[int, float]) -> dict[int, FrameResult]:
    """Frames that another midline fits nearly as well, with a probability that it is the right one."""
    limits, found = frames.beginning.clip.settings.judging, dict[int, FrameResult]()
    for frame, probability in others.items():
        record = frames.read(frame)
        if record is None or record.doubt is None:
            continue
        doubt = 1 - (1 - record.doubt) * (1 - probability)
        found[frame] = record = replace(record, doubt=doubt)
        if record.status == "ok" and doubt > limits.doubt:
            found[frame] = replace(record, status="suspect", reason="directions disagree")
    return found


def _apart(frames: ClipFrames, seams: tuple[int, ...]) -> dict[int, FrameResult]:
    """Frames around seams at which the two sides still do not meet: nothing tells which of them is right."""
    clip, found = frames.beginning.clip, dict[int, FrameResult]()
    length, around = float(frames.beginning.body.length), clip.settings.tracking.overlap
    for seam in seams:
        one, other = (frames.read(frame) for frame in (seam - 1, seam))
        if one is None or other is None or one.position is None or other.position is None:
            continue
        if np.linalg.norm(one.position - other.position, axis=-1).mean() <= clip.settings.judging.jump * length:
            continue
        for frame in range(max(0, seam - around), min(len(clip), seam + around)):
            record = frames.read(frame)
            if record is not None and record.status == "ok":
                found[frame] = replace(record, status="suspect", reason="directions disagree")
    return found
