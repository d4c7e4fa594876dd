"""Bubbles that stay where they are: a ring like the worm's own light around a middle that is lighter than the light.

Where a worm comes near one, both are found as one thing, and a bubble that is never seen apart from the worm would
never become part of the background. But no worm is lighter than the light where it is darker elsewhere: by its middle a
bubble is known in samples that the worm covers, too.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field

DIRECTIONS = 32
"""From a bubble's middle, in which its ring is looked for."""
ROUND, EVEN = 0.9, 0.5
"""Share of these directions in which a ring has to be seen, and of its usual light there: a worm that lies curled up is
open somewhere, or lies over itself. Of two bubbles nine of ten directions had 0.97 to 0.99 of it, of a worm less than
nothing."""
SHALLOW = 0.35
"""Of the ring's light: a middle that is lighter than the light by less may be a worm's own fringe. Those two had 0.5
and 0.7."""
FAINT = 0.2
"""Of the ring's light: where it has fallen below, the ring ends."""
WIDEST = 4.0
"""Times as far from its centre as a bubble's middle reaches that its ring may end."""
CHANGED = 0.25
"""Of a bubble's light: what a sample has more or less than usual on average, above which something lies before it."""


def bare_bubbles(fields: Field, usual: Field, least: float) -> NDArray[np.bool_] | None:
    """(sample, height, width) where samples of one view show a bubble that stays there, with no worm before it; None
    where there is none.

    fields: (sample, height, width) signals against the light, the worm bright on 0; usual: their median; least: by
    which a thing must stand out of the light.
    """
    _, labels, stats, centres = cv2.connectedComponentsWithStats((usual < -least).astype(np.uint8), connectivity=8)
    bare: NDArray[np.bool_] | None = None
    for core, (centre, area) in enumerate(zip(centres[1:], stats[1:, cv2.CC_STAT_AREA].tolist(), strict=True), 1):
        disc = _disc(usual, labels == core, centre, area, least)
        if disc is None:
            continue
        if bare is None:
            bare = np.zeros(fields.shape, np.bool_)
        level = np.abs(usual[disc]).mean()
        for sample, field in enumerate(fields):
            bare[sample] |= disc & bool(np.abs(field[disc] - usual[disc]).mean() < CHANGED * level)
    return bare


def _disc(
    usual: Field, core: NDArray[np.bool_], centre: NDArray[Any], area: float, least: float
) -> NDArray[np.bool_] | None:
    """The bubble with this middle; None where it has no ring of the worm's sign around it, which stands out by `least`
    or more."""
    radius = (area / np.pi) ** 0.5
    far = np.arange(0.5, WIDEST * radius + 2, 0.5)
    angle = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)[:, None]
    across, down = centre[0] + far * np.cos(angle), centre[1] + far * np.sin(angle)
    light = cv2.remap(usual, across.astype(np.float32), down.astype(np.float32), cv2.INTER_LINEAR)
    # In nearly all directions, whatever else lies in the others.
    ring, level = np.quantile(light, 1 - ROUND, axis=0), np.median(light, 0)
    peak = int(ring.argmax())
    depth = -float(usual[core].min())
    if ring[peak] < max(least, EVEN * level[peak]) or depth < SHALLOW * level[peak]:
        return None
    ends = np.flatnonzero(ring[peak:] < FAINT * ring[peak])
    if not len(ends):
        return None
    rows, columns = np.ogrid[: usual.shape[0], : usual.shape[1]]
    return np.asarray(np.hypot(columns - centre[0], rows - centre[1]) <= far[peak + int(ends[0])] + 1)
