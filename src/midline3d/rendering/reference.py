"""The equations, literally: every blob at every pixel, in plain torch. What other renderers are held against."""

from __future__ import annotations

import math

import torch

from midline3d.rendering.contract import Blobs, Objective, Products, Rendering, covered
from midline3d.shapes import Float, Int, Tensor


def render(blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float = 0.0) -> Rendering:
    """R = max_n B_n (eq. 2, 3) and the sums of the scores (eq. 4); gradients by automatic differentiation."""
    stack = blob_stack(blobs, images.shape[-2:], cutoff)
    owner = stack.detach().argmax(2, keepdim=True)  # argmax gives the first of equals: one blob takes all
    return Rendering(
        image=stack.gather(2, owner).squeeze(2),
        overlap=(stack * images[:, :, None]).sum((-2, -1)),
        mass=stack.sum((-2, -1)),
    )


def blob_stack(
    blobs: Blobs, size: tuple[int, int] | torch.Size, cutoff: float = 0.0
) -> Float[Tensor, "batch camera vertex height width"]:
    """B_{c,n}(i, j): the tensor that no other renderer ever builds."""
    height, width = size
    u, v = blobs.centre[..., None, None].unbind(-3)
    columns = torch.arange(width, dtype=u.dtype, device=u.device)
    rows = torch.arange(height, dtype=u.dtype, device=u.device)[:, None]
    squared = (columns - u).square() + (rows - v).square()
    x = squared / (2 * blobs.sigma[..., None, None].square())
    on_centre = x == 0
    rho = blobs.rho[:, :, None, None, None]
    # The inner where keeps 0^(rho - 1) out of the graph: infinity times zero would be NaN.
    power = torch.where(on_centre, 0.0, torch.where(on_centre, 1.0, x) ** rho)
    stack = blobs.iota[..., None, None] * torch.exp(-power)
    return torch.where(power <= -math.log(cutoff), stack, 0.0) if cutoff > 0 else stack


class Reference:
    """The dense renderer behind the operator's contract."""

    def forward(
        self, blobs: Blobs, images: Float[Tensor, "batch camera height width"], cutoff: float
    ) -> tuple[Rendering, Int[Tensor, "batch camera height width"]]:
        stack = blob_stack(blobs, images.shape[-2:], cutoff)
        image, owner = stack.amax(2), stack.argmax(2)
        rendering = Rendering(image, (stack * images[:, :, None]).sum((-2, -1)), stack.sum((-2, -1)))
        return rendering, torch.where(image > 0, owner, -1).to(torch.int32)

    def backward(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        owner: Int[Tensor, "batch camera height width"],
        upstream: Rendering,
        cutoff: float,
    ) -> Float[Tensor, "batch camera vertex 5"]:
        stack, slopes = blob_slopes(blobs, images.shape[-2:], cutoff)
        vertices = torch.arange(stack.shape[2], device=stack.device)[:, None, None]
        weight = torch.where(owner[:, :, None] == vertices, upstream.image[:, :, None], 0.0)
        weight = weight + upstream.overlap[..., None, None] * images[:, :, None] + upstream.mass[..., None, None]
        return (slopes * weight[..., None]).sum((3, 4))

    def products(
        self,
        blobs: Blobs,
        images: Float[Tensor, "batch camera height width"],
        objective: Objective,
        picture: Float[Tensor, "batch camera 4"] | None = None,
    ) -> Products:
        stack, slopes = blob_slopes(blobs, images.shape[-2:], objective.cutoff)
        image, owner = stack.amax(2), stack.argmax(2)
        residual = image.log1p() - images.log1p()
        if picture is not None:
            residual = torch.where(covered(picture, images.shape[-2:]), residual, 0.0)
        weight, loss = cauchy(residual, objective.robust)
        vertices = torch.arange(stack.shape[2], device=stack.device)[:, None, None]
        owned = (owner[:, :, None] == vertices) & (stack > 0)
        g = torch.where(owned[..., None], slopes / (1 + image)[:, :, None, ..., None], 0.0)
        return Products(
            gram=torch.einsum("bcnhwi,bchw,bcnhwj->bcnij", g, weight, g),
            slope=torch.einsum("bcnhwi,bchw->bcni", g, weight * residual),
            loss=loss.sum((-2, -1)),
            overlap=(stack * images[:, :, None]).sum((-2, -1)),
            mass=stack.sum((-2, -1)),
        )


def blob_slopes(
    blobs: Blobs, size: tuple[int, int] | torch.Size, cutoff: float
) -> tuple[Tensor, Float[Tensor, "batch camera vertex height width 5"]]:
    """The stack of blobs and dB / d(u, v, sigma, iota, rho) at every pixel."""
    u, v = blobs.centre[..., None, None].unbind(-3)
    right = torch.arange(size[1], dtype=u.dtype, device=u.device) - u
    down = torch.arange(size[0], dtype=u.dtype, device=u.device)[:, None] - v
    return slopes_at(right, down, blobs, cutoff)


def slopes_at(
    right: Float[Tensor, "*columns"], down: Float[Tensor, "*rows"], blobs: Blobs, cutoff: float
) -> tuple[Float[Tensor, "*pixels"], Float[Tensor, "*pixels 5"]]:
    """B and its derivatives at offsets (px) from the blobs' centres; the last two axes are pixels."""
    sigma, iota = blobs.sigma[..., None, None], blobs.iota[..., None, None]
    rho = blobs.rho[:, :, None, None, None]
    x = (right.square() + down.square()) / (2 * sigma.square())
    on_centre = x == 0
    safe = torch.where(on_centre, 1.0, x)
    power = torch.where(on_centre, 0.0, safe**rho)
    shape = torch.exp(-power)
    if cutoff > 0:
        shape = torch.where(power <= -math.log(cutoff), shape, 0.0)
    stack = iota * shape
    radial = stack * rho * power / safe / sigma.square()
    slopes = [radial * right, radial * down, stack * rho * power * (2 / sigma), shape, -stack * power * safe.log()]
    return stack, torch.stack(torch.broadcast_tensors(*slopes), -1)


def cauchy(
    residual: Float[Tensor, "*pixels"], scale: float
) -> tuple[Float[Tensor, "*pixels"], Float[Tensor, "*pixels"]]:
    """Weights w and values of Cauchy's loss, for which d(value) / dr = 2 w r; least squares where scale is infinite."""
    if math.isinf(scale):
        return torch.ones_like(residual), residual.square()
    ratio = (residual / scale).square()
    return 1 / (1 + ratio), scale**2 * ratio.log1p()
