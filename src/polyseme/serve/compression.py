"""Answers to browsers, compressed: maps and uses shrink to a fifth. Vectors, which programs ask for, go as they are."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware

from polyseme.serve.guard import App, Receive, Scope, Send

FEWEST = 2000  # bytes that are worth it
_AS_THEY_ARE = ("/api/encode/", "/v1/")


class Compression:
    """ASGI middleware around the framework."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.compressing = GZipMiddleware(app, minimum_size=FEWEST, compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        as_it_is = scope["type"] != "http" or scope["path"].startswith(_AS_THEY_ARE)
        await (self.app if as_it_is else self.compressing)(scope, receive, send)
