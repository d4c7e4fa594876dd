"""What never changes its shape is no worm, however well it is drawn as one: a bubble is taken for a worm curled up, and
a fibre that drifts for one stretched out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Thing = Literal["bubble", "fibre"]

FEWEST = 20
"""Midlines that tell whether their shape changes."""
LOOKED_AT = 200
"""Frames at most, spread over a recording, whose midlines tell it."""
AROUND = 5.8
"""rad: least that a ring turns in all, of the 6.3 of a whole turn."""
ROUND = 0.2
"""Of the mean distance of its points from their middle: most that those differ. A circle's are the same."""
RIGID_RING = 0.005
"""Of the length: most that distances between a bubble's points change over a recording. Of the bubbles that were
followed for worms 0.001 of one that stood alone and 0.011 of one that the worm touched; of 114 simulated animals that
turn all the way around and are as round, 0.015 and more."""
RIGID, DRIFTS = 0.0025, 0.05
"""Of the length: most that distances between a fibre's points change, and least that its middle moves along one axis,
over a recording. Of the fibres that were followed for worms 0.001 while they drifted by 0.10 and 0.14; of 186 simulated
animals those that changed as little were at rest (0.03 at most), and those that moved changed by 0.004 and more."""
SIDEWAYS = 0.3
"""Of a fibre's way: least that leads to its side. It drifts anywhere, and a worm gets on along its own body: in eleven
of some 600 simulated recordings one that was nearly straight glided so evenly that its shape changed as little as a
fibre's, and at most 0.10 of its way led aside. One fibre of twenty drifts so nearly along itself by chance."""
POINTS = 16
"""Of a midline, that are looked at."""


def rigid_thing(midlines: Sequence[Array]) -> Thing | None:
    """What all midlines (vertex, 3) are of, if they are the same wherever they are and however turned: a ring, or what
    drifts, and not along itself. A worm at rest is the same, too, but where it was."""
    if len(midlines) < FEWEST:
        return None
    lines = np.stack([line[evenly(len(line), POINTS)] for line in midlines])
    steps = np.diff(lines, axis=1)
    length = float(np.median(np.linalg.norm(steps, axis=-1).sum(1)))
    if not length > 0:
        return None
    between = np.linalg.norm(lines[:, :, None] - lines[:, None], axis=-1)
    changes = math.sqrt(between.var(0).mean()) / length
    moved = float(np.ptp(lines.mean(1), axis=0).max()) / length
    if changes < RIGID_RING and _is_ring(lines, steps):
        return "bubble"
    return "fibre" if changes < RIGID and moved > DRIFTS and _way_aside(lines) > SIDEWAYS else None


def _way_aside(lines: Array) -> float:
    """Of the way of a line's middle: the share that leads to the side of the line from end to end; lines (frame, point,
    3). Its ends would not do: they go aside where it turns."""
    middle, chord = lines.mean(1), (lines[:, -1] - lines[:, 0]).mean(0)
    away, along = middle - middle.mean(0), chord / max(float(np.linalg.norm(chord)), 1e-12)
    aside = away - (away @ along)[:, None] * along
    return float(np.linalg.norm(aside) / max(float(np.linalg.norm(away)), 1e-12))


def _is_ring(lines: Array, steps: Array) -> bool:
    """Whether midlines (frame, point, 3) mostly turn all the way around and are round; steps: from point to point."""
    ways = steps / np.maximum(np.linalg.norm(steps, axis=-1, keepdims=True), 1e-12)
    turned = np.arccos(np.clip((ways[:, 1:] * ways[:, :-1]).sum(-1), -1, 1)).sum(1)
    from_middle = np.linalg.norm(lines - lines.mean(1, keepdims=True), axis=-1)
    rough = from_middle.std(1) / from_middle.mean(1)
    return bool(np.median(turned) > AROUND and np.median(rough) < ROUND)


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of a number of places, evenly spread."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
