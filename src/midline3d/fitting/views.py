"""What a fitter looks at."""

from __future__ import annotations

from dataclasses import dataclass

from midline3d.cameras import Cameras
from midline3d.shapes import Float, Tensor


@dataclass(frozen=True)
class Views:
    """The crops of a batch of frames and the cameras that took them."""

    images: Float[Tensor, "batch camera height width"]
    """Worm bright on 0, in units in which the log of 1 + I weighs faint tips rightly (see `settings`)."""
    cameras: Cameras
    """Local to each frame's origin and crops."""
