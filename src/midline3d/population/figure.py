"""One picture of a benchmark: how errors are spread, which families they come from, what the confidence is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from midline3d.files import aside
from midline3d.population.coverage import DIRECTIONS, REGIONS
from midline3d.population.summary import GOOD_ENDS, GOOD_MIDLINE, Summary, is_fair

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST, MOST = 0.02, 300.0
"""px: smaller and greater errors are drawn there."""


def draw_figure(summary: Summary, path: Path) -> None:
    """Draws the population into a PNG, PDF or SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(20, 8), layout="constrained")
    axes = figure.subplots(2, 4)
    _spread(axes[0, 0], summary)
    _signed(axes[0, 1], summary)
    _families(axes[1, 0], summary)
    _reliability(axes[1, 1], summary)
    _status(axes[0, 2], summary)
    _deviations(axes[1, 2], summary)
    _doubts(axes[0, 3], summary)
    axes[1, 3].axis("off")
    with aside(path) as part:
        figure.savefig(part, dpi=130)


def _spread(axes: Axes, summary: Summary) -> None:
    """Share of all recordings that are no farther off than so many px; those that failed never come."""
    for key, name, bar, colour in (
        ("midline_px", "midline", GOOD_MIDLINE, "tab:blue"),
        ("ends_px", "ends", GOOD_ENDS, "tab:orange"),
    ):
        values = np.sort(np.maximum(summary.values(key), LEAST))
        axes.step(
            values, 100 * np.arange(1, len(values) + 1) / len(summary.rows), where="post", color=colour, label=name
        )
        axes.axvline(bar, color=colour, linestyle=":", linewidth=1)
    axes.set(xscale="log", xlabel="mean error of a recording, px", ylabel="recordings, %")
    axes.set(xlim=(LEAST, MOST), ylim=(0, 100))
    axes.legend()
    axes.grid(alpha=0.3)


def _signed(axes: Axes, summary: Summary) -> None:
    """Each recording's ends along the body."""
    rows = [row for row in summary.done if row["head_px"] is not None]
    colours = ["tab:red" if row["swapped"] else "tab:green" if is_fair(row) else "0.6" for row in rows]
    axes.scatter([row["head_px"] for row in rows], [row["tail_px"] for row in rows], s=14, c=colours)
    axes.axhline(0, color="0.8", zorder=0)
    axes.axvline(0, color="0.8", zorder=0)
    axes.set_xscale("symlog", linthresh=2)
    axes.set_yscale("symlog", linthresh=2)
    ticks = (-100, -10, -2, 0, 2, 10, 100)
    axes.set_xticks(ticks, map(str, ticks))
    axes.set_yticks(ticks, map(str, ticks))
    axes.set(xlim=(-MOST, MOST), ylim=(-MOST, MOST))
    axes.set(xlabel="head, px beyond (+) or short (-)", ylabel="tail, px", title="red: exchanged; grey: small or faint")


def _families(axes: Axes, summary: Summary) -> None:
    """Every recording's midline by family; crosses failed."""
    names = summary.families
    for row in summary.rows:
        place = names.index(row.get("family", "not drawn"))
        if row["reason"] is not None or row["midline_px"] is None:
            axes.plot(place, MOST, "x", color="tab:red", markersize=6)
        else:
            colour = "tab:blue" if not row["hidden"] else "tab:red"
            axes.plot(place, max(row["midline_px"], LEAST), "o", color=colour, markersize=4)
    axes.axhline(GOOD_MIDLINE, color="0.6", linestyle=":")
    axes.set(yscale="log", ylabel="midline, px", title="red: wrong and called ok; crosses: failed")
    axes.set_ylim(LEAST, 1.3 * MOST)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right")


def _status(axes: Axes, summary: Summary) -> None:
    """Of every family: wrong frames that the status finds and those that it misses, and good frames called wrong."""
    names = summary.families
    sums = {name: [0, 0, 0] for name in names}
    for row in summary.done:
        own = sums[row["family"]]
        own[0] += row["wrong"] - row["hidden"]
        own[1] += row["hidden"]
        own[2] += row["alarms"]
    caught, hidden, alarms = np.array([sums[name] for name in names]).reshape(-1, 3).T
    place = np.arange(len(names))
    axes.bar(place, caught, color="tab:green", label=f"wrong, not ok: {caught.sum()}")
    axes.bar(place, hidden, bottom=caught, color="tab:red", label=f"wrong, ok: {hidden.sum()}")
    axes.bar(place, -alarms, color="0.6", label=f"good, not ok: {alarms.sum()}")
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set(ylabel="frames", title="what status said")
    axes.set_xticks(place, names, rotation=60, ha="right")
    axes.legend()


def _doubts(axes: Axes, summary: Summary) -> None:
    """Share of the frames that is wrong against their doubt, and how many frames that is."""
    bins = [one for one in summary.doubts() if one["frames"]]
    said = [max(one["doubt"] or 0, 5e-4) for one in bins]
    axes.plot([5e-4, 1], [5e-4, 1], color="0.8", zorder=0)
    axes.plot(said, [max(one["share_wrong"] or 0, 5e-4) for one in bins], "o-", color="tab:purple")
    for one, place in zip(bins, said, strict=True):
        axes.annotate(str(one["frames"]), (place, max(one["share_wrong"] or 0, 5e-4)), fontsize="small")
    axes.set(xscale="log", yscale="log", xlabel="doubt", ylabel="share of the frames that is wrong")
    axes.set(title="what the doubt is worth (numbers: frames)", xlim=(4e-4, 1.2), ylim=(4e-4, 1.2))
    axes.grid(alpha=0.3)


def _deviations(axes: Axes, summary: Summary) -> None:
    """Truth within the stated intervals against what they promise."""
    found = summary.coverage()
    axes.plot([40, 100], [40, 100], color="0.8", zorder=0)
    for region, colour in zip(REGIONS if found else (), ("tab:red", "tab:blue", "tab:orange"), strict=False):
        for name, style in zip(DIRECTIONS, ("o-", "s--"), strict=True):
            within = found[region][name]["within"]
            shares = np.array(list(within.values()))
            promised = [float(percent) for percent in within]
            errors = np.abs(shares[:, 1:] - shares[:, :1]).T
            axes.errorbar(promised, shares[:, 0], errors, fmt=style, color=colour, label=f"{region}, {name}", capsize=2)
    axes.set(xlabel="promised, %", ylabel="truth within, %", title="standard deviations", xlim=(45, 100), ylim=(0, 102))
    if found:
        axes.legend(fontsize="small")


def _reliability(axes: Axes, summary: Summary) -> None:
    """The error of points by their confidence."""
    bins = [one for one in summary.reliability() if one["points"]]
    middle = [0.5 * ((one["from"] or 0) + (one["to"] or 0)) for one in bins]
    axes.plot(middle, [max(one["error_px"] or 0, LEAST) for one in bins], "o-", label="mean error, px")
    axes.plot(middle, [max(one["share_off"] or 0, 1e-3) for one in bins], "s--", label="share that is 2 px off")
    axes.set(xlabel="confidence of a point", yscale="log", xlim=(0, 1))
    axes.legend()
    axes.grid(alpha=0.3)
