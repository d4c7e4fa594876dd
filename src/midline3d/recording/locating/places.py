"""The worm among dirt, bubbles and old tracks: candidates in every view, joined over the views, decided over time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field
from midline3d.recording.background.ranks import deviation_of
from midline3d.recording.background.signal import density_of
from midline3d.recording.connected import connected
from midline3d.recording.pinholes import Pinholes, project, triangulate
from midline3d.recording.slenderness import area_by_width, filled
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]

IsStrange = Callable[[Array, NDArray[Any]], NDArray[np.bool_]]
"""Tells, by their centres (thing, 2) and masses (thing,), which things of a view are known not to be the worm."""
ABSENT = -1
LIGHTER = 1.5
"""Log-likelihood that a thing loses for every factor of e that its weight is less than the weightiest thing's usually
is, while the worm's mass is not known."""
FARTHEST = 6.0
"""Tolerances beyond which a view's miss counts no more, so that one wrong view does not outweigh all masses."""
LOOKED_AT = 3
"""Times as many heavy things as are kept whose shape is looked at."""
ROUND, SLENDER = 1.0, 3.0
"""Length over width that count when things are kept: less than a disc's nothing is, and a coil may be no more."""
ROUNDER, ROUND_AT_MOST = 4.0, 1.5
"""Log-likelihood that a thing loses for every factor of e that its length over width is below 1.5, which a tight coil's
is not: a disc loses 2, so little that a worm seen from its end in one view is still found by the others."""
EDGE = 0.4
"""Of the least peak: how faint a pixel of a thing may be that reaches it."""
TRIANGULATED = 8
"""Readings for every one that is kept which are triangulated: by mass alone the right one is seldom far behind."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Things that stand out in one view of one frame, the heaviest first."""

    centre: Array
    """(thing, 2) px of the full frame."""
    mass: NDArray[Any]
    """(thing,) summed optical density, px^2: nearly the same in all views and postures of one animal."""
    box: Array
    """(thing, 4) left, top, right, bottom, px of the full frame."""
    name: NDArray[np.int64]
    """(thing,) its number in `label`."""
    label: NDArray[Any]
    """(height, width) of the shrunken picture: the numbers of the things."""
    slender: Array
    """(thing,) length over width, roughly: 0.8 for a disc, 2 for a tight coil, 10 for a worm stretched out."""
    strange: NDArray[np.bool_]
    """(thing,) whether it is known not to be the worm (see `strangers`)."""
    factor: int
    """By which the picture was shrunken."""

    def __len__(self) -> int:
        return len(self.mass)

    def pixels(self, choice: int) -> NDArray[np.bool_]:
        """Where one of the things is in the shrunken picture; nowhere for ABSENT."""
        pixels = np.zeros(self.label.shape, np.bool_)
        if choice != ABSENT:
            part = self._part(choice)
            pixels[part] = self.label[part] == self.name[choice]
        return pixels

    def _part(self, choice: int) -> tuple[slice, slice]:
        """The part of the shrunken picture that one of the things is in."""
        left, top, right, bottom = self.box[choice].astype(int) // self.factor
        return slice(top, bottom), slice(left, right)

    @cached_property
    def solid(self) -> Array:
        """(thing,) length over width, a ring taken for what it goes around: it is a bubble's."""
        parts = [self._part(choice) for choice in range(len(self))]
        inside = [self.label[part] == name for part, name in zip(parts, self.name, strict=True)]
        return np.minimum([area_by_width(filled(mask)) for mask in inside], self.slender)

    def weight(self) -> Array:
        """(thing,) what speaks for a thing while the worm's mass is not known: its mass, times its length over width.

        Dirt is lighter than the worm, and where the worm is faint and it is not, it is rounder.
        """
        return np.asarray(self.mass * self.solid.clip(ROUND, SLENDER))


@dataclass(frozen=True, eq=False)
class Places:
    """Where the animal may be in one frame, with what speaks for each place."""

    point: Array
    """(place, 3) mm."""
    choice: NDArray[np.int64]
    """(place, camera) index into each view's candidates, or ABSENT."""
    residual: Array
    """(place,) root mean square distance, px, of the views' centres from the point's projection."""
    score: Array
    """(place,) logarithm of a likelihood, up to a constant."""


@dataclass(frozen=True, eq=False)
class Found:
    """The place decided on for one frame; `choice` is all ABSENT where the worm was not found."""

    point: Array
    choice: NDArray[np.int64]
    residual: float
    found: bool


def noise_of(signal: Field) -> float:
    """Robust standard deviation of a signal that is mostly background.

    By the median of all deviations, or where that is more by what nine of ten stay under: a compressed video is flat
    nearly everywhere, and what is left of its noise stands in blocks.
    """
    ordered = np.sort(signal[::5, ::5], axis=None)
    return max(1.4826 * deviation_of(ordered, 0.5), deviation_of(ordered, 0.9) / 1.645) + 1e-3


