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
        began, shown = time.monotonic(), warnings.showwarning

        def show(message: Warning | str, *more: Any, **named: Any) -> None:
            self.say(f"warning: {message}")
            shown(message, *more, **named)

        self.say(what)
        warnings.showwarning = show
        try:
            yield self
        except BaseException as fault:
            self.say(f"stopped after {time.monotonic() - began:.1f} s: {type(fault).__name__}: {fault}")
            raise
        finally:
            warnings.showwarning = shown
        self.say(f"done in {time.monotonic() - began:.1f} s")
