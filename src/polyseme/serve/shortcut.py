"""The questions that come most often, answered without the framework: the same checks, a quarter of its work.

What does not pass the checks continues to the framework, which says why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from polyseme.errors import PolysemeError
from polyseme.serve.guard import App, Receive, Scope, Send
from polyseme.serve.responses import JsonAnswer, failure, refusal_of

Routes = dict[str, tuple[type[BaseModel], Callable[[Any], Awaitable[JsonAnswer]]]]


class Shortcut:
    """ASGI middleware before the framework."""

    def __init__(self, app: App, routes: Routes) -> None:
        self.app = app
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.routes.get(scope.get("path", ""))
        if route is None or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        shape, handler = route
        try:
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            if len(given := dict(query)) < len(query) or not shape.model_fields.keys() >= given.keys():
                raise ValueError("twice, or unknown")
            question = shape.model_validate(given)
        except (ValidationError, ValueError):
            await self.app(scope, receive, send)
            return
        try:
            answer = await handler(question)
        except PolysemeError as error:
            answer = refusal_of(error)
        except Exception as error:
            answer = failure(scope["method"], scope["path"], error)
        await answer(scope, receive, send)
