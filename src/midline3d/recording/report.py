"""A preflight report for people: its text and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midline3d.recording.locating import ABSENT

if TYPE_CHECKING:
    from midline3d.recording.check import Report


def report_text(report: Report) -> str:
    """The facts in a table, the findings as sentences, the verdict last."""
    facts = report.facts
    lines = [f"{facts['name']}: {facts['frames']} frames at {facts['fps']:g} a second, {len(facts['cameras'])} cameras"]
    lines += ["", *_table(facts["cameras"])]
    lines += ["contrast: the worm over the noise; focus: steepest slope, 1/px; lag: frames behind the others", ""]
    if "worm" in facts:
        worm = facts["worm"]
        lines += [
            f"worm: {worm['side']}, found in {worm['found']:.1%} of {facts['looked_at']} frames looked at, "
            f"crops of {worm['window']} px at {worm['scale']:.0f} px/mm, reaching over {worm['length_mm']:.2f} mm",
            f"views miss each other by {_number(worm['residual_median'])} px, "
            f"in 95 % of frames by less than {_number(worm['residual_high'])} px",
        ]
    if facts.get("preparation_s") is not None:
        lines.append(f"preparation: about {_duration(facts['preparation_s'])}")
    if facts.get("reconstruction_s") is not None:
        lines.append(f"reconstruction: about {_duration(facts['reconstruction_s'])}")
    if "disk_needed" in facts:
        lines.append(f"disk: {_bytes(facts['disk_needed'])} needed, {_bytes(facts['disk_free'])} free")
    lines += [""] + [f"{finding.severity}: {finding.text}" for finding in report.findings]
    lines.append("ok: nothing is beyond its limit" if report.ok else "not ok: see the errors above")
    return "\n".join(lines)


def _table(cameras: list[dict[str, Any]]) -> list[str]:
    columns = {
        "camera": lambda camera: camera["name"],
        "frames": lambda camera: str(camera["frames"]),
        "dropped": lambda camera: str(camera["dropped"]),
        "rate": lambda camera: _number(camera["rate"], 3),
        "size": lambda camera: "x".join(map(str, camera["size"])),
        "contrast": lambda camera: _number(camera.get("contrast")),
        "seen": lambda camera: _number(100 * camera["seen"] if "seen" in camera else None, 1, " %"),
        "focus": lambda camera: _number(camera.get("focus"), 3),
        "lag": _lag,
    }
    rows = [list(columns)] + [[show(camera) for show in columns.values()] for camera in cameras]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _lag(camera: dict[str, Any]) -> str:
    """With its uncertainty, where that is small enough to say anything."""
    error = camera.get("lag_error", np.inf)
    return f"{camera['lag']:.1f} +- {error:.1f}" if error < 5 else "-"


def _number(value: float | None, digits: int = 1, unit: str = "") -> str:
    return "-" if value is None or not np.isfinite(value) else f"{value:.{digits}f}{unit}"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def draw_report(report: Report, path: Path) -> None:
    """The views of one frame with what was found in them, and the course of error, focus and light."""
    from matplotlib.figure import Figure

    views = report.recording.views
    figure = Figure(figsize=(4 * len(views), 6.5), dpi=90, layout="constrained")
    grid = figure.add_gridspec(2, len(views), height_ratios=[2, 1])
    found = [one for one in report.seen if one.place.found]
    chosen = found[len(found) // 2] if found else None
    frame = chosen.sight.frame if chosen else report.recording.count // 2
    for index, view in enumerate(views):
        axes = figure.add_subplot(grid[0, index])
        picture = next(iter(view.source.read([frame + view.offset])))[1]
        if picture is not None:
            axes.imshow(picture, cmap="gray")
        axes.set_title(f"{view.name}, frame {frame}", fontsize=9)
        axes.set_axis_off()
        if chosen is not None:
            _mark(axes, chosen, index)
    _course(figure, grid[1, :], report)
    figure.savefig(path)


def _mark(axes: Any, one: Any, view: int) -> None:
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


def _course(figure: Any, place: Any, report: Report) -> None:
    """Error, focus and light over the recording."""
    grid = place.subgridspec(1, 3)
    frames = [one.sight.frame for one in report.seen]
    names = [view.name for view in report.recording.views]
    series = (
        ("distance of the views, px", [[one.place.residual] for one in report.seen], [""]),
        ("sharpness, 1/px", [one.sharpness for one in report.seen], names),
        ("light against the background", [one.sight.light for one in report.seen], names),
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
