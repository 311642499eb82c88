"""``polyseme similarity MODEL A B``: the cosine of two words, or of two texts."""

from __future__ import annotations

import click

from polyseme.cli.show import json_option, print_json
from polyseme.cli.terminal import say


@click.command()
@click.argument("model")
@click.argument("a")
@click.argument("b")
@click.option("--texts", is_flag=True, help="A and B are texts for word vectors too: the means of their words.")
@json_option
def similarity(model: str, a: str, b: str, texts: bool, as_json: bool) -> None:
    """How similar A and B are, from -1 to 1: two words to word vectors, two texts to any other model.

    A context encoder compares the means of the vectors of their words.
    """
    from polyseme.api import load
    from polyseme.sentences.lift import lift
    from polyseme.words.vectors import WordVectors

    opened = load(model)
    if isinstance(opened, WordVectors) and not texts:
        cosine = opened.similarity(a, b)
    else:
        cosine = float(lift(opened, "sentences").similarity([a], [b])[0, 0])
    if as_json:
        print_json({"a": a, "b": b, "similarity": round(cosine, 6)})
    else:
        say(f"{cosine:.4f}")
