"""A preflight report as a picture: what was found in the views, and how it went over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from midline3d.files import aside
from midline3d.recording.check.looking import Seen
from midline3d.recording.description import Recording
from midline3d.recording.locating.places import ABSENT


def draw_report(recording: Recording, seen: Sequence[Seen], path: Path) -> None:
    """The views of one frame with what was found in them, and the course of error, focus and light."""
    from matplotlib.figure import Figure

    views = recording.views
    figure = Figure(figsize=(4 * len(views), 6.5), dpi=90, layout="constrained")
    grid = figure.add_gridspec(2, len(views), height_ratios=[2, 1])
    found = [one for one in seen if one.place.found]
    chosen = found[len(found) // 2] if found else None
    frame = chosen.sight.frame if chosen else recording.count // 2
    for index, view in enumerate(views):
        axes = figure.add_subplot(grid[0, index])
        picture = next(iter(view.source.read([frame + view.offset])))[1]
        if picture is not None:
            axes.imshow(picture, cmap="gray")
        axes.set_title(f"{view.name}, frame {frame}", fontsize=9)
        axes.set_axis_off()
        if chosen is not None:
            _mark(axes, chosen, index)
    _course(figure, grid[1, :], recording, seen)
    with aside(path) as part:
        figure.savefig(part)


def _mark(axes: Any, one: Seen, view: int) -> None:
    """Boxes around the candidates, the chosen one thick, and the common point."""
    from matplotlib.patches import Rectangle

    for index, (left, top, right, bottom) in enumerate(one.sight.seen[view].box):
        worm = index == one.place.choice[view]
        frame = Rectangle((left, top), right - left, bottom - top, fill=False)
        frame.set(edgecolor="tab:orange" if worm else "tab:blue", linewidth=1.5 if worm else 0.6)
        axes.add_patch(frame)
    axes.plot(*one.pixels[view], "+", color="tab:red", markersize=10)
    if one.place.choice[view] == ABSENT:
        axes.text(0.5, 0.02, "worm not seen here", color="tab:red", transform=axes.transAxes, ha="center", fontsize=8)


def _course(figure: Any, place: Any, recording: Recording, seen: Sequence[Seen]) -> None:
    """Error, focus and light over the recording."""
    grid = place.subgridspec(1, 3)
    frames = [one.sight.frame for one in seen]
    names = [view.name for view in recording.views]
    series = (
        ("distance of the views, px", [[one.place.residual] for one in seen], [""]),
        ("sharpness, 1/px", [one.sharpness for one in seen], names),
        ("light against the background", [one.sight.light for one in seen], names),
    )
    for index, (title, values, labels) in enumerate(series):
        axes = figure.add_subplot(grid[0, index])
        axes.set_title(title, fontsize=8)
        axes.tick_params(labelsize=7)
        if frames:
            lines = axes.plot(frames, np.array(values), ".-", linewidth=0.6, markersize=3)
            axes.set_xlabel("frame", fontsize=7)
            if len(labels) > 1:
                axes.legend(lines, labels, fontsize=6, frameon=False)
