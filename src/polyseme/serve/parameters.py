"""Query parameters that a route does not know, or that come twice, are refused: in one place, for all routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from polyseme.errors import close_matches


async def check_parameters(request: Request) -> None:
    """Refuse a request with a parameter that would be skipped in silence. A dependency of every route."""
    counts = Counter(name for name, _ in request.query_params.multi_items())
    if not counts:
        return
    known = parameters_of(request.scope["route"])
    for name, count in counts.items():
        if name not in known:
            taken = f"this takes {', '.join(known)}" if known else "this takes none"
            raise _refused(name, f"is unknown{close_matches(name, known)}; {taken}")
        if count > 1:
            raise _refused(name, "is given more than once")


def parameters_of(route: APIRoute) -> tuple[str, ...]:
    """The names of a route's query parameters; those of a shape are its fields."""
    return tuple(_names(route.dependant.query_params))


def _names(fields: Iterable[Any]) -> Iterable[str]:
    for field in fields:
        shape = field.field_info.annotation
        if isinstance(shape, type) and issubclass(shape, BaseModel):
            yield from shape.model_fields
        else:
            yield field.alias


def _refused(name: str, message: str) -> RequestValidationError:
    return RequestValidationError([{"type": "parameter", "loc": ("query", name), "msg": message, "input": None}])
