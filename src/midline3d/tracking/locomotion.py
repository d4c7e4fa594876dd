"""Which way a worm moves: mostly forwards, head first, while its bends run from head to tail.

The two say the same of a worm that crawls. One that swims slips: its bends run along it ten times as fast as it gets
on, and tell where its head is long before the way that it has made does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from midline3d.settings import HeadSettings

Array = NDArray[np.float64]

STANDSTILL, NO_WAVE = 1e-3, 2e-3
"""Body lengths a frame: least error of the mean speed of the body, and of its bends, so that two frames alike do not
tell head from tail for certain."""
MIDDLE = 0.25
"""Of the body at each end, that is left out of its speed: ends sweep from side to side."""
ENDS = 0.125
"""Of the body at each end, that is left out of its bends' speed: there is nothing beyond to compare with."""
SMOOTHED = 1 / 12
"""Of the body: how far around a point its bend is averaged over. Worms bend over half their length and more."""


def forward_odds(midlines: Array, frames: list[int], heads: HeadSettings) -> float:
    """How much the motion speaks for the first vertex being the head, in natural log odds.

    midlines: (frame, vertex, 3) mm, of frames in order; those with a NaN say nothing. Neighbours are compared where
    there are any, for between frames far apart a bend may have run on to where the next one was. A worm that is seen
    for a moment may just be going backwards: how far its bends run in all says for how long it is seen to go one way.
    """
    known = np.isfinite(midlines).all((1, 2))
    midlines, steps = midlines[known], np.diff(np.array(frames)[known])
    rows = np.flatnonzero(steps == 1) if (steps == 1).any() else np.arange(len(steps))
    if not len(rows):
        return 0.0
    ways = _unit(np.gradient(midlines, axis=1))
    lengths = np.linalg.norm(np.diff(midlines, axis=1), axis=-1).sum(1)
    speeds = _headway(midlines, ways)[rows] / np.median(lengths) / steps[rows]
    waves = _wave_speeds(ways)[rows] / steps[rows]
    run = abs(float(waves.mean())) * (frames[-1] - frames[0])
    most = min(heads.most_odds, heads.at_once + run / heads.reversal)
    return float(np.clip(_surely(speeds, STANDSTILL) + _surely(waves, NO_WAVE), -most, most))


def _headway(midlines: Array, ways: Array) -> Array:
    """(step,) mm that the middle of the body has moved along itself, towards the first vertex."""
    count = midlines.shape[1]
    middle = slice(round(MIDDLE * count), count - round(MIDDLE * count))
    between = (ways[:-1, middle] + ways[1:, middle]) / 2
    return np.asarray(-(np.diff(midlines[:, middle], axis=0) * between).sum(-1).mean(1))


def _wave_speeds(ways: Array) -> Array:
    """(step,) body lengths that bends have run along the body, from the first vertex to the last; ways: unit vectors
    (frame, vertex, 3) along it.

    By least squares: the change of the bends over time against their change along the body.
    """
    count = ways.shape[1]
    inner = slice(round(ENDS * count), count - round(ENDS * count))
    reach = max(1, round(SMOOTHED * count))
    kernel = np.hanning(2 * reach + 1) / np.hanning(2 * reach + 1).sum()
    bends = np.apply_along_axis(lambda values: np.convolve(values, kernel, "same"), 1, np.gradient(ways, axis=1))
    along = np.gradient(bends, 1 / (count - 1), axis=1)
    found = []
    for old, new in zip(range(len(ways) - 1), range(1, len(ways)), strict=True):
        turn = _rotation(ways[old], ways[new])
        slope = (along[old] @ turn.T + along[new])[inner] / 2
        change = (bends[new] - bends[old] @ turn.T)[inner]
        found.append(-(change * slope).sum() / max(float((slope * slope).sum()), 1e-12))
    return np.array(found)


def _rotation(old: Array, new: Array) -> Array:
    """(3, 3) the rotation that takes vectors (n, 3) best to others: a body that turns as a whole does not bend."""
    left, _, right = np.linalg.svd(new.T @ old)
    return np.asarray(left @ np.diag([1.0, 1.0, np.sign(np.linalg.det(left @ right)) or 1.0]) @ right)


def _surely(values: Array, least: float) -> float:
    """The mean against its error, which is `least` at least."""
    return float(values.mean() / (values.std() / np.sqrt(len(values)) + least))


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12))
