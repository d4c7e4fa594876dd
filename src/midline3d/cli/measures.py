"""Commands that measure: how fast the method is here, how exact over a population, and what this machine lacks."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from midline3d.cli.options import (
    Device,
    Jobs,
    Json,
    Seed,
    SettingsFile,
    Where,
    Within,
    chosen_device,
    drawable,
    names_in,
)
from midline3d.cli.terminal import print_json, say_places, working


class Half(StrEnum):
    """Which seeds a benchmark takes."""

    tune = "tune"
    judge = "judge"
    all = "all"


def bench(
    device: Where = Device.auto,
    as_json: Json = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the step's time against N and w, the reference's too (takes 4 GB)."),
    ] = None,
) -> None:
    """How fast the method is on this machine: the reference and the fast path on the same work."""
    from midline3d.bench import bench as measure
    from midline3d.bench import draw, table

    drawable(plot, "--plot")
    with working("give the same command again") as tick:
        figures = measure(chosen_device(device), lambda doing: tick(doing, 0, 0), compare=plot is not None)
    if plot is not None:
        draw(figures, plot)
    if as_json:
        print_json(figures)
    else:
        Console().print(table(figures))


def benchmark(
    out: Annotated[Path, typer.Argument(help="Folder for rows, table and figure; a benchmark begun there goes on.")],
    recordings: Annotated[int, typer.Option(help="How many; 19 are one of every family.", min=1)] = 38,
    jobs: Jobs = None,
    half: Annotated[Half, typer.Option(help="tune: even seeds; judge: odd ones.")] = Half.all,
    frames: Annotated[int, typer.Option(help="Of each recording.")] = 40,
    family: Annotated[str | None, typer.Option(help="Only this one: fibre, veil, larva, ...")] = None,
    limit: Annotated[float, typer.Option(help="Seconds that one recording may take.")] = 600.0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep recordings and results, in OUT/work.")] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """How exact the method is: simulated recordings that differ in everything, side by side over the cores."""
    from midline3d.population import Exam
    from midline3d.population import benchmark as examine
    from midline3d.settings import load_settings

    exam = Exam(recordings, half.value, frames, family=family, limit=limit, settings=load_settings(settings))
    with working("the same command continues where this one stopped") as tick:
        summary = examine(out, exam, jobs, keep, tick)
    if as_json:
        print_json(summary.as_dict())
        return
    console = Console()
    for table in summary.tables():
        console.print(table)
    say_places(console, {"the figure": out / "benchmark.png", "all of it": out / "summary.json"})


def limits(
    out: Annotated[Path, typer.Argument(help="Folder for rows, table and figures; a course begun there goes on.")],
    only: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Nuisances, with commas: blur, overlap, motion, calibration, ..."),
    ] = None,
    animals: Annotated[int, typer.Option(help="At every level; the same ones at all.", min=1)] = 3,
    frames: Annotated[int, typer.Option(help="Of each recording.")] = 25,
    jobs: Jobs = None,
    limit: Annotated[float, typer.Option(help="Seconds that one recording may take.")] = 600.0,
    within: Within = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep recordings and results, in OUT/work.")] = False,
    settings: SettingsFile = None,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Where the method breaks: simulated recordings in which one nuisance grows while all else is easy."""
    from midline3d.limits import Course, find_limits
    from midline3d.settings import load_settings
    from midline3d.synth import LADDERS

    names = tuple(LADDERS) if only is None else names_in(only)
    course = Course(names, animals, frames, first_seed=seed, limit=limit, settings=load_settings(settings))
    with working("the same command continues where this one stopped") as tick:
        found = find_limits(out, course, jobs, within or math.inf, keep, tick)
    if as_json:
        print_json(found.as_dict())
        return
    console = Console()
    console.print(found.table())
    say_places(
        console, {"the figure": out / "limits.png", "the table": out / "limits.csv", "all of it": out / "summary.json"}
    )


def doctor(as_json: Json = False) -> None:
    """What this machine has and lacks: versions, processor, compiled code, GPU. Status 1 where a lack can be mended."""
    from midline3d.checkup import doctor as look

    found = look()
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(found.text())
    raise typer.Exit(0 if found.ok else 1)
