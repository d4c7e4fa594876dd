"""The plane in which the body bends, and how it turns about the body: given in a frame that is carried along in time.

A midline has no twist of the flesh: that the bending plane turns may mean that the animal rolls, or that it bends
another way without rolling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midline3d.kinematics.shape import BLOCK, Bishop, by_blocks, integral, least_turn, planarity
from midline3d.kinematics.smoothing import Flags, Window, local_quadratic

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
LEAST_PLANARITY = 0.2
"""With less the body bends in all directions nearly alike, and the plane's angle is not given."""


@dataclass(frozen=True, eq=False)
class Carried:
    """Curvature in Bishop frames whose free angle no longer changes from frame to frame."""

    curvature: Complex
    """(time, vertex) 1/body length; NaN where there is no midline."""
    tangent: Array
    """(time, 3) at the middle of the body."""
    normal: Array
    """(time, 3) there: turned from frame to frame by no more than the tangent is."""


@dataclass(frozen=True, eq=False)
class Plane:
    """The bending plane of every frame; NaN where it is not known."""

    angle: Array
    """(time,) rad about the tangent at the middle of the body, in the carried frame, from 0."""
    rate: Array
    """(time,) rad/s."""
    normal: Array
    """(time, 3) unit normal of the plane; which of its two sides it points to is arbitrary, but kept."""
    bending: Array
    """(time, vertex) 1/body length: curvature in that plane."""


def same_angle(stored: Complex, found: Bishop) -> Complex:
    """A stored K in the Bishop frames of `found`, whatever free angles it was stored with.

    a = arg int K_found conj(K_stored) du, and K = K_stored e^(ia): its values are those of the fit, its frame is known.
    """
    match = integral(found.curvature * np.conj(stored))
    turn = match / np.where(np.abs(match) > 0, np.abs(match), 1)
    return np.asarray(stored * np.where(np.abs(turn) > 0, turn, 1)[:, None])


def carried(curvature: Complex, tangent: Array, normal: Array, valid: Flags) -> Carried:
    """K in frames that are carried along in time, from one valid frame to the next.

    The normal M1 at the middle of the body, turned by the least rotation from one tangent to the next, stands at an
    angle d from the next frame's own M1. With g the sum of all d so far, the carried normal is cos(g) M1 + sin(g) M2,
    and the curvature in it K e^(-ig). curvature: (time, vertex); tangent, normal: (time, 3) at the middle of the body.
    """
    there = np.flatnonzero(valid)
    t, m = tangent[there], normal[there]
    turned = least_turn(m[:-1], t[:-1], t[1:])
    step = np.arctan2((turned * np.cross(t[1:], m[1:])).sum(-1), (turned * m[1:]).sum(-1))
    angle = np.concatenate([[0.0], np.cumsum(step)])[: len(there)]
    frames = np.full(normal.shape, np.nan)
    frames[there] = np.cos(angle)[:, None] * m + np.sin(angle)[:, None] * np.cross(t, m)
    rotated, turn = np.full(curvature.shape, np.nan + 0j), np.exp(-1j * angle)[:, None]
    for first in range(0, len(there), BLOCK):
        some = there[first : first + BLOCK]
        rotated[some] = curvature[some] * turn[first : first + BLOCK]
    return Carried(rotated, tangent, frames)


def bending_plane(body: Carried, valid: Flags, window: Window) -> Plane:
    """The plane in which K is largest: its angle is arg(int K^2 du) / 2, followed continuously in time."""
    known = valid.copy()
    with np.errstate(invalid="ignore"):
        known &= by_blocks(planarity, body.curvature) > LEAST_PLANARITY
    angle = np.full(len(valid), np.nan)
    if known.any():
        moment = by_blocks(lambda part: integral(part**2), body.curvature)[known]
        angle[known] = np.unwrap(np.angle(moment)) / 2
        angle -= angle[known][0]
        first = np.angle(moment[0]) / 2
    else:
        first = 0.0
    fit = local_quadratic(angle[:, None], known, window)
    smooth = fit.value[:, 0]
    turn = np.exp(1j * (smooth + first))
    across = np.cross(body.tangent, body.normal)
    direction = turn.real[:, None] * body.normal + turn.imag[:, None] * across
    return Plane(
        angle=smooth,
        rate=fit.rate[:, 0],
        normal=np.cross(body.tangent, direction),
        bending=by_blocks(lambda part, by: (part * np.conj(by)[:, None]).real, body.curvature, turn),
    )
