"""A varied recording: animal, rig, optics, sensor and medium of its own for every seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from midline3d.synth.anatomy import Particles, carried_normals, particles, posture
from midline3d.synth.body import Body
from midline3d.synth.families import draw_nuisances
from midline3d.synth.gel import Layers, make_gel, make_layers, shifted_layer
from midline3d.synth.imaging import Chip, Defocus, Veil, make_veil, worm_density
from midline3d.synth.levels import draw_level
from midline3d.synth.nuisances import Nuisances
from midline3d.synth.optics import uneven_light
from midline3d.synth.rig import Camera, miscalibrate
from midline3d.synth.scene import Plan
from midline3d.synth.stage import Passage, stage

Array = NDArray[np.float64]
Image = NDArray[np.float32]


@dataclass(frozen=True)
class VariedView:
    """One camera with all that decides its pictures."""

    camera: Camera
    defocus: Defocus
    veil: Veil
    chip: Chip
    layers: Layers
    vibration: Array
    """(frame, 2) px."""
    gel: Array
    """(frame, 2) px by which the gel has moved in this view."""
    dropped: NDArray[np.bool_]
    """(frame,) pictures that come black."""


@dataclass(frozen=True)
class VariedScene:
    """Everything that is known about a varied recording."""

    plan: Plan
    drawn: Nuisances
    body: Body
    particles: Particles
    passage: Passage
    views: tuple[VariedView, ...]
    calibration: tuple[Camera, ...]
    """The cameras as handed to the user, with their errors."""
    noise: tuple[int, ...]
    fps: float

    @cached_property
    def midlines(self) -> Array:
        """(frame, node, 3) mm, head first."""
        return self.passage.midlines

    @cached_property
    def _normals(self) -> Array:
        return carried_normals(self.midlines)

    def light(self, frame: int, view: int, worm: bool = True) -> Image:
        """Grey levels without noise or flicker, with the worm or without it."""
        own, size = self.views[view], self.plan.size
        shift = own.vibration[frame]
        density = shifted_layer(own.layers.window, size, shift)
        density = density + shifted_layer(own.layers.gel, size, shift + own.gel[frame])
        for thing in own.layers.loose:
            thing.draw(density, frame, shift)
        if worm:
            density = density + self._worm(frame, view)
        return own.veil.apply(own.chip.light * np.exp(-density))

    def picture(self, frame: int, view: int) -> NDArray[np.uint8]:
        """What one camera records in one frame."""
        own, rng = self.views[view], np.random.default_rng([self.noise[frame], view])
        flicker = 1 + self.drawn.sensor.flicker * float(rng.standard_normal())
        if own.dropped[frame]:
            flicker = 0.01
        return own.chip.record(np.float32(flicker) * self.light(frame, view), rng)

    def pictures(self, view: int) -> Iterator[NDArray[np.uint8]]:
        """All frames of one camera, in turn."""
        return (self.picture(frame, view) for frame in range(self.plan.frames))

    def background(self, view: int) -> NDArray[np.uint8]:
        """The empty scene, as the lab has taken it: the mean of some frames, in slightly other light."""
        own, rng = self.views[view], np.random.default_rng([self.noise[0], 99, view])
        quiet = replace(own.chip, gain=own.chip.gain / 20, read_noise=own.chip.read_noise / 20**0.5)
        return quiet.record(np.float32(1 + 0.01 * rng.standard_normal()) * self.light(0, view, worm=False), rng)

    def contrast(self, view: int) -> float:
        """Grey levels by which the body, blurred and veiled, is darker along its middle; the median of some frames."""
        found = []
        for frame in np.linspace(0, self.plan.frames - 1, 5).astype(int):
            line = self.views[view].camera.project(self.midlines[frame, 80:321:8]) + self.views[view].vibration[frame]
            column, row = np.rint(line).astype(int).T
            inside = (np.minimum(column, row) >= 0) & (np.maximum(column, row) < self.plan.size)
            if inside.any():
                loss = self.light(int(frame), view, worm=False) - self.light(int(frame), view)
                found.append(float(loss[row[inside], column[inside]].mean()))
        return float(np.median(found)) if found else 0.0

    def _worm(self, frame: int, view: int) -> Image:
        sensor, fastest = self.drawn.sensor, self.drawn.motion.fastest
        moments = 2 * int(np.clip(sensor.exposure * fastest / 1.4, 0, 5)) + 1
        times = frame + sensor.exposure * ((np.arange(moments) + 0.5) / moments - 0.5)
        curves = np.stack([self.passage.at(time) for time in times])
        pose = posture(curves, self._normals[:, frame], self.particles.s)
        own = self.views[view]
        return worm_density(own.camera, own.defocus, self.particles, pose, own.vibration[frame], self.plan.size)


def make_varied_scene(plan: Plan) -> VariedScene:
    """Draws a recording's nuisances, and all that they leave open, from its seed."""
    plan.check()
    if plan.nuisance is None or plan.level is None:
        drawn = draw_nuisances(plan.seed, plan.family, plan.size)
    else:
        drawn = draw_level(plan.seed, plan.nuisance, plan.level)
    seeds = np.random.default_rng([plan.seed, 78]).spawn(6)
    passage, rig = stage(drawn, plan.frames, plan.size, seeds[0])
    depth = -float(np.log1p(-drawn.optics.contrast / drawn.optics.light))
    body = replace(drawn.body, absorption=depth / (2 * drawn.body.radius))
    scale = max(float(camera.matrix[0, 0] / camera.translation[2]) for camera in rig)
    solid = particles(body, drawn.inside, scale, seeds[1])
    gel = make_gel(drawn.medium, passage.midlines, depth, seeds[2])
    dropped = _dropped(drawn.sensor.dropped, plan.frames, len(rig), seeds[3])
    views = []
    for index, (camera, rng) in enumerate(zip(rig, seeds[4].spawn(len(rig)), strict=True)):
        defocus = _defocus(drawn, camera, passage.midlines, index)
        layers = make_layers(camera, defocus, drawn.medium, gel, passage.midlines, depth, rng)
        veil = make_veil(
            drawn.optics.veil[index],
            drawn.optics.veil_reach[index],
            drawn.optics.veil_side[index],
            rng.uniform(0, 2 * np.pi),
        )
        drift = camera.project(passage.gel) - camera.project(np.zeros(3))
        vibration = drawn.rig.vibration * _vibration(plan.frames, rng)
        chip = _chip(drawn, plan.size, rng)
        views.append(VariedView(camera, defocus, veil, chip, layers, vibration, drift, dropped[:, index]))
    wrong = miscalibrate(rig, drawn.rig.calibration_error, seeds[5], drawn.rig.warp)
    noise = tuple(int(number) for number in seeds[3].integers(2**62, size=plan.frames))
    fps = float(np.clip(np.rint(passage.tempo), 2, 200))
    return VariedScene(plan, drawn, body, solid, passage, tuple(views), wrong, noise, fps)


