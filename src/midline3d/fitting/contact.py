"""A body does not pass through itself: how much of a midline lies inside another part of its own body."""

from __future__ import annotations

import torch

from midline3d.appearance import Profile
from midline3d.cameras import Cameras, scale
from midline3d.fitting.second_order import Fit, Problem
from midline3d.shapes import Float, Tensor
from midline3d.state import FrameState

APART = 2.5
"""Widths of the body's middle along the midline from which on two places are parts that can meet: nearer ones are
neighbours, however tightly the body bends."""
INSIDE = 0.5
"""Of the width there: touching parts are a whole width from each other, so that nearer than this they would have to
share their flesh, whatever a midline's own error is."""
THIN = 0.2
"""Of the middle's width: least that an end counts for."""
IMPOSSIBLE = 1e9
"""Energy that comes on top where a midline passes through itself: it is taken where there is no other."""


def through_itself(
    taper: Profile, cameras: Cameras, state: FrameState, width: Float[Tensor, "*batch camera"]
) -> Float[Tensor, " batch"]:
    """Share of each midline that lies nearer to another part of it than half the body's width there.

    width: of the body's middle in perfect focus in the views, px.
    """
    points = state.points
    middle = (width / scale(cameras, points)).mean(1)
    place = torch.linspace(0, 1, points.shape[1], dtype=points.dtype, device=points.device)
    thick, _ = taper.shape.profile(place, points.new_zeros(*taper.sharp.shape, 2))
    thick = thick[..., 0, :].clamp(min=THIN) * middle[:, None]  # the same in all views
    along = place * state.length[:, None]
    parts = (along[:, :, None] - along[:, None]).abs() > APART * middle[:, None, None]
    mean = (thick[:, :, None] + thick[:, None]) / 2
    near = parts & (torch.cdist(points, points) < INSIDE * mean)
    return near.any(2).to(points.dtype).mean(1)


def as_bodies(problem: Problem, found: Fit, width: float, most: float) -> Float[Tensor, " batch"]:
    """The energies of fits, by which those that pass through themselves come after all that do not.

    One turn of a coil is as well drawn by two that lie inside each other, and better where its light is uneven.
    width: of a body, in sigmas of its middle; most: share of a midline that may lie inside another part of it.
    """
    through = through_itself(problem.taper, problem.views.cameras, found.state, width * problem.taper.sharp)
    return torch.nan_to_num(found.energy + IMPOSSIBLE * (through > most), nan=torch.inf)
