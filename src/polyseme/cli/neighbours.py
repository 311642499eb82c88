"""``polyseme neighbours MODEL [WORD...]``: nearest neighbours; without words, a prompt or words from a pipe."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.tables import json_option, print_json
from polyseme.cli.terminal import say
from polyseme.cli.words import answers_to_json, open_words, print_answers, restrict_option, topn_option
from polyseme.errors import UnknownWord

if TYPE_CHECKING:
    from polyseme.words.vectors import Neighbours, WordVectors

BATCH = 256


@click.command()
@click.argument("model")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@topn_option
@restrict_option
@json_option
def neighbours(model: str, words: tuple[str, ...], topn: int, restrict: int | None, as_json: bool) -> None:
    """The nearest neighbours of each WORD.

    Without a word: a prompt on a terminal, otherwise words are read from stdin, one per line.
    """
    wv = open_words(model)
    if not words and sys.stdin.isatty():
        _prompt(wv, topn, restrict)
        return
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    asked = iter(words) if words else (line.strip() for line in sys.stdin if line.strip())
    missing = 0
    records: list[dict[str, Any]] = []
    for word, answer in _answers(wv, asked, topn, restrict):
        if isinstance(answer, UnknownWord):
            missing += 1
            records.append({"word": word, "error": str(answer)})
            if not as_json:
                say(f"polyseme: {answer}", err=True)
        else:
            records.append({"word": word, "neighbours": answers_to_json(answer, "similarity")})
            if not as_json:
                say("" if len(words) == 1 else f"{word}:", nl=len(words) != 1)
                print_answers(answer, "similarity")
    if as_json:
        print_json(records)
    if missing:
        raise click.exceptions.Exit(1)


def _answers(
    wv: WordVectors, words: Iterator[str], topn: int, restrict: int | None
) -> Iterator[tuple[str, Neighbours | UnknownWord]]:
    """Each word with its neighbours, computed in batches, or why it has none."""
    while batch := list(islice(words, BATCH)):
        unknown = {word: error for word in dict.fromkeys(batch) if (error := _why_unknown(wv, word))}
        known = [word for word in dict.fromkeys(batch) if word not in unknown]
        found = dict(zip(known, wv.most_similar_batch(known, topn, restrict), strict=True))
        for word in batch:
            yield word, found[word] if word in found else unknown[word]


def _why_unknown(wv: WordVectors, word: str) -> UnknownWord | None:
    try:
        wv[word]
    except UnknownWord as error:
        return error
    return None


def _prompt(wv: WordVectors, topn: int, restrict: int | None) -> None:
    say(f"{len(wv):,} words. Type a word, or several to add; words after a - are subtracted. Ctrl-D quits.", err=True)
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            say(err=True)
            return
        if not line:
            continue
        try:
            plus, minus = ([line], []) if line in wv.key_to_index else _terms(line)
            print_answers(wv.most_similar(plus, minus, topn, restrict), "similarity")
        except UnknownWord as error:
            say(str(error), err=True)


def _terms(line: str) -> tuple[list[str], list[str]]:
    """Split ``king woman - man`` into the words to add and the words to subtract."""
    words = line.split()
    cut = words.index("-") if "-" in words else len(words)
    plus, minus = words[:cut], [word for word in words[cut:] if word != "-"]
    return (plus, minus) if plus or minus else ([line], [])
