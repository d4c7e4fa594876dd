"""The simulated worm as a solid: radius and absorption along it, and points that fill it.

The solid is sampled, not drawn: every point carries an absorbing volume, so that the points falling on a pixel add up
to the line integral of absorption through the body, whatever its direction and however often it crosses itself.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Body:
    """One animal: it stays the same for a whole recording. s runs from 0 at the head to 1 at the tail."""

    length: float
    """mm."""
    radius: float
    """mm, of the middle."""
    head_share: float
    """Share of the length over which the radius falls to zero at the head."""
    tail_share: float
    head_power: float
    """Roundness of the taper: 1 is a cone, 2 an ellipse."""
    tail_power: float
    belly: float
    """How much wider than `radius` the body is at its widest, as a share."""
    absorption: float
    """Per mm of light's way through the body, natural logarithm."""
    clear_head: float
    """Share of the absorption that is lost at the very tip of the head."""
    clear_tail: float
    clear_pharynx: float
    dark_gut: float
    texture: tuple[float, ...]
    """Amplitudes of slow variations of absorption along the gut."""
    rim: float
    """Extra absorption at the surface against the axis, as a share: what refraction looks like."""
    tail_tip: float = 0.0
    """Radius of the round stub that the tail ends in, as a share of the middle's; 0 where it ends in a point."""
    tail_thread: float = 0.0
    """Share of the length for which the tail goes on behind its taper, as thick as its stub."""

    @staticmethod
    def random(rng: np.random.Generator) -> Body:
        """An animal of its own for every seed, unlike at its two ends."""
        return Body(
            length=rng.uniform(0.9, 1.2),
            radius=rng.uniform(0.030, 0.038),
            head_share=rng.uniform(0.12, 0.20),
            tail_share=rng.uniform(0.22, 0.35),
            head_power=rng.uniform(1.4, 2.4),
            tail_power=rng.uniform(1.0, 1.7),
            belly=rng.uniform(0.0, 0.10),
            absorption=rng.uniform(8.0, 13.0),
            clear_head=rng.uniform(0.1, 0.45),
            clear_tail=rng.uniform(0.1, 0.45),
            clear_pharynx=rng.uniform(0.05, 0.25),
            dark_gut=rng.uniform(0.0, 0.25),
            texture=tuple(rng.normal(0, 0.03, 4).tolist()),
            rim=rng.uniform(0.0, 0.5),
        )

    def radius_at(self, s: Array) -> Array:
        """Radius in mm; zero at both tips."""
        head = _taper(s / self.head_share, self.head_power)
        tail = _taper((1 - s - self.tail_thread) / self.tail_share, self.tail_power)
        if self.tail_tip:
            stub = self.tail_tip * _taper((1 - s) * self.length / (self.tail_tip * self.radius), 2.0)
            tail = np.maximum(tail, stub)
        return self.radius * (1 + self.belly * np.exp(-(((s - 0.55) / 0.15) ** 2))) * head * tail

    def absorption_at(self, s: Array) -> Array:
        """Absorption per mm on the axis."""
        tips = 1 - self.clear_head * np.exp(-s / 0.05) - self.clear_tail * np.exp(-(1 - s) / 0.07)
        pharynx = 1 - self.clear_pharynx * np.exp(-(((s - 0.10) / 0.06) ** 2))
        inside = _step((s - 0.2) / 0.03) * _step((0.85 - s) / 0.04)
        waves = sum(a * np.sin(2 * np.pi * (k + 2) * s + k) for k, a in enumerate(self.texture))
        return self.absorption * tips * pharynx * (1 + inside * (self.dark_gut + waves))

    def describe(self) -> dict[str, float | list[float]]:
        """The parameters, for the truth file."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Solid:
    """Points filling the body, slice by slice, in the coordinates of each slice's own frame."""

    s: Array
    """(slice,) middle of each slice."""
    across: Array
    """(slice, point, 2) position in the slice's plane, mm, along the two normals."""
    mass: Array
    """(slice, point) absorption times volume of a straight body, mm^2: over a pixel's area it is optical density."""

    def place(self, curve: Array) -> tuple[Array, Array]:
        """World positions (slice, point, 3) in mm, and absorbing masses, of the body along a midline (node, 3)."""
        axis, tangent, bend = _axis_at(curve, self.s)
        first, second = _normals(tangent)
        offset = self.across[..., :1] * first[:, None] + self.across[..., 1:] * second[:, None]
        # A bent slab is thinner on the inside of the bend: without this the axis would look shifted towards it.
        share = 1 - np.einsum("spi,si->sp", offset, bend)
        return axis[:, None] + offset, self.mass * share


def fill(body: Body, slices: int, points: int) -> Solid:
    """Fills a body with `slices` discs of `points` points, in pairs that lie opposite each other.

    Pairs keep every slice's centre of mass on the axis exactly; the discs turn by the golden angle from one to the
    next, so that neighbours fill each other's gaps.
    """
    s = (np.arange(slices) + 0.5) / slices
    half = points // 2
    level = np.sqrt((np.arange(half) + 0.5) / half)
    golden = np.pi * (3 - np.sqrt(5))
    angle = golden * (np.arange(half)[None] + half * np.arange(slices)[:, None])
    disc = level[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    disc = np.concatenate([disc, -disc], axis=1)
    radius = body.radius_at(s)
    rim = 1 + body.rim * np.concatenate([level, level]) ** 4
    volume = np.pi * radius**2 * (body.length / slices) / (2 * half)
    return Solid(s, disc * radius[:, None, None], (body.absorption_at(s) * volume)[:, None] * rim)


def resample(curve: Array, count: int) -> Array:
    """`count` points equally spaced in arc length along a fine polyline (node, 3), both ends included."""
    way = arc_length(curve)
    return CubicSpline(way, curve)(np.linspace(0, way[-1], count))


def arc_length(curve: Array) -> Array:
    """Arc length from the first node to every node, mm."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=-1))])


def _axis_at(curve: Array, s: Array) -> tuple[Array, Array, Array]:
    """Points, unit tangents and curvature vectors (per mm, towards the inside of the bend) of a midline at s."""
    way = arc_length(curve)
    spline = CubicSpline(way, curve)
    tangent = spline(s * way[-1], 1)
    return spline(s * way[-1]), tangent / np.linalg.norm(tangent, axis=-1, keepdims=True), spline(s * way[-1], 2)


def _normals(tangent: Array) -> tuple[Array, Array]:
    """Two unit normals of every tangent. They may turn from slice to slice: a disc has no direction."""
    helper = np.eye(3)[np.abs(tangent).argmin(-1)]
    first = np.cross(tangent, helper)
    first /= np.linalg.norm(first, axis=-1, keepdims=True)
    return first, np.cross(tangent, first)


def _taper(u: Array, power: float) -> Array:
    u = np.clip(u, 0, 1)
    return (1 - (1 - u) ** power) ** (1 / power)


def _step(u: Array) -> Array:
    return 0.5 * (1 + np.tanh(u))
