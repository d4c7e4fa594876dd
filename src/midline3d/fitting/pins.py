"""Pins: places in single views that the midline has to run through, as a few more rows of the normal equations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from midline3d.cameras import Cameras, project
from midline3d.rendering import Products
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import FrameState

BODY = -2
"""In place of a vertex: whichever is nearest."""


@dataclass(frozen=True)
class Pins:
    """Soft constraints of a batch of frames: vertex `vertex` is seen by `camera` at `place`, give or take."""

    camera: Int[Tensor, "batch pin"]
    vertex: Int[Tensor, "batch pin"]
    """0 is the head, -1 the tail, `BODY` whichever vertex is nearest in that view."""
    place: Float[Tensor, "batch pin 2"]
    """px of the crop."""
    weight: Float[Tensor, "batch pin"]
    """Energy of a squared px: 0 where a frame has fewer pins than another."""

    def to(self, device: torch.device) -> Pins:
        return Pins(**{name: value.to(device) for name, value in vars(self).items()})

    def repeated(self, count: int) -> Pins:
        """The pins of one frame for many starts of it."""
        return Pins(**{name: value.expand(count, *value.shape[1:]) for name, value in vars(self).items()})

    def taken(self, rows: Int[Tensor, " row"]) -> Pins:
        """The pins of some of the frames."""
        return Pins(**{name: value[rows] for name, value in vars(self).items()})

    def weighted(self, times: float) -> Pins:
        """The same places, so many times as strong."""
        return Pins(self.camera, self.vertex, self.place, times * self.weight)


@dataclass(frozen=True)
class Held:
    """Where the curve runs at its pins."""

    vertex: Int[Tensor, "batch pin"]
    """The vertex that each pin holds."""
    away: Float[Tensor, "batch pin 2"]
    """From the pin to where the vertex is seen, px."""
    along: Float[Tensor, "batch pin 2"]
    """Unit direction of the curve in the view there; 0 where the vertex itself is held and not the line alone."""


def held(pins: Pins, cameras: Cameras, state: FrameState) -> Held:
    """The vertices that the pins hold in these states, and how far they are from them."""
    seen = _in_views(pins, project(cameras, state.points, state.shift))
    nearest = (seen - pins.place[:, :, None]).square().sum(-1).argmin(-1)
    last = state.vertices - 1
    free = pins.vertex == BODY
    vertex = torch.where(free, nearest, torch.where(pins.vertex < 0, last, pins.vertex))
    here, after, before = (_at(seen, place) for place in (vertex, (vertex + 1).clamp(max=last), (vertex - 1).clamp(0)))
    along = torch.nn.functional.normalize(after - before, dim=-1)
    # Beyond an end there is no line to slide along.
    line = free & (vertex > 0) & (vertex < last)
    return Held(vertex, here - pins.place, torch.where(line[..., None], along, 0.0))


def pin_energy(pins: Pins, cameras: Cameras, state: FrameState) -> Float[Tensor, " batch"]:
    """w |q - p|^2, summed over the pins."""
    return (pins.weight * held(pins, cameras, state).away.square().sum(-1)).sum(1)


def with_pins(products: Products, pins: Pins, cameras: Cameras, state: FrameState, pixels: float) -> Products:
    """The blobs' A and b with the pins' own on top, so that the normal equations of the pixels become those of both.

    A pin is a square of where one blob is seen: two rows, which add w I to A and w (q - p) to b; the row along the body
    is left out where the line alone is held. pixels: the weight that the pixels' system is multiplied by later.
    """
    at = held(pins, cameras, state)
    across = torch.eye(2).to(at.away) - at.along[..., None] * at.along[..., None, :]
    off = (across @ at.away[..., None]).squeeze(-1)
    weight = (pins.weight / pixels)[..., None]
    rows = torch.arange(len(state), device=at.away.device)[:, None].expand_as(at.vertex)
    gram, slope = products.gram.clone(), products.slope.clone()
    place = (rows, pins.camera, at.vertex)
    gram[..., :2, :2] = gram[..., :2, :2].index_put(place, weight[..., None] * across, accumulate=True)
    slope[..., :2] = slope[..., :2].index_put(place, weight * off, accumulate=True)
    return replace(products, gram=gram, slope=slope)


def distance(pins: Pins, cameras: Cameras, state: FrameState) -> Float[Tensor, "batch pin"]:
    """How far the curve runs from each of its pins, px."""
    return held(pins, cameras, state).away.norm(dim=-1)


def _in_views(pins: Pins, seen: Float[Tensor, "batch camera vertex 2"]) -> Float[Tensor, "batch pin vertex 2"]:
    """The whole curve in the view of each pin."""
    rows = torch.arange(len(seen), device=seen.device)[:, None]
    return seen[rows, pins.camera]


def _at(seen: Float[Tensor, "batch pin vertex 2"], vertex: Int[Tensor, "batch pin"]) -> Float[Tensor, "batch pin 2"]:
    return seen.gather(2, vertex[..., None, None].expand(-1, -1, 1, 2)).squeeze(2)
