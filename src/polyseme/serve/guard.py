"""What precedes every request: who may ask, how much, for how long, and what the browser may do with the answer.

- The Host header must name this machine, so that a web page elsewhere cannot reach a local server by rebinding its
  own name to 127.0.0.1; a request whose Origin is another site is refused.
- With a token, everything but the page's own files (which hold no data) wants ``Authorization: Bearer``.
- A body is read here, up to a limit and within a time, before anything else happens.
- A large answer is sent in pieces, each when the client has read those before it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from polyseme.errors import OptionError
from polyseme.serve.limits import PIECE, Outgoing, client_address
from polyseme.serve.responses import JsonAnswer, busy, refusal

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
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
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
_SINGLE = (b"host", b"origin", b"authorization", b"content-length")  # headers that come once or not at all
_PORTS = {"http": "80", "https": "443"}

FREE_GUESSES = 5  # wrong tokens that cost nothing: typing errors
LONGEST_WAIT = 60.0  # seconds
FORGOTTEN = 900.0  # seconds after which wrong tokens no longer count
MOST_CLIENTS = 4096  # remembered at most; the one whose last guess is oldest is forgotten


@dataclass
class _Guesses:
    wrong: int = 0
    last: bytes = b""  # digest of the last one: a program that repeats an old token guesses nothing new
    at: float = 0.0
    free_at: float = 0.0


class TokenCheck:
    """Whether a client of another machine sent the token (令牌), and how guessing it is slowed.

    After ``FREE_GUESSES`` wrong ones each further one doubles the time that the client must wait.
    """

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._digest = _digest(token.encode())
        self._clock = clock
        self._clients: OrderedDict[str, _Guesses] = OrderedDict()

    def seconds_to_wait(self, address: str) -> int:
        """Until this client may try again, in whole seconds; 0 if it may now."""
        guesses = self._clients.get(address)
        return max(0, math.ceil(guesses.free_at - self._clock())) if guesses else 0

    def accepts(self, address: str, given: bytes) -> bool:
        """Compare what was given, in the same time wherever it differs; a wrong one is remembered."""
        digest = _digest(given)
        if hmac.compare_digest(digest, self._digest):
            return True
        now = self._clock()
        guesses = self._clients.pop(address, None) or _Guesses()
        if now - guesses.at > FORGOTTEN:
            guesses = _Guesses()
        if digest != guesses.last:
            guesses.wrong += 1
            guesses.last = digest
            if guesses.wrong > FREE_GUESSES:
                guesses.free_at = now + min(LONGEST_WAIT, 2.0 ** (guesses.wrong - FREE_GUESSES - 1))
        guesses.at = now
        self._clients[address] = guesses
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return False


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


@dataclass(frozen=True)
class Limits:
    """How much one request may send; how long an answer may take is said in ``batch``."""

    body: int = 1 << 20  # bytes
    body_seconds: float = 10.0


class Guard:
    """ASGI middleware around the whole application.

    ``hosts`` are the names it may be called by (None: any, for a server that listens beyond this machine and has a
    token); ``public_url`` is the address of a proxy in front of it, which may speak https.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None = None,
        hosts: frozenset[str] | None = LOCAL,
        public_url: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.app = app
        self.token = TokenCheck(token) if token else None
        self.public_site = site_of(public_url) if public_url else None
        self.hosts = hosts if hosts is None or not self.public_site else hosts | {self.public_site[1]}
        self.limits = limits or Limits()
        self.outgoing = Outgoing()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Sending(send, scope, self.outgoing)
        refused = self._refused(scope)
        body = b""
        if refused is None:
            body, refused = await self._read(receive, scope)
        try:
            await (refused or self.app)(scope, _replay(body, receive), answer.send)
        finally:
            answer.release()

    def _refused(self, scope: Scope) -> JsonAnswer | None:
        headers: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            if name in _SINGLE:
                if name in headers:
                    return refusal(400, f"the request has two {name.decode()} headers", "two_headers")
                headers[name] = value.decode("latin-1")
        host = _host_and_port(headers.get(b"host", ""), scope["scheme"])
        if host is None or (self.hosts is not None and host[0] not in self.hosts):
            return refusal(421, "the Host header does not name this server", "wrong_host")
        origin = headers.get(b"origin")
        if origin is not None and (site_of(origin) or "null") not in ((scope["scheme"], *host), self.public_site):
            return refusal(403, "requests from other sites are not answered", "wrong_origin")
        if self.token and not _open_to_all(scope["path"]):
            return self._without_token(self.token, headers.get(b"authorization"), client_address(scope["client"]))
        return None

    def _without_token(self, token: TokenCheck, given: str | None, address: str) -> JsonAnswer | None:
        if wait := token.seconds_to_wait(address):
            message = f"too many wrong tokens from this address: try again in {wait} s"
            return refusal(429, message, "too_many_tokens", {"Retry-After": str(wait)})
        ask = {"WWW-Authenticate": "Bearer"}
        scheme, _, value = (given or "").partition(" ")
        if given is None or scheme.lower() != "bearer" or not value.strip():
            return refusal(401, "this server requires a token: Authorization: Bearer TOKEN", "unauthorized", ask)
        if not token.accepts(address, value.strip().encode("latin-1")):
            return refusal(401, "wrong token", "wrong_token", ask)
        return None

    async def _read(self, receive: Receive, scope: Scope) -> tuple[bytes, JsonAnswer | None]:
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


