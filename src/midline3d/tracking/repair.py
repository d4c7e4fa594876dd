"""What is put right once all frames are there: turned where head and tail were exchanged, closed where one side lost.

Following sees one frame and the one before. Held against one another, the frames of a whole recording tell more: which
stretches are the other way round (see `heads`), which frames were lost coming from one side only, where two clips do
not meet, and where an end springs (see `mending` and `contested`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from midline3d.state import FrameState
from midline3d.store import FrameResult, Result
from midline3d.store.dataset import STRETCHES
from midline3d.store.manifest import runs
from midline3d.tracking.begin import Beginning, Progress
from midline3d.tracking.checkpoint import plain, recorded, states_of_records, stored_state
from midline3d.tracking.cleaning import changed_by, cleaned, dirt_of_frames, frames_to_clean
from midline3d.tracking.clip import DIRT
from midline3d.tracking.contested import second_midlines, without_springs
from midline3d.tracking.doubt import together
from midline3d.tracking.follow import Track, Tracked, fitted_from, follow, outcome
from midline3d.tracking.heads import Links, Reading, links_of, read_heads, voters, votes
from midline3d.tracking.judging import rank
from midline3d.tracking.mending import KnownFrame, mended, springs
from midline3d.tracking.second_look import frames_to_search, searched_again

HEADS = "heads"
"""Name under which a run keeps which of its frames are to be turned round."""
HARDLY = 0.01
"""Doubt under which a frame is not written down again for what those around it say: it stays next to none."""
TURNED = 64
"""Frames whose votes are taken in one batch; and that are turned round before the next word of progress."""
Votes = dict[int, float]
"""Log odds that a frame (within the clip) is the body's way round (see `heads.votes`)."""


@dataclass(frozen=True)
class ClipFrames:
    """A result's frames, by their numbers within the clip."""

    beginning: Beginning
    result: Result

    @property
    def start(self) -> int:
        """The recording's number of the clip's first frame."""
        return self.beginning.clip.prepared.start

    def read(self, frame: int) -> FrameResult | None:
        """A frame that has a midline."""
        record = self.result.read(self.start + frame)
        if record is None or record.position is None or not np.isfinite(record.position).all() or record.loss is None:
            return None
        return record

    def state(self, frame: int) -> FrameState | None:
        """Its state, a batch of one."""
        record = self.read(frame)
        return None if record is None else stored_state(self.beginning.clip, frame, record)

    def states(self, frames: list[int]) -> FrameState:
        """The states of frames that all have a midline, a row each."""
        records = [record for record in map(self.read, frames) if record is not None]
        assert len(records) == len(frames), "only frames that have a midline are asked for"
        return states_of_records(self.beginning.clip, frames, records)

    def known(self, frame: int, still: bool = False) -> KnownFrame | None:
        """What mending asks of it; still: its energy without the temporal terms."""
        record = self.read(frame)
        if record is None or record.loss is None:
            return None
        energy = float(record.loss) - (record.loss_terms or {}).get("temporal", 0.0) * still
        return KnownFrame(stored_state(self.beginning.clip, frame, record), energy, record.status)

    def doubted(self, frame: int) -> bool:
        """Whether it has no midline, or one that is not ok."""
        record = self.read(frame)
        return record is None or record.status != "ok"

    def midlines(self, frames: range) -> Iterator[tuple[int, NDArray[np.floating] | None]]:
        """The midline of each, (vertex, 3) mm in the world; None where it has none."""
        for frame in frames:
            record = self.read(frame)
            yield frame, None if record is None else record.position

    def links(self, frames: range) -> Links:
        """What ties each to the one before."""
        return links_of(self.midlines(frames), float(self.beginning.body.length), self.beginning.clip.settings.heads)

    def write(self, tracked: Tracked) -> None:
        """Puts a frame's outcome in the place of what was there."""
        self.result.append(self.start + tracked.frame, recorded(self.beginning.clip, tracked))


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
) -> str:
    """Puts everything right, and says what was done, for the log. Killed at any moment and done again it comes to the
    same.

    known_votes: votes, where clips have taken them; seams: first frames of clips that do not meet the one before.
    """
    frames = ClipFrames(beginning, result)
    if beginning.clip.settings.tracking.fitter != "second-order":
        result.note(**{STRETCHES: _stretches(frames, frames.links(range(len(beginning.clip))), None)})
        return "nothing is put right of what the paper's way has found"
    turned = _turn(frames, known_votes, progress)
    frames, cleaned_frames = _cleaned(frames, progress)
    better = _better(frames, cleaned_frames, seams, progress)
    apart = _apart(frames, seams, better)
    contested = _contested(frames, better) if frames.beginning.clip.settings.tracking.mend else {}
    # All at once, at the end: a run that is killed before finds the frames as they were, and comes to the same.
    if frames.beginning.clip.dirt is not None:
        result.keep(DIRT, plain(frames.beginning.clip.dirt))
    for tracked in better.values():
        frames.write(tracked)
    for frame, record in (contested | apart).items():
        result.append(frames.start + frame, record)
    changed = judged_together(frames)
    result.flush()
    return (
        f"{turned} frames turned round, {len(cleaned_frames)} fitted again without dirt, "
        f"{len(better.keys() - cleaned_frames.keys())} came out better from their other side, "
        f"{len(apart)} suspect where two clips do not meet, "
        f"{sum(record.status == 'suspect' for record in contested.values())} where another midline fits as well, "
        f"{changed} judged otherwise for the frames around them"
    )


