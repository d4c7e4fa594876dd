"""The kinds of recordings that can be simulated."""

from __future__ import annotations

from dataclasses import dataclass, field

from midline3d.synth.dirt import Clutter
from midline3d.synth.gait import Habit


@dataclass(frozen=True)
class Preset:
    """One kind of recording. Pixels are those of 130 px/mm; they scale with the magnification where optics do."""

    habit: Habit = field(default_factory=Habit)
    clutter: Clutter = field(default_factory=Clutter)
    blur: float = 1.5
    """Standard deviation of the blur at the part of the body that is farthest from focus in the recording, px."""
    calibration_error: float = 0.0
    """Rms error of the calibration that is handed over, px."""
    vibration: float = 0.0
    """Standard deviation of the cameras' shaking, px."""
    unevenness: float = 0.1
    """Share of the light lost towards the edges."""
    noise: float = 1.0
    """Noise against that of a good camera."""


PRESETS: dict[str, Preset] = {
    "clean": Preset(habit=Habit(pauses=False), noise=0.7),
    "swim": Preset(
        clutter=Clutter(specks=20, near=3, bubbles=1), calibration_error=3.0, vibration=0.5, unevenness=0.25, blur=2.0
    ),
    "blur": Preset(
        habit=Habit(turns=True),
        clutter=Clutter(specks=12, near=2),
        blur=5.0,
        calibration_error=3.0,
        vibration=0.5,
        unevenness=0.25,
    ),
    "dirt": Preset(
        clutter=Clutter(specks=110, near=16, bubbles=8, drifting=5),
        blur=2.5,
        calibration_error=3.0,
        vibration=0.6,
        unevenness=0.35,
        noise=1.3,
    ),
    "coil": Preset(
        habit=Habit(coils=True, pauses=False),
        clutter=Clutter(specks=12, near=2),
        calibration_error=2.0,
        vibration=0.4,
        unevenness=0.2,
        blur=2.0,
    ),
    "hard": Preset(
        habit=Habit(coils=True, turns=True, depth=0.4),
        clutter=Clutter(specks=80, near=10, bubbles=5, drifting=3),
        blur=5.0,
        calibration_error=5.0,
        vibration=0.9,
        unevenness=0.35,
        noise=1.5,
    ),
}
