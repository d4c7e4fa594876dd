"""Light scattered beside the animal: how much a view has of it, and where it goes.

A lens, a dish and the gel throw a share of the light to one side, so that the animal wears a faint ghost of itself. The
curve would be drawn towards it, and its ends out into it. What scatters is a view's own and does not change, so it is
learned once and taken off the crops.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import nnls
from torch.nn.functional import avg_pool2d, conv2d, interpolate

from midline3d.shapes import Float, Tensor

SHRINK = 4
"""The ghost is blurred: a sixteenth of the pixels tell it as well."""
RINGS = ((2.0, 8), (4.0, 12))
"""How far the light goes, in widths of the sharp body, and in how many directions. Closer it is the body's own blur."""
DARK = 0.25
"""Share of the body's brightness up to which a place lies beside the body."""
LEAST = 0.06
"""Share of the light under which a view is taken to be free of it: what the model gets wrong is about half of that."""


def without(signal: Float[Tensor, "batch camera w w"], kernel: Float[Tensor, "camera k k"]) -> Tensor:
    """The signal less what has been scattered."""
    ghost = _spread(avg_pool2d(signal, SHRINK, ceil_mode=True), kernel[:, None])
    return signal - interpolate(ghost, size=signal.shape[-2:], mode="bilinear", align_corners=False)


def scattering(
    images: Float[Tensor, "batch camera w w"], right: Float[Tensor, "batch camera w w"], width: float
) -> Float[Tensor, "camera k k"] | None:
    """How each view scatters, by what its images have beside the body over what is right, none where hardly any does.

    The body's middle has the brightness 1 in both; `width` is its sigma in perfect focus, px.
    """
    images, right = (avg_pool2d(each, SHRINK, ceil_mode=True) for each in (images, right))
    basis = _basis(width / SHRINK).to(images)
    kernels = []
    for view in range(images.shape[1]):
        seen, drawn = images[:, [view]], right[:, view]
        ghosts = conv2d(seen, basis[:, None], padding=basis.shape[-1] // 2)
        beside = (drawn < DARK) & (ghosts.amax(1) > 0.02)
        shares = _shares(ghosts.movedim(1, -1)[beside], (seen[:, 0] - drawn)[beside])
        kernels.append(torch.tensordot(shares if shares.sum() > LEAST else torch.zeros_like(shares), basis, 1))
    kernel = torch.stack(kernels)
    return kernel if bool(kernel.any()) else None


def _spread(small: Tensor, kernel: Float[Tensor, "camera 1 k k"]) -> Tensor:
    return conv2d(small, kernel, padding=kernel.shape[-1] // 2, groups=len(kernel))


def _shares(ghosts: Float[Tensor, "pixel place"], more: Float[Tensor, " pixel"]) -> Float[Tensor, " place"]:
    """Non-negative least squares, damped by a hundredth because neighbouring places tell nearly the same; with Cauchy's
    weights, because dirt beside the animal is none of its light."""
    a, b = ghosts.double().cpu().numpy(), more.double().cpu().numpy()
    weight, shares = np.ones(len(b)), np.zeros(a.shape[1])
    for _ in range(6):
        square = (a * weight[:, None]).T @ a
        damped = square + 0.01 * np.trace(square) / len(square) * np.eye(len(square))
        factor = np.linalg.cholesky(damped)
        shares = nnls(factor.T, np.linalg.solve(factor, a.T @ (weight * b)))[0]
        left = b - a @ shares
        weight = 1 / (1 + (left / (1.5 * np.median(np.abs(left)) + 1e-9)) ** 2)
    return torch.from_numpy(shares).to(ghosts)


def _basis(width: float) -> Float[Tensor, "place k k"]:
    """A round blur at every place of the rings, each of sum 1."""
    reach = int(np.ceil(width * (RINGS[-1][0] + 3)))
    across = np.arange(-reach, reach + 1)
    blur = max(1.1 * width, 0.7)
    kernels = []
    for far, count in RINGS:
        for angle in 2 * np.pi * np.arange(count) / count:
            row = np.exp(-((across - far * width * np.sin(angle)) ** 2) / (2 * blur**2))
            column = np.exp(-((across - far * width * np.cos(angle)) ** 2) / (2 * blur**2))
            kernels.append(np.outer(row, column) / (row.sum() * column.sum()))
    return torch.from_numpy(np.stack(kernels))
