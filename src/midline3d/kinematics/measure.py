"""All kinematics of a result as one dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.kinematics import bouts, eigenworms, motion, path, plane, shape, waves
from midline3d.kinematics.grid import BLOCK, Midlines, is_placed, midlines_of
from midline3d.kinematics.options import Options
from midline3d.kinematics.quantities import COORDINATES, QUANTITIES, Quantity
from midline3d.kinematics.smoothing import Window, local_quadratic, scatter
from midline3d.store import open_result
from midline3d.world import World, world_of

Array = NDArray[Any]
Values = dict[str, Any]
"""Arrays and numbers by the names of `QUANTITIES`, with time on the grid of `Midlines`."""
NOISES = 3.0
"""Times its noise that the curvature must be for its torsion to be given."""


def of(result: xr.Dataset | Path | str, options: Options | None = None, world: World | None = None) -> xr.Dataset:
    """Every quantity of `QUANTITIES` that the result can tell, under the result's own times and frame numbers.

    result: a dataset with `position`, or the path of a result. world: in which places and directions are given; that of
    the result's [frame] without. Frames without a midline are NaN. Where positions are relative to a crop
    (centre = "fixed") everything that needs a place is left out, and the attribute `left_out` says so.
    """
    result = result if isinstance(result, xr.Dataset) else open_result(result)
    options = options or Options()
    options.check()
    world = world_of(result.attrs) if world is None else world
    lines = midlines_of(result, world, options.without)
    window = Window.of(options.window, lines.fps)
    values = _shapes(lines, window, options)
    bent, found = _planes(lines, window)
    values |= found
    running, found = _waves(lines, bent, options)
    values |= found
    values |= _eigenworms(lines, options)
    if is_placed(result):
        values |= _motions(lines, bent, running, options)
    if not np.array_equal(world.rotation, np.eye(3)):
        values |= _directions(lines)
    return _dataset(result, lines, values, options, world)


def _shapes(lines: Midlines, window: Window, options: Options) -> Values:
    """What single midlines say."""
    count, vertices = lines.points.shape[:2]
    size = np.abs(lines.body.curvature)
    noise = scatter(size[:, :: max(1, vertices // 32)], lines.valid, window)
    limit = max(options.straight, NOISES * noise) if np.isfinite(noise) else options.straight
    found: Values = {name: np.full(count, np.nan) for name in ("handedness", "planarity", "nonplanarity", "writhe")}
    found |= {"torsion": np.full((count, vertices), np.nan), "spread": np.full((count, 3), np.nan)}
    there = np.flatnonzero(lines.valid)
    for first in range(0, len(there), BLOCK):
        some = there[first : first + BLOCK]
        curvature, length, points = lines.body.curvature[some], lines.length[some], lines.points[some]
        found["torsion"][some] = shape.torsion(curvature, length, limit)
        found["handedness"][some] = shape.handedness(curvature, length)
        found["planarity"][some] = shape.planarity(curvature)
        found["spread"][some] = shape.spread(points)
        found["nonplanarity"][some] = shape.nonplanarity(found["spread"][some])
        found["writhe"][some] = shape.writhe(points)
    ends = np.linalg.norm(lines.points[:, -1] - lines.points[:, 0], axis=-1)
    return found | {
        "length": lines.length,
        "curvature": size / lines.length[:, None],
        "body_sinuosity": lines.length / ends,
    }


def _planes(lines: Midlines, window: Window) -> tuple[plane.Plane, Values]:
    bent = plane.bending_plane(lines.body, lines.valid, window)
    return bent, {
        "bending_angle": bent.angle,
        "roll_rate": (bent.rate, bent.rate_std),
        "bending_normal": bent.normal,
    }


def _waves(lines: Midlines, bent: plane.Plane, options: Options) -> tuple[waves.Wave, Values]:
    running = waves.wave(bent.bending, lines.length, lines.valid, lines.fps, options)
    return running, {
        "frequency": (running.frequency, running.frequency_std),
        "wavelength": running.wavelength,
        "wave_speed": running.speed,
        "wave_amplitude": running.amplitude,
        "travelling_wave_index": running.index,
    }


def _motions(lines: Midlines, bent: plane.Plane, running: waves.Wave, options: Options) -> Values:
    """What needs to know where the animal is."""
    window = Window.of(options.window, lines.fps)
    travel = motion.motion(lines.points, lines.valid, window)
    known = lines.valid & np.isfinite(travel.speed)
    way = (
        path.path(travel.centroid.value, travel.centroid.rate, known, lines.fps, options.step) if known.any() else None
    )
    found: Values = {
        "centroid": travel.centroid.value,
        "velocity": (travel.centroid.rate, travel.speed_std),
        "speed": (travel.speed, travel.speed_std),
        "speed_std": travel.speed_std,
        "forward_speed": (travel.forward, travel.forward_std),
        "forward_speed_std": travel.forward_std,
        "sideways": travel.sideways,
        "slip": motion.slip(travel.forward, running.speed),
    }
    if way is None:
        return found
    found |= {
        "path_length": way.length,
        "straightness": way.straightness,
        "lag": way.lags / lines.fps,
        "mean_squared_displacement": (way.displacement, way.displacement_std),
        "mean_squared_displacement_std": way.displacement_std,
        "direction_correlation": way.correlation,
        "persistence_time": way.persistence_time,
        "persistence_length": way.persistence_time * float(np.nanmean(travel.speed)),
        "sinuosity": way.sinuosity,
    }
    return found | _bouts(lines, travel, bent, way, options)


def _bouts(lines: Midlines, travel: motion.Motion, bent: plane.Plane, way: path.Path, options: Options) -> Values:
    window = Window.of(options.run_window, lines.fps)
    course = bouts.course(travel.centroid.rate, travel.forward, bent.angle, lines.fps, options)
    words = bouts.motions(course, float(np.nanmedian(lines.length)), lines.fps, options)
    found = bouts.runs(course, words, window, options)
    turned = bouts.turns(course, found, window)
    spans = [slice(run.first, run.last + 1) for run in found]
    return {
        "motion": words,
        "run_start": np.array([run.first for run in found], np.float64),
        "run_end": np.array([run.last for run in found], np.float64),
        "run_kind": np.array([run.kind for run in found], object),
        "run_distance": np.array([np.nanmax(way.length[span]) - np.nanmin(way.length[span]) for span in spans]),
        "run_speed": np.array([np.nanmean(travel.forward[span]) for span in spans]),
        "turn_start": np.array([turn.first for turn in turned], np.float64),
        "turn_end": np.array([turn.last for turn in turned], np.float64),
        "turn_angle": np.array([turn.angle for turn in turned], np.float64),
        "turn_roll": np.array([turn.roll for turn in turned], np.float64),
        "turn_reversal": np.array([int(turn.reversal) for turn in turned], np.int64),
    }


def _eigenworms(lines: Midlines, options: Options) -> Values:
    found = eigenworms.eigenworms(lines.body.curvature[lines.valid], options.modes)
    amplitude = np.full((len(lines.valid), len(found.share)), np.nan)
    phase = amplitude.copy()
    amplitude[lines.valid], phase[lines.valid] = found.amplitude, found.phase
    return {
        "eigenworm": np.stack([found.modes.real, found.modes.imag], -1),
        "eigenworm_share": found.share,
        "eigenworm_handedness": eigenworms.mode_handedness(found.modes),
        "eigenworm_amplitude": amplitude,
        "eigenworm_phase": phase,
    }


def _directions(lines: Midlines) -> Values:
    """Where the body points, against up and heading."""
    axis = lines.points[:, 0] - lines.points[:, -1]
    axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
    return {"azimuth": np.arctan2(axis[:, 1], axis[:, 0]), "elevation": np.arcsin(np.clip(axis[:, 2], -1, 1))}


def _dataset(result: xr.Dataset, lines: Midlines, values: Values, options: Options, world: World) -> xr.Dataset:
    window = Window.of(options.window, lines.fps)
    variables = {
        name: _variable(quantity, values[name], lines, window)
        for name, quantity in QUANTITIES.items()
        if name in values
    }
    first = float(result.time.values[0]) if "time" in result.coords else 0.0
    for name in ("run_start", "run_end", "turn_start", "turn_end"):
        if name in variables:
            dims, frames, attributes = variables[name]
            variables[name] = dims, first + frames / lines.fps, attributes
    coordinates: Values = {name: result[name].values for name in ("time", "frame") if name in result.coords}
    if "status" in result:
        coordinates["status"] = result.status.values.astype(object)
    coordinates |= {"space": ["x", "y", "z"], "keypoint": np.arange(lines.points.shape[1]), "principal": [0, 1, 2]}
    coordinates |= {"mode": np.arange(len(values["eigenworm_share"])), "part": ["real", "imaginary"]}
    coordinates |= {"lag": values["lag"]} if "lag" in values else {}
    placed = {
        name: (COORDINATES[name].dims, numbers, _meaning(COORDINATES[name])) for name, numbers in coordinates.items()
    }
    kept = {name: result.attrs[name] for name in ("recording", "sources", "version") if name in result.attrs}
    return xr.Dataset(variables, placed, {**kept, **_attributes(result, lines, options, world)})


def _attributes(result: xr.Dataset, lines: Midlines, options: Options, world: World) -> dict[str, Any]:
    attributes = {
        "source_software": "midline3d",
        "fps": lines.fps,
        "smoothing": str(Window.of(options.window, lines.fps)),
        "world": world.source,
        "frames_used": int(lines.valid.sum()),
        "left_out_statuses": ", ".join(options.without),
    }
    if not is_placed(result):
        attributes["left_out"] = 'everything that needs a place: the images were centred already (centre = "fixed")'
    return attributes


def _variable(quantity: Quantity, value: Any, lines: Midlines, window: Window) -> tuple[tuple[str, ...], Any, Any]:
    """A variable of the dataset: the result's frames of it, its unit, meaning, formula and uncertainty."""
    attributes = _meaning(quantity)
    numbers, deviation = value if isinstance(value, tuple) else (value, None)
    if quantity.smoothed and "time" in quantity.dims:
        attributes["smoothing"] = str(window)
    if quantity.uncertainty:
        size = float(np.nanmedian(deviation)) if _any(deviation) else _scatter(quantity, numbers, lines, window)
        attributes["uncertainty"] = size
        attributes["uncertainty_from"] = quantity.uncertainty
    if "time" in quantity.dims:
        numbers = numbers[lines.rows]
    return quantity.dims, numbers, attributes


def _scatter(quantity: Quantity, values: Any, lines: Midlines, window: Window) -> float:
    if "time" not in quantity.dims or len(lines.valid) < 2 * window.half:
        return float("nan")
    flat = values.reshape(len(values), -1)
    flat = flat[:, :: max(1, flat.shape[1] // 16)]
    known = np.isfinite(flat)
    if (known.all(-1) == known.any(-1)).all():
        spreads = local_quadratic(flat, known[:, 0], window).scatter
    else:
        columns = range(flat.shape[1])
        spreads = np.array([local_quadratic(flat[:, [k]], known[:, k], window).scatter[0] for k in columns])
    good = spreads[np.isfinite(spreads)]
    return float(np.sqrt(np.square(good).mean())) if good.size else float("nan")


def _any(deviation: Any) -> bool:
    return deviation is not None and bool(np.isfinite(deviation).any())


def _meaning(quantity: Quantity) -> dict[str, Any]:
    attributes = {"units": quantity.units, "long_name": quantity.meaning}
    return attributes | ({"formula": quantity.formula} if quantity.formula else {})
