"""The command: what each one takes, does and says. Heavy modules are imported where they are used."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from midline3d.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from midline3d.progress import Ticker
    from midline3d.settings import Settings

app = typer.Typer(
    name="midline3d",
    help="3D midlines of slender, semi-transparent animals from two or more calibrated cameras.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
DEMO_FRAMES = 24
DEMO_LEAVES = {
    *("recording", "calibration", "truth", "cam0", "cam1", "cam2"),
    *("manifest", "segments", "kept", "crops", "midline", "body", "log", "lock"),
}
"""Names, less their suffixes, of what a demo writes."""
PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".pgm")


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Source(StrEnum):
    """How a simulated camera's pictures are kept."""

    avi = "avi"
    npy = "npy"
    png = "png"


class Half(StrEnum):
    """Which seeds a benchmark takes."""

    tune = "tune"
    judge = "judge"
    all = "all"


Seed = Annotated[
    int, typer.Option(help="Of everything random: the same seed gives the same result.", min=0, max=2**63 - 1)
]
Where = Annotated[
    Device, typer.Option("--device", help="cuda is an NVIDIA GPU; auto takes one where torch sees it, else the CPU.")
]
SettingsFile = Annotated[Path | None, typer.Option("--settings", metavar="FILE", help="A TOML file of settings.")]
DRAWN = (".png", ".jpg", ".pdf", ".svg")
"""Names of pictures that can be drawn."""
Json = Annotated[bool, typer.Option("--json", help="JSON alone on standard output, for machines.")]


def main() -> None:
    """The entry point: whatever goes wrong is one sentence on standard error, and a status that says whose fault."""
    warnings.showwarning = _warn
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except InputError as fault:
        _complain(str(fault))
        sys.exit(2)
    except Exception as fault:
        if _is_usage(fault):
            _complain(_usage(fault))
            sys.exit(2)
        if os.environ.get("MIDLINE3D_DEBUG"):
            raise
        text = " ".join(str(fault).split())
        _complain(f"{type(fault).__name__}: {text} (a fault of midline3d's own: MIDLINE3D_DEBUG=1 shows where)")
        sys.exit(1)


def _is_usage(fault: Exception) -> bool:
    """Whether the command line itself was wrong: typer's own exceptions, which it names nowhere."""
    return any(kind.__name__ == "UsageError" for kind in type(fault).__mro__)


def _usage(fault: Any) -> str:
    """What was wrong with the command line, as one sentence with the remedy."""
    text = " ".join(fault.format_message().replace("Value error, ", "").split()).rstrip(".")
    command = fault.ctx.command_path if fault.ctx is not None else "midline3d"
    return f"{text[:1].lower() + text[1:]}; {command} --help says what can be given"


@app.callback(invoke_without_command=True)
def _about(version: Annotated[bool, typer.Option("--version", help="Say the version and end.")] = False) -> None:
    if version:
        import midline3d

        typer.echo(midline3d.__version__)
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for everything that is made.")] = Path("demo"),
    seed: Seed = 0,
    device: Where = Device.auto,
    settings: SettingsFile = None,
) -> None:
    """The whole job with no input: simulate a swimming worm, reconstruct it, measure the error, draw a picture."""
    from midline3d.evaluate import evaluate_truth
    from midline3d.report import frame_figure, telling_frame
    from midline3d.settings import load_settings
    from midline3d.synth import Plan, simulate
    from midline3d.tracking.reconstruct import Job, reconstruct

    chosen, where = load_settings(settings), _device(device)
    recording, result, picture = out / "recording", out / "result", out / "midline.png"
    _clear(recording, result)
    began = time.monotonic()
    with _working("start the demo again") as tick:
        plan = Plan(preset="swim", frames=DEMO_FRAMES, seed=seed)
        simulate(recording, plan, lambda done, total: tick("simulating a swimming worm", done, total))
        midline = reconstruct(Job(recording, result, chosen, seed, where), tick)
        tick("drawing", 0, 0)
        evaluation = evaluate_truth(result, recording / "truth.nc")
        frame = telling_frame(result)
        if frame is not None:
            frame_figure(result, frame, picture)
    console = Console()
    console.print(_accuracy(evaluation.summary()))
    console.print(f"{DEMO_FRAMES} frames, all of it in {time.monotonic() - began:.0f} s.", highlight=False)
    _say(
        console,
        {
            "the picture": picture,
            "the midlines": midline,
            "the recording": recording,
        },
    )
    console.print("Next, your own: describe it as that recording.toml does, then", highlight=False)
    console.print(f"  {_own_name()} reconstruct YOUR_RECORDING -o OUT", highlight=False)


