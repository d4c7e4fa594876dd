"""Commands that make a result, say how it went and measure how good it is."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from midline3d.cli.options import (
    Device,
    Json,
    OnlyFrames,
    RecordingPaths,
    Redo,
    ResultPath,
    Seed,
    SettingsFile,
    Shortest,
    Where,
    chosen_device,
    drawable,
    frame_ends,
    frame_range,
    writable,
)
from midline3d.cli.terminal import complain, print_json, say_places, working
from midline3d.errors import InputError

if TYPE_CHECKING:
    from midline3d.tracking.job import Job
    from midline3d.tracking.several import Outcome


def reconstruct(
    recordings: RecordingPaths,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder of the result, of several OUT/name; one that was begun is continued."),
    ],
    frames: OnlyFrames = None,
    shortest: Shortest = False,
    redo: Redo = False,
    crops: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Another result's crops of this recording: no decoding.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes at once, for long recordings or several; else what suits.", min=1, max=999),
    ] = None,
    seed: Seed = 0,
    device: Where = Device.auto,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """The job: videos in, a 3D midline for every frame out. Resumes by itself."""
    from midline3d.settings import load_settings
    from midline3d.store import info as look
    from midline3d.tracking.reconstruct import Job
    from midline3d.tracking.reconstruct import reconstruct as run

    chosen, recording = load_settings(settings), recordings[0]
    job = Job(recording, out, chosen, seed, chosen_device(device), None, shortest, redo, crops)
    if len(recordings) > 1:
        raise typer.Exit(_several(recordings, job, frames, workers, as_json))
    if frames is not None:
        job = replace(job, frames=frame_range(frames, recording, shortest))
    began = time.monotonic()
    with working("the same command continues where this one stopped") as tick:
        midline = run(job, tick, workers)
    found, seconds = look(out), time.monotonic() - began
    sure = found.facts.get("head_confidence")
    if as_json:
        figures = {"result": str(midline), "frames": len(found.frames.number), **found.counts, "head_confidence": sure}
        print_json(figures | {"reasons": found.reasons, "look_at": found.as_dict()["look_at"], "seconds": seconds})
        return
    console = Console()
    console.print(f"{found.summary()}; {seconds:.0f} s.", highlight=False)
    if found.doubtful:
        console.print(found.warning(), highlight=False, soft_wrap=True)
    if sure is not None:
        console.print(f"Keypoint 0 is the head with a confidence of {sure:.1%}.", highlight=False)
    say_places(console, {"the midlines": midline})
    console.print(f'Next: midline3d.open_result("{out}") in Python, or any reader of netCDF', highlight=False)


def _several(recordings: list[Path], job: Job, frames: str | None, workers: int | None, as_json: bool) -> int:
    """Several recordings side by side, one table at the end; the status: 0 where all went well."""
    from midline3d.tracking.several import each_in_its_folder, reconstruct_all

    if job.crops is not None:
        raise InputError("--crops are those of one recording; leave it out where there are several")
    jobs = with_frames(each_in_its_folder(recordings, job), frames)
    with working("the same command continues where this one stopped") as tick:
        outcomes = reconstruct_all(jobs, tick, workers)
    return report_outcomes(outcomes, as_json)


def report_outcomes(outcomes: list[Outcome], as_json: bool) -> int:
    """What became of several recordings: the table, then a sentence for each that failed; the status to end with."""
    from midline3d.tracking.several import table

    if as_json:
        print_json({"recordings": [outcome.as_dict() for outcome in outcomes]})
    else:
        Console().print(table(outcomes))
    faults = [outcome for outcome in outcomes if outcome.fault is not None]
    for outcome in faults:
        complain(f"{outcome.name}: {outcome.fault}")
    return 0 if not faults else 1 if any(outcome.own for outcome in faults) else 2


def with_frames(jobs: dict[str, Job], frames: str | None) -> dict[str, Job]:
    """The jobs with the part that --frames asks for; a recording that cannot be opened says so in its turn."""
    if frames is None:
        return jobs
    frame_ends(frames)
    found = dict(jobs)
    for name, job in jobs.items():
        with suppress(InputError):
            found[name] = replace(job, frames=frame_range(frames, job.recording, job.shortest))
    return found


def info(
    result: ResultPath,
    as_json: Json = False,
) -> None:
    """What a result is, how it went and what is missing; of one that grows, is complete, or is damaged."""
    from midline3d.store import info as look

    found = look(result)
    if as_json:
        print_json(found.as_dict())
    else:
        typer.echo(found.text())


def evaluate(
    result: ResultPath,
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="truth.nc, or the folder that it is in.")] = None,
    annotations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hand clicks: CSV of frame,camera,u,v and, if known, label,who.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the distances to clicks along the body: PNG, PDF or SVG.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="The same as a table.")] = None,
    kinematics: Annotated[
        bool, typer.Option("--kinematics", help="With --truth: whether the standard deviations of the kinematics hold.")
    ] = False,
    as_json: Json = False,
) -> None:
    """How good a result is: against known truth, or against hand clicks on its midline."""
    from midline3d.evaluate import evaluate_truth

    if (truth is None) == (annotations is None):
        raise InputError("what to measure against is not clear: give either --truth or --annotations")
    if kinematics and truth is None:
        raise InputError("--kinematics holds quantities against those of true midlines; give --truth with it")
    if annotations is not None:
        _validate(result, annotations, plot, csv, as_json)
        return
    if plot is not None or csv is not None:
        raise InputError("--plot and --csv show distances to hand clicks; give --annotations with them")
    assert truth is not None
    truth = truth / "truth.nc" if (truth / "truth.nc").is_file() else truth
    if kinematics:
        _hold(result, truth, as_json)
        return
    measured = evaluate_truth(result, truth)
    if as_json:
        print_json(measured.summary())
    else:
        Console().print(measured.table())


def _hold(result: Path, truth: Path, as_json: bool) -> None:
    """Whether the standard deviations of the kinematics hold."""
    from dataclasses import asdict

    from midline3d.evaluate.derived import derived_z, held, held_table

    rows = held([derived_z(result, truth)])
    if as_json:
        print_json({name: asdict(row) for name, row in rows.items()})
    else:
        Console().print(held_table(rows, 1))


def _validate(result: Path, annotations: Path, plot: Path | None, csv: Path | None, as_json: bool) -> None:
    """A result against hand clicks: tables, figure, and how well the people who clicked agree."""
    from midline3d.evaluate import agreement, evaluate_annotations
    from midline3d.evaluate.agreement import agreement_table
    from midline3d.evaluate.annotation_figure import draw_annotations

    drawable(plot, "--plot")
    writable(csv)
    measured = evaluate_annotations(result, annotations)
    pairs = agreement(measured.clicks)
    if plot is not None:
        draw_annotations(measured, plot)
    if csv is not None:
        measured.write_table(csv)
    if as_json:
        print_json(measured.summary() | {"agreement": [pair.summary() for pair in pairs]})
        return
    console = Console()
    for table in [*measured.tables(), *([agreement_table(pairs)] if pairs else [])]:
        console.print(table)
    if places := {name: path for name, path in (("the figure", plot), ("the table", csv)) if path is not None}:
        say_places(console, places)
