"""The result: a folder that grows frame by frame and is whole at every moment, and `midline.nc` at the end.

    OUT/manifest.json      what the run is
    OUT/segments/*.npz     some frames each, written once and never changed, each with its checksum in its name, and
                           what the run knew when it had done them
    OUT/kept/*.npz         what the run knows beside its frames, to go on from
    OUT/midline.nc         everything, once all frames are there

A file is written aside, flushed to the disk and renamed. Whatever kills the run, a segment is either whole or found
out by its checksum, and those frames are simply done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.files import aside, guarded
from midline3d.reading import number_of
from midline3d.store.dataset import PENDING, Part, assemble, attributes_of, blocks, write_netcdf
from midline3d.store.difference import check_same_run
from midline3d.store.kept import KEPT, is_kept, read_kept, write_kept
from midline3d.store.manifest import MANIFEST, Manifest
from midline3d.store.overlay import Overlay
from midline3d.store.records import FrameResult, Header
from midline3d.store.segments import SEGMENTS, Segment, fingerprint, segments_in, unpack, write_segment

FINAL = "midline.nc"
SEGMENT_FRAMES = 64
"""Frames after which a segment is written: more would lose more in a crash, fewer would make many files."""
OPEN_SEGMENTS = 4
"""Segments kept in memory for reading, some 1 MB each."""
SEGMENT_SECONDS = 1.5
"""Age of the oldest frame in memory at which a segment is written even so: what a crash costs, but for the frame in
hand."""


class Result:
    """A result being written. Use as a context, so that the last frames reach the disk."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Takes what lies in the folder and is whole; nothing is written."""
        self.folder, self._manifest = folder, manifest
        self._expected = frozenset(manifest.header.frames)
        self._segments: dict[int, Segment] = {}
        self._home: dict[int, int] = {}  # of every frame that is there: its segment's number, 0 in memory
        self._last = manifest.since
        self._terms: set[str] = set()
        self._open: dict[int, dict[str, NDArray[Any]] | None] = {}
        """The segments that were read last, by their numbers."""
        self._waiting: dict[int, FrameResult] = {}
        self._known: dict[str, Any] = {}
        self._since = 0.0
        self._written = False
        self._load()

    def _load(self) -> None:
        """Takes the segments that are whole."""
        self._segments, self._home, self._last, self._terms, self._open = {}, {}, self._manifest.since, set(), {}
        self._take_in(segments_in(self.folder, self._last))

    def _take_in(self, segments: list[Segment]) -> None:
        for segment in segments:
            arrays = segment.read(self.folder, lambda name: name == "frame")
            self._last = segment.number
            if arrays is not None:
                self._segments[segment.number] = segment
                frames = (frame for frame in arrays["frame"].tolist() if frame in self._expected)
                self._home |= dict.fromkeys(frames, segment.number)
                self._terms |= {name for name in arrays if name.startswith("loss_")}

    @classmethod
    def create(cls, folder: Path, header: Header) -> Result:
        """Begins a result in a folder that holds none."""
        folder = Path(folder)
        if (folder / MANIFEST).exists():
            raise InputError(f"{folder} already holds a result; resume it, or give another folder")
        with guarded(folder):
            (folder / SEGMENTS).mkdir(parents=True, exist_ok=True)
        result = cls(folder, Manifest(header, since=_last(folder)))
        result._write_manifest()
        return result

    @classmethod
    def resume(cls, folder: Path, header: Header | None = None) -> Result:
        """Continues a result: checks that it is the same run, and drops every segment that is not whole.

        header: of the run that would continue it; without one it is taken as it is, to be corrected.
        """
        folder = Path(folder)
        before = Manifest.read(folder)
        result = cls(folder, before)
        if header is not None:
            check_same_run(folder, before.header, header, lambda: result.complete)
            # Where nothing is left to compute, the version and device that computed it stay.
            older, newer = (header, before.header) if result.complete else (before.header, header)
            attributes = {**older.attributes, **newer.attributes}
            result._manifest = replace(before, header=replace(newer, attributes=attributes))
        result._write_manifest()
        with guarded(folder):
            (folder / SEGMENTS).mkdir(exist_ok=True)
        result._clear()
        return result

    @classmethod
    def redo(cls, folder: Path, header: Header) -> Result:
        """Begins anew in a folder that holds a result, which is replaced only when something new comes.

        The same run that was begun so before, and is not complete, goes on.
        """
        folder = Path(folder)
        if not (folder / MANIFEST).exists():
            return cls.create(folder, header)
        with suppress(InputError):  # what cannot be read is nothing to go on with
            before = Manifest.read(folder)
            result = cls(folder, before)
            if before.redo and not result.complete:
                check_same_run(folder, before.header, header, lambda: False)
                return cls.resume(folder, header)
        with guarded(folder):
            (folder / SEGMENTS).mkdir(exist_ok=True)
        return cls(folder, Manifest(header, since=_last(folder), redo=True))

    @classmethod
    def start(cls, folder: Path, header: Header, redo: bool = False) -> Result:
        """Resumes the result in the folder, or creates it, or begins it anew."""
        if redo:
            return cls.redo(folder, header)
        return (cls.resume if (Path(folder) / MANIFEST).exists() else cls.create)(folder, header)

    @staticmethod
    def check(folder: Path, header: Header) -> None:
        """Complains if another run's result lies in the folder; nothing is touched."""
        if (Path(folder) / MANIFEST).exists():
            before = Manifest.read(Path(folder))
            check_same_run(Path(folder), before.header, header, lambda: Result(Path(folder), before).complete)

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    @property
    def header(self) -> Header:
        return self._manifest.header

    @property
    def done(self) -> Set[int]:
        """Frames that are in the result already: a view that costs nothing and grows with the result."""
        return self._home.keys()

    @property
    def complete(self) -> bool:
        """Whether every frame is there."""
        return len(self._home) == len(self._expected)

    @property
    def needed(self) -> int:
        """About how many bytes the run will still want on the disk."""
        missing = len(self._expected) - len(self._home) + len(self._waiting)
        return 500_000 + missing * self.header.frame_bytes

    def append(self, frame: int, record: FrameResult, known: Mapping[str, Any] | None = None) -> None:
        """Adds a frame, in any order; of a frame added twice the last holds.

        known: what the run knows now, as `keep` takes it, or what gives it when it is called. It reaches the disk with
        the frame or not at all, the last that was given under a name with all frames that were added until then.
        """
        if frame not in self._expected:
            raise ValueError(f"frame {frame} is not one of the {len(self.header.frames)} frames of this result")
        record.check(self.header)
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting[frame] = record
        self._home[frame] = 0
        self._known |= known or {}
        if len(self._waiting) >= SEGMENT_FRAMES or time.monotonic() - self._since > SEGMENT_SECONDS:
            self.flush()

    def note(self, **attributes: str | int | float) -> None:
        """Keeps something with the result that was not known when it was begun."""
        self._manifest = replace(
            self._manifest, header=replace(self.header, attributes={**self.header.attributes, **attributes})
        )
        self._write_manifest()

    def keep(self, name: str, content: Mapping[str, Any]) -> None:
        """Keeps what the run knows, to go on from after a crash: arrays and what JSON can say, nested as you like."""
        self._ensure_manifest()
        write_kept(self.folder, name, self._manifest.run, content, self.needed)

    def kept(self, name: str) -> dict[str, Any] | None:
        """What this run kept under a name, number for number; None where there is nothing, or nothing whole.

        Tuples come back as lists, keys as text.
        """
        return read_kept(self.folder, name, self._manifest.run)

    def forget(self, *names: str) -> None:
        """Keeps no more what was kept under some names."""
        for name in names:
            (self.folder / KEPT / f"{name}.npz").unlink(missing_ok=True)

    @staticmethod
    def kept_in(folder: Path, name: str) -> dict[str, Any] | None:
        """The same of the run in a folder, without a look at its frames; None where there is no run either."""
        if not (Path(folder) / MANIFEST).exists() or not is_kept(Path(folder), name):
            return None
        return read_kept(Path(folder), name, Manifest.read(Path(folder)).run)

    @staticmethod
    def stamps(folder: Path, *names: str) -> list[tuple[int, ...]]:
        """Changes whenever a folder's manifest, or what is kept there under these names, is written anew."""
        found = list[tuple[int, ...]]()
        for path in (folder / MANIFEST, *(folder / KEPT / f"{name}.npz" for name in names)):
            with suppress(OSError):
                about = path.stat()
                found.append((about.st_mtime_ns, about.st_size, about.st_ino))
        return found

    @staticmethod
    def run_in(folder: Path) -> str:
        """Which run's result lies in a folder (see `run`)."""
        return Manifest.read(Path(folder)).run

    @classmethod
    def read_only(cls, folder: Path) -> Result:
        """The result in a folder, to be read alone."""
        return cls(Path(folder), Manifest.read(Path(folder)))

    @property
    def run(self) -> str:
        """Known to be this run, whatever it has done since."""
        return self._manifest.run

    @property
    def last(self) -> int:
        """Number of the segment that was written last; frames that come from now on are in later ones."""
        self.flush()
        return self._last

    @property
    def newest(self) -> str:
        """Name of the segment that was written last; nothing where there is none, or it is not whole."""
        self.flush()
        return self._segments[self._last].name if self._last in self._segments else ""

    def catch_up(self, newest: str) -> None:
        """Takes in what another process has written since, until its `newest`; what is known is not read again."""
        if newest == self.newest:
            return
        there = segments_in(self.folder, self._manifest.since)
        if not set(self._segments.values()) <= set(there):  # something was taken back
            self._load()
        else:
            self._take_in([segment for segment in there if segment.number > self._last])
        if newest != self.newest:
            self._load()

    @property
    def segments(self) -> list[str]:
        """Names of the segments that are there and whole, each of which tells its content."""
        return [segment.name for segment in self._ordered]

    def back_to(self, number: int) -> None:
        """Takes back all that was written after segment `number`."""
        self.flush()
        for segment in segments_in(self.folder, max(number, self._manifest.since)):
            (self.folder / SEGMENTS / segment.name).unlink(missing_ok=True)
        self._load()

    def later(self, frame: int, number: int) -> bool:
        """Whether a frame came, or came again, after segment `number` was written."""
        home = self._home.get(frame, -1)
        return home == 0 or home > number

    def flush(self) -> None:
        """Brings every frame added so far to the disk."""
        if not self._waiting:
            return
        self._ensure_manifest()
        number = self._last + 1
        known = {name: content() if callable(content) else content for name, content in self._known.items()}
        self._segments[number] = write_segment(self.folder, number, self._waiting, self.needed, known)
        self._last = number
        self._terms |= {f"loss_{name}" for record in self._waiting.values() for name in record.loss_terms}
        self._home |= dict.fromkeys(self._waiting, number)
        self._waiting.clear()
        self._known.clear()

    def known(self, frame: int) -> dict[str, Any]:
        """What the run knew when it wrote a frame down: the last that was given to `append` for its segment."""
        segment = self._segments.get(self._home.get(frame, 0))
        return {} if segment is None else segment.known(self.folder)

    def read(self, frame: int) -> FrameResult | None:
        """A frame as it was added, number for number (None became NaN where neighbours have numbers)."""
        if frame in self._waiting:
            return self._waiting[frame]
        number = self._home.get(frame, 0)
        # Frames are mostly read one after the other, and some of them lie in later segments: the last few stay open.
        if number not in self._open:
            if len(self._open) == OPEN_SEGMENTS:
                del self._open[next(iter(self._open))]
            segment = self._segments.get(number)
            self._open[number] = None if segment is None else segment.read(self.folder)
        arrays = self._open[number]
        return None if arrays is None else unpack(arrays, arrays["frame"].tolist().index(frame))

    def dataset(self) -> xr.Dataset:
        """Everything so far, as `open_result` gives it."""
        self.flush()
        return assemble(self.folder, self.header, self._ordered)

    def consolidate(self) -> Path:
        """Writes `midline.nc`; every frame must be there."""
        path, left = self.folder / FINAL, len(self._expected) - len(self._home)
        if left:
            raise InputError(
                f"{self.folder}: {left} of {number_of(len(self.header.frames), 'frame')} are still to do; "
                "resume the run"
            )
        self.flush()
        # Read back as they will stand there, so that what was noted since is missed.
        if final_attributes(path) != attributes_of(self.header, fingerprint(self._ordered)):
            with aside(path, 500_000 + len(self.header.frames) * self.header.frame_bytes // 2) as part:
                write_netcdf(part, self._parts())
        self._clear()
        return path

    def _parts(self) -> Iterator[xr.Dataset]:
        """The whole result, some frames at a time."""
        content = fingerprint(self._ordered)
        for frames in blocks(self.header):
            numbers = sorted({self._home[frame] for frame in frames})
            segments = [self._segments[number] for number in numbers]
            part = assemble(self.folder, self.header, segments, Part(frames, content, frozenset(self._terms)))
            if (part.status == PENDING).any():
                raise InputError(f"{self.folder}: frames have gone bad on the disk; the same command does them again")
            yield part

    @property
    def _ordered(self) -> list[Segment]:
        return [self._segments[number] for number in sorted(self._segments)]

    def _clear(self) -> None:
        """Removes what a crash left over, and segments of a run that this one has replaced."""
        named = {segment.name for segment in self._segments.values()}
        for path in (self.folder / SEGMENTS).iterdir():
            if path.name not in named:
                with suppress(OSError):
                    path.unlink()

    def _ensure_manifest(self) -> None:
        if not self._written:
            self._write_manifest()

    def _write_manifest(self) -> None:
        self._manifest.write(self.folder, self.needed)
        self._written = True


def open_result(path: Path | str) -> xr.Dataset:
    """A result, growing or complete, as one dataset in memory: `path` is its folder or its `midline.nc`.

    What people have corrected is in it (see `edited`). Frames that are not done yet are NaN with the status "pending".
    """
    path = Path(path)
    if path.is_file() and path.suffix == ".nc":
        found, home = load_final(path), path.parent
        if path.name != FINAL or not (home / MANIFEST).exists():
            return found
        return Overlay(home, Manifest.read(home).run).apply(found)
    if (path / MANIFEST).exists():
        manifest = Manifest.read(path)
        return Overlay(path, manifest.run).apply(found_frames(path, manifest))
    if (path / FINAL).exists():
        return load_final(path / FINAL)
    raise InputError(f"{path} is no result: it has neither {MANIFEST} nor {FINAL}; give the folder of a reconstruction")


def found_frames(folder: Path, manifest: Manifest) -> xr.Dataset:
    """A result as the program found it, without what people did to it."""
    segments = segments_in(folder, manifest.since)
    if final_attributes(folder / FINAL).get("segments") == fingerprint(segments):
        with suppress(InputError):  # damaged: the segments are there
            return load_final(folder / FINAL)
    return assemble(folder, manifest.header, segments)


def load_final(path: Path) -> xr.Dataset:
    """A finished file."""
    try:
        return xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError, RuntimeError) as fault:
        raise InputError(f"{path}: cannot be read as netCDF ({fault}); consolidate the result again") from None


def final_attributes(path: Path) -> dict[str, Any]:
    """Those of a finished file; none where there is none, or none that can be read."""
    import h5netcdf

    try:
        with h5netcdf.File(path, "r") as file:
            return {name: getattr(value, "item", lambda value=value: value)() for name, value in file.attrs.items()}
    except (OSError, ValueError, KeyError, RuntimeError):
        return {}


def _last(folder: Path) -> int:
    """Number of the last segment in a folder, of whatever run."""
    return max((segment.number for segment in segments_in(folder)), default=0)
