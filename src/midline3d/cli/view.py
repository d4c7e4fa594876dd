"""Commands that show a result in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midline3d.cli.options import Json, ResultFolder, frame_ends
from midline3d.cli.terminal import print_json
from midline3d.errors import InputError

Port = Annotated[
    int | None, typer.Option(help="Where to listen; else 8750 or the next that is free.", min=1, max=65535)
]
Host = Annotated[str, typer.Option(help="Address to listen at; other than this machine alone, a token is asked for.")]
Token = Annotated[bool, typer.Option("--token", help="Ask for a token on this machine too: where others work on it.")]
NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")]


def view(
    result: Annotated[Path, typer.Argument(help="Folder of a result, growing or complete.")],
    recording: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The recording, where it was moved since: for whole pictures.")
    ] = None,
    port: Port = None,
    host: Host = "127.0.0.1",
    token: Token = False,
    no_browser: NoBrowser = False,
) -> None:
    """Look at a result in the browser, frame by frame, and correct it. Also while it grows."""
    from midline3d.viewer.serve import Place
    from midline3d.viewer.serve import view as show

    show(result, Place.of(host, port, token), recording, not no_browser, typer.echo)


def annotate(
    result: ResultFolder,
    who: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who clicks; several people may, one after another.")
    ] = None,
    count: Annotated[
        int, typer.Option(help="Frames, spread evenly over the recording; each in all cameras.", min=1)
    ] = 20,
    frames: Annotated[str | None, typer.Option(metavar="A:B", help="Only from frames A to B - 1.")] = None,
    agreement: Annotated[bool, typer.Option("--agreement", help="Say how well people agree so far, and end.")] = False,
    port: Port = None,
    host: Host = "127.0.0.1",
    token: Token = False,
    no_browser: NoBrowser = False,
    as_json: Json = False,
) -> None:
    """Make hand clicks on pictures without any overlay; they are kept in OUT/annotations.csv."""
    from rich.console import Console

    from midline3d.evaluate.agreement import agreement_table
    from midline3d.viewer.annotating import Annotating, agreement_in
    from midline3d.viewer.serve import Place
    from midline3d.viewer.serve import annotate as show

    if agreement:
        pairs = agreement_in(result)
        if as_json:
            print_json({"agreement": [pair.summary() for pair in pairs]})
        else:
            Console().print(agreement_table(pairs))
        return
    if who is None:
        raise InputError("it is not said who clicks; give --who NAME, or --agreement to see how well people agree")
    span = (0, None) if frames is None else frame_ends(frames)
    show(Annotating(result, who, count, span), Place.of(host, port, token), not no_browser, typer.echo)
