"""A small result and a viewer of it that really listens, for tests of the viewer."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn

from midline3d import Plan, Settings, simulate
from midline3d.tracking.reconstruct import Job, reconstruct
from midline3d.viewer.app import application
from midline3d.viewer.serve import Place, listening
from midline3d.viewer.session import Session

SETTINGS = replace(Settings(), start=replace(Settings().start, pairs=1, apart=2, starts=5))


def small_result(folder: Path, frames: int = 8) -> tuple[Path, Path]:
    """A simulated recording and its reconstruction."""
    plan = Plan("clean", frames, size=384, px_per_mm=115.0, seed=0, source="npy")
    recording = simulate(folder / "recording", plan)
    reconstruct(Job(recording, folder / "out", SETTINGS), lambda doing, done, total: None)
    return recording, folder / "out"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Viewer:
    """A viewer that listens."""

    port: int
    session: Session

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask(urllib.request.Request(self.link + path, headers=_named(headers)))

    def post(self, path: str, content: Any = None, body: bytes | None = None, **headers: str) -> Answer:
        given = body if body is not None else json.dumps(content if content is not None else {}).encode()
        named = {"Content-Type": "application/json"} | _named(headers)
        return self._ask(urllib.request.Request(self.link + path, data=given, headers=named, method="POST"))

    def wait(self, path: str, until: Any) -> Any:
        """Asks until the answer is as wanted."""
        for _ in range(600):
            found = self.get(path).json
            if until(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{path} never came to it: {found}")

    @staticmethod
    def _ask(request: urllib.request.Request) -> Answer:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Still)
        try:
            with opener.open(request, timeout=60) as answer:
                return Answer(
                    answer.status, answer.read(), {key.lower(): value for key, value in answer.headers.items()}
                )
        except urllib.error.HTTPError as fault:
            return Answer(fault.code, fault.read(), {key.lower(): value for key, value in fault.headers.items()})


class _Still(urllib.request.HTTPRedirectHandler):
    """Follows no redirection."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def viewing(out: Path, recording: Path | None = None, token: str = "") -> Iterator[Viewer]:
    """A viewer of a result, as long as the context lasts."""
    session = Session(out, recording)
    with listening_to(application(session, token), session) as viewer:
        yield viewer


@contextmanager
def listening_to(served: Any, session: Any) -> Iterator[Viewer]:
    """An application that really listens, as long as the context lasts."""
    with listening(Place(port=0)) as door:
        config = uvicorn.Config(served, log_level="error", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Viewer(door.getsockname()[1], session)
        finally:
            server.should_exit = True
            thread.join(timeout=10)
