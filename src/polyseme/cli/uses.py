"""``polyseme index`` and ``uses``: every occurrence of every word, and what it is used like."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import Console
from rich.text import Text
from threadpoolctl import threadpool_limits

from polyseme.cli.flags import OneOf, choice_option, force_flag, force_option, json_option, option_flags, out_folder
from polyseme.cli.tables import ROW_FORMATS, console, print_json, print_kwic, write_rows
from polyseme.cli.terminal import say_end, shown_progress
from polyseme.errors import FormatError, UnknownWord
from polyseme.search.occurrences.build import IndexOptions, build_index
from polyseme.search.occurrences.hits import Hit, WordSenses
from polyseme.search.occurrences.index import Index
from polyseme.search.occurrences.splits import split_words
from polyseme.search.occurrences.uses import USE_SORTS, Listing, UseOccurrence
from polyseme.text.tagged import named_tags

_COLUMNS = (
    "use", "score", "margin", "document", "source", "sentence", "tag", "before", "left", "match", "right", "behind",
)  # fmt: skip
_LISTED = 20  # occurrences of a use on the screen


def _index(model: str, corpus: str, out: str, resume: bool, force: bool, **given: Any) -> None:
    options = {name: value for name, value in given.items() if value is not None}
    begun = time.monotonic()
    with shown_progress() as progress:
        index = build_index(model, corpus, out, resume=resume, force=force, progress=progress, **options)
    facts = index.facts
    quality = f"recall {facts['recall']:.3f} over all words" if facts["search"] == "cells" else "exact"
    made = f"{len(index):,} occurrences of {len(index.words):,} words in {out}, {quality}"
    splits = [word for word, _ in split_words(index)][:8]
    if splits:
        made = f"{made}; words that split: {' '.join(splits)}"
    say_end(made, begun, then=f"polyseme uses {out} {splits[0] if splits else 'WORD'}")


index = click.Command(
    "index",
    params=[
        click.Argument(["model"], metavar="MODEL"),
        click.Argument(["corpus"], metavar="CORPUS"),
        click.Option(["-o", "--out"], required=True, callback=out_folder, help="Folder of the index."),
        click.Option(["--resume"], is_flag=True, help="Continue an interrupted index."),
        force_flag(),
        *option_flags(IndexOptions),
    ],
    callback=_index,
    help="Encode every occurrence of every word of CORPUS with MODEL, for `polyseme uses` and the page.",
)


@click.command()
@click.argument("index")
@click.argument("word")
@click.option("--in", "sentence", help="A sentence with the word: find occurrences used the same way.")
@click.option("--position", type=click.IntRange(0), help="Index of the word's token in the sentence, from 0.")
@click.option("--any-word", is_flag=True, help="With --in: occurrences of other words used the same way.")
@click.option("--use", type=click.IntRange(1), help="List all occurrences of this use, by its number.")
@choice_option("--sort", USE_SORTS, "With --use and --out: most typical first, or as in a concordance.")
@click.option("-o", "--out", help="Write all occurrences, or those of --use: .csv, .tsv or .jsonl; - is stdout.")
@click.option("--format", "form", type=OneOf(ROW_FORMATS), help="Default: by the suffix of OUT.")
@click.option("--compare", metavar="WORDVECTORS", help="Word vectors whose neighbours to show for comparison.")
@click.option(
    "-n", "--topn", type=click.IntRange(min=1), help="How many occurrences; default: 10, with --use 20, to a file all."
)
@click.option("--max-senses", type=click.IntRange(min=1), default=8, show_default=True, help="Maximum number of uses.")
@click.option("--layer", type=int, help="Use another layer stored in the index.")
@click.option("--model", help="New path of the index's model, if it was moved.")
@click.option("--corpus", help="New path of the index's corpus, if it was moved.")
@force_option
@json_option
def uses(
    index: str,
    word: str,
    sentence: str | None,
    position: int | None,
    any_word: bool,
    use: int | None,
    sort: str,
    out: str | None,
    form: str | None,
    compare: str | None,
    topn: int | None,
    max_senses: int,
    layer: int | None,
    model: str | None,
    corpus: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show how WORD is used in the indexed text; with --in, the occurrences used as in that sentence.

    Uses are groups of occurrences with similar contexts. Often they are senses (a surname, a measure word), sometimes
    two constructions with one sense. `sure` is a silhouette score: 1 means clearly separate, 0 overlapping.
    """
    if sentence is None and (any_word or position is not None):
        flag = "--any-word" if any_word else "--position"
        raise click.UsageError(f"{flag} needs --in: a sentence that contains the word")
    if sentence is not None and (use or out):
        raise click.UsageError(f"{'--use' if use else '--out'} lists the uses of a word; --in is about one sentence")
    # So little work that threads would only wait for each other.
    click.get_current_context().with_resource(threadpool_limits(1))
    opened = Index.open(index, model=model, corpus=corpus)
    opened.read_plainly()
    static = _static(compare, word, topn or 10) if compare else None
    if sentence is not None:
        _used_alike(opened, word, sentence, position, any_word, topn or 10, layer, static, as_json)
        return
    word_uses = opened.senses(word, max_senses=max_senses, layer=layer)
    if use or out:
        _list(Listing(opened, word_uses), use, sort, topn, out, form, force, as_json)
    elif as_json:
        print_json({**word_uses.to_json(), "static": static})
    else:
        to = console()
        print_uses(to, word_uses)
        print_tags(to, [hit.tag for sense in word_uses.senses for hit in sense.typical])
        print_static(to, word, static)


