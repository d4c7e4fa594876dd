"""The rule of Levenberg and Marquardt: which steps are taken, and how much the next one is damped."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from midline3d.shapes import Bool, Float, Tensor


@dataclass(frozen=True)
class Damping:
    """How a fit is damped: shares of the normal equations' diagonal that are added to it."""

    first: float = 1e-3
    """Near enough to Gauss-Newton for a start that is nearly right."""
    least: float = 1e-6
    most: float = 1e4
    """A step that is damped as much does not move anything."""
    eased: float = 0.2
    """What a step that was an improvement leaves of it."""
    raised: float = 8.0
    """What one that was none makes of it: two or three in a row change the direction as well as the size."""

    def better(self, before: Float[Tensor, "*batch"], after: Float[Tensor, "*batch"]) -> Bool[Tensor, "*batch"]:
        """Whether a step is taken: where it lowers the energy. One that could not be solved for (NaN) does not."""
        return after < before

    def next(self, damping: Float[Tensor, "*batch"], better: Bool[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """How much the step after this one is damped."""
        return torch.where(better, damping * self.eased, damping * self.raised).clamp(self.least, self.most)
