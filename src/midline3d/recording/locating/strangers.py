"""Things that never change their shape: bubbles, fibres and dirt, however heavy and slender. Only the worm bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field
from midline3d.recording.locating.places import Candidates

Array = NDArray[np.float64]

ALIKE = 0.95
"""Likeness to itself at other times above which a thing has kept its shape. Of 141 recordings of three image models
what was found is above it in 14: four fibres and bubbles (0.987 to 0.995) and ten worms at rest."""
BENT = 0.8
"""Likeness to itself at other times below which a thing has changed its shape, as dirt seldom does. Of the worms of
these recordings 80 % are below it."""
SMOOTHED = 1.5
"""px of the shrunken picture: Gaussian over the pictures that are compared, so that noise and the fraction of a px by
which they lie differently do not count."""
RIM = 2
"""px around a thing that belong to its picture."""
SLACK = 4
"""px by which pictures may be moved against each other beyond what their sizes differ by."""
TOO_HEAVY = 1.5
"""Times that a thing is heavier or lighter at another time, from which on it is not the same."""
MOSTLY = 0.8
"""Share of samples in which a thing is seen that is there all the time."""
NEAR = 8.0
"""px around the place where such a thing should be, within which a thing is that one."""


@dataclass(frozen=True, eq=False)
class Stranger:
    """A thing in one view that keeps its shape wherever it is."""

    during: range
    """The frames of the recording that it is known in."""
    frames: Array
    """(moment,) at which it was seen."""
    centre: Array
    """(moment, 2) px of the full frame."""
    mass: float

    def at(self, frame: int) -> tuple[float, float]:
        """Where it should be, px."""
        across, down = (float(np.interp(frame, self.frames, axis)) for axis in self.centre.T)
        return across, down


def which_are(strangers: Sequence[Stranger], frame: int, centre: Array, mass: NDArray[Any]) -> NDArray[np.bool_]:
    """(thing,) whether things of a frame, by centre and mass, are among those that are known as strangers."""
    found = np.zeros(len(mass), np.bool_)
    for one in strangers:
        if frame in one.during:
            near = np.linalg.norm(centre - one.at(frame), axis=1) < NEAR
            found |= near & (np.abs(np.log(mass / one.mass)) < np.log(TOO_HEAVY))
    return found


def picture_of(field: Field, mask: NDArray[np.bool_]) -> Field:
    """A thing's own light, cut out of a signal."""
    left, top, width, height = cv2.boundingRect(mask.view(np.uint8))
    part = (slice(max(0, top - RIM), top + height + RIM), slice(max(0, left - RIM), left + width + RIM))
    around = cv2.dilate(mask[part].view(np.uint8), np.ones((2 * RIM + 1, 2 * RIM + 1), np.uint8))
    return np.asarray(np.maximum(cv2.GaussianBlur(field[part], (0, 0), SMOOTHED), 0) * around, np.float32)


def likeness(one: Field, other: Field) -> float:
    """Correlation of two pictures where they lie best upon each other, 0 to 1."""
    room = [max(first, second) + 2 * SLACK for first, second in zip(one.shape, other.shape, strict=True)]
    top, left = ((wide - own) // 2 for wide, own in zip(room, one.shape, strict=True))
    held = np.zeros(room, np.float32)
    held[top : top + one.shape[0], left : left + one.shape[1]] = one
    most = cv2.matchTemplate(held, other, cv2.TM_CCORR).max()
    return float(most / max(1e-9, float(np.linalg.norm(one)) * float(np.linalg.norm(other))))


def usual_likeness(pictures: Sequence[Field]) -> float:
    """How like itself a thing is at other times: the median over pictures a third and a half of all times apart."""
    count = len(pictures)
    apart = {count // 3, count // 2} - {0}
    pairs = [(first, (first + far) % count) for far in sorted(apart) for first in range(0, count, 2)]
    return float(np.median([likeness(pictures[one], pictures[other]) for one, other in pairs])) if pairs else np.nan


def unchanging(fields: Sequence[Field], seen: Sequence[Candidates], frames: Sequence[int]) -> list[Stranger]:
    """The things in one view's samples (signals, what was seen in them, their frames) that keep their shape."""
    pictures = [
        [picture_of(field, things.pixels(thing)) for thing in range(len(things))]
        for field, things in zip(fields, seen, strict=True)
    ]
    known: list[Stranger] = []
    taken = [np.zeros(len(things), np.bool_) for things in seen]
    for first in (len(seen) // 2, 0, len(seen) - 1):
        for thing in np.flatnonzero(~taken[first]).tolist():
            same = _same_thing(pictures, seen, taken, first, thing)
            if len(same) >= MOSTLY * len(seen):
                for sample, which in same.items():
                    taken[sample][which] = True
                moments = sorted(same)
                centre = np.array([seen[sample].centre[same[sample]] for sample in moments])
                times = np.array([frames[sample] for sample in moments], np.float64)
                known.append(Stranger(range(frames[0], frames[-1] + 1), times, centre, float(seen[first].mass[thing])))
    return known


def _same_thing(
    pictures: Sequence[Sequence[Field]],
    seen: Sequence[Candidates],
    taken: Sequence[NDArray[np.bool_]],
    first: int,
    thing: int,
) -> dict[int, int]:
    """By sample, which thing looks like one of the sample `first`; of several that do the nearest to where it was.

    taken: (sample, thing) which ones are known as others.
    """
    same = {first: thing}
    for order in (range(first + 1, len(seen)), range(first - 1, -1, -1)):
        place = seen[first].centre[thing]
        for sample in order:
            things = seen[sample]
            near = np.argsort(np.linalg.norm(things.centre - place, axis=1))
            may_be = np.abs(np.log(things.mass / seen[first].mass[thing])) < np.log(TOO_HEAVY)
            may_be &= ~taken[sample]
            for other in near[may_be[near]].tolist():
                if likeness(pictures[first][thing], pictures[sample][other]) > ALIKE:
                    same[sample], place = other, things.centre[other]
                    break
    return same
