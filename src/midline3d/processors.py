"""How much of the machine this process may use."""

from __future__ import annotations

import os
import sys

ENOUGH = 6
"""Cores that follow a recording faster than a GPU does. Its clips in slots of an H200 came at 57 to 84 frames a second,
for whatever is not plain is done frame after frame, on one core; clips in processes at 19 for each core beside it."""


def gpu_is_faster() -> bool:
    """Whether a GPU, where there is one, reconstructs faster than this machine's cores."""
    return _given() < ENOUGH


def cores() -> int:
    """Cores that this process may use: those that the system gives it, or as few as OMP_NUM_THREADS says."""
    given = _given()
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(given, max(1, int(asked))) if asked.isdigit() else given


def use_cores(number: int) -> None:
    """From now on this process uses so many cores at most."""
    os.environ["OMP_NUM_THREADS"] = str(number)
    if "torch" in sys.modules:  # else it asks when it is imported
        sys.modules["torch"].set_num_threads(number)


def _given() -> int:
    """Cores that the system gives this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
