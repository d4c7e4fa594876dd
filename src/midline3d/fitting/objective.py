"""What Adam descends on: project, render, score; all loss terms of a state and their gradient by its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

import torch

from midline3d import compiled, curve, losses, scoring
from midline3d.appearance import PaperTaper, Taper, optics
from midline3d.cameras import project, scale
from midline3d.fitting.views import Views
from midline3d.losses import Losses
from midline3d.rendering import Blobs, Body, Compiled, Rendering, render, select_body
from midline3d.settings import AdamSettings, LossWeights
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState

Record = TypeVar("Record", FrameState, Losses)

PARAMETERS = ("position", "frame", "curvature", "length", "shift", "sigma", "iota", "rho")
"""What Adam moves, in the order in which it stands in a frame's row; position and frame are those of vertex n_0."""


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
    body: Body | None = None
    """A renderer for torch to differentiate through; none: the fastest, with the gradient in closed form if it can be
    had."""

    @cached_property
    def goals(self) -> Float[Tensor, "batch camera level"]:
        """What the compiled renderer holds a render against while nothing is masked."""
        return Compiled().goals(self.views.images.contiguous())


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
    return _side_by_side(state.points[rows, start], state.frames[rows, start], vars(state))


def widths(state: FrameState) -> list[int]:
    """How many places each of the parameters takes in a row."""
    views = state.sigma.shape[1]
    return [3, 9, 2 * state.vertices, 1, state.shift.shape[1], views, views, views]


def assembled(values: Float[Tensor, "batch parameter"], state: FrameState, start: Int[Tensor, " batch"]) -> FrameState:
    """The state as a function of a row of parameters, the rest being as in `state` (eq. 1)."""
    parts = dict(zip(PARAMETERS, values.split(widths(state), 1), strict=True))
    bend, length = parts["curvature"].unflatten(1, (-1, 2)), parts["length"].squeeze(1)
    made = curve.through(parts["position"], parts["frame"].unflatten(1, (3, 3)), bend, length, start)
    rest = {name: parts[name] for name in PARAMETERS[4:]}
    return replace(state, points=made.points, frames=made.frames, curvature=bend, length=length, **rest)


def measure(descent: Descent, state: FrameState) -> tuple[Losses, Float[Tensor, "batch vertex"]]:
    """All weighted loss terms and the relative scores of a state; differentiable."""
    views = descent.views
    # Detached: light's way through the body should darken the image, not turn the curve.
    seen = optics(views.cameras, state.points.detach(), state.frames[..., 0].detach())
    look = descent.taper.look(state.view_look, seen)
    blobs = look.blobs(project(views.cameras, state.points, state.shift), state.rho)
    rendering = render(blobs, views.images, descent.cutoff, descent.body)
    peaked = scoring.single_peak(scoring.raw_scores(rendering.overlap, blobs))
    shares = scoring.relative(peaked.detach())
    radius = (look.sigma / scale(views.cameras, state.points)[..., None]).mean(1)
    zero = torch.zeros_like(state.length)
    terms = Losses(
        pixels=losses.pixel_loss(rendering.image, _target(descent, shares, blobs)),
        scores=losses.scores_loss(peaked),
        smoothness=losses.smoothness_loss(state.curvature),
        temporal=zero if descent.previous is None else losses.temporal_loss(state, descent.previous),
        intersections=losses.intersections_loss(state.points, radius, descent.bounds.circles),
        size=losses.size_loss(state.curvature),
    )
    return terms.weighted(descent.weights), shares


def slope(
    descent: Descent, values: Float[Tensor, "batch parameter"], state: FrameState, start: Int[Tensor, " batch"]
) -> Slope:
    """Loss terms and gradient at a row of parameters, the rest being as in `state`."""
    tensors = (values, state.defocus, descent.views.images, *vars(descent.views.cameras).values())
    if descent.body is None and isinstance(descent.taper, PaperTaper) and compiled.takes(*tensors):
        body = select_body("cpu")
        if isinstance(body, Compiled):
            with torch.no_grad():
                return _closed_form(descent, descent.taper, body, values, state, start)
    values = values.detach().requires_grad_()
    made = assembled(values, state, start)
    terms, shares = measure(descent, made)
    (gradient,) = torch.autograd.grad(terms.total().sum(), values)
    return Slope(_detached(made), _detached(terms), shares, gradient)


