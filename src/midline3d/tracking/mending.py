"""Frames fitted again from the other side: where an end springs, it was caught before, or is caught now.

Followed in one direction, an end that is hidden for a while may take hold of something else, be carried along, and
spring back once it is seen again. Followed back from there it does not: the frames before the spring are fitted again
from the one behind it, and those behind it from the one before, for as long as that leaves less energy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.state import FrameState
from midline3d.store import Status
from midline3d.tracking.begin import Beginning
from midline3d.tracking.follow import Tracked, fitted_from, outcome
from midline3d.tracking.judging import rank


@dataclass(frozen=True)
class KnownFrame:
    """What a frame has come to, as far as whoever would better it asks."""

    state: FrameState
    """A batch of one, in the frame's own local world."""
    energy: float
    """With the temporal terms or without them, as whoever asks compares it."""
    status: Status

    def no_better_than(self, status: Status) -> bool:
        """Whether another status is at least as good as this frame's."""
        return rank(status) >= rank(self.status)


ReadKnown = Callable[[int], KnownFrame | None]
"""What is known of a frame (within the clip); None where it has no midline."""


def springs(ends: NDArray[np.float64], middle: NDArray[np.float64], length: float, sprung: float) -> NDArray[np.int64]:
    """Frames t for which an end moves further than the middle does, from t to t + 1, by more than `sprung` lengths.

    ends: (frame, 2, 3) mm, middle: (frame, 3) mm, NaN where there is no midline.
    """
    with np.errstate(invalid="ignore"):
        return np.flatnonzero(end_steps(ends, middle) > sprung * length)


def end_steps(ends: NDArray[np.float64], middle: NDArray[np.float64]) -> NDArray[np.float64]:
    """(frame - 1,) mm by which the end that moves most moves further than the middle does (see `springs`)."""
    own = np.linalg.norm(np.diff(middle, axis=0), axis=-1)
    return np.linalg.norm(np.diff(ends, axis=0), axis=-1).max(-1) - own


def mended(beginning: Beginning, sprung: list[int], read: ReadKnown) -> Iterator[Tracked]:
    """The frames on either side of every spring (see `springs`) that come out better from the other side."""
    better: dict[int, KnownFrame] = {}

    def known(frame: int) -> KnownFrame | None:
        return better[frame] if frame in better else read(frame)

    count, limits = len(beginning.clip), beginning.clip.settings.repair
    for spring in sprung:
        for source, direction in ((spring + 1, -1), (spring, 1)):
            for frame in range(source + direction, count if direction > 0 else -1, direction):
                if abs(frame - source) > limits.farthest:
                    break
                old, start = known(frame), known(frame - direction)
                if old is None or start is None:
                    break
                carried = beginning.clip.carried(start.state, frame - direction, frame)
                found = fitted_from(beginning, frame, carried)
                energy, status = float(found.fit.energy), found.verdict.status
                if not energy < old.energy - limits.least_gain or status == "lost" or not old.no_better_than(status):
                    break
                better[frame] = KnownFrame(found.fit.state, energy, status)
                yield outcome(beginning.clip, frame, found)
