"""Pages of the reference, made from the code when the site is built: commands from their own help, settings from their
records, the Python interface from its docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

import midline3d
from midline3d.cli import app
from midline3d.settings import Settings
from midline3d.settings.ranges import Range

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

MODULES = {
    "midline3d.api": "The command's work as functions",
    "midline3d.store": "Results",
    "midline3d.kinematics": "Kinematics",
    "midline3d.midlines": "Midlines of other programs",
    "midline3d.evaluate": "Against truth and hand clicks",
    "midline3d.export": "Exports",
    "midline3d.report": "Pictures and reports",
    "midline3d.calibration": "Calibrations",
    "midline3d.recording": "Recordings",
    "midline3d.synth": "Simulation",
}
"""Homes of the public names, in the order of the page."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the made pages to those that lie in the folder."""
    from mkdocs.structure.files import File

    for name, text in {"commands": commands(), "settings": settings_page(), "python": python_page()}.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def commands() -> str:
    """Every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = ["# Commands\n", f"{group.help}\n", "`midline3d --version` says the version; every command has `--help`.\n"]
    for name, command in group.commands.items():
        parts += _command(f"midline3d {name}", command)
    return "\n".join(parts)


def _command(name: str, command: Any, level: int = 2) -> list[str]:
    parts = [f"{'#' * level} `{name}`\n", f"{_plain(command.help or '')}\n"]
    if hasattr(command, "commands"):
        for inner, each in command.commands.items():
            parts += _command(f"{name} {inner}", each, level + 1)
    if command.params:
        parts += ["| | meaning | |", "|---|---|---|", *map(_parameter, command.params), ""]
    return parts


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        named = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        named = ", ".join(f"`{each}`" for each in (*parameter.opts, *parameter.secondary_opts))
    value = parameter.default
    empty = value is None or value is False or value == () or callable(value)
    shown = not empty and parameter.param_type_name == "option"
    usual = f"default `{getattr(value, 'value', value)}`" if shown else "required" if parameter.required else ""
    return f"| {named} | {_plain(getattr(parameter, 'help', '') or '').replace('|', '/')} | {usual} |"


def _plain(text: str) -> str:
    return " ".join(text.split())


def settings_page() -> str:
    """Every setting with its default, its range and the reason for it."""
    parts = [
        "# Settings\n",
        "Defaults are meant to do. A settings file (`--settings FILE`) is TOML with one table for each section here, "
        "and in it what differs; an unknown key is refused. What a result was made with is kept in it, and "
        "[`midline3d report`](../report.md) and `midline3d info` say what differs from the defaults.\n",
    ]
    for section in dataclasses.fields(Settings):
        record = type(getattr(Settings(), section.name))
        parts += [f"## [{section.name}]\n", f"{_plain(inspect.getdoc(record) or '')}\n"]
        parts += ["| key | default | from | to | meaning |", "|---|---|---|---|---|"]
        meanings = _meanings(record)
        for item in dataclasses.fields(record):
            low, high = _range(record, item.name)
            value = getattr(record(), item.name)
            shown = list(value) if isinstance(value, tuple) else value
            parts.append(f"| `{item.name}` | `{shown}` | {low} | {high} | {meanings.get(item.name, '')} |")
        parts.append("")
    return "\n".join(parts)


def _range(record: type, name: str) -> tuple[str, str]:
    hint = get_type_hints(record, include_extras=True)[name]
    for found in getattr(hint, "__metadata__", ()):
        if isinstance(found, Range):
            return f"{found.low:g}", f"{found.high:g}"
    return "", ""


def _meanings(record: type) -> dict[str, str]:
    """The sentences that stand under the fields of a record."""
    (node,) = ast.parse(inspect.getsource(record)).body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str] = {}
    for item, after in pairwise(node.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and isinstance(after, ast.Expr):
            value = ast.literal_eval(after.value)
            found[item.target.id] = _plain(re.sub(r"([|<>*])", r"\\\1", value))
    return found


def python_page() -> str:
    """The public names, by what they are about."""
    parts = [
        "# Python\n",
        "Everything that the command does is a function of the package: `import midline3d`. Nothing is printed unless "
        "a `progress` is given; what is wrong with the input is raised as `midline3d.InputError`, one sentence.\n",
    ]
    homes: dict[str, list[str]] = {}
    for name, home in midline3d._HOMES.items():
        homes.setdefault(f"midline3d.{home}", []).append(name)
    homes |= {
        "midline3d.kinematics": import_module("midline3d.kinematics").__all__,
        "midline3d.midlines": ["read", "make"],
    }
    for home in (*(known for known in MODULES if known in homes), *(other for other in homes if other not in MODULES)):
        parts += [f"## {MODULES.get(home, home.removeprefix('midline3d.').replace('.', ', '))}\n"]
        for name in homes[home]:
            thing = getattr(import_module(home), name)
            public = f"midline3d.{name}" if name in midline3d._HOMES else f"{home}.{name}"
            parts += [f"### {public}\n", *_entry(name, thing)]
    return "\n".join(parts)


def _entry(name: str, thing: Any) -> list[str]:
    """What a public name is: how it is called, what it means, and of a record its fields."""
    if not callable(thing):
        return [f"`{type(thing).__name__}`\n"]
    parts = [] if issubclass(type(thing), type) and issubclass(thing, Exception) else [_signature(name, thing)]
    parts.append(_prose(inspect.getdoc(thing) or ""))
    if dataclasses.is_dataclass(thing):
        meanings = _meanings(thing)
        parts += ["| field | meaning |", "|---|---|"]
        parts += [f"| `{item.name}` | {meanings.get(item.name, '')} |" for item in dataclasses.fields(thing)] + [""]
    return parts


def _signature(name: str, thing: Any) -> str:
    """The call, an argument on each line where it is long."""
    value = inspect.signature(thing)
    words = [re.sub(r"'([^']*)'(?=$| =)", r"\1", str(each)) for each in value.parameters.values()]
    stars = [index for index, each in enumerate(value.parameters.values()) if each.kind is each.KEYWORD_ONLY]
    if stars and not any(each.kind is each.VAR_POSITIONAL for each in value.parameters.values()):
        words.insert(stars[0], "*")
    back = (
        "" if value.return_annotation in (value.empty, None) else f" -> {str(value.return_annotation).strip(chr(39))}"
    )
    line = f"{name}({', '.join(words)}){back}"
    if len(line) > 100:
        line = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){back}"
    return f"```python\n{line}\n```\n"


def _prose(text: str) -> str:
    """A docstring as Markdown: its paragraphs, its arguments as a list, its examples as code."""
    parts = []
    for block in re.split(r"\n\s*\n", text):
        if block.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{block}\n```")
        elif re.match(r"\w+(, \w+)*: ", block):
            parts.append(re.sub(r"^(\w+(?:, \w+)*): ", r"- `\1`: ", block, flags=re.M))
        else:
            parts.append(re.sub(r"([<>*])", r"\\\1", block))
    return "\n\n".join(parts) + "\n"
