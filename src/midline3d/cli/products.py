"""Commands that make something of a result: pictures, kinematics, and files for other programs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from midline3d.cli.options import Json, ResultFolder, ResultPath, frame_ends
from midline3d.cli.terminal import complain, print_json, say_places, working
from midline3d.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from midline3d.world import World


class Target(StrEnum):
    """A format to export to."""

    csv = "csv"
    parquet = "parquet"
    anipose = "anipose"
    movement = "movement"
    wcon = "wcon"
    nwb = "nwb"
    mat = "mat"


WithoutSuspect = Annotated[
    bool, typer.Option("--without-suspect", help="Leave suspect frames out: they are NaN, as lost ones are.")
]
Frame = Annotated[
    Path | None,
    typer.Option(metavar="RECORDING", help="Take the world from this recording's frame table, not the result's."),
]
NoFrame = Annotated[bool, typer.Option("--no-frame", help="The calibration's world, whatever the frame table says.")]


def picture(
    result: ResultFolder,
    frame: Annotated[
        int | None, typer.Option(help="Number of the frame; else the one that shows the animal best.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="PNG, PDF or SVG; else OUT/frame-NUMBER.png.")] = None,
) -> None:
    """One frame as a picture: the views with the midline over them, the render, what is left, and the curve in 3D."""
    from midline3d.report import frame_figure, telling_frame

    number = telling_frame(result) if frame is None else frame
    if number is None:
        raise InputError(f"{result} has no frame with a midline to draw")
    path = out or result / f"frame-{number}.png"
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"{path.name[:80]}: a picture is a .png, .pdf or .svg; give it a name that ends so")
    say_places(Console(), {f"frame {number}": frame_figure(result, number, path)})


def video(
    result: ResultFolder,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The .mp4; else OUT/midline.mp4.")] = None,
    frames: Annotated[str | None, typer.Option(metavar="A:B", help="First frame and the one after the last.")] = None,
    fps: Annotated[float | None, typer.Option(min=0.1, max=1000, help="Of the movie; else the recording's.")] = None,
) -> None:
    """A movie: the views with the midline over them, and beside them the midline in 3D, turning."""
    from midline3d.movie import Movie, write_movie

    movie = Movie(None if frames is None else frame_ends(frames), fps)
    with working("give the same command again") as tick:
        path = write_movie(result, out or result / "midline.mp4", movie, lambda done, all: tick("drawing", done, all))
    say_places(Console(), {"the movie": path})


def report(
    result: ResultPath,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to; else OUT/report.")] = None,
    as_json: Json = False,
) -> None:
    """One page that says what was reconstructed and how well, with every figure beside it as PNG and SVG."""
    from midline3d.report import write_report

    with working("give the same command again") as tick:
        page = write_report(result, out, lambda done, all: tick("drawing", done, all))
    figures = sorted(file.name for file in page.parent.iterdir() if file.suffix in (".png", ".svg"))
    if as_json:
        print_json({"report": str(page), "figures": figures})
    else:
        say_places(Console(), {"the report": page})


def kinematics(
    result: ResultPath,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to; else the result's own.")] = None,
    window: Annotated[float | None, typer.Option(help="s: time over which derivatives are smoothed.")] = None,
    draws: Annotated[
        int | None,
        typer.Option(help="Midlines drawn for the standard deviations; 0 for none, where time is short. [default: 32]"),
    ] = None,
    without_suspect: WithoutSuspect = False,
    frame: Frame = None,
    no_frame: NoFrame = False,
    as_json: Json = False,
) -> None:
    """How the animal is bent and how it moves: kinematics.nc and tables, each with unit and standard deviation."""
    from dataclasses import replace

    from midline3d.files import check_folder
    from midline3d.kinematics import Options, of, summary, write
    from midline3d.store import ResultParts

    options = Options(without=("suspect",) if without_suspect else ())
    if window is not None:
        options = replace(options, window=window)
    if draws is not None:
        options = replace(options, draws=draws)
    options.check()
    ResultParts(result)  # complains where it is none, before anything is said
    check_folder(out or _folder(result))
    world = _world(result, frame, no_frame)
    with working("give the same command again") as tick:
        tick("measuring", 0, 0)
        measured = of(result, options, world)
        places = write(measured, out or _folder(result))
    table = summary(measured)
    if as_json:
        print_json({"files": {name: str(place) for name, place in places.items()}, "summary": _figures(table)})
        return
    console = Console()
    _print_summary(console, table, str(measured.attrs["smoothing"]))
    say_places(console, places)
    if "left_out" in measured.attrs:
        complain(f"left out: {measured.attrs['left_out']}")


def export(
    result: ResultPath,
    to: Annotated[list[Target], typer.Option("--to", help="The format; may be given several times.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file, or a folder to write to; else OUT/export.")
    ] = None,
    wide: Annotated[bool, typer.Option("--wide", help="Tables with a row for every frame, not every point.")] = False,
    keypoints: Annotated[int | None, typer.Option(help="Only so many, evenly spread; else all.")] = None,
    without_suspect: WithoutSuspect = False,
    frame: Frame = None,
    no_frame: NoFrame = False,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="When the recording began, for NWB: 2025-03-31T14:00:00+01:00.")
    ] = None,
    movement: Annotated[
        str, typer.Option(metavar="VERSION", help="The movement that will load it, such as 0.15.")
    ] = "",
    as_json: Json = False,
) -> None:
    """The midlines in other programs' formats: every frame with its true number, NaN where there is nothing."""
    from midline3d.export import Choice, check_export, export_result

    choice = Choice(
        wide=wide,
        keypoints=keypoints,
        without=("suspect",) if without_suspect else (),
        world=_world(result, frame, no_frame),
        start=None if start is None else _moment(start),
        movement=movement,
    )
    if out is not None and len(to) > 1 and out.suffix:
        raise InputError(f"--out is {out}, but {len(to)} formats were asked for; give a folder")
    for name in to:
        check_export(result, name.value, out, choice)
    places = {name.value: export_result(result, name.value, out, choice) for name in dict.fromkeys(to)}
    if as_json:
        print_json({"files": {name: str(place) for name, place in places.items()}})
    else:
        say_places(Console(), places)


