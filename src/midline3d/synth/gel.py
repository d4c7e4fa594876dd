"""What a varied recording holds besides the worm: fibres and bubbles in the gel, scratches and specks on the glass."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from midline3d.synth.dirt import Clutter, Thing, scatter
from midline3d.synth.imaging import Defocus, blurred
from midline3d.synth.nuisances import Medium
from midline3d.synth.rig import Camera

Array = NDArray[np.float64]
Image = NDArray[np.float32]

BORDER = 40
"""px around the layers, so that they can move."""


@dataclass(frozen=True)
class Fibre:
    """A thin line in the gel."""

    points: Array
    """(point, 3) mm, evenly spaced."""
    density: float
    """Optical density times width, px."""


@dataclass(frozen=True)
class Bubble:
    centre: Array
    """mm."""
    radius: float
    """mm."""
    density: float


@dataclass(frozen=True)
class Gel:
    """What lies in the gel, at places that all views agree on."""

    fibres: tuple[Fibre, ...]
    bubbles: tuple[Bubble, ...]


@dataclass(frozen=True)
class Layers:
    """One view's static background, in optical density, with a border."""

    window: Image
    """Moves with the camera's shaking alone."""
    gel: Image
    """Moves with the gel as well."""
    loose: tuple[Thing, ...]
    """What drifts by itself."""


def make_gel(medium: Medium, midlines: Array, depth: float, rng: np.random.Generator) -> Gel:
    """Fibres and bubbles beside the animal's way (frame, node, 3); `depth` is the body's optical density."""
    way = midlines[:, ::20].reshape(-1, 3)
    length = float(np.linalg.norm(np.diff(midlines[0], axis=0), axis=-1).sum())
    fibres = tuple(_fibre(way, length, depth, rng) for _ in range(medium.fibres))
    return Gel(fibres, tuple(_bubble(way, length, depth, rng) for _ in range(medium.bubbles)))


def make_layers(
    camera: Camera, defocus: Defocus, medium: Medium, gel: Gel, midlines: Array, depth: float, rng: np.random.Generator
) -> Layers:
    """One view's static background."""
    size = camera.size
    passage = camera.project(midlines[:, ::20]).reshape(-1, 2)
    still, loose = scatter(Clutter(medium.specks, medium.near, 0, medium.drifting), size, passage, rng)
    # Dirt is as dark against the gel as bodies are in the same light, or darker.
    fading = min(1.0, 0.3 + depth)
    still, loose = [[replace(one, density=fading * one.density) for one in some] for some in (still, loose)]
    window, in_gel = (np.zeros((size + 2 * BORDER, size + 2 * BORDER), np.float32) for _ in range(2))
    border = np.full(2, float(BORDER))
    for index, thing in enumerate(still):
        thing.draw(in_gel if index % 2 else window, 0, border)
    for bubble in gel.bubbles:
        _as_thing(bubble, camera, defocus).draw(in_gel, 0, border)
    for fibre in gel.fibres:
        in_gel += _drawn(fibre, camera, defocus)
    for _ in range(medium.scratches):
        window += _scratch(size, depth, rng)
    in_gel += _mottle(len(in_gel), medium.mottle, rng)
    return Layers(window, in_gel, tuple(loose))


def shifted_layer(layer: Image, size: int, shift: Array) -> Image:
    """The middle (size, size) of a bordered layer, moved by `shift` px."""
    move = np.array([[1, 0, shift[0] - BORDER], [0, 1, shift[1] - BORDER]])
    flags = cv2.INTER_CUBIC
    return np.asarray(cv2.warpAffine(layer, move, (size, size), flags=flags, borderMode=cv2.BORDER_REPLICATE))


def _fibre(way: Array, length: float, depth: float, rng: np.random.Generator) -> Fibre:
    """A curved line through a place beside the animal's way."""
    middle = way[rng.integers(len(way))] + rng.normal(0, 0.2 * length, 3)
    reach = length * rng.uniform(0.5, 2.5)
    along = rng.standard_normal(3)
    knots = np.linspace(-0.5, 0.5, 6)[:, None] * reach * along / np.linalg.norm(along)
    knots = middle + knots + rng.normal(0, rng.uniform(0.01, 0.09) * reach, (6, 3))
    points = CubicSpline(np.linspace(0, 1, 6), knots)(np.linspace(0, 1, 2000))
    return Fibre(points, density=depth * rng.uniform(0.3, 1.6))


def _bubble(way: Array, length: float, depth: float, rng: np.random.Generator) -> Bubble:
    radius = length * float(np.exp(rng.uniform(np.log(0.02), np.log(0.12))))
    for _ in range(50):
        centre = way[rng.integers(len(way))] + rng.normal(0, 0.5 * length, 3)
        if np.linalg.norm(way - centre, axis=-1).min() > radius + 0.06 * length:
            break
    return Bubble(centre, radius, density=float(np.clip(depth * rng.uniform(0.8, 2.0), 0.1, 0.9)))


def _as_thing(bubble: Bubble, camera: Camera, defocus: Defocus) -> Thing:
    depth = camera.depth(bubble.centre)
    return Thing(
        place=camera.project(bubble.centre),
        speed=np.zeros(2),
        radius=float(bubble.radius * camera.matrix[0, 0] / depth),
        density=bubble.density,
        bubble=True,
        blur=float(defocus.blur(np.asarray(depth))),
    )


def _drawn(fibre: Fibre, camera: Camera, defocus: Defocus) -> Image:
    seen = camera.project(fibre.points)
    step = np.linalg.norm(np.gradient(seen, axis=0), axis=-1)
    # Optics resolve no fibre: it is as wide as its blur, and never paler than light's way along it makes it.
    return blurred(
        seen + BORDER, fibre.density * step, defocus.blur(camera.depth(fibre.points)), defocus, camera.size + 2 * BORDER
    )


def _scratch(size: int, depth: float, rng: np.random.Generator) -> Image:
    """A thin line on the glass, dark or bright, in this view alone."""
    middle, angle = rng.uniform(0, size, 2), rng.uniform(0, np.pi)
    reach = size * rng.uniform(0.1, 0.7)
    knots = middle + np.linspace(-0.5, 0.5, 5)[:, None] * reach * np.array([np.cos(angle), np.sin(angle)])
    knots = knots + rng.normal(0, 0.05 * reach, (5, 2))
    points = CubicSpline(np.linspace(0, 1, 5), knots)(np.linspace(0, 1, 1500))
    sharp = float(rng.uniform(0.6, 2.5))
    lens = Defocus(focus=0.0, sharpest=sharp, softening=0.0, most=sharp + 0.3, disc=False)
    step = np.linalg.norm(np.gradient(points, axis=0), axis=-1)
    sign = -1.0 if rng.random() < 0.3 else 1.0
    weight = sign * depth * rng.uniform(0.3, 1.2) * step
    return blurred(points + BORDER, weight, np.full(len(points), sharp), lens, size + 2 * BORDER)


def _mottle(size: int, amount: float, rng: np.random.Generator) -> Image:
    """The gel's own unevenness: fine grain over broad clouds."""
    total = np.zeros((size, size), np.float32)
    for blur in (2.5, 8.0):
        grain = cv2.GaussianBlur(rng.standard_normal((size, size), dtype=np.float32), (0, 0), blur)
        total += grain / grain.std()
    return (amount / 2**0.5 * total).astype(np.float32)
