"""The rig of a varied recording, the animal's way through it, and where each camera looks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from midline3d.synth.gait import SUBSTEPS, Habit, clearance, swim, swimmer
from midline3d.synth.nuisances import Motion, Nuisances, Rig
from midline3d.synth.rig import Camera

Array = NDArray[np.float64]

NODES = 401
TRIALS = 10
"""Animals tried until one does not pass through itself."""
LEAVING = 13.0
"""px a frame at which an animal leaves, at most."""
SLOSH = 150
"""Frames in which the gel goes to and fro: it never leaves the picture."""


@dataclass(frozen=True)
class Passage:
    """The animal's way, with a frame more than the recording has at either end."""

    curves: Array
    """(step, node, 3) mm, head first, `SUBSTEPS` steps a frame."""
    gel: Array
    """(frame, 3) mm by which the gel has moved; the curves move with it."""
    tempo: float
    """Frames in one second of the worm's time."""

    def at(self, time: float) -> Array:
        """Midline (node, 3) at a time in frames, which may be a fraction."""
        step = (time + 1) * SUBSTEPS
        low = int(np.clip(np.floor(step), 0, len(self.curves) - 2))
        share = step - low
        return (1 - share) * self.curves[low] + share * self.curves[low + 1]

    @property
    def midlines(self) -> Array:
        """(frame, node, 3) at every frame's own moment."""
        return self.curves[SUBSTEPS:-SUBSTEPS:SUBSTEPS]


def stage(drawn: Nuisances, frames: int, size: int, rng: np.random.Generator) -> tuple[Passage, tuple[Camera, ...]]:
    """The animal's way, and cameras that have it in view: all the time, but for those that it is to leave."""
    cameras = _cameras(drawn.rig, size, rng)
    scale = max(drawn.rig.px_per_mm)
    room = max(0.5 * size / scale - 0.4 * drawn.body.length, 0.4 * drawn.body.length)
    curves, tempo = _swum(drawn, frames + 2, room, rng)
    gel = _slosh(drawn.medium.drift / scale, frames + 2, rng)
    steps = np.arange(len(curves)) / SUBSTEPS
    curves = curves + np.stack([np.interp(steps, np.arange(frames + 2), axis) for axis in gel.T], -1)[:, None]
    edge = 10 + 2 * drawn.body.radius * scale
    if drawn.motion.leaves == "never":
        cameras = tuple(_looking(camera, curves[::2], edge, rng) for camera in cameras)
    else:
        curves, cameras = _leaving(curves, cameras, drawn.motion, edge, rng)
    return Passage(curves, gel[1:-1], tempo), cameras


def _cameras(rig: Rig, size: int, rng: np.random.Generator) -> tuple[Camera, ...]:
    """Cameras round the origin, at angles between the least and the greatest, rolled at will."""
    found = []
    for index, (axis, scale, depth) in enumerate(
        zip(_axes(len(rig.distance), rig.angles, rng), rig.px_per_mm, rig.distance, strict=True)
    ):
        right = np.cross(axis, rng.standard_normal(3))
        right /= np.linalg.norm(right)
        rotation = np.array([right, np.cross(axis, right), axis])
        focal = scale * depth
        centre = (size - 1) / 2 + rng.uniform(-8, 8, 2)
        matrix = np.array([[focal, 0, centre[0]], [0, focal * rng.uniform(0.999, 1.001), centre[1]], [0, 0, 1]])
        edge = size / 2 / focal
        radial, tangential = rng.normal(0, 1.0) / (focal * edge**3), rng.normal(0, 0.2, 2) / (focal * edge**2)
        translation = np.array([*rng.normal(0, 0.02, 2), depth])
        distortions = np.array([radial, 0, *tangential, 0])
        found.append(Camera(f"cam{index}", size, matrix, distortions, rotation, translation))
    return tuple(found)


def _axes(count: int, angles: tuple[float, float], rng: np.random.Generator) -> Array:
    """Unit vectors (camera, 3), any two of them between the angles apart; the first camera may look anywhere."""
    high, low = np.cos(np.radians(angles))
    while True:
        tries = rng.standard_normal((400, 3))
        tries /= np.linalg.norm(tries, axis=-1, keepdims=True)
        found = tries[:1]
        for axis in tries[1:]:
            if (found @ axis <= high).all() and (found @ axis >= low).all():
                found = np.concatenate([found, axis[None]])
            if len(found) == count:
                return found


def _swum(drawn: Nuisances, frames: int, room: float, rng: np.random.Generator) -> tuple[Array, float]:
    """Midlines of an animal as fast as asked for, and the frames in a second of its time."""
    motion, body = drawn.motion, drawn.body
    wish = motion.fastest / max(drawn.rig.px_per_mm)
    radius = body.radius_at(np.linspace(0, 1, NODES))
    habit = Habit(motion.coils, motion.turns, motion.reversals, motion.depth, circles=motion.circles)

    def swim_with(seed: int, lift: float, tempo: float) -> Array:
        own = np.random.default_rng(seed)
        animal = swimmer(replace(habit, lift=lift), frames, tempo, own)
        return swim(animal, body.length, room, NODES, own, every=1)

    best = (-np.inf, np.empty(0), 0.0)
    for seed in rng.integers(2**62, size=TRIALS):
        tempo = 25.0
        for _ in range(2):
            curves = swim_with(int(seed), 1.0, tempo)
            tempo *= fastest(curves) / wish
        curves = swim_with(int(seed), 1.0, tempo)
        gap = clearance(curves[::2], radius)
        if gap > 0 and motion.contact:
            curves = _touching(lambda lift, seed=int(seed), tempo=tempo: swim_with(seed, lift, tempo), curves, radius)
        best = max(best, (gap, curves, tempo), key=lambda trial: trial[0])
        if gap > 0:
            break
    return best[1], best[2]


