"""A simulated recording: an animal, a rig, a medium, and the pictures and the truth they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from midline3d.errors import InputError
from midline3d.synth.body import Body, Solid, fill
from midline3d.synth.dirt import Thing, scatter, shifted, still_picture
from midline3d.synth.families import FAMILIES
from midline3d.synth.gait import clearance, swim, swimmer
from midline3d.synth.levels import LADDERS
from midline3d.synth.optics import Lens, Sensor, uneven_light, worm_density
from midline3d.synth.presets import PRESETS, Preset
from midline3d.synth.rig import MOST_CAMERAS, Camera, make_rig, miscalibrate

Array = NDArray[np.float64]

FPS = 25.0
NODES = 401
"""Nodes of the midline that is moved and drawn."""
VARIED = "varied"
"""The preset that draws everything from the seed (`synth.varied`)."""
SMALLEST = 200
"""px, the least width of a varied recording's pictures."""
BORDER = 8
"""px around the still background, so that it can vibrate."""


@dataclass(frozen=True)
class Plan:
    """What to simulate."""

    preset: str = "swim"
    """One of `PRESETS`, or varied: then the seed decides magnification, cameras and much else."""
    frames: int = 40
    size: int = 512
    """Width and height of the pictures, px."""
    px_per_mm: float = 130.0
    cameras: int = 3
    seed: int = 0
    source: Literal["avi", "npy", "png"] = "avi"
    """How each camera's pictures are kept: a lossless video, a stack, or a folder of pictures."""
    family: str | None = None
    """Of a varied recording; as it is, the one that is this seed's turn."""
    nuisance: str | None = None
    """Of a varied recording that is easy but for this one (`synth.levels`), at `level`."""
    level: float | None = None

    def check(self) -> None:
        """Says in one sentence what cannot be simulated."""
        if self.preset not in (*PRESETS, VARIED):
            raise InputError(f"preset is '{self.preset}'; choose one of {', '.join((*PRESETS, VARIED))}")
        if self.family is not None and (self.preset != VARIED or self.family not in FAMILIES):
            raise InputError(
                f"family is '{self.family}' and preset '{self.preset}'; families are those of the preset {VARIED}: "
                + ", ".join(FAMILIES)
            )
        self._check_level()
        if self.source not in ("avi", "npy", "png"):
            raise InputError(f"source is '{self.source}'; choose avi, npy or png")
        if not 2 <= self.cameras <= MOST_CAMERAS:
            raise InputError(f"cameras is {self.cameras}; choose 2 to {MOST_CAMERAS}")
        if self.frames < 1:
            raise InputError(f"frames is {self.frames}; ask for one at least")
        if self.preset == VARIED:
            if self.size < SMALLEST:
                raise InputError(f"size is {self.size} px; a varied recording needs {SMALLEST} px or more")
            return
        if not self.px_per_mm > 0 or self.size < 2 * self.px_per_mm:
            raise InputError(
                f"size is {self.size} px at {self.px_per_mm:g} px/mm, less than two worms' lengths; "
                "give a larger size or a lower px_per_mm"
            )

    def _check_level(self) -> None:
        if self.nuisance is None and self.level is None:
            return
        if self.nuisance not in LADDERS or self.level is None:
            level = "none" if self.level is None else f"{self.level:g}"
            raise InputError(
                f"nuisance is '{self.nuisance}' and level {level}; give both, the nuisance one of {', '.join(LADDERS)}"
            )
        if self.preset != VARIED or self.family is not None:
            raise InputError(
                f"nuisance is '{self.nuisance}' and preset '{self.preset}'; "
                f"give it with the preset {VARIED} and without a family"
            )
        LADDERS[self.nuisance].check(self.nuisance, self.level)


@dataclass(frozen=True)
class View:
    """One camera with all that decides its pictures."""

    camera: Camera
    lens: Lens
    sensor: Sensor
    backdrop: NDArray[np.float32]
    """Optical density of what is at rest, with a border."""
    drifting: tuple[Thing, ...]
    vibration: Array
    """(frame, 2) px."""