def candidates(
    field: Field, factor: int, settings: LocatingSettings, floor: float = 0.0, is_strange: IsStrange | None = None
) -> Candidates:
    """Connected things in a shrunken signal (0 to 255, worm bright), fragments near each other taken as one.

    floor: the least peak, in the signal's units, below which nothing is a worm. is_strange: tells things that are known
    not to be the worm; they are kept beside those that may be it.
    """
    smooth = cv2.GaussianBlur(field, (0, 0), settings.smoothing / factor + 0.5)
    noise = noise_of(smooth)
    low, high = max(settings.low * noise, EDGE * floor), max(settings.high * noise, floor)
    above = smooth > np.float32(low)
    mask = above.view(np.uint8)
    reach = round(settings.bridge / factor)
    joined = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((reach, reach), np.uint8)) if reach > 1 else mask
    labels, stats, _ = connected(joined)
    number, places = len(stats), np.flatnonzero(above)
    owner, level = labels.ravel()[places], smooth.ravel()[places]
    rows, columns = np.divmod(places, smooth.shape[1])
    strong = np.zeros(number, np.bool_)
    strong[owner[level > high]] = True
    density = density_of(level)
    mass = np.bincount(owner, density, number)
    order = np.argsort(-mass * strong)[: LOOKED_AT * settings.candidates]
    best = order[strong[order] & (order > 0)]
    slender = _slenderness(mask, labels, stats, best)
    sums = np.stack([np.bincount(owner, density * place, number)[best] for place in (columns, rows)], -1)
    # A shrunken pixel's centre is the mean of the centres it was made of.
    centre = sums / mass[best, None] * factor + (factor - 1) / 2
    strange = is_strange(centre, mass[best] * factor**2) if is_strange else np.zeros(len(best), np.bool_)
    # Among much dirt the worm need not be one of the heaviest things, but then it is more slender than they are.
    kept = np.argsort(-mass[best] * slender.clip(ROUND, SLENDER), kind="stable")
    kept = np.concatenate([kept[~strange[kept]][: settings.candidates], kept[strange[kept]]])
    kept = kept[np.argsort(-mass[best[kept]], kind="stable")]
    best, centre, slender, strange = best[kept], centre[kept], slender[kept], strange[kept]
    left, top, width, height = stats[best, :4].T.astype(np.float64)
    box = np.stack([left, top, left + width, top + height], -1) * factor
    return Candidates(centre, mass[best] * factor**2, box, best, labels, slender, strange, factor)


def _slenderness(mask: NDArray[Any], labels: NDArray[Any], stats: NDArray[Any], things: NDArray[Any]) -> Array:
    """Area over the square of the greatest width, of some of the labelled things."""
    found = []
    for thing, (left, top, width, height) in zip(things.tolist(), stats[things, :4].tolist(), strict=True):
        # One px beyond the thing's box: whatever lies nearest to a pixel of it is not farther.
        part = (slice(max(0, top - 1), top + height + 1), slice(max(0, left - 1), left + width + 1))
        inside = mask[part] * (labels[part] == thing)
        found.append(area_by_width(inside))
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Expected:
    """What the worm should weigh."""

    mass: Array
    """(camera,) its usual mass in each view."""
    certain: bool = True
    """False while it is only the usual weight of the weightiest thing: then things of less are less likely, no more."""

    def score(self, things: Candidates, view: int, settings: LocatingSettings) -> Array:
        """(thing,) log-likelihood of being the worm."""
        mass, slender = (things.mass, things.slender) if self.certain else (things.weight(), things.solid)
        away = np.log(mass / self.mass[view])
        shape = ROUNDER * np.minimum(np.log(slender / ROUND_AT_MOST), 0)
        if not self.certain:
            return LIGHTER * np.minimum(away, 0) + shape
        return np.maximum(-0.5 * (away / settings.mass_spread) ** 2 + shape, settings.stranger)


def combine(cameras: Pinholes, views: Sequence[Candidates], expected: Expected, settings: LocatingSettings) -> Places:
    """All joint readings of the views, triangulated and weighed; one view may have lost the worm where three see it."""
    count = len(views)
    places = _readings(cameras, views, expected, settings, absent=0)
    if count > 2 and (not len(places.score) or places.score[0] < settings.absent):
        # Nothing credible in all views together: perhaps one of them does not see the worm.
        partial = _readings(cameras, views, expected, settings, absent=1)
        merged = [np.concatenate(pair) for pair in zip(vars(places).values(), vars(partial).values(), strict=True)]
        order = np.argsort(-merged[3])[: settings.places]
        places = Places(*(part[order] for part in merged))
    return places


