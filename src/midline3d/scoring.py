"""How well each vertex sits on the animal in all views: scores, single peak, masks, centre of mass."""

from __future__ import annotations

import torch

from midline3d.rendering import Blobs
from midline3d.shapes import Float, Int, Tensor


def raw_scores(overlap: Float[Tensor, "batch camera vertex"], blobs: Blobs) -> Float[Tensor, "batch vertex"]:
    """S_n: the worst view's sum(B I) / (sigma iota) (eq. 4). It grows with sigma, as the paper's does."""
    return (overlap / (blobs.sigma * blobs.iota)).amin(1)


def single_peak(scores: Float[Tensor, "batch vertex"]) -> Float[Tensor, "batch vertex"]:
    """S': scores that only fall from the middle vertex outward (eq. 5): two running minima."""
    middle = scores.shape[1] // 2
    head = scores[:, : middle + 1].flip(1).cummin(1).values.flip(1)
    tail = scores[:, middle:].cummin(1).values
    return torch.cat([head, tail[:, 1:]], 1)


def relative(peaked: Float[Tensor, "batch vertex"]) -> Float[Tensor, "batch vertex"]:
    """S-hat: scores as a share of the best (eq. 6); a curve that meets nothing scores 0 everywhere."""
    best = peaked.amax(1, keepdim=True)
    return torch.where(best > 0, peaked / torch.where(best > 0, best, 1.0), 0.0)


def mask_blobs(blobs: Blobs, shares: Float[Tensor, "batch vertex"]) -> Blobs:
    """Blobs whose render is M': each divided by its peak and scaled by its vertex's relative score (app. D).

    By the peak, not by the sum as printed: divided by its sum no pixel of a blob of 5 px would reach the threshold.
    """
    # Detached: otherwise the curve fades to shrink its own mask.
    return Blobs(blobs.centre, blobs.sigma, shares[:, None].expand_as(blobs.iota), blobs.rho).detach()


def masked(
    images: Float[Tensor, "batch camera height width"],
    mask_render: Float[Tensor, "batch camera height width"],
    threshold: float,
    outside: float,
) -> Float[Tensor, "batch camera height width"]:
    """I* = M I, with M = 1 where the mask's render reaches Theta and `outside` elsewhere (app. D)."""
    return torch.where(mask_render >= threshold, images, images * outside)


def imbalance(shares: Float[Tensor, "batch vertex"]) -> Float[Tensor, " batch"]:
    """n_s: how far the scores' centre of mass lies from the middle of the body, in vertices (app. E)."""
    count = shares.shape[1]
    vertices = torch.arange(count, dtype=shares.dtype, device=shares.device)
    total = shares.sum(1)
    # (N - 1) / 2, not N / 2: a symmetric profile must not ask for a shift.
    return torch.where(total > 0, (shares * vertices).sum(1) / total.clamp(min=1e-12) - (count - 1) / 2, 0.0)


def centre_shift(shares: Float[Tensor, "batch vertex"], sensitivity: float, largest: int) -> Int[Tensor, " batch"]:
    """Whole vertices to shift the curve by: none under `sensitivity` N, at most `largest` (app. E)."""
    off = imbalance(shares)
    wanted = off.round().clamp(-largest, largest).long()
    return torch.where(off.abs() > sensitivity * shares.shape[1], wanted, 0)
