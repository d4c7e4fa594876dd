"""What the command does, as functions for scripts and notebooks.

Paths may be strings. Nothing is printed: who wants to know how a long job goes passes `progress`, which is called with
what is being done, how much of it is done and how much there is (0: unknown). What is wrong with the input is raised as
`InputError`, one sentence each; what may be wrong is a warning of Python's own.

Heavy modules are imported inside the functions, so that reading a result needs no torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from midline3d.errors import InputError

if TYPE_CHECKING:
    from midline3d.calibration.boards import Board, CalibrationReport
    from midline3d.population import Exam, Summary
    from midline3d.recording import Report
    from midline3d.refine import Refinement
    from midline3d.settings import Settings
    from midline3d.synth import Plan

AnyPath = str | os.PathLike[str]
Progress = Callable[[str, int, int], None]
Device = Literal["auto", "cpu", "cuda"]


def simulate(out: AnyPath, plan: Plan | None = None, *, progress: Progress | None = None) -> Path:
    """Writes a synthetic recording with known truth into the folder `out`, and returns the folder.

    The same plan gives the same files; without one it is 40 frames of a swimming worm. The truth is in `truth.nc`.

    >>> import midline3d
    >>> plan = midline3d.Plan(preset="clean", frames=8, size=384, px_per_mm=115.0, source="npy")
    >>> recording = midline3d.simulate("recording", plan)
    >>> sorted(file.name for file in recording.iterdir())
    ['calibration.json', 'cam0.npy', 'cam1.npy', 'cam2.npy', 'recording.toml', 'truth.nc']
    """
    from midline3d.synth import Plan
    from midline3d.synth import simulate as draw

    plan = plan or Plan()
    plan.check()
    return draw(Path(out), plan, _counting("simulating", progress))


def check(
    recording: AnyPath,
    *,
    settings: Settings | Mapping[str, Any] | AnyPath | None = None,
    shortest: bool = False,
    measure_speed: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Everything that is wrong with a recording, found before hours are spent on it.

    recording: the folder with `recording.toml`, or that file.
    settings: as in `reconstruct`.
    shortest: that longer cameras lose their tails is wanted.
    measure_speed: fit a few frames to say how long the reconstruction will take on this machine.

    >>> import midline3d
    >>> report = midline3d.check("recording")
    >>> report.ok
    True
    >>> [camera["name"] for camera in report.as_dict()["cameras"]]
    ['cam0', 'cam1', 'cam2']
    """
    from functools import partial

    from midline3d.bench import frame_seconds
    from midline3d.recording import check as look

    chosen = chosen_settings(settings)
    pace = partial(frame_seconds, chosen) if measure_speed else None
    counted = _counting("looking around", progress)
    return look(Path(recording), chosen.locating, pace=pace, progress=counted, shortest=shortest)


