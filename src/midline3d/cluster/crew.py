"""On a worker's side: each task in a process of its own, so that it can be ended at any moment and harms no other.

The worker itself stays free to answer the scheduler, and imports little. Its processes end when it does, however it
ends, and when the command that gave them their tasks is gone.
"""

from __future__ import annotations

import platform
import threading
from pathlib import Path
from typing import Any

from distributed import Reschedule, Worker, WorkerPlugin, get_worker

from midline3d.tracking.child import Child

GONE = ("cancelled", "released", "forgotten")
"""States of a task that nobody waits for any more."""


class EndedError(Exception):
    """The process was ended over its task: by the system, or because nobody waited for it. It can be given again."""


class Crew(WorkerPlugin):
    """The processes of a worker, one for each task that it does at a time; kept, because importing torch takes long."""

    def __init__(self, name: str) -> None:
        """name: of the command that they work for; each has a crew of its own."""
        self.name = name

    def setup(self, worker: Worker) -> None:
        """Called on the worker, before its first task."""
        self._idle: list[Child] = []
        self._busy: dict[Any, Child] = {}
        self._lock = threading.Lock()
        self._leaving = False

    def teardown(self, worker: Worker) -> None:
        """Called on the worker, when it or the command has come to its end."""
        with self._lock:
            self._leaving = True
            for child in [*self._idle, *self._busy.values()]:
                child.end()
            self._idle.clear()

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Called for every change of a task's state: ends what is in work for nobody, and what waits for more."""
        with self._lock:
            if key in self._busy and finish in GONE:
                for child in [*self._idle, self._busy[key]]:
                    child.end()
                self._idle.clear()

    def do(self, key: Any, task: dict[str, Any]) -> dict[str, Any]:
        """A task, as `tracking.worker` does it; its last word, and the warnings on the way."""
        with self._lock:
            child = self._busy[key] = self._idle.pop() if self._idle else Child()
        warned, answer = list[str](), dict[str, Any]()
        for answer in child.given(task):
            if "warning" in answer:
                warned.append(answer["warning"])
        over = "ended" in answer or "fault" in answer
        with self._lock:
            del self._busy[key]
            if over:
                self._idle.append(child)
        if not over:
            child.end()
            if self._leaving:
                raise Reschedule  # on another worker, without blame
            raise EndedError(f"status {child.status()} on {platform.node()}")
        return answer | {"warnings": warned}


def work(name: str, task: dict[str, Any]) -> dict[str, Any]:
    """The task that the scheduler hands out. name: of the crew."""
    for place in (task["job"]["recording"], task["job"]["out"]):
        if not Path(place).exists():
            fault = f"{place} cannot be seen from {platform.node()}; recordings and output have to lie on a file "
            return {"fault": fault + "system that all machines share, under the same path", "own": False}
    worker = get_worker()
    crew = worker.plugins[name]
    assert isinstance(crew, Crew)
    return crew.do(worker.get_current_task(), task)


def allow(failures: int, dask_scheduler: Any = None) -> None:
    """On the scheduler's side: as many workers may die over a task as that, at least, before it is given up."""
    dask_scheduler.allowed_failures = max(dask_scheduler.allowed_failures, failures)
