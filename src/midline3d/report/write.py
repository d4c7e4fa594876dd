"""A report of a result: one HTML file with everything in it, and beside it every figure as PNG and SVG."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from midline3d.errors import InputError
from midline3d.files import check_folder, guarded, write_whole
from midline3d.report import courses, ranking, shapes, words
from midline3d.report.material import Material, Undrawable, gathered
from midline3d.report.page import Chart, Section, page
from midline3d.report.style import RULES, as_png, as_svg, inline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, SETTINGS = "report.html", "settings.toml"
Progress = Callable[[int, int], None]
FIGURES: dict[str, tuple[Callable[[Material], Figure], str]] = {
    "statuses": (
        courses.statuses,
        "Above, every frame in the colour of its status. Below, how surely keypoint 0 is the head: found anew wherever "
        "the animal was lost in between; at one half the images do not say.",
    ),
    "best-to-worst": (
        ranking.best_to_worst,
        "Frames at equal steps of rank, the best on the left, the worst on the right: by the share of the light that "
        "is explained in the view in which that is least. The midline runs from the head (yellow) to the tail (blue).",
    ),
    "render-parameters": (
        courses.appearances,
        "What the render had to be to look like the pictures: a view that loses focus grows wide and faint. Shaded: "
        "frames that are not ok.",
    ),
    "explained": (
        courses.explained,
        "Light that image and render have in common, as a share of what either has around the midline.",
    ),
    "disagreement": (
        courses.disagreements,
        "How far one view of a pair sees the animal from the line on which the other puts it. Steady values are an "
        "error of the calibration that was measured and taken out; what changes is shaking, or cameras out of step.",
    ),
    "kymograph": (
        shapes.kymograph,
        "Curvature along the body over time, in the plane in which the body bends most, followed in time. Stripes that "
        "lean are waves that run along the body.",
    ),
    "trajectory": (
        shapes.trajectory,
        "The centroid's way, in 3D and along each axis, with some midlines on it, their heads yellow.",
    ),
    "postures": (
        shapes.postures,
        "Postures at equal steps through the recording, under their frame numbers: each in its own plane (thick) and "
        "from the side of that plane (thin), the head yellow and to the right.",
    ),
    "motion": (
        courses.motions,
        "With one standard deviation of a single frame shaded about the line; the grey band is how surely the animal's "
        "own length is known. What is wrong all the time is not in these deviations.",
    ),
}
"""Every figure by its name: how it is drawn, and what it shows."""


def write_report(result: Path | str, out: Path | str | None = None, progress: Progress | None = None) -> Path:
    """Writes a report of a result into a folder, `report` in the result's own without; returns the page's path.

    result: a result's folder, growing or complete, or its midline.nc. progress: called with figures done and all.
    """
    path = Path(result)
    material = gathered(path)
    folder = Path(out) if out is not None else material.folder / "report"
    if folder.suffix.lower() in (".html", ".htm"):
        raise InputError(f"{folder} is a file's name; give the folder that the report is to be written to")
    with guarded(folder):
        folder.mkdir(parents=True, exist_ok=True)
    check_folder(folder)
    charts = {}
    for done, name in enumerate(FIGURES):
        if progress is not None:
            progress(done, len(FIGURES))
        charts[name] = _chart(material, name, folder)
    settings = words.settings_file(material)
    if settings:
        write_whole(folder / SETTINGS, settings.encode())
    content = page(
        words.title(material),
        _about(material),
        words.state(material),
        words.tiles(material),
        _sections(material, charts, folder / SETTINGS if settings else None),
        _footer(),
    )
    write_whole(folder / PAGE, content.encode())
    return folder / PAGE


def _chart(material: Material, name: str, folder: Path) -> Chart:
    """Draws a figure and writes its files; what an earlier report drew and this one cannot goes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    draw, caption = FIGURES[name]
    files = {kind: folder / f"{name}.{kind}" for kind in ("png", "svg")}
    with rc_context(RULES):
        try:
            figure = draw(material)
        except Undrawable as fault:
            for file in files.values():
                file.unlink(missing_ok=True)
            return Chart(name, caption, unable=str(fault))
        FigureCanvasAgg(figure)
        svg = as_svg(figure)
        figure.set_layout_engine("none")  # everything has its place now
        write_whole(files["png"], as_png(figure))
        write_whole(files["svg"], svg.encode())
        return Chart(name, caption, inline(svg, name, caption.partition(".")[0]))


def _sections(material: Material, charts: dict[str, Chart], settings: Path | None) -> list[Section]:
    shown = material.folder
    frames, log = words.edited(material)
    edits = [frames, log] if frames or log else ["Nobody has corrected anything: all frames are as they were found."]
    return [
        Section(
            "how-it-went",
            "How it went",
            [
                charts["statuses"],
                words.look_at(material),
                *([f"$ midline3d view {shlex.quote(str(shown))}"] if material.about.doubtful else []),
                *_there(words.reasons(material)),
            ],
        ),
        Section("frames", "Frames, best to worst", [charts["best-to-worst"]]),
        Section("look", "Render parameters over time", [charts["render-parameters"]]),
        Section("light", "Explained light", [charts["explained"], *_told(material, words.shares)]),
        Section("views", "Do the views agree?", [charts["disagreement"], *_told(material, words.misses)]),
        Section("bending", "Bending", [charts["kymograph"]]),
        Section("way", "Where it went", [charts["trajectory"]]),
        Section("postures-shown", "Postures", [charts["postures"]]),
        Section("moving", "Length, speed, planarity", [charts["motion"], *_told(material, words.measures)]),
        Section("edits", "Corrections", [*_there(*edits)]),
        Section("repeat", "How it was made", _made(material, settings)),
    ]


def _made(material: Material, settings: Path | None) -> list[Chart | words.Table | str]:
    changed = words.settings(material)
    sentence = "All settings are this version's defaults." if changed is None else "Settings that are not the defaults:"
    kept = "" if settings is None else f" The settings are in {SETTINGS}, beside this page."
    return [
        words.made_with(material),
        sentence,
        *_there(changed),
        f"The command that makes it again, from the same files and by the same version:{kept}",
        f"$ {words.command(material, None if settings is None else str(settings.resolve()))}",
    ]


def _there(*parts: words.Table | str | None) -> list[words.Table | str]:
    return [part for part in parts if part is not None]


def _told(material: Material, table: Callable[[Material], words.Table]) -> list[words.Table]:
    """A table, or nothing where the figure above it says why there is none."""
    try:
        return [table(material)]
    except Undrawable:
        return []


def _about(material: Material) -> str:
    numbers, cameras = material.frames, material.views
    named = f"Frames {numbers[0]} to {numbers[-1]}" if len(numbers) else "No frames"
    return f"{named}, {len(cameras)} cameras ({', '.join(cameras)}). {material.about.summary()}."


def _footer() -> str:
    try:
        made = version("midline3d")
    except PackageNotFoundError:
        made = "(not installed)"
    return f"Drawn by midline3d {made} on {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}."
