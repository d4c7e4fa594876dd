"""The source at a path, by what lies there."""

from __future__ import annotations

from pathlib import Path

from midline3d.errors import InputError
from midline3d.recording.sources.source import Source, exists
from midline3d.recording.sources.stills import PICTURE_SUFFIXES, open_pictures, open_stack, open_tiff
from midline3d.recording.sources.video import open_video


def open_source(path: Path) -> Source:
    """The source at a path, by what lies there."""
    path = Path(path)
    if not exists(path):
        raise InputError(f"{path}: there is no such source; check 'source' in the recording file")
    if path.is_dir():
        return open_pictures(path)
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty (0 bytes); copy it again, or film again if the camera wrote nothing")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return open_stack(path)
    if suffix in (".tif", ".tiff"):
        return open_tiff(path)
    if suffix in PICTURE_SUFFIXES:
        raise InputError(f"{path}: is a single picture; give the folder that holds the camera's pictures")
    return open_video(path)