def _cleaned(frames: ClipFrames, progress: Progress) -> tuple[ClipFrames, dict[int, Tracked]]:
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
    dirt = dirt_of_frames(frames.beginning, chosen, sorted(left), frames.states, progress)
    dirt, changed = changed_by(frames.beginning, dirt)
    again = {tracked.frame: tracked for tracked in cleaned(frames.beginning, dirt, changed, frames.states, progress)}
    return replace(frames, beginning=replace(frames.beginning, clip=replace(clip, dirt=dirt))), again


def _better(
    frames: ClipFrames, better: dict[int, Tracked], seams: tuple[int, ...], progress: Progress
) -> dict[int, Tracked]:
    """Frames that come out better than they were, by all that the settings allow to be tried; and those that have."""
    beginning, allowed = frames.beginning, frames.beginning.clip.settings.tracking
    better = better | (_closed(frames, better, seams) if allowed.recovery else {})
    if allowed.second_look:
        progress("looking again", 0, 0)
        chosen = frames_to_search(beginning, frames.doubted)
        closed = set(better)
        for tracked in searched_again(beginning, chosen, lambda frame: _known(frames, better, frame, still=True)):
            if tracked.frame not in closed or tracked.status == "ok":
                better[tracked.frame] = tracked
    if allowed.mend:
        for tracked in mended(beginning, _springs(frames, better), lambda frame: _known(frames, better, frame)):
            better[tracked.frame] = tracked
            progress("fitting again where an end has sprung", len(better), 0)
        again = without_springs(beginning, _springs(frames, better), lambda frame: _known(frames, better, frame))
        better |= {tracked.frame: tracked for tracked in again}
    return better


def _turn(frames: ClipFrames, known_votes: Votes | None, progress: Progress) -> int:
    """Turns round what is the wrong way round, and notes how sure the head is; returns how many frames that were."""
    result, count = frames.result, len(frames.beginning.clip)
    if not frames.beginning.clip.settings.tracking.turn:
        result.note(**{STRETCHES: _stretches(frames, frames.links(range(count)), None)})
        return 0
    kept = result.kept(HEADS)
    if kept is None:
        progress("telling head from tail all along", 0, 0)
        links = frames.links(range(count))
        known_votes = head_votes(frames, links) if known_votes is None else known_votes
        there = sorted(set(known_votes) & set(links.frames.tolist()))
        reading = read_heads(links, there, np.array([known_votes[frame] for frame in there]))
        # From here on a frame is turned once it has come anew.
        kept = {"turned": reading.turned, "since": result.last, "stretches": _stretches(frames, links, reading)}
        result.keep(HEADS, kept)
    result.note(**{STRETCHES: kept["stretches"]})
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


def _stretches(frames: ClipFrames, links: Links, reading: Reading | None) -> str:
    """How sure the head is from which frame to which, as `STRETCHES` wants it."""
    if not len(links.frames):
        return "[]"
    learned = float(torch.tensor(frames.beginning.head_odds).sigmoid())
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
        old = _record(frames, better, tracked.frame)
        if tracked.fit is None or (old is not None and not _gains(tracked, old, clip.settings.repair.least_gain)):
            return
        yield tracked