def reconstruct(
    recording: AnyPath,
    out: AnyPath,
    *,
    device: Device = "auto",
    settings: Settings | Mapping[str, Any] | AnyPath | None = None,
    seed: int = 0,
    frames: tuple[int, int] | None = None,
    shortest: bool = False,
    redo: bool = False,
    crops: AnyPath | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Videos in, a 3D midline for every frame out; returns the path of `midline.nc`. What was begun in `out` goes on.

    recording: the folder with `recording.toml`, or that file.
    out: folder of the result.
    device: auto takes a GPU that torch sees where there are few cores, else the CPU.
    settings: a record, a TOML file, tables of changes such as {"start": {"starts": 5}}, or "paper", which is the
        method as published; without, the defaults.
    seed: of everything random.
    frames: the first frame and the one after the last; without, all of them.
    shortest: stop at the end of the shortest camera instead of refusing unequal lengths.
    redo: start over where the folder holds a result.
    crops: another result's folder of crops of this recording, to save the decoding.
    workers: processes that follow a long recording's clips side by side; without, as many as the machine suits.

    >>> import midline3d
    >>> quick = {"start": {"pairs": 1, "apart": 2, "starts": 5}}
    >>> midline = midline3d.reconstruct("recording", "out", device="cpu", settings=quick)
    >>> midline.name
    'midline.nc'
    >>> midline3d.open_result("out").position.dims
    ('time', 'space', 'keypoint', 'individual')
    """
    from midline3d.tracking.reconstruct import Job
    from midline3d.tracking.reconstruct import reconstruct as run

    job = Job(
        recording=Path(recording),
        out=Path(out),
        settings=chosen_settings(settings),
        seed=seed,
        device=chosen_device(device),
        frames=frames,
        shortest=shortest,
        redo=redo,
        crops=None if crops is None else Path(crops),
    )
    return run(job, progress or _silent, workers)


def refine_cameras(
    recording: AnyPath,
    result: AnyPath | None = None,
    *,
    out: AnyPath | None = None,
    settings: Settings | Mapping[str, Any] | AnyPath | None = None,
    seed: int = 0,
    frames: tuple[int, int] | None = None,
    progress: Progress | None = None,
) -> Refinement:
    """A better calibration out of the recording itself: cameras and worm fitted together, with no board.

    result: this recording's result to start from, made if need be; without, one that is made aside and thrown away.
    out: also write the calibration to this file (.json, .toml, .xml or .yml).
    frames: of the recording, the first and the one after the last; without, all of them.

    >>> import midline3d
    >>> quick = {"start": {"pairs": 1, "apart": 2, "starts": 5}}
    >>> quick["refine"] = {"frames": 2, "rounds": 1, "iterations": 2}
    >>> found = midline3d.refine_cameras("recording", "out", out="refined.json", settings=quick)
    >>> sorted(found.cameras)
    ['cam0', 'cam1', 'cam2']
    """
    from tempfile import TemporaryDirectory

    from midline3d.calibration import check_target
    from midline3d.recording.inputs import spare_input
    from midline3d.refine import refine_cameras as refine
    from midline3d.tracking.reconstruct import Job

    if out is not None:
        check_target(Path(out))
        spare_input(Path(recording), Path(out))
    with TemporaryDirectory() as aside:
        folder = Path(aside if result is None else result)
        job = Job(Path(recording), folder, chosen_settings(settings), seed, chosen_device("auto"), frames)
        found = refine(job, progress or _silent)
    if out is not None:
        _write_calibration(found.calibration, Path(out))
    return found


def calibrate(
    pictures: AnyPath | Mapping[str, Sequence[AnyPath]],
    board: Board,
    *,
    out: AnyPath | None = None,
    focal: float | None = None,
) -> CalibrationReport:
    """A calibration from pictures of a board: the n-th picture of every camera shows the same moment.

    pictures: a folder with a folder of pictures for each camera, in the order of their names; or the files themselves
        by the camera's name.
    out: also write the calibration to this file (.json, .toml, .xml or .yml).
    focal: px, to start from, for telecentric lenses.

    >>> import midline3d
    >>> board = midline3d.Board("chessboard", columns=7, rows=5, square=2.0)
    >>> report = midline3d.calibrate("pictures", board, out="calibration.json")
    >>> [camera.name for camera in report.calibration.cameras]
    ['left', 'right']
    """
    from midline3d.calibration import check_target
    from midline3d.calibration.boards import calibrate as solve
    from midline3d.calibration.boards import pictures_in

    if out is not None:
        check_target(Path(out))
    if isinstance(pictures, Mapping):
        found = {name: [Path(file) for file in files] for name, files in pictures.items()}
    else:
        found = pictures_in(Path(pictures))
    report = solve(found, board, focal)
    if out is not None:
        _write_calibration(report.calibration, Path(out))
    return report


def benchmark(
    out: AnyPath,
    exam: Exam | None = None,
    *,
    jobs: int | None = None,
    keep: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """How exact the method is: simulated recordings that differ in everything, side by side over the cores.

    out: folder for rows, table and figure; a benchmark begun there goes on.
    exam: which recordings under what conditions; without, two of every family.
    jobs: how many at once; without, as many as there are cores.
    keep: keep recordings and results, in the folder `work` there.

    >>> import midline3d
    >>> exam = midline3d.Exam(recordings=1, frames=2, size=256, limit=0.1)
    >>> summary = midline3d.benchmark("accuracy", exam, jobs=1)
    >>> summary.rows[0]["reason"]
    'not done after 0.1 s'
    """
    from midline3d.population import benchmark as examine

    return examine(Path(out), exam, jobs, keep, progress)


def chosen_device(device: str) -> str:
    """The device that is meant on this machine, cpu or cuda; auto is a GPU that torch sees where cores are few."""
    import torch

    from midline3d.processors import gpu_is_faster

    there = torch.cuda.is_available()
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"the device is '{device}'; choose auto, cpu or cuda")
    if device == "cuda" and not there:
        raise InputError("--device is cuda, but torch sees no CUDA GPU here; use --device cpu")
    return "cuda" if there and (device == "cuda" or (device == "auto" and gpu_is_faster())) else "cpu"


def chosen_settings(settings: Settings | Mapping[str, Any] | AnyPath | None) -> Settings:
    """The record that is meant: itself, a TOML file's, one with these tables, or the defaults."""
    from midline3d.reading import validated
    from midline3d.settings import Settings, load_settings

    if isinstance(settings, Settings):
        return settings
    if isinstance(settings, Mapping):
        return validated(Settings, dict(settings), "settings")
    return load_settings(None if settings is None else Path(settings))


def _write_calibration(calibration: Any, path: Path) -> None:
    from midline3d.calibration import save_calibration
    from midline3d.files import aside

    with aside(path) as place:
        save_calibration(calibration, place)


def _silent(doing: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""


def _counting(doing: str, progress: Progress | None) -> Callable[[int, int], None] | None:
    """Progress for a job that does one thing."""
    return None if progress is None else lambda done, total: progress(doing, done, total)
