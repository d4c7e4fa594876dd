"""Tasks in processes side by side, each with its share of the cores; killed along with the process that gives them."""

from __future__ import annotations

import os
import queue
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from midline3d.errors import InputError
from midline3d.processors import cores
from midline3d.tracking.child import Child
from midline3d.tracking.job import Job
from midline3d.tracking.tasks import packed

FREE = 0.8
"""Share of the free memory that workers may take together."""
MEMORY = 800_000_000
"""Bytes that a worker takes: torch, and a clip's frames on their way."""
APART = 2.5
"""Seconds that a process needs to make ready, or so."""


Tell = Callable[[int, float], None]
"""Called with the number of a task, or of its clip, and how much of it is done."""
Waiting = queue.Queue[tuple[int, dict[str, Any]]]
"""Tasks with their numbers."""


def usual_workers(tasks: int) -> int:
    """As many as there are cores, tasks, and room in memory for."""
    room = tasks
    with suppress(ValueError, OSError, AttributeError):
        room = int(FREE * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // MEMORY
    return max(1, min(cores(), tasks, room))


@dataclass(frozen=True)
class Event:
    """Something that happened to a task."""

    task: int
    message: dict[str, Any]
    """As `worker` says it: `doing`, `done`, `total`; `warning`; `ended`; or `fault`, and whether it is our `own`."""

    @property
    def over(self) -> bool:
        return "ended" in self.message or "fault" in self.message


@dataclass(frozen=True)
class Crew:
    """So many processes at most for tasks, and those of them that make ready already, or are done with what they were
    given."""

    workers: int
    ready: list[Child]
    wanted: threading.Event = field(default_factory=threading.Event)
    """Set once a process is asked for: from then on whoever needs one starts it."""

    @staticmethod
    @contextmanager
    def made_ready(workers: int, tasks: int) -> Iterator[Crew]:
        """Processes for so many tasks that make ready while other things are done, for that takes seconds each; in the
        end they are killed, whatever they are at."""
        crew = Crew(workers, [])
        starting = threading.Thread(target=crew._make_ready, args=(min(workers, tasks),), daemon=True)
        starting.start()
        try:
            yield crew
        finally:
            crew.wanted.set()
            starting.join()
            for child in crew.ready:
                child.end()

    def _make_ready(self, number: int) -> None:
        """Starts so many processes, one for every four cores at a time: all at once they would keep every core from
        what is done meanwhile."""
        at_once = max(1, cores() // 4)
        for started in range(number):
            if started and started % at_once == 0 and self.wanted.wait(APART):
                return
            self.ready.append(Child(_threads(self.workers)))

    def child(self) -> Child:
        """One of the processes that are ready, or soon will be; else a new one."""
        self.wanted.set()
        return self.ready.pop() if self.ready else Child(_threads(self.workers))


def _threads(workers: int) -> int:
    """Cores that each of so many workers may use."""
    return max(1, cores() // max(1, workers))


def side_by_side(tasks: list[dict[str, Any]], crew: Crew) -> Generator[Event, None, None]:
    """All tasks, as many at once as there are workers; what happens to them as it comes. Leaving it early kills what
    still runs."""
    waiting: Waiting = queue.Queue()
    at_once = min(crew.workers, len(tasks))
    for number, content in enumerate(tasks):
        waiting.put((number, content | {"cores": _threads(at_once)}))
    events: queue.Queue[Event] = queue.Queue()
    workers = [_Worker(waiting, events, crew) for _ in range(at_once)]
    left = len(tasks)
    try:
        for each in workers:
            each.start()
        while left:
            event = events.get()
            left -= event.over
            yield event
        for each in workers:
            each.give_back()
    finally:
        for each in workers:
            each.end()


def clips_side_by_side(job: Job, clips: list[int], crew: Crew, tell: Tell) -> Generator[int, None, None]:
    """Runs clips of a planned job; their numbers as they are done."""
    tasks = [{"job": packed(job), "clip": index} for index in clips]
    with closing(one_by_one(tasks, crew, lambda task, share: tell(clips[task], share))) as done:
        for task in done:
            yield clips[task]


def one_by_one(tasks: list[dict[str, Any]], crew: Crew, tell: Tell) -> Generator[int, None, None]:
    """Runs tasks none of which may fail; their numbers as they are done."""
    with closing(side_by_side(tasks, crew)) as events:
        for event in events:
            message = event.message
            if "warning" in message:
                warnings.warn(message["warning"], stacklevel=2)
            elif "fault" in message:
                raise RuntimeError(message["fault"]) if message["own"] else InputError(message["fault"])
            elif "ended" in message:
                yield event.task
            elif message["total"]:
                tell(event.task, message["done"] / message["total"])


class _Worker(threading.Thread):
    """One process, and the thread that speaks with it."""

    def __init__(self, waiting: Waiting, events: queue.Queue[Event], crew: Crew) -> None:
        super().__init__(daemon=True)
        self._waiting, self._events, self._crew = waiting, events, crew
        self._ended = self._given_back = False
        self._child = crew.child()

    def run(self) -> None:
        """Task after task, until none is left."""
        while not self._ended:
            try:
                task, content = self._waiting.get_nowait()
            except queue.Empty:
                return
            if not self._given(task, content) and not self._ended:
                death = self._death()
                self._child = self._crew.child()  # for the tasks that are left
                self._events.put(Event(task, {"fault": death, "own": False}))

    def _given(self, task: int, content: dict[str, Any]) -> bool:
        """Gives a task and passes on what happens; False where the process died over it."""
        over = False
        for message in self._child.given(content):
            event = Event(task, message)
            self._events.put(event)
            over = event.over
        return over

    def _death(self) -> str:
        return (
            f"a worker was ended by the system (status {self._child.status()}), as happens where memory runs out; "
            "give the same command with fewer --workers: it goes on where this one stopped"
        )

    def give_back(self) -> None:
        """Leaves its process to the crew, once no task is left: the next ones need not wait for another."""
        self.join()
        self._crew.ready.append(self._child)
        self._given_back = True

    def end(self) -> None:
        """Whatever it is at: that can be gone on with."""
        if self._given_back:
            return
        self._ended = True
        self._child.end()
        if self.is_alive():
            self.join()
        self._child.end()  # the next one, where it was just being started
