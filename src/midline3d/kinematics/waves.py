"""The wave that runs along the body: frequency, wavelength, speed, and how far it travels at all.

All of it from the analytic signal A(u, t) of the curvature in the bending plane: the signal and, as its imaginary part,
its Hilbert transform in time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import hilbert

from midline3d.kinematics.options import Options
from midline3d.kinematics.smoothing import Flags, Window, local_quadratic

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
PLACES = 33
"""Places along the body at which the wave is looked at."""
TIPS = 0.05
"""Share of the body left out at either end, where curvature is known least."""
LONGEST_GAP = 0.2
"""s: shorter gaps are bridged by straight lines before the transform; those frames stay NaN."""
PERIODS = 2.0
"""Periods that a stretch without longer gaps must have."""
TRAVELLING = 0.2
"""With a lower index the wave stands, and has neither wavelength nor speed to speak of."""


@dataclass(frozen=True, eq=False)
class Wave:
    """What runs along the body in every frame; NaN where that is not known."""

    frequency: Array
    """(time,) Hz."""
    wavelength: Array
    """(time,) mm."""
    speed: Array
    """(time,) mm/s along the body, above 0 from head to tail."""
    amplitude: Array
    """(time,) 1/mm: root mean square over the body of the wave's envelope."""
    index: Array
    """(time,) 1 for a travelling wave, 0 for a standing one."""


def wave(bending: Array, length: Array, valid: Flags, fps: float, options: Options) -> Wave:
    """The wave in the curvature of the bending plane (time, vertex), 1/body length. length: (time,) mm.

    frequency = (1 / 2 pi) d/dt arg sum_u A(u, t), by the phase that all places gain together from frame to frame;
    q = d/du arg A, by the phase from place to place, likewise weighted by |A|^2; wavelength = 2 pi l / |q|;
    speed = -2 pi frequency l / q.
    """
    places = np.linspace(TIPS, 1 - TIPS, PLACES) * (bending.shape[1] - 1)
    low = np.floor(places).astype(int)
    share = places - low
    signal = bending[:, low] * (1 - share) + bending[:, np.minimum(low + 1, bending.shape[1] - 1)] * share
    known = valid & np.isfinite(signal).all(-1)
    analytic = _analytic(signal, known, fps)
    known = known & np.isfinite(analytic).all(-1)
    window = Window.of(options.window, fps)
    gained = local_quadratic(_phase(analytic, known)[:, None], known, window)
    step = (1 - 2 * TIPS) / (PLACES - 1)
    along = np.angle((analytic[:, 1:] * np.conj(analytic[:, :-1])).sum(-1)) / step
    number = local_quadratic(along[:, None], known, window).value[:, 0]
    index = travelling_index(analytic, known, Window.of(options.wave_window, fps))
    runs = (np.abs(number) > 2 * np.pi * options.waves) & (index > TRAVELLING)
    frequency = gained.rate[:, 0] / (2 * np.pi)
    number = np.where(runs, number, np.nan)
    return Wave(
        frequency=frequency,
        wavelength=2 * np.pi * length / np.abs(number),
        speed=-2 * np.pi * frequency * length / number,
        amplitude=np.sqrt(np.square(np.abs(analytic)).mean(-1)) / length,
        index=index,
    )


def travelling_index(analytic: Complex, known: Flags, window: Window) -> Array:
    """(time,) s2 / s1, the singular values of the real and imaginary part of the strongest complex mode of A.

    The mode is the first eigenvector of sum_t A(u, t) conj(A(u', t)) over the window: complex orthogonal
    decomposition.
    """
    found = np.full(len(known), np.nan)
    there = np.flatnonzero(known)
    if not len(there):
        return found
    # It changes slowly: computed every eighth of the window, and between by straight lines.
    centres = np.unique(np.append(np.arange(there[0], there[-1] + 1, max(1, window.half // 4)), there[-1]))
    index = np.full(len(centres), np.nan)
    for place, centre in enumerate(centres):
        first = max(0, centre - window.half)
        part = analytic[first : centre + window.half + 1][known[first : centre + window.half + 1]]
        if len(part) >= window.half:
            mode = np.linalg.eigh(part.T @ np.conj(part))[1][:, -1]
            values = np.linalg.svd(np.stack([mode.real, mode.imag]), compute_uv=False)
            index[place] = values[1] / values[0]
    good = np.isfinite(index)
    if good.any():
        found[there] = np.interp(there, centres[good], index[good])
    return found


def _phase(analytic: Complex, known: Flags) -> Array:
    """(time,) rad: phase gained by all places together, each by the square of its amplitude; goes on across gaps."""
    phase = np.full(len(known), np.nan)
    there = np.flatnonzero(known)
    gained = np.angle((analytic[there[1:]] * np.conj(analytic[there[:-1]])).sum(-1))
    phase[there] = np.concatenate([[0.0], np.cumsum(gained)])[: len(there)]
    return phase


def _analytic(signal: Array, known: Flags, fps: float) -> Complex:
    """The analytic signal (time, place) of stretches that last some periods, their mean taken away.

    Half a period at either end of a stretch is NaN: what comes before and after would be needed there.
    """
    found = np.full(signal.shape, np.nan + 0j)
    for first, end in _stretches(known, LONGEST_GAP * fps):
        there = np.flatnonzero(known[first:end])
        if len(there) < 8:
            continue
        steps = np.arange(end - first)
        filled = np.stack([np.interp(steps, there, column) for column in signal[first:end][there].T], -1)
        part = hilbert(filled - filled.mean(0), axis=0)
        gained = np.angle((part[1:] * np.conj(part[:-1])).sum(-1)).mean()
        period = 2 * np.pi / gained if gained > 0 else np.inf
        if end - first < PERIODS * period:
            continue
        edge = int(np.ceil(period / 2))
        found[first + edge : end - edge] = part[edge : end - first - edge]
    found[~known] = np.nan
    return found


def _stretches(known: Flags, gap: float) -> list[tuple[int, int]]:
    """First and one after the last of stretches of frames, gaps of up to so many frames bridged."""
    there = np.flatnonzero(known)
    if not len(there):
        return []
    breaks = np.flatnonzero(np.diff(there) > gap + 1)
    starts, ends = there[np.append(0, breaks + 1)], there[np.append(breaks, len(there) - 1)]
    return [(int(first), int(last) + 1) for first, last in zip(starts, ends, strict=True)]
