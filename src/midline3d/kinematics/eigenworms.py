"""Postures as sums of few: complex principal components of the curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.kinematics.shape import BLOCK, derivative, integral

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Eigenworms:
    """Modes of K over the body, the strongest first."""

    modes: Complex
    """(mode, vertex), each with int |e|^2 du = 1, turned so that it bends most in its real part."""
    share: Array
    """(mode,) share of int |K|^2 du, over all frames, that each explains."""
    amplitude: Array
    """(time, mode) 1/body length: |int conj(e) K du|."""
    phase: Array
    """(time, mode) rad: phase of each mode's amplitude against the first's, which no free angle changes."""


def eigenworms(curvature: Complex, count: int) -> Eigenworms:
    """Of K (time, vertex), 1/body length, with whatever free angle in each frame.

    Modes are eigenvectors of sum_t K_t(u) conj(K_t(v)), in which a frame's free angle cancels. No mean is subtracted:
    the mean of K depends on the free angles.
    """
    vertices = curvature.shape[1]
    weights = np.full(vertices, 1 / (vertices - 1))
    weights[[0, -1]] /= 2
    root = np.sqrt(weights)
    summed = np.zeros((vertices, vertices), np.complex128)
    for first in range(0, len(curvature), BLOCK):
        scaled = curvature[first : first + BLOCK] * root
        summed += scaled.T @ np.conj(scaled)
    values, vectors = np.linalg.eigh(summed)
    best = np.argsort(values)[::-1][: min(count, vertices)]
    modes = _settled((vectors[:, best] / root[:, None]).T)
    amplitude = curvature @ (np.conj(modes) * weights).T
    relative = np.angle(amplitude * np.conj(amplitude[:, :1]))
    share = np.maximum(values[best], 0) / max(float(values.sum()), 1e-300)
    return Eigenworms(modes, share, np.abs(amplitude), relative)


def _settled(modes: Complex) -> Complex:
    """Each mode with its own free angle settled: most of it real, and the real part's middle above 0 at its largest."""
    moment = integral(modes**2)
    turned = modes * np.exp(-0.5j * np.angle(moment))[:, None]
    largest = np.abs(turned.real).argmax(-1)
    return np.asarray(turned * np.sign(np.take_along_axis(turned.real, largest[:, None], 1)))


def mode_handedness(modes: Complex) -> Array:
    """(mode,) 1/body length: int Im(conj(e) e') du, the twist of each mode by itself."""
    return np.asarray(integral((np.conj(modes) * derivative(modes)).imag))
