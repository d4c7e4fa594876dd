"""Starting the viewer: a port, a link, the browser."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from midline3d.errors import InputError
from midline3d.viewer.guard import is_loopback

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from midline3d.viewer.annotating import Annotating

PORT = 8750
"""Where the viewer is if it is free; else the next one that is."""
TRIED = 50
"""Ports from there on that are tried."""


@dataclass(frozen=True)
class Place:
    """Where a viewer can be reached."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: `PORT`, or the next that is free."""
    token: str = ""
    """What a request must bring along; empty: nothing."""

    @staticmethod
    def of(host: str, port: int | None, token: bool = False) -> Place:
        """A place with a token where others can reach it, or where one is wanted."""
        return Place(host, port, secrets.token_urlsafe(24) if token or not is_loopback(host) else "")


def view(
    result: Path | str,
    place: Place | None = None,
    recording: Path | None = None,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Shows a result in the browser, and lets it be corrected there, until it is interrupted.

    place: where to listen, else this machine alone; recording: where it lies, if it was moved; say: prints a line.
    """
    with _viewer_parts():
        from midline3d.viewer.app import application
        from midline3d.viewer.session import Session

    place = place or Place()
    _serve(application(Session(Path(result), recording), place.token), place, browser, say)


def annotate(
    annotating: Annotating,
    place: Place | None = None,
    browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Shows pictures without any overlay in the browser, for hand clicks, until it is interrupted."""
    with _viewer_parts():
        from midline3d.viewer.app import annotation_application

    place = place or Place()
    _serve(annotation_application(annotating, place.token), place, browser, say)


@contextmanager
def _viewer_parts() -> Iterator[None]:
    """Around imports that want the viewer's own packages: what is missing is said in one sentence."""
    try:
        yield
    except ModuleNotFoundError as fault:
        if fault.name not in ("starlette", "uvicorn"):
            raise
        raise InputError(f'the viewer needs {fault.name}: pip install "midline3d[view]"') from None


def _serve(application: Starlette, place: Place, browser: bool, say: Callable[[str], None]) -> None:
    """Answers at a place until it is interrupted."""
    with _viewer_parts():
        import uvicorn

    with listening(place) as door:
        port = door.getsockname()[1]
        link = f"http://{_named(place.host)}:{port}/" + (f"?token={place.token}" if place.token else "")
        for line in announcement(place, port, link):
            say(line)
        if browser and has_screen():
            webbrowser.open(link)
        config = uvicorn.Config(application, log_level="critical", timeout_graceful_shutdown=2, server_header=False)
        uvicorn.Server(config).run(sockets=[door])


def listening(place: Place) -> socket.socket:
    """A socket that listens at the place."""
    ports = [place.port] if place.port is not None else range(PORT, PORT + TRIED)
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    fault: OSError | None = None
    for port in ports:
        door = socket.socket(family, socket.SOCK_STREAM)
        if os.name != "nt":  # there it would let two viewers share a port
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((place.host.strip("[]"), port))
            door.listen(64)
            return door
        except OSError as refused:
            door.close()
            fault = refused
    tried = f"port {ports[0]}" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]}"
    reason = fault.strerror if fault is not None else ""
    raise InputError(f"{place.host}: {tried} cannot be used ({reason}); give another with --port or --host")


def announcement(place: Place, port: int, link: str) -> list[str]:
    """What the terminal says."""
    lines = [f"The viewer is at {link} (Ctrl-C ends it)."]
    if is_loopback(place.host):
        machine, user = socket.gethostname(), _user()
        there = link.replace(_named(place.host), "localhost")
        lines.append(
            f"From another computer: ssh -L {port}:localhost:{port} {user}@{machine}, then open {there} there."
        )
    else:
        lines.append("Everybody who has this link can see and correct the result; the connection is not encrypted.")
    return lines


def has_screen() -> bool:
    """Whether a browser could be shown."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _named(host: str) -> str:
    """The host as a link has it."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "you"
