"""One variant, in a process of its own: `python -m midline3d.ablation.one TASK`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from midline3d.ablation.task import Task
from midline3d.files import write_whole
from midline3d.population.processes import end_with_reason


def perform(task: Task) -> None:
    """Reconstructs, measures, and leaves the row."""
    from midline3d.ablation.loss import pixel_losses
    from midline3d.settings import load_settings
    from midline3d.tracking.reconstruct import Job, reconstruct

    crops = task.crops if task.crops != task.out / "crops" else None
    job = Job(task.recording, task.out, load_settings(task.settings), task.seed, frames=task.frames, crops=crops)
    began = time.monotonic()
    reconstruct(job, lambda *_: None, workers=1)
    row: dict[str, Any] = {"seconds": time.monotonic() - began, "reason": None}
    row["losses"] = [None if np.isnan(loss) else loss for loss in pixel_losses(task.out).tolist()]
    row |= _against_truth(task)
    write_whole(task.out / "row.json", json.dumps(row).encode())


def _against_truth(task: Task) -> dict[str, Any]:
    """Errors, where the recording is a simulated one; either way round, for the paper's method tells no head."""
    from midline3d.evaluate import evaluate_truth
    from midline3d.store import open_result

    truth = (task.recording if task.recording.is_dir() else task.recording.parent) / "truth.nc"
    if not truth.is_file():
        return {"midline_px": None, "ends_px": None, "lost": None}
    found = open_result(task.out)
    both = [evaluate_truth(each, truth).summary() for each in (found, found.isel(keypoint=slice(None, None, -1)))]
    best = min(both, key=lambda figures: np.inf if figures["ends_px"] is None else figures["ends_px"])
    return {name: best[name] for name in ("midline_px", "ends_px", "lost")}


if __name__ == "__main__":
    end_with_reason(lambda: perform(Task.read(sys.argv[1])))
