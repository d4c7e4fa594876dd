"""Springs of an end are found; frames are fitted again from the other side only while that gains."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from midline3d.settings import Settings
from midline3d.tracking import mending
from midline3d.tracking.mending import KnownFrame, mended, springs


def test_springs_of_an_end() -> None:
    """An end that moves further than the body does, and not a body that moves as a whole, nor a gap."""
    count = 8
    middle = np.cumsum(np.full((count, 3), 0.1), axis=0)
    side = np.array([0.5, 0.0, 0.0])
    ends = np.stack([middle + side, middle - side], 1)
    ends[5:, 1] += [0, 0.4, 0]
    middle[2], ends[2] = np.nan, np.nan
    assert springs(ends, middle, 1.0, 0.05).tolist() == [4]
    assert springs(ends, middle, 10.0, 0.05).tolist() == []


@dataclass(frozen=True)
class _Fit:
    state: Any
    energy: float


def test_mending_goes_on_while_it_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames 2 to 4 were caught; the spring is from 4 to 5, and frame 1 was right before."""
    right = dict.fromkeys(range(8), 10.0)
    stored = right | {2: 14.0, 3: 15.0, 4: 16.0}
    asked = []

    def from_there(beginning: Any, frame: int, start: Any) -> Any:
        source, state = start
        asked.append((source, frame))
        verdict = SimpleNamespace(status="ok", reason="")
        # From a right neighbour a frame comes out right, from a caught one it is caught.
        energy = right[frame] if state == "right" else stored[frame]
        return SimpleNamespace(fit=_Fit("right" if energy == right[frame] else "caught", energy), verdict=verdict)

    monkeypatch.setattr(mending, "fitted_from", from_there)
    monkeypatch.setattr(mending, "outcome", lambda clip, frame, found: (frame, found.fit.energy))

    def read(frame: int) -> KnownFrame:
        return KnownFrame("right" if stored[frame] == right[frame] else "caught", stored[frame], "ok")  # type: ignore[arg-type]

    class Clip(list[int]):
        settings = Settings()

        def carried(self, state: Any, old: int, new: int) -> Any:
            return old, state

    beginning = SimpleNamespace(clip=Clip(range(8)))
    better = list(mended(beginning, [4], read))  # type: ignore[arg-type]
    assert better == [(4, 10.0), (3, 10.0), (2, 10.0)]
    assert asked[:4] == [(5, 4), (4, 3), (3, 2), (2, 1)]
    assert (4, 5) in asked and (5, 6) not in asked
