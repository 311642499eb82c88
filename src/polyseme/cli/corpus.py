"""``polyseme corpus``: raw text to a corpus on disk."""

from __future__ import annotations

import time
from typing import Any

import click

from polyseme.cli.flags import given_flags, with_flags
from polyseme.cli.tables import force_option, json_option, out_folder, print_json, say_end, shown_progress
from polyseme.text.options import READING, Reading


@with_flags(Reading)
@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="TEXT...")
@click.option("-o", "--out", required=True, callback=out_folder, help="Folder of the corpus.")
@click.option("--min-count", type=click.IntRange(1), default=1, show_default=True, help="Drop rarer words.")
@click.option("--max-size", type=click.IntRange(1), help="Keep at most this many words.")
@click.option("--workers", type=click.IntRange(1), help="CPU cores to use; default: all.")
@force_option
@json_option
@click.pass_context
def corpus(
    ctx: click.Context,
    /,
    sources: tuple[str, ...],
    out: str,
    min_count: int,
    max_size: int | None,
    workers: int | None,
    force: bool,
    as_json: bool,
    **_: Any,
) -> None:
    """Build a corpus from text: files, folders, .gz .bz2 .xz, .jsonl, or - for stdin."""
    from polyseme.text.corpus import Corpus

    reading = given_flags(ctx, READING)
    begun = time.monotonic()
    limits: dict[str, Any] = {"min_count": min_count, "max_size": max_size, "workers": workers}
    with shown_progress() as progress:
        built = Corpus.build(sources, out, force=force, progress=progress, **limits, **reading)
    facts = {**built.facts, "vocabulary": built.n_vocabulary}
    if as_json:
        print_json({"corpus": out, **facts, "fingerprint": built.fingerprint})
        return
    parts = [(facts[name], name) for name in ("tokens", "sentences", "documents")]
    shown = ", ".join(f"{number:,} {name[:-1] if number == 1 else name}" for number, name in parts)
    made = f"corpus in {out}: {shown}, vocabulary {facts['vocabulary']:,}"
    say_end(made, begun, then=f"polyseme train word2vec {out} -o MODEL")