def _readings(
    cameras: Pinholes, views: Sequence[Candidates], expected: Expected, settings: LocatingSettings, absent: int
) -> Places:
    """The best joint readings in which exactly `absent` views lack the worm."""
    count = len(views)
    may_be = [np.append(np.flatnonzero(~view.strange), [ABSENT] * min(absent, 1)) for view in views]
    order = np.indices([len(things) for things in may_be]).reshape(count, -1)
    choice = np.stack([things[places] for things, places in zip(may_be, order, strict=True)], -1).astype(np.int64)
    choice = choice[(choice == ABSENT).sum(1) == absent]
    score = np.zeros(len(choice))
    for view, things in enumerate(views):
        score += np.append(expected.score(things, view, settings), settings.absent)[choice[:, view]]
    order = np.argsort(-score)[: settings.places * TRIANGULATED]
    choice, score = choice[order], score[order]
    point, residual = _triangulated(cameras, views, choice)
    score = score - 0.5 * (np.minimum(residual / settings.tolerance, FARTHEST)) ** 2 * count
    order = np.argsort(-score)[: settings.places]
    return Places(point[order], choice[order], residual[order], score[order])


def _triangulated(cameras: Pinholes, views: Sequence[Candidates], choice: NDArray[np.int64]) -> tuple[Array, Array]:
    """Points and root mean square residuals of joint readings, those with an absent view by the others alone."""
    point, residual = np.zeros((len(choice), 3)), np.zeros(len(choice))
    seen = choice != ABSENT
    pattern = seen @ (1 << np.arange(seen.shape[1]))
    for one in np.unique(pattern):
        rows = np.nonzero(pattern == one)[0]
        used = np.nonzero(seen[rows[0]])[0]
        pixels = np.stack([views[int(view)].centre[choice[rows, view]] for view in used], 1)
        part = cameras.only(used)
        points = triangulate(part, pixels, steps=1)
        gap = project(part, points) - pixels
        point[rows] = points
        residual[rows] = np.sqrt((gap**2).sum(-1).mean(-1))
    return point, residual


def another(places: Places, chosen: Found, second: float) -> bool:
    """Whether a second thing in all views looks like a worm, beside the one decided on.

    second: `LocatingSettings.second`.
    """
    apart = ((places.choice != chosen.choice) & (places.choice != ABSENT)).all(1)
    return bool(chosen.found and (places.score[apart] > second).any())


class Decider:
    """The likeliest way through the places of successive frames (Viterbi), decided `lag` frames behind.

    Every frame also has the place "not found", from which the way may go on anywhere, so that gaps are bridged.
    """

    def __init__(self, lag: int, settings: LocatingSettings, step: float) -> None:
        self.lag, self.settings = lag, settings
        self.step = step
        """mm that the animal's centre may well move from one frame to the next."""
        self.frames: deque[Places] = deque()
        self.came_from: deque[NDArray[np.int64]] = deque()
        self.total: Array | None = None

    def add(self, places: Places, gap: int = 1) -> Found | None:
        """Take in the next frame, `gap` after the last; the decision on the frame `lag` earlier, once there is one."""
        emission = np.append(places.score, self.settings.lost)
        if self.total is None:
            self.came_from.append(np.zeros(len(emission), np.int64))
            self.total = emission
        else:
            gain = self.total[None, :] + self._moves(self.frames[-1], places, gap)
            source = gain.argmax(1)
            self.came_from.append(source)
            self.total = gain[np.arange(len(source)), source] + emission
            self.total -= self.total.max()
        self.frames.append(places)
        return self._pop() if len(self.frames) > self.lag else None

    def finish(self) -> list[Found]:
        """The decisions still open, in order."""
        return [self._pop() for _ in range(len(self.frames))]

    def _moves(self, before: Places, after: Places, gap: int) -> Array:
        """(after + 1, before + 1) logarithm of how likely each move is."""
        moves = np.zeros((len(after.point) + 1, len(before.point) + 1))
        distance = np.linalg.norm(after.point[:, None] - before.point[None], axis=-1)
        moves[:-1, :-1] = np.maximum(-0.5 * (distance / (self.step * gap)) ** 2, self.settings.jump)
        moves[:-1, -1] = self.settings.jump / 2
        return moves

    def _pop(self) -> Found:
        assert self.total is not None
        state = int(self.total.argmax())
        for source in list(self.came_from)[:0:-1]:
            state = int(source[state])
        places = self.frames.popleft()
        self.came_from.popleft()
        if state == len(places.point):
            return Found(np.full(3, np.nan), np.full(places.choice.shape[1], ABSENT), np.nan, False)
        return Found(places.point[state], places.choice[state], float(places.residual[state]), True)