@app.command()
def simulate(
    out: Annotated[Path, typer.Argument(help="Folder to write the recording and its truth to.")],
    preset: Annotated[
        str, typer.Option(help="clean, swim, blur, dirt, coil or hard; varied draws everything from the seed.")
    ] = "swim",
    family: Annotated[
        str | None, typer.Option(help="Of the preset varied: fibre, veil, larva, ...; else the seed's turn.")
    ] = None,
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

    plan = Plan(preset, frames, size, px_per_mm, cameras, seed, source.value, family)
    plan.check()
    with _working("give the same command again") as tick:
        draw(out, plan, lambda done, total: tick("simulating", done, total))
    console = Console()
    _say(console, {"the recording": out / "recording.toml", "the truth": out / "truth.nc"})
    console.print(f"Next: midline3d reconstruct {out} -o OUT", highlight=False)


@app.command()
def reconstruct(
    recording: Annotated[Path, typer.Argument(help="A folder with recording.toml, or that file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the result; one that was begun is continued.")],
    frames: Annotated[str | None, typer.Option(metavar="A:B", help="Only frames A to B - 1.")] = None,
    shortest: Annotated[bool, typer.Option("--shortest", help="Stop at the end of the shortest camera.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Start over; old frames go when new ones come.")] = False,
    crops: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Another result's crops of this recording: no decoding.")
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

    chosen = load_settings(settings)
    part = None if frames is None else _part(frames, recording, shortest)
    job = Job(recording, out, chosen, seed, _device(device), part, shortest, redo, crops)
    began = time.monotonic()
    with _working("the same command continues where this one stopped") as tick:
        midline = run(job, tick)
    found, seconds = look(out), time.monotonic() - began
    sure = found.facts.get("head_confidence")
    if as_json:
        figures = {"result": str(midline), "frames": len(found.frames.number), **found.counts, "head_confidence": sure}
        _print_json(figures | {"reasons": found.reasons, "look_at": found.as_dict()["look_at"], "seconds": seconds})
        return
    console = Console()
    console.print(f"{found.summary()}; {seconds:.0f} s.", highlight=False)
    if found.doubtful:
        console.print(found.warning(), highlight=False, soft_wrap=True)
    if sure is not None:
        console.print(f"Keypoint 0 is the head with a confidence of {sure:.1%}.", highlight=False)
    _say(console, {"the midlines": midline})
    console.print(f'Next: midline3d.open_result("{out}") in Python, or any reader of netCDF', highlight=False)


@app.command()
def info(
    result: Annotated[Path, typer.Argument(help="Folder of a result, or its midline.nc.")],
    as_json: Json = False,
) -> None:
    """What a result is, how it went and what is missing; of one that grows, is complete, or is damaged."""
    from midline3d.store import info as look

    found = look(result)
    if as_json:
        _print_json(found.as_dict())
    else:
        typer.echo(found.text())


@app.command()
def check(
    recording: Annotated[Path, typer.Argument(help="A folder with recording.toml, or that file.")],
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw the views with what was found in them.")
    ] = None,
    shortest: Annotated[bool, typer.Option("--shortest", help="Stop at the end of the shortest camera.")] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Preflight: everything wrong with the input, before hours are spent. Status 1 where a limit is passed."""
    from functools import partial

    from midline3d.bench import frame_seconds
    from midline3d.recording.check import check as look
    from midline3d.settings import load_settings

    chosen = load_settings(settings)
    if picture is not None and (picture.suffix.lower() not in DRAWN or not picture.absolute().parent.is_dir()):
        kinds = ", ".join(DRAWN)
        raise InputError(f"{picture}: no picture can be drawn there; give a name in {kinds}, in a folder that there is")
    pace = partial(frame_seconds, chosen)
    with _working("give the same command again") as tick:
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
        _print_json(report.as_dict())
    else:
        typer.echo(report.text())
    raise typer.Exit(0 if report.ok else 1)


@app.command()
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
    from midline3d.calibration.boards import Board
    from midline3d.calibration.boards import calibrate as solve
    from midline3d.files import aside as whole_file

    check_target(out)
    board = Board("charuco" if marker else "chessboard", *_grid(grid), square, marker, dictionary)
    report = solve(_board_pictures(pictures), board, focal)
    with whole_file(out) as place:
        save_calibration(report.calibration, place)
    if as_json:
        _print_json({"calibration": str(out), **report.as_dict()})
    else:
        typer.echo(report.text())
        _say(Console(), {"the calibration": out})


@app.command("refine-cameras")
def refine_cameras(
    recording: Annotated[Path, typer.Argument(help="A folder with recording.toml, or that file.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The new calibration: .json, .toml (anipose), .xml or .yml.")
    ],
    result: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="This recording's result to start from; begun if need be.")
    ] = None,
    frames: Annotated[str | None, typer.Option(metavar="A:B", help="Only frames A to B - 1.")] = None,
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
    from midline3d.refine import refine_cameras as refine
    from midline3d.tracking.reconstruct import Job

    check_target(out)
    chosen = _refining(settings, count)
    part = None if frames is None else _part(frames, recording, shortest=False)
    with TemporaryDirectory() as aside, _working("give the same command again") as tick:
        found = refine(Job(recording, result or Path(aside), chosen, seed, _device(Device.auto), part), tick)
    with whole_file(out) as place:
        save_calibration(found.calibration, place)
    if as_json:
        _print_json({"calibration": str(out), **found.summary()})
        return
    console = Console()
    console.print(found.table())
    _say(console, {"the calibration": out})
    console.print(
        f'Next: calibration = "{out.resolve()}" in recording.toml, and reconstruct into another folder', highlight=False
    )


@app.command()
def evaluate(
    result: Annotated[Path, typer.Argument(help="Folder of a result, or its midline.nc.")],
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="truth.nc, or the folder that it is in.")] = None,
    annotations: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hand clicks: CSV of frame,camera,u,v,label.")
    ] = None,
    as_json: Json = False,
) -> None:
    """How good a result is: against known truth, or against hand clicks of head and tail."""
    from midline3d.evaluate import AnnotationEvaluation, Evaluation, evaluate_annotations, evaluate_truth

    if (truth is None) == (annotations is None):
        raise InputError("what to measure against is not clear: give either --truth or --annotations")
    measured: Evaluation | AnnotationEvaluation
    if truth is not None:
        measured = evaluate_truth(result, truth / "truth.nc" if (truth / "truth.nc").is_file() else truth)
    else:
        assert annotations is not None
        measured = evaluate_annotations(result, annotations)
    if as_json:
        _print_json(measured.summary())
    else:
        Console().print(measured.table())


@app.command()
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

    with _working("give the same command again") as tick:
        figures = measure(_device(device), lambda doing: tick(doing, 0, 0), compare=plot is not None)
    if plot is not None:
        draw(figures, plot)
    if as_json:
        _print_json(figures)
    else:
        Console().print(table(figures))


@app.command()
def benchmark(
    out: Annotated[Path, typer.Argument(help="Folder for rows, table and figure; a benchmark begun there goes on.")],
    recordings: Annotated[int, typer.Option(help="How many; 19 are one of every family.", min=1)] = 38,
    jobs: Annotated[int | None, typer.Option(help="How many at once; else as many as there are cores.", min=1)] = None,
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
    with _working("the same command continues where this one stopped") as tick:
        summary = examine(out, exam, jobs, keep, tick)
    if as_json:
        _print_json(summary.as_dict())
        return
    console = Console()
    for table in summary.tables():
        console.print(table)
    _say(console, {"the figure": out / "benchmark.png", "all of it": out / "summary.json"})


def _accuracy(figures: dict[str, Any]) -> Table:
    """The demo's table: what was reached, and what that means."""
    from rich.table import Table

    def text(key: str, unit: str) -> str:
        return "-" if figures[key] is None else f"{figures[key]:.2f} {unit}"

    table = Table(title="How far from the truth")
    for name, side in (("metric", "left"), ("reached", "right"), ("what it means", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    rows = [
        ("midline", text("midline_px", "px"), "mean distance of the midlines in the pictures; the worm is 8 px wide"),
        ("head", text("head_px", "px"), "distance of the heads; the worm is about 150 px long"),
        ("tail", text("tail_px", "px"), "distance of the tails, which are thin and faint"),
        ("3D shape", text("shape_percent", "%"), "of the body's length, after the best rigid motion"),
        ("length", text("length_percent", "%"), "by which the length is wrong"),
        ("lost", f"{figures['lost']} of {figures['frames']}", "frames without a midline"),
        ("swapped", f"{figures['swapped']} of {figures['frames']}", "frames with head and tail exchanged"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


@contextmanager
def _working(remedy: str) -> Iterator[Ticker]:
    """Progress on standard error while a job runs; Ctrl-C ends it with a word on how to go on."""
    from midline3d.progress import Ticker

    try:
        with Ticker(Console(stderr=True)) as tick:
            yield tick
    except KeyboardInterrupt:
        _complain(f"interrupted: {remedy}")
        raise typer.Exit(130) from None


def _device(device: Device) -> str:
    import torch

    there = torch.cuda.is_available()
    if device == Device.cuda and not there:
        raise InputError("--device is cuda, but torch sees no CUDA GPU here; use --device cpu")
    return "cuda" if there and device != Device.cpu else "cpu"


def _part(text: str, recording: Path, shortest: bool) -> tuple[int, int]:
    """A:B as numbers; without A from the first frame, without B to the last."""
    first, colon, end = (part.strip() for part in text.partition(":"))
    if not colon or not all(part == "" or (part.isdecimal() and len(part) < 19) for part in (first, end)):
        raise InputError(
            f"--frames is '{text[:40]}'; write A:B, the first frame and the one after the last, such as 0:100"
        )
    if end:
        return int(first or 0), int(end)
    from midline3d.recording import load_recording

    return int(first or 0), load_recording(recording, shortest=shortest).count


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


def _board_pictures(folder: Path) -> dict[str, list[Path]]:
    """The pictures of each camera, in the order of their names."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give one with a folder of pictures for each camera")
    cameras = sorted(place for place in folder.iterdir() if place.is_dir() and not place.name.startswith("."))
    if len(cameras) < 2:
        raise InputError(f"{folder}: holds {len(cameras)} folder(s), but needs one of pictures for each of two cameras")
    found = {}
    for camera in cameras:
        found[camera.name] = sorted(file for file in camera.iterdir() if file.suffix.lower() in PICTURES)
        if not found[camera.name]:
            raise InputError(f"{camera}: holds no picture ({', '.join(PICTURES)}); put this camera's pictures there")
    return found


def _clear(*folders: Path) -> None:
    """Makes room for the demo: what an earlier one left there, whole or not, goes; anything else is an error."""
    import shutil

    for folder in folders:
        for place in folder.iterdir() if folder.is_dir() else ():
            if place.name.lstrip(".").split(".")[0] not in DEMO_LEAVES:
                raise InputError(f"{place} was not written by a demo; give another folder with --out")
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _own_name() -> str:
    """How the user can call the command again: by its path where the shell would not find it."""
    import shutil

    called = Path(sys.argv[0])
    return "midline3d" if called.suffix == ".py" or shutil.which("midline3d") else str(called)


def _say(console: Console, places: dict[str, Path]) -> None:
    wide = max(map(len, places))
    for name, place in places.items():
        console.print(f"{name:<{wide}}  {place}", highlight=False, soft_wrap=True)


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, indent=2))


def _complain(text: str) -> None:
    typer.echo(f"midline3d: {text}", err=True)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    _complain(str(message))
