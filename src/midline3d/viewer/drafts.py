"""A correction in the making: a frame refitted through pins, carried on to its neighbours, then kept or dropped."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.store import Edit, EditLog, Pin, StoredFrames, edit_of
from midline3d.store.edits import last_redoable, last_undoable
from midline3d.tracking.correcting import Bench, Corrected

BLOCK = 512
"""Frames that are read at once."""


@dataclass
class Draft:
    """What was refitted and has not been kept yet."""

    pins: tuple[Pin, ...]
    made: dict[int, Corrected] = field(default_factory=dict)
    """By frame."""
    ends: dict[int, int] = field(default_factory=dict)
    """The frames that were reached last, backwards (-1) and forwards (1)."""
    number: int = 0
    """Counts up with every change, for whoever watches."""


class Drafts:
    """The one draft of a viewer, and the thread that carries it on."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._lock = threading.Lock()
        self._draft: Draft | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._fault = ""
        self._ended = ""
        """Why it was carried on no further; empty where somebody stopped it."""

    def refit(self, frame: int, pins: Iterable[Pin]) -> Draft:
        """A new draft: the frame through these pins. What an earlier draft had is forgotten."""
        self.drop()
        pins = tuple(pins)
        made = self._bench.refit(frame, pins)
        with self._lock:
            self._draft = Draft(pins, {frame: made}, {-1: frame, 1: frame}, 1)
            return self._draft

    def carry_on(self, way: int) -> None:
        """Goes on from the draft's end forwards (1) or backwards (-1), in a thread, until nothing changes."""
        if way not in (-1, 1):
            raise InputError(f"a correction is carried on forwards (1) or backwards (-1), not {way}")
        draft = self._draft
        if draft is None:
            raise InputError("there is no correction to carry on: set a pin first")
        if self.running:
            raise InputError("the correction is being carried on already; wait for it, or stop it")
        self._stop.clear()
        self._fault = self._ended = ""
        self._thread = threading.Thread(target=self._carry, args=(draft, way), name="midline3d-draft", daemon=True)
        self._thread.start()

    def _carry(self, draft: Draft, way: int) -> None:
        start = draft.made[draft.ends[way]]
        try:
            for made in self._following(start, way):
                with self._lock:
                    if self._stop.is_set() or self._draft is not draft:
                        return
                    draft.made[made.frame], draft.ends[way] = made, made.frame
                    draft.number += 1
        except InputError as fault:
            self._fault = str(fault)

    def _following(self, start: Corrected, way: int) -> Iterator[Corrected]:
        ended = yield from self._bench.follow(start.frame, start.state, way)
        self._ended = str(ended)

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stops where it is; the frames so far stay in the draft."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def drop(self) -> None:
        self.stop()
        with self._lock:
            self._draft, self._fault, self._ended = None, "", ""

    def keep(self) -> Edit:
        """Writes the draft down as an edit of the result."""
        self.stop()
        with self._lock:
            draft, self._draft = self._draft, None
        if draft is None:
            raise InputError("there is no correction to keep: set a pin first")
        frames = self._bench.frames
        edit = edit_of("refit", draft.made, frames.run, pins=draft.pins)
        return EditLog(frames.folder).append(edit, {frame: made.record for frame, made in draft.made.items()})

    def answer(self) -> dict[str, Any]:
        """The draft for the page: its frames with both losses."""
        with self._lock:
            draft = self._draft
            if draft is None:
                return {"draft": None, "fault": self._fault}
            frames = [_told(made) for _, made in sorted(draft.made.items())]
            return {
                "draft": {"number": draft.number, "frames": frames, "pins": [vars(pin) for pin in draft.pins]},
                "running": self.running,
                "fault": self._fault,
                "ended": "" if self.running else self._ended,
            }

    def curve(self, frame: int) -> dict[str, Any] | None:
        """A frame's new midline: position (mm) and projection (px), as nested lists."""
        with self._lock:
            made = None if self._draft is None else self._draft.made.get(frame)
        if made is None or made.record.position is None or made.record.projection is None:
            return None
        return {"position": made.record.position.tolist(), "projection": made.record.projection.tolist()}


def _told(made: Corrected) -> dict[str, Any]:
    return {
        "frame": made.frame,
        "status": made.record.status,
        "reason": made.record.reason,
        "loss": made.loss,
        "before": made.before,
        "distances": list(made.distances),
    }


def mark(frames: StoredFrames, kind: str, first: int, last: int) -> Edit:
    """Exchanges head and tail (swap), takes away (bad) or accepts (accept) the midlines of frames first to last."""
    if kind not in ("swap", "bad", "accept"):
        raise InputError(f"a range of frames is marked as swap, bad or accept, not as '{kind[:40]}'")
    low, high = frames.row(min(first, last)), frames.row(max(first, last))
    log, run = EditLog(frames.folder), frames.run
    if kind == "swap":
        ends = _exchanged(frames, low, high + 1)
        if not len(ends["frame"]):
            raise InputError(f"frames {first} to {last} have no midline whose head and tail could be exchanged")
        return log.append(edit_of("swap", ends["frame"].tolist(), run), ends)
    there = frames.done
    chosen = [number for row, number in enumerate(frames.header.frames[low : high + 1], low) if there[row]]
    if not chosen:
        raise InputError(f"frames {first} to {last} are not done yet")
    return log.append(edit_of("bad" if kind == "bad" else "accept", chosen, run))


def _exchanged(frames: StoredFrames, low: int, high: int) -> dict[str, NDArray[Any]]:
    """Where head and tail of every midline are once they have been exchanged."""
    numbers, ends = [], []
    for first in range(low, high, BLOCK):
        part = frames.part(first, min(first + BLOCK, high), ())
        tips = part["position"].isel(individual=0, keypoint=[-1, 0]).transpose("time", "keypoint", "space").values
        found = np.isfinite(tips).all((1, 2))
        numbers.append(part["frame"].values[found])
        ends.append(tips[found])
    both = np.concatenate(ends)
    return {"frame": np.concatenate(numbers), "head": both[:, 0], "tail": both[:, 1]}


def undo(frames: StoredFrames) -> Edit:
    """Takes back the last edit that stands."""
    log = EditLog(frames.folder)
    last = last_undoable(log.read())
    if last is None:
        raise InputError("there is nothing to undo")
    return log.append(edit_of("undo", last.numbers, frames.run, of=last.id))


def redo(frames: StoredFrames) -> Edit:
    """Does after all what was just undone."""
    log = EditLog(frames.folder)
    last = last_redoable(log.read())
    if last is None:
        raise InputError("there is nothing to redo")
    return log.append(edit_of("undo", last.numbers, frames.run, of=last.id))
