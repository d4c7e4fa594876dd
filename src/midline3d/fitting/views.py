"""What a fitter looks at."""

from __future__ import annotations

from dataclasses import dataclass

from midline3d.cameras import Cameras
from midline3d.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Views:
    """The crops of a batch of frames and the cameras that took them."""

    images: Float[Tensor, "batch camera height width"]
    """Worm bright on 0, in units in which the log of 1 + I weighs faint tips rightly (see `settings`)."""
    cameras: Cameras
    """Local to each frame's origin and crops."""

    def taken(self, rows: Int[Tensor, " row"]) -> Views:
        """A batch of some of the frames, each as often as it is named."""
        # In one piece, once: the renderer would make a copy of its own at every step.
        return Views(self.images[rows].contiguous(), self.cameras.taken(rows))
