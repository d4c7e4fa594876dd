"""Ends carried on: thinning takes about half a body's width off them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from midline3d.baselines.lines import arc_length, evenly
from midline3d.baselines.scene import Array, Flags, Frame
from midline3d.baselines.voxels import looked_up

STRAIGHT = 0.12
"""Share of the curve at an end, after its very tip, whose direction is gone on in."""
MOST = 0.25
"""Share of the curve by which an end is carried on at most."""
STEP = 0.5
"""px."""


def carried_on(curve: Array, frame: Frame, masks: Sequence[Flags], shift: Array) -> Array:
    """The curve (point, 3) with both ends gone on straight, as far as every view's mask reaches."""
    length = arc_length(curve)[-1]
    ends = []
    for way in (curve, curve[::-1]):
        inner = way[max(2, round(STRAIGHT * len(way)))]
        direction = (way[0] - inner) / max(float(np.linalg.norm(way[0] - inner)), 1e-12)
        steps = np.arange(1, int(MOST * length * frame.scale / STEP) + 1)[:, None] * STEP / frame.scale
        further = way[0] + steps * direction
        inside = np.logical_and.reduce(looked_up(frame.parallel(further), masks, frame.moves(shift)))
        ends.append(further[: int(np.argmin(np.append(inside, False)))])
    return evenly(np.concatenate([ends[0][::-1], curve, ends[1]]), len(curve))
