"""All kinematics of a result as one dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from midline3d.errors import InputError
from midline3d.kinematics.deviations import Deviations, deviations_of
from midline3d.kinematics.draws import cloud
from midline3d.kinematics.grid import Midlines, is_placed, midlines_of
from midline3d.kinematics.options import Options
from midline3d.kinematics.quantities import COORDINATES, QUANTITIES, STD, Quantity
from midline3d.kinematics.smoothing import Window
from midline3d.kinematics.spread import no_deviations, standard_deviations
from midline3d.kinematics.values import Scope, Values, straightness_limit, values_of
from midline3d.reading import number_of
from midline3d.store import ResultParts
from midline3d.world import World, world_of

DRAWN_WRITHE_POINTS = 20
"""Points that the writhe of drawn midlines is computed from: its change is wanted, and all 64 would take longer than
everything else together."""
STATED = "sigma_across and sigma_along of the result, and the scatter of its centroid"
SCATTER = "scatter of single frames around their course in time; slower errors are not seen in it"

UNKNOWN = "nothing: the result states no deviations, and has too few frames to scatter"


def of(result: xr.Dataset | Path | str, options: Options | None = None, world: World | None = None) -> xr.Dataset:
    """Every quantity of `QUANTITIES` that the result can tell, under the result's own times and frame numbers.

    result: a dataset with `position`, or the path of a result. world: in which places and directions are given; that of
    the result's [frame] without. Frames without a midline are NaN. Where positions are relative to a crop
    (centre = "fixed") everything that needs a place is left out, and the attribute `left_out` says so.
    """
    result = result if isinstance(result, xr.Dataset) else _asked_of(result)
    options = options or Options()
    options.check()
    world = world_of(result.attrs) if world is None else world
    lines = midlines_of(result, world, options.without)
    _check_window(options, lines)
    result = result.drop_vars(["position", "curvature"], errors="ignore")  # of a long recording some GB
    directed = not np.array_equal(world.rotation, np.eye(3))
    scope = Scope(options, is_placed(result), directed, straightness_limit(lines, options))
    values = values_of(lines, scope)
    deviations = deviations_of(result, lines, Window.of(options.window, lines.fps))
    if options.draws and deviations is not None:
        coarse = replace(scope, writhe_points=DRAWN_WRITHE_POINTS)
        values |= standard_deviations(cloud(lines, deviations), coarse, values)
    elif options.draws:
        values |= no_deviations(values)
    return _dataset(result, lines, values, options, _attributes(result, lines, options, world, deviations))


def _check_window(options: Options, lines: Midlines) -> None:
    """Complains about a window that was chosen longer than the recording: nothing would have a derivative in time."""
    lasts = len(lines.points) / lines.fps
    if options.window != Options().window and options.window > lasts:
        raise InputError(
            f"the window of the kinematics is {options.window:g} s, but the recording lasts {lasts:.3g} s "
            f"({number_of(len(lines.points), 'frame')}); give a shorter one"
        )


def _asked_of(path: Path | str) -> xr.Dataset:
    """As much of a result as kinematics are measured from."""
    parts = ResultParts(path)
    return parts.part(0, len(parts), ("position", "curvature", "sigma_across", "sigma_along"))


def _dataset(
    result: xr.Dataset, lines: Midlines, values: Values, options: Options, attributes: dict[str, Any]
) -> xr.Dataset:
    window = Window.of(options.window, lines.fps)
    variables = {
        name: _variable(quantity, values[name], lines, window)
        for name, quantity in QUANTITIES.items()
        if name in values
    }
    for name in variables:
        if name + STD in values:
            variables[name][2]["uncertainty"] = _median(values[name + STD])
    first = float(result.time.values[0]) if "time" in result.coords else 0.0
    for kind in ("run_start", "run_end", "turn_start", "turn_end"):
        for name, origin in ((kind, first), (kind + STD, 0.0)):
            if name in variables:
                dims, frames, meaning = variables[name]
                variables[name] = dims, origin + frames / lines.fps, meaning
    coordinates: Values = {name: result[name].values for name in ("time", "frame") if name in result.coords}
    if "status" in result:
        coordinates["status"] = result.status.values.astype(object)
    coordinates |= {"space": ["x", "y", "z"], "keypoint": np.arange(lines.points.shape[1]), "principal": [0, 1, 2]}
    coordinates |= {"mode": np.arange(len(values["eigenworm_share"])), "part": ["real", "imaginary"]}
    coordinates |= {"lag": values["lag"]} if "lag" in values else {}
    placed = {
        name: (COORDINATES[name].dims, numbers, _meaning(COORDINATES[name])) for name, numbers in coordinates.items()
    }
    return xr.Dataset(variables, placed, attributes)


def _attributes(
    result: xr.Dataset, lines: Midlines, options: Options, world: World, deviations: Deviations | None
) -> dict[str, Any]:
    attributes = {name: result.attrs[name] for name in ("recording", "sources", "version") if name in result.attrs}
    attributes |= {
        "source_software": "midline3d",
        "fps": lines.fps,
        "smoothing": str(Window.of(options.window, lines.fps)),
        "world": world.source,
        "frames_used": int(lines.valid.sum()),
        "left_out_statuses": ", ".join(options.without),
        "draws": options.draws,
        "uncertainty_from": UNKNOWN if deviations is None else STATED if deviations.stated else SCATTER,
    }
    if not is_placed(result):
        attributes["left_out"] = 'everything that needs a place: the images were centred already (centre = "fixed")'
    return attributes


def _variable(quantity: Quantity, numbers: Any, lines: Midlines, window: Window) -> tuple[tuple[str, ...], Any, Any]:
    """A variable of the dataset: the result's frames of it, its unit, meaning, formula and smoothing."""
    attributes = _meaning(quantity)
    if quantity.smoothed and "time" in quantity.dims:
        attributes["smoothing"] = str(window)
    if "time" in quantity.dims:
        numbers = numbers[lines.rows]
    return quantity.dims, numbers, attributes


def _median(deviation: Any) -> float:
    known = np.asarray(deviation)[np.isfinite(deviation)]
    return float(np.median(known)) if known.size else float("nan")


def _meaning(quantity: Quantity) -> dict[str, Any]:
    attributes = {"units": quantity.units, "long_name": quantity.meaning}
    return attributes | ({"formula": quantity.formula} if quantity.formula else {})
