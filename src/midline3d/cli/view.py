"""The command that shows a result in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    result: Annotated[Path, typer.Argument(help="Folder of a result, growing or complete.")],
    recording: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The recording, where it was moved since: for whole pictures.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Where to listen; else 8750 or the next that is free.", min=1, max=65535)
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; other than this machine alone, a token is asked for.")
    ] = "127.0.0.1",
    token: Annotated[
        bool, typer.Option("--token", help="Ask for a token on this machine too: where others work on it.")
    ] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
) -> None:
    """Look at a result in the browser, frame by frame, and correct it. Also while it grows."""
    from midline3d.viewer.serve import Place
    from midline3d.viewer.serve import view as show

    show(result, Place.of(host, port, token), recording, not no_browser, typer.echo)
