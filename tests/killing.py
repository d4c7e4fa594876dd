"""Runs that are killed at arbitrary moments and given again until they are done, beside one that nobody disturbs.

    python tests/killing.py FOLDER --rounds 15          # a hundred kills, some minutes

Every run is a process of its own, killed from outside (SIGKILL). What it works at is written to a file line by line, so
that work done twice is seen. A round is followed by another whose frames are judged behind a run ahead, as on a GPU.
The last line printed is a summary as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import h5netcdf  # noqa: F401 - once, not in every run
import numpy as np

from midline3d import Plan, Settings, open_result, simulate
from midline3d.tracking import batch, directions, follow, walk
from midline3d.tracking.reconstruct import Job, reconstruct

FRAMES = 30
SEGMENT = 3
"""Frames in a segment: few, so that there are many."""
PHASES = {
    "preparing": ("locating", 1, 2.0),
    "beginning": ("searching", 1, 1.8),
    "tracking": ("reconstructing", 9, 0.03),
    "consolidating": ("consolidating", 1, 0.06),
}
"""What a run says in a phase, after how many times of that it is killed at the latest, and how long after that, s.

Frames that are followed are counted, not timed: however slow a machine is, some of them are on its disk by then.
"""
ALL_ALONG = "telling head from tail all along"
"""What a run says when all frames are followed, and it puts them right: those that were lost are looked for again."""
PLAN = ("preparing", "beginning", *["tracking"] * 2, "consolidating")
"""Phases in which the runs of a round are killed, one after the other; the last one comes to its end."""
PLAN_AHEAD = ["tracking"] * 2
PLANNING, RESULT = import_module("midline3d.tracking.clips"), import_module("midline3d.store.result")


def simulated(folder: Path) -> None:
    """A swimming worm that is gone in some frames, hidden from a camera in others, and once there is no picture."""
    simulate(folder, Plan("clean", FRAMES, size=200, px_per_mm=60.0, seed=0, source="npy"))
    for camera, path in enumerate(sorted(folder.glob("cam*.npy"))):
        stack = np.load(path)
        nobody = np.median(stack).astype(stack.dtype)
        stack[[4, 22]] = nobody
        stack[8] = 0
        if camera == 0:
            stack[24] = nobody
        np.save(path, stack)


def settings() -> Settings:
    """Quick ones."""
    whole = Settings()
    start = replace(whole.start, starts=2, pairs=1, apart=2, polish=2)
    return replace(
        whole,
        start=start,
        second_order=replace(whole.second_order, iterations=8, retry_iterations=16),
        body=replace(whole.body, span=6, frames=4, iterations=6, first_iterations=3, rounds=1, stretch=0.0),
    )


@dataclass(frozen=True)
class Trial:
    """A recording, where its result goes, and how it is followed."""

    recording: Path
    out: Path
    ahead: bool = False

    @property
    def work(self) -> Path:
        return self.out.with_suffix(".txt")

    def run(self, say: Callable[[str], None]) -> None:
        """One run in this process, which tells what it comes to."""
        note = os.open(self.work, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

        def noted(home: object, name: str, line: Callable[..., str]) -> None:
            work = getattr(home, name)

            def reported(*given: object) -> object:
                os.write(note, (line(*given) + "\n").encode())
                return work(*given)

            setattr(home, name, reported)

        noted(PLANNING, "begin", lambda *_: "begin")
        following = True

        def tell(doing: str) -> None:
            nonlocal following
            following = following and doing != ALL_ALONG
            say(doing)

        noted(
            follow, "_fitted", lambda beginning, frame, track: f"{'frame' if following else 'second look at'} {frame}"
        )
        noted(
            batch.Batch,
            "fits",
            lambda own, ready: "\n".join(
                f"frame {own.sequences[slot].frames[place]}" for slot, places in ready.items() for place in places
            ),
        )
        write = RESULT.write_netcdf

        def consolidate(*given: object) -> None:
            say("consolidating")
            write(*given)

        RESULT.write_netcdf, RESULT.SEGMENT_FRAMES = consolidate, SEGMENT
        if self.ahead:
            walk.track_directions = directions.follow_directions
        reconstruct(Job(self.recording, self.out, settings()), lambda doing, done, total: tell(doing))

    def killed(self, phase: str | None = None, times: int = 1, delay: float = 0.0) -> bool:
        """A run in a process of its own, killed some time after it has told of a phase so many times.

        False where it came to its end.
        """
        word, told = PHASES[phase][0] if phase else "never", 0

        def run(writer: int) -> None:
            def say(doing: str) -> None:
                nonlocal told
                if doing.startswith(word):
                    told += 1
                    if told == times:
                        os.write(writer, b"!")

            self.run(say)

        return apart(run, delay)

    def begun_as(self, other: Path) -> Trial:
        """All that another run had before its first frame."""
        shutil.copytree(other, self.out, ignore=shutil.ignore_patterns("segments", "*.nc"))
        return self

    def stored(self) -> set[int]:
        """Frames on the disk."""
        if not (self.out / "manifest.json").exists():
            return set()
        found = open_result(self.out)
        return set(found.frame.values[found.status.values != "pending"].tolist())

    def worked(self) -> Counter[str]:
        """What was worked at, and how many times."""
        return Counter(self.work.read_text().splitlines() if self.work.exists() else [])


def apart(work: Callable[[int], None], delay: float = 0.0) -> bool:
    """Works in a process of its own, killed some time after it writes to what it is given; False where it was not.

    This process only watches: threads that torch has started would be missing in the next that is forked.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.close(reader)
            work(writer)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as heard:
        select.select([heard], [], [])
        if heard.read(1):
            time.sleep(delay)
            os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("a run failed")
    return os.WIFSIGNALED(status)


