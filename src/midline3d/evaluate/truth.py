"""A result against known truth: midlines and ends in the pictures, shape and length in space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.evaluate.geometry import arc_length, distance_to_polyline, evenly, rigid_distance
from midline3d.evaluate.opening import by_frame, check_truth, in_parts, lost_in, points_of, started
from midline3d.evaluate.words import mean, table_of, text
from midline3d.reading import number_of
from midline3d.store import ResultParts
from midline3d.store.parts import BLOCK

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

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
            "midline_px": mean(self.midline),
            "ends_px": mean(np.stack([self.head, self.tail])),
            "head_px": mean(self.head),
            "tail_px": mean(self.tail),
            "shape_percent": mean(self.shape),
            "length_percent": mean(np.abs(self.length)),
            "cameras": {
                name: {
                    "midline_px": mean(self.midline[:, index]),
                    "head_px": mean(self.head[:, index]),
                    "tail_px": mean(self.tail[:, index]),
                }
                for index, name in enumerate(self.cameras)
            },
        }

    def table(self) -> Table:
        """The figures for people."""
        figures = self.summary()
        rows = [(name, *(text(view[key], "px") for key in view)) for name, view in figures["cameras"].items()]
        rows.append(("all", *(text(figures[key], "px") for key in ("midline_px", "head_px", "tail_px"))))
        title = f"{number_of(figures['frames'], 'frame')}, {figures['lost']} lost, {figures['swapped']} head-tail swaps"
        caption = (
            f"3D shape {text(figures['shape_percent'], '%')} of the length, "
            f"length wrong by {text(figures['length_percent'], '%')}"
        )
        if self.head_confidence is not None:
            caption += f"; head and tail identified with a confidence of {self.head_confidence:.1%}"
        return table_of(title, ("camera", "midline", "head", "tail"), rows, caption)


def evaluate_truth(result: xr.Dataset | Path | str, truth: xr.Dataset | Path | str) -> Evaluation:
    """Measures a result against truth, over the frames and cameras that both hold."""
    check_truth(truth)
    found, true = in_parts(result), in_parts(truth)
    theirs, ours = true.head.camera.values, found.head.camera.values
    cameras = tuple(str(name) for name in theirs if name in ours)
    if not cameras:
        known, given = ", ".join(map(str, theirs)), ", ".join(map(str, ours))
        raise InputError(
            f"the truth's cameras ({known}) are not the result's ({given}); give the truth of this recording"
        )
    numbers = started(found)
    frames = np.intersect1d(numbers, true.numbers)
    if not len(frames):
        raise InputError("the result and the truth have no frame in common; give the truth of this recording")
    beyond = np.setdiff1d(numbers, true.numbers)
    if len(beyond):
        raise InputError(
            f"the truth ends before the result does (it has no frame {beyond[0]}); give the truth of this recording"
        )
    parts = [_measured(one, other, cameras) for one, other in _beside(found, true, frames)]
    names = [item.name for item in fields(Evaluation) if item.name not in ("cameras", "head_confidence")]
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    sure = None if joined["lost"].all() else parts[0].head_confidence
    return replace(parts[0], **joined, head_confidence=sure)


def _beside(
    result: ResultParts, truth: ResultParts, frames: NDArray[np.int64]
) -> Iterator[tuple[xr.Dataset, xr.Dataset]]:
    """Frames that both have, by their numbers, some at a time."""
    for first in range(0, len(result), BLOCK):
        shown = frames[np.isin(frames, result.numbers[first : first + BLOCK])]
        if len(shown):
            places = np.searchsorted(truth.numbers, shown[[0, -1]])
            here, there = result.part(first, first + BLOCK), truth.part(int(places[0]), int(places[1]) + 1)
            yield by_frame(here).sel(frame=shown), by_frame(there).sel(frame=shown)


def _measured(result: xr.Dataset, truth: xr.Dataset, cameras: tuple[str, ...]) -> Evaluation:
    """Some frames of a result against the same of the truth."""
    frames = result.frame.values
    result, truth = result.sel(camera=list(cameras)), truth.sel(camera=list(cameras))
    seen = result.projection.transpose("frame", "camera", "keypoint", "image").values.astype(np.float64)
    true = truth.projection.transpose("frame", "camera", "keypoint", "image").values
    lost = lost_in(result)
    seen[lost] = np.nan
    head, tail = _distance(seen, true, 0, 0), _distance(seen, true, -1, -1)
    other_way = _distance(seen, true, 0, -1).sum(-1) + _distance(seen, true, -1, 0).sum(-1)
    shape, length = _shape_errors(points_of(result), points_of(truth), lost)
    return Evaluation(
        frames=frames,
        cameras=cameras,
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


def _shape_errors(points: Array, true: Array, lost: Flags) -> tuple[Array, Array]:
    """Rigidly aligned shape error and error of the length, both % of the true length."""
    shape, length = np.full(len(points), np.nan), np.full(len(points), np.nan)
    for frame in np.flatnonzero(~lost):
        real = arc_length(true[frame])[-1]
        shape[frame] = 100 * rigid_distance(evenly(points[frame]), evenly(true[frame])) / real
        length[frame] = 100 * (arc_length(points[frame])[-1] / real - 1)
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
