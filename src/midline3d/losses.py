"""Five terms and their visible sum. Every term is a sum over its parts for each frame of the batch.

Units: the published weights only keep their intent in the units that the working method used. Curvature counts as
angle per segment, K / (N - 1); pixels as a sum over all pixels of squared differences of logarithms, over a pyramid.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch.nn.functional import avg_pool2d

from midline3d.settings import LossWeights
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState


@dataclass(frozen=True)
class Losses:
    """The weighted terms of a batch of frames."""

    pixels: Float[Tensor, " batch"]
    scores: Float[Tensor, " batch"]
    smoothness: Float[Tensor, " batch"]
    temporal: Float[Tensor, " batch"]
    intersections: Float[Tensor, " batch"]
    size: Float[Tensor, " batch"]

    def total(self) -> Float[Tensor, " batch"]:
        """L (eq. 15)."""
        return self.pixels + self.scores + self.smoothness + self.temporal + self.intersections + self.size

    def weighted(self, weights: LossWeights) -> Losses:
        """Each term times its weight of the same name."""
        return Losses(**{item.name: getattr(self, item.name) * getattr(weights, item.name) for item in fields(self)})


def pixel_loss(
    render: Float[Tensor, "batch camera height width"], target: Float[Tensor, "batch camera height width"]
) -> Float[Tensor, " batch"]:
    """L_px of logarithms, summed over a pyramid down to one pixel.

    The coarse levels pull in a curve that does not touch the animal yet; at the finest alone it stays where it is
    unless it overlaps already. The logarithm weighs a faint tip against a dark middle.
    """
    loss = torch.zeros(len(render), dtype=render.dtype, device=render.device)
    while True:
        loss = loss + (render.log1p() - target.log1p()).square().sum((1, 2, 3))
        if max(render.shape[-2:]) == 1:
            return loss
        render, target = _halved(render), _halved(target)


def mean_squares(
    render: Float[Tensor, "batch camera height width"], target: Float[Tensor, "batch camera height width"]
) -> Float[Tensor, " batch"]:
    """L_px as printed: the mean of squared differences over all pixels of all views (eq. 7)."""
    return (render - target).square().mean((1, 2, 3))


def _halved(image: Float[Tensor, "batch camera height width"]) -> Float[Tensor, "batch camera h w"]:
    return avg_pool2d(image, 3, stride=2, padding=1)


def scores_loss(peaked: Float[Tensor, "batch vertex"]) -> Float[Tensor, " batch"]:
    """L_sc = max(S') N / sum(S''), S'' = S' weighted by the squared distance from the middle (eq. 8, 9).

    A curve that meets nothing has no scores to compare: its loss is 0, and the pixels alone pull.
    """
    count = peaked.shape[1]
    place = torch.linspace(-1, 1, count, dtype=peaked.dtype, device=peaked.device)
    weighted = (peaked * place.square()).sum(1)
    best = peaked.amax(1)
    met = weighted > 1e-6 * best.clamp(min=1e-12)
    return torch.where(met, best * count / torch.where(met, weighted, 1.0), 0.0)


def smoothness_loss(
    curvature: Float[Tensor, "batch vertex 2"], second_neighbours: float = 0.5
) -> Float[Tensor, " batch"]:
    """L_sm: squared change of curvature between neighbours (eq. 10), and a share of it between second neighbours."""
    turns = curvature / (curvature.shape[1] - 1)
    first = (turns[:, 1:] - turns[:, :-1]).square().sum((1, 2))
    second = (turns[:, 2:] - turns[:, :-2]).square().sum((1, 2))
    return first + second_neighbours * second


def size_loss(curvature: Float[Tensor, "batch vertex 2"]) -> Float[Tensor, " batch"]:
    """Sum of squared curvature."""
    return (curvature / (curvature.shape[1] - 1)).square().sum((1, 2))


def temporal_loss(state: FrameState, previous: FrameState) -> Float[Tensor, " batch"]:
    """L_t: squared change of everything since the frame before (eq. 11), each in units of its usual size.

    Positions in mm per vertex, curvature as angle per segment, shifts in tens of px, sigma, iota and rho relative.
    """
    turns = (state.curvature - previous.curvature) / (state.vertices - 1)
    change = (state.length - previous.length).square() + turns.square().sum((1, 2))
    change = change + (state.points - previous.points).square().sum(-1).mean(1)
    change = change + ((state.shift - previous.shift) / 10).square().sum(1)
    for name in ("sigma", "iota", "rho"):
        change = change + (getattr(state, name) / getattr(previous, name) - 1).square().sum(1)
    return change


def intersections_loss(
    points: Float[Tensor, "batch vertex 3"], radius: Float[Tensor, "batch vertex"], circles: float
) -> Float[Tensor, " batch"]:
    """L_i: d' / d for every pair of vertices closer than their radii together, N / k_max or more apart (eq. 12 to 14).

    `radius` is the views' mean sigma-bar in mm: each view's width in px divided by its magnification.
    """
    count = points.shape[1]
    apart = int(count / circles)
    distance = (points[:, :, None] - points[:, None]).square().sum(-1).clamp(min=1e-12).sqrt()
    allowed = radius[:, :, None] + radius[:, None]
    far = torch.ones(count, count, dtype=torch.bool, device=points.device).triu(apart)
    return torch.where(far & (distance < allowed), allowed / distance, 0.0).sum((1, 2))
