"""The paper's validation figure: clicks against midline along the body, mean and two standard deviations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from midline3d.evaluate.annotations import END, REGIONS, Along, AnnotationEvaluation
from midline3d.files import aside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WAYS = (("clicks_to_midline", "click to midline", "tab:orange"), ("midline_to_clicks", "midline to click", "tab:blue"))


def draw_annotations(found: AnnotationEvaluation, path: Path) -> None:
    """Draws the validation into a PNG, PDF or SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    body, ends = figure.subplots(1, 2, width_ratios=[2.4, 1])
    for along, (_, name, colour) in zip((found.from_clicks, found.from_midline), WAYS, strict=True):
        _curve(body, along, name, colour)
    for edge in (END, 1 - END):
        body.axvline(edge, color="0.7", linestyle=":", linewidth=1)
    body.set(xlim=(0, 1), xlabel="place along the body (0 head, 1 tail)", ylabel="distance, px")
    body.set_ylim(bottom=0)
    body.set_title(
        f"{len(found.images)} pictures, {len(found.clicks)} clicks; mean ± 2 standard deviations", fontsize=10
    )
    if body.get_legend_handles_labels()[0]:
        body.legend(frameon=False)
    _bars(ends, found)
    with aside(path) as part:
        figure.savefig(part, dpi=150)


def _curve(axes: Axes, along: Along, name: str, colour: str) -> None:
    there = along.count > 0
    if not there.any():
        return
    place, middle, two = along.place[there], along.mean[there], 2 * np.nan_to_num(along.std[there])
    axes.plot(place, middle, "o-", color=colour, markersize=3, label=name)
    axes.fill_between(place, np.maximum(middle - two, 0), middle + two, color=colour, alpha=0.2, linewidth=0)


def _bars(axes: Axes, found: AnnotationEvaluation) -> None:
    """The ends apart from the body."""
    regions = found.regions()
    for offset, (key, _, colour) in zip((-0.2, 0.2), WAYS, strict=True):
        means = [regions[region][f"{key}_px"] or 0.0 for region in REGIONS]
        two = [2 * (regions[region][f"{key}_std_px"] or 0.0) for region in REGIONS]
        down = [min(error, height) for error, height in zip(two, means, strict=True)]
        axes.bar(np.arange(3) + offset, means, 0.38, color=colour, yerr=[down, two], ecolor="0.4", capsize=2)
    axes.set_xticks(range(3), REGIONS)
    axes.set(ylabel="distance, px", title="ends apart")
    axes.title.set_fontsize(10)
