"""The benchmark: a population of varied recordings, each reconstructed in a process of its own, side by side."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from midline3d.errors import InputError
from midline3d.files import write_whole
from midline3d.population.figure import draw_figure
from midline3d.population.rows import Manner, Progress, claim_rows, make_rows
from midline3d.population.summary import Summary
from midline3d.settings import Settings
from midline3d.synth import VARIED, Plan

Half = Literal["tune", "judge", "all"]


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

    def plan(self, seed: int = 0) -> Plan:
        """The recording that a seed draws."""
        return Plan(VARIED, frames=self.frames, size=self.size, seed=seed, family=self.family)

    def check(self) -> None:
        """Says in one sentence what cannot be run."""
        if self.recordings < 1:
            raise InputError(f"recordings is {self.recordings}; ask for one at least")
        if self.limit <= 0:
            raise InputError(f"limit is {self.limit:g} s; give more than none")
        self.plan().check()

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
    exam, out = exam or Exam(), Path(out)
    exam.check()
    claim_rows(out, "benchmark", exam.conditions(), exam.settings)
    plans = {f"{seed:05d}": exam.plan(seed) for seed in exam.seeds}
    rows = make_rows(out, plans, Manner(jobs, exam.limit, keep=keep), progress or (lambda *_: None))
    summary = Summary(tuple(rows.values()))
    write_whole(out / "summary.json", json.dumps(summary.as_dict(), indent=1).encode())
    draw_figure(summary, out / "benchmark.png")
    return summary