def _closed_form(
    descent: Descent, taper: PaperTaper, body: Compiled, values: Tensor, state: FrameState, start: Tensor
) -> Slope:
    """The same without automatic differentiation: each step of `measure`, then each one's transpose, a call each."""
    made, weights = assembled(values, state, start), descent.weights
    images, rig = descent.views.images.contiguous(), vars(descent.views.cameras)
    (sigma, by_own_sigma), (iota, by_own_iota) = taper.tapered(made.view_look)
    blobs = Blobs(project(descent.views.cameras, made.points, made.shift), sigma, iota, made.rho.contiguous())
    rendering, owner = body.forward(blobs, images, descent.cutoff)
    told = (rendering.overlap, sigma, iota, made.points, made.curvature)
    apart = int(made.vertices / descent.bounds.circles)
    (scores, smoothness, intersections, size), shares = compiled.terms(rig, told, apart)
    goals = body.goals(_target(descent, shares, blobs)) if descent.settings.theta else descent.goals
    pixels, levels = body.pyramid(rendering.image, goals)
    temporal, by = _temporal(descent, made)
    terms = Losses(pixels.sum(1), scores, smoothness, temporal, intersections, size).weighted(weights)

    above = scores.new_tensor([[weights.scores], [weights.smoothness], [weights.intersections], [weights.size]])
    by_overlap, by_sigma, by_iota, *by_curve = compiled.terms_pull(rig, told, apart, above.expand(-1, len(made)))
    by_image = body.unfold(levels, torch.full_like(pixels, weights.pixels), images.shape)
    upstream = Rendering(by_image, by_overlap, torch.zeros_like(by_overlap))
    by_blob = body.backward(blobs, images, owner, upstream, descent.cutoff)
    by_place, by_shift = compiled.project_pull(rig, made.points, made.shift, by_blob)
    looks = [((by_sigma + by_blob[..., 2]) * by_own_sigma).sum(-1), ((by_iota + by_blob[..., 3]) * by_own_iota).sum(-1)]
    by = _added(by, ("points", "curvature"), by_curve)
    by = _added(by, ("points", "shift", "sigma", "iota", "rho"), [by_place, by_shift, *looks, by_blob[..., 4].sum(-1)])
    frame = values[:, 3:12].unflatten(1, (3, 3))
    curved = (frame, made.curvature, made.length, start, (made.points, made.frames))
    by_position, by_frame, *by_bend = compiled.integrate_pull(*curved, by["points"])
    by = _added(by, ("curvature", "length"), by_bend)
    return Slope(made, terms, shares, _side_by_side(by_position, by_frame, by))


def _added(by: dict[str, Tensor], names: Sequence[str], parts: Sequence[Tensor]) -> dict[str, Tensor]:
    """Gradients by the state's tensors, with these added to those that are there already."""
    return by | {name: by[name] + part if name in by else part for name, part in zip(names, parts, strict=True)}


def _temporal(descent: Descent, state: FrameState) -> tuple[Float[Tensor, " batch"], dict[str, Tensor]]:
    """The temporal loss and its weighted gradient: a handful of small sums, differentiated by torch."""
    if descent.previous is None or descent.weights.temporal == 0:
        return torch.zeros_like(state.length), {}
    names = ("points", *PARAMETERS[2:])
    with torch.enable_grad():
        free = {name: getattr(state, name).detach().requires_grad_() for name in names}
        loss = losses.temporal_loss(replace(state, **free), descent.previous)
        gradient = torch.autograd.grad(loss.sum() * descent.weights.temporal, list(free.values()))
    return loss.detach(), dict(zip(names, gradient, strict=True))


def _target(descent: Descent, shares: Tensor, blobs: Blobs) -> Tensor:
    settings, images = descent.settings, descent.views.images.contiguous()
    if settings.theta == 0:
        return images
    with torch.no_grad():
        mask = render(scoring.mask_blobs(blobs, shares), images, descent.cutoff, descent.body).image
    return scoring.masked(images, mask, settings.theta, settings.outside)


def _side_by_side(position: Tensor, frame: Tensor, rest: dict[str, Tensor]) -> Float[Tensor, "batch parameter"]:
    """Parameters, or gradients by them, in the order of `PARAMETERS`."""
    looks = [rest[name] for name in PARAMETERS[4:]]
    return torch.cat([position, frame.flatten(1), rest["curvature"].flatten(1), rest["length"][:, None], *looks], 1)


def _detached(record: Record) -> Record:
    return type(record)(**{item.name: getattr(record, item.name).detach() for item in fields(record)})
