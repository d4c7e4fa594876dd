"""The signal: the worm bright on 0, 0 to 255, whatever the camera's light, depth and the worm's polarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from midline3d.recording.background.light import Field
from midline3d.recording.background.ranks import median
from midline3d.recording.sources import Picture

Side = Literal["dark", "bright"]
DARKEST = 0.004
"""Of white: no darker background is divided by. It is one grey level of 255, which noise alone makes."""
OPAQUE = 250.0
"""Of 255: a signal that counts as taking all light but this rest, whose logarithm noise would decide on."""


@dataclass(frozen=True)
class Tone:
    """How one camera's grey values become signal."""

    side: Side
    """Whether the worm is darker or brighter than what is behind it."""
    full: float
    """The grey value that counts as white; for bright worms it becomes 255."""


def signal(picture: Picture | Field, background: Field, tone: Tone, light: float = 1.0) -> Field:
    """Signal of a picture, noise around 0 included, not cut.

    A dark worm's is the share of light it takes, so that uneven light divides out; a bright worm's is what it adds.
    light: brightness of this frame against the background's.
    """
    # In place: asking the system for another whole picture takes longer than the arithmetic.
    if tone.side == "bright":
        values = background * np.float32(light)
        np.subtract(picture, values, out=values)
        return np.multiply(values, np.float32(255 / tone.full), out=values)
    darkest = np.float32(DARKEST * tone.full)
    # Mostly nothing is as dark, which is seen in a fourth of the time that the greater of both takes.
    behind = background if background.min() >= darkest else np.maximum(background, darkest)
    values = np.divide(np.float32(255 / light), behind)
    np.multiply(picture, values, out=values)
    return np.subtract(255, values, out=values)


def brightness(picture: Field, background: Field, tone: Tone) -> float:
    """How bright a frame's light is against its background's: the median ratio, which neither worm nor dirt moves."""
    if tone.side == "bright":
        return 1.0  # a dark field has no light of its own to compare
    ratio = np.maximum(background[::6, ::6], np.float32(DARKEST * tone.full))
    np.divide(picture[::6, ::6], ratio, out=ratio)
    return float(median(ratio)) or 1.0


def density_of(values: Field) -> Field:
    """Optical density of a signal: what masses are summed from, for two things one behind the other add up in it."""
    return -np.log1p(-np.clip(values, 0, OPAQUE) / 255)


def white(pictures: list[Picture]) -> float:
    """The grey value that counts as white for these pictures: the depth they seem to have been taken with."""
    if not pictures or pictures[0].dtype == np.uint8:
        return 255.0
    top = max(int(picture.max()) for picture in pictures)
    return float(next(limit for limit in (255, 1023, 4095, 16383, 65535) if top <= limit))


def as_bytes(values: Field) -> NDArray[np.uint8]:
    """Signal as stored: rounded, negative noise cut at 0."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
