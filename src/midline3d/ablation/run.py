"""The ablation of one recording: every variant in a process of its own, side by side; what is there already stays."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from midline3d.ablation.table import Ablation
from midline3d.ablation.task import Task
from midline3d.ablation.variants import VARIANTS, Tables, Variant
from midline3d.errors import InputError
from midline3d.files import write_whole
from midline3d.population.processes import run_alone
from midline3d.recording import load_recording, preflight, prepare
from midline3d.recording.prepare import chosen_frames
from midline3d.settings import Settings, dump_settings
from midline3d.store import open_result

Progress = Callable[[str, int, int], None]
LIMIT = 24 * 3600.0
"""Seconds that one variant may take: the paper's method takes a second and more for a frame."""


def ablate(
    recording: Path, out: Path, variants: Sequence[Variant] = VARIANTS, frames: tuple[int, int] | None = None,
    jobs: int | None = None, seed: int = 0, progress: Progress | None = None,
) -> Ablation:  # fmt: skip
    """Runs what is missing of all variants into OUT/NAME, and sums them up: table.csv, summary.json."""
    recording, out, tell = Path(recording), Path(out), progress or (lambda *_: None)
    for variant in variants:
        variant.settings()  # a setting that there is not is said before hours are spent
    found = load_recording(recording)
    preflight(found)
    _claim(out, recording, frames, seed)
    asked = chosen_frames(range(*frames) if frames else None, found)
    prepare(
        found, Settings().locating, out / "crops", lambda done, total: tell("locating the worm", done, total), asked
    )
    tell("variants", 0, len(variants))
    done, stop = 0, Event()
    # Those that take averages of a whole run wait for it.
    for group in ([v for v in variants if not v.averaged], [v for v in variants if v.averaged]):
        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            waiting = [pool.submit(_row, variant, recording, out, frames, seed, stop) for variant in group]
            try:
                for one in as_completed(waiting):
                    one.result()
                    done += 1
                    tell("variants", done, len(variants))
            except BaseException:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise
    rows = {variant.name: json.loads((out / f"{variant.name}.json").read_text("utf-8")) for variant in variants}
    ablation = Ablation(tuple(variants), rows)
    write_whole(out / "summary.json", json.dumps(ablation.figures(), indent=1).encode())
    ablation.write(out)
    return ablation


def _claim(out: Path, recording: Path, frames: tuple[int, int] | None, seed: int) -> None:
    """Makes the folder, or sees that what lies there is of the same recording."""
    wish = {"recording": str(recording.resolve()), "frames": None if frames is None else list(frames), "seed": seed}
    file = out / "ablation.json"
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        for name, value in wish.items():
            if before.get(name) != value:
                raise InputError(f"{out}: its ablation has {name} {before.get(name)}, not {value}; give a new folder")
    elif out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: holds files that are no ablation; give a new folder")
    else:
        write_whole(file, json.dumps(wish).encode())


def _row(variant: Variant, recording: Path, out: Path, frames: tuple[int, int] | None, seed: int, stop: Event) -> None:
    """Runs one variant where its row is not there; a variant that fails is a row with its reason."""
    row = out / f"{variant.name}.json"
    if row.exists() or stop.is_set():
        return
    more = _averages(out / variant.reference) if variant.averaged else None
    settings = out / f"{variant.name}.toml"
    write_whole(settings, dump_settings(variant.settings(more)).encode())
    task = Task(recording, out / variant.name, settings, out / "crops", frames, seed)
    reason = run_alone(task.command(), LIMIT, stop)
    if stop.is_set():
        return
    made = (task.out / "row.json").read_bytes() if reason is None else json.dumps({"reason": reason}).encode()
    write_whole(row, made)


def _averages(whole: Path) -> Tables:
    """Each view's average sigma, iota and rho over the whole method's run, as settings that hold them there."""
    result = open_result(whole)
    held: dict[str, Any] = {}
    for name in ("sigma", "iota", "rho"):
        values = result[name].transpose("time", "camera").values
        held[f"held_{name}"] = np.nanmean(values, axis=0).round(6).tolist()
    return {"adam": held}
