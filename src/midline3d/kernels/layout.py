"""Where each unknown of a frame stands in its vector. Said here alone: torch, C and Triton read it from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

SIZES = ("nodes", "axes", "cameras")
"""What decides where all else stands."""
PLACES = ("move", "turn", "bend", "length", "shift", "sigma", "iota", "defocus", "rho", "count")
"""Where each block of unknowns begins, and where the last ends."""
NUMBERS = (*SIZES, *PLACES)
"""All of a layout, as C (`layouts`) and Triton (`MOVE`, ...) read it."""


@dataclass(frozen=True)
class Layout:
    """Where each unknown stands in a frame's vector.

    move (3, mm), turn (2, rad about M1 and M2 of the middle vertex: about T it would be a gauge), bend (2 per node of
    the curvature's basis), log length, shift (px), then log sigma, log iota, defocus and log rho of every view. Those
    that move vertices come first; those that the prior knows (all from `bend` on) are one block.
    """

    nodes: int
    axes: int
    cameras: int

    @cached_property
    def move(self) -> slice:
        return slice(0, 3)

    @cached_property
    def turn(self) -> slice:
        return slice(self.move.stop, self.move.stop + 2)

    @cached_property
    def bend(self) -> slice:
        """The nodes of m1, then those of m2."""
        return slice(self.turn.stop, self.turn.stop + 2 * self.nodes)

    @cached_property
    def length(self) -> int:
        return self.bend.stop

    @cached_property
    def shape_count(self) -> int:
        """Unknowns that move vertices: all up to the length."""
        return self.length + 1

    @cached_property
    def shift(self) -> slice:
        return slice(self.shape_count, self.shape_count + self.axes)

    @cached_property
    def appearance(self) -> slice:
        """log sigma, log iota, defocus, log rho, each for all views."""
        return slice(self.shift.stop, self.shift.stop + 4 * self.cameras)

    @cached_property
    def kept(self) -> slice:
        """What is held to the frame before: log length, shifts and appearance."""
        return slice(self.length, self.count)

    @cached_property
    def count(self) -> int:
        return self.appearance.stop

    def places(self) -> tuple[int, ...]:
        """The numbers of `PLACES`."""
        views = [self.appearance.start + kind * self.cameras for kind in range(4)]
        first = (self.move.start, self.turn.start, self.bend.start, self.length, self.shift.start)
        return (*first, *views, self.count)

    def numbers(self) -> tuple[int, ...]:
        """Those of `NUMBERS`."""
        return (self.nodes, self.axes, self.cameras, *self.places())