def one_round(trial: Trial, plan: Sequence[str], rng: random.Random) -> Counter[str]:
    """Killed by plan, then let go on to the end. Counts kills, work done again, and such as need not have been."""
    reported = Counter[str](kills=0, again=0, needless=0)
    for phase in (*plan, None):
        before, stored = trial.worked(), trial.stored()
        known = (trial.out / "kept" / "beginning.npz").exists()
        _, most, longest = PHASES[phase] if phase else ("", 1, 0.0)
        dead = trial.killed(phase, rng.randint(1, most), rng.uniform(0, longest))
        reported["kills"] += dead
        if phase:
            reported[phase] += dead
        now = trial.worked()
        new = now - before
        reported["needless"] += sum(new[f"frame {frame}"] for frame in stored) + (known and new["begin"])
        reported["again"] += sum(count for what, count in new.items() if what in before)
    return reported


def differences(one: Path, other: Path) -> dict[str, float]:
    """Variables that are not the same to the bit, and by how much."""
    here, there = open_result(one / "midline.nc"), open_result(other / "midline.nc")
    found = {}
    for name in here.variables:
        mine, theirs = here[name].values, there[name].values
        if mine.dtype.kind == "f":
            if not np.array_equal(mine, theirs, equal_nan=True):
                found[str(name)] = float(np.nanmax(np.abs(mine - theirs)))
        elif mine.tolist() != theirs.tolist():
            found[str(name)] = float("nan")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    recording, rng = given.folder / "worm", random.Random(given.seed)
    if not recording.exists():
        apart(lambda _: simulated(recording))
    alone = Trial(recording, given.folder / "alone")
    alone.killed()
    ahead = Trial(recording, given.folder / "ahead", ahead=True).begun_as(alone.out)
    ahead.killed()
    reported, different = Counter[str](), dict[str, float]()
    for number in range(given.rounds):
        trial = Trial(recording, given.folder / f"alone{number}")
        reported.update(one_round(trial, PLAN, rng))
        different |= differences(alone.out, trial.out)
        trial = Trial(recording, given.folder / f"ahead{number}", ahead=True).begun_as(alone.out)
        reported.update(one_round(trial, PLAN_AHEAD, rng))
        different |= differences(ahead.out, trial.out)
        print(number, dict(reported), different, flush=True)
    print(json.dumps({**reported, "frames": 2 * FRAMES * given.rounds, "different": different}))


if __name__ == "__main__":
    main()
