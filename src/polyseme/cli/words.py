"""``polyseme neighbours``, ``analogy`` and ``distil``: word vectors, asked, and made of a context encoder."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.flags import force_flag, json_option, method_option, option_flags, out_folder, topn_option
from polyseme.cli.tables import answers_to_json, print_answers, print_json
from polyseme.cli.terminal import say, say_end, shown_progress
from polyseme.errors import UnknownWord
from polyseme.words.distil import DistilOptions

if TYPE_CHECKING:
    from polyseme.words.vectors import Neighbours, WordVectors


BATCH = 256  # words that are looked up together

restrict_option: Callable[[Any], Any] = click.option(
    "--restrict", type=click.IntRange(min=1), help="Search only this many most frequent words."
)


def open_words(path: str) -> WordVectors:
    """The word vectors at a path, or an error that says what is there instead."""
    from polyseme.api import load

    return only_words(load(path), path)


def only_words(model: Any, path: str) -> WordVectors:
    """The model itself, if it is word vectors; otherwise the same error."""
    from polyseme.errors import FormatError
    from polyseme.interfaces import ContextEncoder
    from polyseme.words.vectors import WordVectors

    if not isinstance(model, WordVectors):
        hint = ": polyseme distil turns it into word vectors" if isinstance(model, ContextEncoder) else ""
        raise FormatError(f"{path} has method {model.method}, but this needs one vector per word{hint}")
    return model


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
        neighbours = dict(zip(known, wv.most_similar_batch(known, topn, restrict), strict=True))
        for word in batch:
            yield word, neighbours[word] if word in neighbours else unknown[word]


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


@click.command()
@click.argument("model")
@click.argument("a")
@click.argument("b")
@click.argument("c")
@method_option
@topn_option
@restrict_option
@json_option
def analogy(model: str, a: str, b: str, c: str, method: str, topn: int, restrict: int | None, as_json: bool) -> None:
    """A is to B as C is to what? For example: 男人 国王 女人."""
    answers = open_words(model).analogy(a, b, c, method, topn, restrict)
    score = "similarity" if method == "add" else "score"
    if as_json:
        print_json({"a": a, "b": b, "c": c, "method": method, "answers": answers_to_json(answers, score)})
    else:
        print_answers(answers, score)


def _distil(model: str, sources: tuple[str, ...], out: str, resume: bool, force: bool, **given: Any) -> None:
    from polyseme.api import distil as run

    options = {name: value for name, value in given.items() if value is not None}
    source = sources[0] if len(sources) == 1 else sources
    begun = time.monotonic()
    with shown_progress() as progress:
        vectors = run(model, source, out=out, resume=resume, force=force, progress=progress, **options)
    made = f"{len(vectors):,} words with {vectors.vector_size} dimensions in {out}"
    say_end(made, begun, then=f"polyseme neighbours {out} WORD")


distil = click.Command(
    "distil",
    params=[
        click.Argument(["model"], metavar="MODEL"),
        click.Argument(["sources"], nargs=-1, required=True, metavar="TEXT_OR_CORPUS..."),
        click.Option(["-o", "--out"], required=True, callback=out_folder, help="Folder of the word vectors."),
        click.Option(["--resume"], is_flag=True, help="Continue an interrupted run."),
        force_flag(),
        *(flag for flag in option_flags(DistilOptions) if flag.name != "encoder"),
    ],
    callback=_distil,
    help="Turn a context encoder into word vectors: each word of the text gets the mean of the "
    "vectors that MODEL gives its occurrences. The result works with neighbours, analogy, "
    "evaluate and the map like other word vectors.",
)