def fastest(curves: Array) -> float:
    """mm by which the fastest point moves between two frames."""
    return float(np.linalg.norm(curves[SUBSTEPS:] - curves[:-SUBSTEPS], axis=-1).max())


def _touching(swim_with, curves: Array, radius: Array) -> Array:  # type: ignore[no-untyped-def]
    """The flattest coil of that animal that does not pass through itself: it lies on itself."""
    low, high = 0.0, 1.0
    for _ in range(5):
        lift = 0.5 * (low + high)
        trial = swim_with(lift)
        if clearance(trial[::2], radius) > 0:
            high, curves = lift, trial
        else:
            low = lift
    return curves


def _slosh(speed: float, frames: int, rng: np.random.Generator) -> Array:
    """(frame, 3) the gel's displacement in mm, zero in the first frame."""
    time = 2 * np.pi * (np.arange(frames) / SLOSH + rng.random())
    way = speed * SLOSH / (2 * np.pi) * np.sin(time)
    return (way - way[0])[:, None] * _unit(rng)


def _looking(camera: Camera, curves: Array, edge: float, rng: np.random.Generator) -> Camera:
    """A camera that has all of the way in its picture, anywhere in it; a lower magnification where it has no room."""
    low, high = _extent(camera, curves)
    tight = float(((high - low) / (camera.size - 1 - 2 * edge)).max())
    if tight > 1:
        camera = _magnified(camera, 0.98 / tight)
        low, high = _extent(camera, curves)
    free = camera.size - 1 - 2 * edge - (high - low)
    return _moved(camera, edge + rng.uniform(0.1, 0.9, 2) * free - low)


def _leaving(
    curves: Array, cameras: tuple[Camera, ...], motion: Motion, edge: float, rng: np.random.Generator
) -> tuple[Array, tuple[Camera, ...]]:
    """A way that leads out of one view, or of all, and back."""
    chosen = range(len(cameras)) if motion.leaves == "all" else [int(rng.integers(len(cameras)))]
    tries = np.array([_unit(rng) for _ in range(200)])
    # Across the pictures that it is to leave, as far as one direction can be.
    seen = np.array([np.abs(tries @ cameras[index].rotation[:2].T).max(-1) for index in chosen])
    direction = tries[seen.min(0).argmax()]
    gap = rng.uniform(2, 20)
    needed = []
    for index in chosen:
        camera, (low, high) = cameras[index], _extent(cameras[index], curves)
        axis, way = _exit(camera, direction)
        needed.append(((high - low)[axis] + gap + edge + 8) / abs(way[axis]))
    scale = max(float(camera.matrix[0, 0] / camera.translation[2]) for camera in cameras)
    rise = 1.5 * max(needed) * scale / LEAVING / (len(curves) / SUBSTEPS)
    away = (
        _bump(len(curves), float(np.clip(rise, 0.1, 0.42)), motion.gone, rng)[:, None, None] * max(needed) * direction
    )
    found = []
    for index, camera in enumerate(cameras):
        if index not in chosen:
            found.append(_looking(camera, curves + away, edge, rng))
            continue
        centred = _looking(camera, curves, edge, rng)
        low, high = _extent(centred, curves)
        axis, way = _exit(camera, direction)
        shift = np.zeros(2)
        shift[axis] = camera.size - 1 - edge - gap - high[axis] if way[axis] > 0 else edge + gap - low[axis]
        found.append(_moved(centred, shift))
    return curves + away, tuple(found)


def _exit(camera: Camera, direction: Array) -> tuple[int, Array]:
    """The picture's axis along which a direction leads out, and px per mm along both."""
    way = camera.project(0.1 * direction) - camera.project(np.zeros(3))
    return int(np.abs(way).argmax()), 10 * way


def _bump(steps: int, rise: float, gone: float, rng: np.random.Generator) -> Array:
    """(step,) from 0 to 1 and back, each in the share `rise` of the time, 1 for the share `gone` of it."""
    start = rise + rng.uniform(0.3, 0.7) * max(1 - gone - 2 * rise, 0.0)
    time = np.linspace(0, 1, steps)
    up = np.clip((time - start + rise) / rise, 0, 1)
    down = np.clip((start + gone + rise - time) / rise, 0, 1)
    level = np.minimum(up, down)
    return level**2 * (3 - 2 * level)


def _extent(camera: Camera, curves: Array) -> tuple[Array, Array]:
    seen = camera.project(np.ascontiguousarray(curves[:, ::10])).reshape(-1, 2)
    return seen.min(0), seen.max(0)


def _magnified(camera: Camera, factor: float) -> Camera:
    matrix = camera.matrix.copy()
    matrix[:2, :2] *= factor
    return replace(camera, matrix=matrix)


def _moved(camera: Camera, shift: Array) -> Camera:
    matrix = camera.matrix.copy()
    matrix[:2, 2] += shift
    return replace(camera, matrix=matrix)


def _unit(rng: np.random.Generator) -> Array:
    way = rng.standard_normal(3)
    return way / np.linalg.norm(way)
