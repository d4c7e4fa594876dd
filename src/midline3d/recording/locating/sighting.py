"""What a set of samples shows: things in every view, and the place decided on in each, first with the mass unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field
from midline3d.recording.background.samples import Samples
from midline3d.recording.locating.places import (
    ABSENT,
    Candidates,
    Decider,
    Expected,
    Found,
    another,
    candidates,
    combine,
    noise_of,
)
from midline3d.recording.locating.strangers import BENT, Stranger, picture_of, usual_likeness, which_are
from midline3d.recording.pinholes import Pinholes, project
from midline3d.recording.slenderness import area_by_width, filled
from midline3d.recording.sources import side_by_side
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]

NEARLY_ALL = 0.8
"""Share of samples in which a worm is seen in all views: dirt seldom is."""
AGREEING, AGREEING_PX = 0.5, 4.0
"""Of another reading's residual, and px, under which views agree far better than in that reading."""
SLENDER, AS_SLENDER = 2.5, 0.7
"""Length over width of a worm at least (2 is a tight coil's, 0.8 a disc's), or that share of another reading's."""
UNEVEN = 4.0
"""Times that a worm is heavier in one view than in another, from which on two things are taken for one: views differ in
scale and focus, and one may show it half hidden."""
MOSTLY = 0.5
"""Share of a thing's pixels that are another's, above which it is a part of that."""
HEAVY = 0.75
"""Quantile of the weightiest things' weights that is expected of the worm before its mass is known."""
BRIGHT = 0.95
"""Quantile of the worm's pixels that is its peak, and of its reaches that is its extent: single ones are chance."""
AROUND = 0.3
"""Of the box's larger side: how far around the worm light of the other sign is looked for."""
CLEAR = 4.0
"""Standard deviations of the noise above which such light counts."""


@dataclass(frozen=True, eq=False)
class Sighting:
    """Candidates (sample, view) and the place decided on in each sample."""

    fields: list[list[Field]]
    """(view, sample)"""
    seen: list[list[Candidates]]
    found: list[Found]
    mass: Array
    """(camera,) the worm's median mass, NaN where it was never seen."""
    peak: Array
    second: float = 0.0
    """Share of samples in which another thing looks like a worm."""

    def worm(self, sample: int, view: int) -> NDArray[np.bool_]:
        """Where the worm is in a shrunken sample."""
        return self.seen[sample][view].pixels(int(self.found[sample].choice[view]))

    def wormlike(self, other: Sighting) -> bool:
        """Whether what was found is there in nearly all samples and views, and as slender as what another found.

        Or its views agree far better: dirt that is one thing in one view is seldom there in all of them.
        """
        if not self._in_all_views():
            return False
        agrees = self._usual_residual() < min(AGREEING * other._usual_residual(), AGREEING_PX)
        return agrees or self.slender() > min(SLENDER, AS_SLENDER * other.slender())

    def lies_within(self, other: Sighting) -> bool:
        """Whether what was found is, in most samples and views, what another found or a part of it."""
        shares = [
            float((worm & other.worm(sample, view)).sum() / worm.sum())
            for sample, place in enumerate(self.found)
            for view, choice in enumerate(place.choice)
            if choice != ABSENT and (worm := self.worm(sample, view)).any()
        ]
        return bool(shares) and float(np.median(shares)) > MOSTLY

    def likeness(self) -> float:
        """How like itself what was found is at other times, in most views: near 1 for what never changes its shape."""
        views = [
            usual_likeness(
                [
                    picture_of(fields[sample], self.worm(sample, view))
                    for sample, place in enumerate(self.found)
                    if place.choice[view] != ABSENT
                ]
            )
            for view, fields in enumerate(self.fields)
        ]
        return float(np.nanmedian(views)) if np.isfinite(views).any() else np.nan

    def bends(self, tolerance: float) -> bool:
        """Whether what was found is clearly a worm by its shape: in nearly all samples and views, slender, as heavy in
        one view as in another, changing; and its views agree within `tolerance` px."""
        if not self._in_all_views() or self._usual_residual() > tolerance:
            return False
        even = np.nanmax(self.mass) < UNEVEN * np.nanmin(self.mass)
        return bool(even) and self.slender() > SLENDER and self.likeness() < BENT

    def _in_all_views(self) -> bool:
        return bool(np.mean([(place.choice != ABSENT).all() for place in self.found]) >= NEARLY_ALL)

    def _usual_residual(self) -> float:
        return float(np.median([place.residual for place in self.found if place.found] or [np.inf]))

    def slender(self) -> float:
        """Length over width of what was found: the median over samples and views."""
        shapes = [
            views[view].slender[choice]
            for views, place in zip(self.seen, self.found, strict=True)
            for view, choice in enumerate(place.choice)
            if choice != ABSENT
        ]
        return float(np.median(shapes)) if shapes else 0.0

    def solid(self, view: int) -> float:
        """Length over width of what was found in one view, a ring taken for what it goes around: the median over the
        samples."""
        shapes = [
            area_by_width(filled(self.worm(sample, view)))
            for sample, place in enumerate(self.found)
            if place.choice[view] != ABSENT
        ]
        return float(np.median(shapes)) if shapes else 0.0


