"""One recording of the benchmark, in a process of its own: `python -m midline3d.population.one TASK`.

A recording that takes the machine's memory, hangs or crashes then takes nothing else with it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from midline3d.population.processes import end_with_reason
from midline3d.synth import Plan


@dataclass(frozen=True)
class Task:
    """What the process is to do."""

    step: Literal["draw", "reconstruct"]
    folder: Path
    """Of this recording: `recording`, `result` and `row.json` go there."""
    settings: Path
    plan: Plan
    """What to draw."""
    worst: Path | None = None
    """Where the worst frame goes as it was seen, with both midlines."""

    def command(self) -> list[str]:
        """How to run it."""
        facts = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
        return [sys.executable, "-m", "midline3d.population.one", json.dumps(facts)]

    @staticmethod
    def read(text: str) -> Task:
        facts = json.loads(text)
        worst = None if facts["worst"] is None else Path(facts["worst"])
        return Task(facts["step"], Path(facts["folder"]), Path(facts["settings"]), Plan(**facts["plan"]), worst)


def perform(task: Task) -> None:
    """Draws the recording, or reconstructs it and writes its row."""
    recording = task.folder / "recording"
    if task.step == "reconstruct":
        return _reconstruct(task, recording)
    from midline3d.synth import simulate

    if not (recording / "recording.toml").exists():  # which is written last
        simulate(recording, task.plan)
    return None


def _reconstruct(task: Task, recording: Path) -> None:
    from midline3d.population.score import score
    from midline3d.population.worst import keep_worst
    from midline3d.settings import load_settings
    from midline3d.tracking.reconstruct import Job, reconstruct

    result = task.folder / "result"
    began = time.monotonic()
    try:
        reconstruct(Job(recording, result, load_settings(task.settings)), lambda *_: None)
    except Exception as fault:
        if task.worst is not None:
            keep_worst(task.worst, recording, None, str(fault))
        raise
    seconds = time.monotonic() - began
    frames = score(result, recording / "truth.nc")
    if task.worst is not None:
        keep_worst(task.worst, recording, (result, frames))
    row = drawn(recording, task.plan.seed) | frames.summary() | {"seconds": seconds, "reason": None}
    (task.folder / "row.json").write_text(json.dumps(row), encoding="utf-8")


def drawn(recording: Path, seed: int) -> dict[str, Any]:
    """What is known of a recording before it is reconstructed."""
    import xarray as xr

    facts = xr.load_dataset(recording / "truth.nc").attrs
    return {
        "seed": seed,
        "family": facts["family"],
        "length_px": float(facts["length_px"]),
        "contrast": float(np.median(facts["contrast"])),
        "noise": float(facts["noise"]),
        "cameras": len(np.atleast_1d(facts["px_per_mm"])),
        "fastest_px": float(facts["fastest_px"]),
    }


if __name__ == "__main__":
    end_with_reason(lambda: perform(Task.read(sys.argv[1])))
