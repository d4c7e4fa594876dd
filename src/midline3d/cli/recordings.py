"""Commands on a recording before its reconstruction: make one, look one over."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from midline3d.cli.options import Json, RecordingPath, Seed, SettingsFile, Shortest, drawable
from midline3d.cli.terminal import print_json, say_places, working


class Source(StrEnum):
    """How a simulated camera's pictures are kept."""

    avi = "avi"
    npy = "npy"
    png = "png"


def simulate(
    out: Annotated[Path, typer.Argument(help="Folder to write the recording and its truth to.")],
    preset: Annotated[
        str, typer.Option(help="clean, swim, blur, dirt, coil or hard; varied draws everything from the seed.")
    ] = "swim",
    family: Annotated[
        str | None, typer.Option(help="Of the preset varied: fibre, veil, larva, ...; else the seed's turn.")
    ] = None,
    nuisance: Annotated[
        str | None, typer.Option(help="Of the preset varied: all easy but for blur, overlap, motion, ... at --level.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Of the nuisance, in its own unit.")] = None,
    frames: Annotated[int, typer.Option(help="How many.")] = 40,
    size: Annotated[int, typer.Option(help="Width and height of the pictures, px.")] = 512,
    px_per_mm: Annotated[float, typer.Option(help="Magnification; varied draws its own.")] = 130.0,
    cameras: Annotated[int, typer.Option(help="How many; varied draws its own number.")] = 3,
    source: Annotated[Source, typer.Option(help="Lossless video, stack, or folder of pictures.")] = Source.avi,
    seed: Seed = 0,
) -> None:
    """A synthetic recording with known truth, drawn by an image model that shares nothing with the method's."""
    from midline3d.synth import Plan
    from midline3d.synth import simulate as draw

    plan = Plan(preset, frames, size, px_per_mm, cameras, seed, source.value, family, nuisance, level)
    plan.check()
    with working("give the same command again") as tick:
        draw(out, plan, lambda done, total: tick("simulating", done, total))
    console = Console()
    say_places(console, {"the recording": out / "recording.toml", "the truth": out / "truth.nc"})
    console.print(f"Next: midline3d reconstruct {out} -o OUT", highlight=False)


def check(
    recording: RecordingPath,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw the views with what was found in them.")
    ] = None,
    shortest: Shortest = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Preflight: everything wrong with the input, before hours are spent. Status 1 where a limit is passed."""
    from functools import partial

    from midline3d.bench import frame_seconds
    from midline3d.recording.check import check as look
    from midline3d.recording.inputs import spare_input
    from midline3d.settings import load_settings

    chosen = load_settings(settings)
    drawable(picture, "--picture")
    if picture is not None:
        spare_input(recording, picture)
    pace = partial(frame_seconds, chosen)
    with working("give the same command again") as tick:
        report = look(
            recording,
            chosen.locating,
            pace=pace,
            progress=lambda done, total: tick("looking around", done, total),
            shortest=shortest,
        )
        if picture is not None:
            report.picture(picture)
    if as_json:
        print_json(report.as_dict())
    else:
        typer.echo(report.text())
    raise typer.Exit(0 if report.ok else 1)
