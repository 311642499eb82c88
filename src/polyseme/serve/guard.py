"""What stands before every request: who may ask, how much, for how long, and what the browser may do with the answer.

- The Host header must name this machine, so that a web page elsewhere cannot reach a local server by rebinding its
  own name to 127.0.0.1; a request whose Origin is another site is refused.
- With a token, everything but the page's own files (which hold no data) wants ``Authorization: Bearer``.
- A body is read here, up to a limit and within a time, before anything else happens.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from polyseme.serve.answers import refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


_SECURITY = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


@dataclass(frozen=True)
class Limits:
    """How much one request may send; how long an answer may take is the batcher's to say."""

    body: int = 1 << 20  # bytes
    body_seconds: float = 10.0


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(
        self, app: App, *, token: str | None = None, hosts: frozenset[str] | None = LOCAL, limits: Limits | None = None
    ) -> None:
        self.app = app
        self.token = token.encode() if token else None
        self.hosts = hosts  # None: any, for a server that listens beyond this machine and has a token
        self.limits = limits or Limits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # A browser reports every 4xx as an error of the page; an unknown word is none. The page reads the status here.
        from_page = any(name == b"x-polyseme-page" for name, _ in scope["headers"])

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_SECURITY]}
                if from_page:
                    message["headers"].append((b"x-polyseme-status", str(message["status"]).encode()))
                    message["status"] = 200
            await send(message)

        refused = self._refused(scope)
        body = b""
        if refused is None:
            body, refused = await self._read(receive, scope)
        if refused is not None:
            await refused(scope, receive, send_guarded)
            return
        await self.app(scope, _replay(body, receive), send_guarded)

    def _refused(self, scope: Scope) -> Any:
        headers = {name: value for name, value in scope["headers"] if name in (b"host", b"origin", b"authorization")}
        host = headers.get(b"host", b"").decode("latin-1")
        if self.hosts is not None and _hostname(host) not in self.hosts:
            return refusal(421, "the Host header does not name this server", "wrong_host")
        origin = headers.get(b"origin")
        if origin is not None and _site(origin.decode("latin-1")) != host:
            return refusal(403, "requests from other sites are not answered", "wrong_origin")
        if self.token and not _open_to_all(scope["path"]):
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self.token):
                ask = {"WWW-Authenticate": "Bearer"}
                return refusal(401, "this server wants a token: Authorization: Bearer TOKEN", "unauthorized", ask)
        return None

    async def _read(self, receive: Receive, scope: Scope) -> tuple[bytes, Any]:
        too_large = refusal(413, f"a request body holds at most {self.limits.body:,} bytes", "too_large")
        headers = dict(scope["headers"])
        if scope["method"] in ("GET", "HEAD") and b"transfer-encoding" not in headers:
            return b"", None
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18 or int(declared) > self.limits.body:
            return b"", too_large
        try:
            body = await asyncio.wait_for(self._whole_body(receive), self.limits.body_seconds)
        except asyncio.TimeoutError:
            return b"", refusal(408, "the request body did not arrive in time", "timeout")
        return (b"", too_large) if len(body) > self.limits.body else (body, None)

    async def _whole_body(self, receive: Receive) -> bytes:
        pieces, size = [], 0
        while size <= self.limits.body:
            message = await receive()
            if message["type"] != "http.request":
                break
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if not message.get("more_body"):
                break
        return b"".join(pieces)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()  # nothing more but the disconnect
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _open_to_all(path: str) -> bool:
    return path == "/" or path.startswith("/page/") or path == "/favicon.ico"


def _site(origin: str) -> str | None:
    """The host and port of an Origin header; None where it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _hostname(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
