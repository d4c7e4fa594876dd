"""How the simulated worm moves: waves of bending run along it, and drag decides where that takes it.

The head lays a track of curvature, k(x), x in body lengths; the body follows it, K(s, t) = k(phi(t) - s), where the
clock phi runs forward, stands still or runs back (a pause, a reversal). Turns and coils are stretches of the track.
The motion through the medium is the one at which drag along and across the body (resistive force theory) adds up to no
force and no torque.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

SUBSTEPS = 4
"""Steps of the motion per video frame."""
TIGHTEST = 2 * np.pi * 2.2
"""Largest curvature, per body length: 2.2 full circles."""
CIRCLES = (1.35, 1.9)
"""Full circles that a coil makes of a body's length, from and to."""


@dataclass(frozen=True)
class Habit:
    """What a preset's worms tend to do."""

    coils: bool = False
    """Tight coils, one every two to three body lengths of track."""
    turns: bool = False
    """Omega-like turns."""
    pauses: bool = True
    """Short pauses and reversals."""
    depth: float = 0.3
    """Bending out of the plane of the wave, as a share of the wave's."""
    lift: float = 1.0
    """How far the turns of a coil are lifted off each other: 0 is a coil in a plane."""
    circles: tuple[float, float] = CIRCLES
    """Full circles that a coil makes of a body's length, from and to."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of track where the head bends one way instead of waving: a turn, or with torsion a coil."""

    start: float
    end: float
    curvature: float
    """Per body length."""
    torsion: float
    """Radians per body length: lifts the turns of a coil off each other."""
    angle: float

    def weight(self, x: Array) -> Array:
        edge = 0.07
        return 0.25 * (1 + np.tanh((x - self.start) / edge)) * (1 + np.tanh((self.end - x) / edge))

    def bend(self, x: Array) -> Array:
        turn = self.angle + self.torsion * (x - self.start)
        return self.curvature * np.stack([np.cos(turn), np.sin(turn)], -1)


@dataclass(frozen=True)
class Track:
    """k(x): curvature laid down by the head, in its parallel-transported frame, per body length."""

    wavelength: float
    amplitude: float
    depth: float
    phase: Array
    turning: CubicSpline
    stretches: tuple[Stretch, ...]

    def __call__(self, x: Array) -> Array:
        turn = 2 * np.pi * x / self.wavelength
        wave = self.amplitude * np.stack(
            [np.cos(turn + self.phase[0]), self.depth * np.cos(0.71 * turn + self.phase[1])], -1
        )
        bend = wave + self.turning(x)
        for stretch in self.stretches:
            if stretch.start - 1 > x.max() or stretch.end + 1 < x.min():
                continue
            weight = stretch.weight(x)[..., None]
            bend = (1 - weight) * bend + weight * stretch.bend(x)
        return bend


@dataclass(frozen=True)
class Swimmer:
    """All that decides one animal's motion."""

    track: Track
    clock: Array
    """(step,) phi, body lengths of track."""
    nod: tuple[float, float, float]
    """The nose's own sweeping: amplitude per body length, cycles per step, phase."""
    drag: float
    """Drag across the body over drag along it."""


def swimmer(habit: Habit, frames: int, fps: float, rng: np.random.Generator) -> Swimmer:
    """A random animal of that habit, for a recording of so many frames; `fps` are those of the worm's own time."""
    steps = (frames - 1) * SUBSTEPS + 1
    wavelength = rng.uniform(0.6, 0.85)
    speed = wavelength * rng.uniform(0.55, 1.0) / (fps * SUBSTEPS)
    clock = _clock(steps, speed, fps, habit.pauses, rng)
    reach = clock.max() + 3
    knots = np.arange(-3, reach + 2, 0.6)
    track = Track(
        wavelength=wavelength,
        amplitude=rng.uniform(0.75, 1.1) * 2 * np.pi / wavelength,
        depth=habit.depth * rng.uniform(0.6, 1.4),
        phase=rng.uniform(0, 2 * np.pi, 2),
        turning=CubicSpline(knots, rng.normal(0, 0.8, (len(knots), 2))),
        stretches=_stretches(habit, reach, rng),
    )
    nod = (rng.uniform(0.5, 3.0), rng.uniform(1.0, 2.0) / (fps * SUBSTEPS), rng.uniform(0, 2 * np.pi))
    return Swimmer(track, clock, nod, drag=rng.uniform(5, 12))


