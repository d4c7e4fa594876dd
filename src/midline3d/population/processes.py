"""Work in processes of its own: on one core each, ended when it takes too long or nobody waits for it any more."""

from __future__ import annotations

import os
import subprocess
import time
from threading import Event

LOOKING = 0.2
"""Seconds between looks at a process."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def run_alone(command: list[str], limit: float, stop: Event) -> str | None:
    """Runs a command on one core for `limit` seconds at most; why it failed, or None."""
    alone = os.environ | dict.fromkeys(THREADS, "1")
    began = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace", env=alone) as process:
        while True:
            try:
                _, said = process.communicate(timeout=LOOKING)
                break
            except subprocess.TimeoutExpired:
                if stop.is_set() or time.monotonic() - began > limit:
                    process.kill()
                    return f"not done after {limit:g} s"
    if process.returncode == 0:
        return None
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with status {process.returncode}"
