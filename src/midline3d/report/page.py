"""The page: everything in one HTML file that needs no other, light or dark as its reader likes, and fit for paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from midline3d.report.style import properties
from midline3d.report.words import Table, Tile

PAPER = {"light": "--paper: #f4f5f8; --panel: #ffffff; --edge: #dfe3ea;"}
PAPER["dark"] = "--paper: #0e1116; --panel: #161b22; --edge: #2a313d;"


@dataclass(frozen=True)
class Chart:
    """A figure that was drawn, or the sentence that stands in its place."""

    name: str
    """Of its files, and of its place on the page."""
    caption: str
    svg: str = ""
    """As a part of the page."""
    unable: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading."""

    name: str
    title: str
    parts: Sequence[Chart | Table | str]
    """Figures, tables, and paragraphs; a paragraph that begins with $ is a command."""


def page(title: str, about: str, banner: str, tiles: Sequence[Tile], sections: Sequence[Section], footer: str) -> str:
    """The whole page. about: one sentence under the title; banner: what the reader must know first, or nothing."""
    links = " ".join(f'<a href="#{section.name}">{escape(section.title)}</a>' for section in sections)
    warned = f'<p class="banner" role="alert">{escape(banner)}</p>' if banner else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} - midline3d report</title>
<style>
{_style()}
</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="faint">{escape(about)}</p>
{warned}
<div class="tiles">{"".join(map(_tile, tiles))}</div>
<nav aria-label="Sections">{links}</nav>
</header>
<main>
{"".join(map(_section, sections))}
</main>
<footer><p>{escape(footer)}</p></footer>
</body>
</html>
"""


def _style() -> str:
    sheet = files("midline3d.report").joinpath("page.css").read_text(encoding="utf-8")
    day, night = (f"{PAPER[name]} {properties(name == 'dark')}" for name in ("light", "dark"))
    # On paper light, whatever the screen is.
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {night} }} }}"
    return f":root {{ color-scheme: light dark; {day} }}\n{dark}\n{sheet}"


def _tile(tile: Tile) -> str:
    words = f"<span>{escape(tile.name)}</span><b>{escape(tile.value)}</b><span>{escape(tile.remark)}</span>"
    return f'<div class="tile" style="--tone: var(--{tile.tone})">{words}</div>'


def _section(section: Section) -> str:
    parts = "\n".join(_part(part) for part in section.parts)
    return f'<section id="{section.name}">\n<h2>{escape(section.title)}</h2>\n{parts}\n</section>\n'


def _part(part: Chart | Table | str) -> str:
    if isinstance(part, Chart):
        return _chart(part)
    if isinstance(part, Table):
        return _table(part)
    if part.startswith("$ "):
        return f"<pre>{escape(part[2:])}</pre>"
    return f"<p>{escape(part)}</p>"


def _chart(chart: Chart) -> str:
    if chart.unable:
        return f'<div class="unable" id="{chart.name}">{escape(chart.unable)}</div>'
    beside = f"<code>{chart.name}.png</code>, <code>{chart.name}.svg</code>"
    words = f"{escape(chart.caption)} ({beside})"
    return f'<figure id="{chart.name}">{chart.svg}<figcaption>{words}</figcaption></figure>'


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        kinds = (' class="n"' if index in table.numbers else "" for index in range(len(cells)))
        inner = "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{inner}</tr>"

    head = f"<thead>{row(table.columns, 'th')}</thead>" if any(table.columns) else ""
    body = "".join(row(cells, "td") for cells in table.rows)
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'
