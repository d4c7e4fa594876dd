"""The standard deviation of everything that is measured: by how much it changes from one drawn midline to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.kinematics.draws import Cloud
from midline3d.kinematics.grid import moved
from midline3d.kinematics.quantities import MEASURED, STD, Quantity
from midline3d.kinematics.values import Scope, Values, values_of

Array = NDArray[Any]
EVENTS = ("run", "turn")


def standard_deviations(cloud: Cloud, scope: Scope, values: Values) -> Values:
    """Standard deviations of the values, under their names and `STD`; NaN where the value is not known.

    sqrt(mean_k (v_k - v_0)^2), with v_k measured from the k-th drawn midlines and v_0 from the midlines themselves,
    both by their points alone. That is about the value as stated, and not about the draws' mean: noise that makes a
    body less planar has done so in the stated value, too. What is unknown in most draws has no standard deviation.
    """
    stated = matched(values, values_of(moved(cloud.lines, cloud.lines.points), scope))
    names = [name for name in values if name in MEASURED and not MEASURED[name].counted]
    squares = {name: np.zeros(np.shape(values[name])) for name in names}
    known = {name: np.zeros(np.shape(values[name]), np.int32) for name in names}
    for number in range(scope.options.draws):
        drawn = matched(values, values_of(moved(cloud.lines, cloud.points(number)), scope))
        for name in names:
            off = change(MEASURED[name], np.asarray(drawn[name]), np.asarray(stated[name]))
            there = np.isfinite(off)
            squares[name] += np.where(there, np.square(off), 0.0)
            known[name] += there
    return {name + STD: _root(squares[name], known[name], values[name], scope.options.draws) for name in names}


def no_deviations(values: Values) -> Values:
    """The same where it is not known how far midlines may be off: NaN."""
    names = [name for name in values if name in MEASURED and not MEASURED[name].counted]
    return {name + STD: np.full(np.shape(values[name]), np.nan) for name in names}


def _root(squares: Array, known: Array, value: Array, draws: int) -> Array:
    enough = (2 * known > draws) & np.isfinite(value)
    return np.sqrt(np.where(enough, squares / np.maximum(known, 1), np.nan))


def change(quantity: Quantity, one: Array, other: Array) -> Array:
    """One value less another, as small as a free sign or the turns of an angle allow."""
    if quantity.either_sign:
        sign = np.sign(np.nansum(one * other, tuple(range(1, one.ndim)), keepdims=True))
        one = one * np.where(sign == 0, 1, sign)
    off = one - other
    return off - quantity.period * np.round(off / quantity.period) if quantity.period else off


def matched(values: Values, drawn: Values) -> Values:
    """What was drawn, its runs and turns in the places of those of `values` that they have most time in common with."""
    found = dict(drawn)
    for kind in EVENTS:
        start, end = f"{kind}_start", f"{kind}_end"
        if start not in values:
            continue
        names = [name for name in values if name.startswith(f"{kind}_") and name in MEASURED]
        theirs = {name: drawn.get(name, np.zeros(0)) for name in names if not MEASURED[name].counted}
        places = _matches((values[start], values[end]), (theirs[start], theirs[end]))
        # One more at the end, for what has no like.
        found |= {name: np.append(each, np.nan)[places] for name, each in theirs.items()}
    return found


def _matches(these: tuple[Array, Array], those: tuple[Array, Array]) -> NDArray[np.int64]:
    """(these,) of each stretch of time the one of `those` with most in common; -1 where none has any."""
    if not len(these[0]) or not len(those[0]):
        return np.full(len(these[0]), -1)
    common = np.minimum(these[1][:, None], those[1]) - np.maximum(these[0][:, None], those[0])
    return np.where(common.max(1) > 0, common.argmax(1), -1)
