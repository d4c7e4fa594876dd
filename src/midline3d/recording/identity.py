"""What a recording is known by: its content, wherever its files lie and whenever they were copied there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from midline3d.calibration import Calibration
from midline3d.errors import InputError
from midline3d.recording.description import Recording, View
from midline3d.recording.sources import PICTURE_SUFFIXES

ENDS = 1 << 20
"""Bytes read at a file's start and end: headers and indices of videos stand there."""
BLOCKS, BLOCK = 14, 1 << 16
"""Number and bytes of the pieces read in between: a hundred gigabytes are known in some milliseconds."""
PICTURES = 16
"""Pictures of a folder that are looked into."""


def inputs_of(recording: Recording) -> dict[str, str]:
    """Every input of a reconstruction by its name: what it says, or "sha256:" and a fingerprint of its content."""
    facts = {name: str(getattr(recording, name)) for name in ("worm", "background", "crop", "centre")}
    facts["calibration"] = _hashed(_numbers(recording.calibration))
    facts |= {f"camera {view.name}": _hashed(_view(view)) for view in recording.views}
    return facts | {f"offset of {view.name}": str(view.offset) for view in recording.views}


def content_of(path: Path) -> list[Any]:
    """What tells a source from another: sizes, and hashes of parts; for a folder of pictures their names too.

    A change that leaves the size, both ends and the pieces in between as they were is not seen.
    """
    try:
        if not path.is_dir():
            return _file(path)
        with os.scandir(path) as entries:
            there = sorted(
                (entry.name, entry.stat().st_size)
                for entry in entries
                if Path(entry.name).suffix.lower() in PICTURE_SUFFIXES and not entry.name.startswith(".")
            )
        names = [name for name, _ in there]
        return [there, [_file(path / name) for name in _spread(names, PICTURES)]]
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror}); check the disk and its rights") from None


def _file(path: Path) -> list[Any]:
    """Size and hash of a file's ends and of pieces spread between them; of all of it where it is small."""
    size, digest = path.stat().st_size, hashlib.sha256()
    with path.open("rb") as file:
        if size <= 2 * ENDS + BLOCKS * BLOCK:
            digest.update(file.read())
        else:
            places = [0, *np.linspace(ENDS, size - ENDS - BLOCK, BLOCKS).astype(np.int64).tolist(), size - ENDS]
            for place in places:
                file.seek(place)
                digest.update(file.read(ENDS if place in (0, size - ENDS) else BLOCK))
    return [size, digest.hexdigest()]


def _view(view: View) -> list[Any]:
    behind = None if view.background is None else content_of(view.background)
    return [content_of(view.source.path), view.source.count, view.source.size, behind]


def _numbers(calibration: Calibration) -> list[Any]:
    """A calibration's numbers. Rotations may be computed from vectors, the last digit not alike on all machines."""
    return [
        [
            camera.matrix.tolist(),
            camera.distortions.tolist(),
            (camera.rotation.round(12) + 0.0).tolist(),
            camera.translation.tolist(),
        ]
        for camera in calibration.cameras
    ]


def _spread(items: Sequence[str], count: int) -> list[str]:
    chosen = np.linspace(0, len(items) - 1, min(count, len(items))).round().astype(int)
    return [items[index] for index in chosen]


def _hashed(facts: Any) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(facts).encode()).hexdigest()
