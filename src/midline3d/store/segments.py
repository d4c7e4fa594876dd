"""Files that are there whole or not at all, and segments: some frames each, known by their checksum."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.store.records import DIMENSIONS, FrameResult

SEGMENTS = "segments"
"""Folder of the segments in a result."""


@dataclass(frozen=True)
class Segment:
    """Some frames of a result, in a file that is never changed."""

    name: str
    sha256: str
    frames: tuple[int, ...]

    def read(self, folder: Path) -> dict[str, NDArray[Any]] | None:
        """The arrays, leading with an axis of frames; None where the file is missing or not what was written."""
        try:
            content = (folder / SEGMENTS / self.name).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content).hexdigest() != self.sha256:
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)


def write_segment(folder: Path, number: int, records: Mapping[int, FrameResult]) -> Segment:
    """Brings frames to the disk."""
    content, name = _pack(records), f"{number:06d}.npz"
    write_whole(folder / SEGMENTS / name, content)
    return Segment(name, hashlib.sha256(content).hexdigest(), tuple(sorted(records)))


def fingerprint(segments: Sequence[Segment]) -> str:
    """Changes whenever the content of a result does."""
    return hashlib.sha256("".join(segment.sha256 for segment in segments).encode()).hexdigest()


def unpack(arrays: Mapping[str, NDArray[Any]], row: int) -> FrameResult:
    """One row of a segment's arrays."""
    numbers: dict[str, Any] = {name: arrays[name][row] for name in DIMENSIONS if name in arrays}
    for name in ("length", "loss"):
        if name in numbers:
            numbers[name] = float(numbers[name])
    terms = {name[5:]: float(values[row]) for name, values in arrays.items() if name.startswith("loss_")}
    status: Any = str(arrays["status"][row])
    return FrameResult(status=status, steps=int(arrays["steps"][row]), loss_terms=terms, **numbers)


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that it is there whole or not at all."""
    aside = path.with_name(path.name + ".part")

    def write() -> None:
        aside.write_bytes(content)
        settle(aside, path)

    guard(path.parent, write)


def settle(aside: Path, path: Path) -> None:
    """Flushes a file to the disk and gives it its name."""
    with aside.open("rb+") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def guard(folder: Path, write: Callable[[], object]) -> None:
    """Says what a user can do about a disk that is full or forbidden; nothing written before is harmed by it."""
    try:
        write()
    except OSError as fault:
        if fault.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"{folder}: the disk is full; free some space and run the same command again") from fault
        if fault.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise InputError(
                f"{folder}: cannot be written to ({fault.strerror}); give another output folder"
            ) from fault
        if fault.errno in (errno.EEXIST, errno.ENOTDIR):
            raise InputError(f"{folder}: is a file, or lies in one; give a folder for the output") from fault
        raise


def _pack(records: Mapping[int, FrameResult]) -> bytes:
    """Frames as the content of one segment."""
    ordered = sorted(records.items())
    numbers = [record.arrays() for _, record in ordered]
    arrays: dict[str, NDArray[Any]] = {
        "frame": np.array([frame for frame, _ in ordered], dtype=np.int64),
        "status": np.array([record.status for _, record in ordered], dtype=np.str_),
        "steps": np.array([record.steps for _, record in ordered], dtype=np.int32),
    }
    for name in sorted(set().union(*numbers)):
        known = next(row[name] for row in numbers if name in row)
        blank = np.full(known.shape, np.nan)
        stack = np.stack([row.get(name, blank) for row in numbers])
        arrays[name] = stack.astype(known.dtype if known.dtype.kind == "f" else np.float64)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
