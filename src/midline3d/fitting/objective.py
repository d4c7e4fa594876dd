"""What Adam descends on: project, render, score; all loss terms of a state and their gradient by its parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch

from midline3d import curve, losses, scoring
from midline3d.appearance import Taper, optics
from midline3d.cameras import project, scale
from midline3d.fitting.views import Views
from midline3d.losses import Losses
from midline3d.rendering import Blobs, Renderer, render
from midline3d.settings import AdamSettings, LossWeights
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState

Record = TypeVar("Record", FrameState, Losses)

PARAMETERS = ("position", "bishop", "curvature", "length", "shift", "sigma", "iota", "rho")
"""What Adam moves, in the order in which it stands in a frame's row; position and Bishop frame are vertex n_0's."""


@dataclass(frozen=True)
class Descent:
    """What stays fixed while a batch descends."""

    views: Views
    taper: Taper
    weights: LossWeights
    bounds: Bounds
    settings: AdamSettings
    cutoff: float
    """Share of its peak under which a blob is cut."""
    previous: FrameState | None = None
    """The frame before, for the temporal loss; none for a first frame."""
    renderer: Renderer | None = None
    """A renderer for torch to differentiate through; none: the fastest."""


@dataclass(frozen=True)
class Slope:
    """A batch of frames at one place of the descent."""

    state: FrameState
    terms: Losses
    """Weighted."""
    shares: Float[Tensor, "batch vertex"]
    gradient: Float[Tensor, "batch parameter"]
    """Of the terms' sum."""


def row(state: FrameState, start: Int[Tensor, " batch"]) -> Float[Tensor, "batch parameter"]:
    """All parameters of a frame side by side."""
    rows = torch.arange(len(state), device=start.device)
    place, bishop = state.points[rows, start], state.bishop[rows, start].flatten(1)
    rest = [getattr(state, name) for name in PARAMETERS[4:]]
    return torch.cat([place, bishop, state.curvature.flatten(1), state.length[:, None], *rest], 1)


def widths(state: FrameState) -> list[int]:
    """How many places each of the parameters takes in a row."""
    views = state.sigma.shape[1]
    return [3, 9, 2 * state.vertices, 1, state.shift.shape[1], views, views, views]


def assembled(values: Float[Tensor, "batch parameter"], state: FrameState, start: Int[Tensor, " batch"]) -> FrameState:
    """The state as a function of a row of parameters, the rest being as in `state` (eq. 1)."""
    parts = dict(zip(PARAMETERS, values.split(widths(state), 1), strict=True))
    bend, length = parts["curvature"].unflatten(1, (-1, 2)), parts["length"].squeeze(1)
    made = curve.through(parts["position"], parts["bishop"].unflatten(1, (3, 3)), bend, length, start)
    rest = {name: parts[name] for name in PARAMETERS[4:]}
    return replace(state, points=made.points, bishop=made.bishop, curvature=bend, length=length, **rest)


def measure(descent: Descent, state: FrameState) -> tuple[Losses, Float[Tensor, "batch vertex"]]:
    """All weighted loss terms and the relative scores of a state; differentiable."""
    views = descent.views
    # Detached: light's way through the body should darken the image, not turn the curve.
    seen = optics(views.cameras, state.points.detach(), state.bishop[..., 0].detach())
    appearance = descent.taper.apply(state.view_appearance, seen)
    blobs = appearance.blobs(project(views.cameras, state.points, state.shift), state.rho)
    rendering = render(blobs, views.images, descent.cutoff, descent.renderer)
    peaked = scoring.single_peak(scoring.raw_scores(rendering.overlap, blobs))
    shares = scoring.relative(peaked.detach())
    radius = (appearance.sigma / scale(views.cameras, state.points)[..., None]).mean(1)
    zero = torch.zeros_like(state.length)
    pixel_loss = losses.mean_squares if descent.weights.pixel_form == "squares" else losses.pixel_loss
    terms = Losses(
        pixels=pixel_loss(rendering.image, _target(descent, shares, blobs)),
        scores=losses.scores_loss(peaked),
        smoothness=losses.smoothness_loss(state.curvature, descent.weights.second_neighbours),
        temporal=zero if descent.previous is None else losses.temporal_loss(state, descent.previous),
        intersections=losses.intersections_loss(state.points, radius, descent.bounds.circles),
        size=losses.size_loss(state.curvature),
    )
    return terms.weighted(descent.weights), shares


def slope(
    descent: Descent, values: Float[Tensor, "batch parameter"], state: FrameState, start: Int[Tensor, " batch"]
) -> Slope:
    """Loss terms and gradient at a row of parameters, the rest being as in `state`."""
    values = values.detach().requires_grad_()
    made = assembled(values, state, start)
    terms, shares = measure(descent, made)
    (gradient,) = torch.autograd.grad(terms.total().sum(), values)
    return Slope(_detached(made), _detached(terms), shares, gradient)


def _target(descent: Descent, shares: Tensor, blobs: Blobs) -> Tensor:
    settings, images = descent.settings, descent.views.images.contiguous()
    if settings.theta == 0:
        return images
    with torch.no_grad():
        mask = render(scoring.mask_blobs(blobs, shares), images, descent.cutoff, descent.renderer).image
    return scoring.masked(images, mask, settings.theta, settings.outside)


def _detached(record: Record) -> Record:
    return type(record)(**{item.name: getattr(record, item.name).detach() for item in fields(record)})
