"""What makes one recording unlike another: drawn from the seed, so that no single appearance can be tuned to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from midline3d.synth.body import Body
from midline3d.synth.gait import CIRCLES


@dataclass(frozen=True)
class Inside:
    """What can be seen in the animal besides its taper, and what sticks to it."""

    granules: int
    """Dark grains in the gut, fixed to the body."""
    granule_density: float
    """Optical density of a grain, as a share of the body's."""
    rim: float
    """Light bent by the body's edge: below zero the edge is bright within and dark without, above zero otherwise."""
    rim_turns: float
    """Share of the rim that changes sign from one side of focus to the other."""
    lumps: int
    """Debris that touches the body and goes with it."""


@dataclass(frozen=True)
class Motion:
    """How the animal moves, and how fast for this camera."""

    fastest: float
    """px between frames, of the fastest point in the view of the highest magnification."""
    coils: bool
    turns: bool
    reversals: bool
    contact: bool
    """Coils that touch themselves."""
    depth: float
    """Bending out of the plane of the wave, as a share."""
    leaves: Literal["never", "one", "all"]
    """Views that it leaves for some frames."""
    gone: float
    """Share of the frames for which it is gone."""
    circles: tuple[float, float] = CIRCLES
    """Full circles that a coil makes of a body's length, from and to."""


@dataclass(frozen=True)
class Rig:
    """The cameras, and how wrongly they are known."""

    px_per_mm: tuple[float, ...]
    distance: tuple[float, ...]
    """mm: the nearer, the less telecentric."""
    angles: tuple[float, float]
    """Least and greatest angle between two cameras, degrees."""
    calibration_error: float
    """Rms, px: pose, focal length, principal point and distortion."""
    vibration: float
    """Standard deviation, px."""
    warp: float = 1.0
    """How much of the calibration's error lies in the distortion, against pose, focal length and principal point."""


@dataclass(frozen=True)
class Optics:
    """From the scene to the light on the sensors."""

    blur: tuple[float, ...]
    """px, standard deviation at the part of the body that is farthest from focus, each view."""
    sharpest: tuple[float, ...]
    """px, in focus."""
    focus: tuple[float, ...]
    """The focal plane's distance from the middle of the passage, as a share of the passage's half depth."""
    disc: tuple[bool, ...]
    """Defocus as an even disc; else as a Gaussian."""
    veil: tuple[float, ...]
    """Share of the light that is scattered widely."""
    veil_reach: tuple[float, ...]
    """px."""
    veil_side: tuple[bool, ...]
    """Scattered to one side; else all round."""
    light: float
    """Grey levels of the empty picture."""
    unevenness: float
    contrast: float
    """Grey levels by which the middle of the unblurred body is darker."""


@dataclass(frozen=True)
class Sensor:
    """From light to files."""

    noise: float
    """Grey levels, standard deviation where nothing absorbs."""
    shot: float
    """Share of the noise's variance that grows with the light."""
    pattern: float
    """Fixed pattern: pixels differ in sensitivity by this share, columns by 100 times as many grey levels."""
    flicker: float
    """Changes of the light from frame to frame, as a share."""
    exposure: float
    """Share of the time between frames."""
    compression: int
    """Constant rate factor of H.264; 0 is lossless video."""
    dropped: float
    """Share of the frames that come black, each in one view."""
    background: bool
    """A picture of the empty scene goes with the recording."""
    stated: bool
    """The recording says that the worm is dark."""


@dataclass(frozen=True)
class Medium:
    """What lies about, per view or in the gel."""

    fibres: int
    scratches: int
    bubbles: int
    specks: int
    near: int
    drifting: int
    mottle: float
    """Standard deviation of the gel's own optical density."""
    drift: float
    """px per frame by which the gel moves, with all that it holds."""


