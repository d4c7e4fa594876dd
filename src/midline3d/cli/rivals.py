"""Commands that hold the method against others, and against itself without its parts."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from midline3d.cli.options import (
    Jobs,
    Json,
    OnlyFrames,
    RecordingPath,
    ResultFolder,
    Seed,
    Shortest,
    Within,
    drawable,
    frame_ends,
    frame_range,
    names_in,
    writable,
)
from midline3d.cli.terminal import print_json, say_places, working
from midline3d.errors import InputError


class Rival(StrEnum):
    """A method to compare with."""

    kwon = "kwon"
    reconst = "reconst"
    wt3d = "wt3d"
    paths = "paths"


def baseline(
    recording: RecordingPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the result.")],
    method: Annotated[
        Rival, typer.Option(help="kwon: silhouettes in voxels; reconst: shifted midlines in voxels; wt3d: climbing "
                                 "between the ends; paths: minimal paths, matched and triangulated.")
    ] = Rival.paths,
    frames: OnlyFrames = None,
    shortest: Shortest = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Midlines by a published rival's method, on the same crops and cameras: to compare with."""
    from midline3d.store import info as look

    try:
        from midline3d.baselines.run import baseline as run
    except ModuleNotFoundError as fault:
        if fault.name != "skimage":
            raise
        raise InputError('the rivals need scikit-image: pip install "midline3d[baselines]"') from None
    asked = None if frames is None else frame_range(frames, recording, shortest)
    with working("give the same command again") as tick:
        midline = run(recording, out, method.value, asked, shortest, tick)
    found = look(out)
    seconds = found.facts.get("seconds_per_frame")
    if as_json:
        figures = {"result": str(midline), "frames": len(found.frames.number), **found.counts}
        print_json(figures | {"seconds_per_frame": seconds})
        return
    console = Console()
    console.print(found.summary(), highlight=False)
    say_places(console, {"the midlines": midline})


def compare(
    result: ResultFolder,
    midlines: Annotated[
        list[Path],
        typer.Option(metavar="FILE", help="Another method's midlines, or the folder of its result; several."),
    ],
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the losses over time: PNG, PDF or SVG.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Every frame's losses as a table.")] = None,
    as_json: Json = False,
) -> None:
    """Other methods' midlines under the same renderer, each with an appearance fitted anew: pixel losses by frame."""
    from midline3d.evaluate.comparison_figure import draw_comparison
    from midline3d.evaluate.rendered import compare as hold_against

    drawable(plot, "--plot")
    writable(csv)
    others: dict[str, Path] = {}
    for path in midlines:
        name = path.parent.name if path.name == "midline.nc" else path.stem if path.suffix else path.name
        if name in others:
            raise InputError(f"--midlines has two of the name '{name}'; name files or folders by their method")
        others[name] = path
    with working("give the same command again") as tick:
        found = hold_against(result, others, progress=tick)
    if plot is not None:
        draw_comparison(found, plot)
    if csv is not None:
        found.write_table(csv)
    if as_json:
        print_json(found.summary())
        return
    console = Console()
    console.print(found.table())
    if places := {name: path for name, path in (("the figure", plot), ("the table", csv)) if path is not None}:
        say_places(console, places)


def ablate(
    recording: RecordingPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all runs and the table; one begun goes on.")],
    only: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Variants to run, with commas; 'paper' and 'default' are whole.")
    ] = None,
    frames: OnlyFrames = None,
    jobs: Jobs = None,
    within: Within = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """The paper's ablation and ours: runs without one part each, their pixel losses beside the whole method's."""
    from midline3d.ablation import VARIANTS
    from midline3d.ablation import ablate as run

    chosen = VARIANTS
    if only is not None:
        names = names_in(only)
        known = {variant.name: variant for variant in VARIANTS}
        if wrong := [name for name in names if name not in known]:
            raise InputError(f"--only names '{wrong[0]}'; the variants are {', '.join(known)}")
        wanted = {known[name].reference for name in names} | set(names)
        chosen = tuple(variant for variant in VARIANTS if variant.name in wanted)
    asked = None if frames is None else frame_range(frames, recording, False)
    with working("the same command continues where this one stopped") as tick:
        found = run(recording, out, chosen, asked, jobs, seed, tick, within or math.inf)
    if as_json:
        print_json({"variants": found.figures()})
        return
    console = Console()
    console.print(found.table())
    say_places(console, {"the table": out / "table.csv", "all of it": out / "summary.json"})


def rivals(
    recordings: Annotated[
        list[Path],
        typer.Argument(help="Folders with recording.toml and truth.nc, or with NAME.truth.npz beside them; those of "
                            "one condition are named alike but for a number."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all runs and the table; one begun goes on.")],
    methods: Annotated[
        str | None, typer.Option(metavar="NAMES", help="With commas: midline3d, paper, kwon, reconst, wt3d, paths.")
    ] = None,
    frames: Annotated[str | None, typer.Option(metavar="A:B", help="Only frames A to B - 1 of each.")] = None,
    jobs: Jobs = None,
    limit: Annotated[float, typer.Option(help="Seconds that one method may take for a recording.")] = 3600.0,
    within: Within = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the results, in OUT/work.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Our method, the paper's and its rivals' over recordings whose truth is known: one table for every condition."""
    from midline3d.rivals import METHODS, Contest, hold_contest

    chosen = METHODS if methods is None else names_in(methods)
    asked = None
    if frames is not None:
        first, end = frame_ends(frames)
        if end is None:
            raise InputError(f"--frames is '{frames}'; recordings differ in length, so write both ends, such as 0:40")
        asked = first, end
    contest = Contest(tuple(recordings), chosen, asked, limit, seed)
    with working("the same command continues where this one stopped") as tick:
        standing = hold_contest(out, contest, jobs, within or math.inf, keep, tick)
    if as_json:
        print_json(standing.as_dict())
        return
    console = Console()
    for table in standing.tables():
        console.print(table)
    say_places(console, {"the table": out / "table.csv", "all of it": out / "summary.json"})
