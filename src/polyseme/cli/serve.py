"""``polyseme serve``: the API and the page."""

from __future__ import annotations

import click

from polyseme.cli.terminal import say


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; the first free one from 8617 on otherwise.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Another address than this machine's own; wants a token."
)
@click.option("--token", envvar="POLYSEME_TOKEN", help="What clients must send as Authorization: Bearer TOKEN.")
@click.option("--public-url", metavar="URL", help="Address of a proxy in front, such as https://words.example.org.")
def serve(paths: tuple[str, ...], port: int | None, host: str, token: str | None, public_url: str | None) -> None:
    """Serve models, indexes and corpora: a page to look inside, and a JSON API."""
    from polyseme.serve.run import serve as run

    run(paths, host=host, port=port, token=token, public_url=public_url, say=lambda line: say(line, err=True))
