"""The viewer's answers: what can be asked about a result over HTTP, and how a bad question is answered."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from midline3d.errors import InputError
from midline3d.store import Pin
from midline3d.store.edits import PARTS
from midline3d.viewer import drafts
from midline3d.viewer.annotating import Annotating
from midline3d.viewer.guard import Guard
from midline3d.viewer.session import Session

STATIC = Path(__file__).parent / "static"
Answer = Callable[[Any, dict[str, Any]], Any]
"""What a question about a session, with what came along, is answered by: JSON, or bytes."""


def application(session: Session, token: str = "") -> Starlette:
    """The whole viewer of one result."""
    return served(session, "index.html", QUESTIONS, ORDERS, token)


def annotation_application(session: Annotating, token: str = "") -> Starlette:
    """The page for making clicks on the pictures of one result."""
    return served(session, "annotate.html", CLICK_QUESTIONS, CLICK_ORDERS, token)


def served(
    session: Session | Annotating, page: str, questions: dict[str, Answer], orders: dict[str, Answer], token: str
) -> Starlette:
    """A page, and what it can ask about a session and do to it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        session.start()
        yield
        session.stop()

    routes = [
        Route("/", lambda request: FileResponse(STATIC / page)),
        *(Route(f"/api/{name}", _get(session, answer), methods=["GET"]) for name, answer in questions.items()),
        *(Route(f"/api/{name}", _post(session, answer), methods=["POST"]) for name, answer in orders.items()),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={InputError: _at_fault, HTTPException: _not_so, Exception: _our_fault},
    )


def _get(session: Session | Annotating, answer: Answer) -> Callable[[Request], Any]:
    async def respond(request: Request) -> Response:
        return _response(await run_in_threadpool(answer, session, dict(request.query_params)))

    return respond


def _post(session: Session | Annotating, answer: Answer) -> Callable[[Request], Any]:
    async def respond(request: Request) -> Response:
        try:
            given = json.loads(await request.body() or b"{}")
        except (ValueError, RecursionError):
            raise InputError("the request is no JSON") from None
        if not isinstance(given, dict):
            raise InputError("the request is no JSON object")
        return _response(await run_in_threadpool(answer, session, given))

    return respond


def _response(found: Any) -> Response:
    if isinstance(found, Response):
        return found
    if isinstance(found, bytes):
        return Response(found, media_type="application/octet-stream")
    # JSON has no NaN: browsers refuse it.
    return Response(json.dumps(_plain(found), allow_nan=False), media_type="application/json")


def _plain(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, dict):
        return {str(key): _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    return content


def _whole(given: dict[str, Any], name: str, least: int = -(1 << 40)) -> int:
    """A whole number of the request."""
    value = given.get(name)
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError
        number = int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"'{name}' is {str(value)[:40]!r}, but must be a whole number") from None
    if not least <= number <= 1 << 40:
        raise InputError(f"'{name}' is {number}, but must be {least} or more")
    return number


