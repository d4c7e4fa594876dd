"""What a population of recordings comes to: distributions, families, reliability of the confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from midline3d.population.coverage import DIRECTIONS, REGIONS, WITHIN, pooled
from midline3d.population.score import BINS, DOUBTS
from midline3d.reading import number_of

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]
Row = dict[str, Any]

LONG_ENOUGH = 60.0
"""px: a worm that is shorter in the picture is not held against the goals."""
CLEAR_ENOUGH = 5.0
"""Contrast over noise: so is one that is fainter."""
GOOD_MIDLINE, GOOD_ENDS = 0.3, 2.0
"""px, a recording's means."""
FIGURES = {
    "midline_px": ("midline", "px"),
    "head_px": ("head, + beyond", "px"),
    "tail_px": ("tail, + beyond", "px"),
    "ends_px": ("ends", "px"),
    "length_percent": ("length", "%"),
    "lost": ("lost frames", ""),
    "hidden": ("wrong frames called ok", ""),
    "alarms": ("false alarms", ""),
    "seconds": ("time", "s"),
}
"""Key, name and unit of what the table says."""


@dataclass(frozen=True)
class Summary:
    """All rows, and what they come to."""

    rows: tuple[Row, ...]

    @property
    def done(self) -> list[Row]:
        """Recordings that were reconstructed."""
        return [row for row in self.rows if row["reason"] is None]

    @property
    def failed(self) -> list[Row]:
        return [row for row in self.rows if row["reason"] is not None]

    def values(self, key: str) -> Array:
        """One figure of every recording that has it."""
        return np.array([row[key] for row in self.done if row[key] is not None], dtype=np.float64)

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "recordings": len(self.rows),
            "failed": {str(row["seed"]): row["reason"] for row in self.failed},
            "swapped": sum(row["swapped"] for row in self.done),
            "frames": int(sum(row["frames"] for row in self.done)),
            "figures": {key: spread(self.values(key)) for key in FIGURES},
            "goal": self.goal(),
            "families": {name: self.family(name) for name in self.families},
            "reliability": self.reliability(),
            "doubts": self.doubts(),
            "coverage": self.coverage(),
            "rows": [dict(row) for row in self.rows],
        }

    def goal(self) -> dict[str, Any]:
        """Recordings that ought to come out right, and those that did."""
        fair = [row for row in self.rows if "length_px" in row and is_fair(row)]
        right = [row for row in fair if is_right(row)]
        return {"fair": len(fair), "right": len(right), "share": len(right) / len(fair) if fair else None}

    @property
    def families(self) -> list[str]:
        """In the order in which they come."""
        return list(dict.fromkeys(row.get("family", "not drawn") for row in self.rows))

    def family(self, name: str) -> dict[str, Any]:
        """One family's figures."""
        rows = [row for row in self.rows if row.get("family", "not drawn") == name]
        own = Summary(tuple(rows))
        found: dict[str, Any] = {key: _middle(own.values(key)) for key in ("midline_px", "ends_px", "seconds")}
        found |= {key: int(own.values(key).sum()) for key in ("lost", "hidden", "alarms")}
        swapped = sum(row["swapped"] for row in own.done)
        return {"recordings": len(rows), "failed": len(own.failed), "swapped": swapped, **found, **own.goal()}

    def reliability(self) -> list[dict[str, float | None]]:
        """For each bin of the confidence: points, their mean error, and the share of them that is 2 px off or more."""
        total = sum((np.array(row["reliability"]) for row in self.done), np.zeros((BINS, 3)))
        return [
            {
                "from": index / BINS,
                "to": (index + 1) / BINS,
                "points": int(count),
                "error_px": float(error / count) if count else None,
                "share_off": float(off / count) if count else None,
            }
            for index, (count, error, off) in enumerate(total)
        ]

    def doubts(self) -> list[dict[str, float | None]]:
        """For each bin of the doubt: frames, their mean doubt, and the share of them that is wrong."""
        bins = len(DOUBTS) - 1
        total = sum((np.array(row["doubts"]) for row in self.done if "doubts" in row), np.zeros((bins, 3)))
        return [
            {
                "from": DOUBTS[index],
                "to": DOUBTS[index + 1],
                "frames": int(count),
                "doubt": float(thousandths / count / 1000) if count else None,
                "share_wrong": float(wrong / count) if count else None,
            }
            for index, (count, wrong, thousandths) in enumerate(total)
        ]

    def coverage(self) -> dict[str, dict[str, dict[str, Any]]]:
        """How the stated standard deviations hold, by region and direction (see `population.coverage`)."""
        return pooled([row["coverage"] for row in self.done if row.get("coverage") is not None])

    def tables(self) -> list[Table]:
        """The figures for people."""
        return [self._distributions(), self._by_family(), self._confidence(), self._doubt(), self._deviations()]

    def _distributions(self) -> Table:
        all_of_it, goal = self.as_dict(), self.goal()
        rows = []
        for key, (name, unit) in FIGURES.items():
            found = all_of_it["figures"][key]
            rows.append((name, *(_text(found[part], unit) for part in ("median", "p90", "worst"))))
        share = "none" if goal["share"] is None else f"{goal['right']} of {goal['fair']} ({goal['share']:.0%})"
        lines = [
            f"{all_of_it['swapped']} recordings with head and tail exchanged, {len(self.failed)} not reconstructed; "
            f"midline within {GOOD_MIDLINE} px and ends within {GOOD_ENDS:g} px: {share} of those with a worm of "
            f"{LONG_ENOUGH:g} px or more and a contrast of {CLEAR_ENOUGH:g} times the noise",
            *(f"{row['seed']} ({row.get('family', 'not drawn')}): {row['reason']}" for row in self.failed),
        ]
        title = f"{number_of(len(self.rows), 'recording')}, {number_of(all_of_it['frames'], 'frame')}"
        return _table(title, ("of the recordings", "median", "90th percentile", "worst"), rows, "\n".join(lines))

    def _by_family(self) -> Table:
        rows = []
        for name in self.families:
            own = self.family(name)
            counts = [str(own[key]) for key in ("recordings", "failed", "swapped", "lost", "hidden", "alarms")]
            right = f"{own['right']}/{own['fair']}"
            rows.append((name, _text(own["midline_px"], ""), _text(own["ends_px"], ""), *counts, right))
        names = ("family", "midline", "ends", "all", "failed", "swap", "lost", "hidden", "alarm", "right")
        return _table("By family: medians in px, sums of frames", names, rows, "")

    def _confidence(self) -> Table:
        rows = []
        for one in self.reliability():
            off = "-" if one["share_off"] is None else f"{one['share_off']:.1%}"
            rows.append(
                (f"{one['from']:.1f} to {one['to']:.1f}", str(one["points"]), _text(one["error_px"], "px"), off)
            )
        return _table("What the confidence is worth", ("confidence", "points", "mean error", "2 px off"), rows, "")

    def _doubt(self) -> Table:
        rows = []
        for one in self.doubts():
            shares = ("-" if one[key] is None else f"{one[key]:.1%}" for key in ("doubt", "share_wrong"))
            rows.append((f"{one['from']:g} to {one['to']:g}", str(one["frames"]), *shares))
        return _table("What the doubt is worth", ("doubt", "frames", "mean doubt", "wrong"), rows, "")

    def _deviations(self) -> Table:
        found, rows = self.coverage(), []
        for region in REGIONS if found else ():
            for name in DIRECTIONS:
                one = found[region][name]
                shares = (f"{share:.0f} ({low:.0f} to {high:.0f}) %" for share, low, high in one["within"].values())
                rows.append((f"{region}, {name}", f"{one['mean_z2']:.2f}", *shares))
        names = ("what the deviations are worth", "mean z^2", *(f"{percent} %" for percent in WITHIN))
        return _table("Truth within the stated intervals (95 % interval over recordings)", names, rows, "")


def is_fair(row: Row) -> bool:
    """Whether a recording is held against the goals."""
    return bool(row["length_px"] >= LONG_ENOUGH and row["contrast"] >= CLEAR_ENOUGH * row["noise"])


def is_right(row: Row) -> bool:
    """Whether a recording reached them."""
    if row["reason"] is not None or row["midline_px"] is None:
        return False
    return bool(row["midline_px"] <= GOOD_MIDLINE and row["ends_px"] <= GOOD_ENDS and not row["swapped"])


def spread(values: Array) -> dict[str, float | None]:
    """Median, 90th percentile of the size, and the value of the greatest size; the percentile alone has no sign."""
    if not len(values):
        return {"median": None, "p90": None, "worst": None}
    return {
        "median": float(np.median(values)),
        "p90": float(np.percentile(np.abs(values), 90)),
        "worst": float(values[np.abs(values).argmax()]),
    }


def _middle(values: Array) -> float | None:
    return float(np.median(values)) if len(values) else None


def _text(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.2f} {unit}".strip()


def _table(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str) -> Table:
    from rich.table import Table

    table = Table(title=title, caption=caption or None)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table