def swim(
    animal: Swimmer, length: float, room: float, nodes: int, rng: np.random.Generator, every: int = SUBSTEPS
) -> Array:
    """Midlines (frame, node, 3) in mm, head first; the animal turns back when it strays further than `room` mm.

    One midline for `every` so many steps: as it is, one a frame.
    """
    start = rng.uniform(-0.25, 0.25, 3) * room
    facing = Rotation.random(rng=rng).as_matrix()
    steering = _Steering(animal.clock)
    shape, frame = _shape(animal, 0, steering, nodes)
    start = start - (length * shape.mean(0)) @ facing.T
    curves = [start + length * shape @ facing.T]
    for step in range(1, len(animal.clock)):
        middle = start + length * facing @ shape.mean(0)
        aim = facing.T @ -middle / room * min(np.linalg.norm(middle) / room, 1.5)
        steering.lay(animal.clock[step], 4.0 * aim[1:])
        after, frame = _shape(animal, step, steering, nodes)
        turn, move = _drift(shape, after, frame[:, :, 0], animal.drag)
        start = start + length * facing @ move
        facing = facing @ Rotation.from_rotvec(turn).as_matrix()
        shape = after
        if step % every == 0:
            curves.append(start + length * shape @ facing.T)
    return np.stack(curves)


def clearance(curves: Array, radius: Array) -> float:
    """Smallest gap between parts of the body that are not neighbours, mm; negative where it passes through itself."""
    pick = np.linspace(0, curves.shape[1] - 1, 100).astype(int)
    curves, radius = curves[:, pick], radius[pick]
    way = np.linalg.norm(np.diff(curves[0], axis=0), axis=-1).sum() / 99
    apart = np.abs(pick[:, None] - pick[None]) * way * 99 / pick[-1] > 4.5 * radius.max()
    touch = (radius[:, None] + radius[None])[apart]
    return min(float((cdist(curve, curve)[apart] - touch).min()) for curve in curves)


class _Steering:
    """Track that the head bends towards the centre while it lays it; what is laid stays."""

    def __init__(self, clock: Array) -> None:
        self._x, self._bend, self._count = np.zeros(len(clock) + 1), np.zeros((len(clock) + 1, 2)), 2
        self._x[:2] = clock[0] - 10, clock[0]

    def lay(self, x: float, bend: Array) -> None:
        if x > self._x[self._count - 1]:
            self._x[self._count], self._bend[self._count] = x, bend
            self._count += 1

    def at(self, x: Array) -> Array:
        first, last = np.searchsorted(self._x[: self._count], [x.min(), x.max()])
        part = slice(max(first - 1, 0), min(last + 1, self._count))
        return np.stack([np.interp(x, self._x[part], self._bend[part, axis]) for axis in (0, 1)], -1)


def _clock(steps: int, speed: float, fps: float, pauses: bool, rng: np.random.Generator) -> Array:
    """phi at every step: forward runs with short pauses and reversals, smoothly joined."""
    wish = np.empty(0)
    second = fps * SUBSTEPS
    while len(wish) < steps:
        wish = np.append(wish, np.full(int(rng.uniform(0.5, 2.5) * second), 1.0))
        if pauses:
            wish = np.append(wish, np.full(int(rng.uniform(0.15, 0.35) * second), 0.15))
            if rng.random() < 0.5:
                wish = np.append(wish, np.full(int(rng.uniform(0.3, 0.8) * second), -0.9))
    kernel = np.hanning(int(0.25 * second) + 2)
    smooth = np.convolve(np.pad(wish, len(kernel), mode="edge"), kernel / kernel.sum(), "same")[len(kernel) :]
    return speed * np.cumsum(smooth[:steps])


