"""What to reconstruct and how, and a run of it: the recording opened, its crops at hand, its result locked."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from midline3d.recording import Prepared, Recording, adopt, load_recording, preflight, prepare
from midline3d.recording.identity import inputs_of
from midline3d.recording.inputs import spare_inputs
from midline3d.recording.prepare import chosen_frames
from midline3d.settings import RefineSettings, Settings, dump_settings
from midline3d.store import Header, Result, RunLog, locked
from midline3d.store.log import AFRESH, overheard
from midline3d.tracking.begin import Progress
from midline3d.tracking.threads import few_threads
from midline3d.world import ATTRIBUTE

WRITTEN = (
    *("manifest", "segments", "kept", "crops", "clips", "midline", "body", "calibration", "log", "lock", "edits"),
    *("annotations", "export", "report", "kinematics"),
)
"""Names, less their suffixes, of what lies in the folder of a result, and of what is made of it."""


@dataclass(frozen=True)
class Job:
    """What to reconstruct and how."""

    recording: Path
    out: Path
    settings: Settings
    seed: int = 0
    device: str = "cpu"
    frames: tuple[int, int] | None = None
    """First frame and the one after the last."""
    shortest: bool = False
    """Stop at the shortest camera's end instead of refusing unequal lengths."""
    redo: bool = False
    """Start over where the folder holds a result; its frames are replaced when new ones come."""
    crops: Path | None = None
    """Another result's prepared crops of the same recording, to be used instead of decoding again."""


@dataclass(frozen=True)
class Run:
    """A job at work: this process alone writes its result."""

    job: Job
    recording: Recording
    prepared: Prepared
    result: Result
    log: RunLog
    progress: Progress


@contextmanager
def opened(job: Job, doing: str, progress: Progress) -> Iterator[Run]:
    """The job's result, locked, begun or gone on with; the crops are prepared first where they are not there."""
    before: list[str] = []
    with overheard(before.append):
        recording = load_recording(job.recording, shortest=job.shortest)
        keep_apart(job)
        preflight(recording)
    what = f"midline3d {release()}: {doing} {job.recording} on {job.device}, seed {job.seed} ({versions()})"
    with few_threads(), locked(job.out), RunLog(job.out).run(what) as log:
        if job.redo:
            log.say(AFRESH)
        for text in before:
            log.warn(text)
        watched = log.watched(progress)
        frames = frames_of(job, recording)
        header = header_of(job, recording, frames)
        # Before hours are spent, and before the crops of what lies there are written over.
        if not job.redo:
            Result.check(job.out, header)
        prepared = _prepared(job, recording, frames, watched)
        with Result.start(job.out, header, job.redo) as result:
            if result.header.attributes.get(ATTRIBUTE, "") != _frame(recording):
                result.note(**{ATTRIBUTE: _frame(recording)})  # of a complete result too: it may have come later
            yield Run(job, recording, prepared, result, log, watched)


def keep_apart(job: Job) -> None:
    """Complains, before anything is written, about a job whose result would lie over its recording's own files."""
    spare_inputs(job.recording, job.out, WRITTEN)


def frames_of(job: Job, recording: Recording) -> range:
    """The frames of the recording that are asked for."""
    return chosen_frames(range(*job.frames) if job.frames else None, recording)


def header_of(job: Job, recording: Recording, frames: range) -> Header:
    """What sets this run apart from others."""
    return Header(
        frames=tuple(frames),
        fps=recording.fps,
        cameras=tuple(view.name for view in recording.views),
        keypoints=job.settings.curve.vertices,
        # How cameras are adjusted afterwards is no part of it.
        settings=dump_settings(replace(job.settings, refine=RefineSettings())),
        inputs=inputs_of(recording),
        seed=job.seed,
        device=job.device,
        version=release(),
        attributes={
            "recording": recording.name,
            # For whole pictures in the viewer: where it lies is no part of what the run is.
            "recording_path": str(recording.path.resolve()),
            "sources": json.dumps({view.name: str(view.source.path.resolve()) for view in recording.views}),
            "versions": versions(),
            "machine": machine(job.device),
            **({} if recording.world is None else {ATTRIBUTE: _frame(recording)}),
        },
        offsets=tuple(view.offset for view in recording.views),
    )


def _frame(recording: Recording) -> str:
    """The world that results are to be given in; no part of the run itself, whose numbers stay as they are."""
    return "" if recording.world is None else recording.world.as_json()


def _prepared(job: Job, recording: Recording, frames: range, progress: Progress) -> Prepared:
    folder, locating = job.out / "crops", job.settings.locating
    if job.crops is not None:
        return adopt(recording, locating, folder, job.crops, frames)
    return prepare(
        recording,
        locating,
        folder,
        progress=lambda done, total: progress("locating the worm", done, total),
        frames=frames,
    )


def release(package: str = "midline3d") -> str:
    """A package's version; "0" where it was never installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "0"


def machine(device: str) -> str:
    """What computes: the processor and its cores, and the GPU where it is one."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # another system, which says it above
    cores = f"{name}, {os.cpu_count()} cores"
    if device != "cuda":
        return cores
    import torch

    if not torch.cuda.is_available():
        return cores
    return f"{torch.cuda.get_device_name()} beside {cores}"


def versions() -> str:
    """Of all that has a part in the numbers."""
    packages = ("torch", "numpy", "scipy", "opencv-python-headless", "av")
    listed = ", ".join(f"{package} {release(package)}" for package in packages)
    return f"Python {platform.python_version()}, {listed}, {platform.system()} {platform.machine()}"
