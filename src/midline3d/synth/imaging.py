"""From particles to a picture: defocus as a disc or a Gaussian, widely scattered light, and the sensor's faults."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.synth.anatomy import Particles, Posture
from midline3d.synth.optics import paste, splat
from midline3d.synth.rig import Camera

Array = NDArray[np.float64]
Image = NDArray[np.float32]

COARSE = 4
"""Scattered light is worked out on pictures that are so many times smaller."""


@dataclass(frozen=True)
class Defocus:
    """Focus of one camera and the shape of its blur, fixed for a recording."""

    focus: float
    """Depth of the focal plane, mm."""
    sharpest: float
    """Standard deviation of the blur in focus, px."""
    softening: float
    """Growth of the blur with the distance from focus, px per mm."""
    most: float
    """px: what lies still farther away is blurred no more."""
    disc: bool

    def blur(self, depth: Array) -> Array:
        """Standard deviation of the blur at a depth (mm), px."""
        return np.minimum(np.hypot(self.sharpest, self.softening * (depth - self.focus)), self.most)

    def side(self, depth: Array) -> Array:
        """From -1 before the focal plane to 1 behind it."""
        return np.tanh(2 * (depth - self.focus) * self.softening)

    @property
    def levels(self) -> Array:
        """Blurs that are drawn; those between are mixed of two of them."""
        count = 2 + int(np.log(self.most / self.sharpest) / np.log(1.3))
        return np.geomspace(self.sharpest, self.most + 1e-6, count)

    def apply(self, drops: Image, level: float) -> Image:
        """A picture blurred by a standard deviation in px."""
        defocus = np.sqrt(max(level**2 - self.sharpest**2, 0.0))
        if self.disc and defocus > 0.3:
            spread = cv2.filter2D(drops, -1, _disc(2 * defocus), borderType=cv2.BORDER_CONSTANT)
            drops = np.asarray(spread, np.float32)
            level = self.sharpest
        return np.asarray(cv2.GaussianBlur(drops, (0, 0), float(level), borderType=cv2.BORDER_CONSTANT), np.float32)


@dataclass(frozen=True)
class Veil:
    """The wide part of a lens's point spread."""

    share: float
    kernel: Image
    """For pictures that are `COARSE` times smaller; adds up to one."""

    def apply(self, light: Image) -> Image:
        """The light with this share of it scattered."""
        if self.share == 0:
            return light
        small = cv2.resize(light, None, fx=1 / COARSE, fy=1 / COARSE, interpolation=cv2.INTER_AREA)
        wide = cv2.filter2D(small, -1, self.kernel, borderType=cv2.BORDER_REPLICATE)
        wide = cv2.resize(wide, light.shape[::-1], interpolation=cv2.INTER_LINEAR)
        return np.asarray((1 - self.share) * light + self.share * wide, dtype=np.float32)


@dataclass(frozen=True)
class Chip:
    """Light and faults of one sensor."""

    light: Image
    """(size, size) grey levels where nothing absorbs."""
    gain: float
    """The shot noise's variance is gain times the grey level."""
    read_noise: float
    """Grey levels."""
    sensitivity: Image
    """(size, size) around 1."""
    offset: Image
    """(1, size) grey levels, of every column."""

    def record(self, light: Image, rng: np.random.Generator) -> NDArray[np.uint8]:
        """An 8 bit picture of that light."""
        grey = light * self.sensitivity
        spread = np.sqrt(self.gain * grey + np.float32(self.read_noise**2))
        noisy = grey + self.offset + spread * rng.standard_normal(grey.shape, dtype=np.float32)
        return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def make_veil(share: float, reach: float, one_sided: bool, angle: float) -> Veil:
    """Scattered light that falls off over `reach` px, all round or to one side."""
    step = reach / COARSE
    half = int(np.ceil(4 * step)) + 1
    y, x = np.mgrid[-half : half + 1, -half : half + 1].astype(np.float64)
    kernel = np.exp(-np.hypot(x, y) / step)
    if one_sided:
        ahead = x * np.cos(angle) + y * np.sin(angle)
        kernel = kernel / (1 + np.exp(-4 * ahead / step))
    return Veil(share, (kernel / kernel.sum()).astype(np.float32))


def worm_density(camera: Camera, defocus: Defocus, body: Particles, pose: Posture, shift: Array, size: int) -> Image:
    """Optical density (size, size) of the body, the picture shifted by `shift` px.

    A slice is projected by its middle and its two normals: over a body's width every lens is linear.
    """
    middle, reach = pose.middle, 0.02
    axis = camera.project(pose.axis) + shift
    origin = camera.project(middle)
    sideways = [(camera.project(middle + reach * normal) - origin) / reach for normal in pose.normals]
    depth = camera.depth(middle)
    scale = camera.matrix[0, 0] * camera.matrix[1, 1] / depth**2
    place, (a, b) = body.slice, body.across.T
    points = axis[body.turn % len(axis), place] + a[:, None] * sideways[0][place] + b[:, None] * sideways[1][place]
    # A bent slab is thinner on the inside of the bend: without this the axis would look shifted towards it.
    share = 1 - a * pose.bend[0][place] - b * pose.bend[1][place]
    sign = 1 - body.turning * (1 - defocus.side(depth)[place])
    return blurred(points, body.mass * share * sign * scale[place], defocus.blur(depth)[place], defocus, size)


def blurred(points: Array, weight: Array, blur: Array, defocus: Defocus, size: int) -> Image:
    """Weights at points (u, v), each blurred by its own standard deviation, in a picture (size, size)."""
    levels = defocus.levels
    margin = int(np.ceil(4 * levels[-1])) + 2
    near = ((points > -margin) & (points < size + margin)).all(-1)
    points, weight, blur = points[near], weight[near], blur[near]
    if not len(points):
        return np.zeros((size, size), np.float32)
    low = np.floor(points.min(0)).astype(int) - margin
    shape = np.ceil(points.max(0)).astype(int) + margin + 1 - low
    total = np.zeros((shape[1], shape[0]), np.float32)
    place = np.clip(np.searchsorted(levels, blur, side="right") - 1, 0, len(levels) - 2)
    share = (blur**2 - levels[place] ** 2) / (levels[place + 1] ** 2 - levels[place] ** 2)
    for index, level in enumerate(levels):
        here, below = place == index, place == index - 1
        used = here | below
        if used.any():
            part = np.where(here[used], 1 - share[used], share[used])
            drops = splat(points[used] - low, weight[used] * part, total.shape)
            total += defocus.apply(drops, float(level))
    return paste(total, low, size)


def _disc(radius: float) -> Image:
    """An even disc with a soft edge, that adds up to one."""
    half = int(np.ceil(radius)) + 1
    y, x = np.mgrid[-half : half + 1, -half : half + 1]
    disc = np.clip(radius + 0.5 - np.hypot(x, y), 0, 1)
    return (disc / disc.sum()).astype(np.float32)