class _Sending:
    """One answer on its way: headers for the browser, large bodies in pieces, refused where too much is on its way."""

    def __init__(self, send: Send, scope: Scope, outgoing: Outgoing) -> None:
        self._send, self._scope, self._outgoing = send, scope, outgoing
        # A browser reports every 4xx as an error of the page; an unknown word is none. The page reads the status here.
        self._from_page = any(name == b"x-polyseme-page" for name, _ in scope["headers"])
        self._address = client_address(scope["client"])
        self._size = 0
        self._refused = False

    async def send(self, message: Message) -> None:
        if self._refused:
            return
        if message["type"] == "http.response.start":
            await self._start(message)
        elif len(message.get("body", b"")) <= PIECE:
            await self._send(message)
        else:
            await self._send_in_pieces(message)

    async def _start(self, message: Message) -> None:
        headers = list(message.get("headers", ()))
        size = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if not self._outgoing.take(self._address, size):
            refused = busy("too many large responses to this address are unread: read them first")
            await refused(self._scope, _nothing, self.send)
            self._refused = True
            return
        self._size = size
        headers += _SECURITY
        status = message["status"]
        if self._from_page:
            headers.append((b"x-polyseme-status", str(status).encode()))
            status = 200
        await self._send({**message, "status": status, "headers": headers})

    async def _send_in_pieces(self, message: Message) -> None:
        body = message["body"]
        for start in range(0, len(body), PIECE):
            more = start + PIECE < len(body) or bool(message.get("more_body"))
            await self._send({**message, "body": body[start : start + PIECE], "more_body": more})

    def release(self) -> None:
        """The answer was sent, or nobody waits for it."""
        self._outgoing.release(self._address, self._size)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


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


def site_of(url: str) -> tuple[str, str, str] | None:
    """Scheme, host and port of an Origin header or of a URL without path; None if it is neither."""
    scheme, mark, rest = url.lower().partition("://")
    address = _host_and_port(rest.removesuffix("/"), scheme) if mark and scheme in _PORTS else None
    return (scheme, *address) if address else None


def check_public_url(url: str) -> str:
    """The address of a proxy as it is shown, or an error."""
    if site_of(url) is None:
        raise OptionError(f"--public-url must be a URL such as https://words.example.org, not {url!r}")
    return url.removesuffix("/")


def _host_and_port(host: str, scheme: str) -> tuple[str, str] | None:
    """Name and port of a Host header; None if it is anything else, however it begins."""
    match = _HOST.fullmatch(host.lower())
    return (match[1], match[2] or _PORTS[scheme]) if match else None