def _number(given: dict[str, Any], name: str) -> float:
    """A finite number of the request."""
    try:
        if isinstance(given.get(name), bool):
            raise ValueError
        number = float(given[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError(f"'{name}' is {str(given.get(name))[:40]!r}, but must be a number") from None
    if not math.isfinite(number) or abs(number) > 1e6:
        raise InputError(f"'{name}' is {number}, but must be a number of px")
    return number


def _pins(given: dict[str, Any], frame: int) -> list[Pin]:
    found = []
    listed = given.get("pins", [])
    if not isinstance(listed, list) or len(listed) > 100:
        raise InputError("'pins' must be a list of at most 100 pins")
    for pin in listed:
        if not isinstance(pin, dict) or not isinstance(pin.get("camera"), str) or pin.get("part") not in PARTS:
            raise InputError("a pin has a camera's name, u and v in px, and a part: head, tail or body")
        found.append(Pin(frame, pin["camera"], _number(pin, "u"), _number(pin, "v"), pin["part"]))
    return found


def _jpeg(content: bytes) -> Response:
    return Response(content, media_type="image/jpeg")


def _refit(session: Session, given: dict[str, Any]) -> Any:
    session.refresh(now=True)
    frame = _whole(given, "frame")
    session.drafts.refit(frame, _pins(given, frame))
    return session.drafts.answer()


def _keep(session: Session, given: dict[str, Any]) -> Any:
    return _done(session, session.drafts.keep())


def _mark(session: Session, given: dict[str, Any]) -> Any:
    session.refresh(now=True)
    first, last = _whole(given, "first"), _whole(given, "last")
    return _done(session, drafts.mark(session.frames, str(given.get("kind")), first, last))


def _done(session: Session, edit: Any) -> Any:
    """An edit was written: whoever asks next sees it."""
    session.refresh(now=True)
    return {"edit": edit.as_json(), "version": session.frames.version}


def _carry(session: Session, given: dict[str, Any]) -> Any:
    session.drafts.carry_on(_whole(given, "way"))
    return session.drafts.answer()


def _stop(session: Session, given: dict[str, Any]) -> Any:
    session.drafts.stop()
    return session.drafts.answer()


def _drop(session: Session, given: dict[str, Any]) -> Any:
    session.drafts.drop()
    return session.drafts.answer()


QUESTIONS: dict[str, Answer] = {
    "about": lambda session, given: session.about(),
    "state": lambda session, given: session.state(),
    "words": lambda session, given: session.words(),
    "series": lambda session, given: session.series(str(given.get("name"))),
    "kymograph": lambda session, given: session.kymograph(
        *(_whole(given, key) for key in ("first", "stop", "columns"))
    ),
    "curves": lambda session, given: session.curves(_whole(given, "first")),
    "strip": lambda session, given: _jpeg(session.strips.strip(given.get("layer", ""), _whole(given, "first"))),
    "picture": lambda session, given: _jpeg(session.originals.picture(_whole(given, "camera"), _whole(given, "frame"))),
    "epipolar": lambda session, given: session.epipolar(
        _whole(given, "camera"), _whole(given, "frame"), _number(given, "u"), _number(given, "v")
    ),
    "draft": lambda session, given: session.drafts.answer(),
    "draft-curve": lambda session, given: session.drafts.curve(_whole(given, "frame")),
    "history": lambda session, given: session.history(),
}
"""What can be asked, by name."""
ORDERS: dict[str, Answer] = {
    "refit": _refit,
    "carry-on": _carry,
    "stop": _stop,
    "keep": _keep,
    "drop": _drop,
    "mark": _mark,
    "undo": lambda session, given: _done(session, drafts.undo(session.frames)),
    "redo": lambda session, given: _done(session, drafts.redo(session.frames)),
}
"""What can be done, by name."""


CLICK_QUESTIONS: dict[str, Answer] = {
    "task": lambda session, given: session.task(),
    "crop": lambda session, given: Response(session.picture(_whole(given, "image")), media_type="image/png"),
    "agreement": lambda session, given: [pair.summary() for pair in session.agreement()],
}
"""What can be asked by whoever makes clicks: nothing of the midline, nor of others' clicks."""
CLICK_ORDERS: dict[str, Answer] = {
    "clicks": lambda session, given: session.keep(_whole(given, "image"), given.get("clicks")),
}
"""What whoever makes clicks can do."""


def _at_fault(_: Request, fault: Exception) -> Response:
    return JSONResponse({"error": str(fault)}, 400)


def _not_so(_: Request, fault: Exception) -> Response:
    status = getattr(fault, "status_code", 404)
    sentences = {404: "there is no such thing here", 405: "this is asked for in another way"}
    return JSONResponse({"error": sentences.get(status, str(fault))}, status)


def _our_fault(_: Request, fault: Exception) -> Response:
    print(f"midline3d: {type(fault).__name__}: {fault}", file=sys.stderr)
    return JSONResponse({"error": f"a fault of midline3d's own ({type(fault).__name__}); its terminal says more"}, 500)
