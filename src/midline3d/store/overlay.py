"""Edits laid over frames: what `open_result` and all that is built on it shows of a result that people corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.store.dataset import PENDING
from midline3d.store.edits import Edit, EditLog, standing
from midline3d.store.segments import WORDS

Rows = NDArray[np.intp]
NUMBERLESS = ("source_frame", "steps", *WORDS)
"""Variables that a frame without a midline keeps."""


class Overlay:
    """The standing edits of a result's folder, ready to be laid over any part of its frames."""

    def __init__(self, folder: Path, run: str) -> None:
        """run: of the frames that they are laid over. What was fitted or accepted in another run does not apply."""
        log, self._run = EditLog(folder), run
        # The frames of one edit are asked for part by part.
        self._content = lru_cache(maxsize=32)(log.content)
        self.fingerprint = log.fingerprint()
        self.edits = log.read()
        self.standing = [edit for edit in standing(self.edits) if self._applies(edit)]

    def _applies(self, edit: Edit) -> bool:
        return edit.kind in ("swap", "bad") or self._here(edit) is not None

    def _here(self, edit: Edit) -> Edit | None:
        """The edit as it was made in this run, at first or when the recording was run again."""
        made = [edit, *(other for other in self.edits if other.kind == "again" and other.of == edit.id)]
        return next((each for each in reversed(made) if each.run == self._run), None)

    def unmade(self) -> list[Edit]:
        """Standing edits with pins that this run has not been fitted to yet."""
        return [edit for edit in standing(self.edits) if edit.kind == "refit" and self._here(edit) is None]

    def apply(self, dataset: xr.Dataset) -> xr.Dataset:
        """The dataset, in memory, with the edits in it: its numbers change in place. Pending frames are left alone."""
        if not self.standing:
            return dataset
        dataset = dataset.copy(deep=False)
        for name in WORDS:
            dataset[name] = dataset[name].copy(data=dataset[name].values.astype(object))
        for edit in self.standing:
            rows = _rows(edit, dataset.frame.values) & (dataset.status.values != PENDING)
            if rows.any():
                self._lay(edit, dataset, np.flatnonzero(rows))
        return dataset.assign_attrs(edits=len(self.standing))

    def words(self, frames: Sequence[int], words: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
        """Status, reason and edited of frames, by what they are without edits."""
        columns = {name: (("time",), np.asarray(values, dtype=object)) for name, values in words.items()}
        dataset = self.apply(xr.Dataset(columns, {"frame": ("time", np.asarray(frames, dtype=np.int64))}))
        return {name: tuple(dataset[name].values.tolist()) for name in words}

    def _lay(self, edit: Edit, dataset: xr.Dataset, rows: Rows) -> None:
        edited = dataset["edited"].values
        if edit.kind == "bad":
            _blank(dataset, rows)
            dataset["status"].values[rows], dataset["reason"].values[rows] = "lost", "marked bad"
            edited[rows] = "pinned"
        elif edit.kind == "accept":
            edited[rows] = "accepted"
        elif edit.kind == "swap":
            found = rows[np.isin(dataset["status"].values[rows], ("ok", "suspect"))]
            _turn(dataset, found, self._content(edit))
            edited[found] = "pinned"
        else:
            made = self._here(edit)
            content = None if made is None else self._content(made)
            if content is not None:
                self._replace(edit, content, dataset)

    def _replace(self, edit: Edit, content: dict[str, NDArray[Any]], dataset: xr.Dataset) -> None:
        """Frames as they were fitted again."""
        place = {int(frame): row for row, frame in enumerate(dataset.frame.values)}
        taken = [row for row, frame in enumerate(content["frame"].tolist()) if frame in place]
        rows = [place[int(content["frame"][row])] for row in taken]
        for name, variable in dataset.data_vars.items():
            if "time" not in variable.dims or name in ("source_frame", *WORDS):
                continue
            if name not in content:
                variable.values[rows] = np.nan if variable.dtype.kind == "f" else 0
            elif name == "position":
                variable.values[rows] = content[name][taken].transpose(0, 2, 1)[..., None]
            else:
                variable.values[rows] = content[name][taken].reshape(len(taken), *variable.shape[1:])
        for name in WORDS:
            dataset[name].values[rows] = content[name][taken]
        frames = content["frame"][taken].tolist()
        dataset["edited"].values[rows] = ["pinned" if frame in edit.pinned else "refitted" for frame in frames]


def _rows(edit: Edit, frames: NDArray[np.int64]) -> NDArray[np.bool_]:
    rows = np.zeros(len(frames), np.bool_)
    for first, last in edit.frames:
        rows |= (frames >= first) & (frames <= last)
    return rows


def _blank(dataset: xr.Dataset, rows: Rows) -> None:
    for name, variable in dataset.data_vars.items():
        if "time" in variable.dims and name not in NUMBERLESS and variable.dtype.kind == "f":
            variable.values[rows] = np.nan


def _turn(dataset: xr.Dataset, rows: Rows, ends: Mapping[str, NDArray[Any]] | None) -> None:
    """Exchanges head and tail where the head is not where it was said to be.

    ends: `frame`, rising, and `head` and `tail` (frame, 3) in mm as they were after the exchange. A new run of the
    recording may have found the head by itself: then nothing is to be exchanged.
    """
    if ends is None or "position" not in dataset or not len(rows):
        return
    frames = dataset.frame.values[rows]
    which = np.searchsorted(ends["frame"], frames).clip(max=len(ends["frame"]) - 1)
    same = ends["frame"][which] == frames
    rows, which = rows[same], which[same]
    if not len(rows):
        return
    found = dataset["position"].isel(time=rows, individual=0).transpose("time", "keypoint", "space").values
    distances = [
        np.linalg.norm(found[:, first] - ends["head"][which], axis=-1)
        + np.linalg.norm(found[:, last] - ends["tail"][which], axis=-1)
        for first, last in ((0, -1), (-1, 0))
    ]
    rows = rows[distances[1] < distances[0]]
    for name, variable in dataset.data_vars.items():
        axes = [axis for axis, dim in enumerate(variable.dims) if dim in ("keypoint", "end")]
        if variable.dims[:1] == ("time",) and axes:
            variable.values[rows] = np.flip(variable.values[rows], tuple(axes))
            if name == "curvature":
                # K of the same curve walked from the other end: see `curve.reversed_curvature`.
                variable.values[rows] *= np.array([1.0, -1.0], variable.dtype)
