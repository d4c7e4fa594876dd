"""What lies about in the gel besides the worm: specks, and air bubbles, at rest or drifting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Image = NDArray[np.float32]


@dataclass(frozen=True)
class Clutter:
    """How much of it a preset has, per camera."""

    specks: int = 0
    """Anywhere in the picture."""
    near: int = 0
    """Specks within a worm's width or two of where the worm passes."""
    bubbles: int = 0
    drifting: int = 0
    """Specks and bubbles that move, starting near the worm."""


@dataclass(frozen=True)
class Thing:
    """A speck or a bubble in one view."""

    place: Array
    """(u, v) px in the first frame."""
    speed: Array
    """px per frame."""
    radius: float
    """px."""
    density: float
    """Optical density at its centre (speck) or of its rim (bubble)."""
    bubble: bool
    blur: float
    """px."""
    stretch: tuple[float, float] = field(default=(1.0, 0.0))
    """A speck's ratio of axes, and their angle."""

    def draw(self, density: Image, frame: int, shift: Array) -> None:
        """Adds the thing's optical density to a picture (size, size)."""
        size = len(density)
        centre = self.place + frame * self.speed + shift
        reach = int(np.ceil(1.5 * self.radius + 4 * self.blur + 2))
        low = np.floor(centre).astype(int) - reach
        u0, v0 = np.maximum(low, 0)
        u1, v1 = np.minimum(low + 2 * reach + 1, size)
        if u0 < u1 and v0 < v1:
            y, x = np.mgrid[v0:v1, u0:u1]
            density[v0:v1, u0:u1] += self._profile(x - centre[0], y - centre[1])

    def _profile(self, x: Array, y: Array) -> Array:
        if self.bubble:
            r = np.hypot(x, y)
            width = max(0.12 * self.radius, 0.8) + self.blur
            rim = np.exp(-(((r - self.radius) / width) ** 2))
            # Air in gel is a diverging lens: dark all round, a bright spot in the middle.
            return self.density * (rim - 0.35 * np.exp(-((r / (0.45 * self.radius + self.blur)) ** 2)))
        ratio, angle = self.stretch
        along = (x * np.cos(angle) + y * np.sin(angle)) / ratio**0.5
        across = (y * np.cos(angle) - x * np.sin(angle)) * ratio**0.5
        edge = (np.hypot(along, across) - self.radius) / (0.4 + self.blur)
        return self.density / (1 + np.exp(np.clip(edge, -30, 30)))


def scatter(clutter: Clutter, size: int, passage: Array, rng: np.random.Generator) -> tuple[list[Thing], list[Thing]]:
    """Things at rest and things that drift, in one view; `passage` (point, 2) is where the worm passes, px."""
    still = [_speck(rng.uniform(0, size, 2), rng) for _ in range(clutter.specks)]
    still += [_speck(_beside(passage, 14, rng), rng) for _ in range(clutter.near)]
    for index in range(clutter.bubbles):
        still.append(_bubble(passage, rng, size if index % 2 else 40))
    moving = []
    for index in range(clutter.drifting):
        thing = _bubble(passage, rng, 30) if index % 2 else _speck(_beside(passage, 30, rng), rng)
        moving.append(replace(thing, speed=rng.normal(0, 0.35, 2), radius=min(thing.radius, 9.0)))
    return still, moving


def still_picture(things: list[Thing], size: int, border: int) -> Image:
    """Optical density of things at rest, with a border so that it can be shifted."""
    density = np.zeros((size + 2 * border, size + 2 * border), np.float32)
    for thing in things:
        thing.draw(density, 0, np.full(2, float(border)))
    return density


def shifted(picture: Image, size: int, border: int, shift: Array) -> Image:
    """The middle (size, size) of a bordered picture, moved by a fraction of a pixel or some pixels."""
    move = np.array([[1, 0, shift[0] - border], [0, 1, shift[1] - border]])
    return np.asarray(cv2.warpAffine(picture, move, (size, size), flags=cv2.INTER_CUBIC), dtype=np.float32)


def _beside(passage: Array, spread: float, rng: np.random.Generator) -> Array:
    return passage[rng.integers(len(passage))] + rng.normal(0, spread, 2)


def _speck(place: Array, rng: np.random.Generator) -> Thing:
    return Thing(
        place=np.asarray(place, dtype=np.float64),
        speed=np.zeros(2),
        radius=float(np.exp(rng.normal(0.3, 0.6))),
        density=rng.uniform(0.1, 0.7),
        bubble=False,
        blur=float(rng.uniform(0.4, 2.0)),
        stretch=(rng.uniform(1, 2.5), rng.uniform(0, np.pi)),
    )


def _bubble(passage: Array, rng: np.random.Generator, spread: float) -> Thing:
    """A bubble beside the worm's passage: the worm cannot swim through it, and seldom behind it."""
    radius = rng.uniform(4, 14)
    for _ in range(50):
        place = _beside(passage, spread, rng)
        if np.linalg.norm(passage - place, axis=-1).min() > radius + 5:
            break
    return Thing(
        place=place,
        speed=np.zeros(2),
        radius=radius,
        density=rng.uniform(0.3, 0.8),
        bubble=True,
        blur=float(rng.uniform(0.3, 1.5)),
    )