def _stretches(habit: Habit, reach: float, rng: np.random.Generator) -> tuple[Stretch, ...]:
    """The turns and coils of a track; the first is on its way down the body when the recording starts."""
    found: list[Stretch] = []
    x = -rng.uniform(0.45, 0.7)
    while (habit.coils or habit.turns) and x < reach:
        sign, angle = rng.choice([-1.0, 1.0]), rng.uniform(0, 2 * np.pi)
        if habit.coils and (not habit.turns or rng.random() < 0.7):
            size, circles = rng.uniform(0.8, 1.2), rng.uniform(*habit.circles)
            found.append(Stretch(x, x + size, 2 * np.pi * circles, habit.lift * sign * rng.uniform(2.0, 3.5), angle))
        else:
            size = rng.uniform(0.45, 0.6)
            found.append(Stretch(x, x + size, rng.uniform(7.5, 9.5), sign * rng.uniform(0.3, 1.2), angle))
        x += size + rng.uniform(1.2, 2.0)
    return tuple(found)


def _shape(animal: Swimmer, step: int, steering: _Steering, nodes: int) -> tuple[Array, Array]:
    """Nodes (node, 3) in body lengths and frames (node, 3, 3) in the head's frame.

    A frame's columns are T, which points forward, M1 and M2.
    """
    s = np.linspace(0, 1, nodes)
    x = animal.clock[step] - s
    bend = (1 - 0.2 * s[:, None]) * animal.track(x) + steering.at(x)
    amplitude, frequency, phase = animal.nod
    bend[:, 0] += amplitude * np.exp(-((s / 0.12) ** 2)) * np.sin(2 * np.pi * frequency * step + phase)
    size = np.linalg.norm(bend, axis=-1, keepdims=True)
    bend = bend * np.minimum(1, TIGHTEST / np.maximum(size, 1e-9))
    ds = 1 / (nodes - 1)
    middle = 0.5 * (bend[1:] + bend[:-1])
    axis = np.stack([np.zeros(nodes - 1), -middle[:, 1], middle[:, 0]], -1)
    # Towards the tail x falls, hence the minus; the half step gives each segment its own direction.
    turns = Rotation.from_rotvec(-ds * axis).as_matrix()
    frames = np.concatenate([np.eye(3)[None], _running_product(turns)])
    halves = frames[:-1] @ Rotation.from_rotvec(-0.5 * ds * axis).as_matrix()
    positions = np.concatenate([np.zeros((1, 3)), np.cumsum(-ds * halves[:, :, 0], axis=0)])
    return positions, frames


def _running_product(turns: Array) -> Array:
    """turns[0], turns[0] turns[1], ...: by doubling, in log2 of the count of products."""
    product, stride = turns.copy(), 1
    while stride < len(product):
        product = np.concatenate([product[:stride], product[:-stride] @ product[stride:]])
        stride *= 2
    return product


def _drift(before: Array, after: Array, tangent: Array, drag: float) -> tuple[Array, Array]:
    """Turn (rotation vector) and move of the head's frame, in that frame, while the shape changes."""
    position, change = 0.5 * (before + after), after - before
    across = drag * np.eye(3) - (drag - 1) * tangent[:, :, None] * tangent[:, None]
    x, y, z = position.T
    zero = np.zeros_like(x)
    cross = np.stack([np.stack([zero, z, -y], -1), np.stack([-z, zero, x], -1), np.stack([y, -x, zero], -1)], -2)
    velocity = np.concatenate([np.broadcast_to(np.eye(3), (len(x), 3, 3)), cross], -1)
    resisted = np.einsum("nij,nik->njk", velocity, across)
    resistance = np.einsum("nji,nik->jk", resisted, velocity)
    # A straight body turns about its axis without drag; its thickness (0.03 of its length) resists.
    resistance[3:, 3:] += 0.03**2 * len(x) * np.eye(3)
    motion = -np.linalg.solve(resistance, np.einsum("nji,ni->j", resisted, change))
    return motion[3:], motion[:3]
