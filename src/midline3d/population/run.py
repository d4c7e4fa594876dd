"""The benchmark: a population of varied recordings, each reconstructed in a process of its own, side by side."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Literal

from midline3d.errors import InputError
from midline3d.population.figure import draw_figure
from midline3d.population.one import Task, drawn
from midline3d.population.processes import run_alone
from midline3d.population.summary import Summary
from midline3d.settings import Settings, dump_settings
from midline3d.synth import VARIED, Plan

Half = Literal["tune", "judge", "all"]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Exam:
    """Which recordings, and under what conditions."""

    recordings: int = 38
    half: Half = "all"
    """Even seeds are for tuning, odd ones for judging; what is tuned on the latter is judged by nobody."""
    frames: int = 40
    size: int = 512
    """px."""
    family: str | None = None
    """Of all recordings; as it is, all families in rotation."""
    limit: float = 600.0
    """Seconds for one recording's reconstruction."""
    settings: Settings = field(default_factory=Settings)

    @property
    def seeds(self) -> list[int]:
        """One for each recording."""
        step, first = (1, 0) if self.half == "all" else (2, int(self.half == "judge"))
        return [first + step * index for index in range(self.recordings)]

    def check(self) -> None:
        """Says in one sentence what cannot be run."""
        if self.recordings < 1:
            raise InputError(f"recordings is {self.recordings}; ask for one at least")
        if self.limit <= 0:
            raise InputError(f"limit is {self.limit:g} s; give more than none")
        Plan(VARIED, frames=self.frames, size=self.size, family=self.family).check()

    def conditions(self) -> dict[str, Any]:
        """What all rows of one folder have in common."""
        return {"frames": self.frames, "size": self.size, "family": self.family, "limit": self.limit}


def benchmark(
    out: Path, exam: Exam | None = None, jobs: int | None = None, keep: bool = False, progress: Progress | None = None
) -> Summary:
    """Runs what is missing of an exam in the folder `out`, and sums all of it up: rows, table and figure.

    `jobs` recordings run at once (as it is, one for each core). Recordings and results are deleted once they are
    scored, unless `keep`. A recording that fails, or takes longer than the limit, is a row with its reason.
    """
    exam, out, tell = exam or Exam(), Path(out), progress or (lambda *_: None)
    exam.check()
    _claim(out, exam)
    rows = {seed: out / "rows" / f"{seed:05d}.json" for seed in exam.seeds}
    missing = [seed for seed, row in rows.items() if not row.exists()]
    tell("recordings", len(rows) - len(missing), len(rows))
    stop = Event()
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        waiting = [pool.submit(_row, out, exam, seed, keep, stop) for seed in missing]
        try:
            for done, one in enumerate(as_completed(waiting), len(rows) - len(missing) + 1):
                one.result()
                tell("recordings", done, len(rows))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    summary = Summary(tuple(json.loads(row.read_text(encoding="utf-8")) for row in rows.values()))
    (out / "summary.json").write_text(json.dumps(summary.as_dict(), indent=1), encoding="utf-8")
    draw_figure(summary, out / "benchmark.png")
    return summary


def _claim(out: Path, exam: Exam) -> None:
    """Makes the folder, or sees that what lies there was run under the same conditions."""
    wish = exam.conditions()
    conditions, settings = out / "conditions.json", out / "settings.toml"
    if conditions.exists() and settings.exists():
        before = json.loads(conditions.read_text(encoding="utf-8"))
        for name, value in wish.items():
            if before.get(name) != value:
                raise InputError(f"{out}: its benchmark has {name} {before.get(name)}, not {value}; give a new folder")
        if settings.read_text(encoding="utf-8") != dump_settings(exam.settings):
            raise InputError(f"{out}: its benchmark was run with other settings; give a new folder")
        return
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: holds files that are no benchmark; give a new folder")
    (out / "rows").mkdir(parents=True)
    settings.write_text(dump_settings(exam.settings), encoding="utf-8")
    conditions.write_text(json.dumps(wish), encoding="utf-8")


def _row(out: Path, exam: Exam, seed: int, keep: bool, stop: Event) -> None:
    """Draws, reconstructs and scores one recording; leaves its row."""
    folder = out / "work" / f"{seed:05d}"
    folder.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"seed": seed}
    reason = run_alone(_task("draw", out, exam, seed).command(), math.inf, stop)
    if reason is None and not stop.is_set():
        facts = drawn(folder / "recording", seed)
        shutil.rmtree(folder / "result", ignore_errors=True)  # of a run that was interrupted: seconds would not count
        reason = run_alone(_task("reconstruct", out, exam, seed).command(), exam.limit, stop)
    if stop.is_set():
        return
    made = folder / "row.json"
    row = json.loads(made.read_text(encoding="utf-8")) if reason is None else facts | {"reason": reason}
    part = out / "rows" / f"{seed:05d}.part"
    part.write_text(json.dumps(row), encoding="utf-8")
    part.replace(out / "rows" / f"{seed:05d}.json")
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def _task(step: Literal["draw", "reconstruct"], out: Path, exam: Exam, seed: int) -> Task:
    folder = out / "work" / f"{seed:05d}"
    return Task(step, folder, out / "settings.toml", seed, exam.frames, exam.size, exam.family)
