"""How good a result is: against known truth, and against hand clicks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.store import PENDING, open_result

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

LABELS = ("head", "tail")
CLEARLY = 0.5
"""A frame counts as swapped where its ends, read the other way round, miss by less than this share."""


@dataclass(frozen=True)
class Evaluation:
    """A result against truth: one row per frame that both hold; NaN where the worm is lost."""

    frames: NDArray[np.int64]
    """(frame,) indices in the recording."""
    cameras: tuple[str, ...]
    to_truth: Array
    """(frame, camera) mean distance of the result's keypoints to the true midline, px."""
    from_truth: Array
    """(frame, camera) mean distance of the true keypoints to the result's midline, px."""
    head: Array
    """(frame, camera) distance of the heads, px."""
    tail: Array
    shape: Array
    """(frame,) rms distance in 3D after the best rigid motion, % of the true length."""
    length: Array
    """(frame,) error of the length, % of the true one."""
    lost: Flags
    """(frame,)"""
    swapped: Flags
    """(frame,) head and tail taken for each other."""
    head_confidence: float | None = None
    """How sure the reconstruction itself was of which end is the head: a probability; None where it does not say."""

    @property
    def midline(self) -> Array:
        """(frame, camera) distance of the midlines, the mean of both ways, px."""
        return 0.5 * (self.to_truth + self.from_truth)

    def summary(self) -> dict[str, Any]:
        """The figures, ready for JSON; None where no frame has one."""
        return {
            "frames": len(self.frames),
            "lost": int(self.lost.sum()),
            "swapped": int(self.swapped.sum()),
            "head_confidence": self.head_confidence,
            "midline_px": _mean(self.midline),
            "ends_px": _mean(np.stack([self.head, self.tail])),
            "head_px": _mean(self.head),
            "tail_px": _mean(self.tail),
            "shape_percent": _mean(self.shape),
            "length_percent": _mean(np.abs(self.length)),
            "cameras": {
                name: {
                    "midline_px": _mean(self.midline[:, index]),
                    "head_px": _mean(self.head[:, index]),
                    "tail_px": _mean(self.tail[:, index]),
                }
                for index, name in enumerate(self.cameras)
            },
        }

    def table(self) -> Table:
        """The figures for people."""
        figures = self.summary()
        rows = [(name, *(_text(view[key], "px") for key in view)) for name, view in figures["cameras"].items()]
        rows.append(("all", *(_text(figures[key], "px") for key in ("midline_px", "head_px", "tail_px"))))
        title = f"{figures['frames']} frames, {figures['lost']} lost, {figures['swapped']} head-tail swaps"
        caption = (
            f"3D shape {_text(figures['shape_percent'], '%')} of the length, "
            f"length wrong by {_text(figures['length_percent'], '%')}"
        )
        if self.head_confidence is not None:
            caption += f"; head told from tail with a confidence of {self.head_confidence:.1%}"
        return _table(title, ("camera", "midline", "head", "tail"), rows, caption)


