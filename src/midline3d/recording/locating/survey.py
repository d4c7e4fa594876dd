"""A first look at frames spread over the whole recording: polarity, background, the worm's usual size, noise."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.reading import number_of
from midline3d.recording.background.bubbles import sizes_of_bubbles
from midline3d.recording.background.light import (
    Background,
    Field,
    light_field,
    masked_median,
    read_background,
    relit,
    shrink,
)
from midline3d.recording.background.samples import SampledView, Samples, Shelf, StillThings, take_samples
from midline3d.recording.background.signal import Side, Tone, signal, white
from midline3d.recording.background.static import LIGHT, stands_out
from midline3d.recording.description import Recording
from midline3d.recording.locating.places import LOOKED_AT, Found, candidates, noise_of
from midline3d.recording.locating.sighting import (
    SLENDER,
    Sighting,
    decide,
    extent_of,
    ghost_of,
    heaviest,
    masks_of,
)
from midline3d.recording.locating.strangers import ALIKE, Stranger, unchanging
from midline3d.recording.pinholes import Pinholes
from midline3d.recording.sources import side_by_side
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]

OFTEN = 0.5
"""Share of samples with the worm above which a background picture without a ghost is believed."""
HEAVIER = 2.0
"""Times that the worm is heavier without the lab's background pictures where they show it."""
LEAST_EXTENT = 20.0
"""px: a worm that was hardly found is masked as if it reached so far."""
WHOLE = 0.6
"""Of the mass in the view that shows most of it, above which a view shows the whole worm, what is at rest of it
included. Among fibres that came back as light it was 0.77 to 1, of a worm of which parts rested 0.34 and 0.48."""
SMOOTHED = 1.5
"""px of the shrunken picture: Gaussian over what is looked at for polarity, so that noise does not vote."""
MOVING = (6.0, 0.3)
"""Standard deviations of the noise, and share of the largest change, above which a pixel shows something that moves."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What the first look found; all that the pass over every frame needs to know beforehand."""

    tones: tuple[Tone, ...]
    """Per camera."""
    backgrounds: tuple[Background, ...]
    """Per camera, full frames."""
    factor: int
    """By which pictures are shrunken for locating."""
    mass: Array
    """(camera,) the worm's usual mass."""
    peak: Array
    """(camera,) the worm's usual peak signal."""
    noise: Array
    """(camera,) noise of the shrunken signal."""
    extent: float
    """px: the worm's largest reach from its projected centre, in any view."""
    frames: tuple[int, ...]
    """The frames looked at."""
    found: tuple[Found, ...]
    """Where the worm is in each of them."""
    bubbles: tuple[tuple[float, ...], ...]
    """Of every view, px: how far bubbles that drift reach from their centres."""
    heaviest: Array = field(default_factory=lambda: np.zeros((0, 2, 2)))
    """(sample, camera, 2) px: the heaviest thing's place, NaN where there is none."""
    second: float = 0.0
    """Share of samples in which another thing looks like a worm."""
    strangers: tuple[tuple[Stranger, ...], ...] = ()
    """Of every view, what is known not to be the worm though more than the worm speaks for it; empty where there is no
    need to know."""
    aside: bool = False
    """Whether the user's background pictures show the worm itself, so that backgrounds were made without them."""

    def centre(self) -> Array:
        """(3,) mm: where the worm usually is."""
        return np.median([place.point for place in self.found if place.found], 0)


