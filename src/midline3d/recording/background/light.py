"""What a camera sees without the worm: robust in time, and filled from the surrounding light where the worm never left.

A plain median over frames fails on short recordings of a slow worm: the worm covers the same pixels in most of them
and burns in. So the worm is masked in every sampled frame, the median taken over what is left, and what is left
nowhere is filled from the smooth light around it. Static dirt, seen uncovered, stays in the background.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.recording.sources import Picture, grey

Field = NDArray[Any]
"""(height, width) float32."""
Mask = NDArray[np.bool_]
CHANGED = (64.0, 0.5)
"""Grey levels in a dark field, and share of the light elsewhere, by which one part of the lamp's light may change
against another: more is dirt that has moved."""
DETAIL = 256
"""px of the shorter side at which light is smoothed: nothing finer than that is light."""
WIDENED = (1, 3, 9)
"""Times its reach from which unknown pixels are filled, one after another: a large hole's middle has nothing near."""
SORTED = 8192
"""Pixels of a stack sorted at once: all layers of so many lie in a core's own memory."""
RELIT = 0.25
"""Of the picture's shorter side: the width over which a change of the light is smooth, and no animal is."""


@dataclass(frozen=True, eq=False)
class Background:
    """One camera's background at some moments of the recording, linear between them."""

    moments: NDArray[np.float64]
    """Frames."""
    pictures: Field
    """(moment, height, width), perhaps still on disk."""

    def at(self, frame: float, part: Callable[[Field], Field] = np.asarray) -> Field:
        """The background at one frame, or the part of it that `part` takes out."""
        if len(self.pictures) == 1 or frame <= self.moments[0]:
            return part(self.pictures[0])
        if frame >= self.moments[-1]:
            return part(self.pictures[-1])
        after = int(np.searchsorted(self.moments, frame))
        share = float((frame - self.moments[after - 1]) / (self.moments[after] - self.moments[after - 1]))
        return cv2.addWeighted(part(self.pictures[after - 1]), 1 - share, part(self.pictures[after]), share, 0)


def read_background(path: Path, size: tuple[int, int]) -> Field:
    """A camera's own background picture."""
    try:
        content = np.fromfile(path, np.uint8)
        picture = cv2.imdecode(content, cv2.IMREAD_UNCHANGED) if content.size else None
    except (OSError, cv2.error):
        picture = None
    if picture is None:
        raise InputError(f"{path}: the background cannot be read as a picture; is it whole?")
    if picture.dtype.kind != "u":
        raise InputError(f"{path}: the background holds {picture.dtype}; save it in 8 or 16 bit, as the images are")
    field = grey(picture).astype(np.float32)
    if field.shape[::-1] != size:
        raise InputError(
            f"{path}: the background is {field.shape[1]} x {field.shape[0]} px, but the camera's images are "
            f"{size[0]} x {size[1]}; take it with the same camera settings"
        )
    if not field.any():
        raise InputError(f"{path}: the background is black all over; take it with the light on, or leave it out")
    return field


def relit(own: Field, shown: Field, factor: int, additive: bool) -> Field:
    """A lab's own background picture in the light of the recording: exposure, gain and lamp may have been others.

    shown: the recording's own median picture, shrunken by `factor`. Only what is smooth is taken from it, so that what
    stands still, a worm too, comes from the lab's picture alone. additive: for dark fields, without light to divide by.
    """
    small = shrink(own, factor)
    change = shown - small if additive else shown / np.maximum(small, np.float32(1.0))
    middle, spread = float(np.median(change)), CHANGED[0] if additive else CHANGED[1] * float(np.median(change))
    # Between the least and the largest that light does: dirt that has moved must not take the field's 255 steps.
    least = middle - spread
    smooth = light_field(np.clip(change - least, 0, 2 * spread).astype(np.float32), RELIT) + np.float32(least)
    wide = cv2.resize(smooth, own.shape[::-1], interpolation=cv2.INTER_LINEAR)
    return (own + wide if additive else own * wide).astype(np.float32)


