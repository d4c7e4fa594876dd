"""How much of the machine this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that this process may use: those that the system gives it, or as few as OMP_NUM_THREADS says."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(given, max(1, int(asked))) if asked.isdigit() else given
