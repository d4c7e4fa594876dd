"""What the command says: progress and complaints on standard error, figures and places on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from midline3d.progress import Ticker


@contextmanager
def working(remedy: str) -> Iterator[Ticker]:
    """Progress on standard error while a job runs; Ctrl-C ends it with a word on how to go on."""
    from midline3d.progress import Ticker

    try:
        with Ticker(Console(stderr=True)) as tick:
            yield tick
    except KeyboardInterrupt:
        complain(f"interrupted: {remedy}")
        raise typer.Exit(130) from None


def say_places(console: Console, places: dict[str, Path]) -> None:
    """Where things were written: a name and a path on each line, the paths below one another."""
    wide = max(map(len, places))
    for name, place in places.items():
        console.print(f"{name:<{wide}}  {place}", highlight=False, soft_wrap=True)


def print_json(content: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(content, indent=2))


def own_name() -> str:
    """How the user can call the command again: by its path where the shell would not find it."""
    import shutil

    called = Path(sys.argv[0])
    return "midline3d" if called.suffix == ".py" or shutil.which("midline3d") else str(called)


def complain(text: str) -> None:
    """One line on standard error."""
    typer.echo(f"midline3d: {text}", err=True)


def warn(message: Warning | str, *_: object, **__: object) -> None:
    """In place of `warnings.showwarning`: the sentence alone, without file and line."""
    complain(str(message))
