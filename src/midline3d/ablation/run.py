"""The ablation of one recording: every variant in a process of its own, side by side; what is there already stays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from midline3d.ablation.table import Ablation
from midline3d.ablation.task import Task
from midline3d.ablation.variants import VARIANTS, Tables, Variant
from midline3d.files import write_whole
from midline3d.population.processes import LOOKING, claim_folder, run_all, run_alone
from midline3d.recording import load_recording, preflight, prepare
from midline3d.recording.prepare import chosen_frames
from midline3d.settings import Settings, dump_settings
from midline3d.store import open_result

Progress = Callable[[str, int, int], None]
LIMIT = 24 * 3600.0
"""Seconds that one variant may take: the paper's method takes a second and more for a frame."""


def ablate(
    recording: Path, out: Path, variants: Sequence[Variant] = VARIANTS, frames: tuple[int, int] | None = None,
    jobs: int | None = None, seed: int = 0, progress: Progress | None = None, within: float = math.inf,
) -> Ablation:  # fmt: skip
    """Runs what is missing of all variants into OUT/NAME, and sums them up: table.csv, summary.json.

    After `within` seconds no more is run, and what is there is summed up.
    """
    recording, out, tell = Path(recording), Path(out), progress or (lambda *_: None)
    for variant in variants:
        variant.settings()  # a setting that there is not is said before hours are spent
    found = load_recording(recording)
    preflight(found)
    conditions = {
        "recording": str(recording.resolve()),
        "frames": None if frames is None else list(frames),
        "seed": seed,
    }
    claim_folder(out, "ablation", conditions, "ablation.json")
    asked = chosen_frames(range(*frames) if frames else None, found)
    prepare(
        found, Settings().locating, out / "crops", lambda done, total: tell("locating the worm", done, total), asked
    )
    tell("variants", 0, len(variants))
    done = {variant.name: Event() for variant in variants}
    # Those that take averages of a whole run wait for it; they come last, so that none waits for one behind it.
    ordered = sorted(variants, key=lambda variant: variant.averaged)
    works = [partial(_row, variant, recording, out, frames, seed, done) for variant in ordered]
    run_all(works, jobs, lambda count: tell("variants", count, len(variants)), within)
    rows = {variant.name: _read(out / f"{variant.name}.json") for variant in variants}
    ablation = Ablation(tuple(variants), rows)
    write_whole(out / "summary.json", json.dumps(ablation.figures(), indent=1).encode())
    ablation.write(out)
    return ablation


def _read(row: Path) -> dict[str, Any]:
    """A variant's row; one that says so where it was not run."""
    return json.loads(row.read_text("utf-8")) if row.exists() else {"reason": "not run"}


def _row(
    variant: Variant, recording: Path, out: Path, frames: tuple[int, int] | None, seed: int, done: dict[str, Event],
    stop: Event,
) -> None:  # fmt: skip
    """Runs one variant where its row is not there, and says that it is done."""
    try:
        if variant.averaged and variant.reference in done:
            while not done[variant.reference].wait(LOOKING) and not stop.is_set():
                pass
        if not (out / f"{variant.name}.json").exists() and not stop.is_set():
            _run(variant, recording, out, frames, seed, stop)
    finally:
        done[variant.name].set()


def _run(variant: Variant, recording: Path, out: Path, frames: tuple[int, int] | None, seed: int, stop: Event) -> None:
    """Runs one variant; one that fails is a row with its reason."""
    more = _averages(out / variant.reference) if variant.averaged else None
    settings = out / f"{variant.name}.toml"
    write_whole(settings, dump_settings(variant.settings(more)).encode())
    task = Task(recording, out / variant.name, settings, out / "crops", frames, seed)
    reason = run_alone(task.command(), LIMIT, stop)
    if stop.is_set():
        return
    made = (task.out / "row.json").read_bytes() if reason is None else json.dumps({"reason": reason}).encode()
    write_whole(out / f"{variant.name}.json", made)


def _averages(whole: Path) -> Tables:
    """Each view's average sigma, iota and rho over the whole method's run, as settings that hold them there."""
    result = open_result(whole)
    held: dict[str, Any] = {}
    for name in ("sigma", "iota", "rho"):
        values = result[name].transpose("time", "camera").values
        held[f"held_{name}"] = np.nanmean(values, axis=0).round(6).tolist()
    return {"adam": held}
