"""The frames of a result, as those ask for them who put them right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.state import FrameState
from midline3d.store import FrameResult, Result
from midline3d.tracking.begin import Beginning
from midline3d.tracking.checkpoint import recorded, states_of_records, stored_state
from midline3d.tracking.follow import Tracked
from midline3d.tracking.heads import Links, links_of
from midline3d.tracking.mending import KnownFrame


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


def record_with(frames: ClipFrames, better: dict[int, Tracked], frame: int) -> FrameResult | None:
    """A frame as it will be, if it has a midline."""
    return recorded(frames.beginning.clip, better[frame]) if frame in better else frames.read(frame)


def known_with(frames: ClipFrames, better: dict[int, Tracked], frame: int, still: bool = False) -> KnownFrame | None:
    """What is known of a frame as it will be; still: its energy without the temporal terms."""
    if frame not in better:
        return frames.known(frame, still)
    found = better[frame].fit
    if found is None:
        return None
    energy = float(found.energy) - float(found.terms["temporal"]) * still
    return KnownFrame(found.state, energy, better[frame].status)
