"""The contest's tables: one for every condition, a row for every method."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from midline3d.evaluate.words import table_of

if TYPE_CHECKING:
    from rich.table import Table

FIGURES = (
    "recordings", "failed", "frames", "midline_px", "midline_p90_px", "midline_worst_px", "ends_px", "right_percent",
    "lost", "seconds_per_frame",
)  # fmt: skip
"""Of a method in a condition, in the table's order."""


@dataclass(frozen=True)
class Entry:
    """One method on one recording."""

    condition: str
    recording: str
    method: str
    row: dict[str, Any]
    """As `one` leaves it; `frames` and a `reason` alone where it failed."""


@dataclass(frozen=True)
class Standing:
    """All runs, and what they come to."""

    entries: tuple[Entry, ...]
    methods: tuple[str, ...]
    asked: int
    """Runs of the whole contest; fewer entries where time ran out."""

    @property
    def conditions(self) -> list[str]:
        """In the order in which their recordings were given."""
        return list(dict.fromkeys(entry.condition for entry in self.entries))

    def figures(self) -> list[dict[str, Any]]:
        """A row for every method in every condition, ready for JSON; errors over all frames that have a midline."""
        found = []
        for condition in self.conditions:
            for method in self.methods:
                rows = [one.row for one in self.entries if (one.condition, one.method) == (condition, method)]
                if rows:
                    found.append({"condition": condition, "method": method, **_figures(rows)})
        return found

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        runs = [{"recording": one.recording, "method": one.method, **one.row} for one in self.entries]
        return {"runs": len(self.entries), "asked": self.asked, "table": self.figures(), "rows": runs}

    def csv(self) -> str:
        """All conditions as a table with a line of names."""
        text = io.StringIO()
        table = csv.DictWriter(text, ["condition", "method", *FIGURES], lineterminator="\n")
        table.writeheader()
        table.writerows(self.figures())
        return text.getvalue()

    def tables(self) -> list[Table]:
        """One for every condition, for people."""
        columns = ("method", "midline", "90 %", "worst", "ends", "right", "lost", "frames", "s/frame")
        figures, tables = self.figures(), []
        for condition in self.conditions:
            rows = []
            for one in figures:
                if one["condition"] == condition:
                    names = ("midline_px", "midline_p90_px", "midline_worst_px", "ends_px")
                    right = "-" if one["right_percent"] is None else f"{one['right_percent']:.0f} %"
                    counts = (right, str(one["lost"]), str(one["frames"]), _text(one["seconds_per_frame"]))
                    rows.append((one["method"], *(_text(one[name]) for name in names), *counts))
            caption = "\n".join(
                f"{one.recording}, {one.method}: {one.row['reason']}"
                for one in self.entries
                if one.condition == condition and one.row["reason"] is not None
            )
            tables.append(table_of(f"{condition}: errors in px", columns, rows, caption))
        return tables


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median, 90th percentile and worst of the frames' midlines, median of their ends; right: within 2 px at the
    midline and 8 px at both ends, of all frames that two views show. A run that failed has lost all of them."""
    done = [row for row in rows if row["reason"] is None]
    frames = sum(row["frames"] for row in rows)
    seen = sum(row["frames"] for row in done)
    right = sum(row["right"] for row in done)
    midline, ends = (np.concatenate([np.zeros(0), *(row[key] for row in done)]) for key in ("midline", "ends"))
    return {
        "recordings": len(rows),
        "failed": len(rows) - len(done),
        "frames": frames,
        "midline_px": _percentile(midline, 50),
        "midline_p90_px": _percentile(midline, 90),
        "midline_worst_px": _percentile(midline, 100),
        "ends_px": _percentile(ends, 50),
        "right_percent": 100 * right / frames if frames else None,
        "lost": sum(row["lost"] for row in done) + frames - seen,
        "seconds_per_frame": sum(row["seconds"] for row in done) / seen if seen else None,
    }


def _percentile(values: NDArray[np.float64], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if len(values) else None


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
