"""``polyseme search MODEL TEXTS QUERY``: the nearest lines or documents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.flags import PoolingFlags, choice_option, force_option, json_option, pooling_flags, with_flags
from polyseme.cli.tables import print_json
from polyseme.cli.terminal import say, say_end, shown_progress
from polyseme.text.options import Reading

if TYPE_CHECKING:
    from rich.text import Text

    from polyseme.search.texts.text_index import TextHit, TextIndex

_LONGEST = 400  # characters of a text that are shown


@pooling_flags
@with_flags(Reading, "encoding", "errors")
@click.command()
@click.argument("model")
@click.argument("texts")
@click.argument("query", nargs=-1)
@click.option("-k", "--topn", "k", default=10, show_default=True, type=click.IntRange(min=1), help="How many results.")
@choice_option("--how", ("vectors", "words", "both"), "By meaning, by words (BM25), or by both rankings combined.")
@choice_option("--unit", ("lines", "documents"), "Search unit: a line (in a corpus: a sentence), or a document.")
@click.option("--context", default=1, show_default=True, type=click.IntRange(0, 20), help="Neighbouring texts to show.")
@click.option("-o", "--out", help="Save the index in this folder, to be given as TEXTS later.")
@click.option("--add", multiple=True, metavar="TEXT", help="Add texts to the index TEXTS (or to a copy, -o).")
@force_option
@json_option
def search(
    model: str,
    texts: str,
    query: tuple[str, ...],
    k: int,
    how: str,
    unit: str,
    context: int,
    out: str | None,
    add: tuple[str, ...],
    force: bool,
    as_json: bool,
    encoding: str | None,
    errors: str | None,
    pooling: PoolingFlags,
) -> None:
    """The texts of TEXTS nearest to QUERY.

    TEXTS is a file, a folder or a corpus, indexed first, or an index saved with -o. For models of words or of words in
    context, --pool combines word vectors into text vectors; a saved index keeps its own pooling.
    """
    from polyseme.api import load
    from polyseme.errors import OptionError
    from polyseme.search.texts.text_index import TextIndex, is_text_index

    if not query and not out and not add:
        raise OptionError("give a query, or -o to save the index")
    encoder = pooling.encoder(load(model))
    begun = time.monotonic()
    reading: dict[str, Any] = {"encoding": encoding, "errors": errors or "strict"}
    with shown_progress() as progress:
        if is_text_index(texts):
            index = TextIndex.open(texts, encoder)
            if add:
                index = index.append(add, out, unit=unit, force=force, progress=progress, **reading)
            elif out:
                index.save(out, force=force)
                index = TextIndex.open(out, encoder)
        else:
            index = TextIndex.build(encoder, [texts, *add], out, unit=unit, force=force, progress=progress, **reading)
    if out or add:
        _say_made(index, begun, model)
    for number, asked in enumerate(query):
        hits = index.search(asked, k, how=how, context=context)
        if as_json:
            print_json({"query": asked, "hits": [hit.to_json() for hit in hits]})
        else:
            say("\n" * bool(number) + asked if len(query) > 1 else "", err=False)
            _print_hits(hits)


def _say_made(index: TextIndex, begun: float, model: str) -> None:
    quality = f"recall {index.facts['recall']:.3f}" if index.facts["search"] == "cells" else "exact"
    say_end(
        f"{len(index):,} texts in {index.path}, {quality}", begun, then=f"polyseme search {model} {index.path} QUERY"
    )


def _print_hits(hits: list[TextHit]) -> None:
    from polyseme.cli.tables import console

    to = console()
    if not hits:
        say("nothing found: the model knows no word of the query")
    for rank, hit in enumerate(hits, 1):
        place = f"{hit.source}:{hit.line}" if hit.source else str(hit.line)
        to.print(f"{rank:>3}  {hit.score:.4f}  {place}")
        for line in hit.before:
            to.print(f"     {_short(line)}", style="dim")
        to.print(_marked(hit))
        for line in hit.after:
            to.print(f"     {_short(line)}", style="dim")


def _marked(hit: TextHit) -> Text:
    from rich.text import Text

    shown = Text("   › ")
    text = Text(" ".join(hit.text[:_LONGEST].split("\n")) + ("…" if len(hit.text) > _LONGEST else ""))
    for start, end in hit.marks:
        text.stylize("bold yellow", start, end)
    return shown + text


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST // 2 else f"{line[: _LONGEST // 2]}…"
