"""What is shown of all frames at once and has to be derived from their midlines: made block by block, in a thread."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.store import StoredFrames

Array = NDArray[np.float64]
BLOCK = 256
"""Frames that are read at once."""
PLACES = 64
"""Rows of the kymograph: places along the body."""
SMOOTHED = 7
"""Frames over which the speed is taken: differences of neighbours overstate it by a fifth."""
FULL = 12.0
"""Curvature, per body length, at which the kymograph's colours end: two full circles over the body."""
HEAD_DOUBT = 0.5
"""Mean confidence of the first sixteenth of the body under which the head is doubted."""
UNSURE = 0.75
"""Probability that keypoint 0 is the head under which that is doubted."""
SEAM = 0.15
"""Body lengths that a midline may lie from the one before on average; more is a seam."""


@dataclass(frozen=True)
class Numbers:
    """Derived numbers of every frame, NaN where there is no midline."""

    centroid: Array
    """(frame, 3) mm."""
    ends: Array
    """(frame, 2, 3) mm: head and tail."""
    confidence: NDArray[np.float32]
    """(frame, 3): mean over the body, over the head's sixteenth and over the tail's."""
    deviation: NDArray[np.float32]
    """(frame, 3) mm: standard deviation to the side, root of the mean square over the same parts."""
    moved: NDArray[np.float32]
    """(frame,) body lengths: mean way of the keypoints since the frame before."""
    kymograph: NDArray[np.int8]
    """(frame, place) curvature in the plane in which the body bends most, 127 for `FULL`; -128 without a midline."""

    @staticmethod
    def blank(frames: int) -> Numbers:
        return Numbers(
            centroid=np.full((frames, 3), np.nan),
            ends=np.full((frames, 2, 3), np.nan),
            confidence=np.full((frames, 3), np.nan, np.float32),
            deviation=np.full((frames, 3), np.nan, np.float32),
            moved=np.full(frames, np.nan, np.float32),
            kymograph=np.full((frames, PLACES), -128, np.int8),
        )


