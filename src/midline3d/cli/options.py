"""Options that several commands share, and what they stand for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from midline3d.errors import InputError
from midline3d.files import check_file


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


RecordingPath = Annotated[Path, typer.Argument(help="A folder with recording.toml, or that file.")]
RecordingPaths = Annotated[
    list[Path], typer.Argument(metavar="RECORDING...", help="A folder with recording.toml, or that file.")
]
ResultPath = Annotated[Path, typer.Argument(help="Folder of a result, or its midline.nc.")]
ResultFolder = Annotated[Path, typer.Argument(help="Folder of a result.")]
OnlyFrames = Annotated[str | None, typer.Option(metavar="A:B", help="Only frames A to B - 1.")]
Shortest = Annotated[bool, typer.Option("--shortest", help="Stop at the end of the shortest camera.")]
Redo = Annotated[bool, typer.Option("--redo", help="Start over; old frames go when new ones come.")]
Seed = Annotated[
    int, typer.Option(help="Of everything random: the same seed gives the same result.", min=0, max=2**63 - 1)
]
Where = Annotated[
    Device, typer.Option("--device", help="cuda is an NVIDIA GPU; auto takes one where there are few cores.")
]
SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", metavar="FILE", help="A TOML file of settings, or `paper`: the method as published."),
]
Jobs = Annotated[int | None, typer.Option(help="How many at once; else as many as there are cores.", min=1)]
Within = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Stop after so long, with what is there; the same command goes on.", min=1),
]
DRAWN = (".png", ".jpg", ".pdf", ".svg")
"""Names of pictures that can be drawn."""
Json = Annotated[bool, typer.Option("--json", help="JSON alone on standard output, for machines.")]


def chosen_device(device: Device) -> str:
    """The device that --device stands for on this machine: cpu or cuda."""
    from midline3d import api

    return api.chosen_device(device.value)


def drawable(path: Path | None, option: str) -> None:
    """Says in one sentence, before anything is computed, where a figure cannot be drawn to."""
    if path is not None and (path.suffix.lower() not in DRAWN or not path.absolute().parent.is_dir()):
        raise InputError(f"{option} is '{path}'; name a {', '.join(DRAWN)} file in a folder that exists")
    writable(path)


def writable(path: Path | None) -> None:
    """Says the same of a file of any kind, where one is given."""
    if path is not None:
        check_file(path)


def frame_ends(text: str) -> tuple[int, int | None]:
    """A:B as numbers; without A from the first frame, None without B."""
    first, colon, end = (part.strip() for part in text.partition(":"))
    if not colon or not all(part == "" or (part.isdecimal() and len(part) < 19) for part in (first, end)):
        raise InputError(
            f"--frames is '{text[:40]}'; write A:B, the first frame and the one after the last, such as 0:100"
        )
    return int(first or 0), int(end) if end else None


def frame_range(text: str, recording: Path, shortest: bool) -> tuple[int, int]:
    """The same; without B to the last frame of the recording."""
    first, end = frame_ends(text)
    if end is not None:
        return first, end
    from midline3d.recording import load_recording

    return first, load_recording(recording, shortest=shortest).count


def names_in(text: str) -> tuple[str, ...]:
    """Names that were given with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
