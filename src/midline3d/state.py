"""All parameters of a batch of frames, how they are bounded, and how a frame starts from the one before."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch

from midline3d import curve
from midline3d.appearance import ViewAppearance
from midline3d.rows import side_by_side, split_rows
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
    defocus: Float[Tensor, "batch camera"]
    """px of blur per mm of depth; 0 in the paper's model."""
    rho: Float[Tensor, "batch camera"]

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
    """All numbers of every frame in a row, field by field in their order; see `rows.side_by_side`."""
    return side_by_side(list(vars(state).values()))


def unpacked(rows: Float[Tensor, "batch number"], like: FrameState) -> FrameState:
    """The states that rows of `packed` begin with, for the sizes of another; they share the rows' memory."""
    shapes = {name: tuple(value.shape[1:]) for name, value in vars(like).items()}
    return FrameState(**dict(zip(shapes, split_rows(rows, list(shapes.values())), strict=True)))


def where(choice: Tensor, first: FrameState, second: FrameState) -> FrameState:
    """Frame by frame the first state where `choice` holds, else the second."""
    chosen = {}
    for item in fields(FrameState):
        one, other = getattr(first, item.name), getattr(second, item.name)
        chosen[item.name] = torch.where(choice.view(-1, *[1] * (one.ndim - 1)), one, other)
    return FrameState(**chosen)
