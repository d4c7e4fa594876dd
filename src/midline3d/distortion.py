"""What a lens does to an image, by OpenCV's five numbers, and how it is undone.

Points lie on the plane at depth 1, where the focal length is 1. All is written for whatever can be added, multiplied
and compared: tensors where many points are projected, arrays where few are located.
"""

from __future__ import annotations

from typing import Any

STEPS = 40
"""Of Newton's method at most: mostly three leave nothing, and the rest is for points at a fold."""
HALVINGS = 30
"""Of a step at most, until it ends before the fold: by then nothing is left of it."""


def distorted(x: Any, y: Any, k1: Any, k2: Any, p1: Any, p2: Any, k3: Any) -> tuple[Any, Any]:
    """Where the lens shows a point."""
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    return (
        radial * x + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
        radial * y + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
    )


def slopes(x: Any, y: Any, k1: Any, k2: Any, p1: Any, p2: Any, k3: Any) -> tuple[Any, Any, Any]:
    """Derivatives of the distorted point by the undistorted one: x by x, x by y (which is y by x), y by y."""
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    slope = 2 * (k1 + r2 * (2 * k2 + 3 * r2 * k3))
    xx = radial + slope * x * x + 2 * p1 * y + 6 * p2 * x
    yy = radial + slope * y * y + 6 * p1 * y + 2 * p2 * x
    return xx, slope * x * y + 2 * p1 * x + 2 * p2 * y, yy


def undistorted(u: Any, v: Any, lens: tuple[Any, ...], rounding: float) -> tuple[Any, Any]:
    """The point that the lens shows at (u, v), by Newton's method, to within `rounding`.

    A lens whose numbers fold the image shows two points in one place and none in others. Of two the one before the fold
    is meant; for a place where none is shown, a point close to the fold comes out.
    """
    x, y = _before_the_fold(0 * u, 0 * v, u, v, lens)
    for _ in range(STEPS):
        beside_x, beside_y = distorted(x, y, *lens)
        beside_x, beside_y = beside_x - u, beside_y - v
        if not bool(((abs(beside_x) > rounding) | (abs(beside_y) > rounding)).any()):
            break
        xx, xy, yy = slopes(x, y, *lens)
        area = xx * yy - xy * xy
        along_x, along_y = (xy * beside_y - yy * beside_x) / area, (xy * beside_x - xx * beside_y) / area
        x, y = _before_the_fold(x, y, along_x, along_y, lens)
    return x, y


def _before_the_fold(x: Any, y: Any, along_x: Any, along_y: Any, lens: tuple[Any, ...]) -> tuple[Any, Any]:
    """Points gone on by a step, or by as much of it as leads to no fold; where that is nothing they stay."""
    share = 1.0 + 0 * x
    for _ in range(HALVINGS):
        xx, xy, yy = slopes(x + share * along_x, y + share * along_y, *lens)
        folded = ~((xx * yy - xy * xy > 0) & (xx + yy > 0))
        if not bool(folded.any()):
            break
        share = share * (1 - 0.5 * folded)
    else:
        share = share * ~folded
    return x + share * along_x, y + share * along_y
