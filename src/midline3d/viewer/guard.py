"""Who may ask the viewer: this machine's own pages, or whoever has the token."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 1 << 18
"""Bytes of a request's body: a hundred pins take a tenth of it."""
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer: nothing is loaded from elsewhere, and nobody else shows the page in theirs."""


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine itself and cannot be reached from another."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class RefusedError(Exception):
    """Why a request is not answered."""

    status: int
    sentence: str


class Guard:
    """Around the application. Without a token only pages of this machine are answered, under its own names: a page from
    elsewhere that has a name of its own point here, or that posts here, is refused. With a token, whoever has it."""

    def __init__(self, app: ASGIApp, token: str = "") -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._check_place(scope["path"], headers)
            if self._token and not self._known(scope, headers):
                if _asked_token(scope) is not None and self._right(_asked_token(scope)):
                    await _welcome(send, self._cookie(headers), self._token)
                    return
                raise RefusedError(403, "this viewer asks for its token: open the link that the command printed")
            if scope["method"] not in ("GET", "HEAD", "POST"):
                raise RefusedError(405, f"{scope['method'][:20]} is not answered here; ask with GET or POST")
            if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0] != "application/json":
                raise RefusedError(415, "a request that changes something comes as application/json")
            await self._app(scope, await _limited(receive, headers), _with_headers(send))
        except RefusedError as refused:
            await _refuse(send, refused)

    def _check_place(self, path: str, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        if not self._token and not is_loopback(name):
            raise RefusedError(403, "this viewer answers as localhost only; to reach it from elsewhere use ssh -L")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise RefusedError(403, "this viewer answers its own page only")
        # A link to the page itself may stand anywhere: in a mail, in a terminal that is a page.
        followed = path == "/" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and not followed:
            raise RefusedError(403, "this viewer answers its own page only")

    def _known(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Whether the token came along, as a cookie or in a header."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._right(given):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie(headers))
        except CookieError:
            return False
        return cookie is not None and self._right(cookie.value)

    def _right(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self._token.encode())

    @staticmethod
    def _cookie(headers: dict[str, str]) -> str:
        """Its name: cookies do not tell ports apart, and several viewers may run on a machine."""
        port = urlsplit(f"//{headers.get('host', '')}").port
        return f"midline3d-{port or 80}"


def _asked_token(scope: Scope) -> str | None:
    if scope["path"] != "/":
        return None
    return next(iter(parse_qs(scope["query_string"].decode("latin-1")).get("token", [])), None)


async def _limited(receive: Receive, headers: dict[str, str]) -> Receive:
    """The request's body, refused where it is too large."""
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST:
        raise RefusedError(413, f"a request has {LARGEST} bytes at most")
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST:
            raise RefusedError(413, f"a request has {LARGEST} bytes at most")
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in message["headers"]}
            message["headers"] += [
                (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in own
            ]
        await send(message)

    return sent


async def _welcome(send: Send, cookie: str, token: str) -> None:
    """The token becomes a cookie, and leaves the address bar."""
    # Lax, not Strict: who follows the link from another page must come in too. What changes something needs our origin.
    kept = f"{cookie}={token}; Path=/; HttpOnly; SameSite=Lax"
    headers = [(b"location", b"/"), (b"set-cookie", kept.encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, refused: RefusedError) -> None:
    body = json.dumps({"error": refused.sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
