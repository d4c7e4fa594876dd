"""What may be the worm in a frame, by what the first look over the recording knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from midline3d import cameras as rig
from midline3d.recording.background.light import Background, Field, shrink, shrunken
from midline3d.recording.background.registration import Texture, registration_of, texture_of, translated
from midline3d.recording.background.signal import brightness, signal
from midline3d.recording.crops import cut
from midline3d.recording.description import Recording
from midline3d.recording.locating.places import ABSENT, Candidates, Expected, Found, Places, candidates, combine
from midline3d.recording.locating.strangers import which_are
from midline3d.recording.locating.survey import Survey
from midline3d.recording.pinholes import Pinholes, project
from midline3d.recording.shared_pictures import Held
from midline3d.recording.sources import Picture
from midline3d.settings import LocatingSettings

Array = NDArray[np.float64]
KEPT = 25
"""Parts of the time between two backgrounds for which the one in between is made once: light drifts slowly."""
BORDER = 8
"""px around a crop that are cut along, so that a registration of some px finds the background there."""


@dataclass(frozen=True, eq=False)
class Sight:
    """One frame with what was seen in it."""

    frame: int
    pictures: list[Picture]
    light: list[float]
    registration: list[Array]
    """Per view, px of the full frame."""
    seen: list[Candidates]
    held: Held | None = None
    """The memory that the pictures lie in, where other processes are to see them, too."""


@dataclass(frozen=True, eq=False)
class Look:
    """What was seen in the shrunken pictures of a frame."""

    light: list[float]
    registration: list[Array]
    seen: list[Candidates]
    places: Places


class Locator:
    """Sees what may be the worm in a frame, by what the survey knows."""

    def __init__(self, cameras: rig.Cameras, survey: Survey, settings: LocatingSettings) -> None:
        self.cameras, self.survey, self.settings = cameras, survey, settings
        self.pinholes = Pinholes.of(cameras)
        self.kept: dict[int, tuple[int, Field, Texture | None]] = {}

    def see(self, frame: int, pictures: list[Picture]) -> tuple[Sight, Places]:
        """Candidates in every view, with each view's light and registration, and the places they can stand for."""
        got = self.look(frame, [shrunken(picture, self.survey.factor) for picture in pictures])
        return Sight(frame, pictures, got.light, got.registration, got.seen), got.places

    def look(self, frame: int, small: Sequence[Picture]) -> Look:
        """What is in a frame, by its shrunken pictures."""
        light, registration, seen = zip(*(self._view(frame, *one) for one in enumerate(small)), strict=True)
        places = combine(self.pinholes, seen, Expected(self.survey.mass), self.settings)
        return Look(list(light), list(registration), list(seen), places)

    def _view(self, frame: int, view: int, picture: Picture) -> tuple[float, Array, Candidates]:
        """Light, registration and candidates of one view, by its shrunken picture."""
        factor = self.survey.factor
        tone, (behind, texture) = self.survey.tones[view], self._behind(view, frame)
        small = picture.astype(np.float32)
        light = brightness(small, behind, tone)
        shown = signal(small, behind, tone, light)
        strangers = self.survey.strangers[view] if self.survey.strangers else ()
        floor, is_strange = self.settings.least_peak * self.survey.peak[view], partial(which_are, strangers, frame)
        things = candidates(shown, factor, self.settings, floor, is_strange)
        return light, registration_of(small, texture, light) * factor, things

    def _behind(self, view: int, frame: int) -> tuple[Field, Texture | None]:
        """The shrunken background and its texture, kept for the frames around: light drifts slowly.

        It is that of the middle of these frames, whichever is seen first: they come in any order, and again.
        """
        background = self.survey.backgrounds[view]
        span = float(np.diff(background.moments).min()) if len(background.moments) > 1 else np.inf
        around = max(1.0, span / KEPT)
        moment = int(frame // around)
        kept = self.kept.get(view)  # once: other frames are seen at the same time
        if kept is None or kept[0] != moment:
            small = shrink(background.at((moment + 0.5) * around), self.survey.factor)
            kept = self.kept[view] = (moment, small, texture_of(small))
        return kept[1:]

    def scale(self) -> float:
        """px per mm where the worm usually is."""
        return float(rig.scale(self.cameras, torch.from_numpy(self.survey.centre())[None, None]).mean())

    def step(self) -> float:
        """mm that the worm's centre may well move between frames."""
        return self.settings.step * 2 * self.survey.extent / self.scale()


def window_for(recording: Recording, extent: float, settings: LocatingSettings) -> int:
    """px: a crop that holds a worm reaching `extent` px from its centre, never touching the border."""
    if recording.crop != "auto":
        return recording.crop
    largest = max(max(view.source.size) for view in recording.views)
    return min(8 * math.ceil((2 * extent * (1 + 2 * settings.margin) + 8) / 8), 8 * math.ceil(largest / 8))


def crop_behind(
    background: Background, frame: int, corner: NDArray[np.int64], window: int, registration: Array
) -> Field:
    """The background of a crop, moved as the picture has moved."""
    border = BORDER
    wide = background.at(frame, lambda picture: cut(picture, corner - border, window + 2 * border))
    return np.asarray(translated(wide, registration)[border:-border, border:-border])


def reach_of(cameras: Pinholes, seen: list[Candidates], place: Found) -> float:
    """px: how far the worm reaches from its projected centre in any view."""
    centre = project(cameras, place.point[None])[0]
    boxes = [(centre[view], seen[view].box[choice]) for view, choice in enumerate(place.choice) if choice != ABSENT]
    return float(max(max((middle - box[:2]).max(), (box[2:] - middle).max()) for middle, box in boxes))


def sharpness(values: Field) -> float:
    """Focus of a crop, 1/px: its steepest slopes against its height."""
    smooth = cv2.GaussianBlur(values, (0, 0), 1.0)
    across, down = smooth[:-1, 1:] - smooth[:-1, :-1], smooth[1:, :-1] - smooth[:-1, :-1]
    np.multiply(across, across, out=across)
    across += np.multiply(down, down, out=down)
    return float(np.sqrt(across.max()) / max(float(smooth.max()), 1e-3))
