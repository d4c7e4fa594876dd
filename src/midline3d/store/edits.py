"""What people did to a result: an append-only log beside it, and the overlay that it makes of the frames.

    OUT/edits.jsonl     one edit a line: what, which frames, who, when, by which version; never changed, only added to
    OUT/edits/*.npz     the numbers that an edit brought, written once, each with its checksum in its name

Segments and `midline.nc` stay what the program found. Whoever opens the result sees the edits on top, and an edit that
is taken back is a line that says so.
"""

from __future__ import annotations

import getpass
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from midline3d.errors import InputError
from midline3d.files import guarded, write_whole
from midline3d.store.manifest import runs
from midline3d.store.records import FrameResult
from midline3d.store.segments import checksum, pack

LOG, CONTENT = "edits.jsonl", "edits"
"""The log, and the folder of the numbers, in a result."""

Part = Literal["head", "tail", "body"]
PARTS: tuple[str, ...] = get_args(Part)
Kind = Literal["refit", "swap", "bad", "accept", "again", "undo"]
KINDS: dict[str, str] = {
    "refit": "frames fitted again, through pins or from a neighbour that was",
    "swap": "head and tail exchanged",
    "bad": "midlines found wrong, and taken away",
    "accept": "midlines looked at and found right",
    "again": "an earlier edit's frames fitted again in a new run of the recording",
    "undo": "an earlier edit taken back; of an undo: that edit is done after all",
}
"""What an edit can be."""


@dataclass(frozen=True)
class Pin:
    """A place in one camera's picture through which somebody made the midline run."""

    frame: int
    camera: str
    u: float
    """px of the full picture."""
    v: float
    part: Part = "body"


@dataclass(frozen=True)
class Edit:
    """One line of the log."""

    kind: Kind
    frames: tuple[tuple[int, int], ...] = ()
    """First and last of every stretch of frames that it concerns."""
    pins: tuple[Pin, ...] = ()
    of: str = ""
    """The edit that an undo takes back, or that was done again."""
    content: str = ""
    """Name of the file with its numbers."""
    run: str = ""
    """The run whose frames it was made on (see `Manifest.run`)."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    who: str = ""
    when: str = ""
    """UTC."""
    version: str = ""
    """Of midline3d."""

    @property
    def numbers(self) -> list[int]:
        """Every frame that it concerns."""
        return [frame for first, last in self.frames for frame in range(first, last + 1)]

    @property
    def pinned(self) -> set[int]:
        """Frames that have pins of their own."""
        return {pin.frame for pin in self.pins}

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", (), [])}

    @staticmethod
    def of_json(content: Mapping[str, Any]) -> Edit:
        given = dict(content)
        given["frames"] = tuple((int(first), int(last)) for first, last in given.get("frames", ()))
        given["pins"] = tuple(_pin(pin) for pin in given.get("pins", ()))
        made = Edit(**given)
        if made.kind not in KINDS or not isinstance(made.id, str) or not made.id.isalnum():
            raise ValueError(f"no edit: {made.kind} {made.id}")
        if any(not 0 <= first <= last < 1 << 40 for first, last in made.frames):
            raise ValueError(f"no frames: {made.frames}")
        return made


def _pin(content: Mapping[str, Any]) -> Pin:
    pin = Pin(**content)
    if pin.part not in PARTS or not np.isfinite([pin.u, pin.v]).all():
        raise ValueError(f"no pin: {pin}")
    return pin


def edit_of(kind: Kind, frames: Iterable[int], run: str, **more: Any) -> Edit:
    """An edit of these frames by whoever runs this program, now."""
    stretches = tuple((first, last) for first, last in runs(sorted(set(frames))))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return Edit(kind, stretches, run=run, who=_who(), when=when, version=_version(), **more)


class EditLog:
    """The log of a result's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / LOG

    def read(self) -> list[Edit]:
        """Every edit in order; a line that a crash has cut short is none."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as fault:
            raise InputError(f"{self.path}: cannot be read ({fault.strerror}); check its rights") from None
        found = []
        for line in lines:
            try:
                found.append(Edit.of_json(json.loads(line)))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                continue
        return found

    def append(self, edit: Edit, content: Mapping[str, NDArray[Any]] | Mapping[int, FrameResult] | None = None) -> Edit:
        """Adds an edit; its numbers come first, so that a line never speaks of a file that is not there.

        content: the frames' records, or arrays that lead with an axis of frames.
        """
        if content is not None:
            packed = _packed(content)
            name = f"{edit.id}-{checksum(packed)}.npz"
            write_whole(self.folder / CONTENT / name, packed)
            edit = replace(edit, content=name)
        line = json.dumps(edit.as_json()).encode() + b"\n"
        with guarded(self.folder), self.path.open("a+b") as file:
            if file.tell() and not _ends_a_line(file):
                line = b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        return edit

    def content(self, edit: Edit) -> dict[str, NDArray[Any]] | None:
        """The numbers that an edit brought; None where there are none, or they are not what was written."""
        name = edit.content
        if not name or Path(name).name != name:
            return None
        try:
            whole = (self.folder / CONTENT / name).read_bytes()
        except OSError:
            return None
        if not name.endswith(f"-{checksum(whole)}.npz"):
            return None
        with np.load(io.BytesIO(whole), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}

    def fingerprint(self) -> str:
        """Changes whenever the log does."""
        try:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]
        except OSError:
            return ""


def standing(edits: Sequence[Edit]) -> list[Edit]:
    """Edits that have not been taken back, in order, undos and repetitions aside."""
    taken: set[str] = set()
    for edit in reversed(edits):
        if edit.kind == "undo" and edit.id not in taken:
            taken.add(edit.of)
    return [edit for edit in edits if edit.id not in taken and edit.kind not in ("undo", "again")]


def last_undoable(edits: Sequence[Edit]) -> Edit | None:
    """The edit that an undo would take back now."""
    left = standing(edits)
    return left[-1] if left else None


def last_redoable(edits: Sequence[Edit]) -> Edit | None:
    """The undo that would be taken back to do its edit after all: the last, unless something was done since."""
    taken: set[str] = set()
    for edit in reversed(edits):
        if edit.kind == "again":
            continue
        if edit.kind != "undo":
            return None
        if edit.id in taken:
            continue
        # An undo of an undo did that one's edit again: neither is there to be taken back.
        of = next((other for other in edits if other.id == edit.of), None)
        if of is not None and of.kind == "undo":
            taken.add(of.id)
            continue
        return edit
    return None


def _packed(content: Mapping[Any, Any]) -> bytes:
    first = next(iter(content.values()))
    if isinstance(first, FrameResult):
        return pack(content, {})
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {str(name): np.asarray(values) for name, values in content.items()}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such user in a container
        return "unknown"


def _version() -> str:
    try:
        return version("midline3d")
    except PackageNotFoundError:
        return "0"
