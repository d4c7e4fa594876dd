"""Telling people how a long job goes: a live bar in a terminal, a plain line now and then in a log."""

from __future__ import annotations

import re
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

EVERY = 10.0
"""Seconds between the lines of a log."""


class Ticker:
    """Call it with what is being done, how much of it is done and how much there is (0: unknown)."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = _bar(console) if console.is_terminal else None
        self._task = None if self._bar is None else self._bar.add_task("starting", total=None)
        self._job, self._since, self._first, self._spoken = "", time.monotonic(), 0, 0.0

    def __enter__(self) -> Ticker:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, doing: str, done: int, total: int) -> None:
        # A job whose text counts for itself ("searching in frame 3") stays the same job.
        job = re.sub(r"\d+", "#", doing)
        fresh = job != self._job
        if fresh:
            self._job, self._since, self._first = job, time.monotonic(), done
        if self._bar is not None and self._task is not None:
            if fresh:
                self._bar.reset(self._task, total=total or None)
            self._bar.update(self._task, description=doing, completed=done, total=total or None)
        elif fresh or time.monotonic() - self._spoken > EVERY or (total and done == total):
            self._spoken = time.monotonic()
            self._console.print(self._line(doing, done, total), markup=False, highlight=False)

    def _line(self, doing: str, done: int, total: int) -> str:
        if not total:
            return doing
        spent = time.monotonic() - self._since
        # What a job that was resumed had done before took no time of this one.
        own = done - self._first
        left = f", {_duration(spent / own * (total - done))} left" if own > 0 and done < total and spent > 1 else ""
        return f"{doing}: {done} of {total}{left}"


def _bar(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        transient=True,
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
