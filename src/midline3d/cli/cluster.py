"""`midline3d cluster`: many recordings on many machines, by dask.distributed or by SLURM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from midline3d.cli.options import (
    Device,
    Json,
    OnlyFrames,
    RecordingPath,
    RecordingPaths,
    Redo,
    Seed,
    SettingsFile,
    Shortest,
    Where,
    chosen_device,
    frame_range,
)
from midline3d.cli.results import report_outcomes, with_frames
from midline3d.cli.terminal import working
from midline3d.errors import InputError

if TYPE_CHECKING:
    from midline3d.tracking.reconstruct import Job

RUN = "run"
"""What `midline3d cluster` does where no other command is named."""


class _Cluster(TyperGroup):
    """Recordings may follow at once, without the name of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [RUN, *args])


app = typer.Typer(
    cls=_Cluster,
    no_args_is_help=True,
    help="Many recordings on many machines: midline3d cluster RECORDING... -o OUT, or a script for SLURM.",
)
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Folder of the result, of several OUT/name, on a disk that all share.")
]


@app.command(RUN)
def run(
    recordings: RecordingPaths,
    out: Out,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a dask scheduler, such as tcp://node7:8786, or the file it wrote."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="On this machine, where no scheduler is given; for trying.", min=1, max=1024)
    ] = None,
    frames: OnlyFrames = None,
    shortest: Shortest = False,
    redo: Redo = False,
    seed: Seed = 0,
    device: Where = Device.auto,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Reconstructs recordings on all workers of a dask scheduler; without one, on workers of this machine.

    Given again it goes on. Needs the extra: pip install "midline3d[cluster]".
    """
    from midline3d.cluster.place import Place
    from midline3d.cluster.run import reconstruct_on_cluster
    from midline3d.settings import load_settings
    from midline3d.tracking.reconstruct import Job

    if scheduler is not None and workers is not None:
        raise InputError("--workers are those of this machine, but a --scheduler has its own; leave one of them out")
    where = chosen_device(device) if scheduler is None else device.value
    job = Job(recordings[0], out, load_settings(settings), seed, where, None, shortest, redo)
    jobs = with_frames(_jobs(recordings, job), frames)
    with working("the same command continues where this one stopped") as tick:
        outcomes = reconstruct_on_cluster(jobs, Place(scheduler, workers), tick, where)
    raise typer.Exit(report_outcomes(outcomes, as_json))


@app.command("slurm-script")
def slurm_script(
    recordings: RecordingPaths,
    out: Out,
    at_once: Annotated[int, typer.Option(help="Tasks that run at the same time.", min=1, max=100_000)] = 100,
    cores: Annotated[int, typer.Option(help="Of each task.", min=1, max=1024)] = 1,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Of each task, as sbatch takes it.")] = "4G",
    time: Annotated[
        str, typer.Option(metavar="LIMIT", help="Of each task, as sbatch takes it; then it queues again and goes on.")
    ] = "04:00:00",
    largest: Annotated[
        int, typer.Option(help="Tasks in an array: less than the cluster's MaxArraySize.", min=1, max=4_000_000)
    ] = 1000,
    sbatch: Annotated[
        list[str] | None, typer.Option(metavar="OPTION", help="Further option of sbatch, as --sbatch=--partition=long.")
    ] = None,
    before: Annotated[
        list[str] | None, typer.Option(metavar="LINE", help="Of shell, before every task, as 'module load cuda'.")
    ] = None,
    frames: OnlyFrames = None,
    shortest: Shortest = False,
    seed: Seed = 0,
    device: Annotated[
        Device, typer.Option(help="cuda asks for a GPU for each task; auto is the CPU here.")
    ] = Device.auto,
    settings: SettingsFile = None,
) -> None:
    """Prints a script that submits recordings to SLURM: save it, look at it, and give it to bash."""
    from midline3d.cluster.slurm import Request
    from midline3d.cluster.slurm import slurm_script as write
    from midline3d.settings import load_settings
    from midline3d.tracking.reconstruct import Job

    where = "cuda" if device == Device.cuda else "cpu"
    jobs = _jobs(recordings, Job(recordings[0], out, load_settings(settings), seed, where, None, shortest))
    jobs = {
        name: job if frames is None else replace(job, frames=frame_range(frames, job.recording, shortest))
        for name, job in jobs.items()
    }
    request = Request(at_once, cores, memory, time, largest, tuple(sbatch or ()), tuple(before or ()))
    arguments = ["--seed", str(seed)]
    arguments += ["--frames", frames] if frames is not None else []
    arguments += ["--shortest"] if shortest else []
    arguments += (
        ["--settings", str(settings.absolute() if settings.exists() else settings)] if settings is not None else []
    )
    typer.echo(write(jobs, request, arguments), nl=False)


@app.command("plan", hidden=True)
def plan(
    recording: RecordingPath,
    out: Out,
    frames: OnlyFrames = None,
    shortest: Shortest = False,
    seed: Seed = 0,
    device: Where = Device.auto,
    settings: SettingsFile = None,
) -> None:
    """The first step of a recording: finds the worm in the videos, learns it, decides on clips."""
    _step("plan", 0, _job(recording, out, frames, shortest, seed, device, settings))


@app.command("clip", hidden=True)
def clip(
    recording: RecordingPath,
    out: Out,
    task: Annotated[int, typer.Option(help="Number of the clip; on a GPU of a group of clips.", min=0)],
    frames: OnlyFrames = None,
    shortest: Shortest = False,
    seed: Seed = 0,
    device: Where = Device.auto,
    settings: SettingsFile = None,
) -> None:
    """The second step of a recording: follows the worm through one clip."""
    _step("clip", task, _job(recording, out, frames, shortest, seed, device, settings))


@app.command("stitch", hidden=True)
def stitch(
    recording: RecordingPath,
    out: Out,
    frames: OnlyFrames = None,
    shortest: Shortest = False,
    seed: Seed = 0,
    device: Where = Device.auto,
    settings: SettingsFile = None,
) -> None:
    """The third step of a recording: puts the clips together and writes midline.nc."""
    _step("stitch", 0, _job(recording, out, frames, shortest, seed, device, settings))


@app.command("table", hidden=True)
def table(
    results: Annotated[list[Path], typer.Argument(metavar="RESULT...", help="Folders of results.")],
    as_json: Json = False,
) -> None:
    """What became of recordings: a row each, and a sentence for each whose result is not complete."""
    from midline3d.tracking.several import looked_at

    raise typer.Exit(report_outcomes([looked_at(result) for result in results], as_json))


def _jobs(recordings: list[Path], job: Job) -> dict[str, Job]:
    """By name; a single one into OUT itself, as `reconstruct` does."""
    from midline3d.tracking.several import each_in_its_folder

    jobs = each_in_its_folder(recordings, job)
    return jobs if len(jobs) > 1 else {name: replace(each, out=job.out) for name, each in jobs.items()}


def _job(
    recording: Path, out: Path, frames: str | None, shortest: bool, seed: int, device: Device, settings: Path | None
) -> Job:
    from midline3d.settings import load_settings
    from midline3d.tracking.reconstruct import Job

    part = None if frames is None else frame_range(frames, recording, shortest)
    return Job(recording, out, load_settings(settings), seed, chosen_device(device), part, shortest)


def _step(name: str, number: int, job: Job) -> None:
    from midline3d.tracking.steps import Step, patiently

    with working("the same command continues where this one stopped") as tick:
        patiently(Step(name, number), job, tick)
