"""How long and how thick the worm is, by its silhouettes alone: the scale at which it is searched for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.shapes import Float, Tensor

LEVEL = 0.3
"""Share of the body's brightness above which a pixel belongs to the silhouette."""
HALF = 1.55
"""Half the width of a Gaussian at that level, in sigmas: sqrt(2 log(1 / LEVEL))."""
SLENDER = 50.0
"""Greatest length of a worm in halves of its width: dirt that touches it changes its area, not its kind."""

OPEN = 0.75
"""Quantile of all frames' lengths: coils hide a part of themselves, dirt that touches the worm adds to it."""
THICKEST = 0.95
"""Quantile of the distances to the silhouette's border that is half the width: crossings are thicker."""
TAPERED = 1.75
"""Area over length of a worm, in halves of its greatest width: 2 without its tapered ends."""


@dataclass(frozen=True)
class Size:
    """Rough: the length comes out too short by what is hidden or foreshortened."""

    length: float
    """mm."""
    sigma: float
    """mm."""


def worm_size(images: Float[Tensor, "batch camera height width"], per_mm: Float[Tensor, " camera"]) -> Size | None:
    """The size by images in which the body's middle has the brightness 1; none where nothing stands out.

    A slender body's area is its length times its width. The view that shows it longest counts, and of all frames the
    upper quarter, because coils hide themselves.
    """
    lengths, sigmas = [], []
    for frame in images.cpu().numpy():
        seen = [_length_and_sigma(view, float(scale)) for view, scale in zip(frame, per_mm, strict=True)]
        measured = [each for each in seen if each is not None]
        if measured:
            lengths.append(max(length for length, _ in measured))
            sigmas.append(float(np.median([sigma for _, sigma in measured])))
    if not lengths:
        return None
    return Size(float(np.quantile(lengths, OPEN)), float(np.median(sigmas)))


def _length_and_sigma(view: NDArray[np.float32], per_mm: float) -> tuple[float, float] | None:
    from scipy.ndimage import distance_transform_edt, label  # heavy, and only where a recording begins

    things, count = label(view > LEVEL)
    if not count:
        return None
    mass = np.bincount(things.ravel(), weights=np.clip(view, 0, 1).ravel())
    mass[0] = 0
    thing = things == int(mass.argmax())
    # Half the width where the body is thickest; crossings, which are thicker, are the last twentieth.
    half = float(np.quantile(distance_transform_edt(thing)[thing], THICKEST))
    length = min(float(thing.sum()) / (TAPERED * half), SLENDER * half)
    return length / per_mm, half / HALF / per_mm
