"""Several recordings in one go: each into a folder of its own, side by side, none stopped by another's fault."""

from __future__ import annotations

import time
import warnings
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from midline3d.errors import InputError
from midline3d.processors import cores
from midline3d.reading import number_of
from midline3d.store import STATUSES, info
from midline3d.tracking.begin import Progress
from midline3d.tracking.job import Job
from midline3d.tracking.tasks import packed
from midline3d.tracking.workers import Crew, Event, side_by_side, usual_workers


@dataclass(frozen=True)
class Outcome:
    """What became of a recording."""

    name: str
    out: Path
    """Folder of its result."""
    seconds: float | None
    """That it took; None where nobody has looked."""
    fault: str | None = None
    """Why it has none, in a sentence."""
    own: bool = False
    """Whether that is a fault of the program's own."""

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        plain: dict[str, Any] = {"name": self.name, "result": str(self.out), "seconds": self.seconds}
        if self.fault is not None:
            return plain | {"fault": self.fault}
        about = info(self.out)
        sure = about.facts.get("head_confidence")
        return plain | {"frames": len(about.frames.number), **about.counts, "head_confidence": sure}


def each_in_its_folder(recordings: list[Path], job: Job) -> dict[str, Job]:
    """A job for every recording, by the name of its folder, into OUT/name."""
    jobs: dict[str, Job] = {}
    for path in recordings:
        name = (path.parent if path.suffix == ".toml" else path).resolve().name
        if name in jobs:
            raise InputError(
                f"{path} and {jobs[name].recording} would share {job.out / name}, because their folders have one name; "
                "rename one, or give them one after the other with an -o of their own"
            )
        jobs[name] = replace(job, recording=path, out=job.out / name)
    return jobs


def reconstruct_all(jobs: dict[str, Job], progress: Progress, workers: int | None = None) -> list[Outcome]:
    """All of them, in the order given; one that fails leaves the others alone. Given again it goes on.

    workers: processes at once, all recordings together.
    """
    names = list(jobs)
    on_gpu = any(job.device != "cpu" for job in jobs.values())
    crew = workers or (1 if on_gpu else usual_workers(max(len(jobs), cores())))
    at_once = min(crew, len(jobs))
    tasks = [{"job": packed(job), "workers": max(1, crew // at_once)} for job in jobs.values()]
    done, total, began = dict.fromkeys(names, 0.0), len(names), time.monotonic()
    found: dict[str, Outcome] = {}
    with Crew.made_ready(at_once, 0) as processes, closing(side_by_side(tasks, processes)) as events:
        for event in events:
            name = names[event.task]
            if event.over:
                found[name], done[name] = _outcome(event, name, jobs[name], time.monotonic() - began), 1.0
            elif "warning" in event.message:
                warnings.warn(f"{name}: {event.message['warning']}", stacklevel=2)
            else:
                doing = event.message["doing"]
                if doing == "reconstructing":
                    done[name] = event.message["done"] / event.message["total"]
                text = f"{len(found)} of {total} recordings done; {name}: {doing}"
                progress(text, round(100 * sum(done.values()) / total), 100)
    return [found[name] for name in names]


def table(outcomes: list[Outcome]) -> Table:
    """What became of each."""
    made = Table(title=number_of(len(outcomes), "recording"))
    made.add_column("recording")
    for name in ("frames", *STATUSES, "head", "s"):
        made.add_column(name, justify="right")
    made.add_column("result", overflow="fold")
    for outcome in outcomes:
        row, spent = outcome.as_dict(), "-" if outcome.seconds is None else f"{outcome.seconds:.0f}"
        if outcome.fault is not None:
            made.add_row(outcome.name, *["-"] * (len(STATUSES) + 2), spent, "failed, see below")
            continue
        sure = row["head_confidence"]
        numbers = [str(row[name]) for name in ("frames", *STATUSES)]
        head = "-" if sure is None else f"{sure:.0%}"
        made.add_row(outcome.name, *numbers, head, spent, str(outcome.out))
    return made


def _outcome(event: Event, name: str, job: Job, seconds: float) -> Outcome:
    return Outcome(name, job.out, seconds, event.message.get("fault"), bool(event.message.get("own")))


def looked_at(out: Path) -> Outcome:
    """What has become of a recording, by the folder of its result."""
    try:
        about = info(out)
    except InputError as fault:
        return Outcome(out.name, out, None, str(fault))
    lacks = f"is {about.state}, and lacks {'; '.join((*about.faults, *about.missing))}"
    return Outcome(out.name, out, None, None if about.state == "complete" else lacks)