@dataclass(frozen=True)
class Scene:
    """Everything that is known about a simulated recording."""

    plan: Plan
    body: Body
    solid: Solid
    midlines: Array
    """(frame, node, 3) mm, head first."""
    views: tuple[View, ...]
    calibration: tuple[Camera, ...]
    """The cameras as handed to the user, with their errors."""
    noise: tuple[int, ...]
    """Seeds of the frames' noise, so that any frame can be drawn by itself."""
    fps: float = FPS

    def picture(self, frame: int, view: int) -> NDArray[np.uint8]:
        """What one camera records in one frame."""
        own = self.views[view]
        shift = own.vibration[frame]
        density = shifted(own.backdrop, self.plan.size, BORDER, shift)
        for thing in own.drifting:
            thing.draw(density, frame, shift)
        density += worm_density(own.camera, own.lens, self.solid, self.midlines[frame], shift)
        rng = np.random.default_rng([self.noise[frame], view])
        return own.sensor.expose(density, 1 + 0.004 * float(rng.standard_normal()), rng)

    def pictures(self, view: int) -> Iterator[NDArray[np.uint8]]:
        """All frames of one camera, in turn."""
        return (self.picture(frame, view) for frame in range(self.plan.frames))


def make_scene(plan: Plan) -> Scene:
    """Draws a recording's animal, motion, rig and medium from its seed, for all presets but the varied one."""
    plan.check()
    preset = PRESETS[plan.preset]
    seeds = np.random.default_rng([plan.seed, list(PRESETS).index(plan.preset)]).spawn(5)
    body = Body.random(seeds[0])
    rig = make_rig(plan.cameras, plan.size, plan.px_per_mm, seeds[1])
    midlines = _motion(plan, preset, body, rig, seeds[2])
    # Slices a third of a pixel thick, a point or more for every pixel of their area: right to 0.002 in density.
    across = np.pi * (body.radius * plan.px_per_mm) ** 2
    solid = fill(body, slices=int(3 * body.length * plan.px_per_mm) + 1, points=max(192, 2 * int(0.75 * across)))
    views = tuple(
        _view(plan, preset, camera, midlines, rng) for camera, rng in zip(rig, seeds[3].spawn(len(rig)), strict=True)
    )
    wrong = miscalibrate(rig, preset.calibration_error, seeds[1])
    noise = tuple(int(number) for number in seeds[4].integers(2**62, size=plan.frames))
    return Scene(plan, body, solid, midlines, views, wrong, noise)


def _motion(plan: Plan, preset: Preset, body: Body, rig: tuple[Camera, ...], rng: np.random.Generator) -> Array:
    """Midlines that stay in every view and never pass through themselves."""
    room = 0.5 * plan.size / plan.px_per_mm - 0.4 * body.length
    radius = body.radius_at(np.linspace(0, 1, NODES))
    for trial in rng.spawn(40):
        animal = swimmer(preset.habit, plan.frames, FPS, trial)
        midlines = swim(animal, body.length, room, NODES, trial)
        edge = 12 + 1.5 * body.radius * plan.px_per_mm
        seen = np.stack([camera.project(midlines) for camera in rig])
        if seen.min() > edge and seen.max() < plan.size - 1 - edge and clearance(midlines, radius) > 0:
            return midlines
    raise InputError(
        f"frames is {plan.frames} and size {plan.size} px: the worm leaves the view; give a larger size or fewer frames"
    )


def _view(plan: Plan, preset: Preset, camera: Camera, midlines: Array, rng: np.random.Generator) -> View:
    """One camera's focus, light, dirt and shaking."""
    depth = camera.depth(midlines)
    focus = depth.mean() + rng.choice([-1, 1]) * rng.uniform(0.1, 0.45)
    magnification = plan.px_per_mm / 130.0
    farthest = np.abs(depth - focus).max()
    lens = Lens(
        focus=float(focus),
        sharpest=rng.uniform(0.7, 1.0),
        softening=preset.blur * magnification * rng.uniform(0.75, 1.0) / farthest,
    )
    sensor = Sensor(
        light=uneven_light(plan.size, preset.unevenness, rng),
        gain=0.01 * preset.noise**2 * rng.uniform(0.7, 1.3),
        read_noise=0.8 * preset.noise,
    )
    passage = camera.project(midlines[:, ::20]).reshape(-1, 2)
    still, moving = scatter(preset.clutter, plan.size, passage, rng)
    slow = gaussian_filter1d(rng.standard_normal((plan.frames + 40, 2)), 5, axis=0)[20:-20]
    slow *= 1 / np.sqrt(1 / (2 * np.sqrt(np.pi) * 5))  # back to unit variance
    vibration = preset.vibration * (0.8 * slow + 0.6 * rng.standard_normal((plan.frames, 2)))
    return View(camera, lens, sensor, still_picture(still, plan.size, BORDER), tuple(moving), vibration)
