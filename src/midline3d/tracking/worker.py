"""A process that does tasks for another (see `workers`).

Tasks come as lines of JSON on standard input, what happens goes as lines of JSON to standard output. When the input
ends, because the other process is done with it or has died, this one ends at once, whatever it is at: what it does can
be killed at any moment and is gone on with by the next. Heavy modules are imported when it listens already: that takes
long on a busy machine.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from midline3d.errors import InputError
from midline3d.processors import use_cores
from midline3d.tracking.tasks import unpacked

Say = Callable[..., None]


def perform(task: dict[str, Any], say: Say) -> Any:
    """One task: a clip of a recording, a step of one (see `steps`), a part of what is put right (see `parts`), or a
    recording as a whole; by so many cores as it says. Its answer, for JSON."""
    job = unpacked(task["job"])
    if "cores" in task:
        use_cores(task["cores"])

    def progress(doing: str, done: int, total: int) -> None:
        say(doing=doing, done=done, total=total)

    if "clip" in task:
        from midline3d.tracking.clips import run_clip

        run_clip(job, task["clip"], progress)
    elif "part" in task:
        from midline3d.tracking.parts import answer

        answer(task["part"], task["job"], Path(task["asked"]), task["newest"])
    elif "step" in task:
        from midline3d.tracking.steps import Step, patiently

        return patiently(Step(task["step"], task["number"]), job, progress)
    else:
        from midline3d.tracking.reconstruct import reconstruct

        reconstruct(job, progress, task["workers"])
    return True


def serve() -> None:
    """Tasks until there are no more."""
    # The process that gives the tasks is interrupted too, and decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    voice, sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8"), sys.stderr
    os.dup2(2, 1)  # what libraries print is no event

    def say(**event: Any) -> None:
        voice.write(json.dumps(event) + "\n")
        voice.flush()

    warnings.showwarning = lambda message, *_, **__: say(warning=str(message))
    tasks: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    with suppress(Exception):  # what is wrong is said to whoever gives a task
        # Before there is one: all of them need it.
        importlib.import_module("midline3d.tracking.parts")
    while True:
        task = tasks.get()
        try:
            say(ended=perform(task, say))
        except InputError as fault:
            say(fault=str(fault), own=False)
        except Exception as fault:
            if os.environ.get("MIDLINE3D_DEBUG"):
                sys.excepthook(*sys.exc_info())
            say(fault=f"{type(fault).__name__}: {' '.join(str(fault).split())}", own=True)


def _listen(tasks: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        tasks.put(json.loads(line))
    os._exit(0)
