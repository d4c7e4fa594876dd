"""The result: a folder that grows frame by frame and is whole at every moment, and `midline.nc` at the end.

    OUT/manifest.json      what the run is, and every segment with its checksum
    OUT/segments/*.npz     some frames each, written once and never changed
    OUT/midline.nc         everything, once all frames are there

A file is written aside, flushed to the disk and renamed; the manifest follows. Whatever kills the run, what the
manifest names is either whole or found out by its checksum, and those frames are simply done again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import xarray as xr

from midline3d.errors import InputError
from midline3d.store.dataset import assemble
from midline3d.store.records import DIMENSIONS, FrameResult, Header
from midline3d.store.segments import (
    SEGMENTS,
    Segment,
    fingerprint,
    guard,
    settle,
    unpack,
    write_segment,
    write_whole,
)

FORMAT = "midline3d result 1"
MANIFEST, FINAL = "manifest.json", "midline.nc"
SEGMENT_FRAMES = 64
"""Frames after which a segment is written: more would lose more in a crash, fewer would make many files."""
SEGMENT_SECONDS = 5.0
"""Age of the oldest frame in memory at which a segment is written even so: what a crash costs at most."""


class Result:
    """A result being written. Use as a context, so that the last frames reach the disk."""

    def __init__(self, folder: Path, header: Header, segments: Sequence[Segment] = ()) -> None:
        self.folder, self.header = folder, header
        self._segments = list(segments)
        self._expected = frozenset(header.frames)
        self._waiting: dict[int, FrameResult] = {}
        self._since = 0.0

    @classmethod
    def create(cls, folder: Path, header: Header) -> Result:
        """Begins a result in a folder that holds none."""
        folder = Path(folder)
        if (folder / MANIFEST).exists():
            raise InputError(f"{folder} already holds a result; resume it, or give another folder")
        guard(folder, lambda: (folder / SEGMENTS).mkdir(parents=True, exist_ok=True))
        result = cls(folder, header)
        result._write_manifest()
        return result

    @classmethod
    def resume(cls, folder: Path, header: Header) -> Result:
        """Continues a result: checks that it is the same run, and drops every segment that is not whole."""
        folder = Path(folder)
        before, segments = _read_manifest(folder)
        whole = [segment for segment in segments if segment.read(folder) is not None]
        done = {frame for segment in whole for frame in segment.frames}
        _check_same_run(folder, before, header, done)
        result = cls(folder, replace(header, attributes={**before.attributes, **header.attributes}), whole)
        result._write_manifest()
        named = {segment.name for segment in whole}
        (folder / SEGMENTS).mkdir(exist_ok=True)
        for path in (folder / SEGMENTS).iterdir():
            if path.name not in named:
                path.unlink()
        return result

    @staticmethod
    def check(folder: Path, header: Header) -> None:
        """Complains if another run's result lies in the folder; nothing is touched."""
        if (Path(folder) / MANIFEST).exists():
            before, segments = _read_manifest(Path(folder))
            _check_same_run(folder, before, header, {frame for segment in segments for frame in segment.frames})

    @classmethod
    def start(cls, folder: Path, header: Header) -> Result:
        """Resumes the result in the folder, or creates it."""
        return (cls.resume if (Path(folder) / MANIFEST).exists() else cls.create)(folder, header)

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    @property
    def done(self) -> frozenset[int]:
        """Frames that are in the result already."""
        return frozenset(self._waiting).union(*(segment.frames for segment in self._segments))

    def append(self, frame: int, record: FrameResult) -> None:
        """Adds a frame, in any order; of a frame added twice the last holds."""
        if frame not in self._expected:
            raise ValueError(f"frame {frame} is not one of the {len(self.header.frames)} frames of this result")
        self._check_shapes(record)
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting[frame] = record
        if len(self._waiting) >= SEGMENT_FRAMES or time.monotonic() - self._since > SEGMENT_SECONDS:
            self.flush()

    def note(self, **attributes: str | int | float) -> None:
        """Keeps something with the result that was not known when it was begun."""
        self.header = replace(self.header, attributes={**self.header.attributes, **attributes})
        self._write_manifest()

    def flush(self) -> None:
        """Brings every frame added so far to the disk."""
        if not self._waiting:
            return
        number = 1 + max((int(Path(segment.name).stem) for segment in self._segments), default=0)
        self._segments.append(write_segment(self.folder, number, self._waiting))
        self._write_manifest()
        self._waiting.clear()

    def read(self, frame: int) -> FrameResult | None:
        """A frame as it was added, number for number (None became NaN where neighbours have numbers)."""
        if frame in self._waiting:
            return self._waiting[frame]
        for segment in reversed(self._segments):
            if frame in segment.frames and (arrays := segment.read(self.folder)) is not None:
                return unpack(arrays, segment.frames.index(frame))
        return None

    def dataset(self) -> xr.Dataset:
        """Everything so far, as `open_result` gives it."""
        self.flush()
        return assemble(self.folder, self.header, self._segments)

    def consolidate(self) -> Path:
        """Writes `midline.nc`; every frame must be there."""
        left = len(self._expected - self.done)
        if left:
            raise InputError(
                f"{self.folder}: {left} of {len(self.header.frames)} frames are still to do; resume the run"
            )
        dataset = self.dataset()
        packed = {
            name: {"zlib": True, "complevel": 4, "shuffle": True}
            for name, variable in dataset.data_vars.items()
            if variable.dtype.kind in "fi" and variable.ndim > 1
        }
        aside = self.folder / f"{FINAL}.part"

        def write() -> None:
            dataset.to_netcdf(aside, engine="h5netcdf", encoding=packed)
            settle(aside, self.folder / FINAL)

        guard(self.folder, write)
        return self.folder / FINAL

    def _check_shapes(self, record: FrameResult) -> None:
        sizes = self.header.sizes
        for name, values in record.arrays().items():
            shape = tuple(sizes[dim] for dim in DIMENSIONS.get(name, ()))
            if values.shape != shape:
                raise ValueError(f"{name} has the shape {values.shape}, but this result's is {shape}")

    def _write_manifest(self) -> None:
        content = {
            "format": FORMAT,
            "header": asdict(self.header) | {"frames": _runs(self.header.frames)},
            "segments": [asdict(segment) | {"frames": _runs(segment.frames)} for segment in self._segments],
        }
        write_whole(self.folder / MANIFEST, json.dumps(content).encode())