def masked_median(stack: NDArray, covered: NDArray[np.bool_] | None = None) -> tuple[Field, NDArray[np.int32]]:
    """Per-pixel median of (sample, height, width) over uncovered samples, and how many those are.

    Where all are covered the value means nothing and the count says so.
    """
    middle = ((len(stack) - 1) // 2, len(stack) // 2)
    if covered is None:
        low, high = sorted_stack(stack, middle)
        return (low.astype(np.float32) + high) / 2, np.full(stack.shape[1:], len(stack), np.int32)
    highest = stack.dtype.type(np.iinfo(stack.dtype).max if stack.dtype.kind == "u" else np.inf)
    values, hidden = stack.reshape(len(stack), -1), covered.reshape(len(stack), -1)
    count = len(stack) - hidden.view(np.uint8).sum(0, dtype=np.uint16).astype(np.int32)
    median = np.empty(count.shape, np.float32)
    for start in range(0, len(count), SORTED):
        part = slice(start, start + SORTED)
        layers = values[:, part].copy()
        layers[hidden[:, part]] = highest  # which comes last: the more of it, the lower lies the middle
        seen = np.maximum(count[part], 1)
        first = (int(seen.min()) - 1) // 2
        ordered = _sorted(layers, tuple(range(first, middle[1] + 1)))
        low, high = ordered[middle[0] - first].copy(), ordered[middle[1] - first].copy()
        some = np.flatnonzero(seen < len(stack))
        low[some] = ordered[(seen[some] - 1) // 2 - first, some]
        high[some] = ordered[seen[some] // 2 - first, some]
        median[part] = np.where(count[part] > 0, (low.astype(np.float32) + high) / 2, 0)
    return median.reshape(stack.shape[1:]), count.reshape(stack.shape[1:])


def sorted_stack(stack: NDArray, ranks: tuple[int, ...] | None = None) -> NDArray:
    """The stack sorted along its first axis. ranks: the layers of that which are wanted, rising; all without."""
    wanted = tuple(range(len(stack))) if ranks is None else ranks
    layers = stack.reshape(len(stack), -1)
    result = np.empty((len(wanted), layers.shape[1]), stack.dtype)
    for start in range(0, layers.shape[1], SORTED):
        part = slice(start, start + SORTED)
        result[:, part] = _sorted(layers[:, part].copy(), wanted)
    return result.reshape(len(wanted), *stack.shape[1:])


def _sorted(layers: NDArray, wanted: tuple[int, ...]) -> NDArray:
    """(rank, pixel) the wanted ones of some layers in order, by Batcher's network: minima and maxima of many pixels,
    which vectorise. The layers are used up."""
    rows = list(layers)
    spare = np.empty_like(rows[0])
    for low, high, lesser, greater in _comparators(len(rows), wanted):
        if lesser and greater:
            np.minimum(rows[low], rows[high], out=spare)
            np.maximum(rows[low], rows[high], out=rows[high])
            rows[low], spare = spare, rows[low]
        elif lesser:
            np.minimum(rows[low], rows[high], out=rows[low])
        else:
            np.maximum(rows[low], rows[high], out=rows[high])
    return np.stack([rows[rank] for rank in wanted])


@cache
def _comparators(number: int, wanted: tuple[int, ...]) -> tuple[tuple[int, int, bool, bool], ...]:
    """Pairs of places that are put in order one after the other, after which the wanted ones are, and of each whether
    the lesser and the greater are needed: Batcher's odd-even merge sort."""
    pairs = []
    width = 1
    while width < number:
        step = width
        while step >= 1:
            for start in range(step % width, number - step, 2 * step):
                for place in range(start, min(start + step, number - step)):
                    if place // (2 * width) == (place + step) // (2 * width):
                        pairs.append((place, place + step))
            step //= 2
        width *= 2
    needed, kept = set(wanted), []
    for low, high in reversed(pairs):
        if low in needed or high in needed:
            kept.append((low, high, low in needed, high in needed))
            needed |= {low, high}
    return tuple(reversed(kept))


def light_field(picture: Field, share: float) -> Field:
    """The smooth light behind everything: a wide median, which neither a worm nor dirt reaches.

    share: the width of the median as a share of the picture's shorter side.
    """
    top = float(picture.max()) or 1.0
    narrow = np.clip(picture * (255 / top), 0, 255).astype(np.uint8)
    factor = max(1, min(picture.shape) // DETAIL)
    small = cv2.resize(narrow, None, fx=1 / factor, fy=1 / factor, interpolation=cv2.INTER_AREA)
    kernel = max(3, int(share * min(small.shape)) | 1)
    smooth = cv2.medianBlur(cv2.copyMakeBorder(small, kernel, kernel, kernel, kernel, cv2.BORDER_REFLECT), kernel)
    smooth = cv2.GaussianBlur(smooth.astype(np.float32), (0, 0), kernel / 6)[kernel:-kernel, kernel:-kernel]
    return cv2.resize(smooth, picture.shape[::-1], interpolation=cv2.INTER_LINEAR) * np.float32(top / 255)


def fill(picture: Field, known: Mask, reach: float) -> Field:
    """The picture with its unknown pixels filled by planes fitted to the known ones within about `reach` px of each."""
    rows, columns = np.nonzero(~known.all(1))[0], np.nonzero(~known.all(0))[0]
    if not rows.size:
        return picture
    if not known.any():
        return np.zeros_like(picture)
    result = picture.copy()
    for widening in WIDENED:
        pad = int(3 * reach * widening) + 1
        part = (
            slice(max(0, rows[0] - pad), rows[-1] + pad + 1),
            slice(max(0, columns[0] - pad), columns[-1] + pad + 1),
        )
        filled, enough = _planes(result[part], known[part], reach * widening)
        result[part] = np.where(known[part] | ~enough, result[part], filled)
        known = known.copy()
        known[part] |= enough
        if known.all():
            return result
    result[~known] = np.median(picture[known])
    return result


def _planes(picture: Field, known: Mask, reach: float) -> tuple[Field, Mask]:
    """Weighted least-squares planes around every pixel, and where there was enough to fit one."""
    height, width = picture.shape
    x = np.broadcast_to((np.arange(width, dtype=np.float32) - width / 2) / reach, picture.shape)
    y = np.broadcast_to((np.arange(height, dtype=np.float32)[:, None] - height / 2) / reach, picture.shape)
    weight = known.astype(np.float32)
    level = np.float32(picture[known].mean()) if known.any() else np.float32(0)
    value = np.where(known, picture - level, 0)

    def around(image: Field) -> NDArray[Any]:
        return cv2.GaussianBlur(image, (0, 0), reach).astype(np.float64)

    n, sv = around(weight), around(value)
    enough = n > 1e-2
    safe = np.maximum(n, 1e-6)
    mx, my, mv = around(weight * x) / safe, around(weight * y) / safe, sv / safe
    xx = around(weight * x * x) / safe - mx * mx + 1e-3
    yy = around(weight * y * y) / safe - my * my + 1e-3
    xy = around(weight * x * y) / safe - mx * my
    xv, yv = around(value * x) / safe - mx * mv, around(value * y) / safe - my * mv
    determinant = xx * yy - xy * xy
    slope_x, slope_y = (yy * xv - xy * yv) / determinant, (xx * yv - xy * xv) / determinant
    plane = mv + slope_x * (x - mx) + slope_y * (y - my) + level
    return plane.astype(np.float32), enough


def shrink(picture: Picture | Field, factor: int) -> Field:
    """A picture in which one pixel is the mean of factor x factor."""
    return shrunken(picture, factor).astype(np.float32)


def shrunken(picture: Picture | Field, factor: int) -> Picture | Field:
    """The same in the picture's own numbers, rounded if they are whole; the picture itself where nothing is to do."""
    if factor == 1:
        return picture
    height, width = picture.shape[0] // factor * factor, picture.shape[1] // factor * factor
    size = (width // factor, height // factor)
    return cv2.resize(picture[:height, :width], size, interpolation=cv2.INTER_AREA)
