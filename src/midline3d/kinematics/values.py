"""Every quantity of midlines on a grid of time, as arrays and numbers by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.kinematics import bouts, eigenworms, motion, path, plane, shape, waves
from midline3d.kinematics.grid import BLOCK, Midlines
from midline3d.kinematics.options import Options
from midline3d.kinematics.smoothing import Window, scatter

Array = NDArray[Any]
Values = dict[str, Any]
"""Arrays and numbers by the names of `MEASURED`, time on the grid of `Midlines`, starts and ends as frames of it."""
NOISES = 3.0
"""Times its noise that the curvature must be for its torsion to be given."""


@dataclass(frozen=True)
class Scope:
    """What is to be measured, and how finely."""

    options: Options
    placed: bool
    """Whether positions say where the animal is."""
    directed: bool
    """Whether the world says what is up."""
    straight: float
    """1/body length: curvature under which there is no torsion."""
    writhe_points: int = shape.WRITHE_POINTS


def straightness_limit(lines: Midlines, options: Options) -> float:
    """1/body length: curvature under which torsion is not given, by what is asked for and by the curvature's noise."""
    size = np.abs(lines.body.curvature[:, :: max(1, lines.points.shape[1] // 32)])
    noise = scatter(size, lines.valid, Window.of(options.window, lines.fps))
    return max(options.straight, NOISES * noise) if np.isfinite(noise) else options.straight


def values_of(lines: Midlines, scope: Scope) -> Values:
    """All that midlines tell within the scope."""
    options = scope.options
    values = _shapes(lines, scope)
    bent, found = _planes(lines, Window.of(options.window, lines.fps))
    values |= found
    running, found = _waves(lines, bent, options)
    values |= found
    values |= _eigenworms(lines, options)
    if scope.placed:
        values |= _motions(lines, bent, running, options)
    if scope.directed:
        values |= _directions(lines)
    return values


def _shapes(lines: Midlines, scope: Scope) -> Values:
    """What single midlines say."""
    count, vertices = lines.points.shape[:2]
    found: Values = {name: np.full(count, np.nan) for name in ("handedness", "planarity", "nonplanarity", "writhe")}
    found |= {"torsion": np.full((count, vertices), np.nan), "spread": np.full((count, 3), np.nan)}
    there = np.flatnonzero(lines.valid)
    for first in range(0, len(there), BLOCK):
        some = there[first : first + BLOCK]
        curvature, length, points = lines.body.curvature[some], lines.length[some], lines.points[some]
        found["torsion"][some] = shape.torsion(curvature, length, scope.straight)
        found["handedness"][some] = shape.handedness(curvature, length)
        found["planarity"][some] = shape.planarity(curvature)
        found["spread"][some] = shape.spread(points)
        found["nonplanarity"][some] = shape.nonplanarity(found["spread"][some])
        found["writhe"][some] = shape.writhe(points, scope.writhe_points)
    ends = np.linalg.norm(lines.points[:, -1] - lines.points[:, 0], axis=-1)
    return found | {
        "length": lines.length,
        "curvature": np.abs(lines.body.curvature) / lines.length[:, None],
        "body_sinuosity": lines.length / ends,
    }


def _planes(lines: Midlines, window: Window) -> tuple[plane.Plane, Values]:
    bent = plane.bending_plane(lines.body, lines.valid, window)
    return bent, {"bending_angle": bent.angle, "roll_rate": bent.rate, "bending_normal": bent.normal}


def _waves(lines: Midlines, bent: plane.Plane, options: Options) -> tuple[waves.Wave, Values]:
    running = waves.wave(bent.bending, lines.length, lines.valid, lines.fps, options)
    return running, {
        "frequency": running.frequency,
        "wavelength": running.wavelength,
        "wave_speed": running.speed,
        "wave_amplitude": running.amplitude,
        "travelling_wave_index": running.index,
    }


def _motions(lines: Midlines, bent: plane.Plane, running: waves.Wave, options: Options) -> Values:
    """What needs to know where the animal is."""
    travel = motion.motion(lines.points, lines.valid, Window.of(options.window, lines.fps))
    known = lines.valid & np.isfinite(travel.speed)
    way = (
        path.path(travel.centroid.value, travel.centroid.rate, known, lines.fps, options.step) if known.any() else None
    )
    found: Values = {
        "centroid": travel.centroid.value,
        "velocity": travel.centroid.rate,
        "speed": travel.speed,
        "forward_speed": travel.forward,
        "sideways": travel.sideways,
        "slip": motion.slip(travel.forward, running.speed),
    }
    if way is None:
        return found
    found |= {
        "path_length": way.length,
        "straightness": way.straightness,
        "lag": way.lags / lines.fps,
        "mean_squared_displacement": way.displacement,
        "mean_squared_displacement_error": way.displacement_error,
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
