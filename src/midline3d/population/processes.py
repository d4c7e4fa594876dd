"""Work in processes of its own: on one core each, ended when it takes too long or nobody waits for it any more."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

from midline3d.errors import InputError
from midline3d.files import check_folder, write_whole

LOOKING = 0.2
"""Seconds between looks at a process."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def claim_folder(out: Path, kind: str, conditions: dict[str, Any], record: str) -> bool:
    """Makes a folder for runs of a kind, or sees that what lies there was run under the same conditions, which are
    kept in the file `record`. Whether it is new."""
    check_folder(out)
    file = out / record
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        for name, value in conditions.items():
            if before.get(name) != value:
                raise InputError(f"{out}: its {kind} has {name} {before.get(name)}, not {value}; give a new folder")
        return False
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: holds files that are no {kind}; give a new folder")
    write_whole(file, json.dumps(conditions).encode())
    return True


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


def run_all(
    works: Sequence[Callable[[Event], None]], jobs: int | None, tell: Callable[[int], None], within: float = math.inf
) -> None:
    """Does all works, `jobs` at once (None: one for each core), in their order; `tell` hears how many are done.

    After `within` seconds, and where one raises, the others are stopped by their event: what they leave then is
    nothing, and the same call does what is missing.
    """
    stop, ends, done = Event(), time.monotonic() + within, 0
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        waiting = {pool.submit(work, stop) for work in works}
        try:
            while waiting and time.monotonic() < ends:
                finished, waiting = wait(waiting, LOOKING, "FIRST_COMPLETED")
                for one in finished:
                    one.result()
                    done += 1
                    tell(done)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def end_with_reason(perform: Callable[[], None]) -> None:
    """Does what a process is there for; where that fails, it ends with a line that says why, for `run_alone`."""
    try:
        perform()
    except InputError as fault:
        sys.exit(str(fault))
    except Exception as fault:
        sys.exit(f"{type(fault).__name__}: {' '.join(str(fault).split())}")
