"""The worst frame of a recording as it was seen, with the midline that was found and the true one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.files import aside
from midline3d.population.score import WRONG_MIDLINE, Frames
from midline3d.recording import load_recording
from midline3d.recording.crops import cut
from midline3d.store import open_result
from midline3d.tracking.doubt import WRONG_END

Array = NDArray[np.float64]

AROUND = 15
"""px of the picture that are shown around the midlines."""


@dataclass(frozen=True)
class Shot:
    """One frame."""

    frame: int
    status: str
    reason: str
    """Why the status is what it is, or why there is no result at all."""
    midline_px: float
    """Mean distance of the midlines; NaN where none was found."""
    ends_px: float
    """Of the worse end."""
    pictures: NDArray[np.uint8]
    """(camera, w, w) parts of the pictures, around the worm."""
    seen: Array
    """(camera, keypoint, 2) px of those parts; NaN where none was found."""
    true: Array

    @property
    def badness(self) -> float:
        """How far off, 1 being wrong: by the midline or the worse end; of a frame without a midline just that."""
        off = max(self.midline_px / WRONG_MIDLINE, self.ends_px / WRONG_END)
        return 1.0 if np.isnan(off) else off

    def save(self, path: Path) -> None:
        """As a file of arrays."""
        path.parent.mkdir(parents=True, exist_ok=True)
        words = np.array([self.status, self.reason])
        figures = np.array([self.frame, self.midline_px, self.ends_px])
        with aside(path) as part:
            np.savez_compressed(
                part, words=words, figures=figures, pictures=self.pictures, seen=self.seen, true=self.true
            )

    @staticmethod
    def load(path: Path) -> Shot:
        """What `save` wrote."""
        with np.load(path) as kept:
            (status, reason), (frame, midline, ends) = kept["words"].tolist(), kept["figures"].tolist()
            arrays = (kept[name] for name in ("pictures", "seen", "true"))
            return Shot(int(frame), status, reason, midline, ends, *arrays)


def keep_worst(path: Path, recording: Path, found: tuple[Path, Frames] | None, reason: str = "") -> None:
    """Keeps the frame that is farthest off; one that was lost where none is wrong; the first where there is no result.

    found: the folder of the result, and how its frames were scored.
    """
    truth = xr.load_dataset(recording / "truth.nc")
    goal = truth.projection.transpose("time", "camera", "keypoint", "image").values
    if found is None:
        _shot(recording, 0, goal[0], np.full_like(goal[0], np.nan), ("failed", reason), (np.nan, np.nan)).save(path)
        return
    folder, frames = found
    place = worst_of(frames)
    row = open_result(folder).swap_dims(time="frame").sel(frame=int(truth.frame.values[place]))
    seen = row.projection.sel(camera=truth.camera.values).transpose("camera", "keypoint", "image").values
    words = str(row.status.item()), str(row.reason.item())
    errors = float(frames.midline[place]), float(frames.ends[place].max())
    _shot(recording, int(row.frame), goal[place], seen.astype(np.float64), words, errors).save(path)


def worst_of(frames: Frames) -> int:
    """Place of the frame that is farthest off, by the midline or an end; one that was lost where none is wrong."""
    off = np.maximum(frames.midline / WRONG_MIDLINE, frames.ends.max(-1) / WRONG_END)
    lost = np.flatnonzero(frames.clear & ~frames.given)
    if not frames.wrong.any() and len(lost):
        return int(lost[0])
    return int(np.argmax(np.nan_to_num(off, nan=-1.0)))


def _shot(
    recording: Path, frame: int, true: Array, seen: Array, words: tuple[str, str], errors: tuple[float, float]
) -> Shot:
    """Cuts the pictures around the worm: a window of one size in all views that holds both midlines, within reason."""
    middle = 0.5 * (true.max(1) + true.min(1))
    own = float(np.abs(true - middle[:, None]).max())
    both = float(np.nanmax(np.abs(np.concatenate([true, seen], 1) - middle[:, None])))
    window = 2 * int(min(both, 2 * own) + AROUND)
    origin = np.rint(middle - (window - 1) / 2).astype(np.int64)
    pictures = []
    for view, corner in zip(load_recording(recording).views, origin, strict=True):
        ((_, picture),) = view.source.read([view.offset + frame])
        blank = np.zeros(view.source.size[::-1], np.uint8)
        pictures.append(cut(blank if picture is None else picture.astype(np.uint8), corner, window))
    return Shot(frame, *words, *errors, np.stack(pictures), seen - origin[:, None], true - origin[:, None])
