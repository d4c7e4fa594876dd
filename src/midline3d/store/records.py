"""What a result is made of: one frame's numbers, and what is known about the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Status = Literal["ok", "suspect", "lost", "unreadable"]
STATUSES: tuple[str, ...] = get_args(Status)

Reason = Literal[
    "",
    "not located",
    "unreadable",
    "light unexplained",
    "drawn without light",
    "through itself",
    "uncertain",
    "view ignored",
    "length",
    "look",
    "jump",
    "directions disagree",
    "border",
    "outside",
    "no fit",
    "marked bad",
]
REASONS: dict[str, str] = {
    "": "nothing speaks against the frame",
    "not located": "the animal was not found in the pictures, so that nothing was fitted",
    "unreadable": "a camera's picture is missing, broken or black",
    "light unexplained": "light that belongs to the animal is not drawn by the midline",
    "drawn without light": "the midline is drawn where the pictures show no light",
    "through itself": "a part of the midline runs inside another part of the same body, as no animal can",
    "uncertain": "the pictures leave open where the midline or an end lies, or speak against parts of it: see doubt",
    "view ignored": "the fit draws next to nothing in one of the views",
    "length": "the length is not this animal's",
    "look": "width, brightness or sharpness are not this animal's",
    "jump": "posture or place change more from the neighbouring frame than an animal can",
    "directions disagree": "followed forwards and backwards in time, the frame comes out in two ways",
    "border": "the animal touches the border of its crop",
    "outside": "fewer than two cameras' pictures show a part of the animal, clear of their borders",
    "no fit": "no start led to a midline that fits the pictures",
    "marked bad": "somebody looked at the frame and found the midline wrong",
}
"""Why a frame has its status: every word there is, and what it means."""

Edited = Literal["automatic", "pinned", "refitted", "accepted"]
EDITS: dict[str, str] = {
    "automatic": "as the program found it",
    "pinned": "put in its place by hand: by pins, by exchanging head and tail, or by marking it bad",
    "refitted": "fitted again from a neighbour that was put in its place by hand",
    "accepted": "looked at and found right",
}
"""What people did to a frame."""

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
    "explained": ("camera",),
    "unexplained": ("camera",),
    "unbacked": ("camera",),
    "beyond": ("end",),
    "sigma_across": ("keypoint",),
    "sigma_along": ("keypoint",),
    "doubt": (),
}
"""Dimensions of a variable of real numbers in one frame's record; terms of the loss are scalars like `loss`."""


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
    reason: Reason = ""
    """Why the status is what it is."""
    explained: Array | None = None
    """(camera,) light that image and render have in common, as a share of what either has around the midline."""
    unexplained: Array | None = None
    """(camera,) light around the midline that nothing draws, in pieces of the body as long as it is wide."""
    unbacked: Array | None = None
    """(camera,) what is drawn where there is no light, in the same pieces."""
    beyond: Array | None = None
    """(end,) light beyond the head and the tail that nothing draws, of the body's brightness."""
    edited: Edited = "automatic"
    source_frame: NDArray[np.integer] | None = None
    """(camera,) the frame's number in each source, where that is not its number plus the camera's offset."""
    sigma_across: Array | None = None
    """(keypoint,) mm: standard deviation of the midline to its side."""
    sigma_along: Array | None = None
    """(keypoint,) mm: standard deviation along the midline."""
    doubt: float | None = None
    """Probability that the midline is more than 2 px off, or an end more than 8 px."""

    def arrays(self) -> dict[str, Array]:
        """Every real number under its name in the result."""
        named = {item.name: getattr(self, item.name) for item in fields(self) if item.name in DIMENSIONS}
        named |= {f"loss_{name}": value for name, value in self.loss_terms.items()}
        return {name: np.asarray(value) for name, value in named.items() if value is not None}

    def check(self, header: Header) -> None:
        """Complains where a word or a shape is not one of this result's."""
        for name, known in (("status", STATUSES), ("reason", REASONS), ("edited", EDITS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is '{getattr(self, name)}', but must be one of {', '.join(map(repr, known))}")
        sizes = header.sizes
        shapes = {name: values.shape for name, values in self.arrays().items()}
        if self.source_frame is not None:
            shapes["source_frame"] = np.shape(self.source_frame)
        for name, shape in shapes.items():
            dims = ("camera",) if name == "source_frame" else DIMENSIONS.get(name, ())
            expected = tuple(sizes[dim] for dim in dims)
            if shape != expected:
                raise ValueError(f"{name} has the shape {shape}, but this result's is {expected}")


@dataclass(frozen=True)
class Header:
    """What a run is. Two runs with the same header, whatever their attributes, continue one another."""

    frames: tuple[int, ...]
    """Indices, in the recording, of the frames to reconstruct."""
    fps: float
    cameras: tuple[str, ...]
    keypoints: int = 128
    settings: str = ""
    """The resolved settings, as TOML."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Every input by its name: what it says, or "sha256:" and a fingerprint of its content."""
    seed: int = 0
    device: str = "cpu"
    version: str = ""
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    """Anything else worth keeping with the result."""
    offsets: tuple[int, ...] = ()
    """Per camera: the number of its source's frame that is the recording's frame 0; empty where all are 0."""

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
            "end": 2,
        }

    @property
    def frame_bytes(self) -> int:
        """About what one frame takes on the disk, in its segment and in the finished file together."""
        sizes = self.sizes
        return 400 + 12 * sum(math.prod(sizes[dim] for dim in dims) for dims in DIMENSIONS.values())
