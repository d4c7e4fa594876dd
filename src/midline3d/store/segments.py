"""Segments: some frames each, in a file that is written once and carries its checksum in its name.

Nothing else needs to be written for a segment to count, so that a frame costs the same whether it is the first or the
last of a million; and a file that was cut, changed or lost harms no other.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.files import write_whole
from midline3d.store.kept import packed, unpacked
from midline3d.store.records import DIMENSIONS, FrameResult

SEGMENTS = "segments"
"""Folder of the segments in a result."""
_NAME = re.compile(r"(\d{6,})-([0-9a-f]{16})\.npz")
WORDS = ("status", "reason", "edited")
"""Variables of a frame that are words."""
KNOWN = "known"
"""What the run knew when it had done these frames: bytes, beside the arrays that lead with an axis of frames."""


@dataclass(frozen=True)
class Segment:
    """Some frames of a result, in a file that is never changed."""

    number: int
    """Later ones have higher numbers."""
    checksum: str
    """The first 16 digits of its content's sha256."""

    @property
    def name(self) -> str:
        return f"{self.number:06d}-{self.checksum}.npz"

    def read(self, folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, NDArray[Any]] | None:
        """The arrays, leading with an axis of frames; None where the file is missing or not what was written.

        wanted: tells by its name whether an array is; of the others there are only the names, with nothing in them.
        """
        content = self._content(folder)
        if content is None:
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            names = [name for name in arrays.files if name != KNOWN]
            return {name: arrays[name] if wanted(name) else np.empty(0) for name in names}

    def known(self, folder: Path) -> dict[str, Any]:
        """What the run knew when it had done these frames; nothing where the file is not what was written."""
        content = self._content(folder)
        if content is None:
            return {}
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return unpacked(arrays[KNOWN].tobytes()) if KNOWN in arrays.files else {}

    def _content(self, folder: Path) -> bytes | None:
        try:
            content = (folder / SEGMENTS / self.name).read_bytes()
        except OSError:
            return None
        return content if checksum(content) == self.checksum else None


def segments_in(folder: Path, since: int = 0) -> list[Segment]:
    """The segments that lie in a result's folder, whole or not, with numbers above `since`, by rising number."""
    place = folder / SEGMENTS
    names = [_NAME.fullmatch(path.name) for path in place.iterdir()] if place.is_dir() else []
    found = [Segment(int(name[1]), name[2]) for name in names if name is not None]
    return sorted((each for each in found if each.number > since), key=lambda each: (each.number, each.checksum))


def write_segment(
    folder: Path,
    number: int,
    records: Mapping[int, FrameResult],
    needed: int = 0,
    known: Mapping[str, Any] | None = None,
) -> Segment:
    """Brings frames to the disk. needed: bytes that the whole run will still want there; known: see `KNOWN`."""
    content = pack(records, known or {})
    segment = Segment(number, checksum(content))
    write_whole(folder / SEGMENTS / segment.name, content, needed)
    return segment


def fingerprint(segments: Sequence[Segment]) -> str:
    """Changes whenever the content of a result does."""
    return hashlib.sha256("".join(segment.name for segment in segments).encode()).hexdigest()


def unpack(arrays: Mapping[str, NDArray[Any]], row: int) -> FrameResult:
    """One row of a segment's arrays."""
    numbers: dict[str, Any] = {name: arrays[name][row] for name in DIMENSIONS if name in arrays}
    for name in ("length", "loss"):
        if name in numbers:
            numbers[name] = float(numbers[name])
    terms = {name[5:]: float(values[row]) for name, values in arrays.items() if name.startswith("loss_")}
    words: dict[str, Any] = {name: str(arrays[name][row]) for name in WORDS}
    if "source_frame" in arrays and arrays["source_frame"][row].min() >= 0:
        numbers["source_frame"] = arrays["source_frame"][row]
    return FrameResult(steps=int(arrays["steps"][row]), loss_terms=terms, **words, **numbers)


def checksum(content: bytes) -> str:
    """What a file's name says of its content."""
    return hashlib.sha256(content).hexdigest()[:16]


def pack(records: Mapping[int, FrameResult], known: Mapping[str, Any]) -> bytes:
    """Frames as the content of one segment."""
    ordered = sorted(records.items())
    numbers = [record.arrays() for _, record in ordered]
    arrays: dict[str, Any] = {
        "frame": np.array([frame for frame, _ in ordered], dtype=np.int64),
        "steps": np.array([record.steps for _, record in ordered], dtype=np.int32),
    }
    arrays |= {name: np.array([getattr(record, name) for _, record in ordered], dtype=np.str_) for name in WORDS}
    sources = [record.source_frame for _, record in ordered]
    given = next((source for source in sources if source is not None), None)
    if given is not None:
        unknown = np.full(np.shape(given), -1)
        arrays["source_frame"] = np.stack([unknown if source is None else source for source in sources])
    for name in sorted(set().union(*numbers)):
        found = next(row[name] for row in numbers if name in row)
        blank = np.full(found.shape, np.nan)
        stack = np.stack([row.get(name, blank) for row in numbers])
        arrays[name] = stack.astype(found.dtype if found.dtype.kind == "f" else np.float64)
    if known:
        arrays[KNOWN] = np.frombuffer(packed(known), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
