"""What a camera's pictures are, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.reading import shortened

Picture = NDArray[Any]
"""(height, width) grey, uint8 or uint16."""

SMALLEST, LARGEST = 16, 16384
"""px: sides of a picture in which a worm can be looked for."""


class Source(Protocol):
    """A camera's pictures in order."""

    path: Path
    count: int
    """Frames by their time stamps or numbers, dropped ones included."""
    size: tuple[int, int]
    """Width and height, px."""
    depth: int
    """Bytes a pixel."""
    rate: float | None
    """Frames a second by the time stamps; None where there are none."""
    missing: tuple[int, ...]
    """Frames known to be dropped before anything is decoded."""
    jitter: float
    """Spread of the time stamps' steps, in frames: 0 for a steady clock."""

    def frames(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Picture | None]]:
        """Every frame of a range in order, dropped ones as None."""

    def read(self, indices: Sequence[int]) -> Iterator[tuple[int, Picture | None]]:
        """Some frames, by rising index, without decoding more of the rest than needed."""

    def near(self, index: int, reach: int) -> int:
        """A frame not farther than `reach` from `index` that is cheap to read."""

    def fault(self, index: int) -> str:
        """What is wrong with a frame that is None or black, as a clause that names its file where it has one."""


def exists(path: Path) -> bool:
    """Whether something lies there; a name that the system does not take is reported in one sentence."""
    try:
        return path.exists()
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise InputError(f"{shortened(path)}: is no name of a file ({reason}); correct it") from None


def checked_size(path: Path, picture: Picture) -> tuple[int, int]:
    """Width and height of a source's pictures, if a worm can be seen in so many px."""
    height, width = picture.shape
    if not (min(height, width) >= SMALLEST and max(height, width) <= LARGEST):
        raise InputError(
            f"{path}: its pictures are {width} x {height} px, but {SMALLEST} to {LARGEST} px are possible on a side; "
            "is it the right file?"
        )
    return width, height


def fault_of(picture: Picture | None, size: tuple[int, int], name: str) -> str:
    """What is wrong with a picture that none of the others' size (px) could be made of, or a black one."""
    if picture is None:
        return f"{name} cannot be decoded"
    height, width = picture.shape
    if (width, height) != size:
        return f"{name} is {width} x {height} px, but the first picture is {size[0]} x {size[1]} px"
    return f"{name} is black" if not picture.any() else f"{name} can be read now, but could not before"


def grey(picture: NDArray) -> Picture:
    """A picture of any integer type, with or without colour, as 8 or 16 bit grey."""
    if picture.ndim == 3:
        # The plain mean of the colours: a grey worm filmed by a colour camera has no colour to weigh.
        colours = picture[..., :3] if picture.shape[-1] > 2 else picture[..., :1]
        picture = colours.mean(-1).astype(picture.dtype) if colours.shape[-1] > 1 else colours[..., 0]
    if picture.ndim != 2:
        raise ValueError(f"a picture of shape {picture.shape}")
    if picture.dtype == np.bool_:
        return picture.astype(np.uint8) * np.uint8(255)
    if picture.dtype in (np.uint8, np.uint16):
        return picture
    return np.clip(picture, 0, 65535).astype(np.uint16)
