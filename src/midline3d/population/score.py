"""One result against the truth of its simulated recording, frame by frame, as the benchmark counts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.evaluate import distance_to_polyline
from midline3d.population.coverage import recording_coverage
from midline3d.store import open_result
from midline3d.tracking.doubt import WRONG_END

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

WRONG_MIDLINE = 2.0
"""px: a frame whose midline is farther off is wrong."""
CLEAR, GONE = 0.9, 0.1
"""A view shows the worm where it holds this share of it, and does not where it holds no more than that one."""
INNER = 20
"""The direction of an end is taken from the true midline's point this many parts of the body further in."""
BINS = 10
"""Of the confidence, from 0 to 1."""
DOUBTS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Borders of the bins of the doubt: each some three times the one before, for most frames are hardly doubted."""


@dataclass(frozen=True)
class Frames:
    """Every frame of a recording, measured; NaN where there is no midline."""

    midline: Array
    """(frame,) mean distance of the midlines, both ways, over the views that show the worm, px."""
    head: Array
    """(frame,) px by which the curve ends beyond (+) the true head or short of it (-), along the body."""
    tail: Array
    ends: Array
    """(frame, end) distance of the ends, px."""
    length: Array
    """(frame,) error of the length, %."""
    flipped: Flags
    """(frame,) head and tail are exchanged; all else is measured as if they were not."""
    given: Flags
    """(frame,) there is a midline."""
    ok: Flags
    """(frame,) status."""
    clear: Flags
    """(frame,) at least two views show all of the worm."""
    gone: Flags
    """(frame,) fewer than two views show any of it."""
    points: Array
    """(frame, keypoint) distance of each keypoint to the true midline, px."""
    confidence: Array
    """(frame, keypoint)"""
    doubt: Array
    """(frame,) NaN where a result of before has none."""
    coverage: dict[str, Any] | None
    """How the standard deviations hold, over clear frames that are not wrong (see `population.coverage`)."""

    @property
    def wrong(self) -> Flags:
        """(frame,) a midline that is off, or of a worm that is not to be seen."""
        off = (self.midline > WRONG_MIDLINE) | (self.ends > WRONG_END).any(-1)
        return self.given & (off | self.gone)

    def summary(self) -> dict[str, Any]:
        """One recording's figures, ready for JSON."""
        counted = self.given & self.clear
        return {
            "frames": len(self.given),
            "clear": int(self.clear.sum()),
            "midline_px": _mean(self.midline[counted]),
            "worst_midline_px": _most(self.midline[counted]),
            "head_px": _mean(self.head[counted]),
            "tail_px": _mean(self.tail[counted]),
            "ends_px": _mean(self.ends[counted]),
            "length_percent": _mean(self.length[counted]),
            "lost": int((self.clear & ~self.given).sum()),
            "flipped": int((self.flipped & counted).sum()),
            "swapped": bool(counted.any() and (self.flipped & counted).sum() > 0.5 * counted.sum()),
            "wrong": int(self.wrong.sum()),
            "hidden": int((self.wrong & self.ok).sum()),
            "alarms": int((counted & ~self.wrong & ~self.ok).sum()),
            "reliability": self._reliability(counted),
            "doubts": self._doubts(counted & np.isfinite(self.doubt)),
            "coverage": self.coverage,
        }

    def _reliability(self, counted: Flags) -> list[list[float]]:
        """For each bin of the confidence: points, the sum of their errors (px), and those farther off than 2 px."""
        error, sure = self.points[counted].ravel(), self.confidence[counted].ravel()
        place = np.clip((np.nan_to_num(sure) * BINS).astype(int), 0, BINS - 1)
        sums = [np.bincount(place, weight, BINS) for weight in (np.ones_like(error), error, error > WRONG_MIDLINE)]
        return np.stack(sums, -1).round(3).tolist()

    def _doubts(self, counted: Flags) -> list[list[int]]:
        """For each bin of the doubt: frames, those that are wrong, and the sum of the doubts, in thousandths."""
        place = np.clip(np.digitize(self.doubt[counted], DOUBTS) - 1, 0, len(DOUBTS) - 2)
        sums = (np.ones(len(place)), self.wrong[counted], 1000 * self.doubt[counted])
        return (
            np.stack([np.bincount(place, weight, len(DOUBTS) - 1) for weight in sums], -1).round().astype(int).tolist()
        )


