"""``polyseme serve``: the API and the page."""

from __future__ import annotations

from typing import Any

import click

from polyseme.cli.flags import PoolingFlags, pooling_flags
from polyseme.cli.terminal import say


@pooling_flags
@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; default: the first free one from 8617.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on, if not only this machine; requires a token.",
)
@click.option("--token", envvar="POLYSEME_TOKEN", help="Clients must send it as Authorization: Bearer TOKEN.")
@click.option("--public-url", metavar="URL", help="Public URL of a proxy in front, such as https://words.example.org.")
def serve(
    paths: tuple[str, ...],
    port: int | None,
    host: str,
    token: str | None,
    public_url: str | None,
    pooling: PoolingFlags,
) -> None:
    """Serve models, indexes and corpora: a page to explore them, and a JSON API.

    Text vectors come from sentence models; for other models, --pool combines the vectors of the words.
    """
    from polyseme.interfaces import SentenceEncoder
    from polyseme.serve.listen import serve as run

    def as_texts(model: Any) -> SentenceEncoder:
        return model if isinstance(model, SentenceEncoder) else pooling.encoder(model)

    listen: dict[str, Any] = {"host": host, "port": port, "token": token, "public_url": public_url}
    run(paths, **listen, as_texts=as_texts, say=lambda line: say(line, err=True))
