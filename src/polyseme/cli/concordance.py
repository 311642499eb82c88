"""``polyseme concordance CORPUS QUERY``: a string, a regular expression or words in context."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.rows_file import FORMATS, write_rows
from polyseme.cli.tables import OneOf, choice_option, force_option, json_option, print_json, print_table
from polyseme.cli.terminal import say

if TYPE_CHECKING:
    from polyseme.search.kwic.concordance import Concordance, Line
    from polyseme.text.corpus import Corpus

_BARS = " ▁▂▃▄▅▆▇█"
_LINES = ("document", "source", "sentence", "tag", "before", "left", "match", "right", "behind")
_COLLOCATES = ("word", "count", "left", "right", "in_corpus", "expected", "loglik", "mi", "logdice")
_DOCUMENTS = ("document", "source", "count", "tokens", "per_million")


@click.command()
@click.argument("corpus")
@click.argument("query")
@choice_option(
    "--mode",
    ("text", "regex", "words"),
    "text: any string, however the text is segmented. regex: a regular expression. words: "
    "segmented words, with * and ? as wildcards, and tags after a slash (打/v */n).",
)
@click.option("--tag", help="Only hits whose first word has this tag: n, or n* for all that start with n.")
@choice_option(
    "--sort", ("order", "left", "right", "match", "random"), "By the neighbouring words, or by the matched text."
)
@click.option("--collocates", is_flag=True, help="Show words that occur near it.")
@click.option("--documents", is_flag=True, help="Show its frequency in each document.")
@choice_option("--by", ("loglik", "logdice", "mi", "count"), "Score that sorts collocates.")
@click.option("--window", type=click.IntRange(1, 100), default=5, show_default=True, help="Words on either side.")
@click.option("--min-count", type=click.IntRange(1), default=3, show_default=True, help="Minimum count of a collocate.")
@click.option("-n", "--topn", type=click.IntRange(1), help="How many; default: 20, or all to a file.")
@click.option("-o", "--out", help="File to write: .csv, .tsv or .jsonl; - is stdout.")
@click.option("--format", "form", type=OneOf(FORMATS), help="Default: by the suffix of OUT.")
@force_option
@json_option
def concordance(
    corpus: str,
    query: str,
    mode: str,
    tag: str | None,
    sort: str,
    collocates: bool,
    documents: bool,
    by: str,
    window: int,
    min_count: int,
    topn: int | None,
    out: str | None,
    form: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show every match of QUERY in CORPUS in context (KWIC), with frequency, dispersion and collocates.

    CORPUS is a corpus, an index, or text, which is read as `polyseme corpus` would read it.
    """
    if collocates and documents:
        raise click.UsageError("--collocates and --documents print different tables: choose one")
    from polyseme.search.kwic.concordance import concordance as look_for

    found = look_for(_opened(corpus), query, mode, tag=tag)
    most = topn or (None if out else 20)
    columns: tuple[str, ...] = _LINES
    if collocates:
        near = found.collocates(left=window, right=window, min_count=min_count, score=by, topn=most or 1 << 40)
        columns, rows = _COLLOCATES, [dataclasses.astuple(one) for one in near]
    elif documents:
        counted = found.documents(most)
        columns = _DOCUMENTS
        rows = [(one.document, one.source, one.count, one.tokens, round(one.per_million, 2)) for one in counted]
    else:
        shown = found.lines(stop=most, sort=sort)
        rows = [_row(line) for line in shown]
    if out:
        write_rows(out, form, columns, rows, force=force)
    elif as_json:
        name = "collocates" if collocates else "by_document" if documents else "lines"
        print_json(
            {"query": found.query, **found.to_json(), name: [dict(zip(columns, row, strict=True)) for row in rows]}
        )
    else:
        _print_facts(found)
        if collocates or documents:
            print_table([column.replace("_", " ") for column in columns], rows)
        else:
            from polyseme.cli.kwic import console, print_kwic

            print_kwic(console(), shown, scores=False, sources=True)
            if len(shown) < found.count:
                rest = f"-n {found.count} prints all, -o FILE.csv writes them"
                say(f"{len(shown):,} of {found.count:,} shown; {rest}", err=True)


def _opened(path: str) -> Corpus:
    from polyseme.api import recognise
    from polyseme.cli.tables import shown_progress
    from polyseme.text.corpus import Corpus

    kind = recognise(path) if path != "-" else "text"
    if kind == "index":
        from polyseme.search.occurrences.index import Index

        return Index.open(path).corpus
    if kind == "corpus":
        return Corpus.open(path)
    with shown_progress() as progress:
        return Corpus.build(path, progress=progress)


def _row(line: Line) -> tuple[Any, ...]:
    text = line.text
    left, match, right = text[: line.start], text[line.start : line.end], text[line.end :]
    return (line.document, line.source, line.sentence, line.tag, line.before, left, match, right, line.behind)


def _print_facts(found: Concordance) -> None:
    spread = ""
    if found.dispersion is not None:
        parts = found.parts()
        places = (found.n_documents, found.corpus.n_documents, "documents")
        hit, of, what = places if found.corpus.n_documents > 1 else (sum(map(bool, parts)), len(parts), "equal parts")
        spread = f", in {hit:,} of {of:,} {what}, DP {found.dispersion:.2f}"
    hits = "hit" if found.count == 1 else "hits"
    say(f"{found.query}  {found.count:,} {hits}, {found.per_million:,.1f} per million words{spread}")
    if found.count:
        parts = found.parts()
        say(f"start {''.join(_BARS[-(-8 * part // max(parts))] for part in parts)} end")