def decide(
    fields: list[list[Field]],
    samples: Samples,
    cameras: Pinholes,
    factor: int,
    settings: LocatingSettings,
    strangers: Sequence[Sequence[Stranger]] = (),
) -> Sighting:
    """The worm's place in each sample, first with its mass unknown, then known.

    strangers: of every view, what is known not to be the worm.
    """

    def seen_in(sample: int) -> list[Candidates]:
        frame = samples.frames[sample]
        return [
            candidates(field[sample], factor, settings, is_strange=partial(which_are, own, frame))
            for field, own in zip(fields, strangers or [()] * len(fields), strict=True)
        ]

    seen = side_by_side(seen_in, range(len(samples.frames)))
    sight = Sighting(fields, seen, [], np.full(len(fields), np.nan), np.full(len(fields), np.nan))
    # Samples far apart in time may show the worm anywhere; in short recordings its places hang together.
    gap = max(1, int(np.median(np.diff(samples.frames)))) if len(samples.frames) > 1 else 1
    heavy = [
        [float(views[view].weight()[may_be].max()) for views in seen if (may_be := ~views[view].strange).any()]
        for view in range(len(fields))
    ]
    expected = Expected(np.array([np.quantile(masses, HEAVY) if masses else 1.0 for masses in heavy]), certain=False)
    for _ in range(2):
        decider = Decider(len(samples.frames), settings, settings.step * gap)
        places = [combine(cameras, views, expected, settings) for views in seen]
        for one in places:
            decider.add(one)
        found = decider.finish()
        second = float(np.mean([another(*pair, settings.second) for pair in zip(places, found, strict=True)]))
        sight = _usual(replace(sight, found=found, second=second))
        if np.isnan(sight.mass).any():
            break
        expected = Expected(sight.mass)
    return sight


def _usual(sight: Sighting) -> Sighting:
    """With the worm's median mass and peak in each view."""
    mass, peak = [], []
    for view, stack in enumerate(sight.fields):
        chosen = [
            (
                sight.seen[sample][view].mass[place.choice[view]],
                np.quantile(stack[sample][sight.worm(sample, view)], BRIGHT),
            )
            for sample, place in enumerate(sight.found)
            if place.choice[view] != ABSENT
        ]
        mass.append(np.median([one for one, _ in chosen]) if chosen else np.nan)
        peak.append(np.median([one for _, one in chosen]) if chosen else np.nan)
    return replace(sight, mass=np.array(mass, np.float64), peak=np.array(peak, np.float64))


def extent_of(cameras: Pinholes, sight: Sighting) -> float:
    """px: how far the worm reaches from its projected centre, in nearly all samples and all views."""
    reach = []
    for views, place in zip(sight.seen, sight.found, strict=True):
        if not place.found:
            continue
        centre = project(cameras, place.point[None])[0]
        for view, choice in enumerate(place.choice):
            if choice != ABSENT:
                box = views[view].box[choice]
                reach.append(max((centre[view] - box[:2]).max(), (box[2:] - centre[view]).max()))
    return float(np.quantile(reach, BRIGHT)) if reach else 0.0


def masks_of(sight: Sighting, view: int, grow: float, others: float) -> NDArray[np.bool_]:
    """(sample, height, width) where the worm is, or may still be, in the shrunken samples of one view.

    Other things of some weight that move are masked too: they would burn in just as a worm does. grow: px; others: of
    the worm's mass.
    """
    masks = []
    for sample, place in enumerate(sight.found):
        seen = sight.seen[sample][view]
        worm = seen.pixels(int(place.choice[view]))
        things = np.zeros_like(worm)
        for heavy in np.flatnonzero(seen.mass > others * sight.mass[view]).tolist():
            things |= seen.pixels(heavy)
        masks.append(_grown(worm, grow) | _grown(things, grow / 2))
    return np.stack(masks)


def _grown(mask: NDArray[np.bool_], radius: float) -> NDArray[np.bool_]:
    """A mask and what lies within `radius` px of it."""
    reach = max(1, round(radius))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    left, top, width, height = cv2.boundingRect(mask.view(np.uint8))
    part = (
        slice(max(0, top - reach), top + height + reach),
        slice(max(0, left - reach), left + width + reach),
    )
    grown = np.zeros_like(mask)
    grown[part] = cv2.dilate(mask[part].view(np.uint8), disc) > 0
    return grown


def ghost_of(sight: Sighting, view: int, factor: int) -> float:
    """Light of the other sign within and around the worm's box, as a share of the worm's own: the median sample's."""
    shares = []
    for sample, place in enumerate(sight.found):
        if place.choice[view] == ABSENT:
            continue
        box = sight.seen[sample][view].box[place.choice[view]] / factor
        pad = AROUND * max(box[2] - box[0], box[3] - box[1])
        left, top, right, bottom = (int(max(0, edge)) for edge in (*(box[:2] - pad), *(box[2:] + pad)))
        field = cv2.GaussianBlur(sight.fields[view][sample], (0, 0), 1.0)
        limit = CLEAR * noise_of(field)
        around = field[top : bottom + 1, left : right + 1]
        below, above = -around[around < -limit].sum(), around[around > limit].sum()
        shares.append(float(below / max(float(above), 1e-6)))
    return float(np.median(shares)) if shares else 0.0


def heaviest(views: list[Candidates]) -> Array:
    """(camera, 2) px: where the heaviest thing of every view is, NaN where there is none."""
    return np.array([view.centre[0] if len(view) else (np.nan, np.nan) for view in views])
