"""Midlines of several methods under one renderer: how well each can be made to look like the pictures.

The paper's comparison: curve and cameras are fixed, only sigma, iota and rho of every view are fitted anew for each
method and frame, with no scores and no masks, and the pixel loss that is left is compared.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from midline3d.evaluate.words import mean, spread, table_of
from midline3d.files import write_whole
from midline3d.reading import number_of

if TYPE_CHECKING:
    from rich.table import Table

Array = NDArray[np.float64]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Comparison:
    """Pixel losses of several methods, frame by frame."""

    frames: NDArray[np.int64]
    """(frame,) numbers in the recording."""
    losses: Mapping[str, Array]
    """By the method's name, the reference first: (frame,) L_px, the mean squared difference of render and image with
    the body's middle as 1; NaN where the method has no midline."""
    window: int
    """Frames of a moving average: about a second."""

    @property
    def reference(self) -> str:
        return next(iter(self.losses))

    def moving(self, name: str) -> tuple[Array, Array]:
        """(frame,) moving average of a method's loss, and its standard deviation in the same window."""
        loss = self.losses[name]
        half = self.window // 2
        windows = [loss[max(0, index - half) : index + half + 1] for index in range(len(loss))]
        pairs = [(mean(each), spread(each)) for each in windows]
        found = np.array(pairs, dtype=np.float64)
        found[np.isnan(loss)] = np.nan
        return found[:, 0], found[:, 1]

    def summary(self) -> dict[str, Any]:
        """The figures, ready for JSON; a method is held against the reference where both have a midline."""
        ours = self.losses[self.reference]
        methods = {}
        for name, loss in self.losses.items():
            both = np.isfinite(loss) & np.isfinite(ours)
            base = mean(ours[both])
            methods[name] = {
                "frames": int(np.isfinite(loss).sum()),
                "recovered": float(np.isfinite(loss).mean()),
                "loss": mean(loss),
                "loss_std": spread(loss),
                "common_frames": int(both.sum()),
                "ratio": None if not base else float(loss[both].mean() / base),
                "reference_better": float((ours[both] < loss[both]).mean()) if both.any() else None,
            }
        return {"frames": len(self.frames), "reference": self.reference, "window": self.window, "methods": methods}

    def table(self) -> Table:
        """The figures for people."""
        rows = []
        for name, figures in self.summary()["methods"].items():
            loss = "-" if figures["loss"] is None else f"{1e3 * figures['loss']:.2f}"
            std = "" if figures["loss_std"] is None else f" ({1e3 * figures['loss_std']:.2f})"
            ratio = "-" if figures["ratio"] is None else f"{figures['ratio']:.2f}"
            better = "" if name == self.reference or figures["reference_better"] is None else (
                f"{figures['reference_better']:.0%}")  # fmt: skip
            rows.append((name, f"{figures['recovered']:.1%}", loss + std, ratio, better))
        columns = ("method", "frames with a midline", "loss x 1000 (std)", "ratio", f"{self.reference} lower in")
        caption = "mean squared difference of render and image; ratio over frames that both have"
        return table_of(f"Pixel losses over {number_of(len(self.frames), 'frame')}", columns, rows, caption)

    def write_table(self, path: Path) -> None:
        """Every frame's losses as CSV, their moving averages and standard deviations beside them."""
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        names = [f"{name}{part}" for name in self.losses for part in ("", "_moving", "_moving_std")]
        table.writerow(["frame", *names])
        columns = [column for name, loss in self.losses.items() for column in (loss, *self.moving(name))]
        for index, frame in enumerate(self.frames):
            values = [column[index] for column in columns]
            table.writerow([int(frame), *("" if np.isnan(value) else f"{value:.8g}" for value in values)])
        write_whole(path, out.getvalue().encode())
