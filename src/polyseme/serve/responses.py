"""Answers as JSON, errors too: ``{"error": {"message": one line, "type": …}}`` with a status that tells whose fault."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from polyseme.errors import MissingExtra, OptionError, PolysemeError, UnknownWord, close_matches
from polyseme.machine import is_out_of_memory, told_out_of_memory
from polyseme.serve.batch import ServerBusy
from polyseme.serve.library import TakenOut, UnknownName

log = logging.getLogger(__name__)

# Pydantic's kinds of errors → what the field must be.
WANTED = {
    "string_type": "text",
    "string_unicode": "text",
    "list_type": "a list",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "model_attributes_type": "a JSON object",
}


class RefusedParameter(OptionError):
    """A parameter that cannot be what was sent, as OpenAI's clients expect to be told: its name, and a code."""

    def __init__(self, message: str, param: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param, self.code = param, code


class JsonAnswer(Response):
    """JSON, written as it is: Chinese stays Chinese, NaN is refused; bytes of a word that are no UTF-8 become ``?``."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        if isinstance(content, bytes):
            return content
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def error_body(message: str, kind: str) -> dict[str, Any]:
    """The body of every error."""
    return {"error": {"message": " ".join(message.split()), "type": kind}}


def refusal(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> JsonAnswer:
    """An error as an answer."""
    # A message may quote what the client sent, and a lone surrogate cannot be written as UTF-8.
    clean = message.encode("utf-8", "replace").decode()
    return JsonAnswer(error_body(clean, kind), status_code=status, headers=headers)


def invalid_request(message: str, param: str | None, code: str | None) -> JsonAnswer:
    """400 in the shape of OpenAI's API."""
    body = error_body(message.encode("utf-8", "replace").decode(), "invalid_request_error")
    body["error"] |= {"param": param, "code": code}
    return JsonAnswer(body, status_code=400)


def busy(message: str, *, retry_after: int = 1, close: bool = False) -> JsonAnswer:
    """503: what was asked is right, but not now."""
    headers = {"Retry-After": str(retry_after)} | ({"Connection": "close"} if close else {})
    return refusal(503, message, "busy", headers)


def install_error_answers(app: FastAPI) -> None:
    """Every exception becomes one line of JSON."""
    app.add_exception_handler(PolysemeError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


def refusal_of(error: PolysemeError) -> JsonAnswer:
    """The answer to a question that ended in one of our errors."""
    if isinstance(error, ServerBusy):
        return busy(str(error), retry_after=error.retry_after)
    if isinstance(error, UnknownWord | UnknownName):
        return refusal(404, str(error), _kind(error))
    if isinstance(error, RefusedParameter):
        return invalid_request(str(error), error.param, error.code)
    if isinstance(error, TakenOut):
        return refusal(410, str(error), _kind(error))
    if isinstance(error, OptionError):
        return refusal(400, str(error), _kind(error))
    if isinstance(error, MissingExtra):
        log.error("%s", error)
        return refusal(503, str(MissingExtra("this", error.extra, error.package)), "unavailable")
    # Anything else is about the server's files, whose names are nobody else's business.
    log.error("%s", error)
    return refusal(503, "the server cannot read a file needed for this; see its log", "unavailable")


def failure(method: str, path: str, error: Exception) -> JsonAnswer:
    """The answer to a question that ended in an error of the program; the log says which."""
    if is_out_of_memory(error):
        log.error("%s %r: %s", method, path, told_out_of_memory(error))
        return refusal(503, "the server has not enough memory for this: ask for less text at once", "out_of_memory")
    log.error("%s %r failed: %r", method, path, error)
    return refusal(500, "the server failed to answer this; see its log", "internal")


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, PolysemeError)
    return refusal_of(error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = max(error.errors(), key=_told, default={"loc": (), "msg": "invalid request"})
    place: tuple[str | int, ...] = () if first.get("type") == "json_invalid" else first["loc"][1:]
    where = ".".join(str(part) for part in place if _is_field(part)) or "body"
    message = f"{where[:100]}: {_said(first)}"
    if request.url.path.startswith("/v1/"):
        return invalid_request(message, str(place[0]) if place else None, first.get("type"))
    return refusal(422, message, "invalid_request")


def _told(error: dict[str, Any]) -> tuple[int, int]:
    """How much an error says: where a field may be of several kinds, each of them has its own."""
    kind = error["type"]
    return 0 if kind.endswith("_type") else 1 if kind == "literal_error" else 2, len(error["loc"])


def _is_field(part: str | int) -> bool:
    """Whether it is a field or a place in a list, and not the validator's name of a kind."""
    return isinstance(part, int) or part.isidentifier()


def _said(error: dict[str, Any]) -> str:
    """What is wrong with a field, for people."""
    kind, limits, given = error.get("type", ""), error.get("ctx") or {}, error.get("input")
    if kind in ("string_too_long", "too_long"):
        what = "characters" if kind == "string_too_long" else "entries"
        return f"at most {limits['max_length']:,} {what}; this has {f'{len(given):,}' if given is not None else 'more'}"
    if kind in ("string_too_short", "too_short"):
        return "is empty"
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "is unknown"
    if kind == "literal_error":
        return f"must be one of {limits['expected']}"
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {limits['ge']:,}" if "ge" in limits else f"at most {limits['le']:,}"
        return f"must be {bound}"
    if kind == "json_invalid":
        return f"is not valid JSON (character {error['loc'][-1]})"
    if kind in WANTED:
        return f"must be {WANTED[kind]}"
    return str(error["msg"]).removeprefix("Value error, ")


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, str(error.detail), "http", dict(error.headers or {}))


async def _unexpected(request: Request, error: Exception) -> Response:
    return failure(request.method, request.url.path, error)


def _kind(error: Exception) -> str:
    name = type(error).__name__
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


async def check_parameters(request: Request) -> None:
    """Refuse a request with a parameter that would be skipped in silence. A dependency of every route."""
    counts = Counter(name for name, _ in request.query_params.multi_items())
    if not counts:
        return
    known = parameters_of(request.scope["route"])
    for name, count in counts.items():
        if name not in known:
            taken = f"this takes {', '.join(known)}" if known else "this takes none"
            raise _parameter_error(name, f"is unknown{close_matches(name, known)}; {taken}")
        if count > 1:
            raise _parameter_error(name, "is given more than once")


def parameters_of(route: APIRoute) -> tuple[str, ...]:
    """The names of a route's query parameters; those of a shape are its fields."""
    return tuple(_field_names(route.dependant.query_params))


def _field_names(fields: Iterable[Any]) -> Iterable[str]:
    for field in fields:
        shape = field.field_info.annotation
        if isinstance(shape, type) and issubclass(shape, BaseModel):
            yield from shape.model_fields
        else:
            yield field.alias


def _parameter_error(name: str, message: str) -> RequestValidationError:
    return RequestValidationError([{"type": "parameter", "loc": ("query", name), "msg": message, "input": None}])