@dataclass(frozen=True)
class Nuisances:
    """Everything that was drawn for one recording."""

    family: str
    body: Body
    inside: Inside
    motion: Motion
    rig: Rig
    optics: Optics
    sensor: Sensor
    medium: Medium

    def describe(self) -> dict[str, Any]:
        """All of it, for the truth file."""
        return asdict(self)


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """Evenly in proportion: as often from 1 to 2 as from 2 to 4."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def sometimes(rng: np.random.Generator, share: float) -> bool:
    """True for this share of all draws."""
    return bool(rng.random() < share)


def moderate(rng: np.random.Generator) -> Nuisances:
    """Everything at once and nothing in excess: what every family starts from."""
    animal, rig, optics, sensor, motion, medium = rng.spawn(6)
    cameras = int(rig.choice([2, 3, 4], p=[0.08, 0.77, 0.15]))
    body = any_body(animal)
    return Nuisances(
        family="plain",
        body=body,
        inside=any_inside(animal),
        motion=any_motion(motion),
        rig=any_rig(cameras, rig),
        optics=any_optics(cameras, optics),
        sensor=any_sensor(sensor),
        medium=any_medium(medium),
    )


def any_body(rng: np.random.Generator) -> Body:
    """An animal: its absorption is set later, by the contrast that the recording is to have."""
    length, width = between(rng, 0.6, 1.4), rng.uniform(0.05, 0.08)
    # Drawn apart, so that all else of a seed stays what it was before tails could end in stubs, or go on as threads.
    stub, thread = rng.spawn(2)
    tip = stub.uniform(0.1, 0.3) if stub.random() < 0.4 else 0.0
    goes_on = thread.random() < 0.25
    return Body(
        length=length,
        radius=0.5 * width * length,
        head_share=rng.uniform(0.07, 0.22),
        tail_share=rng.uniform(0.16, 0.38),
        head_power=rng.uniform(1.3, 3.5),
        tail_power=rng.uniform(0.9, 2.0),
        belly=rng.uniform(0.0, 0.15),
        absorption=1.0,
        clear_head=rng.uniform(0.0, 0.7),
        clear_tail=rng.uniform(0.0, 0.6),
        clear_pharynx=rng.uniform(0.0, 0.35),
        dark_gut=rng.uniform(0.0, 0.5),
        texture=tuple(rng.normal(0, 0.05, 4).tolist()),
        rim=0.0,
        tail_tip=thread.uniform(0.08, 0.25) if goes_on else tip,
        tail_thread=thread.uniform(0.02, 0.1) if goes_on else 0.0,
    )


def any_inside(rng: np.random.Generator) -> Inside:
    return Inside(
        granules=int(rng.integers(0, 40)),
        granule_density=rng.uniform(0.05, 0.3),
        rim=rng.choice([-1, 1]) * rng.uniform(0.0, 0.5),
        rim_turns=rng.uniform(0, 1),
        lumps=int(sometimes(rng, 0.05)),
    )


def any_motion(rng: np.random.Generator) -> Motion:
    return Motion(
        fastest=between(rng, 1.5, 6.0),
        coils=sometimes(rng, 0.06),
        turns=sometimes(rng, 0.2),
        reversals=sometimes(rng, 0.6),
        contact=False,
        depth=rng.uniform(0.1, 0.5),
        leaves="never",
        gone=0.0,
    )


def any_rig(cameras: int, rng: np.random.Generator) -> Rig:
    common = between(rng, 80, 200)
    return Rig(
        px_per_mm=tuple(float(np.clip(common * between(rng, 0.8, 1.25), 60, 260)) for _ in range(cameras)),
        distance=tuple(between(rng, 200, 1400) for _ in range(cameras)),
        angles=(75.0, 105.0) if cameras < 4 else (60.0, 110.0),  # no four are nearly at right angles
        calibration_error=float(rng.uniform(0, 5)),
        vibration=float(rng.uniform(0, 0.8)),
    )


def any_optics(cameras: int, rng: np.random.Generator) -> Optics:
    views = range(cameras)
    return Optics(
        blur=tuple(between(rng, 0.8, 3.0) for _ in views),
        sharpest=tuple(float(rng.uniform(0.6, 1.0)) for _ in views),
        focus=tuple(float(rng.uniform(-1, 1)) for _ in views),
        disc=tuple(sometimes(rng, 0.5) for _ in views),
        veil=tuple(float(rng.uniform(0, 0.04)) for _ in views),
        veil_reach=tuple(between(rng, 6, 30) for _ in views),
        veil_side=tuple(sometimes(rng, 0.3) for _ in views),
        light=float(rng.uniform(110, 220)),
        unevenness=float(rng.uniform(0.05, 0.35)),
        contrast=between(rng, 28, 90),
    )


def any_sensor(rng: np.random.Generator) -> Sensor:
    return Sensor(
        noise=between(rng, 0.8, 2.2),
        shot=float(rng.uniform(0.1, 0.9)),
        pattern=float(rng.uniform(0, 0.004)),
        flicker=float(rng.uniform(0, 0.008)),
        exposure=float(rng.uniform(0.02, 0.3)),
        compression=int(rng.integers(17, 23)) if sometimes(rng, 0.15) else 0,
        dropped=0.0,
        background=sometimes(rng, 0.15),
        stated=sometimes(rng, 0.7),
    )


def any_medium(rng: np.random.Generator) -> Medium:
    return Medium(
        fibres=int(sometimes(rng, 0.15)),
        scratches=int(sometimes(rng, 0.25)),
        bubbles=int(sometimes(rng, 0.3)),
        specks=int(rng.integers(0, 30)),
        near=int(rng.integers(0, 4)),
        drifting=int(sometimes(rng, 0.15)),
        mottle=float(rng.uniform(0, 0.01)),
        drift=float(rng.uniform(0, 0.05)) if sometimes(rng, 0.3) else 0.0,
    )
