"""``polyseme analogy MODEL A B C``: A is to B as C is to what?"""

from __future__ import annotations

import click

from polyseme.cli.tables import json_option, print_json
from polyseme.cli.words import answers_to_json, method_option, open_words, print_answers, restrict_option, topn_option


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
