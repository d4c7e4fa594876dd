"""What is round and never changes its shape is no worm but a bubble, however well it is drawn as a worm curled up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

FEWEST = 20
"""Midlines that tell whether their shape changes."""
LOOKED_AT = 200
"""Frames at most, spread over a recording, whose midlines tell it."""
AROUND = 5.8
"""rad: least that a ring turns in all, of the 6.3 of a whole turn."""
ROUND = 0.2
"""Of the mean distance of its points from their middle: most that those differ. A circle's are the same."""
RIGID = 0.005
"""Of the length: most that distances between its points change over a recording. Of the bubbles that were followed for
worms 0.001 of one that stood alone and 0.011 of one that the worm touched; of 114 simulated animals that turn all the
way around and are as round, 0.015 and more."""
POINTS = 16
"""Of a midline, that are looked at."""


def is_rigid_ring(midlines: Sequence[Array]) -> bool:
    """Whether all midlines (vertex, 3) are the same ring, wherever it is and however it is turned."""
    if len(midlines) < FEWEST:
        return False
    lines = np.stack([line[evenly(len(line), POINTS)] for line in midlines])
    steps = np.diff(lines, axis=1)
    length = float(np.median(np.linalg.norm(steps, axis=-1).sum(1)))
    if not length > 0:
        return False
    ways = steps / np.maximum(np.linalg.norm(steps, axis=-1, keepdims=True), 1e-12)
    turned = np.arccos(np.clip((ways[:, 1:] * ways[:, :-1]).sum(-1), -1, 1)).sum(1)
    from_middle = np.linalg.norm(lines - lines.mean(1, keepdims=True), axis=-1)
    rough = from_middle.std(1) / from_middle.mean(1)
    between = np.linalg.norm(lines[:, :, None] - lines[:, None], axis=-1)
    changes = math.sqrt(between.var(0).mean()) / length
    return bool(np.median(turned) > AROUND and np.median(rough) < ROUND and changes < RIGID)


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of a number of places, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
