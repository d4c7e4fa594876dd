"""Frames sampled from a stretch of the recording, and each view's background made of them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.recording.background.bubbles import bare_bubbles
from midline3d.recording.background.light import Field, Mask, light_field, masked_median, shrink
from midline3d.recording.background.registration import THINGS, Texture, registration_of, texture_of, translated
from midline3d.recording.background.signal import Tone, brightness, signal
from midline3d.recording.background.static import (
    LIGHT,
    SEEN,
    BesideWorm,
    Standing,
    standing,
)
from midline3d.recording.description import Recording, View
from midline3d.recording.sources import Picture, side_by_side
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]

FEWEST = 9
"""Samples of a stretch at least, whatever memory they take: fewer have no median to speak of."""
DARK = 8.0
"""Grey levels: pictures with a darker median are dark fields, whose light is not compared."""
DIMMEST = 0.1
"""Of the stretch's light: a frame darker than that is taken as so dark, and not divided by nothing."""
NEGATIVE, NEGATIVES = -0.2, 0.2
"""Correlation with the first sample under which a picture is its negative, and the share of samples that must be."""
STRIP = 64
"""Rows of a full-size background made at once: all samples of so many lie in a processor's own memory."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Frames of one stretch of the recording."""

    frames: list[int]
    full: list[NDArray]
    """Per camera (sample, height, width)."""
    small: list[NDArray[np.float32]]
    """Per camera (sample, height, width), shrunken, each brought to the stretch's mean light."""
    light: list[Array]
    """Per camera (sample,) brightness against that mean."""


def sample_frames(start: int, stop: int, number: int) -> list[int]:
    """Frames spread evenly over a stretch, all of it where it is short."""
    return sorted(set(np.linspace(start, stop - 1, min(number, stop - start)).round().astype(int).tolist()))


def take_samples(recording: Recording, start: int, stop: int, factor: int, settings: LocatingSettings) -> Samples:
    """Pictures of all views, spread over a stretch of the recording, as many as memory allows; shrunken by `factor`."""
    size = sum(view.source.size[0] * view.source.size[1] * view.source.depth for view in recording.views)
    number = int(np.clip(settings.memory * 1e6 / size, FEWEST, settings.background_frames))
    wanted = sample_frames(start, stop, number)
    # Up to halfway to the next sample: a video gives up its key frames without decoding all that lies between.
    reach = (stop - start) // number // 2
    wanted = sorted({recording.views[0].source.near(frame, reach) for frame in wanted})
    read = side_by_side(lambda view: _read(view, wanted), recording.views)
    frames = [frame for frame in wanted if all(frame in pictures for pictures in read)]
    if not frames:
        raise InputError(
            f"{recording.path}: none of the frames {wanted[0]} to {wanted[-1]} can be read in all cameras, or they are "
            "all black; check the videos"
        )
    full = [np.stack([pictures[frame] for frame in frames]) for pictures in read]

    def evened(view: int) -> tuple[NDArray[np.float32], Array]:
        """One camera's samples, shrunken and brought to their mean light, and the light of each."""
        shrunk = np.stack([shrink(picture, factor) for picture in full[view]])
        level = np.median(shrunk[:, ::4, ::4], axis=(1, 2)).astype(np.float64)
        ratio = level / max(float(np.median(level)), 1e-6) if np.median(level) > DARK else np.ones(len(level))
        _check_turned(recording, view, shrunk, frames)
        light = np.maximum(ratio, DIMMEST)
        for picture, own in zip(shrunk, light, strict=True):
            np.divide(picture, own, out=picture, dtype=np.float64, casting="same_kind")
        return shrunk, light

    small, light = zip(*side_by_side(evened, range(len(full))), strict=True)
    return Samples(frames, full, list(small), list(light))


def _check_turned(recording: Recording, view: int, stack: NDArray[np.float32], frames: list[int]) -> None:
    """Complains about a camera whose pictures become negatives on the way: light and dirt then stand out the other way.

    Half of the samples have to be so: a lamp that is switched is another matter.
    """
    smooth = [cv2.GaussianBlur(picture, (0, 0), 3.0)[::4, ::4].ravel() for picture in stack]
    first = smooth[0] - smooth[0].mean()
    alike = [
        float(first @ (one - one.mean()) / max(1e-6, np.linalg.norm(first) * np.std(one) * len(one) ** 0.5))
        for one in smooth
    ]
    turned = np.array(alike) < NEGATIVE
    if turned.sum() >= max(2, NEGATIVES * len(turned)):
        raise InputError(
            f"{recording.path}: {recording.views[view].name}'s pictures are negatives from about frame "
            f"{frames[int(turned.argmax())]} on, dark for bright; turn that part back, or reconstruct the parts apart"
        )


def _read(view: View, wanted: list[int]) -> dict[int, Picture]:
    """The frames of one camera that can be read and are not black."""
    got = view.source.read([frame + view.offset for frame in wanted])
    return {index - view.offset: picture for index, picture in got if picture is not None and picture.any()}


class Shelf:
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


