"""Easy recordings in which one nuisance grows through levels: where does a method break?

All else is the same at every level, down to the animal and the rig that a seed draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from midline3d.errors import InputError
from midline3d.synth.body import Body
from midline3d.synth.nuisances import Inside, Medium, Motion, Nuisances, Optics, Rig, Sensor

LENGTH = 1.0
"""mm, of every animal, so that its length in the picture is the magnification's alone."""
PX_PER_MM = 130.0
NOISE = 1.5
"""Grey levels."""


@dataclass(frozen=True)
class Ladder:
    """One nuisance and its levels."""

    unit: str
    """What a level counts."""
    levels: tuple[float, ...]
    """From easy to hard."""
    range: tuple[float, float]
    """Least and greatest level that can be drawn."""
    apply: Callable[[Nuisances, float], Nuisances]

    def check(self, name: str, level: float) -> None:
        """Says in one sentence what cannot be drawn."""
        low, high = self.range
        if not (math.isfinite(level) and low <= level <= high):
            raise InputError(f"the level of {name} is {level:g} {self.unit}; choose {low:g} to {high:g}")


def draw_level(seed: int, nuisance: str, level: float) -> Nuisances:
    """Everything about a recording that is easy but for one nuisance."""
    drawn = LADDERS[nuisance].apply(easy(seed), level)
    return replace(drawn, family=f"{nuisance} {level:g}")


def easy(seed: int) -> Nuisances:
    """Three views at nearly right angles, sharp, clear and calibrated to a pixel, of an animal of its own."""
    animal, optics = np.random.default_rng([seed, 79]).spawn(2)
    return Nuisances(
        family="easy",
        body=replace(Body.random(animal), length=LENGTH),
        inside=Inside(granules=10, granule_density=0.1, rim=0.0, rim_turns=0.0, lumps=0),
        motion=Motion(
            fastest=3.0, coils=False, turns=False, reversals=False, contact=False, depth=0.3, leaves="never", gone=0.0
        ),
        rig=_rig(3),
        optics=_optics(3, optics),
        sensor=Sensor(
            noise=NOISE, shot=0.5, pattern=0.001, flicker=0.003, exposure=0.05, compression=0, dropped=0.0,
            background=False, stated=True,
        ),
        medium=Medium(fibres=0, scratches=0, bubbles=0, specks=5, near=0, drifting=0, mottle=0.0, drift=0.0),
    )  # fmt: skip


def _rig(cameras: int) -> Rig:
    return Rig(
        px_per_mm=(PX_PER_MM,) * cameras,
        distance=(1000.0,) * cameras,
        angles=(80.0, 100.0) if cameras < 4 else (60.0, 110.0),  # no four are nearly at right angles
        calibration_error=1.0,
        vibration=0.2,
        warp=0.0,  # an error of many px in the distortion alone would fold the picture over
    )


def _optics(cameras: int, rng: np.random.Generator) -> Optics:
    return Optics(
        blur=(1.2,) * cameras,
        sharpest=(0.8,) * cameras,
        focus=tuple(rng.uniform(-0.5, 0.5, cameras).tolist()),
        disc=(False,) * cameras,
        veil=(0.0,) * cameras,
        veil_reach=(10.0,) * cameras,
        veil_side=(False,) * cameras,
        light=180.0,
        unevenness=0.1,
        contrast=40 * NOISE,
    )


def _blur(drawn: Nuisances, level: float) -> Nuisances:
    return replace(drawn, optics=replace(drawn.optics, blur=(level,) * len(drawn.optics.blur)))


def _overlap(drawn: Nuisances, level: float) -> Nuisances:
    """From one circle on, the coil is as flat as the body's thickness allows: it lies on itself."""
    motion = replace(drawn.motion, coils=level > 0, contact=level >= 1, circles=(level, level))
    return replace(drawn, motion=motion)


def _motion(drawn: Nuisances, level: float) -> Nuisances:
    return replace(drawn, motion=replace(drawn.motion, fastest=level))


def _calibration(drawn: Nuisances, level: float) -> Nuisances:
    return replace(drawn, rig=replace(drawn.rig, calibration_error=level))


def _contrast(drawn: Nuisances, level: float) -> Nuisances:
    return replace(drawn, optics=replace(drawn.optics, contrast=level * drawn.sensor.noise))


def _cameras(drawn: Nuisances, level: float) -> Nuisances:
    count = round(level)
    focus = np.resize(drawn.optics.focus, count).tolist()
    optics = replace(_optics(count, np.random.default_rng(0)), focus=tuple(focus))
    return replace(drawn, rig=_rig(count), optics=optics)


def _magnification(drawn: Nuisances, level: float) -> Nuisances:
    """Speed and defocus in px grow with it, as those of the same animal behind another lens do."""
    times = level / (LENGTH * PX_PER_MM)
    return replace(
        drawn,
        rig=replace(drawn.rig, px_per_mm=tuple(times * scale for scale in drawn.rig.px_per_mm)),
        optics=replace(drawn.optics, blur=tuple(times * blur for blur in drawn.optics.blur)),
        motion=replace(drawn.motion, fastest=times * drawn.motion.fastest),
    )


def _clutter(drawn: Nuisances, level: float) -> Nuisances:
    count = round(level)
    medium = replace(
        drawn.medium,
        fibres=count,
        bubbles=count // 2,
        drifting=count // 2,
        near=2 * count,
        specks=drawn.medium.specks + 8 * count,
    )
    return replace(drawn, medium=medium)


LADDERS: dict[str, Ladder] = {
    "blur": Ladder("px, farthest from focus", (1, 2, 4, 6, 9, 13), (0, 40), _blur),
    "overlap": Ladder("circles in a coil", (0, 0.6, 1, 1.4, 1.8, 2.2), (0, 2.2), _overlap),
    "motion": Ladder("px between frames", (1, 3, 6, 12, 20, 30), (0.05, 60), _motion),
    "calibration": Ladder("px of calibration error", (0, 3, 6, 12, 20, 30), (0, 100), _calibration),
    "contrast": Ladder("times the noise", (40, 20, 10, 6, 3, 1.5), (0.1, 100), _contrast),
    "cameras": Ladder("cameras", (4, 3, 2), (2, 4), _cameras),
    "magnification": Ladder("px, length of the worm", (330, 180, 100, 60, 40, 25), (10, 330), _magnification),
    "clutter": Ladder("fibres, each with 10 specks", (0, 1, 2, 4, 8, 16), (0, 100), _clutter),
}
"""By the nuisance's name, in the order of tables and figures."""
