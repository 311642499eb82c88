"""``polyseme similarity MODEL A B``: the cosine of two words, or of two texts."""

from __future__ import annotations

import click

from polyseme.cli.pooling import PoolingFlags, pooling_flags
from polyseme.cli.tables import json_option, print_json
from polyseme.cli.terminal import say


@pooling_flags
@click.command()
@click.argument("model")
@click.argument("a")
@click.argument("b")
@click.option("--texts", is_flag=True, help="Treat A and B as texts also for word vectors, as with --pool.")
@json_option
def similarity(model: str, a: str, b: str, texts: bool, as_json: bool, pooling: PoolingFlags) -> None:
    """The similarity of A and B, from -1 to 1: two words for word vectors, two texts for any other model.

    Context encoders, and word vectors with --texts or --pool, compare the mean of the word vectors, or what --pool
    computes from them.
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