def _gains(tracked: Tracked, old: FrameResult, least: float) -> bool:
    """Whether a frame has come out better than it was."""
    new, before = rank(tracked.status), rank(old.status)
    if tracked.fit is None or old.loss is None or new < before:
        return False
    return new > before or float(tracked.fit.energy) < old.loss - least


def _record(frames: ClipFrames, better: dict[int, Tracked], frame: int) -> FrameResult | None:
    """A frame as it will be, if it has a midline."""
    return recorded(frames.beginning.clip, better[frame]) if frame in better else frames.read(frame)


def _known(frames: ClipFrames, better: dict[int, Tracked], frame: int, still: bool = False) -> KnownFrame | None:
    """What is known of a frame as it will be; still: its energy without the temporal terms."""
    if frame not in better:
        return frames.known(frame, still)
    found = better[frame].fit
    if found is None:
        return None
    energy = float(found.energy) - float(found.terms["temporal"]) * still
    return KnownFrame(found.state, energy, better[frame].status)


def _springs(frames: ClipFrames, better: dict[int, Tracked]) -> list[int]:
    """Frames behind which an end springs."""
    clip = frames.beginning.clip
    ends, middle = np.full((len(clip), 2, 3), np.nan), np.full((len(clip), 3), np.nan)
    for frame, position in frames.midlines(range(len(clip))):
        new = better[frame].fit if frame in better else None
        points = position if new is None else clip.world(new.state, [frame])[0].numpy()
        if points is not None:
            ends[frame], middle[frame] = points[[0, -1]], points.mean(0)
    return springs(ends, middle, float(frames.beginning.body.length), clip.settings.judging.sprung).tolist()


def _contested(frames: ClipFrames, better: dict[int, Tracked]) -> dict[int, FrameResult]:
    """Frames that are less sure than they seem, because another midline fits them nearly as well."""
    limits, found = frames.beginning.clip.settings.judging, dict[int, FrameResult]()
    others = second_midlines(frames.beginning, _springs(frames, better), lambda frame: _known(frames, better, frame))
    for frame, probability in others.items():
        record = _record(frames, better, frame)
        if record is None or record.doubt is None:
            continue
        doubt = 1 - (1 - record.doubt) * (1 - probability)
        found[frame] = record = replace(record, doubt=doubt)
        if record.status == "ok" and doubt > limits.doubt:
            found[frame] = replace(record, status="suspect", reason="directions disagree")
    return found


def _apart(frames: ClipFrames, seams: tuple[int, ...], better: dict[int, Tracked]) -> dict[int, FrameResult]:
    """Frames around seams at which the two sides still do not meet: nothing tells which of them is right."""
    clip, found = frames.beginning.clip, dict[int, FrameResult]()
    length, around = float(frames.beginning.body.length), clip.settings.tracking.overlap
    for seam in seams:
        one, other = (_record(frames, better, frame) for frame in (seam - 1, seam))
        if one is None or other is None or one.position is None or other.position is None:
            continue
        if np.linalg.norm(one.position - other.position, axis=-1).mean() <= clip.settings.judging.jump * length:
            continue
        for frame in range(max(0, seam - around), min(len(clip), seam + around)):
            record = _record(frames, better, frame)
            if record is not None and record.status == "ok":
                found[frame] = replace(record, status="suspect", reason="directions disagree")
    return found


def judged_together(frames: ClipFrames) -> int:
    """Judges all frames anew by their doubt, with what those around them say; returns how many have changed status."""
    count, limit = len(frames.beginning.clip), frames.beginning.clip.settings.judging.doubt_together
    alone = np.full(count, np.nan)
    for frame in range(count):
        record = frames.read(frame)
        if record is not None and record.doubt is not None:
            alone[frame] = float(record.doubt)
    doubts, changed = together(alone), 0
    for frame in np.flatnonzero(np.maximum(alone, doubts) >= HARDLY).tolist():
        record = frames.read(frame)
        if record is None:
            continue
        new = replace(record, doubt=float(doubts[frame]))
        if record.status == "ok" or record.reason == "uncertain":
            trusted = doubts[frame] <= limit
            new = replace(new, status="ok" if trusted else "suspect", reason="" if trusted else "uncertain")
        changed += new.status != record.status
        frames.result.append(frames.start + frame, new)
    return changed
