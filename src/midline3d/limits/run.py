"""Simulated recordings with one nuisance at rising levels, side by side over the cores; what is there already stays."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midline3d.errors import InputError
from midline3d.files import write_whole
from midline3d.limits.figure import draw_failure, draw_limits
from midline3d.limits.table import Limits, Row
from midline3d.population.rows import Manner, Progress, claim_rows, make_rows
from midline3d.population.worst import Shot
from midline3d.settings import Settings
from midline3d.synth import LADDERS, VARIED, Ladder, Plan


@dataclass(frozen=True)
class Course:
    """Which recordings, and under what conditions."""

    nuisances: tuple[str, ...] = tuple(LADDERS)
    animals: int = 3
    """At every level; the same ones at all levels."""
    frames: int = 25
    size: int = 512
    """px."""
    first_seed: int = 1
    """Of the first animal."""
    limit: float = 600.0
    """Seconds for one recording's reconstruction."""
    settings: Settings = field(default_factory=Settings)
    ladders: dict[str, Ladder] = field(default_factory=lambda: dict(LADDERS))
    """Levels of the nuisances."""

    def check(self) -> None:
        """Says in one sentence what cannot be run."""
        for name in self.nuisances:
            if name not in self.ladders:
                raise InputError(f"the nuisance is '{name}'; choose of {', '.join(self.ladders)}")
        if not self.nuisances:
            raise InputError(f"no nuisance is named; choose of {', '.join(self.ladders)}")
        if self.animals < 1:
            raise InputError(f"animals is {self.animals}; ask for one at least")
        if self.limit <= 0:
            raise InputError(f"limit is {self.limit:g} s; give more than none")
        for plan in self.plans().values():
            plan.check()

    def plans(self) -> dict[str, Plan]:
        """By their rows' names. One animal's whole course comes before the next animal's: stopped early, what is there
        covers all levels."""
        return {
            _name(nuisance, index, seed): Plan(
                VARIED, frames=self.frames, size=self.size, seed=seed, nuisance=nuisance, level=level
            )
            for seed in range(self.first_seed, self.first_seed + self.animals)
            for nuisance in self.nuisances
            for index, level in enumerate(self.ladders[nuisance].levels)
        }

    def conditions(self) -> dict[str, Any]:
        """What all rows of one folder have in common."""
        levels = {name: list(ladder.levels) for name, ladder in self.ladders.items()}
        return {"frames": self.frames, "size": self.size, "limit": self.limit, "levels": levels}


def find_limits(
    out: Path, course: Course | None = None, jobs: int | None = None, within: float = math.inf, keep: bool = False,
    progress: Progress | None = None,
) -> Limits:  # fmt: skip
    """Runs what is missing of a course in the folder `out`, and sums all of it up.

    Leaves limits.csv and summary.json, limits.png, and for every nuisance NUISANCE.png: the worst frame at the level at
    which it breaks. After `within` seconds no more is run, and what is there is summed up.
    """
    course, out = course or Course(), Path(out)
    course.check()
    claim_rows(out, "course of limits", course.conditions(), course.settings)
    plans = course.plans()
    manner = Manner(jobs, course.limit, within, keep, worst=True)
    made = make_rows(out, plans, manner, progress or (lambda *_: None))
    rows = tuple(_row(name, plans[name], figures) for name, figures in made.items())
    limits = Limits({name: course.ladders[name] for name in course.nuisances}, rows, len(plans))
    write_whole(out / "summary.json", json.dumps(limits.as_dict(), indent=1).encode())
    write_whole(out / "limits.csv", limits.csv().encode())
    draw_limits(limits, out / "limits.png")
    for nuisance in course.nuisances:
        _draw_failure(limits, nuisance, out)
    return limits


def _name(nuisance: str, index: int, seed: int) -> str:
    return f"{nuisance}-{index}-{seed:05d}"


def _row(name: str, plan: Plan, figures: dict[str, Any]) -> Row:
    assert plan.nuisance is not None and plan.level is not None
    return Row(name, plan.nuisance, plan.level, plan.frames, figures)


def _draw_failure(limits: Limits, nuisance: str, out: Path) -> None:
    """The worst frame at the level at which it breaks, or at the hardest; nothing where no recording kept a frame."""
    levels, breaks = limits.levels(nuisance), limits.breaks_at(nuisance)
    if not levels:
        return
    shown = levels[-1]["level"] if breaks is None else breaks
    there = [row for row in limits.rows if (row.nuisance, row.level) == (nuisance, shown)]
    files = [(row, out / "worst" / f"{row.name}.npz") for row in there]
    shots = [(row, Shot.load(file)) for row, file in files if file.exists()]
    if shots:
        row, shot = max(shots, key=lambda pair: pair[1].badness)
        draw_failure(row, limits.ladders[nuisance], shot, breaks is not None, out / f"{nuisance}.png")
