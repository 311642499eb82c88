"""``polyseme fill MODEL TEXT``: what a language model predicts for each [MASK]."""

from __future__ import annotations

import click

from polyseme.cli.tables import json_option, print_json
from polyseme.cli.words import answers_to_json, print_answers, topn_option
from polyseme.errors import OptionError
from polyseme.interfaces import MASK, LanguageModel


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
    if not (isinstance(opened, LanguageModel) and opened.language):
        raise OptionError(f"{model} (method {opened.method}) predicts no words: fill needs a language model")
    found = opened.fill(text, topn)
    if as_json:
        print_json([answers_to_json(answers, "probability") for answers in found])
        return
    for number, answers in enumerate(found, start=1):
        if len(found) > 1:
            click.echo(f"{MASK} {number}:")
        print_answers(answers, "probability")
