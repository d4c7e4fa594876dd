"""Frames of a result by their numbers, growing or complete, edits laid over them, some in memory at a time."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.store.dataset import PENDING, blank, dataset_of, head_confidence
from midline3d.store.edits import LOG
from midline3d.store.manifest import MANIFEST, Manifest
from midline3d.store.overlay import Overlay
from midline3d.store.records import DIMENSIONS, Header
from midline3d.store.result import FINAL, final_attributes
from midline3d.store.segments import SEGMENTS, WORDS, Segment, fingerprint, segments_in

if TYPE_CHECKING:
    import h5py

LARGE = frozenset(name for name, dims in DIMENSIONS.items() if {"keypoint", "end"} & set(dims))
"""Variables along the body: those of a long recording do not fit into memory all at once, and they depend on where the
head is."""


class StoredFrames:
    """Random access to a result. `open_result` gives all of it; this gives any part of it at the cost of that part."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not (self.folder / MANIFEST).exists():
            raise InputError(f"{self.folder} is no result: it has no {MANIFEST}; give the folder of a reconstruction")
        self._lock = threading.RLock()
        self._version: tuple[str, ...] = ()
        self._seen: list[Any] = []
        self._final: h5py.File | None = None
        self._segments: dict[int, Segment] = {}
        self._small: dict[str, NDArray[Any]] = {}
        self._home = np.zeros(0, np.int64)
        self._done: NDArray[np.bool_] | None = None
        self.refresh()

    @property
    def header(self) -> Header:
        return self.manifest.header

    @property
    def complete(self) -> bool:
        """Whether the finished file is there and is of these very frames."""
        return self._final is not None

    @property
    def version(self) -> str:
        """Changes whenever a frame or an edit does."""
        return "-".join(self._version)

    @property
    def done(self) -> NDArray[np.bool_]:
        """(frame,) whether each is there: worked out once, for whoever goes on frame by frame asks again and again."""
        with self._lock:
            if self._done is None:
                self._done = np.asarray(self._small["status"] != PENDING, np.bool_)
            return self._done

    @property
    def names(self) -> set[str]:
        """Variables that do not run along the body."""
        return set(self._small)

    def refresh(self) -> bool:
        """Takes in what was written since; says whether anything was."""
        with self._lock:
            there = self._there()
            if there == self._seen:
                return False
            manifest = Manifest.read(self.folder)
            segments, run = segments_in(self.folder, manifest.since), manifest.run
            overlay = Overlay(self.folder, run)
            found = fingerprint(segments)
            fresh = final_attributes(self.folder / FINAL).get("segments") == found
            version = (run, found[:16], "final" if fresh else "growing", overlay.fingerprint)
            self._seen = there
            self.manifest, self.run, self.overlay = manifest, run, overlay
            if version == self._version:
                return False
            before, self._version = self._version, version
            if before[:1] != version[:1]:
                self._begin()
            if before[:3] != version[:3]:
                self._open(segments, fresh)
            return True

    def _there(self) -> list[Any]:
        """What lies in the folder, by names, times and sizes: cheap enough to be asked every second."""
        found: list[Any] = []
        for name in (MANIFEST, FINAL, LOG):
            try:
                about = (self.folder / name).stat()
                found.append((about.st_mtime_ns, about.st_size, about.st_ino))
            except OSError:
                found.append(None)
        try:
            found.append(sorted(path.name for path in (self.folder / SEGMENTS).iterdir()))
        except OSError:
            found.append(None)
        return found

    def small(self, names: Collection[str] | None = None) -> xr.Dataset:
        """Variables of all frames that do not run along the body, edits laid over them: these, else all there are."""
        with self._lock:
            chosen = [name for name in self._small if names is None or name in names or name in WORDS]
            data = {name: self._small[name].copy() for name in chosen}
            if names is None or "head_confidence" in names:
                data |= self._head(0, len(self.header.frames))
            return self.overlay.apply(dataset_of(self.header, self.header.frames, data))

    def part(self, first: int, stop: int, names: Collection[str] = LARGE) -> xr.Dataset:
        """Everything of the frames at places `first` to before `stop` of the result, edits laid over it.

        names: of the variables along the body, those that are wanted; the positions come anyway.
        """
        with self._lock:
            frames = self.header.frames[first:stop]
            data = {name: values[first:stop].copy() for name, values in self._small.items()}
            data |= self._along(first, stop, {"position", *names} & LARGE) | self._head(first, stop)
            return self.overlay.apply(dataset_of(self.header, frames, data))

    def row(self, frame: int) -> int:
        """Place of a frame in the result."""
        if frame not in self._rows:
            first, last = self.header.frames[0], self.header.frames[-1]
            raise InputError(f"there is no frame {frame} in this result; it has {first} to {last}")
        return self._rows[frame]

    def close(self) -> None:
        """Lets go of the finished file."""
        with self._lock:
            if self._final is not None:
                self._final.close()
            self._final = None

    def _begin(self) -> None:
        """Another run: what is known of an earlier one is forgotten."""
        frames = self.header.frames
        self._rows = {frame: row for row, frame in enumerate(frames)}
        self._segments, self._home, self._done = {}, np.zeros(len(frames), np.int64), None
        self._small = blank(self.header, frames, lambda name: name not in LARGE)

    def _open(self, segments: list[Segment], fresh: bool) -> None:
        """Small variables from the finished file where it is up to date, else from the segments that are new."""
        import h5py  # not netCDF: its readers take a tenth of a second to find out how long a growing axis is

        self.close()
        self._done = None
        if fresh:
            try:
                self._final = file = h5py.File(self.folder / FINAL, "r")
                names = [name for name in file if name in self._small or name.startswith("loss_")]
                self._small |= {name: file[name].asstr()[:] if name in WORDS else file[name][:] for name in names}
                return
            except (OSError, ValueError, KeyError, RuntimeError, TypeError):
                self.close()  # damaged: the segments are there
        for segment in segments:
            if segment.number not in self._segments:
                self._segments[segment.number] = segment
                arrays = segment.read(self.folder, lambda name: name not in LARGE)
                if arrays is not None:
                    self._put(arrays, segment.number)

    def _put(self, arrays: Mapping[str, NDArray[Any]], number: int) -> None:
        """A segment's small variables in their places; later segments overwrite."""
        taken = [row for row, frame in enumerate(arrays["frame"].tolist()) if frame in self._rows]
        rows = [self._rows[frame] for frame in arrays["frame"][taken].tolist()]
        self._home[rows] = number
        for name in self._small.keys() - arrays.keys() - {"source_frame"}:
            self._small[name][rows] = np.nan  # a lost frame may replace a found one
        for name, values in arrays.items():
            if name == "frame" or name in LARGE:
                continue
            if name not in self._small:  # a term of the loss
                self._small[name] = np.full(len(self._home), np.nan, np.float32)
            new = values[taken]
            if name == "source_frame":  # -1: what its number says
                new = np.where(new < 0, self._small[name][rows], new)
            self._small[name][rows] = new

    def _head(self, first: int, stop: int) -> dict[str, NDArray[Any]]:
        """How surely keypoint 0 is the head in some frames: by what the run has noted, which no segment holds."""
        nowhere = ~np.isin(self._small["status"][first:stop].astype(str), ("ok", "suspect"))
        confidence = head_confidence(self.header, self.header.frames[first:stop])
        return {"head_confidence": np.where(nowhere, np.float32(np.nan), confidence)}

    def _along(self, first: int, stop: int, names: Set[str]) -> dict[str, NDArray[Any]]:
        """Variables along the body of some frames."""
        frames = self.header.frames[first:stop]
        data = blank(self.header, frames, names.__contains__)
        data = {name: values for name, values in data.items() if name in names}
        if self._final is not None:
            for name in data.keys() & set(self._final):
                values = self._final[name][first:stop]
                if name == "position":
                    values = values[..., 0].transpose(0, 2, 1)
                data[name] = values[..., 0] if name == "confidence" else values
            return data
        for number in sorted({int(home) for home in self._home[first:stop] if home}):
            arrays = self._segments[number].read(self.folder, lambda name: name in names or name == "frame")
            if arrays is None:
                continue
            rows = [(self._rows.get(frame, -1) - first, row) for row, frame in enumerate(arrays["frame"].tolist())]
            here = [(to, at) for to, at in rows if 0 <= to < len(frames) and self._home[first + to] == number]
            places, taken = [to for to, _ in here], [at for _, at in here]
            for name in data.keys() & arrays.keys():
                data[name][places] = arrays[name][taken]
        return data