def survey(
    recording: Recording, cameras: rig.Cameras, settings: LocatingSettings, frames: range, folder: Path | None = None
) -> Survey:
    """Look at frames spread over `frames` and some way around, stretch by stretch.

    folder: where backgrounds are kept on disk, so that long recordings take no more memory than short ones.
    """
    factor = max(1, max(max(view.source.size) for view in recording.views) // settings.picture)
    around = range(max(0, frames.start - settings.block // 2), min(recording.count, frames.stop + settings.block // 2))
    edges = np.linspace(around.start, around.stop, max(1, round(len(around) / settings.block)) + 1).astype(int)
    tones: tuple[Tone, ...] = ()
    pinholes = Pinholes.of(cameras)
    stretches, looked, moments = [], [], []
    pictures = [Shelf(folder, view.name, len(edges) - 1, view.source.size) for view in recording.views]
    for number, (start, stop) in enumerate(pairwise(edges.tolist())):
        samples = take_samples(recording, start, stop, factor, settings)
        tones = tones or _tones(recording, samples, factor)
        given = _given(recording, samples, tones, factor)
        stretch = _survey_stretch(samples, tones, given, pinholes, factor, settings)
        if recording.background != "none" and any(own is not None for own in given):
            stretch = _without_ghost(stretch, samples, tones, pinholes, factor, settings)
        for shelf, background in zip(pictures, stretch.backgrounds, strict=True):
            shelf.put(number, background)
        stretches.append(replace(stretch, backgrounds=[]))
        looked += samples.frames
        moments.append((start + stop - 1) / 2)
    found = [place for stretch in stretches for place in stretch.found]
    if not any(place.found for place in found):
        raise InputError(
            f"{recording.path}: in none of {number_of(len(looked), 'frame')} looked at do the views agree on a worm; "
            "set worm to dark or bright, see that each camera has its own source and calibration, and look at what "
            "midline3d check --picture shows"
        )
    return Survey(
        tones=tones,
        backgrounds=tuple(Background(np.array(moments), shelf.pictures) for shelf in pictures),
        factor=factor,
        mass=_middle([stretch.mass for stretch in stretches]),
        peak=_middle([stretch.peak for stretch in stretches]),
        noise=np.median([stretch.noise for stretch in stretches], 0),
        extent=max(stretch.extent for stretch in stretches),
        frames=tuple(looked),
        found=tuple(found),
        heaviest=np.concatenate([stretch.heaviest for stretch in stretches]),
        second=float(np.mean([stretch.second for stretch in stretches])),
        strangers=tuple(
            tuple(stranger for stretch in stretches if stretch.strangers for stranger in stretch.strangers[view])
            for view in range(len(tones))
        ),
        bubbles=tuple(
            tuple(size for stretch in stretches for size in stretch.bubbles[view]) for view in range(len(tones))
        ),
        aside=any(stretch.aside for stretch in stretches),
    )


def _middle(values: list[Array]) -> Array:
    """(camera,) median over stretches; a view that never showed the worm takes the others' value."""
    table = np.array(values)
    table = np.where(np.isnan(table), np.nanmedian(table), table)
    return np.median(table, 0)


def _tones(recording: Recording, samples: Samples, factor: int) -> tuple[Tone, ...]:
    sides: list[Side] = []
    for view, stack in zip(recording.views, samples.small, strict=True):
        own = None
        if recording.worm == "auto" and recording.background != "none" and view.background is not None:
            picture = read_background(view.background, view.source.size)
            own = shrink(relit(picture, masked_median(stack)[0], factor, additive=False), factor)
        side: Side = recording.worm if recording.worm != "auto" else _side(stack, recording.background == "none", own)
        sides.append(side)
    # One animal in one light: the views vote.
    common: Side = max(("dark", "bright"), key=sides.count)
    return tuple(Tone(common, white(list(stack))) for stack in samples.full)


def _side(stack: NDArray[np.float32], bare: bool, own: Field | None = None) -> Side:
    """Dark or bright, by which way the things that move, or are not on the background picture, stand out."""
    if bare:
        return "bright" if np.median(stack) < 0.5 * stack.max() else "dark"
    middle, _ = masked_median(stack)
    light = light_field(middle, LIGHT)
    away = np.stack([cv2.GaussianBlur(picture - light, (0, 0), SMOOTHED) for picture in stack])
    change = np.abs(away - np.median(away, 0)).max(0)
    if own is not None:
        change = np.maximum(change, np.abs(cv2.GaussianBlur(middle - own, (0, 0), SMOOTHED)))
    noise = noise_of(away[0])
    moving = change > max(MOVING[0] * noise, MOVING[1] * float(change.max()))
    changed = away[:, cv2.dilate(moving.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0]
    return "dark" if -np.minimum(changed, 0).sum() >= np.maximum(changed, 0).sum() else "bright"


@dataclass(frozen=True, eq=False)
class _Stretch:
    """What one stretch showed."""

    backgrounds: list[Field]
    found: list[Found]
    mass: Array
    peak: Array
    noise: Array
    extent: float
    heaviest: Array
    second: float
    ghost: float
    """Light of the other sign beside the worm, as a share of its own: what it leaves in a picture it was on."""
    strangers: list[list[Stranger]]
    """Of every view; none where there is no need to know them."""
    bubbles: list[list[float]]
    """Of every view, px: how far bubbles that drift reach from their centres."""
    aside: bool = False


def _without_ghost(
    stretch: _Stretch,
    samples: Samples,
    tones: tuple[Tone, ...],
    cameras: Pinholes,
    factor: int,
    settings: LocatingSettings,
) -> _Stretch:
    """The stretch, or looked at without the user's background pictures where the worm itself is on them.

    A worm that has hardly moved since then is taken away with the background, all but its edges, and leaves as much
    light of the other sign. Looked at without the pictures it is then far heavier.
    """
    if stretch.ghost < settings.ghost and np.mean([place.found for place in stretch.found]) > OFTEN:
        return stretch
    other = _survey_stretch(samples, tones, [None] * len(tones), cameras, factor, settings)
    heavier = np.nan_to_num(other.mass) > HEAVIER * np.nan_to_num(stretch.mass)
    return replace(other, aside=True) if heavier.sum() * 2 > len(heavier) else stretch


def _survey_stretch(
    samples: Samples,
    tones: tuple[Tone, ...],
    given: list[Any],
    cameras: Pinholes,
    factor: int,
    settings: LocatingSettings,
) -> _Stretch:
    """Background and worm of one stretch, each found with the help of the other; `given`: the user's, or None."""
    views = [
        SampledView(stack, tone, factor, settings) if own is None else None
        for stack, tone, own in zip(samples.small, tones, given, strict=True)
    ]
    # Against the light alone, only what moves counts; then against the background, everything does.
    fields = side_by_side(
        lambda one: _first_signals(*one, factor), zip(views, samples.small, tones, given, strict=True)
    )
    sight = decide(fields, samples, cameras, factor, settings)
    still = _at_rest(sight.mass, [0.0 if view is None else view.heaviest * factor**2 for view in views], settings)
    moving = np.nan_to_num(sight.mass)
    moves = ~still & (moving > WHOLE * moving.max())
    if still.any():
        lit = [
            view.against_light() if view is not None and rests else shown
            for view, shown, rests in zip(views, fields, still.tolist(), strict=True)
        ]
        rest = decide(lit, samples, cameras, factor, settings)
        # A small worm that moves among heavy dirt is lighter too; but dirt is round, and the worm leaves it.
        if not (still.all() and sight.wormlike(rest) and not sight.lies_within(rest)):
            sight = rest
    views, sight, strangers = _what_bends(views, sight, moves, samples, cameras, factor, settings)
    grow = settings.grow * max(extent_of(cameras, sight), LEAST_EXTENT)

    def background(index: int) -> Field:
        view = views[index]
        if view is None:
            return np.asarray(given[index])
        return view.full_size(samples, index, masks_of(sight, index, grow / factor, settings.others))

    backgrounds = _of_all_views(background, len(views), factor)
    noise = np.array([np.median([noise_of(shown) for shown in view]) for view in sight.fields])
    bubbles = [
        [size * factor for size in sizes_of_bubbles(fields, stands_out(level), worm)]
        for fields, level, worm in zip(
            sight.fields, noise.tolist(), (np.nan_to_num(sight.mass) / factor**2).tolist(), strict=True
        )
    ]
    places = np.array([heaviest(views) for views in sight.seen])
    ghost = max((ghost_of(sight, index, factor) for index, own in enumerate(given) if own is not None), default=0.0)
    return _Stretch(
        backgrounds,
        sight.found,
        sight.mass,
        sight.peak,
        noise,
        extent_of(cameras, sight),
        places,
        sight.second,
        ghost,
        strangers,
        bubbles,
    )


def _what_bends(
    views: list[SampledView | None],
    first: Sighting,
    moves: NDArray[np.bool_],
    samples: Samples,
    cameras: Pinholes,
    factor: int,
    settings: LocatingSettings,
) -> tuple[list[SampledView | None], Sighting, list[list[Stranger]]]:
    """What is seen against the background, with the views that it was seen in and, of each, what is not the worm.

    Where it never changes its shape, and something else does when all that does not is left out, that is the worm.

    moves: see `_against_backgrounds`.
    """
    sight = _against_backgrounds(views, first, moves, [], samples, cameras, factor, settings)
    if not sight.likeness() > ALIKE:
        return views, sight, []
    more = replace(settings, candidates=LOOKED_AT * settings.candidates)
    strangers = side_by_side(
        lambda view: unchanging(view, [candidates(shown, factor, more) for shown in view], samples.frames), sight.fields
    )
    apart = [copy(view) for view in views]
    other = decide(first.fields, samples, cameras, factor, settings, strangers)
    other = _against_backgrounds(apart, other, moves, strangers, samples, cameras, factor, settings)
    if other.bends(settings.tolerance) and not other.lies_within(sight):
        return apart, other, strangers
    return views, sight, []


def _of_all_views(work: Callable[[int], Field], views: int, factor: int) -> list[Field]:
    """What is made of every view, side by side; of large pictures one after the other, for each takes all cores."""
    return side_by_side(work, range(views)) if factor == 1 else [work(view) for view in range(views)]


def _first_signals(view: SampledView | None, stack: Field, tone: Tone, own: Any, factor: int) -> list[Field]:
    """The signals of one view's samples before its background is known, or against the user's."""
    if view is not None:
        return view.moving()
    behind = shrink(own, factor)
    return [signal(picture, behind, tone) for picture in stack]


def _against_backgrounds(
    views: list[SampledView | None],
    sight: Sighting,
    moves: NDArray[np.bool_],
    strangers: list[list[Stranger]],
    samples: Samples,
    cameras: Pinholes,
    factor: int,
    settings: LocatingSettings,
) -> Sighting:
    """What is seen against backgrounds that are made without what was seen, twice.

    The second time what is at rest of the worm has been seen along with what moves, in views that show it as heavy as
    others do: then a thing at rest that lies merely near it is dirt.

    moves: (camera,) whether what moves is the whole worm there, so that a thing that rests in no other view is dirt.
    """
    for again in (False, True):
        grow = settings.grow * max(extent_of(cameras, sight), LEAST_EXTENT)
        fields = _against_background(views, sight, moves, grow / factor, settings, again)
        sight = decide(fields, samples, cameras, factor, settings, strangers)
    return sight


def _against_background(
    views: list[SampledView | None],
    sight: Sighting,
    moves: NDArray[np.bool_],
    grow: float,
    settings: LocatingSettings,
    again: bool,
) -> list[list[Field]]:
    """(view, sample) signals against backgrounds that were made without the worm as it was seen; the user's stay.

    moves: (camera,) see `_against_backgrounds`; again: whether it was seen against such a background.
    """

    def look(index: int) -> StillThings | None:
        view = views[index]
        if view is None:
            return None
        known = np.nan_to_num(sight.mass)
        # Nearly the same in all views, but where one shows the worm smaller than the others.
        mass = float(min(np.median(known), known[index])) / view.factor**2
        masks = masks_of(sight, index, grow, settings.others)
        whole = again and bool(known[index] > WHOLE * known.max())
        itself = np.stack([sight.worm(sample, index) for sample in range(len(sight.found))]) if whole else None
        return view.still(masks, mass, sight.solid(index) > SLENDER, itself)

    still = side_by_side(look, range(len(views)))
    resting = [things is not None and bool(things.at_rest.any()) for things in still]

    def of_view(index: int) -> list[Field]:
        view, things = views[index], still[index]
        if view is None or things is None:
            return sight.fields[index]
        others = [rests for other, rests in enumerate(resting) if other != index and views[other] is not None]
        # A worm that rests does so in all views.
        alone = bool(moves[index]) and len(others) > 0 and 2 * sum(others) < len(others)
        return view.against_background(things, rests=not alone)

    return side_by_side(of_view, range(len(views)))


def _at_rest(mass: Array, heaviest: list[float], settings: LocatingSettings) -> NDArray[np.bool_]:
    """(camera,) whether the worm stands still in a view and was taken for dirt there.

    It weighs the same in all views, and more than most dirt: so where what moves is much lighter than in another view,
    or everywhere much lighter than the heaviest thing that does not move.
    """
    moving = np.nan_to_num(mass)
    if (moving < settings.resting * np.array(heaviest)).all():
        return np.ones(len(moving), np.bool_)
    return moving < settings.at_rest * moving.max()


def _given(recording: Recording, samples: Samples, tones: tuple[Tone, ...], factor: int) -> list[Any]:
    """Each view's background, where the user gave one or said that there is none; else None."""
    if recording.background == "none":
        return [
            np.full(stack.shape[1:], 0 if tone.side == "bright" else tone.full, np.float32)
            for stack, tone in zip(samples.full, tones, strict=True)
        ]
    own = [
        None if view.background is None else read_background(view.background, view.source.size)
        for view in recording.views
    ]
    return [
        None if picture is None else relit(picture, masked_median(stack)[0], factor, tone.side == "bright")
        for picture, stack, tone in zip(own, samples.small, tones, strict=True)
    ]
