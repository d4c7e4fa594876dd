"""The task of the process that runs one method on one recording; apart, so that giving it imports nothing else."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """What the process is to do."""

    recording: Path
    method: str
    out: Path
    """Folder of the result; `row.json` goes there."""
    frames: tuple[int, int] | None
    """First, and after the last; None: all."""
    seed: int = 0

    def command(self) -> list[str]:
        """How to run it."""
        facts = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
        return [sys.executable, "-m", "midline3d.rivals.one", json.dumps(facts)]

    @staticmethod
    def read(text: str) -> Task:
        facts = json.loads(text)
        frames = None if facts["frames"] is None else (facts["frames"][0], facts["frames"][1])
        return Task(Path(facts["recording"]), facts["method"], Path(facts["out"]), frames, facts["seed"])
