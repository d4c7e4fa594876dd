"""The operator as the rest of the package calls it: any renderer, differentiable."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch

from midline3d.native import REMEDY
from midline3d.rendering.contract import Blobs, Objective, Products, Renderer, Rendering
from midline3d.rendering.cpu import Compiled
from midline3d.rendering.patches import Patches
from midline3d.shapes import Float, Tensor


@cache
def select_renderer(device: str) -> Renderer:
    """The fastest renderer there is for a kind of device ("cpu", "cuda")."""
    if device == "cuda":
        try:
            from midline3d.rendering.gpu import Triton
        except ImportError as missing:
            warnings.warn(f"the GPU renders in plain torch, slower: {missing} (pip install triton)", stacklevel=2)
        else:
            return Triton()
    if device == "cpu":
        try:
            return Compiled()
        except OSError as missing:
            warnings.warn(
                f"the CPU renders in plain torch, many times slower: {missing} ({REMEDY})",
                stacklevel=2,
            )
    return Patches()


def render(
    blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float, renderer: Renderer | None = None
) -> Rendering:
    """R and the sums of the scores, with gradients by the blobs (not by the images)."""
    renderer = renderer or select_renderer(images.device.type)
    tensors = [tensor.contiguous() for tensor in blobs.tensors()]
    return Rendering(*_Render.apply(renderer, cutoff, images.contiguous(), *tensors))


def products(
    blobs: Blobs,
    images: Float[Tensor, "batch camera height width"],
    objective: Objective,
    picture: Float[Tensor, "batch camera 4"] | None = None,
    renderer: Renderer | None = None,
) -> Products:
    """The normal equations of the pixels, blob by blob (see `Renderer.products`)."""
    renderer = renderer or select_renderer(images.device.type)
    blobs = Blobs(*(tensor.contiguous() for tensor in blobs.tensors()))
    borders = None if picture is None else picture.to(images.dtype).contiguous()
    return renderer.products(blobs, images.contiguous(), objective, borders)


class _Render(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, renderer: Renderer, cutoff: float, images: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        rendering, owner = renderer.forward(Blobs(*tensors), images, cutoff)
        ctx.save_for_backward(images, owner, *tensors)
        ctx.renderer, ctx.cutoff = renderer, cutoff
        return rendering.image, rendering.overlap, rendering.mass

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        images, owner, *tensors = ctx.saved_tensors
        parts = Rendering(*(part.contiguous() for part in upstream))
        gradient = ctx.renderer.backward(Blobs(*tensors), images, owner, parts, ctx.cutoff)
        centre, sigma, iota = gradient[..., :2], gradient[..., 2], gradient[..., 3]
        return None, None, None, centre, sigma, iota, gradient[..., 4].sum(-1)
