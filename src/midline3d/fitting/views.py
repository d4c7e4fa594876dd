"""What a fitter looks at."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from midline3d.cameras import Cameras
from midline3d.rendering import covered
from midline3d.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Views:
    """The crops of a batch of frames and the cameras that took them."""

    images: Float[Tensor, "batch camera height width"]
    """Worm bright on 0, in units in which the log of 1 + I weighs faint tips rightly (see `settings`)."""
    cameras: Cameras
    """Local to each frame's origin and crops."""
    picture: Float[Tensor, "batch camera 4"] | None = None
    """The part of each crop that its camera's picture covers: first and last column, first and last row, px; None where
    all of them are covered."""

    def taken(self, rows: Int[Tensor, " row"]) -> Views:
        """A batch of some of the frames, each as often as it is named."""
        # In one piece, once: the renderer would make a copy of its own at every step.
        picture = None if self.picture is None else self.picture[rows]
        return replace(self, images=self.images[rows].contiguous(), cameras=self.cameras.taken(rows), picture=picture)

    def covered(self) -> Bool[Tensor, "batch camera height width"] | None:
        """Whether each pixel lies in its camera's picture, beyond which nothing is known; None where all do."""
        if self.picture is None:
            return None
        return covered(self.picture, self.images.shape[-2:])


def room_around(
    places: Float[Tensor, "batch camera place 2"], picture: Float[Tensor, "batch camera 4"] | None
) -> Float[Tensor, "batch camera place"]:
    """How far places lie from the nearest border of their picture (see `Views.picture`), px; negative beyond it,
    infinite where there is none."""
    if picture is None:
        return places.new_full(places.shape[:-1], torch.inf)
    borders = picture[:, :, None]
    return torch.cat([places - borders[..., ::2], borders[..., 1::2] - places], -1).amin(-1)