@dataclass(frozen=True)
class AnnotationEvaluation:
    """A result against hand clicks of the ends: one entry per click."""

    frames: NDArray[np.int64]
    cameras: tuple[str, ...]
    """Camera of every click."""
    labels: tuple[str, ...]
    """Label of every click: head or tail."""
    distance: Array
    """(click,) to that end of the result, px; NaN where the frame is lost or not done."""
    reversed_distance: Array
    """(click,) to the other end."""

    @property
    def swapped(self) -> bool:
        """Whether the clicks fit the result clearly better with head and tail exchanged."""
        good = np.isfinite(self.distance)
        return bool(good.any() and self.reversed_distance[good].mean() < CLEARLY * self.distance[good].mean())

    def summary(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        chosen = {label: np.array([name == label for name in self.labels], dtype=bool) for label in LABELS}
        figures: dict[str, Any] = {"clicks": len(self.labels), "without_result": int(np.isnan(self.distance).sum())}
        for label, rows in chosen.items():
            figures[f"{label}_px"] = _mean(self.distance[rows])
            figures[f"{label}_clicks"] = int(np.isfinite(self.distance[rows]).sum())
            figures[f"{label}_px_if_swapped"] = _mean(self.reversed_distance[rows])
        return figures | {"swapped": self.swapped}

    def table(self) -> Table:
        """The figures for people."""
        figures = self.summary()
        rows = [(label, str(figures[f"{label}_clicks"]), _text(figures[f"{label}_px"], "px")) for label in LABELS]
        missing = f"{figures['without_result']} of {figures['clicks']} clicks have no result"
        hint = "; head and tail are exchanged throughout" if self.swapped else ""
        return _table("Distance to hand clicks", ("end", "clicks", "mean distance"), rows, missing + hint)


def evaluate_truth(result: xr.Dataset | Path | str, truth: xr.Dataset | Path | str) -> Evaluation:
    """Measures a result against truth, over the frames and cameras that both hold."""
    result, truth = _opened(result), _opened(truth)
    cameras = [str(name) for name in truth.camera.values if name in result.camera.values]
    if not cameras:
        known, given = ", ".join(map(str, truth.camera.values)), ", ".join(map(str, result.camera.values))
        raise InputError(
            f"the truth's cameras ({known}) are not the result's ({given}); give the truth of this recording"
        )
    result, truth = _started(_by_frame(result)), _by_frame(truth)
    frames = np.intersect1d(result.frame.values, truth.frame.values)
    if not len(frames):
        raise InputError("the result and the truth have no frame in common; give the truth of this recording")
    beyond = np.setdiff1d(result.frame.values, truth.frame.values)
    if len(beyond):
        raise InputError(
            f"the truth ends before the result does (it has no frame {beyond[0]}); give the truth of this recording"
        )
    result, truth = result.sel(frame=frames, camera=cameras), truth.sel(frame=frames, camera=cameras)
    seen = result.projection.transpose("frame", "camera", "keypoint", "image").values.astype(np.float64)
    true = truth.projection.transpose("frame", "camera", "keypoint", "image").values
    lost = _lost(result)
    seen[lost] = np.nan
    head, tail = _distance(seen, true, 0, 0), _distance(seen, true, -1, -1)
    other_way = _distance(seen, true, 0, -1).sum(-1) + _distance(seen, true, -1, 0).sum(-1)
    shape, length = _shape_errors(_points(result), _points(truth), lost)
    return Evaluation(
        frames=frames,
        cameras=tuple(cameras),
        to_truth=_between(seen, true),
        from_truth=_between(true, seen),
        head=head,
        tail=tail,
        shape=shape,
        length=length,
        lost=lost,
        swapped=~lost & (other_way < CLEARLY * (head.sum(-1) + tail.sum(-1))),
        head_confidence=result.attrs.get("head_confidence"),
    )


def evaluate_annotations(result: xr.Dataset | Path | str, clicks: Path | str) -> AnnotationEvaluation:
    """Measures a result against hand clicks: a CSV with the columns frame, camera, u, v, label (head or tail)."""
    result = _by_frame(_opened(result))
    rows = _read_clicks(Path(clicks), [str(name) for name in result.camera.values])
    ends = result.projection.isel(keypoint=[0, -1]).transpose("frame", "camera", "keypoint", "image").values
    ends = np.where(_lost(result)[:, None, None, None], np.nan, ends)
    place = {int(frame): index for index, frame in enumerate(result.frame.values)}
    views = {str(name): index for index, name in enumerate(result.camera.values)}
    distance = np.full((len(rows), 2), np.nan)
    for index, (frame, camera, u, v, label) in enumerate(rows):
        if frame in place:
            away = np.linalg.norm(ends[place[frame], views[camera]] - (u, v), axis=-1)
            distance[index] = away if label == "head" else away[::-1]
    return AnnotationEvaluation(
        frames=np.array([row[0] for row in rows], dtype=np.int64),
        cameras=tuple(row[1] for row in rows),
        labels=tuple(row[4] for row in rows),
        distance=distance[:, 0],
        reversed_distance=distance[:, 1],
    )


def distance_to_polyline(points: Array, line: Array) -> Array:
    """Distance of points (point, d) to the nearest place on a polyline (node, d)."""
    start, way = line[:-1], np.diff(line, axis=0)
    square = np.maximum(np.square(way).sum(-1), 1e-300)
    from_start = points[:, None] - start
    share = np.clip((from_start * way).sum(-1) / square, 0, 1)
    return np.linalg.norm(from_start - share[..., None] * way, axis=-1).min(-1)


def rigid_distance(points: Array, goal: Array) -> float:
    """Rms distance of two point sets (point, 3) after the best rotation and translation (Kabsch)."""
    a, b = points - points.mean(0), goal - goal.mean(0)
    u, _, vt = np.linalg.svd(a.T @ b)
    mirror = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])  # a worm's mirror image is another shape
    return float(np.sqrt(np.square(a @ u @ mirror @ vt - b).sum(-1).mean()))