def open_result(path: Path | str) -> xr.Dataset:
    """A result, growing or complete, as one dataset in memory: `path` is its folder or its `midline.nc`.

    Frames that are not done yet are NaN with the status "pending".
    """
    path = Path(path)
    if path.is_file() and path.suffix == ".nc":
        return _load(path)
    if (path / MANIFEST).exists():
        header, segments = _read_manifest(path)
        if (path / FINAL).exists():
            final = _load(path / FINAL)
            if final.attrs.get("segments") == fingerprint(segments):
                return final
        return assemble(path, header, segments)
    if (path / FINAL).exists():
        return _load(path / FINAL)
    raise InputError(f"{path} is no result: it has neither {MANIFEST} nor {FINAL}; give the folder of a reconstruction")


def _load(path: Path) -> xr.Dataset:
    try:
        return xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError) as fault:
        raise InputError(f"{path}: cannot be read as netCDF ({fault}); consolidate the result again") from None


def _read_manifest(folder: Path) -> tuple[Header, list[Segment]]:
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder} holds no result to resume: it has no {MANIFEST}; check the path") from None
    except (OSError, ValueError) as fault:
        raise InputError(f"{path}: cannot be read ({fault}); is it a result of midline3d?") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"{path}: is not of the format '{FORMAT}'; use the version of midline3d that wrote it")
    header = content["header"]
    header |= {"frames": _frames(header["frames"]), "cameras": tuple(header["cameras"])}
    segments = [Segment(**segment | {"frames": _frames(segment["frames"])}) for segment in content["segments"]]
    return Header(**header), segments


def _runs(frames: Sequence[int]) -> list[list[int]]:
    """Frames as [first, last] of every run of successive ones: the manifest is written anew with every segment."""
    runs: list[list[int]] = []
    for frame in frames:
        if runs and frame == runs[-1][1] + 1:
            runs[-1][1] = frame
        else:
            runs.append([frame, frame])
    return runs


def _frames(runs: list[list[int]]) -> tuple[int, ...]:
    return tuple(frame for first, last in runs for frame in range(first, last + 1))


def _check_same_run(folder: Path, before: Header, now: Header, done: set[int]) -> None:
    """Frames of two different runs must never stand side by side in one result."""
    remedy = "repeat it as it was, or give another output folder"
    if before.settings != now.settings:
        old, new = before.settings.splitlines(), now.settings.splitlines()
        changed = [line for line in old + new if line not in old or line not in new] or ["their order"]
        raise InputError(f"{folder} was begun with other settings ({changed[-1]}); {remedy}")
    for name in sorted(before.inputs.keys() | now.inputs.keys()):
        if before.inputs.get(name) != now.inputs.get(name):
            if before.frames != now.frames:
                then, here = (f"{frames[0]}:{frames[-1] + 1}" for frames in (before.frames, now.frames))
                raise InputError(f"{folder} was begun with frames {then}, not {here}; {remedy}")
            raise InputError(f"{folder} was begun with another {name}, or its files have changed since; {remedy}")
    for name in ("cameras", "keypoints", "fps", "seed"):
        if getattr(before, name) != getattr(now, name):
            raise InputError(
                f"{folder} was begun with {name} {getattr(before, name)}, not {getattr(now, name)}; {remedy}"
            )
    beyond = sorted(done - set(now.frames))
    if beyond:
        raise InputError(
            f"{folder} already holds {len(beyond)} frames that are not asked for (the first is {beyond[0]}); {remedy}"
        )
