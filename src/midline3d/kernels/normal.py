"""The normal equations of a batch of frames, in closed form.

A blob depends on five numbers (u, v, sigma, iota, rho), and the pixels give a 5 x 5 matrix A and a slope b for each
(`rendering.Products`). With D a blob's derivative by the unknowns, H = sum(D' A D) and g = sum(D' b). The position of a
vertex enters all views, so its 3 x 3 matrix is summed over the views first: H costs one product of (3 N) x P matrices.
"""

from __future__ import annotations

import torch

from midline3d.appearance import BlobAppearance
from midline3d.cameras import Cameras, projection_jacobian
from midline3d.kernels.basis import Basis
from midline3d.kernels.contract import System
from midline3d.kernels.layout import Layout
from midline3d.rendering import Products
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState


def vertex_derivatives(state: FrameState, basis: Basis) -> Float[Tensor, "batch vertex 3 unknown"]:
    """dP / d(move, turn, bend, log length), the middle vertex held by move and turn."""
    batch, count = state.points.shape[:2]
    middle = count // 2
    points, bishop = state.points, state.bishop
    arm = points - points[:, middle : middle + 1]
    turn = torch.linalg.cross(bishop[:, middle].mT[:, None, 1:], arm[:, :, None], dim=-1).mT
    bend = _bend_derivatives(arm, bishop, basis.segments.to(points.dtype))
    move = torch.eye(3, dtype=points.dtype, device=points.device).expand(batch, count, 3, 3)
    return torch.cat([move, turn, bend, arm[..., None]], -1)


def _bend_derivatives(
    arms: Float[Tensor, "batch vertex 3"],
    bishop: Float[Tensor, "batch vertex 3 3"],
    segments: Float[Tensor, "segment node"],
) -> Float[Tensor, "batch vertex 3 bend"]:
    """dP by the nodes of m1, then of m2: bending a segment turns about its middle all that lies beyond it.

    Beyond is seen from the middle vertex, from which `arms` count. A turn about an axis a through p moves a vertex at P
    by a x P - a x p, so that it takes the sums of S a and of S (a x p) over the segments between the middle and P.
    """
    batch, count = arms.shape[:2]
    pivot = (arms[:, 1:] + arms[:, :-1]) / 2
    # Bending towards M1 is a turn about M2, bending towards M2 one about -M1.
    mean = (bishop[:, :-1] + bishop[:, 1:]) / (2 * (count - 1))
    axes = torch.stack([mean[..., 2], -mean[..., 1]], -1)
    moments = torch.linalg.cross(axes, pivot[..., None].expand_as(axes), dim=2)
    parts = torch.stack([axes, moments], 2)[..., None] * segments[:, None, None, None]
    sums = torch.nn.functional.pad(parts.flatten(4).flatten(2).cumsum(1), (0, 0, 1, 0))
    # Towards the head the segments count backwards, which this difference does by itself.
    sums = (sums - sums[:, count // 2, None]).view(batch, count, 2, 3, -1)
    turned = torch.linalg.cross(sums[:, :, 0], arms[..., None].expand_as(sums[:, :, 0]), dim=2)
    return turned - sums[:, :, 1]


def shift_and_appearance_derivatives(
    state: FrameState, appearance: BlobAppearance, cameras: Cameras, layout: Layout
) -> Float[Tensor, "batch camera vertex 5 unknown"]:
    """d(u, v, sigma, iota, rho) of every blob by the shifts and by the views' log sigma, log iota, defocus, log rho."""
    batch, count, vertices = appearance.sigma.shape
    axes = layout.axes
    out = appearance.sigma.new_zeros(batch, count, vertices, 5, axes + 4 * count)
    out[..., :2, :axes] = cameras.shift_basis[:, None]
    for view in range(count):
        out[:, view, :, 2:4, axes + view : axes + 3 * count : count] = appearance.by_view[:, view]
        out[:, view, :, 4, axes + 3 * count + view] = state.rho[:, view, None]
    return out


def assemble(
    products: Products,
    places: Float[Tensor, "batch vertex coordinate shape"],
    jacobian: Float[Tensor, "batch camera vertex number coordinate"],
    others: Float[Tensor, "batch camera vertex 5 other"],
) -> System:
    """H = sum(D' A D), g = sum(D' b), for unknowns that move vertices and others that act on blobs directly.

    `places` are the derivatives of what all views see of a vertex (its place, and where given more), `jacobian` those
    of a blob's first numbers by these.
    """
    gram, slope = products.gram, products.slope
    batch, _, count = gram.shape[:3]
    seen = jacobian.shape[-2]
    spatial = (jacobian.mT @ (gram[..., :seen, :seen] @ jacobian)).sum(1)
    place_slope = (jacobian.mT @ slope[..., :seen, None]).sum(1)
    pushed = gram @ others
    crossing = _over_views(jacobian).mT @ _over_views(pushed[..., :seen, :])
    flat = places.reshape(batch, places.shape[2] * count, -1)
    # One product for the shape's own block, its coupling to the others, and its gradient.
    right = torch.cat([(spatial @ places).reshape_as(flat), crossing.flatten(1, 2), place_slope.flatten(1, 2)], -1)
    left = flat.mT @ right
    own = places.shape[-1]
    tall = others.flatten(1, 3)
    corner = tall.mT @ pushed.flatten(1, 3)
    rest = (tall.mT @ slope.flatten(1)[..., None]).squeeze(-1)
    coupling = left[..., own:-1]
    hessian = torch.cat(
        [torch.cat([left[..., :own], coupling], -1), torch.cat([coupling.mT, corner], -1)],
        1,
    )
    return System(hessian, torch.cat([left[..., -1], rest], -1))


def _over_views(values: Float[Tensor, "batch camera vertex number any"]) -> Float[Tensor, "batch vertex stacked any"]:
    """All views' numbers of a vertex below each other: one product then sums over the views as well."""
    return values.movedim(1, 2).flatten(2, 3)


def pixel_system(
    products: Products, state: FrameState, appearance: BlobAppearance, cameras: Cameras, basis: Basis, layout: Layout
) -> System:
    """The pixels' normal equations for all unknowns of every frame."""
    return assemble(
        products,
        vertex_derivatives(state, basis),
        projection_jacobian(cameras, state.points),
        shift_and_appearance_derivatives(state, appearance, cameras, layout),
    )
