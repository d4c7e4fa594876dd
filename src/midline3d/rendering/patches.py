"""The portable fast renderer: each blob on its own cut-off patch, in plain torch on any device.

Work and memory grow with the number of blobs and their width, not with the size of the images.
"""

from __future__ import annotations

import torch

from midline3d.rendering.contract import Blobs, Objective, Products, Rendering, covered, reach
from midline3d.rendering.reference import cauchy, slopes_at
from midline3d.shapes import Float, Int, Tensor


class _Patches:
    """The square patches of all blobs: where their pixels lie, and the blobs' values there."""

    def __init__(self, blobs: Blobs, images: Tensor, cutoff: float) -> None:
        height, width = images.shape[-2:]
        self.size = images.shape
        radius = int(reach(blobs.sigma, blobs.rho, cutoff).max().ceil()) + 1
        longest = max(height, width)
        # Far-off blobs: clamped before rounding so that no index overflows; their patches stay outside. A radius of
        # the whole image sees all of it from any pixel of it.
        margin = radius + 1 if radius < longest else 0
        radius = min(radius, longest)
        offsets = torch.arange(-radius, radius + 1, device=images.device)
        middle = blobs.centre.detach().clamp(-margin, longest + margin).round()
        columns = middle[..., 0].long()[..., None, None] + offsets
        rows = middle[..., 1].long()[..., None, None] + offsets[:, None]
        inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
        self.index = (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)).flatten(2)
        u, v = blobs.centre[..., None, None].unbind(-3)
        self.values, slopes = slopes_at(columns - u, rows - v, blobs, cutoff)
        self.values = torch.where(inside, self.values, 0.0)
        self.slopes = torch.where(inside[..., None], slopes, 0.0)

    def pixels(self, image: Tensor) -> Tensor:
        """The image's pixels under each blob's patch."""
        return image.flatten(2).gather(2, self.index).view(self.values.shape)

    def maximum(self, values: Tensor) -> Tensor:
        """The largest of the patches' values at each pixel, 0 where there is none."""
        image = values.new_zeros(self.size).flatten(2)
        return image.scatter_reduce(2, self.index, values.flatten(2), "amax").view(self.size)

    def owner(self, image: Tensor) -> Int[Tensor, "batch camera height width"]:
        """The first vertex that reaches the maximum at each pixel, -1 where none does."""
        count = self.values.shape[2]
        vertices = torch.arange(count, device=image.device, dtype=torch.int32)[:, None, None]
        reached = (self.values == self.pixels(image)) & (self.values > 0)
        candidates = torch.where(reached, vertices, count).flatten(2)
        owner = torch.full(self.size, count, device=image.device, dtype=torch.int32).flatten(2)
        owner = owner.scatter_reduce(2, self.index, candidates, "amin").view(self.size)
        return torch.where(owner == count, -1, owner)

    def owned(self, owner: Tensor) -> Tensor:
        vertices = torch.arange(self.values.shape[2], device=owner.device, dtype=owner.dtype)[:, None, None]
        return (self.pixels(owner) == vertices) & (self.values > 0)

    def sums(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return (self.values * self.pixels(images)).sum((-2, -1)), self.values.sum((-2, -1))


class Patches:
    """The patches behind the operator's contract."""

    def forward(
        self, blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float
    ) -> tuple[Rendering, Int[Tensor, "batch camera height width"]]:
        patch = _Patches(blobs, images, cutoff)
        image = patch.maximum(patch.values)
        return Rendering(image, *patch.sums(images)), patch.owner(image)

    def backward(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        owner: Int[Tensor, "batch camera height width"],
        upstream: Rendering,
        cutoff: float,
    ) -> Float[Tensor, "batch camera vertex 5"]:
        patch = _Patches(blobs, images, cutoff)
        weight = torch.where(patch.owned(owner), patch.pixels(upstream.image), 0.0)
        weight = weight + upstream.overlap[..., None, None] * patch.pixels(images) + upstream.mass[..., None, None]
        return (patch.slopes * weight[..., None]).sum((3, 4))

    def products(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        objective: Objective,
        picture: Float[Tensor, "batch camera 4"] | None = None,
    ) -> Products:
        patch = _Patches(blobs, images, objective.cutoff)
        image = patch.maximum(patch.values)
        residual = image.log1p() - images.log1p()
        if picture is not None:
            residual = torch.where(covered(picture, images.shape[-2:]), residual, 0.0)
        weight, loss = cauchy(residual, objective.robust)
        owned = patch.owned(patch.owner(image))
        g = torch.where(owned[..., None], patch.slopes / (1 + patch.pixels(image))[..., None], 0.0).flatten(3, 4)
        weighted = g * patch.pixels(weight).flatten(3)[..., None]
        overlap, mass = patch.sums(images)
        return Products(
            gram=weighted.mT @ g,
            slope=(weighted * patch.pixels(residual).flatten(3)[..., None]).sum(3),
            loss=loss.sum((-2, -1)),
            overlap=overlap,
            mass=mass,
        )
