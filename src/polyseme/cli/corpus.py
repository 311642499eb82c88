"""``polyseme corpus``: raw text to a corpus on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from polyseme.cli.show import choice_option, json_option, out_folder, print_json, shown_progress
from polyseme.cli.terminal import say

TEXT_OPTIONS = (
    choice_option(
        "--segment",
        ("auto", "jieba", "char", "space", "english"),
        "How text is cut into words; auto goes by script.",
    ),
    click.option("--words", metavar="FILE", help="User dictionary for jieba: one word a line."),
    choice_option(
        "--normalise", ("nfkc", "none"), "ＡＢＣ１２３ to ABC123 and the like; Chinese punctuation stays wide."
    ),
    choice_option("--script", ("keep", "simplified", "traditional"), "繁→简 or 简→繁."),
    choice_option("--case", ("keep", "lower"), "Letters."),
    choice_option(
        "--format",
        ("auto", "text", "wrapped", "jsonl", "segmented", "tagged"),
        "What a line is: a paragraph, part of one, a JSON record, words, word/TAG.",
    ),
    click.option("--field", default="text", show_default=True, help="The field of a JSON record."),
    choice_option(
        "--documents",
        ("auto", "file", "blank-line", "line"),
        "What separates documents; auto: blank lines in one file, files where there are several.",
    ),
    click.option("--encoding", help="Of the text; found by itself if UTF-8, UTF-16, GB18030, Big5 or Windows-1252."),
    choice_option("--errors", ("strict", "replace"), "Bad bytes: refuse, or replace them by �."),
)


def text_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The flags that say how raw text is read and cut; ``corpus``, ``info`` and ``train`` share them."""
    for option in reversed(TEXT_OPTIONS):
        command = option(command)
    return command


def segmentation_of(segment: str, words: str | None, normalise: str, script: str, case: str) -> Any:
    """The Segmentation that the flags ask for."""
    from polyseme.text.segment import Segmentation, read_words

    kept = read_words(words) if words else ()
    return Segmentation(segment, normalise=normalise, script=script, case=case, words=kept)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="TEXT...")
@click.option("-o", "--out", required=True, callback=out_folder, help="Folder of the corpus.")
@text_options
@click.option("--min-count", type=click.IntRange(1), default=1, show_default=True, help="Leave rarer words out.")
@click.option("--max-size", type=click.IntRange(1), help="Keep at most so many words.")
@click.option("--workers", type=click.IntRange(1), help="Cores to use; all unless given.")
@json_option
def corpus(
    sources: tuple[str, ...],
    out: str,
    segment: str,
    words: str | None,
    normalise: str,
    script: str,
    case: str,
    min_count: int,
    max_size: int | None,
    workers: int | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Build a corpus from text: files, folders, .gz .bz2 .xz, .jsonl, or - for stdin."""
    from polyseme.disk.atomic import check_replaceable
    from polyseme.text.corpus import Corpus
    from polyseme.text.layout import MARKER

    check_replaceable(out, marker=MARKER)
    segmentation = segmentation_of(segment, words, normalise, script, case)
    begun = time.monotonic()
    limits: dict[str, Any] = {"min_count": min_count, "max_size": max_size, "workers": workers}
    with shown_progress() as progress:
        built = Corpus.build(sources, out, segment=segmentation, progress=progress, **limits, **reading)
    facts = {**built.facts, "vocabulary": built.n_vocabulary}
    if as_json:
        print_json({"corpus": out, **facts, "fingerprint": built.fingerprint})
        return
    parts = [(facts[name], name) for name in ("tokens", "sentences", "documents")]
    shown = ", ".join(f"{number:,} {name[:-1] if number == 1 else name}" for number, name in parts)
    seconds = time.monotonic() - begun
    say(f"corpus in {out}: {shown}, vocabulary {facts['vocabulary']:,} ({seconds:.1f} s)", err=True)
