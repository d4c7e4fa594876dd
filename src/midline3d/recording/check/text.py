"""A preflight report for people, as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from midline3d.reading import number_of
from midline3d.recording.check.facts import CameraFacts, Facts
from midline3d.recording.check.issues import Issue

VAGUE = 5.0
"""Frames: a lag that is known no better says nothing, and is not shown."""


def report_text(facts: Facts, issues: Sequence[Issue]) -> str:
    """The facts in a table, the issues as sentences, the verdict last."""
    lines = [
        f"{facts.name}: {number_of(facts.frames, 'frame')} at {facts.fps:g} a second, {len(facts.cameras)} cameras"
    ]
    lines += ["", *_table(facts.cameras)]
    lines += ["contrast: the worm over the noise; focus: steepest slope, 1/px; lag: frames behind the others", ""]
    worm, needs = facts.worm, facts.needs
    if worm is not None:
        lines += [
            f"worm: {worm.side}, found in {worm.found:.1%} of {len(facts.looked_at_frames)} frames looked at, "
            f"crops of {worm.window} px at {worm.scale:.0f} px/mm, reaching over {worm.length_mm:.2f} mm",
            f"views miss each other by {_number(worm.residual_median)} px, "
            f"in 95 % of frames by less than {_number(worm.residual_high)} px",
        ]
    if needs is not None and needs.preparation_s is not None:
        lines.append(f"preparation: about {_duration(needs.preparation_s)}")
    if needs is not None and needs.reconstruction_s is not None:
        lines.append(f"reconstruction: about {_duration(needs.reconstruction_s)}")
    if needs is not None:
        lines.append(f"disk: {_bytes(needs.disk_needed)} needed, {_bytes(needs.disk_free)} free")
    lines += [""] + [f"{issue.severity}: {issue.text}" for issue in issues]
    ok = not any(issue.severity == "error" for issue in issues)
    lines.append("ok: nothing is beyond its limit" if ok else "not ok: see the errors above")
    return "\n".join(lines)


def _table(cameras: Sequence[CameraFacts]) -> list[str]:
    columns: dict[str, Callable[[CameraFacts], str]] = {
        "camera": lambda camera: camera.name,
        "frames": lambda camera: str(camera.frames),
        "dropped": lambda camera: str(camera.dropped),
        "rate": lambda camera: _number(camera.rate, 3),
        "size": lambda camera: "x".join(map(str, camera.size)),
        "contrast": lambda camera: _number(None if camera.view is None else camera.view.contrast),
        "seen": lambda camera: _number(None if camera.view is None else 100 * camera.view.seen, 1, " %"),
        "focus": lambda camera: _number(None if camera.view is None else camera.view.focus, 3),
        "lag": _lag,
    }
    rows = [list(columns)] + [[show(camera) for show in columns.values()] for camera in cameras]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _lag(camera: CameraFacts) -> str:
    """With its uncertainty, where that is small enough to say anything."""
    view = camera.view
    return "-" if view is None or not view.lag_error < VAGUE else f"{view.lag:.1f} +- {view.lag_error:.1f}"


def _number(value: float | None, digits: int = 1, unit: str = "") -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}f}{unit}"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