@dataclass(frozen=True, eq=False)
class StillThings:
    """What stands still in one view's samples, and which of it is the worm."""

    masks: NDArray[np.bool_]
    """(sample, height, width) where the worm may be."""
    beside: BesideWorm
    standing: Standing
    at_rest: Mask
    """(height, width) the worm at rest, by this view alone."""


class SampledView:
    """One view's samples on the way to its background."""

    def __init__(self, stack: NDArray[np.float32], tone: Tone, factor: int, settings: LocatingSettings) -> None:
        self.tone, self.factor = tone, factor
        self.reach = settings.fill / factor
        self.raw = stack
        self.stack = stack
        self.registrations = np.zeros((len(stack), 2))
        self.dirt: NDArray[np.bool_] = np.zeros(stack.shape[1:], np.bool_)
        self.steadied = False
        self.heaviest = 0.0
        self.bubbles: NDArray[np.bool_] | None = None

    def moving(self) -> list[Field]:
        """Signals against the light without what stands still, for a first look at where the worm is."""
        self._steady(texture_of(masked_median(self.raw)[0], THINGS))
        still = standing(self.stack, light_field(masked_median(self.stack)[0], LIGHT), self.tone)
        self.heaviest = still.heaviest()
        self.bubbles = bare_bubbles(still.fields, still.usual, still.least)
        return [np.where(still.things, 0, field) for field in still.fields]

    def against_light(self) -> list[Field]:
        """Signals against the light, whatever stands still included."""
        light = light_field(masked_median(self.stack)[0], LIGHT)
        return [signal(picture, light, self.tone) for picture in self.stack]

    def still(
        self, masks: NDArray[np.bool_], mass: float, slender: bool, itself: NDArray[np.bool_] | None = None
    ) -> StillThings:
        """What stands still, as far as these masks of the worm, its mass, whether it is stretched out, and where it was
        seen tell it (see `Standing.at_rest`)."""
        masks = self._beside_bubbles(masks)
        if not self.steadied:
            # Without the worm what is left can be trusted to be at rest, however few things there are.
            shaken = BesideWorm.of(self.stack, masks, self.reach)
            self._steady(texture_of(shaken.background(self.dirt, self.tone)))
            self.steadied = True
        beside = BesideWorm.of(self.stack, masks, self.reach)
        found = standing(self.stack, beside.light(), self.tone)
        return StillThings(masks, beside, found, found.at_rest(masks, mass, slender, itself))

    def against_background(self, still: StillThings, rests: bool = True) -> list[Field]:
        """Signals against the background. rests: whether what is the worm at rest by this view is that by others."""
        self.dirt = still.standing.without_worm(still.masks, still.at_rest if rests else None)
        behind = still.beside.background(self.dirt, self.tone)
        return [signal(one, behind, self.tone, brightness(one, behind, self.tone)) for one in self.stack]

    def _beside_bubbles(self, masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Masks of the worm without bubbles that lie bare there, near as it may be."""
        return masks if self.bubbles is None else masks & ~self.bubbles

    def _steady(self, texture: Texture | None) -> None:
        """Bring the samples to lie on each other."""
        self.registrations = np.stack([registration_of(picture, texture, 1.0) for picture in self.raw])
        self.stack = np.stack(
            [translated(picture, -by) for picture, by in zip(self.raw, self.registrations, strict=True)]
        )

    def full_size(self, samples: Samples, view: int, masks: NDArray[np.bool_]) -> Field:
        """The background at full size, strip by strip so that memory stays small."""
        masks = self._beside_bubbles(masks)
        small = BesideWorm.of(self.stack, masks, self.reach).background(self.dirt, self.tone)
        if self.factor == 1:
            return small
        stack, light = samples.full[view], samples.light[view]
        height, width = stack.shape[1:]

        def steady(sample: int) -> None:  # in place: these are hundreds of MB, and nobody needs them after
            stack[sample] = translated(stack[sample], -self.registrations[sample] * self.factor)

        side_by_side(steady, range(len(stack)))
        level = min(128.0, 65000.0 * float(light.min()) / max(1, int(stack.max())))
        fine = (level / light).astype(np.float32)[:, None, None]
        columns = np.arange(width) * masks.shape[2] // width

        def strip(top: int) -> Field:
            rows = np.arange(top, min(top + STRIP, height))
            covered = masks[:, rows * masks.shape[1] // height][:, :, columns]
            # In 16 bits: grey levels fine enough for the samples' own light, and half the work of floats.
            evened = (stack[:, rows[0] : rows[-1] + 1] * fine + np.float32(0.5)).astype(np.uint16)
            return masked_median(evened, covered)[0] / np.float32(level)

        field = np.concatenate(side_by_side(strip, range(0, height, STRIP)))
        # What was hardly ever seen comes from the shrunken background, where light is filled in.
        unknown = (masks.sum(0) > len(masks) - min(SEEN, len(masks))).astype(np.uint8)
        rare = cv2.resize(unknown, (width, height), interpolation=cv2.INTER_NEAREST) > 0
        smooth = cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)
        return np.where(rare, smooth, field)