def _shape_errors(points: Array, true: Array, lost: Flags) -> tuple[Array, Array]:
    """Rigidly aligned shape error and error of the length, both % of the true length."""
    shape, length = np.full(len(points), np.nan), np.full(len(points), np.nan)
    for frame in np.flatnonzero(~lost):
        real = _way(true[frame])[-1]
        shape[frame] = 100 * rigid_distance(_evenly(points[frame]), _evenly(true[frame])) / real
        length[frame] = 100 * (_way(points[frame])[-1] / real - 1)
    return shape, length


def _between(points: Array, lines: Array) -> Array:
    """(frame, camera) mean distance of keypoints to the polylines."""
    found = np.full(points.shape[:2], np.nan)
    for place in np.ndindex(found.shape):
        if np.isfinite(points[place]).all() and np.isfinite(lines[place]).all():
            found[place] = distance_to_polyline(points[place], lines[place]).mean()
    return found


def _distance(seen: Array, true: Array, end: int, true_end: int) -> Array:
    return np.linalg.norm(seen[:, :, end] - true[:, :, true_end], axis=-1)


def _way(curve: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=-1))])


def _evenly(curve: Array, count: int = 128) -> Array:
    """`count` points at equal steps along a polyline."""
    way = _way(curve)
    goal = np.linspace(0, way[-1], count)
    return np.stack([np.interp(goal, way, axis) for axis in curve.T], -1)


def _points(dataset: xr.Dataset) -> Array:
    position = dataset.position.isel(individual=0).transpose("frame", "keypoint", "space")
    return np.asarray(position.values, dtype=np.float64)


def _lost(dataset: xr.Dataset) -> Flags:
    lost = np.asarray(~np.isfinite(_points(dataset)).all((-2, -1)))
    if "status" in dataset:
        lost = lost | np.isin(dataset.status.values.astype(str), ["lost", "unreadable"])
    return lost


def _started(dataset: xr.Dataset) -> xr.Dataset:
    """Without the frames that a growing result has not come to yet: those are not lost."""
    if "status" not in dataset:
        return dataset
    return dataset.isel(frame=dataset.status.values.astype(str) != PENDING)


def _by_frame(dataset: xr.Dataset) -> xr.Dataset:
    """Indexed by the frame's number in the recording, which is worked out from the time where it is not given."""
    if "frame" not in dataset.coords:
        fps = float(dataset.attrs.get("fps", 1.0))
        dataset = dataset.assign_coords(frame=("time", np.rint(dataset.time.values * fps).astype(np.int64)))
    return dataset.swap_dims(time="frame")


def _opened(source: xr.Dataset | Path | str) -> xr.Dataset:
    dataset = source if isinstance(source, xr.Dataset) else open_result(source)
    for name in ("position", "projection"):
        if name not in dataset:
            raise InputError(
                f"{source if not isinstance(source, xr.Dataset) else 'the dataset'}: has no '{name}'; give a result"
            )
    return dataset


def _read_clicks(path: Path, cameras: list[str]) -> list[tuple[int, str, float, float, str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            names = [name.strip() for name in table.fieldnames or ()]
            table.fieldnames = names
            missing = [name for name in ("frame", "camera", "u", "v", "label") if name not in names]
            if missing:
                raise InputError(
                    f"{path}: the column '{missing[0]}' is missing; the columns are frame,camera,u,v,label"
                )
            return [_click(row, f"{path}, line {table.line_num}", cameras) for row in table]
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no text; give a CSV file with the columns frame,camera,u,v,label") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror}); check the path") from None


def _click(row: dict[str, str], place: str, cameras: list[str]) -> tuple[int, str, float, float, str]:
    values = {name: (value or "").strip() for name, value in row.items() if isinstance(value, str) or value is None}
    try:
        frame, u, v = int(values["frame"]), float(values["u"]), float(values["v"])
    except ValueError:
        raise InputError(f"{place}: frame, u or v is not a number; correct it") from None
    camera, label = values["camera"], values["label"].lower()
    if camera not in cameras:
        raise InputError(f"{place}: the camera is '{camera}'; the result's are {', '.join(cameras)}")
    if label not in LABELS:
        raise InputError(f"{place}: the label is '{label}'; write head or tail")
    return frame, camera, u, v, label


def _mean(values: Array) -> float | None:
    good = values[np.isfinite(values)]
    return float(good.mean()) if good.size else None


def _text(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.2f} {unit}"


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str) -> Table:
    from rich.table import Table

    table = Table(title=title, caption=caption)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table
