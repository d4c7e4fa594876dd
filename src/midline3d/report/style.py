"""How a report's figures look: one set of colours by name, light in files, and light or dark as the page is."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 9.6
"""Inches of a figure that is as wide as the page's column."""
SHARPNESS = 160
"""Dots an inch of pictures in files, and of pixels within drawings."""


PAPER = "#fefefe"
"""Of figures in files: as good as white, and nothing else has it."""


@dataclass(frozen=True)
class Colour:
    """A colour that has a name, so that the page can show its own in its place."""

    light: str
    dark: str


COLOURS = {
    "ink": Colour("#1c2330", "#e5e9f0"),
    "faint": Colour("#69738a", "#8d97a8"),
    "grid": Colour("#e4e8ee", "#2a313d"),
    "view0": Colour("#2467c9", "#6ea6ff"),
    "view1": Colour("#d9640f", "#ff9d52"),
    "view2": Colour("#17846b", "#44c9a5"),
    "view3": Colour("#9a3fb5", "#d287ea"),
    "view4": Colour("#8a6d1d", "#d9b84f"),
    "view5": Colour("#b3304f", "#f27b98"),
    "ok": Colour("#3f9e6b", "#4fb57f"),
    "suspect": Colour("#e9a91c", "#f0b93a"),
    "lost": Colour("#cf3f3f", "#ec6a6a"),
    "unreadable": Colour("#77809a", "#6d7690"),
    "pending": Colour("#c9d0db", "#39414e"),
}
"""Every colour of lines and words, by its name on the page. All light ones differ: they are found by their value."""
BENT = ("#2157a6", "#7fa9dc", "#f3f3f0", "#e59a7a", "#a8321f")
"""Curvature from one side to the other."""
BODY = ("#f0b400", "#ea3f74", "#3f63e6")
"""From head to tail: legible on white and on black."""


def light(name: str) -> str:
    """A colour as figures are drawn with it."""
    return COLOURS[name].light


def view(index: int) -> str:
    """The colour of a camera, or of whatever else there are several of."""
    return light(f"view{index % 6}")


def properties(dark: bool) -> str:
    """The colours as properties of a style sheet."""
    return " ".join(f"--{name}: {tone.dark if dark else tone.light};" for name, tone in COLOURS.items())


RULES: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": light("ink"),
    "axes.labelcolor": light("ink"),
    "axes.titlecolor": light("ink"),
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": light("faint"),
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": light("grid"),
    "grid.linewidth": 0.7,
    "xtick.color": light("faint"),
    "ytick.color": light("faint"),
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "lines.linewidth": 1.3,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",  # words stay words: they can be read, found and edited
    "svg.hashsalt": "midline3d",
    "figure.dpi": SHARPNESS,
}


def figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, inches, whose parts keep clear of one another."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def bare(ax: Axes) -> None:
    """Axes for a picture: no ticks, no frame."""
    ax.set(xticks=[], yticks=[])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def colours_between(*stops: str) -> Any:
    """A colour map."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("between", list(stops))


def as_svg(drawn: Figure) -> str:
    buffer = io.StringIO()
    nobody = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    drawn.savefig(buffer, format="svg", facecolor=PAPER, edgecolor="none", metadata=nobody, dpi=SHARPNESS)
    return buffer.getvalue()


def as_png(drawn: Figure) -> bytes:
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", facecolor=PAPER, dpi=SHARPNESS, metadata={"Software": "midline3d"})
    return buffer.getvalue()


def inline(svg: str, name: str, label: str) -> str:
    """An SVG file's content as a part of a page: in the page's colours, its identifiers set apart by a name.

    label: what it shows, for whoever cannot see it.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = body.replace(PAPER, "none", 1)  # the sheet, which is drawn first
    for tone_name, tone in COLOURS.items():
        body = body.replace(tone.light, f"var(--{tone_name})")
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r'xlink:href="#', f'href="#{name}-', body).replace("xlink:href", "href")
    box = re.search(r'viewBox="[^"]*"', body)
    assert box is not None
    inner = body[body.index(">") + 1 :]
    return f'<svg {box[0]} role="img" aria-label="{label}">{inner.strip()}'