def _defocus(drawn: Nuisances, camera: Camera, midlines: Array, view: int) -> Defocus:
    depth = camera.depth(midlines)
    optics = drawn.optics
    half = 0.5 * float(np.ptp(depth)) + drawn.body.radius
    focus = 0.5 * float(depth.min() + depth.max()) + optics.focus[view] * half
    sharpest = optics.sharpest[view]
    most = max(optics.blur[view], sharpest * 1.2)
    softening = float(np.sqrt(most**2 - sharpest**2) / np.abs(depth - focus).max())
    # Fibres and bubbles may lie farther from focus than the worm ever does.
    return Defocus(focus, sharpest, softening, 2.0 * most, optics.disc[view])


def _chip(drawn: Nuisances, size: int, rng: np.random.Generator) -> Chip:
    sensor, optics = drawn.sensor, drawn.optics
    light = uneven_light(size, optics.unevenness, rng)
    light *= np.float32(optics.light / light.mean())
    return Chip(
        light=np.minimum(light, 245),
        gain=sensor.shot * sensor.noise**2 / optics.light,
        read_noise=float(np.sqrt(1 - sensor.shot) * sensor.noise),
        sensitivity=1 + np.float32(sensor.pattern) * rng.standard_normal((size, size), dtype=np.float32),
        offset=np.float32(100 * sensor.pattern) * rng.standard_normal((1, size), dtype=np.float32),
    )


def _vibration(frames: int, rng: np.random.Generator) -> Array:
    """(frame, 2) of unit variance: a slow sway and a tremble."""
    slow = gaussian_filter1d(rng.standard_normal((frames + 40, 2)), 5, axis=0)[20:-20]
    slow *= np.sqrt(2 * np.sqrt(np.pi) * 5)
    return 0.8 * slow + 0.6 * rng.standard_normal((frames, 2))


def _dropped(share: float, frames: int, cameras: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """(frame, camera) pictures that come black; the first never does."""
    lost = np.zeros((frames, cameras), dtype=bool)
    for frame in 1 + rng.permutation(frames - 1)[: round(share * frames)] if frames > 1 else ():
        lost[frame, rng.integers(cameras)] = True
    return lost
