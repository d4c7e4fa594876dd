"""Processes that look for the worm in frames, for long recordings on machines with many cores.

Threads share one lock for all that is Python, and a frame holds it for some milliseconds: beyond 200 to 300 frames a
second more cores do not make them faster. So each process is told where a frame's pictures lie in memory that it sees,
too, and answers with what it saw in them, or with the crops that it has cut out of them (see `watcher`). It holds
nothing that is not known here: whatever becomes of it, nothing is lost but time. When this process ends, however that
happens, its pipes do, and with them the others.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import midline3d
from midline3d.errors import InputError
from midline3d.processors import cores
from midline3d.recording.cutting import Crops
from midline3d.recording.locating.locator import Locator, Look, Sight
from midline3d.recording.locating.places import Places
from midline3d.recording.shared_pictures import Held, SharedPictures
from midline3d.recording.sources import Picture
from midline3d.recording.watcher import Cut, Known, Task

FEWEST_CORES = 4
"""On fewer, threads use them all: on two, 1,000 frames took 15 s by processes and 14 by threads."""
FEWEST_FRAMES = 500
"""A process needs two to three seconds before it sees anything, while the first look is taken. Threads came to no more
than 53 frames a second on 16 cores."""
PIPE = 1 << 20
"""Bytes that the pipe from a process holds, where the system lets us say: a frame's crops at once."""
MEMORY, FREE = 300_000_000, 0.5
"""Bytes that a process takes, and the share of the free memory that all of them may take."""
COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from midline3d.recording.watcher import serve; serve()"
)


def usual_watchers(frames: int) -> int:
    """As many as pay for so many frames on this machine: one for each core, or none."""
    if cores() < FEWEST_CORES or frames < FEWEST_FRAMES or os.name != "posix":
        return 0
    room = cores()
    with suppress(ValueError, OSError, AttributeError):
        room = int(FREE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // MEMORY
    return min(cores(), room)


class Watchers:
    """Some processes, started at once; they make ready while other things are done."""

    def __init__(self, number: int) -> None:
        home = str(Path(midline3d.__file__).parents[1])
        paths = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = os.environ | one_thread | {"PYTHONPATH": paths}
        self._all: list[subprocess.Popen[bytes]] = []
        self._memory: SharedPictures | None = None
        with suppress(OSError):  # the system gives no more of them: fewer do as well
            for _ in range(number):
                self._memory = self._memory or SharedPictures()
                self._all.append(_started(environment, self._memory.file))
        self._free: queue.Queue[subprocess.Popen[bytes]] = queue.Queue()
        for process in self._all:
            self._free.put(process)

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, locator: Locator) -> None:
        """Tell all of them what the first look over the recording found, its backgrounds lying in files."""
        assert self._memory is not None or not self._all
        known = pickle.dumps((Known.of(locator), self._memory and self._memory.file))
        for process in self._all:
            try:
                assert process.stdin is not None
                process.stdin.write(known)
                process.stdin.flush()
            except OSError:
                raise _ended(process) from None

    def see(self, frames: list[tuple[int, list[Picture]]]) -> list[tuple[Sight, Places]]:
        """`Locator.see` of some frames, by whichever process is free; for several threads at once."""
        assert self._memory is not None
        put = [(frame, *self._memory.put(pictures)) for frame, pictures in frames]
        looks = self._answers([Task(frame, held.slot) for frame, held, _ in put])
        found = list[tuple[Sight, Places]]()
        for (frame, held, there), look in zip(put, looks, strict=True):
            assert isinstance(look, Look)
            found.append((Sight(frame, there, look.light, look.registration, look.seen, held), look.places))
        return found

    def crops(self, asked: list[tuple[Sight, Cut]]) -> list[Crops]:
        """`Cutter.crops` of some frames that were seen by these processes, as above."""
        tasks = [Task(sight.frame, _held(sight).slot, cut) for sight, cut in asked]
        return [crops for crops in self._answers(tasks) if isinstance(crops, Crops)]

    def _answers(self, tasks: list[Task]) -> list[Look | Crops]:
        if not tasks:
            return []
        process = self._free.get()
        try:
            assert process.stdin is not None and process.stdout is not None
            pickle.dump(tasks, process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            answers = pickle.load(process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            raise _ended(process) from None
        finally:
            self._free.put(process)
        if isinstance(answers, str):
            raise RuntimeError(answers)
        assert isinstance(answers, list) and len(answers) == len(tasks)
        return answers

    def close(self) -> None:
        """End them, whatever they are at."""
        for process in self._all:
            process.kill()
        for process in self._all:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError, ValueError):  # what was on its way to it
                    if pipe is not None:
                        pipe.close()
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def _started(environment: dict[str, str], memory: int) -> subprocess.Popen[bytes]:
    """A process that makes ready; memory: the file of the pictures."""
    # -P: a folder that happens to hold a torch.py is no place to import from.
    command = [sys.executable, "-P", "-c", COMMAND]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, pass_fds=(memory,))
    with suppress(ImportError, AttributeError, OSError):  # Linux alone, and as far as its limits go
        import fcntl

        assert process.stdout is not None
        fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE)
    return process


def _held(sight: Sight) -> Held:
    assert sight.held is not None, "only what these processes have seen is in their memory"
    return sight.held


def _ended(process: subprocess.Popen[bytes]) -> InputError:
    """Why a process does not answer."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    return InputError(
        f"a process that looks for the worm was ended by the system (status {process.returncode}), as happens where "
        "memory runs out; give the same command again, with fewer cores (OMP_NUM_THREADS): it goes on where this one "
        "stopped"
    )
