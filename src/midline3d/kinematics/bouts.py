"""Runs, reversals, pauses and turns: a recording's motion cut into what observers speak of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from midline3d.kinematics.options import Options
from midline3d.kinematics.smoothing import Window

Array = NDArray[np.float64]
Words = NDArray[np.object_]
FORWARD, BACKWARD, PAUSE, UNKNOWN = "forward", "backward", "pause", ""


@dataclass(frozen=True)
class Run:
    """A stretch in one direction."""

    first: int
    """Frame, counted from the first of the result."""
    last: int
    kind: str
    """forward, or backward: a reversal."""


@dataclass(frozen=True)
class Turn:
    """What lies between two runs forward."""

    first: int
    """Last frame of the run before."""
    last: int
    """First frame of the run after."""
    angle: float
    """rad, 0 to pi: between the directions of the two runs."""
    roll: float
    """rad: by which the bending plane has turned about the body meanwhile; NaN where that is not known."""
    reversal: bool
    """Whether the animal went backwards in between."""


@dataclass(frozen=True)
class Course:
    """What the motion is made of, without its beat."""

    direction: Array
    """(time, 3) unit vector of the centroid's motion, turned round where the animal goes backwards: where it faces."""
    forward: Array
    """(time,) mm/s."""
    plane: Array
    """(time,) rad: the bending plane's angle."""


def course(velocity: Array, forward: Array, plane: Array, fps: float, options: Options) -> Course:
    """The motion without its beat. velocity: (time, 3) mm/s; forward: (time,) mm/s; plane: (time,) rad."""
    window = Window.of(options.run_window, fps)
    ahead = velocity * np.sign(forward)[:, None]
    ahead = np.stack([_mean(axis, window) for axis in ahead.T], -1)
    speed = np.linalg.norm(ahead, axis=-1, keepdims=True)
    direction = ahead / np.where(speed > 0, speed, np.nan)
    return Course(direction, _mean(forward, Window.of(options.forward_window, fps)), plane)


def motions(way: Course, length: float, fps: float, options: Options) -> Words:
    """(time,) forward, backward or pause; empty where that is not known. length: mm.

    By the forward speed's mean over `options.forward_window` against `options.slowest` body lengths a second; what
    lasts less than `options.shortest_run` joins what came before it.
    """
    limit = options.slowest * length
    words = np.full(len(way.forward), UNKNOWN, object)
    words[np.abs(way.forward) <= limit] = PAUSE
    words[way.forward > limit] = FORWARD
    words[way.forward < -limit] = BACKWARD
    least = round(options.shortest_run * fps)
    for first, last in _same(words):
        if last - first + 1 < least and first > 0 and words[first] != UNKNOWN and words[first - 1] != UNKNOWN:
            words[first : last + 1] = words[first - 1]
    return words


def runs(way: Course, words: Words, window: Window, options: Options) -> list[Run]:
    """Stretches forward or backward in which the direction turns by less than `options.turning`, long enough to count.

    The direction's rate is the angle between those half a window before and half a window after, over the window.
    """
    half = max(1, window.half // 2)
    rate = np.zeros(len(words))
    cosine = (way.direction[2 * half :] * way.direction[: -2 * half]).sum(-1)
    rate[half : len(rate) - half] = np.nan_to_num(np.arccos(np.clip(cosine, -1, 1))) * window.fps / (2 * half)
    least = round(options.shortest_run * window.fps)
    steady = _bridged(words, least)
    steady[rate > options.turning] = UNKNOWN
    return [
        Run(first, last, str(steady[first]))
        for first, last in _same(steady)
        if steady[first] in (FORWARD, BACKWARD) and last - first + 1 >= least
    ]


def turns(way: Course, found: list[Run], window: Window) -> list[Turn]:
    """Between every two successive runs forward: angle and roll from the end of one to the start of the next.

    Half a window next to the turn is left out: the smoothed direction has the turn in it there already.
    """
    ahead = [run for run in found if run.kind == FORWARD]
    result = []
    for before, after in pairwise(ahead):
        away = 2 * window.half
        end = slice(max(before.first, before.last - away), max(before.first, before.last - window.half) + 1)
        start = slice(min(after.last, after.first + window.half), min(after.last, after.first + away) + 1)
        one, other = way.direction[end].mean(0), way.direction[start].mean(0)
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        back = any(run.kind == BACKWARD and before.last < run.first < after.first for run in found)
        roll = float(way.plane[start].mean() - way.plane[end].mean())
        result.append(Turn(before.last, after.first, float(np.arccos(np.clip(cosine, -1, 1))), roll, back))
    return result


def _bridged(words: Words, shorter: int) -> Words:
    """Gaps of fewer frames than `shorter` filled where the same word stands on both sides: a lost frame ends no run."""
    filled = words.copy()
    for first, last in _same(words):
        inside = first > 0 and last < len(words) - 1
        if inside and words[first] == UNKNOWN and last - first + 1 < shorter and words[first - 1] == words[last + 1]:
            filled[first : last + 1] = words[first - 1]
    return filled


def _same(words: Words) -> list[tuple[int, int]]:
    """First and last of every stretch of one word."""
    if not len(words):
        return []
    breaks = np.flatnonzero(words[1:] != words[:-1])
    firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(words) - 1)
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def _mean(values: Array, window: Window) -> Array:
    """Mean over the window, of the frames that are there."""
    known = np.isfinite(values)
    weights = np.ones(2 * window.half + 1)
    total = np.convolve(np.where(known, values, 0.0), weights)[window.half : window.half + len(values)]
    count = np.convolve(known.astype(float), weights)[window.half : window.half + len(values)]
    return np.asarray(np.where(known, total / np.maximum(count, 1), np.nan))