def _world(result: Path, frame: Path | None, no_frame: bool) -> World | None:
    """The world to tell places in; None for the result's own."""
    if frame is not None and no_frame:
        raise InputError("--frame and --no-frame were both given; leave one out")
    if no_frame:
        from midline3d.world import CALIBRATION

        return CALIBRATION
    if frame is None:
        return None
    from midline3d.calibration import load_calibration
    from midline3d.recording.description import load_world

    return load_world(frame, load_calibration(_folder(result) / "calibration.json"))


def _folder(result: Path) -> Path:
    return result.parent if result.is_file() else result


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--start is '{text[:40]}'; write a time such as 2025-03-31T14:00:00+01:00") from None
    if moment.tzinfo is None:
        raise InputError(f"--start is '{text[:40]}', without its time zone; add one, such as +01:00 or Z")
    return moment


def _figures(table: pd.DataFrame) -> dict[str, dict[str, object]]:
    """The summary in the types of JSON, which knows no NaN."""
    filled = table.astype(object).where(table.notna(), None).set_index("quantity")
    chosen = ["units", "mean", "deviation_over_time", "uncertainty", "values"]
    return {
        str(name): dict(zip(chosen, row, strict=True))
        for name, row in zip(filled.index, filled[chosen].values, strict=True)
    }


SHOWN = (
    *("length", "forward_speed", "speed", "frequency", "wavelength", "wave_speed", "slip", "travelling_wave_index"),
    *("planarity", "handedness", "roll_rate", "straightness"),
)
"""What the command shows; the tables have all."""


def _print_summary(console: Console, table: pd.DataFrame, smoothing: str) -> None:
    from rich.table import Table

    rows = table.set_index("quantity")
    shown = Table(
        title="Means, and the standard deviation of a single frame", caption=f"Derivatives in time: {smoothing}"
    )
    for name, side in (("quantity", "left"), ("mean", "right"), ("std", "right"), ("unit", "left"), ("", "left")):
        shown.add_column(name, justify=side)  # type: ignore[arg-type]
    for name in SHOWN:
        if name in rows.index and rows.loc[name, "values"] > 0:
            row = rows.loc[name]
            off = "" if row.uncertainty != row.uncertainty else f"{row.uncertainty:.2g}"
            shown.add_row(name, f"{row['mean']:.4g}", off, "" if row.units == "1" else row.units, row.meaning)
    console.print(shown)
