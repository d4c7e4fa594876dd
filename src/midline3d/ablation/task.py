"""The task that the process of one variant is given; apart from it, so that whoever gives it need not import it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """What the process is to do."""

    recording: Path
    out: Path
    """Folder of the variant's result; `row.json` goes there."""
    settings: Path
    crops: Path
    frames: tuple[int, int] | None
    seed: int

    def command(self) -> list[str]:
        """How to run it."""
        facts = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
        return [sys.executable, "-m", "midline3d.ablation.one", json.dumps(facts)]

    @staticmethod
    def read(text: str) -> Task:
        facts = json.loads(text)
        paths = {name: Path(facts[name]) for name in ("recording", "out", "settings", "crops")}
        frames = None if facts["frames"] is None else (facts["frames"][0], facts["frames"][1])
        return Task(**paths, frames=frames, seed=facts["seed"])
