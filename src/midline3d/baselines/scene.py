"""What every method looks at: one frame's crops in even brightness, and its cameras about the animal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from midline3d import cameras as rig
from midline3d.cameras import Cameras
from midline3d.recording import Prepared

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

LOOKED_AT = 12
"""Frames, spread over the recording, from which brightness and alignment are measured."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame. Its world begins where the animal was located, so that parallel rays are a good model there."""

    number: int
    """In the recording."""
    images: Array
    """(camera, w, w) the body's middle being about 1, the background about 0."""
    noise: Array
    """(camera,) standard deviation of the background, in the same unit."""
    cameras: Cameras
    """Local to the animal and to the crops; a batch of one, float64."""
    base: Array
    """(camera, 2) where the world's origin is seen, px of the crop."""
    slope: Array
    """(camera, 2, 3) px that a mm moves a view: the parallel projection that touches the camera's at the origin."""
    origin: Array
    """(camera, 2) px of the crops' first pixels in the full frames."""
    centre: Array
    """(3,) mm: this world's origin in the calibration's."""

    @property
    def scale(self) -> float:
        """Magnification, px per mm, the mean of the views."""
        return float(np.linalg.norm(self.slope, axis=-1).mean())

    @property
    def window(self) -> int:
        """Width of the crops, px."""
        return self.images.shape[-1]

    def project(self, points: Array) -> Array:
        """(camera, point, 2) px of the crops, of points (point, 3) in mm, by the cameras."""
        return rig.project(self.cameras, torch.from_numpy(points)[None])[0].numpy()

    def parallel(self, points: Array) -> Array:
        """The same by parallel rays: (camera, point, 2)."""
        return self.base[:, None] + points @ self.slope.transpose(0, 2, 1)

    def moves(self, shift: Array) -> Array:
        """(camera, 2) px by which relative shifts (axis,) move the views."""
        return np.asarray(self.cameras.shift_basis.numpy() @ shift)

    def triangulate(self, pixels: Array) -> Array:
        """(point, 3) mm of (camera, point, 2) px."""
        return rig.triangulate(self.cameras, torch.from_numpy(np.ascontiguousarray(pixels.transpose(1, 0, 2)))).numpy()

    @property
    def axes(self) -> int:
        """How many relative shifts the rig has."""
        return self.cameras.shift_basis.shape[-1]


@dataclass(frozen=True, eq=False)
class Traced:
    """A midline that a method found."""

    points: Array
    """(point, 3) mm in the frame's world, from one end to the other."""
    shift: Array
    """(axis,) relative shifts of the views that the method found with it, px; zeros where it knows none."""


class Method(Protocol):
    """A way to find midlines; what it knows of the recording it was given when it was made."""

    def trace(self, frame: Frame, before: Traced | None) -> Traced | None:
        """The midline of a frame, or None where it finds none. before: of the frame before, in this one's world."""


def frames_of(prepared: Prepared) -> Frames:
    """The frames of a recording, as every method sees them."""
    return Frames(prepared, _brightness(prepared))


@dataclass(frozen=True, eq=False)
class Frames:
    """All located frames of a recording, read from the disk when they are asked for."""

    prepared: Prepared
    brightness: Array
    """(camera,) signal of the body's middle, in the crops' units."""

    def __len__(self) -> int:
        return len(self.prepared)

    @property
    def located(self) -> NDArray[np.int64]:
        """Places in the prepared part at which the animal was located."""
        return np.flatnonzero(self.prepared.log.location <= 1)

    def some(self) -> list[Frame]:
        """A few frames, spread over the recording."""
        places = self.located
        chosen = places[np.unique(np.linspace(0, len(places) - 1, min(LOOKED_AT, len(places))).round().astype(int))]
        return [self[int(place)] for place in chosen]

    def __getitem__(self, place: int) -> Frame:
        crops = self.prepared[place]
        local = self.prepared.cameras.local(torch.from_numpy(crops.centre)[None], torch.from_numpy(crops.origin)[None])
        origin = torch.zeros(1, 1, 3, dtype=torch.float64)
        return Frame(
            number=crops.frame,
            images=(crops.images - self.prepared.offset[:, None, None]) / self.brightness[:, None, None],
            noise=self.prepared.noise / self.brightness,
            cameras=local,
            base=rig.project(local, origin)[0, :, 0].numpy(),
            slope=rig.projection_jacobian(local, origin)[0, :, 0].numpy(),
            origin=crops.origin,
            centre=crops.centre,
        )


def sampled(image: Array, pixels: Array, order: int = 1) -> Array:
    """Values of an image at places (..., 2) in px (u, v); 0 beyond its border."""
    return np.asarray(map_coordinates(image, [pixels[..., 1], pixels[..., 0]], order=order, mode="constant"))


def _brightness(prepared: Prepared) -> Array:
    """Of the upper third of what stands clear of the noise."""
    places = np.flatnonzero(prepared.log.location <= 1)
    chosen = places[np.linspace(0, len(places) - 1, min(LOOKED_AT, len(places))).round().astype(int)]
    images = np.stack([prepared[int(place)].images for place in chosen]).astype(np.float64)
    signal = images - prepared.offset[:, None, None]
    levels = []
    for camera, noise in enumerate(prepared.noise):
        view = signal[:, camera]
        body = view[view > max(6 * noise, 0.15 * view.max())]
        levels.append(float(np.percentile(body, 70)) if len(body) else 255.0)
    return np.array(levels)
