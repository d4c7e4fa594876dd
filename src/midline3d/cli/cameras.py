"""Commands that end in a calibration: from pictures of a board, or from the recording itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from midline3d.cli.options import (
    Device,
    Json,
    OnlyFrames,
    RecordingPath,
    Seed,
    SettingsFile,
    chosen_device,
    frame_range,
)
from midline3d.cli.terminal import print_json, say_places, working
from midline3d.errors import InputError

if TYPE_CHECKING:
    from midline3d.settings import Settings


def calibrate(
    pictures: Annotated[Path, typer.Argument(help="A folder with a folder of pictures for each camera.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The calibration: .json, .toml (anipose), .xml or .yml.")],
    grid: Annotated[str, typer.Option(metavar="AxB", help="Inner corners along and down, such as 9x6.")],
    square: Annotated[float, typer.Option(help="Side of a square, mm.")],
    marker: Annotated[
        float, typer.Option(help="Side of a marker, mm, for a ChArUco board: then --grid counts its squares.")
    ] = 0.0,
    dictionary: Annotated[str, typer.Option(help="Of the markers, as OpenCV names it.")] = "DICT_4X4_50",
    focal: Annotated[float | None, typer.Option(help="px, to start from: for telecentric lenses.")] = None,
    as_json: Json = False,
) -> None:
    """A calibration from pictures of a board: the n-th picture of every camera, by name, shows the same moment."""
    from midline3d.calibration import check_target, save_calibration
    from midline3d.calibration.boards import Board, pictures_in
    from midline3d.calibration.boards import calibrate as solve
    from midline3d.files import aside as whole_file

    check_target(out)
    board = Board("charuco" if marker else "chessboard", *_grid(grid), square, marker, dictionary)
    report = solve(pictures_in(pictures), board, focal)
    with whole_file(out) as place:
        save_calibration(report.calibration, place)
    if as_json:
        print_json({"calibration": str(out), **report.as_dict()})
    else:
        typer.echo(report.text())
        say_places(Console(), {"the calibration": out})


def refine_cameras(
    recording: RecordingPath,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The new calibration: .json, .toml (anipose), .xml or .yml.")
    ],
    result: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="This recording's result to start from; begun if need be.")
    ] = None,
    frames: OnlyFrames = None,
    count: Annotated[int | None, typer.Option(help="How many frames to adjust to.", min=2, max=1000)] = None,
    seed: Seed = 0,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """A better calibration out of the recording itself: cameras and worm fitted together, with no board.

    The recording is reconstructed, frames are chosen that fill the volume, and all cameras are adjusted to them.
    """
    from tempfile import TemporaryDirectory

    from midline3d.calibration import check_target, save_calibration
    from midline3d.files import aside as whole_file
    from midline3d.recording.inputs import spare_input
    from midline3d.refine import refine_cameras as refine
    from midline3d.tracking.reconstruct import Job

    check_target(out)
    spare_input(recording, out)
    chosen = _refining(settings, count)
    part = None if frames is None else frame_range(frames, recording, shortest=False)
    with TemporaryDirectory() as aside, working("give the same command again") as tick:
        found = refine(Job(recording, result or Path(aside), chosen, seed, chosen_device(Device.auto), part), tick)
    with whole_file(out) as place:
        save_calibration(found.calibration, place)
    if as_json:
        print_json({"calibration": str(out), **found.summary()})
        return
    console = Console()
    console.print(found.table())
    say_places(console, {"the calibration": out})
    console.print(
        f'Next: calibration = "{out.resolve()}" in recording.toml, and reconstruct into another folder', highlight=False
    )


def _grid(text: str) -> tuple[int, int]:
    columns, cross, rows = text.lower().partition("x")
    if not cross or not all(part.strip().isdecimal() and len(part) < 6 for part in (columns, rows)):
        raise InputError(f"--grid is '{text[:40]}'; write AxB, the numbers along and down the board, such as 9x6")
    return int(columns), int(rows)


def _refining(settings: Path | None, count: int | None) -> Settings:
    """The settings, with the number of frames to adjust cameras to where the command gives one."""
    from midline3d.settings import load_settings

    chosen = load_settings(settings)
    return chosen if count is None else replace(chosen, refine=replace(chosen.refine, frames=count))
