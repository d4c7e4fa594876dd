"""log.txt: what was done in a result's folder, when, by what, and what went wrong. For people, not for programs."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

LOG = "log.txt"
AFRESH = "starts over"
"""A line of the log: what was warned of before it, was so of frames that are gone."""
WARNING = "warning: "
EVERY = 60.0
"""Seconds between two lines about the same long job."""


class RunLog:
    """Appends lines to a result's log. One that cannot be written, on a full disk say, stops nothing."""

    def __init__(self, folder: Path) -> None:
        self.path = Path(folder) / LOG
        self._job, self._spoken = "", 0.0

    def say(self, text: str) -> None:
        """One line, with the time."""
        with suppress(OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {' '.join(text.split())}\n")

    def warn(self, text: str) -> None:
        """One line about what was warned of."""
        self.say(f"{WARNING}{text}")

    def watched(self, progress: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
        """The same progress, written to the log too: where a job begins, and now and then."""

        def tick(doing: str, done: int, total: int) -> None:
            job = re.sub(r"\d+", "#", doing)
            if job != self._job or time.monotonic() - self._spoken > EVERY:
                self._job, self._spoken = job, time.monotonic()
                self.say(f"{doing}: {done} of {total}" if total else doing)
            progress(doing, done, total)

        return tick

    @contextmanager
    def run(self, what: str) -> Iterator[RunLog]:
        """A run from its first line to its last: warnings on the way, and how it ended."""
        began = time.monotonic()
        self.say(what)
        try:
            with overheard(self.warn):
                yield self
        except BaseException as fault:
            self.say(f"stopped after {time.monotonic() - began:.1f} s: {type(fault).__name__}: {fault}")
            raise
        self.say(f"done in {time.monotonic() - began:.1f} s")


@contextmanager
def overheard(tell: Callable[[str], None]) -> Iterator[None]:
    """Passes warnings on to `tell` too, besides being shown."""
    shown = warnings.showwarning

    def show(message: Warning | str, *more: Any, **named: Any) -> None:
        tell(str(message))
        shown(message, *more, **named)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def warned_of(folder: Path) -> tuple[str, ...]:
    """What runs in a result's folder have warned of since they last started over, each once."""
    found: dict[str, None] = {}
    with suppress(OSError):
        for line in (Path(folder) / LOG).read_text(encoding="utf-8", errors="replace").splitlines():
            text = line.partition("  ")[2]
            if text == AFRESH:
                found.clear()
            elif text.startswith(WARNING):
                found[text.removeprefix(WARNING)] = None
    return tuple(found)
