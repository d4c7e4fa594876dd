"""The body of a varied recording as particles that absorb light: flesh, grains of the gut, bent light at the edges.

Every particle is fixed to the body: it lies at a slice, at a place in the slice's own plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from midline3d.synth.body import Body, arc_length, fill
from midline3d.synth.nuisances import Inside

Array = NDArray[np.float64]
MOST_POINTS = 130
"""Particles in one slice, at most."""


@dataclass(frozen=True)
class Particles:
    """What absorbs, or where it stands below zero, what adds light."""

    s: Array
    """(slice,) 0 at the head, 1 at the tail."""
    slice: NDArray[np.int64]
    """(particle,) which slice it lies in."""
    across: Array
    """(particle, 2) mm along the slice's two normals."""
    mass: Array
    """(particle,) absorption times volume, mm^2."""
    turning: Array
    """(particle,) share of the mass that changes sign with the side of focus."""
    turn: NDArray[np.int64]
    """(particle,) numbers that spread particles over the moments of an exposure; both of a pair have the same."""


@dataclass(frozen=True)
class Posture:
    """The body's slices in one frame."""

    axis: Array
    """(moment, slice, 3) mm, over the exposure."""
    normals: Array
    """(2, slice, 3)"""
    bend: Array
    """(2, slice) curvature along each normal, per mm."""

    @property
    def middle(self) -> Array:
        """(slice, 3) at the middle of the exposure."""
        return self.axis[len(self.axis) // 2]


def particles(body: Body, inside: Inside, px_per_mm: float, rng: np.random.Generator) -> Particles:
    """Fills a body for pictures of that magnification or a lower one: two slices a pixel."""
    slices = int(2 * body.length * px_per_mm) + 1
    points = int(np.clip(0.35 * np.pi * (body.radius * px_per_mm) ** 2, 24, MOST_POINTS))
    solid = fill(body, slices, points)
    half = solid.mass.shape[1] // 2
    turn = np.arange(slices)[:, None] + np.tile(np.arange(half), 2)
    index = np.broadcast_to(np.arange(slices)[:, None], solid.mass.shape)
    flesh = (index, solid.across, solid.mass, np.zeros_like(solid.mass), turn)
    parts = [
        flesh,
        _edges(body, inside, solid.s),
        _grains(body, inside, solid.s, rng),
        _lumps(body, inside, slices, rng),
    ]
    joined = [np.concatenate([np.reshape(part[k], (-1, 2) if k == 1 else -1) for part in parts]) for k in range(5)]
    index, across, mass, turning, turn = joined
    return Particles(solid.s, index.astype(np.int64), across, mass, turning, turn.astype(np.int64))


def posture(curves: Array, normals: Array, s: Array) -> Posture:
    """The slices of a body along midlines (moment, node, 3), with the normals (2, node, 3) of the middle one."""
    middle = curves[len(curves) // 2]
    way = np.linspace(0, 1, curves.shape[1])
    axis = CubicSpline(way, curves, axis=1)(s)
    spline = CubicSpline(way, middle)
    tangent = spline(s, 1)
    tangent /= np.linalg.norm(tangent, axis=-1, keepdims=True)
    first = CubicSpline(way, normals[0])(s)
    first -= tangent * (first * tangent).sum(-1, keepdims=True)
    first /= np.linalg.norm(first, axis=-1, keepdims=True)
    both = np.stack([first, np.cross(tangent, first)])
    bend = spline(s, 2) / arc_length(middle)[-1] ** 2
    return Posture(axis, both, (both * bend).sum(-1))


def carried_normals(curves: Array) -> Array:
    """(2, frame, node, 3) normals that turn as little as they can, along the body and, at the head, over the frames."""
    tangent = np.gradient(curves, axis=1)
    tangent /= np.linalg.norm(tangent, axis=-1, keepdims=True)
    first = np.empty_like(curves)
    normal = np.cross(tangent[0, 0], np.eye(3)[np.abs(tangent[0, 0]).argmin()])
    for frame in range(len(curves)):
        normal = _across(normal, tangent[frame, 0])
        first[frame, 0] = normal
    for node in range(1, curves.shape[1]):
        first[:, node] = _across(first[:, node - 1], tangent[:, node])
    return np.stack([first, np.cross(tangent, first)])


def _across(normal: Array, tangent: Array) -> Array:
    normal = normal - tangent * (normal * tangent).sum(-1, keepdims=True)
    return normal / np.linalg.norm(normal, axis=-1, keepdims=True)


Part = tuple[NDArray[Any], Array, Array, Array, NDArray[Any]]


def _edges(body: Body, inside: Inside, s: Array) -> Part:
    """Two shells of opposite sign: light that the edge has bent is missing on one side and too much on the other."""
    count = 14
    radius = body.radius_at(s)
    angle = 2 * np.pi * (np.arange(count) + 0.5) / count + 2.4 * np.arange(len(s))[:, None]
    ring = np.stack([np.cos(angle), np.sin(angle)], -1) * radius[:, None, None]
    depth = 2 * body.radius * body.absorption
    mass = 0.9 * inside.rim * depth * radius * body.length / len(s) / count
    mass = np.broadcast_to(mass[:, None], angle.shape)
    across = np.concatenate([0.86 * ring, 1.12 * ring], 1)
    index = np.broadcast_to(np.arange(len(s))[:, None], (len(s), 2 * count))
    turn = np.arange(len(s))[:, None] + np.tile(np.arange(count) % (count // 2), 2)
    both = np.concatenate([mass, -mass], 1)
    return index, across, both, np.full(both.shape, inside.rim_turns), turn


def _grains(body: Body, inside: Inside, s: Array, rng: np.random.Generator) -> Part:
    """Dark grains of the gut."""
    places = rng.uniform(0.2, 0.85, inside.granules)
    radius = body.radius_at(places)
    centre = radius[:, None] * 0.6 * _in_disc(inside.granules, rng)
    size = radius * rng.uniform(0.12, 0.35, inside.granules)
    depth = 2 * body.radius * body.absorption * inside.granule_density * rng.uniform(0.5, 1.5, inside.granules)
    return _clouds(body, len(s), places, centre, size, depth, rng)


def _lumps(body: Body, inside: Inside, slices: int, rng: np.random.Generator) -> Part:
    """Debris at the surface."""
    places = rng.uniform(0.05, 0.95, inside.lumps)
    radius = np.maximum(body.radius_at(places), 0.3 * body.radius)
    angle = rng.uniform(0, 2 * np.pi, inside.lumps)
    centre = (1.25 * radius)[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    size = body.radius * rng.uniform(0.3, 0.6, inside.lumps)
    depth = 2 * body.radius * body.absorption * rng.uniform(0.3, 0.9, inside.lumps)
    return _clouds(body, slices, places, centre, size, depth, rng)


def _clouds(
    body: Body, slices: int, places: Array, centre: Array, size: Array, depth: Array, rng: np.random.Generator
) -> Part:
    """Round clouds of particles, of a standard deviation (mm) and an optical density at their middle."""
    count = 120
    spread = rng.standard_normal((len(places), count, 3))
    along = places[:, None] + size[:, None] * spread[..., 0] / body.length
    index = np.clip(along * slices, 0, slices - 1).astype(np.int64)
    across = centre[:, None] + size[:, None, None] * spread[..., 1:]
    mass = np.broadcast_to((depth * 2 * np.pi * size**2 / count)[:, None], index.shape)
    turn = np.broadcast_to(np.arange(count), index.shape)
    return index, across, mass, np.zeros_like(mass), turn


def _in_disc(count: int, rng: np.random.Generator) -> Array:
    angle, level = rng.uniform(0, 2 * np.pi, count), np.sqrt(rng.uniform(0, 1, count))
    return level[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
