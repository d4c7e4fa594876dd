"""Rows of simulated recordings: each is drawn, reconstructed and scored in processes of its own, once."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from midline3d.errors import InputError
from midline3d.files import write_whole
from midline3d.population.one import Task, drawn
from midline3d.population.processes import claim_folder, run_all, run_alone
from midline3d.settings import Settings, dump_settings
from midline3d.synth import Plan

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Manner:
    """How all rows of a folder are made."""

    jobs: int | None = None
    """How many at once; None: one for each core."""
    limit: float = 600.0
    """Seconds for one recording's reconstruction."""
    within: float = math.inf
    """Seconds after which no more is done."""
    keep: bool = False
    """Recordings and results stay, in the folder `work`."""
    worst: bool = False
    """Of every recording the worst frame stays as it was seen, in the folder `worst`."""


def claim_rows(out: Path, kind: str, conditions: dict[str, Any], settings: Settings) -> None:
    """Makes the folder, or sees that what lies there was run under the same conditions and settings."""
    toml = out / "settings.toml"
    if claim_folder(out, kind, conditions, "conditions.json") or not toml.exists():
        (out / "rows").mkdir(exist_ok=True)
        write_whole(toml, dump_settings(settings).encode())
    elif toml.read_text(encoding="utf-8") != dump_settings(settings):
        raise InputError(f"{out}: its {kind} was run with other settings; give a new folder")


def make_rows(out: Path, plans: dict[str, Plan], manner: Manner, tell: Progress) -> dict[str, dict[str, Any]]:
    """Rows by the recordings' names, those that were there and those that were missing; fewer where time ran out."""
    files = {name: out / "rows" / f"{name}.json" for name in plans}
    missing = [name for name, file in files.items() if not file.exists()]
    before = len(files) - len(missing)
    tell("recordings", before, len(files))
    works: Sequence[Callable[[Event], None]] = [partial(_row, out, name, plans[name], manner) for name in missing]
    run_all(works, manner.jobs, lambda done: tell("recordings", before + done, len(files)), manner.within)
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}


def _row(out: Path, name: str, plan: Plan, manner: Manner, stop: Event) -> None:
    """Draws, reconstructs and scores one recording; leaves its row. One that fails is a row with its reason."""
    folder = out / "work" / name
    folder.mkdir(parents=True, exist_ok=True)
    worst = out / "worst" / f"{name}.npz" if manner.worst else None
    facts: dict[str, Any] = {"seed": plan.seed}
    reason = run_alone(Task("draw", folder, out / "settings.toml", plan).command(), math.inf, stop)
    if reason is None and not stop.is_set():
        facts = drawn(folder / "recording", plan.seed)
        shutil.rmtree(folder / "result", ignore_errors=True)  # of a run that was interrupted: seconds would not count
        task = Task("reconstruct", folder, out / "settings.toml", plan, worst)
        reason = run_alone(task.command(), manner.limit, stop)
    if stop.is_set():
        return
    made = folder / "row.json"
    row = json.loads(made.read_text(encoding="utf-8")) if reason is None else facts | {"reason": reason}
    write_whole(out / "rows" / f"{name}.json", json.dumps(row).encode())
    if not manner.keep:
        shutil.rmtree(folder, ignore_errors=True)
