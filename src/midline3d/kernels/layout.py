"""Where each unknown of a frame stands in its vector: told here, and read by torch, C and Triton alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Where each unknown stands in a frame's vector.

    move (3, mm), turn (2, rad about M1 and M2 of the middle vertex: about T it would be a gauge), bend (2 per node of
    the curvature's basis), log length, shift (px), then log sigma, log iota, defocus and log rho of every view.
    """

    nodes: int
    axes: int
    cameras: int

    @property
    def bend(self) -> slice:
        return slice(5, 5 + 2 * self.nodes)

    @property
    def length(self) -> int:
        return 5 + 2 * self.nodes

    @property
    def shape_count(self) -> int:
        """Unknowns that move vertices: all up to the length."""
        return self.length + 1

    @property
    def shift(self) -> slice:
        return slice(self.shape_count, self.shape_count + self.axes)

    @property
    def look(self) -> slice:
        """log sigma, log iota, defocus, log rho, each for all views."""
        return slice(self.shift.stop, self.shift.stop + 4 * self.cameras)

    @property
    def count(self) -> int:
        return self.look.stop
