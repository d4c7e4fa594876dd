"""The veil: light that a view scatters beside the animal, as the wide part of its point spread.

A lens, a dish and the gel throw a share of the light aside, round or to one side, so that the animal wears a faint
ghost of itself. A curve fitted to it would be drawn towards it, and its ends out into it. What scatters is a view's own
and stays the same, so it is learned once, together with the body. With V the scattering, an image is S + V * S of what
a sharp view would show; S is found as I - V * (I - V * I), which is right to the third power of V.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch.nn.functional import avg_pool2d, interpolate

from midline3d.shapes import Float, Tensor

RINGS = ((2.0, 8), (4.0, 12), (8.0, 12))
"""How far the light goes, in widths of the sharp body, and in how many directions. Closer it is the body's own blur."""
RING_BLUR, LEAST_BLUR, PIXEL_BLUR = 0.45, 1.1, 0.7
"""Blur of a place on a ring: as a share of its distance, so that neighbours on a ring meet; at least so many widths of
the sharp body; at least so many cells, so that it is not lost between them."""
CELL, LARGEST_CELL = 1.2, 8
"""Widths of the sharp body, and px at most, that are averaged into a cell: the veil is wider than the body."""
MOST_PIXELS = 12_000
"""Cells that are asked in each view: as many as tell some thirty numbers well."""
REACHED = 1e-3
"""Of the brightest that is drawn: cells that less of it could reach say nothing of the veil."""
REWEIGHTED, SPREAD = 6, 1.5
"""Rounds of reweighting, enough to settle; and c of Cauchy's loss in medians of what is left over, which for normal
errors is one standard deviation."""


@dataclass(frozen=True)
class Veil:
    """How each view scatters light."""

    kernel: Float[Tensor, "camera k k"]
    """Shares of the light, in cells of `cell` px."""
    cell: int

    def removed(self, signal: Float[Tensor, "batch camera w w"]) -> Float[Tensor, "batch camera w w"]:
        """The signal less what has been scattered."""
        small = avg_pool2d(signal, self.cell, ceil_mode=True)
        ghost = _scattered(small, self.kernel.to(small))
        return signal - interpolate(ghost, size=signal.shape[-2:], mode="bilinear", align_corners=False)

    def shares(self) -> list[float]:
        """The share of the light that each view scatters."""
        return self.kernel.sum((1, 2)).tolist()

    def as_json(self) -> dict[str, Any]:
        return {"cell": self.cell, "kernel": self.kernel.tolist()}

    @staticmethod
    def of_json(content: dict[str, Any]) -> Veil:
        return Veil(torch.tensor(content["kernel"]), int(content["cell"]))


def learn_veil(
    images: Float[Tensor, "batch camera w w"],
    drawn: Float[Tensor, "batch camera w w"],
    spread: Float[Tensor, "batch camera w w"],
    width: float,
    damping: float,
) -> Veil:
    """How each view scatters, by what its images have over what is drawn.

    `spread` is the standard deviation of every pixel, in the images' units; `width` the body's sigma in perfect focus,
    px. Non-negative least squares, reweighted by Cauchy's loss, because dirt beside the animal is none of its light.
    """
    cell = max(1, min(LARGEST_CELL, round(CELL * width)))
    images, drawn, spread = (avg_pool2d(each, cell, ceil_mode=True) for each in (images, drawn, spread))
    basis = _basis(width / cell).to(images)
    kernels = []
    for view in range(images.shape[1]):
        ghosts = _convolved(drawn[:, [view]], basis)
        reached = ghosts.amax(1) > REACHED * float(drawn[:, view].amax())
        more = (images - drawn)[:, view]
        every = max(1, int(reached.sum()) // MOST_PIXELS)
        seen = ghosts.movedim(1, -1)[reached][::every]
        shares = _shares(seen, more[reached][::every], spread[:, view][reached][::every], damping)
        kernels.append(torch.tensordot(shares, basis, 1))
    return Veil(torch.stack(kernels), cell)


def _convolved(images: Float[Tensor, "batch any h w"], kernels: Float[Tensor, "kernel k k"]) -> Tensor:
    """Every image with every kernel (or each with its own), by Fourier transforms; beyond the border is nothing."""
    height, width = images.shape[-2:]
    half = kernels.shape[-1] // 2
    size = (_quick(height + 2 * half), _quick(width + 2 * half))
    product = torch.fft.rfft2(images, s=size) * _spectrum(kernels, size)
    return torch.fft.irfft2(product, s=size)[..., half : half + height, half : half + width]


@cache
def _quick(least: int) -> int:
    """The next length that is a product of twos, threes and fives: Fourier transforms of others take up to nine times
    as long."""
    powers = (2**a * 3**b * 5**c for a in range(14) for b in range(9) for c in range(6))
    return min(power for power in powers if power >= least)


@lru_cache(maxsize=4)
def _spectrum(kernels: Float[Tensor, "kernel k k"], size: tuple[int, int]) -> Tensor:
    """The kernels' Fourier transforms, kept: a recording's are the same in every frame."""
    return torch.fft.rfft2(kernels, s=size)


def _scattered(small: Float[Tensor, "batch camera h w"], kernel: Float[Tensor, "camera k k"]) -> Tensor:
    """V * (I - V * I)."""
    return _convolved(small - _convolved(small, kernel), kernel)


def _shares(
    ghosts: Float[Tensor, "pixel place"], more: Float[Tensor, " pixel"], spread: Float[Tensor, " pixel"], damping: float
) -> Float[Tensor, " place"]:
    from scipy.optimize import nnls  # heavy, and only where a veil is learned

    a = (ghosts / spread[:, None]).double().cpu().numpy()
    b = (more / spread).double().cpu().numpy()
    weight, shares = np.ones(len(b)), np.zeros(a.shape[1])
    for _ in range(REWEIGHTED):
        square = (a * weight[:, None]).T @ a
        damped = square + damping * np.trace(square) / len(square) * np.eye(len(square))
        factor = np.linalg.cholesky(damped + 1e-12 * np.eye(len(square)))
        shares = nnls(factor.T, np.linalg.solve(factor, a.T @ (weight * b)))[0]
        left = b - a @ shares
        weight = 1 / (1 + (left / (SPREAD * np.median(np.abs(left)) + 1e-9)) ** 2)
    return torch.from_numpy(shares).to(ghosts)


def _basis(width: float) -> Float[Tensor, "place k k"]:
    """A round blur at every place of the rings, each of sum 1; further off it is wider."""
    reach = int(np.ceil(width * RINGS[-1][0] * (1 + 2 * RING_BLUR)))
    across = np.arange(-reach, reach + 1)
    kernels = []
    for far, count in RINGS:
        blur = max(max(LEAST_BLUR, RING_BLUR * far) * width, PIXEL_BLUR)
        for angle in 2 * np.pi * np.arange(count) / count:
            row = np.exp(-((across - far * width * np.sin(angle)) ** 2) / (2 * blur**2))
            column = np.exp(-((across - far * width * np.cos(angle)) ** 2) / (2 * blur**2))
            kernels.append(np.outer(row, column) / (row.sum() * column.sum()))
    return torch.from_numpy(np.stack(kernels))
