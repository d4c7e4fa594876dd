"""What a course of limits comes to: for every nuisance and level the errors, and what `status` said of them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from midline3d.evaluate.words import table_of
from midline3d.synth import Ladder

if TYPE_CHECKING:
    from rich.table import Table

BREAKS = 0.1
"""The method breaks at the first level at which more than this share of the frames is wrong or lost."""


@dataclass(frozen=True)
class Row:
    """One recording of the course."""

    name: str
    nuisance: str
    level: float
    frames: int
    """Asked for: those of a recording that failed are lost."""
    figures: dict[str, Any]
    """As `population` scores it; with a `reason` where it failed."""

    @property
    def failed(self) -> bool:
        return self.figures["reason"] is not None

    def count(self, key: str) -> int:
        """Frames that are `wrong`, `hidden`, `alarms`, `lost` or `clear`."""
        if self.failed:
            return self.frames if key in ("lost", "clear") else 0
        return int(self.figures[key])


@dataclass(frozen=True)
class Limits:
    """All rows, and what they come to."""

    ladders: dict[str, Ladder]
    rows: tuple[Row, ...]
    asked: int
    """Recordings of the whole course; fewer rows where time ran out."""

    def levels(self, nuisance: str) -> list[dict[str, Any]]:
        """The figures of every level that has a row, from easy to hard."""
        found = []
        for level in self.ladders[nuisance].levels:
            rows = [row for row in self.rows if row.nuisance == nuisance and row.level == level]
            if rows:
                found.append({"nuisance": nuisance, "level": level, **_figures(rows)})
        return found

    def breaks_at(self, nuisance: str) -> float | None:
        """The first level at which it breaks (see `BREAKS`); None where it holds."""
        for one in self.levels(nuisance):
            if one["wrong"] + one["lost"] > BREAKS * one["frames"]:
                return float(one["level"])
        return None

    def figures(self) -> list[dict[str, Any]]:
        """A row for every level of every nuisance, ready for JSON."""
        return [one for nuisance in self.ladders for one in self.levels(nuisance)]

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "recordings": len(self.rows),
            "asked": self.asked,
            "breaks_at": {name: self.breaks_at(name) for name in self.ladders},
            "units": {name: ladder.unit for name, ladder in self.ladders.items()},
            "levels": self.figures(),
            "rows": [
                {"name": row.name, "nuisance": row.nuisance, "level": row.level, **row.figures} for row in self.rows
            ],
        }

    def csv(self) -> str:
        """The levels as a table with a line of names."""
        text, rows = io.StringIO(), self.figures()
        table = csv.DictWriter(text, ["nuisance", "level", *FIGURES], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        return text.getvalue()

    def table(self) -> Table:
        """The levels for people."""
        rows = []
        for nuisance, ladder in self.ladders.items():
            for index, one in enumerate(self.levels(nuisance)):
                name = f"{nuisance} ({ladder.unit})" if index == 0 else ""
                errors = (_text(one["midline_px"]), _text(one["ends_px"]))
                counts = (str(one[key]) for key in ("frames", "wrong", "hidden", "alarms", "lost", "failed"))
                mark = "breaks" if one["level"] == self.breaks_at(nuisance) else ""
                rows.append((name, f"{one['level']:g}", *errors, *counts, mark))
        columns = (
            "nuisance",
            "level",
            "midline px",
            "ends px",
            "frames",
            "wrong",
            "hidden",
            "alarms",
            "lost",
            "failed",
        )
        caption = (
            f"{len(self.rows)} of {self.asked} recordings. wrong: 2 px off at the midline or 8 px at an end; hidden: "
            "wrong and called ok; alarms: right and not called ok; failed: recordings without a result, whose frames "
            f"are lost; breaks: more than {BREAKS:.0%} of the frames wrong or lost"
        )
        return table_of("Where it breaks", (*columns, ""), rows, caption)


FIGURES = (
    "recordings", "failed", "frames", "midline_px", "worst_midline_px", "ends_px", "wrong", "hidden", "alarms", "lost",
    "not_ok",
)  # fmt: skip
"""Of a level, in the table's order."""


def _figures(rows: list[Row]) -> dict[str, Any]:
    """Mean errors over the recordings, sums of frames; not_ok is the share of frames that are not called ok."""
    sums = {key: sum(row.count(key) for row in rows) for key in ("wrong", "hidden", "alarms", "lost", "clear")}
    frames = sums.pop("clear")
    figures: dict[str, Any] = {"recordings": len(rows), "failed": sum(row.failed for row in rows), "frames": frames}
    for key, merge in (("midline_px", np.mean), ("worst_midline_px", np.max), ("ends_px", np.mean)):
        values = [row.figures[key] for row in rows if not row.failed and row.figures[key] is not None]
        figures[key] = float(merge(values)) if values else None
    called = sums["wrong"] - sums["hidden"] + sums["alarms"] + sums["lost"]
    return figures | sums | {"not_ok": called / frames if frames else None}


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
