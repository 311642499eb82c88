"""``polyseme senses``: the senses of a word, or the occurrences that mean the same as in a sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from polyseme.cli.kwic import console, print_kwic
from polyseme.cli.show import json_option, print_json
from polyseme.errors import FormatError, UnknownWord
from polyseme.search.hits import Hit, WordSenses
from polyseme.search.index import Index


@click.command()
@click.argument("index")
@click.argument("word")
@click.option("--in", "sentence", help="A sentence with the word: find occurrences that mean the same.")
@click.option("--position", type=click.IntRange(0), help="Which token of the sentence is meant, counted from 0.")
@click.option("--any-word", is_flag=True, help="With --in: occurrences of other words that mean the same there.")
@click.option("--compare", metavar="WORDVECTORS", help="Word vectors to show the static answer of.")
@click.option("-n", "--topn", type=click.IntRange(min=1), default=10, show_default=True, help="How many occurrences.")
@click.option("--max-senses", type=click.IntRange(min=1), default=8, show_default=True, help="How many senses at most.")
@click.option("--layer", type=int, help="Another layer of those that the index keeps.")
@click.option("--model", help="Where the index's model is now, if it was moved.")
@click.option("--corpus", help="Where the index's corpus is now, if it was moved.")
@json_option
def senses(
    index: str,
    word: str,
    sentence: str | None,
    position: int | None,
    any_word: bool,
    compare: str | None,
    topn: int,
    max_senses: int,
    layer: int | None,
    model: str | None,
    corpus: str | None,
    as_json: bool,
) -> None:
    """Show the senses of WORD as the indexed text uses it; with --in, the occurrences that mean the same."""
    if sentence is None and (any_word or position is not None):
        flag = "--any-word" if any_word else "--position"
        raise click.UsageError(f"{flag} needs --in: a sentence in which the word is used")
    opened = Index.open(index, model=model, corpus=corpus)
    static = _static(compare, word, topn) if compare else None
    if sentence is not None:
        hits = opened.same_sense(sentence, position, word, topn=topn, any_word=any_word, layer=layer)
        if as_json:
            print_json({"word": word, "sentence": sentence, "hits": [_plain(hit) for hit in hits], "static": static})
        else:
            out = console()
            print_kwic(out, hits)
            print_static(out, word, static)
        return
    found = opened.senses(word, max_senses=max_senses, layer=layer)
    if as_json:
        print_json({**_senses_to_json(found), "static": static})
    else:
        out = console()
        print_senses(out, found)
        print_static(out, word, static)


def print_senses(out: Console, found: WordSenses, *, typical: int = 5) -> None:
    """The senses of a word, each with its share, its label and typical sentences."""
    n = len(found.senses)
    out.print(
        Text.assemble((found.word, "bold red"), f"  {found.count:,} occurrences, {n} sense{'s' if n > 1 else ''}")
    )
    for number, sense in enumerate(found.senses, 1):
        label = " ".join(sense.substitutes) or "–"
        out.print(Text.assemble(f"{number:>3}  ", (f"{sense.share:>4.0%}", "bold"), "  ≈ ", (label, "green")))
        print_kwic(out, sense.typical[:typical], indent=5, scores=False)


def print_static(out: Console, word: str, static: list[tuple[str, float]] | None) -> None:
    """What word vectors say, which know one vector for every use of the word."""
    if static is not None:
        near = "  ".join(other for other, _ in static) or "not among the word vectors"
        out.print(Text.assemble("\nstatic vectors, one for every use of ", (word, "bold red"), ":  ", (near, "yellow")))


def _static(path: str, word: str, topn: int) -> list[tuple[str, float]]:
    from polyseme.api import load
    from polyseme.words.vectors import WordVectors

    vectors = load(path)
    if not isinstance(vectors, WordVectors):
        raise FormatError(f"{path} holds no word vectors: --compare takes a model such as word2vec")
    try:
        return [(str(other), float(score)) for other, score in vectors.most_similar(word, topn=topn)]
    except UnknownWord:
        return []


def _plain(hit: Hit) -> dict[str, Any]:
    return dataclasses.asdict(hit)


def _senses_to_json(found: WordSenses) -> dict[str, Any]:
    return {
        "word": found.word,
        "count": found.count,
        "senses": [dataclasses.asdict(sense) for sense in found.senses],
    }
