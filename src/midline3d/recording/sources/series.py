"""What the names of a folder's pictures say: their order, which file is none of them, and which frames are missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

FEW = 0.1
"""Share of a folder's files that may be no pictures of the series, for the others to be one."""
ODD_STEPS = 0.2
"""Share of the steps from name to name that may differ from the usual one, for the names to count frames."""
SHORTEST = 3
"""Names that make a series at least."""


def natural(path: Path) -> list[tuple[int, int | str]]:
    """A sorting key in which numbers count as numbers: img2 before img10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in _parts(path.name) if part]


def strays(paths: Sequence[Path]) -> list[Path]:
    """The few files beside a series of numbered pictures whose names do not follow it, such as background.png."""
    words = Counter(map(_words, paths))
    usual = max(words, key=words.__getitem__, default=())
    series = [path for path in paths if _words(path) == usual]
    others = [path for path in paths if _words(path) != usual]
    few = len(others) <= max(1, FEW * len(series))
    return others if few and len(series) >= SHORTEST and places(series) is not None else []


def places(paths: Sequence[Path]) -> list[int] | None:
    """Frame that each file's number says it is, the first being 0; None where the names do not count frames.

    They do where they differ by the last number that varies, and that steps by the same nearly always and else by
    some times as much. Time stamps and chosen frames do not.
    """
    if len(paths) < SHORTEST or len(set(map(_words, paths))) > 1:
        return None
    varying = [column for column in zip(*map(_numbers, paths), strict=True) if len(set(column)) > 1]
    steps = [after - before for before, after in pairwise(varying[-1])] if varying else [0]
    usual, regular = Counter(steps).most_common(1)[0]
    odd = len(steps) - regular
    if min(steps) < 1 or any(step % usual for step in steps) or odd > max(1, ODD_STEPS * len(steps)) or odd >= regular:
        return None
    found = list(accumulate((step // usual for step in steps), initial=0))
    # More missing than there are: a counter that was set, or two series, and no frames that were lost.
    return found if found[-1] < 2 * len(paths) else None


def _parts(name: str) -> list[str]:
    """Words and numbers by turns."""
    return re.split(r"(\d{1,4000})", name.lower())


def _words(path: Path) -> tuple[str, ...]:
    """What stands around the numbers of a name."""
    return (*_parts(path.stem)[::2], path.suffix.lower())


def _numbers(path: Path) -> list[int]:
    return [int(part) for part in _parts(path.stem)[1::2]]
