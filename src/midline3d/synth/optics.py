"""From absorbing points to a camera's picture: optical density, blur that grows away from focus, light, sensor."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.synth.body import Solid
from midline3d.synth.rig import Camera

Array = NDArray[np.float64]
Image = NDArray[np.float32]


@dataclass(frozen=True)
class Lens:
    """Focus of one camera, fixed for a recording."""

    focus: float
    """Depth of the focal plane, mm."""
    sharpest: float
    """Standard deviation of the blur in focus, px."""
    softening: float
    """Growth of the blur with the distance from focus, px per mm."""

    def blur(self, depth: Array) -> Array:
        """Standard deviation of the blur at a depth (mm), px."""
        return np.hypot(self.sharpest, self.softening * (depth - self.focus))


@dataclass(frozen=True)
class Sensor:
    """Light and noise of one camera."""

    light: Image
    """(size, size) grey levels where nothing absorbs."""
    gain: float
    """Grey levels per photo-electron: the shot noise's variance is gain times the grey level."""
    read_noise: float
    """Grey levels."""

    def expose(self, density: Image, flicker: float, rng: np.random.Generator) -> NDArray[np.uint8]:
        """An 8 bit picture of a scene of this optical density (natural logarithm)."""
        grey = self.light * np.float32(flicker) * np.exp(-density)
        spread = np.sqrt(self.gain * grey + self.read_noise**2)
        noisy = grey + spread * rng.standard_normal(grey.shape, dtype=np.float32)
        return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def uneven_light(size: int, unevenness: float, rng: np.random.Generator) -> Image:
    """Illumination with a hot spot and a slope; `unevenness` is the share lost towards the edges."""
    y, x = np.mgrid[:size, :size].astype(np.float32) / size - 0.5
    x0, y0 = rng.uniform(-0.2, 0.2, 2)
    slope = rng.normal(0, 0.4, 2)
    spot = np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / 0.5)
    shape = 1 - unevenness * (1 - spot) + unevenness * 0.5 * (slope[0] * x + slope[1] * y)
    return (rng.uniform(170, 210) * shape).astype(np.float32)


def worm_density(camera: Camera, lens: Lens, solid: Solid, curve: Array, shift: Array) -> Image:
    """Optical density (size, size) of the body along a midline (node, 3), the picture shifted by `shift` px.

    Every point's mass falls on its four nearest pixels, and on the two nearest of a few levels of blur, so that
    each place of the body is blurred by its own amount (in variance, exactly).
    """
    points, mass = solid.place(curve)
    image = camera.project(points) + shift
    axis = points.mean(1)
    blur = lens.blur(camera.depth(axis))
    scale = camera.matrix[0, 0] * camera.matrix[1, 1] / camera.depth(axis) ** 2
    density = mass * scale[:, None]  # mm^2 over the area of a pixel in mm^2
    levels = np.linspace(blur.min(), blur.max() + 1e-6, max(2, int(np.ceil((blur.max() - blur.min()) / 0.4)) + 1))
    margin = int(np.ceil(4 * levels[-1])) + 2
    low = np.floor(image.min((0, 1))).astype(int) - margin
    shape = np.ceil(image.max((0, 1))).astype(int) + margin + 1 - low
    total = np.zeros((shape[1], shape[0]), np.float32)
    place = np.searchsorted(levels, blur, side="right") - 1
    share = (blur**2 - levels[place] ** 2) / (levels[place + 1] ** 2 - levels[place] ** 2)
    for index, level in enumerate(levels):
        weight = np.where(place == index, 1 - share, 0) + np.where(place == index - 1, share, 0)
        used = weight > 0
        if used.any():
            drops = splat(image[used] - low, density[used] * weight[used, None], total.shape)
            total += cv2.GaussianBlur(drops, (0, 0), float(level), borderType=cv2.BORDER_CONSTANT)
    return paste(total, low, camera.size)


def splat(points: Array, weight: Array, shape: tuple[int, ...]) -> Image:
    """Sum of the weights, each shared among the four pixels around its point (u, v)."""
    u, v = points[..., 0].ravel(), points[..., 1].ravel()
    weight = weight.ravel()
    column, row = np.floor(u).astype(np.int64), np.floor(v).astype(np.int64)
    right, down = u - column, v - row
    corner = row * shape[1] + column
    width = shape[1]
    total = np.bincount(corner, weight * (1 - right) * (1 - down), shape[0] * width)
    total += np.bincount(corner + 1, weight * right * (1 - down), shape[0] * width)
    total += np.bincount(corner + width, weight * (1 - right) * down, shape[0] * width)
    total += np.bincount(corner + width + 1, weight * right * down, shape[0] * width)
    return total.reshape(shape).astype(np.float32)


def paste(window: Image, low: NDArray[np.int64], size: int) -> Image:
    """The window, whose first pixel lies at `low` (u, v), in a picture of (size, size)."""
    picture = np.zeros((size, size), np.float32)
    u, v = low
    height, width = window.shape
    inside = window[max(0, -v) : max(0, min(height, size - v)), max(0, -u) : max(0, min(width, size - u))]
    if inside.size:
        picture[max(0, v) : max(0, v) + inside.shape[0], max(0, u) : max(0, u) + inside.shape[1]] = inside
    return picture