class Digest:
    """Numbers of a result's frames, brought up to date by a thread of its own."""

    def __init__(self, frames: StoredFrames) -> None:
        self._frames, self._due = frames, threading.Event()
        self._stop = False
        self.numbers = Numbers.blank(len(frames.header.frames))
        self.known = np.zeros(len(frames.header.frames), np.bool_)
        self._thread = threading.Thread(target=self._work, name="midline3d-digest", daemon=True)

    def start(self) -> None:
        self._due.set()
        self._thread.start()

    def stop(self) -> None:
        self._stop = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def update(self, changed: NDArray[np.bool_] | None = None) -> None:
        """Frames have come, or have changed: a mask of those, or all of them if the result is another."""
        if len(self.known) != len(self._frames.header.frames):
            self.numbers = Numbers.blank(len(self._frames.header.frames))
            self.known = np.zeros(len(self._frames.header.frames), np.bool_)
        if changed is not None:
            # The frame behind a changed one has moved from somewhere else.
            self.known &= ~(changed | np.roll(changed, 1))
        self._due.set()

    def catch_up(self) -> None:
        """Everything that is due, now."""
        while self._once():
            pass

    def _work(self) -> None:
        while not self._stop:
            self._due.wait()
            self._due.clear()
            began = time.monotonic()
            while not self._stop and self._once():
                # Half of the time is left to whoever is looking: reading is one at a time.
                time.sleep(min(1.0, time.monotonic() - began))
                began = time.monotonic()

    def _once(self) -> bool:
        """Digests the first block that is due; False where none is."""
        due = self._frames.done & ~self.known
        if not due.any():
            return False
        first = int(np.argmax(due)) // BLOCK * BLOCK
        stop = min(first + BLOCK, len(due))
        self.known[first:stop] |= due[first:stop]
        self._fill(self._frames.part(first, stop, ("confidence", "curvature", "sigma_across")), first, self.numbers)
        return True

    def _fill(self, part: xr.Dataset, first: int, numbers: Numbers) -> None:
        position = part["position"].isel(individual=0).transpose("time", "keypoint", "space").values
        rows = slice(first, first + len(position))
        tip = max(1, position.shape[1] // 16)
        sure = part["confidence"].isel(individual=0).values
        numbers.centroid[rows] = position.mean(1)
        numbers.ends[rows] = position[:, [0, -1]]
        numbers.confidence[rows] = np.stack([sure.mean(1), sure[:, :tip].mean(1), sure[:, -tip:].mean(1)], 1)
        squares = part["sigma_across"].values ** 2
        parts = (squares, squares[:, :tip], squares[:, -tip:])
        numbers.deviation[rows] = np.stack([each.mean(1) for each in parts], 1) ** 0.5
        before = self._before(first, position.shape[1:])
        way = np.linalg.norm(np.diff(position, axis=0, prepend=before[None]), axis=-1).mean(1)
        numbers.moved[rows] = way / part["length"].values
        start = numbers.kymograph[first - 1].astype(np.float64) if first else None
        numbers.kymograph[rows] = kymograph(part["curvature"].values, start)

    def _before(self, first: int, shape: tuple[int, ...]) -> Array:
        """(keypoint, 3) mm: the midline of the frame before a block."""
        if not first:
            return np.full(shape, np.nan)
        part = self._frames.part(first - 1, first, ())
        before: Array = part["position"].isel(individual=0, time=0).transpose("keypoint", "space").values
        return before


def kymograph(curvature: NDArray[np.floating], before: Array | None = None) -> NDArray[np.int8]:
    """(frame, place) curvature in each frame's own plane of bending, as `Numbers.kymograph` keeps it.

    The Bishop frame has a free angle in every frame, so that its axes are not those of the frame before; the direction
    in which the body bends most does not depend on it. Its sign is the one that carries on the frame before.
    """
    bent = curvature[..., 0] + 1j * curvature[..., 1]
    edges = np.linspace(0, bent.shape[1], PLACES + 1).round().astype(int)
    places = np.stack([bent[:, low : max(high, low + 1)].mean(1) for low, high in pairwise(edges)], 1)
    turn = np.exp(-0.5j * np.angle((places**2).sum(1)))
    plane = (places * turn[:, None]).real
    last = None if before is None or before[0] == -128 else before
    for row in plane:
        if not np.isfinite(row).all():
            continue
        if last is not None and row @ last < 0:
            row *= -1
        last = row
    found = np.isfinite(plane).all(1)
    shown = np.full(plane.shape, -128, np.int8)
    shown[found] = np.clip(np.rint(127 * plane[found] / FULL), -127, 127)
    return shown


def speed(centroid: Array, fps: float) -> Array:
    """(frame,) mm/s of the centroid: the slope of a line through the frames around; NaN where one has no midline."""
    half, count = SMOOTHED // 2, len(centroid)
    found = np.full(count, np.nan)
    if count < SMOOTHED:
        return found
    steps = np.arange(-half, half + 1)
    weights = steps / (steps**2).sum()
    windows = np.lib.stride_tricks.sliding_window_view(centroid, SMOOTHED, axis=0)
    found[half : count - half] = np.linalg.norm(windows @ weights, axis=-1) * fps
    return found


def head_doubts(numbers: Numbers, sure: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Frames whose head is hardly seen, or lies where the tail was in the frame before; and where a stretch begins in
    which it is doubted which end it is.

    sure: (frame,) probability that keypoint 0 is the head.
    """
    ends = numbers.ends
    before = np.roll(ends, 1, axis=0)
    before[:1] = np.nan
    stayed = np.linalg.norm(ends - before, axis=-1).sum(-1)
    turned = np.linalg.norm(ends[:, ::-1] - before, axis=-1).sum(-1)
    with np.errstate(invalid="ignore"):
        unsure = sure < UNSURE
        return (turned < stayed) | (numbers.confidence[:, 1] < HEAD_DOUBT) | (unsure & ~np.roll(unsure, 1))


def seams(numbers: Numbers) -> NDArray[np.bool_]:
    """Frames that do not carry on the one before: behind a gap, and where the midline springs."""
    there = np.isfinite(numbers.centroid[:, 0])
    before = np.roll(there, 1)
    before[:1] = True
    with np.errstate(invalid="ignore"):
        return (there & ~before) | (numbers.moved > SEAM)
