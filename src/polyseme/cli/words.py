"""Shared by the commands that query word vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.tables import choice_option, print_table

if TYPE_CHECKING:
    from polyseme.words.vectors import Neighbours, WordVectors

topn_option: Callable[[Any], Any] = click.option(
    "--topn", "-n", default=10, show_default=True, type=click.IntRange(min=1), help="How many results."
)
restrict_option: Callable[[Any], Any] = click.option(
    "--restrict", type=click.IntRange(min=1), help="Search only this many most frequent words."
)
method_option = choice_option(
    "--method",
    ("add", "mul"),
    "Analogies. add: nearest to b - a + c. mul: product of similarities, which no single term can dominate.",
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


def answers_to_json(answers: Neighbours, score: str) -> list[dict[str, Any]]:
    """For programs."""
    return [{"word": word, score: round(value, 6)} for word, value in answers]


def print_answers(answers: Neighbours, score: str) -> None:
    """For people."""
    print_table(("word", score), answers)
