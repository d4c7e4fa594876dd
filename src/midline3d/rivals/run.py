"""A contest: every method on every recording in a process of its own, side by side; what is there already stays."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from midline3d.errors import InputError
from midline3d.files import write_whole
from midline3d.population.processes import claim_folder, run_all, run_alone
from midline3d.recording import load_recording
from midline3d.rivals.table import Entry, Standing
from midline3d.rivals.task import Task
from midline3d.rivals.truth import truth_file

Progress = Callable[[str, int, int], None]

METHODS = ("midline3d", "paper", "kwon", "reconst", "wt3d", "paths")
"""In the order of the table: ours, `--settings paper`, and those of `baselines`."""
SLOWEST = ("paper",)
"""Begun first, so that none runs alone at the end."""


@dataclass(frozen=True)
class Contest:
    """Which methods on which recordings, and under what conditions."""

    recordings: tuple[Path, ...]
    """Folders with recording.toml and a truth (see `rivals.truth`). Those of one condition are named alike but for a
    number: swim-1, swim-2."""
    methods: tuple[str, ...] = METHODS
    frames: tuple[int, int] | None = None
    """First, and after the last, of every recording; None: all."""
    limit: float = 3600.0
    """Seconds that one method may take for a recording."""
    seed: int = 0

    def check(self) -> None:
        """Says in one sentence what cannot be run."""
        for method in self.methods:
            if method not in METHODS:
                raise InputError(f"the method is '{method}'; choose of {', '.join(METHODS)}")
        if not self.methods or not self.recordings:
            raise InputError("a contest needs a recording and a method at least; name them")
        if set(self.methods) - {"midline3d", "paper"} and importlib.util.find_spec("skimage") is None:
            raise InputError('the rivals need scikit-image: pip install "midline3d[baselines]"')
        if self.limit <= 0:
            raise InputError(f"limit is {self.limit:g} s; give more than none")
        names = [name_of(recording) for recording in self.recordings]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two recordings have the name '{name}'; rename one of the folders")
        for recording in self.recordings:
            load_recording(recording)
            truth_file(recording)

    def tasks(self, out: Path) -> list[Task]:
        """The first recording of each condition comes before the second: stopped early, what is there covers all."""
        ranks: dict[str, int] = {}
        ordered = []
        for recording in self.recordings:
            condition = condition_of(name_of(recording))
            ranks[condition] = ranks.get(condition, -1) + 1
            for method in self.methods:
                folder = out / "work" / f"{name_of(recording)}.{method}"
                ordered.append((ranks[condition], Task(recording, method, folder, self.frames, self.seed)))
        return [task for _, task in sorted(ordered, key=lambda pair: (pair[0], pair[1].method not in SLOWEST))]


def name_of(recording: Path) -> str:
    """The folder's own name."""
    folder = recording if recording.is_dir() else recording.parent
    return folder.resolve().name


def condition_of(name: str) -> str:
    """A recording's name without its number."""
    return name.rstrip("0123456789").rstrip("-_.") or name


def hold_contest(
    out: Path, contest: Contest, jobs: int | None = None, within: float = math.inf, keep: bool = False,
    progress: Progress | None = None,
) -> Standing:  # fmt: skip
    """Runs what is missing of a contest in the folder `out`, and sums all of it up: table.csv, summary.json.

    Results are deleted once they are measured, unless `keep`. After `within` seconds no more is run, and what is there
    is summed up.
    """
    out, tell = Path(out), progress or (lambda *_: None)
    contest.check()
    frames = None if contest.frames is None else list(contest.frames)
    claim_folder(out, "contest", {"frames": frames, "seed": contest.seed}, "contest.json")
    tasks = contest.tasks(out)
    missing = [task for task in tasks if not _file(out, task).exists()]
    before = len(tasks) - len(missing)
    tell("runs", before, len(tasks))
    works: Sequence[Callable[[Event], None]] = [partial(_row, out, task, contest.limit, keep) for task in missing]
    run_all(works, jobs, lambda done: tell("runs", before + done, len(tasks)), within)
    entries = []
    for task in tasks:
        if _file(out, task).exists():
            name = name_of(task.recording)
            row = json.loads(_file(out, task).read_text(encoding="utf-8"))
            entries.append(Entry(condition_of(name), name, task.method, row))
    standing = Standing(tuple(entries), contest.methods, len(tasks))
    write_whole(out / "summary.json", json.dumps(standing.as_dict(), indent=1).encode())
    write_whole(out / "table.csv", standing.csv().encode())
    return standing


def _file(out: Path, task: Task) -> Path:
    return out / "rows" / f"{task.out.name}.json"


def _row(out: Path, task: Task, limit: float, keep: bool, stop: Event) -> None:
    """Runs one method on one recording; one that fails is a row with its reason."""
    shutil.rmtree(task.out, ignore_errors=True)  # of a run that was interrupted: seconds would not count
    reason = run_alone(task.command(), limit, stop)
    if stop.is_set():
        return
    if reason is None:
        made = (task.out / "row.json").read_bytes()
    else:
        asked = range(load_recording(task.recording).count)[slice(*(task.frames or (None,)))]
        made = json.dumps({"frames": len(asked), "reason": reason}).encode()
    write_whole(_file(out, task), made)
    if not keep:
        shutil.rmtree(task.out, ignore_errors=True)
