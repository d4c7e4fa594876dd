"""The crops of one frame: the worm bright on 0 in every view's window, as bytes, and how sharp it is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.bubbles import without_bubbles
from midline3d.recording.background.light import Field
from midline3d.recording.background.signal import as_bytes, signal
from midline3d.recording.background.static import stands_out
from midline3d.recording.crops import cut, inside
from midline3d.recording.locating.locator import Sight, crop_behind, sharpness
from midline3d.recording.locating.survey import Survey

Array = NDArray[np.float64]

FAINT = 128.0
"""A worm whose usual peak is below this is amplified to it, so that 8 bits do not lose it."""
MOST_GAIN = 16.0
"""Largest amplification: a worm fainter than that is noise."""


@dataclass(frozen=True, eq=False)
class Crops:
    """What was cut of one frame."""

    images: NDArray[np.uint8]
    """(camera, w, w)"""
    sharpness: list[float]
    """Per camera, 1/px."""
    beside: list[Field]
    """Per camera, every other pixel's signal, amplified, neither rounded nor cut at 0; nothing where not asked for."""


@dataclass(frozen=True, eq=False)
class Cutter:
    """Cuts windows of one size out of frames, several at once where asked to: it keeps nothing."""

    survey: Survey
    window: int
    """px"""

    @property
    def gain(self) -> Array:
        """(camera,) by which signals are amplified."""
        return np.clip(FAINT / self.survey.peak, 1, MOST_GAIN)

    def crops(self, sight: Sight, corner: NDArray[np.int64], beside: bool) -> Crops:
        """A frame's crops, their first pixels at `corner`, (camera, 2) px; with what tells their noise if `beside`."""
        fields = [self._signal(sight, view, corner[view]) for view in range(len(sight.pictures))]
        focus = [sharpness(values) for values in fields]
        amplified = [values * np.float32(gain) for values, gain in zip(fields, self.gain, strict=True)]
        quiet = [values[::2, ::2].ravel() for values in amplified] if beside else []
        return Crops(np.stack([as_bytes(values) for values in amplified]), focus, quiet)

    def _signal(self, sight: Sight, view: int, corner: NDArray[np.int64]) -> Field:
        """The signal in one view's window, 0 beyond the picture's border."""
        picture, survey = sight.pictures[view], self.survey
        behind = crop_behind(survey.backgrounds[view], sight.frame, corner, self.window, sight.registration[view])
        values = signal(cut(picture, corner, self.window), behind, survey.tones[view], sight.light[view])
        values = without_bubbles(values, survey.bubbles[view], stands_out(float(survey.noise[view])))
        beyond = (corner < 0).any() or (corner[::-1] + self.window > picture.shape).any()
        return values * inside(picture.shape, corner, self.window) if beyond else values
