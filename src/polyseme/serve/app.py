"""The application: the API, described by /openapi.json, and the page."""

from __future__ import annotations

import mimetypes
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from polyseme.serve.guard import LOCAL, Guard, Limits
from polyseme.serve.library import Library, UnknownName, model_card, training_curve
from polyseme.serve.middleware import Compression, FrequentQueries
from polyseme.serve.responses import JsonAnswer, check_parameters, install_error_answers
from polyseme.serve.routes.encode import text_routes
from polyseme.serve.routes.search import corpus_routes, search_routes, sense_routes
from polyseme.serve.routes.tasks import attention_routes, predict_routes
from polyseme.serve.routes.words import word_routes
from polyseme.serve.shapes import Card, Curve, Failure, LibraryShape
from polyseme.version import VERSION
from polyseme.view.word_map import Maps

_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def create_app(
    library: Library,
    *,
    token: str | None = None,
    hosts: frozenset[str] | None = LOCAL,
    public_url: str | None = None,
    limits: Limits | None = None,
    cache: Path | None = None,
) -> Guard:
    """An ASGI application that answers questions about the library.

    ``token``, ``hosts``, ``public_url`` and ``limits`` are the guard's; ``cache`` is where maps are kept.
    """
    # The framework's own /docs page would load scripts from elsewhere.
    failures: dict[int | str, dict[str, Any]] = {code: {"model": Failure} for code in (400, 404, 410, 422, 503)}
    app = FastAPI(
        title="polyseme",
        version=VERSION,
        description="Vectors of words, of words in context and of sentences.",
        docs_url=None,
        redoc_url=None,
        responses=failures,
    )
    install_error_answers(app)
    tagged = next((library.corpus(name) for name in library.items if library.is_tagged(name)), None)
    routers = (
        _library_routes(library), word_routes(library, Maps(cache, tagged)), text_routes(library),
        predict_routes(library), attention_routes(library), search_routes(library), sense_routes(library),
        corpus_routes(library),
    )  # fmt: skip
    for router in routers:
        app.include_router(router, dependencies=[Depends(check_parameters)])
    app.include_router(_page_routes())
    return Guard(
        FrequentQueries(Compression(app), routers), token=token, hosts=hosts, public_url=public_url, limits=limits
    )


def _library_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["library"])

    def item(name: str) -> Any:
        if name not in library.items:
            raise UnknownName(f"nothing is loaded under the name {name[:200]!r}")
        return library.items[name]

    @router.get("/library", response_model=LibraryShape)
    async def everything() -> JsonAnswer:
        """What is loaded."""
        return JsonAnswer({"version": VERSION, "items": [item.summary() for item in library.items.values()]})

    @router.get("/library/{name}", response_model=Card)
    async def card(name: str) -> JsonAnswer:
        """The card of one model, index or corpus."""
        return JsonAnswer(model_card(item(name)))

    @router.get("/library/{name}/curve", response_model=Curve)
    async def curve(name: str) -> JsonAnswer:
        """How its training went: the records of training.jsonl."""
        return JsonAnswer({"name": name, "records": training_curve(item(name))})

    return router


def _page_routes() -> APIRouter:
    """The page's files, all read now: a request chooses among them and opens nothing."""
    router = APIRouter(include_in_schema=False)
    files = _page_files()

    @router.api_route("/", methods=["GET", "HEAD"])
    async def page() -> Response:
        return _file(files["index.html"])

    @router.get("/favicon.ico")
    async def icon() -> Response:
        return _file(files["icon.svg"])

    @router.get("/page/{name:path}")
    async def file(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "the page has no such file")
        return _file(files[name])

    return router


def _file(content: tuple[bytes, str]) -> Response:
    return Response(content[0], media_type=content[1], headers={"Cache-Control": "no-cache"})


def _page_files() -> dict[str, tuple[bytes, str]]:
    root = resources.files("polyseme.serve") / "page"
    files: dict[str, tuple[bytes, str]] = {}
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        for entry in folder.iterdir():
            if entry.is_dir():
                folders.append((f"{prefix}{entry.name}/", entry))
            else:
                suffix = Path(entry.name).suffix
                kind = _TYPES.get(suffix) or mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
                files[prefix + entry.name] = (entry.read_bytes(), kind)
    return files
