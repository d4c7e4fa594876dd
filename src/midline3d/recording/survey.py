"""A first look at frames spread over the whole recording: polarity, background, the worm's usual size, noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.recording.background import Background, Field, light_field, masked_median, read_background, shrink
from midline3d.recording.description import Recording
from midline3d.recording.locating import ABSENT, Candidates, Decider, Found, candidates, combine, noise_of
from midline3d.recording.scenery import LIGHT, SEEN, beside_worm, even_light, standing, without_heavy
from midline3d.recording.shake import THINGS, Texture, moved, shake_of, texture_of
from midline3d.recording.signal import Side, Tone, brightness, signal, white
from midline3d.recording.sources import Picture
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]


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

    def centre(self) -> Array:
        """(3,) mm: where the worm usually is."""
        return np.median([place.point for place in self.found if place.found], 0)


@dataclass(frozen=True, eq=False)
class _Samples:
    """Frames of one stretch of the recording."""

    frames: list[int]
    full: list[NDArray]
    """Per camera (sample, height, width)."""
    small: list[NDArray[np.float32]]
    """Per camera (sample, height, width), shrunken, each brought to the stretch's mean light."""
    light: list[Array]
    """Per camera (sample,) brightness against that mean."""


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
    looks, looked, moments = [], [], []
    pictures = [_Shelf(folder, view.name, len(edges) - 1, view.source.size) for view in recording.views]
    for number, (start, stop) in enumerate(pairwise(edges.tolist())):
        samples = _sample(recording, start, stop, factor, settings)
        tones = tones or _tones(recording, samples)
        look = _look(recording, samples, tones, cameras, factor, settings)
        for shelf, background in zip(pictures, look.backgrounds, strict=True):
            shelf.put(number, background)
        looks.append(replace(look, backgrounds=[]))
        looked += samples.frames
        moments.append((start + stop - 1) / 2)
    found = [place for look in looks for place in look.found]
    if not any(place.found for place in found):
        raise InputError(
            f"{recording.path}: in none of {len(looked)} frames looked at do the views agree on a worm; "
            "run midline3d check to see why (polarity, calibration, order of the cameras)"
        )
    return Survey(
        tones=tones,
        backgrounds=tuple(Background(np.array(moments), shelf.pictures) for shelf in pictures),
        factor=factor,
        mass=np.nanmedian([look.mass for look in looks], 0),
        peak=np.nanmedian([look.peak for look in looks], 0),
        noise=np.median([look.noise for look in looks], 0),
        extent=max(look.extent for look in looks),
        frames=tuple(looked),
        found=tuple(found),
    )


class _Shelf:
    """One camera's backgrounds, in memory or on disk."""

    def __init__(self, folder: Path | None, name: str, number: int, size: tuple[int, int]) -> None:
        shape = (number, size[1], size[0])
        self.pictures: Field
        if folder is None:
            self.pictures = np.zeros(shape, np.float32)
        else:
            path = folder / f"background-{sha256(name.encode()).hexdigest()[:8]}.npy"
            self.pictures = np.lib.format.open_memmap(path, "w+", np.float32, shape)

    def put(self, number: int, picture: Field) -> None:
        self.pictures[number] = picture


def sample_frames(start: int, stop: int, number: int) -> list[int]:
    """Frames spread evenly over a stretch, all of it where it is short."""
    return sorted(set(np.linspace(start, stop - 1, min(number, stop - start)).round().astype(int).tolist()))


def _sample(recording: Recording, start: int, stop: int, factor: int, settings: LocatingSettings) -> _Samples:
    size = sum(view.source.size[0] * view.source.size[1] * view.source.depth for view in recording.views)
    number = int(np.clip(settings.memory * 1e6 / size, 9, settings.background_frames))
    wanted = sample_frames(start, stop, number)
    reach = (stop - start) // number // 4
    wanted = sorted({recording.views[0].source.near(frame, reach) for frame in wanted})
    read: list[dict[int, Picture]] = []
    for view in recording.views:
        got = view.source.read([frame + view.offset for frame in wanted])
        read.append({index - view.offset: picture for index, picture in got if picture is not None and picture.any()})
    frames = [frame for frame in wanted if all(frame in pictures for pictures in read)]
    if not frames:
        raise InputError(
            f"{recording.path}: none of the frames {wanted[0]} to {wanted[-1]} can be read in all cameras, or they are "
            "all black; check the videos"
        )
    full = [np.stack([pictures[frame] for frame in frames]) for pictures in read]
    small, light = [], []
    for stack in full:
        shrunk = np.stack([shrink(picture, factor) for picture in stack])
        level = np.median(shrunk[:, ::4, ::4], axis=(1, 2)).astype(np.float64)
        ratio = level / max(float(np.median(level)), 1e-6) if np.median(level) > 8 else np.ones(len(level))
        small.append((shrunk / np.maximum(ratio, 0.1)[:, None, None]).astype(np.float32))
        light.append(np.maximum(ratio, 0.1))
    return _Samples(frames, full, small, light)


