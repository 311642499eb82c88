"""``polyseme concordance CORPUS QUERY``: a string, a regular expression or words in context."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.flags import OneOf, choice_option, force_option, json_option
from polyseme.cli.tables import ROW_FORMATS, print_json, print_table, write_rows
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
@click.option("--format", "form", type=OneOf(ROW_FORMATS), help="Default: by the suffix of OUT.")
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
    from polyseme.search.kwic.concordance import concordance as find_matches

    matches = find_matches(_opened(corpus), query, mode, tag=tag)
    most = topn or (None if out else 20)
    columns: tuple[str, ...] = _LINES
    if collocates:
        near = matches.collocates(left=window, right=window, min_count=min_count, score=by, topn=most or 1 << 40)
        columns, rows = _COLLOCATES, [dataclasses.astuple(collocate) for collocate in near]
    elif documents:
        columns = _DOCUMENTS
        rows = [
            (document.document, document.source, document.count, document.tokens, round(document.per_million, 2))
            for document in matches.documents(most)
        ]
    else:
        shown = matches.lines(stop=most, sort=sort)
        rows = [_row(line) for line in shown]
    if out:
        write_rows(out, form, columns, rows, force=force)
    elif as_json:
        name = "collocates" if collocates else "by_document" if documents else "lines"
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"query": matches.query, **matches.to_json(), name: records})
    else:
        _print_facts(matches)
        if collocates or documents:
            print_table([column.replace("_", " ") for column in columns], rows)
        else:
            from polyseme.cli.tables import console, print_kwic

            print_kwic(console(), shown, scores=False, sources=True)
            if len(shown) < matches.count:
                rest = f"-n {matches.count} prints all, -o FILE.csv writes them"
                say(f"{len(shown):,} of {matches.count:,} shown; {rest}", err=True)


def _opened(path: str) -> Corpus:
    from polyseme.api import recognise
    from polyseme.cli.terminal import shown_progress
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


def _print_facts(matches: Concordance) -> None:
    spread = ""
    if matches.dispersion is not None:
        parts = matches.parts()
        n, total, what = matches.n_documents, matches.corpus.n_documents, "documents"
        if total < 2:
            n, total, what = sum(map(bool, parts)), len(parts), "equal parts"
        spread = f", in {n:,} of {total:,} {what}, DP {matches.dispersion:.2f}"
    hits = "hit" if matches.count == 1 else "hits"
    say(f"{matches.query}  {matches.count:,} {hits}, {matches.per_million:,.1f} per million words{spread}")
    if matches.count:
        parts = matches.parts()
        say(f"start {''.join(_BARS[-(-8 * part // max(parts))] for part in parts)} end")
