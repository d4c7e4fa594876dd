"""Draws what benchmarks/gpu_tracking.py has measured: frames a second against the ways followed at once.

    python3 benchmarks/plot_batches.py docs/speed-h200.json docs/speed-h200.png

A point is a run; the lines are their means, and the goals.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

PAPER = 440_000
"""Frames of the paper's data set."""
GOALS = {
    "one recording: 100": 100,
    "440,000 frames in 5 min: 1467": PAPER / 300,
    "440,000 frames in 1 min: 7333": PAPER / 60,
}
"""frames/s."""


def draw(results: dict, path: Path) -> None:
    rates: dict[int, list[float]] = defaultdict(list)
    for row in results["alone"] + results["batches"]:
        rates[row["slots"]].append(row["frames_per_s"])
    slots = sorted(rates)
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(slots, [np.mean(rates[count]) for count in slots], "-", color="tab:blue")
    for count in slots:
        axes.plot([count] * len(rates[count]), rates[count], "o", color="tab:blue", markersize=4)
    for name, rate in GOALS.items():
        axes.axhline(rate, color="0.5", linestyle="--", linewidth=1)
        axes.annotate(name, (slots[0], rate), ha="left", va="bottom", color="0.35", fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="ways through clips, followed at once", ylabel="frames a second")
    axes.set_xticks(slots, [str(count) for count in slots])
    axes.minorticks_off()
    axes.set_ylim(60, 30_000)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    draw(json.loads(source.read_text(encoding="utf-8")), target)
