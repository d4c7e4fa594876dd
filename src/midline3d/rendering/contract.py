"""What every renderer takes and gives, and what happens in the corners.

A blob is B(i, j) = iota exp(-x^rho), x = ((i - u)^2 + (j - v)^2) / (2 sigma^2), at pixel centres (integers; i runs
along u, to the right). The render is the maximum over a view's blobs.

Corners, the same for every renderer:
- A blob is cut to 0 where B < cutoff * iota; `cutoff` = 0 cuts nothing (the reference only).
- A pixel on a blob's centre (x = 0) passes no gradient to its position, width or exponent, also where rho < 1 and the
  derivative is infinite.
- Where several blobs are equal to the maximum, the one with the lowest vertex takes the pixel and all its gradient.
- Blobs over the image's edge count with the pixels inside; a blob wholly outside has sums and gradients of 0.
- A pixel that no blob reaches renders as 0 and belongs to nobody (owner -1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from midline3d.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Blobs:
    """The blobs of a batch of frames in all their views, in px of the crop."""

    centre: Float[Tensor, "batch camera vertex 2"]
    """Q: (u, v)."""
    sigma: Float[Tensor, "batch camera vertex"]
    iota: Float[Tensor, "batch camera vertex"]
    rho: Float[Tensor, "batch camera"]

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.centre, self.sigma, self.iota, self.rho

    def detach(self) -> Blobs:
        return Blobs(*(tensor.detach() for tensor in self.tensors()))


@dataclass(frozen=True)
class Rendering:
    """A render and each blob's correlation with the images."""

    image: Float[Tensor, "batch camera height width"]
    """R."""
    overlap: Float[Tensor, "batch camera vertex"]
    """sum(B I) over the pixels."""
    mass: Float[Tensor, "batch camera vertex"]
    """sum(B) over the pixels."""


@dataclass(frozen=True)
class Objective:
    """How a render is held against the images: r = log(1 + R) - log(1 + I) for every pixel."""

    cutoff: float
    """Share of its peak under which a blob is cut."""
    robust: float = math.inf
    """c of Cauchy's loss c^2 log(1 + (r / c)^2), in units of r: residuals well above it, dirt, hardly count."""


@dataclass(frozen=True)
class Products:
    """The Gauss-Newton normal equations of the pixels, blob by blob.

    A pixel depends on its owner alone: with g the derivative of its residual by the owner's (u, v, sigma, iota, rho)
    and w its robust weight, a blob's part of the normal equations is sum(w g g') and sum(w g r) over its pixels.
    """

    gram: Float[Tensor, "batch camera vertex 5 5"]
    slope: Float[Tensor, "batch camera vertex 5"]
    loss: Float[Tensor, "batch camera"]
    """Sum of Cauchy's loss over all pixels; its gradient is twice the slope."""
    overlap: Float[Tensor, "batch camera vertex"]
    mass: Float[Tensor, "batch camera vertex"]


@runtime_checkable
class Renderer(Protocol):
    """One implementation of the operator. Tensors are contiguous and of one dtype; images lie on the blobs' device."""

    def forward(
        self, blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float
    ) -> tuple[Rendering, Int[Tensor, "batch camera height width"]]:
        """The rendering and each pixel's owner (vertex, or -1)."""
        ...

    def backward(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        owner: Int[Tensor, "batch camera height width"],
        upstream: Rendering,
        cutoff: float,
    ) -> Float[Tensor, "batch camera vertex 5"]:
        """The gradient by each blob's (u, v, sigma, iota, rho), from the gradients by the rendering's parts."""
        ...

    def products(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        objective: Objective,
        picture: Float[Tensor, "batch camera 4"] | None = None,
    ) -> Products:
        """The normal equations.

        picture: the part of each image that is known, its first and last column, first and last row; all without.
        Beyond it nothing contradicts the render: the residuals are 0 there.
        """
        ...


def covered(
    picture: Float[Tensor, "batch camera 4"], size: tuple[int, int] | torch.Size
) -> Bool[Tensor, "batch camera height width"]:
    """The pixels of images of a size (height, width) that lie in their picture (see `Renderer.products`)."""
    rows, columns = (torch.arange(length, device=picture.device) for length in size)
    left, right, top, bottom = picture[..., None].unbind(2)
    across, down = (columns >= left) & (columns <= right), (rows >= top) & (rows <= bottom)
    return down[..., :, None] & across[..., None, :]


def reach(
    sigma: Float[Tensor, "batch camera vertex"], rho: Float[Tensor, "batch camera"], cutoff: float
) -> Float[Tensor, "batch camera vertex"]:
    """Distance in px at which a blob is cut: where x^rho = log(1 / cutoff)."""
    return sigma * math.sqrt(2) * (-math.log(cutoff)) ** (0.5 / rho)[..., None]
