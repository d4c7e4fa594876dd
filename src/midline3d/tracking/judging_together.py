"""All frames judged once more when all are there: with those around them, and for what only the whole recording shows.

What never changes its shape is no worm (see `rigid`), and cameras do not wander (see `wandering`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from midline3d.tracking.clip_frames import ClipFrames
from midline3d.tracking.doubt import end_missed, more_likely, together
from midline3d.tracking.rigid import LOOKED_AT, Thing, evenly, rigid_thing
from midline3d.tracking.wandering import wandering

NO_WORM = 0.9
"""Doubt of all frames of what is taken for a bubble or a fibre."""
WANDERED = 2.8
"""Log odds that a frame is wrong, more than by all else, where the views wander (see `wandering`): in 343 recordings of
six image models they did in 7 of some 60 that were wrong in most frames, and in 2 of some 280 that were right, whose
cameras did shake as far."""
LIKE: dict[Thing, str] = {
    "bubble": "is round and never changes its shape, as a bubble does",
    "fibre": "drifts and never changes its shape, as a fibre does",
}
"""What is said of it."""
COUNTS = 0.05
"""Probability that an end is missed in all frames alike, from which on it counts: less would never make a frame
suspect, and have all of them written down again."""
LONG_ENOUGH = 0.5
"""s: in a shorter recording a worm may well rest, and drift with what it lies in."""
HARDLY = 0.01
"""Doubt under which a frame is not written down again for what those around it say: it stays next to none."""


def judged_together(frames: ClipFrames) -> int:
    """Judges all frames anew by their doubt, with what those around them say; returns how many have changed status."""
    count, limit = len(frames.beginning.clip), frames.beginning.clip.settings.judging.doubt_together
    alone = np.full(count, np.nan)
    midlines, shifts = list[NDArray[np.floating]](), dict[int, NDArray[np.floating]]()
    looked_at = set(evenly(count, LOOKED_AT).tolist())
    for frame in range(count):
        record = frames.read(frame)
        if record is not None and record.doubt is not None:
            alone[frame] = float(record.doubt)
            if frame in looked_at and record.position is not None:
                midlines.append(record.position)
            if record.shift is not None:
                shifts[frame] = record.shift
    if midlines and count >= LONG_ENOUGH * frames.result.header.fps and _is_rigid(midlines):
        alone = np.where(np.isnan(alone), np.nan, NO_WORM)
    doubts, changed = together(alone), 0
    elsewhere = _views_elsewhere(frames.start, count, shifts)
    doubts[elsewhere] = more_likely(doubts[elsewhere], WANDERED)
    body, scale = frames.beginning.body, frames.beginning.clip.prepared.scale
    missed = end_missed(max(body.unsure) * float(body.length) * scale)
    if missed > COUNTS:
        doubts = 1 - (1 - doubts) * (1 - missed)
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


def _is_rigid(midlines: list[NDArray[np.floating]]) -> bool:
    """Whether what was followed is no worm by its midlines (see `rigid`); says so."""
    thing = rigid_thing(midlines)
    if thing is not None:
        warnings.warn(
            f"what was followed {LIKE[thing]}: all its frames are suspect; "
            "look at some of them, and if it is no worm, crop it away or film without it",
            stacklevel=3,
        )
    return thing is not None


def _views_elsewhere(start: int, count: int, shifts: dict[int, NDArray[np.floating]]) -> NDArray[np.int64]:
    """Frames around which the views wander by their shifts (see `wandering`); says so. start: the first one's number
    in the recording."""
    known = sorted(shifts)
    table = np.full((count, len(shifts[known[0]]) if known else 0), np.nan)
    for frame in known:
        table[frame] = shifts[frame]
    found = np.intersect1d(np.flatnonzero(wandering(table)), known).astype(np.int64)
    if len(found):
        warnings.warn(
            f"in {len(found)} frames between {start + found[0]} and {start + found[-1]} the views wander off against "
            "each other, as cameras hardly do; look whether every view shows the worm there",
            stacklevel=3,
        )
    return found
