"""A script for SLURM: the steps of many recordings as arrays of jobs, each after the one before, however that ended."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from midline3d.errors import InputError
from midline3d.tracking.job import Job, keep_apart, release
from midline3d.tracking.steps import clip_tasks

LARGEST = 1000
"""Tasks in an array: as many as clusters take that leave MaxArraySize at its default, 1001."""


@dataclass(frozen=True)
class Request:
    """What is asked of SLURM for every task."""

    at_once: int = 100
    """Tasks that run at the same time."""
    cores: int = 1
    """A clip makes use of few; a second recording, or clip, makes better use of them."""
    memory: str = "4G"
    time: str = "04:00:00"
    """After which a task goes back into the queue, to go on where it was."""
    largest: int = LARGEST
    """Tasks in an array."""
    options: tuple[str, ...] = ()
    """Further options of sbatch, such as --partition=long."""
    before: tuple[str, ...] = ()
    """Lines of shell before every task, such as `module load cuda`."""


def slurm_script(jobs: dict[str, Job], request: Request, arguments: Sequence[str]) -> str:
    """The script. arguments: options with which midline3d's own steps are called, such as --seed 3."""
    _check(request)
    for job in jobs.values():
        keep_apart(job)
    tasks = [clip_tasks(job) for job in jobs.values()]
    device = next(iter(jobs.values())).device
    asked = [
        f"--cpus-per-task={request.cores}",
        f"--mem={request.memory}",
        f"--time={request.time}",
        *(["--gres=gpu:1"] if device != "cpu" else []),
        *request.options,
    ]
    values = {
        "about": f"{len(jobs)} recordings as {sum(tasks)} tasks, by midline3d {release()}",
        "asked": "\n".join(f"#SBATCH {option}" for option in asked),
        "command": shlex.join([sys.executable, "-m", "midline3d", "cluster"]),
        "arguments": shlex.join([*arguments, "--device", device]),
        "log": shlex.quote(str(_log(jobs))),
        "recordings": _lines(job.recording.absolute() for job in jobs.values()),
        "results": _lines(job.out.absolute() for job in jobs.values()),
        "tasks": " ".join(map(str, tasks)),
        "at_once": str(request.at_once),
        "largest": str(request.largest),
        "before": "\n".join(request.before) or ":",
    }
    text = files("midline3d.cluster").joinpath("slurm.sh").read_text(encoding="utf-8")
    # In one pass: a path may hold such signs too.
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], text)


def _log(jobs: dict[str, Job]) -> Path:
    """Where the tasks write what they say: beside the results, of a single one in it."""
    outs = [job.out.absolute() for job in jobs.values()]
    return (outs[0] if len(outs) == 1 else outs[0].parent) / "slurm"


def _lines(paths: Iterable[Path]) -> str:
    return "\n".join(f"    {shlex.quote(str(path))}" for path in paths)


def _check(request: Request) -> None:
    """What would break the script, or make it another one."""
    for name, texts in {
        "--sbatch": request.options,
        "--before": request.before,
        "--memory": (request.memory,),
        "--time": (request.time,),
    }.items():
        for text in texts:
            if not text.strip() or any(sign in text for sign in "\n\r\0"):
                raise InputError(f"{name} is {text[:60]!r}; give one line of text, and the option again for another")
    for text in request.options:
        if not text.startswith("-"):
            raise InputError(f"--sbatch is '{text[:60]}'; give an option of sbatch as it is, such as --partition=long")
    for name, text in {"--memory": request.memory, "--time": request.time}.items():
        if any(sign.isspace() for sign in text):
            raise InputError(f"{name} is '{text[:60]}'; give it as sbatch takes it, such as 4G and 04:00:00")
