"""The GPU renderer, in Triton: imported only where a GPU is asked for, since Triton is optional.

Two passes, both without atomics, so that the same input gives the same bits every time:
- over the pixels, a program for each tile of each view: the largest of the blobs that reach the tile, and its owner;
- over the blobs, a program for each: all sums over the blob's own window, of which it owns some pixels.
Nothing waits for the host, so a whole iteration can be recorded in a CUDA graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton

from midline3d.rendering.contract import Blobs, Objective, Products, Rendering
from midline3d.rendering.gpu_kernels import differentiate_blob, multiply_blob, render_tile, residual_tile, sum_blob
from midline3d.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Triton:
    """The Triton renderer behind the operator's contract; the fields are the shapes of its programs."""

    tile: tuple[int, int] = (16, 16)
    """Rows and columns (px, powers of 2) of a program of the pixel pass."""
    tile_warps: int = 2
    block: int = 64
    """Pixels of its window (a power of 2) that a program of the blob pass takes at once."""
    blob_warps: int = 1

    # torch.compile shall leave the launches alone: it would hand the kernels their numbers in float64.
    @torch.compiler.disable
    def forward(
        self, blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float
    ) -> tuple[Rendering, Int[Tensor, "batch camera height width"]]:
        image, owner = torch.empty_like(images), torch.empty_like(images, dtype=torch.int32)
        overlap, mass = torch.empty_like(blobs.sigma), torch.empty_like(blobs.sigma)
        call = _Call(blobs, images, cutoff)
        with torch.cuda.device_of(images):
            render_tile[call.tiles(self.tile)](
                *call.blobs, image, owner, *call.sizes, *self.tile, call.padded, num_warps=self.tile_warps
            )
            sum_blob[call.each_blob](
                *call.blobs, images, overlap, mass, *call.sizes, self.block, num_warps=self.blob_warps
            )
        return Rendering(image, overlap, mass), owner

    def backward(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        owner: Int[Tensor, "batch camera height width"],
        upstream: Rendering,
        cutoff: float,
    ) -> Float[Tensor, "batch camera vertex 5"]:
        gradient = blobs.sigma.new_empty((*blobs.sigma.shape, 5))
        parts = upstream.image, upstream.overlap, upstream.mass
        call = _Call(blobs, images, cutoff)
        with torch.cuda.device_of(images):
            differentiate_blob[call.each_blob](
                *call.blobs, images, owner, *parts, gradient, *call.sizes, self.block, num_warps=self.blob_warps
            )
        return gradient

    @torch.compiler.disable
    def products(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        objective: Objective,
        picture: Float[Tensor, "batch camera 4"] | None = None,
    ) -> Products:
        residual, owner = torch.empty_like(images), torch.empty_like(images, dtype=torch.int32)
        gram = blobs.sigma.new_empty((*blobs.sigma.shape, 5, 5))
        slope = blobs.sigma.new_empty((*blobs.sigma.shape, 5))
        overlap, mass = torch.empty_like(blobs.sigma), torch.empty_like(blobs.sigma)
        call = _Call(blobs, images, objective.cutoff)
        tiles = call.tiles(self.tile)
        loss = blobs.sigma.new_empty((*images.shape[:2], tiles[1]))
        robust = math.isfinite(objective.robust)
        scale = objective.robust if robust else 1.0
        with torch.cuda.device_of(images):
            residual_tile[tiles](
                *call.blobs, images, images if picture is None else picture, residual, owner, loss, *call.sizes, scale,
                *self.tile, call.padded, robust, picture is not None, num_warps=self.tile_warps,
            )  # fmt: skip
            multiply_blob[call.each_blob](
                *call.blobs, images, residual, owner, gram, slope, overlap, mass, *call.sizes, scale,
                self.block, robust, num_warps=self.blob_warps,
            )  # fmt: skip
        return Products(gram, slope, loss.sum(-1), overlap, mass)


class _Call:
    """What every kernel takes: the blobs, the cut and the sizes."""

    def __init__(self, blobs: Blobs, images: Tensor, cutoff: float) -> None:
        batch, cameras, self.height, self.width = images.shape
        vertices = blobs.sigma.shape[2]
        self.views = batch * cameras
        self.blobs = blobs.tensors()
        self.sizes = -math.log(cutoff), vertices, self.height, self.width
        self.padded = triton.next_power_of_2(vertices)
        self.each_blob = (self.views * vertices,)

    def tiles(self, tile: tuple[int, int]) -> tuple[int, int]:
        """Programs of the pixel pass: views, and tiles of a view."""
        return self.views, triton.cdiv(self.height, tile[0]) * triton.cdiv(self.width, tile[1])