def print_uses(to: Console, word_uses: WordSenses, *, typical: int = 5) -> None:
    """The uses of a word, each with its share, silhouette score, label and typical sentences."""
    to.print(Text.assemble((word_uses.word, "bold red"), f"  {heading(word_uses)}"))
    for number, sense in enumerate(word_uses.senses, 1):
        label = " ".join(sense.substitutes) or "–"
        sure = "" if sense.sure is None else f"  sure {sense.sure:.2f}"
        head = Text.assemble(f"{number:>3}  ", (f"{sense.share:>4.0%}", "bold"), sure, "  ≈ ", (label, "green"))
        to.print(head)
        print_kwic(to, sense.typical[:typical], indent=5, scores=False)


def heading(word_uses: WordSenses) -> str:
    """How often the word occurs, and how many uses were word_uses."""
    drawn = f" ({word_uses.n_looked_at:,} of them sampled evenly)" if word_uses.n_looked_at < word_uses.count else ""
    n = len(word_uses.senses)
    sure = "" if word_uses.sure is None else f", sure {word_uses.sure:.2f} (1: far apart, 0: overlapping)"
    return f"{word_uses.count:,} occurrences{drawn}, {n} use{'s' if n > 1 else ''}{sure}"


def print_tags(to: Console, tags: list[str | None]) -> None:
    """What the shown tags mean, if known."""
    meanings = named_tags(tag for tag in tags if tag)
    if meanings:
        legend = ", ".join(f"{tag} {english} {chinese}" for tag, (english, chinese) in meanings.items())
        to.print(Text(f"tags: {legend}", "dim"))


def print_static(to: Console, word: str, static: list[tuple[str, float]] | None) -> None:
    """The neighbours of the static vector, which is the same for every use of the word."""
    if static is not None:
        near = "  ".join(other for other, _ in static) or "not in the word vectors"
        to.print(
            Text.assemble("\nstatic vector, the same for every use of ", (word, "bold red"), ":  ", (near, "yellow"))
        )


def _used_alike(
    index: Index,
    word: str,
    sentence: str,
    position: int | None,
    any_word: bool,
    topn: int,
    layer: int | None,
    static: list[tuple[str, float]] | None,
    as_json: bool,
) -> None:
    hits = index.same_sense(sentence, position, word, topn=topn, any_word=any_word, layer=layer)
    expected = index.expected(sentence, position, word, topn=8)
    cutoff = index.cutoff(any_word=any_word)
    if as_json:
        answer = {"cutoff": cutoff, "hits": [hit.to_json() for hit in hits], "expected": expected}
        print_json({"word": word, "sentence": sentence, **answer, "static": static})
        return
    to = console()
    sure, unsure = _parted(hits, cutoff)
    if expected:
        to.print(Text.assemble("expected there  ", (" ".join(expected), "green")))
    print_kwic(to, sure)
    if unsure:
        to.print(Text(f"below {cutoff:.2f}, as likely to be a different use:", "dim"))
        print_kwic(to, unsure, faded=True)
    print_tags(to, [hit.tag for hit in hits])
    print_static(to, word, static)


def _parted(hits: list[Hit], cutoff: float | None) -> tuple[list[Hit], list[Hit]]:
    bound = -2.0 if cutoff is None else cutoff
    return [hit for hit in hits if hit.score >= bound], [hit for hit in hits if hit.score < bound]


def _list(
    listing: Listing,
    use: int | None,
    sort: str,
    topn: int | None,
    out: str | None,
    form: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """All occurrences of a use on the screen, in a file, or as JSON."""
    lines = listing.lines(use, stop=topn or (None if out else _LISTED), sort=sort)
    if out:
        write_rows(out, form, _COLUMNS, [_row(line) for line in lines], force=force)
    elif as_json:
        print_json({"word": listing.found.word, "count": listing.count(use), "occurrences": [_plain(x) for x in lines]})
    else:
        to = console()
        to.print(f"{listing.found.word}  use {use}: {listing.count(use):,} of {listing.count():,} occurrences")
        print_kwic(to, lines, sources=True)
        print_tags(to, [line.tag for line in lines])


def _row(line: UseOccurrence) -> tuple[Any, ...]:
    text = line.text
    around = (line.before, text[: line.start], text[line.start : line.end], text[line.end :], line.behind)
    return (line.use, line.score, line.margin, line.document, line.source, line.sentence, line.tag, *around)


def _plain(line: UseOccurrence) -> dict[str, Any]:
    return dict(zip(_COLUMNS, _row(line), strict=True))


def _static(path: str, word: str, topn: int) -> list[tuple[str, float]]:
    from polyseme.api import load
    from polyseme.words.vectors import WordVectors

    vectors = load(path)
    if not isinstance(vectors, WordVectors):
        raise FormatError(f"{path} has no word vectors: --compare takes a model such as word2vec")
    try:
        return [(str(other), float(score)) for other, score in vectors.most_similar(word, topn=topn)]
    except UnknownWord:
        return []