def _tones(recording: Recording, samples: _Samples) -> tuple[Tone, ...]:
    sides: list[Side] = []
    for stack in samples.small:
        side: Side = recording.worm if recording.worm != "auto" else _side(stack, recording.background == "none")
        sides.append(side)
    # One animal in one light: the views vote.
    common: Side = max(("dark", "bright"), key=sides.count)
    return tuple(Tone(common, white(list(stack))) for stack in samples.full)


def _side(stack: NDArray[np.float32], bare: bool) -> Side:
    """Dark or bright, by which way the things that move stand out from the light."""
    if bare:
        return "bright" if np.median(stack) < 0.5 * stack.max() else "dark"
    middle, _ = masked_median(stack)
    light = light_field(middle, 0.2)
    away = np.stack([cv2.GaussianBlur(picture - light, (0, 0), 1.5) for picture in stack])
    change = np.abs(away - np.median(away, 0)).max(0)
    noise = noise_of(away[0])
    moving = change > max(6 * noise, 0.3 * float(change.max()))
    moved = away[:, cv2.dilate(moving.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0]
    return "dark" if -np.minimum(moved, 0).sum() >= np.maximum(moved, 0).sum() else "bright"


@dataclass(frozen=True, eq=False)
class _Look:
    """What one stretch showed."""

    backgrounds: list[Field]
    found: list[Found]
    mass: Array
    peak: Array
    noise: Array
    extent: float


@dataclass(frozen=True, eq=False)
class _Sight:
    """Candidates (sample, view) and the place decided on in each sample."""

    fields: list[list[Field]]
    """(view, sample)"""
    seen: list[list[Candidates]]
    found: list[Found]
    mass: Array
    """(camera,) the worm's median mass, NaN where it was never seen."""
    peak: Array

    def worm(self, sample: int, view: int) -> NDArray[np.bool_]:
        """Where the worm is in a shrunken sample."""
        return self.seen[sample][view].pixels(int(self.found[sample].choice[view]))


def _look(
    recording: Recording,
    samples: _Samples,
    tones: tuple[Tone, ...],
    cameras: rig.Cameras,
    factor: int,
    settings: LocatingSettings,
) -> _Look:
    """Background and worm of one stretch, each found with the help of the other."""
    given = _given(recording, samples, tones)
    views = [
        _View(stack, tone, factor, settings) if own is None else None
        for stack, tone, own in zip(samples.small, tones, given, strict=True)
    ]
    # Against the light alone, only what moves counts; then against the background, everything does.
    fields = [
        view.moving() if view is not None else [signal(picture, shrink(own, factor), tone) for picture in stack]
        for view, stack, tone, own in zip(views, samples.small, tones, given, strict=True)
    ]
    sight = _decide(fields, samples, cameras, factor, settings)
    for _ in range(2):
        grow = settings.grow * max(_extent(cameras, sight), 20.0)
        for index, (view, tone) in enumerate(zip(views, tones, strict=True)):
            if view is not None:
                behind = view.without_worm(_masks(sight, index, grow / factor), float(sight.mass[index]) / factor**2)
                fields[index] = [
                    signal(picture, behind, tone, brightness(picture, behind, tone)) for picture in view.stack
                ]
        sight = _decide(fields, samples, cameras, factor, settings)
    grow = settings.grow * max(_extent(cameras, sight), 20.0)
    backgrounds = [
        view.full_size(samples, index, _masks(sight, index, grow / factor)) if view is not None else given[index]
        for index, view in enumerate(views)
    ]
    noise = np.array([np.median([noise_of(shown) for shown in view]) for view in fields])
    return _Look(backgrounds, sight.found, sight.mass, sight.peak, noise, _extent(cameras, sight))


def _given(recording: Recording, samples: _Samples, tones: tuple[Tone, ...]) -> list[Any]:
    """Each view's background, where the user gave one or said that there is none; else None."""
    if recording.background == "none":
        return [
            np.full(stack.shape[1:], 0 if tone.side == "bright" else tone.full, np.float32)
            for stack, tone in zip(samples.full, tones, strict=True)
        ]
    return [
        None if view.background is None else read_background(view.background, view.source.size)
        for view in recording.views
    ]


def _decide(
    fields: list[list[Field]], samples: _Samples, cameras: rig.Cameras, factor: int, settings: LocatingSettings
) -> _Sight:
    """The worm's place in each sample, first with its mass unknown, then known."""
    seen = [[candidates(view[sample], factor, settings) for view in fields] for sample in range(len(samples.frames))]
    sight = _Sight(fields, seen, [], np.full(len(fields), np.nan), np.full(len(fields), np.nan))
    for _ in range(2):
        # Samples far apart in time may show the worm anywhere; in short recordings its places hang together.
        gap = max(1, int(np.median(np.diff(samples.frames)))) if len(samples.frames) > 1 else 1
        decider = Decider(len(samples.frames), settings, settings.step * gap)
        mass = None if np.isnan(sight.mass).any() else sight.mass
        for views in seen:
            decider.add(combine(cameras, views, mass, settings))
        sight = _usual(replace(sight, found=decider.finish()))
    return sight


def _usual(sight: _Sight) -> _Sight:
    """With the worm's median mass and peak in each view."""
    mass, peak = [], []
    for view, stack in enumerate(sight.fields):
        chosen = [
            (
                sight.seen[sample][view].mass[place.choice[view]],
                np.quantile(stack[sample][sight.worm(sample, view)], 0.95),
            )
            for sample, place in enumerate(sight.found)
            if place.choice[view] != ABSENT
        ]
        mass.append(np.median([one for one, _ in chosen]) if chosen else np.nan)
        peak.append(np.median([one for _, one in chosen]) if chosen else np.nan)
    return replace(sight, mass=np.array(mass, np.float64), peak=np.array(peak, np.float64))


def _extent(cameras: rig.Cameras, sight: _Sight) -> float:
    """px: how far the worm reaches from its projected centre, in nearly all samples and all views."""
    reach = []
    for views, place in zip(sight.seen, sight.found, strict=True):
        if not place.found:
            continue
        centre = rig.project(cameras, torch.from_numpy(place.point)[None, None])[0, :, 0].numpy()
        for view, choice in enumerate(place.choice):
            if choice != ABSENT:
                box = views[view].box[choice]
                reach.append(max((centre[view] - box[:2]).max(), (box[2:] - centre[view]).max()))
    return float(np.quantile(reach, 0.95)) if reach else 0.0


def _masks(sight: _Sight, view: int, grow: float) -> NDArray[np.bool_]:
    """(sample, height, width) where the worm is, or may still be, in the shrunken samples of one view."""
    reach = max(1, round(grow))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    worms = [sight.worm(sample, view).astype(np.uint8) for sample in range(len(sight.found))]
    return np.stack([cv2.dilate(worm, kernel) > 0 for worm in worms])


class _View:
    """One view's samples on the way to its background."""

    def __init__(self, stack: NDArray[np.float32], tone: Tone, factor: int, settings: LocatingSettings) -> None:
        self.tone, self.factor = tone, factor
        self.reach = settings.fill / factor
        self.raw = stack
        self.stack = stack
        self.shakes = np.zeros((len(stack), 2))
        self.dirt: NDArray[np.bool_] = np.zeros(stack.shape[1:], np.bool_)
        self.steadied = False

    def moving(self) -> list[Field]:
        """Signals against the light without what stands still, for a first look at where the worm is."""
        self._steady(texture_of(masked_median(self.raw)[0], THINGS))
        fields, things = standing(self.stack, light_field(masked_median(self.stack)[0], LIGHT), self.tone)
        return [np.where(things, 0, field) for field in fields]

    def without_worm(self, masks: NDArray[np.bool_], mass: float) -> Field:
        """The shrunken background as far as these masks of the worm tell it."""
        if not self.steadied:
            # Without the worm what is left can be trusted to be at rest, however few things there are.
            self._steady(texture_of(beside_worm(self.stack, masks, self.dirt, self.reach, self.tone)))
            self.steadied = True
        fields, things = standing(self.stack, even_light(self.stack, masks, self.reach), self.tone)
        self.dirt = without_heavy(things, fields, masks, mass)
        return beside_worm(self.stack, masks, self.dirt, self.reach, self.tone)

    def _steady(self, texture: Texture | None) -> None:
        """Bring the samples to lie on each other."""
        self.shakes = np.stack([shake_of(picture, texture, 1.0) for picture in self.raw])
        self.stack = np.stack([moved(picture, -by) for picture, by in zip(self.raw, self.shakes, strict=True)])

    def full_size(self, samples: _Samples, view: int, masks: NDArray[np.bool_]) -> Field:
        """The background at full size, strip by strip so that memory stays small."""
        small = beside_worm(self.stack, masks, self.dirt, self.reach, self.tone)
        if self.factor == 1:
            return small
        height, width = samples.full[view].shape[1:]
        by = self.shakes * self.factor
        stack = samples.full[view]
        for picture, way in zip(stack, by, strict=True):
            picture[:] = moved(picture, -way)  # in place: these are hundreds of MB, and nobody needs them after
        covered = np.stack([_enlarged(mask.astype(np.uint8), (width, height)) > 0 for mask in masks])
        field = np.empty((height, width), np.float32)
        unknown = masks.sum(0) > len(masks) - min(SEEN, len(masks))
        for top in range(0, height, 256):
            part = slice(top, top + 256)
            strip = stack[:, part]
            if np.abs(samples.light[view] - 1).max() > 1e-3:
                strip = strip / samples.light[view][:, None, None].astype(np.float32)
            field[part] = masked_median(strip, covered[:, part])[0]
        # What was hardly ever seen comes from the shrunken background, where light is filled in.
        rare = _enlarged(unknown.astype(np.uint8), (width, height)) > 0
        smooth = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
        return np.where(rare, smooth, field)


def _enlarged(mask: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    return np.asarray(cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST))
