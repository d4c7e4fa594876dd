"""All parameters of a batch of frames, how they are bounded, and how a frame starts from the one before."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from itertools import accumulate

import torch

from midline3d import curve
from midline3d.appearance import ViewAppearance
from midline3d.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class Bounds:
    """What no parameter may leave."""

    length: tuple[float, float]
    """mm."""
    sigma: tuple[float, float]
    """px."""
    iota: tuple[float, float]
    rho: tuple[float, float]
    defocus: float
    """px per mm, either way."""
    circles: float
    """k_max: the tightest constant curvature, in full circles over the body."""


@dataclass(frozen=True)
class FrameState:
    """Curve, renderer and shifts of a batch of frames, in each frame's own local world (see `Cameras.local`)."""

    points: Float[Tensor, "batch vertex 3"]
    """P, mm."""
    bishop: Float[Tensor, "batch vertex 3 3"]
    """Columns T, M1, M2."""
    curvature: Float[Tensor, "batch vertex 2"]
    """K, per body length."""
    length: Float[Tensor, " batch"]
    """l, mm."""
    shift: Float[Tensor, "batch axis"]
    """eta^s, px."""
    sigma: Float[Tensor, "batch camera"]
    """px."""
    iota: Float[Tensor, "batch camera"]
    rho: Float[Tensor, "batch camera"]
    defocus: Float[Tensor, "batch camera"]
    """px of blur per mm of depth; 0 in the paper's model."""

    def __len__(self) -> int:
        return len(self.length)

    def __getitem__(self, index: slice | Tensor | list[int]) -> FrameState:
        return FrameState(**{item.name: getattr(self, item.name)[index] for item in fields(self)})

    def to(self, device: torch.device) -> FrameState:
        return FrameState(**{item.name: getattr(self, item.name).to(device) for item in fields(self)})

    @property
    def vertices(self) -> int:
        return self.points.shape[1]

    def translated(self, offset: Float[Tensor, "batch 3"]) -> FrameState:
        """The same curves seen from another origin: `offset` mm are added to every point."""
        return replace(self, points=self.points + offset[:, None])

    def rebuilt(self, start: Int[Tensor, " batch"]) -> FrameState:
        """The full curve and Bishop frames made anew from those at vertex `start` (eq. 1)."""
        rows = torch.arange(len(self), device=start.device)
        made = curve.through(self.points[rows, start], self.bishop[rows, start], self.curvature, self.length, start)
        return replace(self, points=made.points, bishop=made.bishop)

    def clamped(self, bounds: Bounds) -> FrameState:
        """All parameters within their bounds; the curve is made anew about its middle."""
        return self.within(bounds).rebuilt(self.middle())

    def within(self, bounds: Bounds) -> FrameState:
        """All parameters within their bounds, the curve left as it was."""
        return replace(
            self,
            curvature=curve.bounded(self.curvature, bounds.circles),
            length=self.length.clamp(*bounds.length),
            sigma=self.sigma.clamp(*bounds.sigma),
            iota=self.iota.clamp(*bounds.iota),
            rho=self.rho.clamp(*bounds.rho),
            defocus=self.defocus.clamp(-bounds.defocus, bounds.defocus),
        )

    @property
    def view_appearance(self) -> ViewAppearance:
        return ViewAppearance(self.sigma, self.iota, self.defocus)

    def middle(self) -> Int[Tensor, " batch"]:
        """The middle vertex, once for each frame: what a step moves and turns."""
        return torch.full((len(self),), self.vertices // 2, device=self.points.device)

    def shifted(self, by: Int[Tensor, " batch"]) -> FrameState:
        """The curve moved along itself by whole vertices, keeping the place of the vertex that becomes the middle."""
        rows = torch.arange(len(self), device=by.device)
        middle = self.middle()
        points, bishop = self.points.clone(), self.bishop.clone()
        points[rows, middle] = self.points[rows, middle + by]
        bishop[rows, middle] = self.bishop[rows, middle + by]
        along = replace(self, points=points, bishop=bishop, curvature=curve.shifted(self.curvature, by))
        return along.rebuilt(middle)

    def reversed(self) -> FrameState:
        """The same animal with head and tail exchanged."""
        return replace(
            self,
            points=self.points.flip(1),
            bishop=curve.reversed_bishop(self.bishop.flip(1)),
            curvature=curve.reversed_curvature(self.curvature),
        )


def merged(states: list[FrameState]) -> FrameState:
    """One batch out of several."""
    return FrameState(
        **{item.name: torch.cat([getattr(state, item.name) for state in states]) for item in fields(FrameState)}
    )


def packed(state: FrameState) -> Float[Tensor, "batch number"]:
    """All numbers of every frame in a row, field by field in their order.

    Where the fields lie so in memory already (see `unpacked`) these are the rows that they lie in, and nothing is
    copied; else a copy.
    """
    values = list(vars(state).values())
    begins = list(accumulate((math.prod(value.shape[1:]) for value in values), initial=0))
    if len(state) and all(_follows(values[0], value, begin) for value, begin in zip(values, begins, strict=False)):
        return values[0].as_strided((len(state), begins[-1]), (values[0].stride(0), 1))
    return torch.cat([value.reshape(len(state), -1) for value in values], 1)


def _follows(first: Tensor, value: Tensor, begin: int) -> bool:
    """Whether a tensor's rows lie `begin` numbers behind those of the first, in the same memory."""
    if value.untyped_storage().data_ptr() != first.untyped_storage().data_ptr() or not value[0].is_contiguous():
        return False
    # What lies between rows says nothing where there is but one.
    beside = len(value) == 1 or value.stride(0) == first.stride(0)
    return beside and value.storage_offset() - first.storage_offset() == begin


def unpacked(rows: Float[Tensor, "batch number"], like: FrameState) -> FrameState:
    """The states that rows of `packed` begin with, for the sizes of another; they share the rows' memory."""
    shapes = {name: value.shape[1:] for name, value in vars(like).items()}
    sizes = [math.prod(shape) for shape in shapes.values()]
    named = zip(shapes.items(), rows[:, : sum(sizes)].split(sizes, 1), strict=True)
    return FrameState(**{name: part.unflatten(1, shape) if shape else part[:, 0] for (name, shape), part in named})


def where(choice: Tensor, first: FrameState, second: FrameState) -> FrameState:
    """Frame by frame the first state where `choice` holds, else the second."""
    chosen = {}
    for item in fields(FrameState):
        one, other = getattr(first, item.name), getattr(second, item.name)
        chosen[item.name] = torch.where(choice.view(-1, *[1] * (one.ndim - 1)), one, other)
    return FrameState(**chosen)
