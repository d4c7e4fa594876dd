"""A first look at frames spread over the whole recording: polarity, background, the worm's usual size, noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.errors import InputError
from midline3d.recording.background import (
    Background,
    Field,
    fill,
    light_field,
    masked_median,
    read_background,
    shrink,
)
from midline3d.recording.description import Recording
from midline3d.recording.locating import ABSENT, Candidates, Decider, Found, candidates, combine, noise_of
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
    extent: float
    """px: the worm's largest reach from its projected centre, in any view."""
    frames: tuple[int, ...]
    """The frames looked at."""
    found: tuple[Found, ...]
    """Where the worm is in each of them."""


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


def survey(recording: Recording, cameras: rig.Cameras, settings: LocatingSettings) -> Survey:
    """Look at frames spread over the recording, stretch by stretch."""
    factor = max(1, max(max(view.source.size) for view in recording.views) // settings.picture)
    stretches = max(1, round(recording.count / settings.block))
    edges = np.linspace(0, recording.count, stretches + 1).astype(int)
    moments, pictures, founds, frames = [], [], [], []
    tones: tuple[Tone, ...] | None = None
    looks: list[_Look] = []
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        samples = _sample(recording, int(start), int(stop), factor, settings)
        if tones is None:
            tones = _tones(recording, samples)
        look = _look(recording, samples, tones, cameras, factor, settings)
        looks.append(look)
        moments.append((start + stop - 1) / 2)
        pictures.append(look.backgrounds)
        founds += look.found
        frames += samples.frames
    assert tones is not None
    backgrounds = tuple(
        Background(np.array(moments), tuple(picture[view] for picture in pictures))
        for view in range(len(recording.views))
    )
    return Survey(
        tones=tones,
        backgrounds=backgrounds,
        factor=factor,
        mass=np.nanmedian([look.mass for look in looks], 0),
        peak=np.nanmedian([look.peak for look in looks], 0),
        extent=max(look.extent for look in looks),
        frames=tuple(frames),
        found=tuple(founds),
    )


def sample_frames(start: int, stop: int, number: int) -> list[int]:
    """Frames spread evenly over a stretch, all of it where it is short."""
    return sorted(set(np.linspace(start, stop - 1, min(number, stop - start)).round().astype(int).tolist()))


def _sample(recording: Recording, start: int, stop: int, factor: int, settings: LocatingSettings) -> _Samples:
    wanted = sample_frames(start, stop, settings.background_frames)
    reach = (stop - start) // settings.background_frames // 4
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
    extent: float


def _look(
    recording: Recording,
    samples: _Samples,
    tones: tuple[Tone, ...],
    cameras: rig.Cameras,
    factor: int,
    settings: LocatingSettings,
) -> _Look:
    """Background and worm of one stretch, each found with the help of the other."""
    given = [
        None if view.background is None else read_background(view.background, view.source.size)
        for view in recording.views
    ]
    if recording.background == "none":
        given = [
            np.full(stack.shape[1:], 0 if tone.side == "bright" else tone.full, np.float32)
            for stack, tone in zip(samples.full, tones, strict=True)
        ]
    # Against the light alone, only what moves counts; then against the background, everything does.
    fields = [
        _moving(stack, tone) if own is None else [signal(picture, shrink(own, factor), tone) for picture in stack]
        for stack, tone, own in zip(samples.small, tones, given, strict=True)
    ]
    seen, found = _decide(fields, samples, cameras, factor, settings)
    for _ in range(2):
        small = []
        for view, (stack, tone, own) in enumerate(zip(samples.small, tones, given, strict=True)):
            if own is None:
                small.append(_without_worm(stack, _masks(seen, found, view, factor, settings), tone, factor, settings))
            else:
                small.append(shrink(own, factor))
        fields = [
            [signal(picture, behind, tone, brightness(picture, behind, tone)) for picture in stack]
            for stack, behind, tone in zip(samples.small, small, tones, strict=True)
        ]
        seen, found = _decide(fields, samples, cameras, factor, settings)
    backgrounds = []
    for view, (own, tone) in enumerate(zip(given, tones, strict=True)):
        if own is None:
            own = _full_background(samples, view, _masks(seen, found, view, factor, settings), tone, factor, settings)
        backgrounds.append(own)
    mass, peak = _usual(fields, seen, found)
    return _Look(backgrounds, found, mass, peak, _extent(cameras, seen, found))


def _moving(stack: NDArray[np.float32], tone: Tone) -> list[Field]:
    """Signal against the light, near to where anything ever changes; all of it where nothing does."""
    middle, _ = masked_median(stack)
    light = light_field(middle, 0.2)
    against = np.stack([signal(picture, light, tone) for picture in stack])
    smooth = np.stack([cv2.GaussianBlur(picture, (0, 0), 1.0) for picture in against])
    change = np.abs(smooth - np.median(smooth, 0)).max(0)
    threshold = 6 * noise_of(smooth[0] - smooth[len(smooth) // 2]) if len(smooth) > 1 else np.inf
    moving = (change > threshold).astype(np.uint8)
    if moving.sum() < 30:
        return list(against)
    near = cv2.dilate(cv2.morphologyEx(moving, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)), np.ones((9, 9), np.uint8))
    return [picture * near for picture in against]


def _decide(
    fields: list[list[Field]], samples: _Samples, cameras: rig.Cameras, factor: int, settings: LocatingSettings
) -> tuple[list[list[Candidates]], list[Found]]:
    """Candidates (sample, view) and the worm's place in each sample, first with the mass unknown, then known."""
    seen = [[candidates(view[sample], factor, settings) for view in fields] for sample in range(len(samples.frames))]
    mass: Array | None = None
    found: list[Found] = []
    for _ in range(3):
        # Between samples far apart in time the worm may be anywhere; its places still hang together in short recordings.
        gap = max(1, int(np.median(np.diff(samples.frames)))) if len(samples.frames) > 1 else 1
        decider = Decider(len(samples.frames), settings, settings.step * gap)
        for views in seen:
            decider.add(combine(cameras, views, mass, settings))
        found = decider.finish()
        mass = _usual(fields, seen, found)[0]
        if np.isnan(mass).any():
            mass = None
    return seen, found


def _usual(fields: list[list[Field]], seen: list[list[Candidates]], found: list[Found]) -> tuple[Array, Array]:
    """The worm's median mass and peak in each view, NaN where it was never seen."""
    mass, peak = [], []
    for view, stack in enumerate(fields):
        chosen = [
            (views[view].mass[place.choice[view]], stack[sample][views[view].label == place.choice[view] + 1])
            for sample, (views, place) in enumerate(zip(seen, found, strict=True))
            if place.choice[view] != ABSENT
        ]
        mass.append(np.median([one for one, _ in chosen]) if chosen else np.nan)
        peak.append(np.median([np.quantile(values, 0.95) for _, values in chosen]) if chosen else np.nan)
    return np.array(mass, np.float64), np.array(peak, np.float64)


def _extent(cameras: rig.Cameras, seen: list[list[Candidates]], found: list[Found]) -> float:
    """px: how far the worm reaches from its projected centre, in nearly all samples and all views."""
    import torch

    reach = []
    for views, place in zip(seen, found, strict=True):
        if not place.found:
            continue
        centre = rig.project(cameras, torch.from_numpy(place.point)[None, None])[0, :, 0].numpy()
        for view, choice in enumerate(place.choice):
            if choice != ABSENT:
                box = views[view].box[choice]
                reach.append(max((centre[view] - box[:2]).max(), (box[2:] - centre[view]).max()))
    return float(np.quantile(reach, 0.95)) if reach else np.nan


def _masks(
    seen: list[list[Candidates]], found: list[Found], view: int, factor: int, settings: LocatingSettings
) -> NDArray[np.bool_]:
    """(sample, height, width) where the worm is, or may still be, in the shrunken samples of one view."""
    reach = max(1, round(settings.grow / factor))
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    masks = []
    for views, place in zip(seen, found, strict=True):
        label, choice = views[view].label, place.choice[view]
        worm = (label == choice + 1) if choice != ABSENT else np.zeros_like(label, bool)
        masks.append(cv2.dilate(worm.astype(np.uint8), kernel) > 0)
    return np.stack(masks)


def _without_worm(
    stack: NDArray, masks: NDArray[np.bool_], tone: Tone, factor: int, settings: LocatingSettings
) -> Field:
    """Background of a stack of pictures, the worm's pixels left out and filled where nothing else is left."""
    field, count = masked_median(stack, masks)
    known = count >= min(3, len(stack))
    if known.all():
        return field
    return fill_light(field, known, tone, settings.fill / factor)


def fill_light(field: Field, known: NDArray[np.bool_], tone: Tone, reach: float) -> Field:
    """The field with its unknown pixels filled from the light around them, dirt around them left out."""
    light = fill(field, known, reach)
    away = np.abs(light - cv2.medianBlur(light, 5)) if min(light.shape) > 5 else np.zeros_like(light)
    smooth = light_field(light, 0.2)
    spread = 1.4826 * np.median(np.abs((light - smooth)[known][::7])) + 1e-3
    clean = known & (np.abs(light - smooth - np.median((light - smooth)[known])) < 4 * spread) & (away < 4 * spread)
    return np.where(known, field, fill(light, clean, reach))


def _full_background(
    samples: _Samples, view: int, masks: NDArray[np.bool_], tone: Tone, factor: int, settings: LocatingSettings
) -> Field:
    """The background at full size, strip by strip so that memory stays small."""
    stack = samples.full[view]
    height, width = stack.shape[1:]
    covered = np.stack(
        [cv2.resize(mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0 for mask in masks]
    )
    steady = np.abs(samples.light[view] - 1).max() < 1e-9
    field, count = np.empty((height, width), np.float32), np.empty((height, width), np.int32)
    for top in range(0, height, 256):
        strip = stack[:, top : top + 256]
        if not steady:
            strip = strip / samples.light[view][:, None, None].astype(np.float32)
        field[top : top + 256], count[top : top + 256] = masked_median(strip, covered[:, top : top + 256])
    known = count >= min(3, len(stack))
    if known.all():
        return field
    small_known = shrink(known.astype(np.float32), factor) > 0.999
    small = fill_light(shrink(field, factor), small_known, tone, settings.fill / factor)
    smooth = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.where(known, field, smooth)


__all__ = ["Survey", "replace", "sample_frames", "survey"]
