"""A recording's own files, which nothing that is written may take the place of."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from midline3d.errors import InputError
from midline3d.recording.description import load_description

DESCRIPTION = "recording.toml"


def input_files(recording: Path) -> list[Path]:
    """What a recording is made of: its description, calibration, sources, and pictures of backgrounds and boards."""
    folder, description = load_description(recording)
    names = [description.calibration, *(camera.source for camera in description.cameras)]
    names += [camera.background for camera in description.cameras if camera.background is not None]
    if description.frame is not None and description.frame.board is not None:
        names += description.frame.board.values()
    own = folder / DESCRIPTION if recording.is_dir() else recording
    return [own, *(folder / name for name in names)]


def spare_inputs(recording: Path, out: Path, written: Container[str]) -> None:
    """Complains about a folder for a result in which that would be written over the recording's own files.

    written: the first letters, up to a full stop, of what a result writes into its folder.
    """
    remedy = "give another output folder, or the recording's own files would be written over"
    own, *others = input_files(recording)
    if out.resolve() == own.resolve().parent:
        raise InputError(f"{out}: is the folder of the recording; {remedy}")
    if (out / DESCRIPTION).exists():
        raise InputError(f"{out}: holds a {DESCRIPTION}, so it is the folder of a recording; {remedy}")
    for file in (own, *others):
        if not file.resolve().is_relative_to(out.resolve()):
            continue
        first = file.resolve().relative_to(out.resolve()).parts
        if not first or first[0].lstrip(".").split(".")[0] in written:
            raise InputError(f"{out}: holds {file.name} of the recording, under a name that a result has; {remedy}")


def spare_input(recording: Path, target: Path) -> None:
    """Complains about a file to be written that is one of the recording's own."""
    for file in input_files(recording):
        same, inside = target.resolve() == file.resolve(), target.resolve().is_relative_to(file.resolve())
        if same or (inside and target.exists()):
            raise InputError(f"{target}: is a file of the recording, which would be lost; give another name")
