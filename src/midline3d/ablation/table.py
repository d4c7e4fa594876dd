"""The ablation's table: every variant against the whole method that it is a part of."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midline3d.ablation.variants import Variant
from midline3d.evaluate.words import mean, spread, table_of
from midline3d.files import write_whole

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Ablation:
    """Rows of variants that were run."""

    variants: tuple[Variant, ...]
    rows: dict[str, dict[str, Any]]
    """By the variant's name, as `one` leaves them."""

    def figures(self) -> list[dict[str, Any]]:
        """A row for every variant, ready for JSON. The ratio is taken over frames that both have."""
        found = []
        for variant in self.variants:
            row, whole = self.rows[variant.name], self.rows.get(variant.reference)
            losses = np.array(row.get("losses") or [], dtype=np.float64)
            figures = {
                "variant": variant.name,
                "without": variant.without,
                "frames": int(np.isfinite(losses).sum()),
                "loss": mean(losses),
                "loss_std": spread(losses),
                "ratio": _ratio(losses, whole),
                "published_ratio": variant.published,
            }
            figures |= {name: row.get(name) for name in ("midline_px", "ends_px", "lost", "seconds", "reason")}
            found.append(figures)
        return found

    def table(self) -> Table:
        """The figures for people."""
        rows = []
        for row in self.figures():
            cells = [
                row["variant"],
                row["without"] or "(whole)",
                _number(row["loss"], 1e3),
                _number(row["loss_std"], 1e3),
            ]
            cells += [_number(row[name]) for name in ("ratio", "published_ratio", "midline_px", "ends_px")]
            rows.append((*cells, "-" if row["lost"] is None else str(row["lost"]), row["reason"] or ""))
        columns = ("variant", "without", "loss x 1000", "std", "ratio", "paper's", "midline px", "ends px", "lost", "")
        caption = "loss: mean squared difference of render and image; ends either way round"
        return table_of("Ablation", columns, rows, caption)

    def write(self, out: Path) -> None:
        """table.csv and summary.json into a folder."""
        rows, text = self.figures(), io.StringIO()
        table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_whole(out / "table.csv", text.getvalue().encode())


def _ratio(losses: np.ndarray, whole: dict[str, Any] | None) -> float | None:
    base = np.array((whole or {}).get("losses") or [], dtype=np.float64)
    if not len(losses) or len(base) != len(losses):
        return None
    both = np.isfinite(losses) & np.isfinite(base)
    return float(losses[both].mean() / base[both].mean()) if both.any() else None


def _number(value: float | None, times: float = 1.0) -> str:
    return "-" if value is None else f"{times * value:.2f}"
