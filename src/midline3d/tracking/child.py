"""A process that is given tasks (see `worker`). Light to import, for those that hold many of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import midline3d

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Child:
    """A process that does one task after the other; it ends when this one does, whatever it is at."""

    def __init__(self, threads: int | None = None) -> None:
        """threads: cores that it may use; without it as many as this process may (OMP_NUM_THREADS)."""
        home = str(Path(midline3d.__file__).parents[1])
        paths = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
        # -P: a folder that happens to hold a torch.py is no place to import from.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from midline3d.tracking.worker import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | (dict.fromkeys(THREADS, str(threads)) if threads else {}) | {"PYTHONPATH": paths},
        )

    def given(self, content: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Gives it a task; what it tells. Where the last of that is no end, the process has died over it."""
        talk, hear = self._process.stdin, self._process.stdout
        assert talk is not None and hear is not None
        with suppress(OSError, ValueError):
            talk.write(json.dumps(content) + "\n")
            talk.flush()
            for line in hear:
                message = json.loads(line)
                yield message
                if "ended" in message or "fault" in message:
                    return

    def status(self) -> int:
        """With which it ended, once it has."""
        return self._process.wait()

    def end(self) -> None:
        """Whatever it is at: that can be gone on with."""
        self._process.kill()
        self._process.wait()
