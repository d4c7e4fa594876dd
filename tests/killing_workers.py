"""A run on a cluster whose workers are killed one after the other, beside one on one machine that nobody disturbs.

    python tests/killing_workers.py FOLDER --every 20 --frames 400

The scheduler and its workers are processes of their own, as in a lab; every so many seconds a worker that is busy is
killed (SIGKILL), and its nanny starts another. The last line printed is a summary as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import killing
from distributed import Client

from midline3d import Job, Plan, Settings
from midline3d.cluster.place import Place
from midline3d.cluster.run import reconstruct_on_cluster
from midline3d.synth import simulate
from midline3d.tracking.reconstruct import reconstruct

SOURCE = Path(__file__).parents[1] / "src"


def settings(clip: int) -> Settings:
    """Quick ones, and clips of so many frames."""
    quick = killing.settings()
    return replace(quick, tracking=replace(quick.tracking, clip=clip, overlap=3))


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}


@contextmanager
def started(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler with workers, and nannies that replace them when they die: the file that tells where it is."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    dask = [sys.executable, "-m", "dask"]
    usual = ["--no-dashboard", "--scheduler-file", str(file)]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    commands = [
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", *usual],
        [*dask, "worker", "--nworkers", str(workers), "--nthreads", "1", *usual],
    ]
    processes = [subprocess.Popen(command, env=environment(), **quiet) for command in commands]
    try:
        while not file.exists():
            assert processes[0].poll() is None, "the scheduler ended"
            time.sleep(0.1)
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(workers)
        yield str(file)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(60)


def pids(client: Client, workers: list[str] | None = None) -> list[int]:
    """Process numbers of the workers that there are, or of some."""
    found = client.run(os.getpid, workers=workers, on_error="return").values()
    return [number for number in found if isinstance(number, int)]


@dataclass
class Killer:
    """Kills one of the busy workers every so many seconds, up to some number of them."""

    scheduler: str
    every: float
    most: int = 10_000
    seed: int = 0
    killed: list[int] = field(default_factory=list)

    def __enter__(self) -> Killer:
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def _run(self) -> None:
        rng = random.Random(self.seed)
        with Client(scheduler_file=self.scheduler, set_as_default=False) as client:
            while not self._enough.wait(self.every) and len(self.killed) < self.most:
                with suppress(Exception):  # one that is just ending
                    busy = sorted(worker for worker, keys in client.processing().items() if keys)
                    for number in pids(client, [rng.choice(busy)]) if busy else ():
                        os.kill(number, signal.SIGKILL)
                        self.killed.append(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=float, default=20.0, help="s")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--frames", type=int, default=400)
    parser.add_argument("--clip", type=int, default=40, help="frames")
    given = parser.parse_args()
    recording, alone, shared = (given.folder / name for name in ("worm", "alone", "shared"))
    if not recording.exists():
        simulate(recording, Plan("clean", given.frames, size=200, px_per_mm=60.0, seed=0, source="npy"))
    say = lambda doing, done, total: print(f"  {doing}: {done} of {total}", flush=True)  # noqa: E731
    chosen, began = settings(given.clip), time.monotonic()
    with started(given.folder, given.workers) as scheduler, Killer(scheduler, given.every) as killer:
        [outcome] = reconstruct_on_cluster({"worm": Job(recording, shared, chosen)}, Place(scheduler), say, "cpu")
    spent = time.monotonic() - began
    reconstruct(Job(recording, alone, chosen), lambda *_: None, given.workers)
    reported = {"kills": len(killer.killed), "seconds": round(spent), "fault": outcome.fault}
    print(json.dumps(reported | {"different": killing.differences(alone, shared)}))


if __name__ == "__main__":
    main()
