"""Listening: a free port on this machine, or another host with a token."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from polyseme.errors import MissingExtra, OptionError
from polyseme.interfaces import SentenceEncoder

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}  # with an address elsewhere, reserved for documents
FIRST_PORT = 8617
PORTS_TRIED = 20
CONNECTIONS = 1000
OTHER_FILES = 300  # for models, corpora and connections that are being refused
SAID = ("occurrences", "words", "tokens", "sentences", "dim", "layers")  # of what is loaded, at the start


def one_thread_each() -> None:
    """One thread for each worker of the server: on busy cores more of them are slower, not faster.

    Called before torch is imported, since OpenMP reads the environment when it is loaded.
    """
    from threadpoolctl import threadpool_limits

    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    threadpool_limits(1)


def check_host(host: str, token: str | None) -> None:
    """Beyond this machine only with a token."""
    if host not in LOOPBACK and not token:
        raise OptionError(f"--host {host} lets other machines in: choose a token for them with --token")
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token or len(token) < 8):
        raise OptionError("a token has at least 8 characters: ASCII, without spaces")


def listening_socket(host: str, port: int | None) -> socket.socket:
    """A socket on that port; without one, on the first free port from ``FIRST_PORT`` on."""
    ports = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + PORTS_TRIED), 0]
    listener = next(filter(None, (_bound(host, number, asked=port is not None) for number in ports)), None)
    if listener is None:
        raise OptionError(f"no free port on {host}")
    return listener


def _bound(host: str, port: int, *, asked: bool) -> socket.socket | None:
    """A socket on this port, which is the only one if it was ``asked`` for; None where the port is taken."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host or "?", port))  # an empty name would stand for all addresses
        listener.listen(512)
        return listener
    except (socket.gaierror, UnicodeError):
        listener.close()
        raise OptionError(f"--host {host!r} is neither an address nor the name of this machine") from None
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise OptionError(f"--host {host} is not an address of this machine ({error.strerror})") from None
        if asked:
            reason = "the port is in use or not allowed: choose another with --port"
            raise OptionError(f"cannot listen on {host}:{port} ({error.strerror}): {reason}") from None
        return None


def shown_hosts(host: str) -> list[str]:
    """The host as a URL has it; for all addresses of this machine what others can open: its name and its address."""
    named = [socket.gethostname(), *_own_address(host)] if host in EVERYWHERE else [host]
    return [f"[{name}]" if ":" in name else name for name in named]


def _own_address(everywhere: str) -> list[str]:
    """The address from which this machine would reach others, where it has one. Nothing is sent."""
    with socket.socket(socket.AF_INET6 if ":" in everywhere else socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect((EVERYWHERE[everywhere], FIRST_PORT))
        except OSError:  # no network
            return []
        return [way.getsockname()[0]]


def serve(
    paths: tuple[str, ...],
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    public_url: str | None = None,
    cache: Path | None = None,
    as_texts: Callable[[Any], SentenceEncoder] | None = None,
    say: Callable[[str], Any] = log.info,
) -> None:
    """Open everything at ``paths`` and answer until stopped.

    ``as_texts`` makes sentence encoders of models of words and of words in context; default: by their mean.
    """
    check_host(host, token)
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("polyseme serve", "serve", "FastAPI") from None
    one_thread_each()
    listener = listening_socket(host, port)
    with listener:
        from polyseme.serve.app import create_app
        from polyseme.serve.guard import LOCAL, check_public_url
        from polyseme.serve.library import Library
        from polyseme.serve.limits import Connections, server_of

        public = check_public_url(public_url) if public_url else None
        library = Library.open(paths, as_texts)
        for item in library.items.values():
            facts = [f"{item.facts[name]:,} {name}" for name in SAID if type(item.facts.get(name)) is int]
            known = f" ({', '.join(facts)})" if facts else ""
            say(f"{item.name}: {item.facts.get('method') or item.kind}{known} from {item.path}")
        local = host in LOOPBACK
        if not local or public:
            library.hide_paths()
        app = create_app(library, token=token, hosts=LOCAL if local else None, public_url=public, cache=cache)
        fragment = f"#token={quote(token, safe='')}" if token else ""
        pages = [public] if public else [f"http://{shown}:{listener.getsockname()[1]}" for shown in shown_hosts(host)]
        say(f"page: {' or '.join(f'{page}/{fragment}' for page in pages)}")
        say("API:  the page describes it (and /openapi.json, for programs); Ctrl-C stops the server")
        server_of(app, Connections(in_all=most_connections())).run(sockets=[listener])


def most_connections() -> int:
    """What the system lets this process open, less what it needs for files; as many as it is allowed at most."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return CONNECTIONS if soft == resource.RLIM_INFINITY else max(32, min(CONNECTIONS, soft - OTHER_FILES))
