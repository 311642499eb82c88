"""``polyseme fill MODEL TEXT``: what a language model predicts for each [MASK]."""

from __future__ import annotations

from typing import Any

import click

from polyseme.cli.show import json_option, print_json
from polyseme.cli.words import answers_to_json, print_answers, topn_option
from polyseme.errors import OptionError

MASK = "[MASK]"


@click.command()
@click.argument("model")
@click.argument("text")
@topn_option
@json_option
def fill(model: str, text: str, topn: int, as_json: bool) -> None:
    """The words that the language model MODEL predicts for each [MASK] of TEXT, with probabilities.

    \b
    polyseme fill bert-base-chinese "他打了个[MASK]。"
    """
    from polyseme.api import load

    opened = load(model)
    if getattr(opened, "language", None) is None:
        raise OptionError(f"{model} (method {opened.method}) predicts no words: fill needs a language model")
    found = _found(opened, text, topn)
    if as_json:
        print_json([answers_to_json(answers, "probability") for answers in found])
        return
    for number, answers in enumerate(found, start=1):
        if len(found) > 1:
            click.echo(f"{MASK} {number}:")
        print_answers(answers, "probability")


def _found(model: Any, text: str, topn: int) -> list[list[tuple[str, float]]]:
    """Predictions for every mask. A model without a mask token is asked about a placeholder word that it does not
    see."""
    if hasattr(model, "fill"):
        filled: list[list[tuple[str, float]]] = model.fill(text, topn)
        return filled
    parts = text.split(MASK)
    if len(parts) != 2:
        raise OptionError(f"mark the one position to fill with {MASK}")
    left, right = map(model.tokenize, parts)
    return [model.substitutes([*left, MASK, *right], len(left), topn)]
