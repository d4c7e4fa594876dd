"""One method on one recording, in a process of its own: `python -m midline3d.rivals.one TASK`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midline3d.files import write_whole
from midline3d.population.processes import end_with_reason
from midline3d.rivals.task import Task


def perform(task: Task) -> None:
    """Runs the method, measures every frame, and leaves the row. Seconds are those of the processor, all included."""
    from midline3d.population.score import score
    from midline3d.rivals.truth import read_truth

    truth = read_truth(task.recording)
    if task.frames is not None:
        truth = truth.isel(time=slice(*task.frames))
    began = time.process_time()
    _run(task)
    seconds = time.process_time() - began
    frames = score(task.out, truth)
    counted = frames.clear
    row: dict[str, Any] = {
        "frames": int(counted.sum()),
        "midline": _plain(frames.midline[counted & frames.given]),
        "ends": _plain(frames.ends.mean(-1)[counted & frames.given]),
        "right": int((counted & frames.given & ~frames.wrong).sum()),
        "lost": int((counted & ~frames.given).sum()),
        "seconds": seconds,
        "reason": None,
    }
    write_whole(task.out / "row.json", json.dumps(row).encode())


def _run(task: Task) -> None:
    if task.method not in ("midline3d", "paper"):
        from midline3d.baselines.run import baseline

        baseline(task.recording, task.out, task.method, task.frames)
        return
    from midline3d.settings import load_settings
    from midline3d.tracking.reconstruct import Job, reconstruct

    settings = load_settings("paper" if task.method == "paper" else None)
    job = Job(task.recording, task.out, settings, task.seed, frames=task.frames)
    reconstruct(job, lambda *_: None, workers=1)


def _plain(values: NDArray[np.float64]) -> list[float]:
    return [round(value, 4) for value in values.tolist()]


if __name__ == "__main__":
    end_with_reason(lambda: perform(Task.read(sys.argv[1])))
