"""Figures as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]


def mean(values: Array) -> float | None:
    """Of those that are finite; None where none is."""
    good = values[np.isfinite(values)]
    return float(good.mean()) if good.size else None


def spread(values: Array) -> float | None:
    """Standard deviation of those that are finite; None where there are fewer than two."""
    good = values[np.isfinite(values)]
    return float(good.std(ddof=1)) if good.size > 1 else None


def text(value: float | None, unit: str) -> str:
    """A figure with its unit; a dash where there is none."""
    return "-" if value is None else f"{value:.2f} {unit}"


def table_of(title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], caption: str) -> Table:
    """A table whose first column names and whose others count."""
    from rich.table import Table

    table = Table(title=title, caption=caption)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left")
    for row in rows:
        table.add_row(*row)
    return table