def score(result: Path | xr.Dataset, truth: Path | xr.Dataset) -> Frames:
    """Measures a result, over the frames of the truth."""
    found = result if isinstance(result, xr.Dataset) else open_result(result)
    true = truth if isinstance(truth, xr.Dataset) else xr.load_dataset(truth)
    found, true = found.swap_dims(time="frame"), true.swap_dims(time="frame")
    found = found.reindex(frame=true.frame.values)  # a frame that is missing is one without a midline
    seen = found.projection.sel(camera=true.camera.values).transpose("frame", "camera", "keypoint", "image").values
    goal = true.projection.transpose("frame", "camera", "keypoint", "image").values
    status = found.status.values.astype(str)
    given = np.isfinite(seen).all((1, 2, 3)) & ~np.isin(status, ["lost", "unreadable"])
    inside = np.where(true.unreadable.values, 0.0, true.inside.transpose("frame", "camera").values)
    clear = (inside >= CLEAR).sum(1) >= 2
    shown = np.where(clear[:, None], inside >= CLEAR, inside > GONE)
    shown[~shown.any(1)] = True  # a worm that is nowhere: what is given for it is measured all the same
    ends, marks = np.full((len(seen), 2), np.nan), np.full((len(seen), 3), np.nan)
    points, flipped = np.full(seen.shape[::2], np.nan), np.zeros(len(seen), dtype=bool)
    for frame in np.flatnonzero(given):
        curve, line = seen[frame, shown[frame]].astype(np.float64), goal[frame, shown[frame]]
        flipped[frame] = _ends(curve[:, ::-1], line).mean() < _ends(curve, line).mean()
        order = slice(None, None, -1 if flipped[frame] else 1)
        curve = curve[:, order]
        marks[frame] = _between(line, curve).mean(), _beyond(curve, line), _beyond(curve[:, ::-1], line[:, ::-1])
        ends[frame], points[frame] = _ends(curve, line).mean(0), _between(curve, line).mean(0)[order]
    frames = Frames(
        midline=0.5 * (marks[:, 0] + points.mean(1)),
        head=marks[:, 1],
        tail=marks[:, 2],
        ends=ends,
        length=np.where(given, 100 * (found.length.values / true.length.values - 1), np.nan),
        flipped=flipped,
        given=given,
        ok=status == "ok",
        clear=clear,
        gone=(inside > GONE).sum(1) < 2,
        points=points,
        confidence=found.confidence.isel(individual=0).transpose("frame", "keypoint").values,
        doubt=found.doubt.values if "doubt" in found else np.full(len(seen), np.nan),
        coverage=None,
    )
    right = given & clear & ~frames.wrong
    return replace(frames, coverage=recording_coverage(found, true, right, flipped))


def _between(curves: Array, lines: Array) -> Array:
    """(camera, point) distance of points to the polyline of their view."""
    return np.stack([distance_to_polyline(*pair) for pair in zip(curves, lines, strict=True)])


def _ends(curve: Array, line: Array) -> Array:
    """(camera, end) distances of the ends."""
    return np.linalg.norm(curve[:, [0, -1]] - line[:, [0, -1]], axis=-1)


def _beyond(curve: Array, line: Array) -> float:
    """px by which the first point lies beyond the true one, along the body there; the mean of the views."""
    way = line[:, 0] - line[:, max(1, line.shape[1] // INNER)]
    way = way / np.maximum(np.linalg.norm(way, axis=-1, keepdims=True), 1e-9)
    return float(((curve[:, 0] - line[:, 0]) * way).sum(-1).mean())


def _mean(values: Array) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _most(values: Array) -> float | None:
    return float(np.nanmax(values)) if np.isfinite(values).any() else None
