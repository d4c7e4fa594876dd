"""The paper's figure of a comparison: each method's loss over time, as moving average and two standard deviations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from midline3d.evaluate.comparison import Comparison
from midline3d.files import aside


def draw_comparison(found: Comparison, path: Path) -> None:
    """Draws a comparison into a PNG, PDF or SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes, whole = figure.subplots(1, 2, width_ratios=[3, 1], sharey=True)
    for index, (name, loss) in enumerate(found.losses.items()):
        colour = f"C{index}"
        middle, std = (1e3 * values for values in found.moving(name))
        two = 2 * np.nan_to_num(std)
        axes.plot(found.frames, middle, color=colour, linewidth=1.3, label=name)
        axes.fill_between(
            found.frames, np.maximum(middle - two, 0), middle + two, color=colour, alpha=0.15, linewidth=0
        )
        good = 1e3 * loss[np.isfinite(loss)]
        if good.size:
            whole.boxplot(good, positions=[index], widths=0.6, showfliers=False, medianprops={"color": colour})
    axes.set(xlabel="frame", ylabel="pixel loss x 1000", title=f"moving average of {found.window} frames ± 2 std")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, ncols=3, fontsize=8)
    whole.set_xticks(range(len(found.losses)), list(found.losses), rotation=40, ha="right")
    whole.set_title("all frames")
    with aside(path) as part:
        figure.savefig(part, dpi=150)
