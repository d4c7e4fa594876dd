"""Pictures of a course of limits: errors against levels, a panel for every nuisance; and how it looks where it ends."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from midline3d.files import aside
from midline3d.limits.table import Limits, Row
from midline3d.population.score import WRONG_MIDLINE
from midline3d.population.worst import Shot
from midline3d.synth import Ladder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST, MOST = 0.03, 100.0
"""px: smaller and greater errors are drawn there."""
ACROSS = 4
"""Panels beside one another."""
FOUND, TRUE = "#ff7b3f", "#35c4ff"


def draw_limits(limits: Limits, path: Path) -> None:
    """Draws all nuisances into a PNG: errors of the single recordings and their mean, and what share is not ok."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(limits.ladders) / ACROSS)
    across = min(ACROSS, len(limits.ladders))
    figure = Figure(figsize=(4.4 * across, 3.7 * rows + 0.3), layout="constrained")
    panels = figure.subplots(rows, across, squeeze=False).ravel()
    for panel, nuisance in zip(panels, limits.ladders, strict=False):
        _panel(panel, limits, nuisance)
    for panel in panels[len(limits.ladders) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    with aside(path) as part:
        figure.savefig(part, dpi=120)


def _panel(axes: Axes, limits: Limits, nuisance: str) -> None:
    """Levels evenly spaced, from easy to hard."""
    ladder, levels = limits.ladders[nuisance], limits.levels(nuisance)
    place = {level: index for index, level in enumerate(ladder.levels)}
    at = [place[one["level"]] for one in levels]
    shares = axes.twinx()
    for key, colour, shift, label in (
        ("not_ok", "0.80", -0.16, "not called ok, %"),
        ("wrong_or_lost", "#e9a3a3", 0.16, "wrong or lost, %"),
    ):
        values = [_share(one, key) for one in levels]
        shares.bar([x + shift for x in at], values, width=0.32, color=colour, zorder=0)
        axes.plot([], [], "s", color=colour, label=label)
    shares.set(ylim=(0, 100), ylabel="frames, %")
    axes.set_zorder(shares.get_zorder() + 1)
    axes.patch.set_visible(False)
    for key, colour, name in (("midline_px", "tab:blue", "midline, px"), ("ends_px", "tab:orange", "ends, px")):
        dots = [
            (place[row.level], float(np.clip(row.figures[key], LEAST, MOST)))
            for row in limits.rows
            if row.nuisance == nuisance and not row.failed and row.figures[key] is not None
        ]
        axes.plot(*np.array(dots).reshape(-1, 2).T, "o", color=colour, markersize=3, alpha=0.5)
        means = [np.nan if one[key] is None else float(np.clip(one[key], LEAST, MOST)) for one in levels]
        axes.plot(at, means, "-", color=colour, label=name)
    axes.axhline(WRONG_MIDLINE, color="tab:blue", linestyle=":", linewidth=0.8)
    axes.set(yscale="log", ylim=(LEAST, MOST), xlabel=ladder.unit, ylabel="mean error, px", title=nuisance)
    axes.set_xticks(range(len(ladder.levels)), [f"{level:g}" for level in ladder.levels])
    axes.set_xlim(-0.6, len(ladder.levels) - 0.4)


def _share(one: dict[str, float], key: str) -> float:
    if not one["frames"]:
        return 0.0
    return 100 * (one["not_ok"] if key == "not_ok" else (one["wrong"] + one["lost"]) / one["frames"])


def draw_failure(row: Row, ladder: Ladder, shot: Shot, breaks: bool, path: Path) -> None:
    """Draws one frame's views as they were seen, and below with both midlines; says what `status` said."""
    from matplotlib.figure import Figure

    views = len(shot.pictures)
    figure = Figure(figsize=(2.6 * views, 6.0), layout="constrained")
    panels = figure.subplots(2, views, squeeze=False)
    for view in range(views):
        low, high = np.percentile(shot.pictures[view], (0.5, 99.5))
        for panel in panels[:, view]:
            panel.imshow(shot.pictures[view], cmap="gray", vmin=low, vmax=max(high, low + 1), interpolation="nearest")
            panel.set_axis_off()
        size = shot.pictures.shape[-1] - 0.5
        below = panels[1, view]
        below.plot(*shot.true[view].T, color=TRUE, linewidth=1.6, label="truth")
        found = np.isfinite(shot.seen[view]).any()
        below.plot(*shot.seen[view].T, color=FOUND, linewidth=1.2, label="found" if found else None)
        below.plot(*shot.seen[view, 0], "o", color=FOUND, markersize=4)
        below.set(xlim=(-0.5, size), ylim=(size, -0.5))
    panels[1, 0].legend(loc="lower left", fontsize="x-small", framealpha=0.6)
    figure.suptitle(_words(row, ladder, shot, breaks), fontsize=10)
    with aside(path) as part:
        figure.savefig(part, dpi=110)


def _words(row: Row, ladder: Ladder, shot: Shot, breaks: bool) -> str:
    first = f"{row.nuisance}: {row.level:g} {ladder.unit}" + ("" if breaks else " (holds)")
    said = f"frame {shot.frame}, status {shot.status}" + (f" ({shot.reason})" if shot.reason else "")
    off = "" if np.isnan(shot.midline_px) else f"midline {shot.midline_px:.1f} px off, worse end {shot.ends_px:.1f} px"
    return "\n".join(line for part in (first, said, off) for line in textwrap.wrap(part, 70))
