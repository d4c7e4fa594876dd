"""The manifest: what a run is, in one small file that is written when it begins and when something is noted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from midline3d.errors import InputError
from midline3d.files import write_whole
from midline3d.store.records import Header

FORMAT = "midline3d result 2"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What stands in the file."""

    header: Header
    since: int = 0
    """Segments up to this number are of an earlier run, which this one replaces."""
    redo: bool = False
    """Whether it was: then the same command goes on with this run and does not replace it again."""

    @cached_property
    def run(self) -> str:
        """Known to be this run, whatever has been noted since."""
        header = vars(self.header) | {"attributes": {}}
        return hashlib.sha256(json.dumps([header, self.since], sort_keys=True).encode()).hexdigest()[:16]

    def write(self, folder: Path, needed: int = 0) -> None:
        """needed: bytes that the whole run will still want there."""
        content = {
            "format": FORMAT,
            "since": self.since,
            "redo": self.redo,
            "header": vars(self.header) | {"frames": runs(self.header.frames)},
        }
        write_whole(folder / MANIFEST, json.dumps(content, indent=1).encode(), needed)

    @staticmethod
    def read(folder: Path) -> Manifest:
        path = folder / MANIFEST
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{folder} holds no result to resume: it has no {MANIFEST}; check the path") from None
        except (OSError, ValueError, RecursionError) as fault:
            raise InputError(f"{path}: cannot be read ({fault}); is it a result of midline3d?") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path}: is not of the format '{FORMAT}'; use the version of midline3d that wrote it")
        try:
            return Manifest(_header(content["header"]), int(content["since"]), bool(content["redo"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
            raise InputError(
                f"{path}: is damaged ({type(fault).__name__}: {fault}); put it back, or start over with --redo"
            ) from None


def _header(content: dict[str, Any]) -> Header:
    known = {item.name for item in fields(Header)}
    if content.keys() != known:
        raise ValueError(f"the header's keys differ in {', '.join(sorted(content.keys() ^ known))}")
    given = {**content, "frames": _frames(content["frames"])}
    given |= {name: tuple(content[name]) for name in ("cameras", "offsets")}
    header = Header(**given)
    if not header.fps > 0 or not 0 < header.keypoints < 1_000_000 or len(header.cameras) < 2:
        raise ValueError(f"fps {header.fps}, keypoints {header.keypoints}, cameras {header.cameras}")
    if header.offsets and len(header.offsets) != len(header.cameras):
        raise ValueError(f"{len(header.offsets)} offsets of {len(header.cameras)} cameras")
    if not isinstance(header.settings, str):
        raise ValueError("settings are no text")
    dict(header.inputs), dict(header.attributes)
    return header


def runs(frames: Iterable[int]) -> list[list[int]]:
    """Frames as [first, last] of every run of successive ones."""
    found: list[list[int]] = []
    for frame in frames:
        if found and frame == found[-1][1] + 1:
            found[-1][1] = frame
        else:
            found.append([frame, frame])
    return found


def ranges(frames: Iterable[int], shown: int = 8) -> str:
    """Frames for people: 3, 10 to 15, ... and how many more stretches."""
    found = runs(sorted(frames))
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in found[:shown]]
    more = f" and {len(found) - shown} more stretches" if len(found) > shown else ""
    return ", ".join(parts) + more


def _frames(content: object) -> tuple[int, ...]:
    if not isinstance(content, list) or not all(
        isinstance(run, list) and len(run) == 2 and all(isinstance(end, int) for end in run) for run in content
    ):
        raise ValueError("frames are no list of first and last ones")
    if sum(last - first + 1 for first, last in content) > 100_000_000:
        raise ValueError("more than a hundred million frames")
    return tuple(frame for first, last in content for frame in range(first, last + 1))
