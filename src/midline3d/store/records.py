"""What a result is made of: one frame's numbers, and what is known about the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Status = Literal["ok", "suspect", "lost", "unreadable"]
STATUSES: tuple[str, ...] = get_args(Status)

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "position": ("keypoint", "space"),
    "confidence": ("keypoint",),
    "projection": ("camera", "keypoint", "image"),
    "curvature": ("keypoint", "bishop"),
    "length": (),
    "sigma": ("camera",),
    "iota": ("camera",),
    "rho": ("camera",),
    "defocus": ("camera",),
    "shift": ("axis",),
    "loss": (),
}
"""Dimensions of a variable in one frame's record; terms of the loss are scalars like `loss`."""


@dataclass(frozen=True)
class FrameResult:
    """One frame. What a lost or unreadable frame does not have is None and becomes NaN."""

    status: Status
    position: Array | None = None
    """(keypoint, 3) mm, head first."""
    confidence: Array | None = None
    """(keypoint,) the score profile."""
    projection: Array | None = None
    """(camera, keypoint, 2) px of the full camera frame, shifts included."""
    curvature: Array | None = None
    """(keypoint, 2) K, per body length."""
    length: float | None = None
    """mm."""
    sigma: Array | None = None
    """(camera,) px."""
    iota: Array | None = None
    rho: Array | None = None
    defocus: Array | None = None
    """(camera,) px of blur per mm of depth."""
    shift: Array | None = None
    """(axis,) px."""
    loss: float | None = None
    loss_terms: Mapping[str, float] = field(default_factory=dict)
    """Each term by its name, `pixels` for `loss_pixels`."""
    steps: int = 0

    def arrays(self) -> dict[str, Array]:
        """Every number under its name in the result."""
        named = {item.name: getattr(self, item.name) for item in fields(self) if item.name in DIMENSIONS}
        named |= {f"loss_{name}": value for name, value in self.loss_terms.items()}
        return {name: np.asarray(value) for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class Header:
    """What a run is. Two runs with the same header, but for frames, device and version, continue one another."""

    frames: tuple[int, ...]
    """Indices, in the recording, of the frames to reconstruct."""
    fps: float
    cameras: tuple[str, ...]
    keypoints: int = 128
    settings: str = ""
    """The resolved settings, as TOML."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Fingerprint of every input, by its name."""
    seed: int = 0
    device: str = "cpu"
    version: str = ""
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    """Anything else worth keeping with the result."""

    @property
    def sizes(self) -> dict[str, int]:
        """Length of every dimension but time."""
        count = len(self.cameras)
        # Relative shifts are what 2C image coordinates can do beyond the animal's own three translations.
        return {
            "camera": count,
            "keypoint": self.keypoints,
            "space": 3,
            "image": 2,
            "bishop": 2,
            "axis": 2 * count - 3,
        }
