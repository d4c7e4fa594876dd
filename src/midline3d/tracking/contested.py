"""Frames that another midline fits nearly as well, an end of which lies elsewhere.

Where an end springs from one frame to the next, it lies wrong on one side of the spring. `mending` takes whichever side
leaves less energy. But the images may hardly tell the two apart: dirt beside an end looks like more of it, and with two
cameras a head that lies over the body in one view fits there in two depths. The deviations of a fit know nothing of a
second one. So what lies on either side is carried on across the spring, for as long as it stays elsewhere and fits.
Where it comes to meet what was there without another spring, the spring was none of the animal's: it is taken. Else
the frames stay as they are, each the less sure the less it fits better than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from midline3d.state import FrameState
from midline3d.tracking.begin import Beginning
from midline3d.tracking.follow import Candidate, Tracked, fitted_from, outcome
from midline3d.tracking.learning import nat
from midline3d.tracking.mending import ReadKnown, end_steps

ELSEWHERE = 8.0
"""px between the ends of two midlines one of which is wrong (see `doubt`)."""
HOPELESS = 3.0
"""Nats, tempered, that another midline leaves more, and is given up: it counts a twentieth."""
SMOOTHER = 0.6
"""Of the longest step of an end along what was there: another way is taken whose steps are all shorter than that. No
step at all need not be: a head that swings moves unevenly by itself."""
AS_GOOD = 1.0
"""Nats, tempered, that another way through time may leave more in a frame, on average, and is taken for its smoothness;
and that it must leave less to be taken without."""


@dataclass(frozen=True)
class Second:
    """Another midline of a frame."""

    frame: int
    found: Candidate
    worse: float
    """Nats, tempered, that it leaves more. A nat counts as often less as it does where the body is learned
    (`BodySettings.sure`): what the model gets wrong is no noise."""


@dataclass(frozen=True)
class Way:
    """What lies on one side of a spring, carried on into the other."""

    seconds: list[Second]
    source: int
    """The frame it comes from."""
    meeting: int | None
    """The frame in which it is what was there already; None where it never is."""


def ways_across(beginning: Beginning, at: list[int], read: ReadKnown) -> list[list[Way]]:
    """The ways across some springs, by the frames behind which an end springs."""
    return [_ways(beginning, spring, read) for spring in at]


def second_midlines(beginning: Beginning, across: list[list[Way]], read: ReadKnown) -> dict[int, float]:
    """By frame, the probability that a midline from beyond a spring is the right one, where there is such a midline.

    across: see `ways_across`.
    """
    found: dict[int, float] = {}
    for ways in across:
        for way in ways:
            if _roughness(beginning, way, read) > 1:
                continue
            for second in way.seconds:
                found[second.frame] = max(found.get(second.frame, 0.0), 1 / (1 + math.exp(second.worse)))
    return found


def without_springs(beginning: Beginning, across: list[list[Way]], read: ReadKnown) -> Iterator[Tracked]:
    """Frames along another way that fits them as well and on which the ends move far more evenly, or that fits them
    clearly better."""
    taken = set[int]()
    for ways in across:
        good = [way for way in ways if _better(beginning, way, read)]
        way = min(good, key=_mean, default=None)
        if way is None or taken & {second.frame for second in way.seconds}:
            continue
        for second in way.seconds:
            taken.add(second.frame)
            yield outcome(beginning.clip, second.frame, second.found)


def _ways(beginning: Beginning, spring: int, read: ReadKnown) -> list[Way]:
    """From either side of a spring into the other."""
    ways = [_carried_on(beginning, spring + 1, -1, read), _carried_on(beginning, spring, 1, read)]
    return [way for way in ways if way.seconds]


def _carried_on(beginning: Beginning, source: int, direction: int, read: ReadKnown) -> Way:
    """Onward from a source, for as long as what lies there fits and an end of it lies elsewhere than what is there."""
    clip, start, way = beginning.clip, read(source), Way([], source, None)
    if start is None:
        return way
    state, settings = start.state, clip.settings
    onward = range(source + direction, len(clip) if direction > 0 else -1, direction)
    for frame in onward[: settings.repair.farthest]:
        old = read(frame)
        if old is None:
            return way
        other = fitted_from(beginning, frame, clip.carried(state, frame - direction, frame))
        state = other.fit.state
        apart = (state.points[0] - old.state.points[0])[[0, -1]].norm(dim=-1).max() * clip.prepared.scale
        worse = (float(other.fit.energy) - old.energy) / (settings.body.sure * nat(settings))
        if apart <= ELSEWHERE:
            return Way(way.seconds, source, frame)
        if other.verdict.status == "lost" or not worse < HOPELESS:
            return way
        way.seconds.append(Second(frame, other, worse))
    return way


def _better(beginning: Beginning, way: Way, read: ReadKnown) -> bool:
    """Whether a way is to be taken instead of what was there."""
    rough, worse = _roughness(beginning, way, read), _mean(way)
    return (way.meeting is not None and rough < SMOOTHER and worse < AS_GOOD) or (rough <= 1 and worse < -AS_GOOD)


def _roughness(beginning: Beginning, way: Way, read: ReadKnown) -> float:
    """The longest step of an end along a way, as a share of the longest along what was there.

    A way that itself springs to get away from what was there, or back to it, is none that the animal went.
    """
    frames = [way.source, *(second.frame for second in way.seconds)] + ([] if way.meeting is None else [way.meeting])
    there = {frame: known.state for frame in frames if (known := read(frame)) is not None}
    instead = there | {second.frame: second.found.fit.state for second in way.seconds}
    return _longest_step(beginning, instead) / _longest_step(beginning, there)


def _longest_step(beginning: Beginning, states: dict[int, FrameState]) -> float:
    """mm that an end moves from one of these frames to the next at most, beyond what the body does."""
    points = np.stack([beginning.clip.world(states[frame], [frame])[0].numpy() for frame in sorted(states)])
    return max(float(end_steps(points[:, [0, -1]], points.mean(1)).max()), 1e-6)


def _mean(way: Way) -> float:
    """Tempered nats that a way leaves more in a frame."""
    return float(np.mean([second.worse for second in way.seconds]))
