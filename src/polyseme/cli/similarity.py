"""``polyseme similarity MODEL A B``: the cosine of two words, or of two texts."""

from __future__ import annotations

import click

from polyseme.cli.pooling import Pooling, pooling_flags
from polyseme.cli.show import json_option, print_json
from polyseme.cli.terminal import say


@pooling_flags
@click.command()
@click.argument("model")
@click.argument("a")
@click.argument("b")
@click.option("--texts", is_flag=True, help="Treat A and B as texts also for word vectors, as with --pool.")
@json_option
def similarity(model: str, a: str, b: str, texts: bool, as_json: bool, pooling: Pooling) -> None:
    """How similar A and B are, from -1 to 1: two words to word vectors, two texts to any other model.

    A context encoder, and word vectors with --texts or --pool, compare the means of the vectors of their words, or
    what --pool makes of them.
    """
    from polyseme.api import load
    from polyseme.words.vectors import WordVectors

    opened = load(model)
    if isinstance(opened, WordVectors) and not texts and not pooling.asked:
        cosine = opened.similarity(a, b)
    else:
        cosine = float(pooling.encoder(opened).similarity([a], [b])[0, 0])
    if as_json:
        print_json({"a": a, "b": b, "similarity": round(cosine, 6)})
    else:
        say(f"{cosine:.4f}")
