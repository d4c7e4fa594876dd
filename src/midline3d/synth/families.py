"""Families of recordings: each has one nuisance in strength, and all others in moderation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from midline3d.errors import InputError
from midline3d.synth.nuisances import Nuisances, any_optics, any_rig, between, moderate, sometimes

Rng = np.random.Generator
LONGEST = 0.66
"""A worm's length in the picture, as a share of the picture's width, at most."""


def family_of(seed: int) -> str:
    """The family that a seed draws: in rotation, once for every two seeds, so that even and odd seeds have all."""
    return list(FAMILIES)[seed // 2 % len(FAMILIES)]


def draw_nuisances(seed: int, family: str | None, size: int) -> Nuisances:
    """Everything about a recording of pictures `size` px wide, in which the worm has to find room."""
    name = family or family_of(seed)
    if name not in FAMILIES:
        raise InputError(f"family is '{name}'; choose one of {', '.join(FAMILIES)}")
    base, own = np.random.default_rng([seed, 77]).spawn(2)
    drawn = replace(FAMILIES[name](moderate(base), own), family=name)
    most = LONGEST * size / drawn.body.length
    scales = tuple(min(scale, most) for scale in drawn.rig.px_per_mm)
    return replace(drawn, rig=replace(drawn.rig, px_per_mm=scales))


def _plain(drawn: Nuisances, rng: Rng) -> Nuisances:
    return drawn


def _fibre(drawn: Nuisances, rng: Rng) -> Nuisances:
    """Thin curved lines, the worst company for a curve; half of them drift with the gel."""
    drift = rng.uniform(0.05, 0.35) if sometimes(rng, 0.5) else 0.0
    medium = replace(
        drawn.medium, fibres=int(rng.integers(3, 9)), scratches=int(rng.integers(1, 5)), drift=float(drift)
    )
    return replace(drawn, medium=medium)


def _veil(drawn: Nuisances, rng: Rng) -> Nuisances:
    views = len(drawn.optics.veil)
    optics = replace(
        drawn.optics,
        veil=tuple(rng.uniform(0.05, 0.12, views).tolist()),
        veil_reach=tuple(between(rng, 5, 40) for _ in range(views)),
        veil_side=tuple(sometimes(rng, 0.5) for _ in range(views)),
    )
    return replace(drawn, optics=optics)


def _larva(drawn: Nuisances, rng: Rng) -> Nuisances:
    length = between(rng, 0.35, 0.6)
    body = replace(drawn.body, length=length, radius=0.5 * length * rng.uniform(0.05, 0.07))
    scale = between(rng, 110, 230)
    scales = tuple(float(np.clip(scale * between(rng, 0.8, 1.25), 60, 260)) for _ in drawn.rig.px_per_mm)
    return replace(drawn, body=body, rig=replace(drawn.rig, px_per_mm=scales))


def _fast(drawn: Nuisances, rng: Rng) -> Nuisances:
    motion = replace(drawn.motion, fastest=float(rng.uniform(8, 15)))
    return replace(drawn, motion=motion, sensor=replace(drawn.sensor, exposure=float(rng.uniform(0.05, 0.5))))


def _leave(drawn: Nuisances, rng: Rng) -> Nuisances:
    """A small worm leaves one view, or all of them, and comes back."""
    leaves: Literal["all", "one"] = "all" if sometimes(rng, 0.5) else "one"
    motion = replace(
        drawn.motion, fastest=between(rng, 1, 3), coils=False, leaves=leaves, gone=float(rng.uniform(0.04, 0.15))
    )
    length = between(rng, 0.6, 1.0)
    body = replace(drawn.body, length=length, radius=0.5 * length * rng.uniform(0.05, 0.08))
    scales = tuple(float(rng.uniform(65, 100)) for _ in drawn.rig.px_per_mm)
    return replace(drawn, motion=motion, body=body, rig=replace(drawn.rig, px_per_mm=scales))


def _faint(drawn: Nuisances, rng: Rng) -> Nuisances:
    optics = replace(drawn.optics, contrast=between(rng, 8, 20), blur=tuple(0.6 * blur for blur in drawn.optics.blur))
    return replace(drawn, optics=optics, sensor=replace(drawn.sensor, noise=float(rng.uniform(1.2, 2.2))))


def _coil(drawn: Nuisances, rng: Rng) -> Nuisances:
    return replace(drawn, motion=replace(drawn.motion, coils=True, turns=False, contact=sometimes(rng, 0.7)))


def _turn(drawn: Nuisances, rng: Rng) -> Nuisances:
    """Omega turns between reversals."""
    return replace(drawn, motion=replace(drawn.motion, coils=False, turns=True, reversals=True))


def _two(drawn: Nuisances, rng: Rng) -> Nuisances:
    rig = replace(any_rig(2, rng), angles=(60.0, 110.0))
    return replace(drawn, rig=rig, optics=any_optics(2, rng))


def _four(drawn: Nuisances, rng: Rng) -> Nuisances:
    rig = replace(any_rig(4, rng), angles=(60.0, 110.0))
    return replace(drawn, rig=rig, optics=any_optics(4, rng))


def _rims(drawn: Nuisances, rng: Rng) -> Nuisances:
    """Bright or dark edges, a clear head, a grainy gut."""
    inside = replace(
        drawn.inside,
        rim=float(rng.choice([-1, 1]) * rng.uniform(0.5, 1.4)),
        granules=int(rng.integers(30, 90)),
        granule_density=float(rng.uniform(0.2, 0.6)),
    )
    return replace(drawn, inside=inside, body=replace(drawn.body, clear_head=float(rng.uniform(0.5, 0.85))))


def _blur(drawn: Nuisances, rng: Rng) -> Nuisances:
    return replace(drawn, optics=replace(drawn.optics, blur=tuple(between(rng, 3, 8) for _ in drawn.optics.blur)))


def _dirt(drawn: Nuisances, rng: Rng) -> Nuisances:
    medium = replace(
        drawn.medium,
        specks=int(rng.integers(50, 140)),
        near=int(rng.integers(6, 16)),
        bubbles=int(rng.integers(2, 9)),
        drifting=int(rng.integers(1, 7)),
        mottle=float(rng.uniform(0.005, 0.025)),
    )
    return replace(drawn, medium=medium)


def _gel(drawn: Nuisances, rng: Rng) -> Nuisances:
    """The gel drifts with all that it holds; something sticks to the worm."""
    medium = replace(
        drawn.medium,
        drift=float(rng.uniform(0.1, 0.4)),
        specks=int(rng.integers(10, 50)),
        drifting=int(rng.integers(1, 4)),
        mottle=float(rng.uniform(0.005, 0.025)),
    )
    return replace(drawn, medium=medium, inside=replace(drawn.inside, lumps=int(rng.integers(1, 3))))


def _still(drawn: Nuisances, rng: Rng) -> Nuisances:
    """Slow or at rest; what the empty scene looks like, a picture says."""
    motion = replace(drawn.motion, fastest=between(rng, 0.05, 0.6))
    return replace(drawn, motion=motion, sensor=replace(drawn.sensor, background=True))


def _video(drawn: Nuisances, rng: Rng) -> Nuisances:
    """A cheap camera: strong compression, flicker, fixed pattern, pictures that are missing."""
    sensor = replace(
        drawn.sensor,
        compression=int(rng.integers(22, 32)),
        flicker=float(rng.uniform(0.005, 0.03)),
        pattern=float(rng.uniform(0.004, 0.012)),
        dropped=0.05 if sometimes(rng, 0.5) else 0.0,
    )
    return replace(drawn, sensor=sensor)


def _off(drawn: Nuisances, rng: Rng) -> Nuisances:
    """Cameras that are not where the calibration says, do not hold still and do not stand at right angles."""
    rig = replace(
        drawn.rig,
        calibration_error=float(rng.uniform(5, 10)),
        vibration=float(rng.uniform(0.5, 1.6)),
        angles=(60.0, 110.0),
    )
    return replace(drawn, rig=rig)


def _big(drawn: Nuisances, rng: Rng) -> Nuisances:
    length = between(rng, 1.1, 1.5)
    body = replace(drawn.body, length=length, radius=0.5 * length * rng.uniform(0.05, 0.08))
    scale = between(rng, 190, 250)
    scales = tuple(float(np.clip(scale * between(rng, 0.9, 1.1), 60, 260)) for _ in drawn.rig.px_per_mm)
    return replace(drawn, body=body, rig=replace(drawn.rig, px_per_mm=scales))


FAMILIES: dict[str, Callable[[Nuisances, Rng], Nuisances]] = {
    "plain": _plain,
    "fibre": _fibre,
    "larva": _larva,
    "veil": _veil,
    "coil": _coil,
    "faint": _faint,
    "fast": _fast,
    "two": _two,
    "leave": _leave,
    "rims": _rims,
    "still": _still,
    "dirt": _dirt,
    "blur": _blur,
    "off": _off,
    "video": _video,
    "big": _big,
    "turn": _turn,
    "gel": _gel,
    "four": _four,
}
"""In the order of their rotation."""
