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

from midline3d.errors import InputError


@dataclass(frozen=True)
class Task:
    """What the process is to do."""

    step: Literal["draw", "reconstruct"]
    folder: Path
    """Of this recording: `recording`, `result` and `row.json` go there."""
    settings: Path
    seed: int
    frames: int
    size: int
    family: str | None

    def command(self) -> list[str]:
        """How to run it."""
        facts = asdict(self) | {"folder": str(self.folder), "settings": str(self.settings)}
        return [sys.executable, "-m", "midline3d.population.one", json.dumps(facts)]

    @staticmethod
    def read(text: str) -> Task:
        facts = json.loads(text)
        return Task(**facts | {"folder": Path(facts["folder"]), "settings": Path(facts["settings"])})


def perform(task: Task) -> None:
    """Draws the recording, or reconstructs it and writes its row."""
    recording, result = task.folder / "recording", task.folder / "result"
    if task.step == "draw":
        from midline3d.synth import VARIED, Plan, simulate

        if not (recording / "recording.toml").exists():  # which is written last
            plan = Plan(VARIED, frames=task.frames, size=task.size, seed=task.seed, family=task.family)
            simulate(recording, plan)
        return
    from midline3d.population.score import score
    from midline3d.settings import load_settings
    from midline3d.tracking.reconstruct import Job, reconstruct

    began = time.monotonic()
    reconstruct(Job(recording, result, load_settings(task.settings)), lambda *_: None)
    seconds = time.monotonic() - began
    figures = score(result, recording / "truth.nc").summary()
    row = drawn(recording, task.seed) | figures | {"seconds": seconds, "reason": None}
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
    try:
        perform(Task.read(sys.argv[1]))
    except InputError as fault:
        sys.exit(str(fault))
    except Exception as fault:
        sys.exit(f"{type(fault).__name__}: {' '.join(str(fault).split())}")
