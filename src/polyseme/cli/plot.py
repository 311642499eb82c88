"""``polyseme plot``: a word map, training curves or the uses of a word, as .png, .svg or .pdf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from polyseme.cli.flags import choice_option, force_option
from polyseme.cli.terminal import say

_out: Callable[[Any], Any] = click.option("-o", "--out", required=True, help="Plot to write: .png, .svg or .pdf.")


@click.group()
def plot() -> None:
    """Plot a word map, training curves, or the uses of a word."""


@plot.command("map")
@click.argument("model")
@choice_option("--method", ("pca", "tsne"), "Projection to the plane; t-SNE takes longer.")
@click.option(
    "--size", type=click.IntRange(2, 5000), default=600, show_default=True, help="How many of the most frequent words."
)
@_out
@force_option
def draw_map(model: str, method: str, size: int, out: str, force: bool) -> None:
    """Plot the frequent words of the word vectors MODEL in the plane, coloured by cluster."""
    from polyseme.api import load
    from polyseme.cli.words import only_words
    from polyseme.view import plots
    from polyseme.view.figure import check_picture

    check_picture(out, force=force)
    vectors = only_words(load(model), model)
    n = plots.draw_map(vectors, out, method=method, size=size, title=Path(model).name, force=force)
    say(f"{n:,} words in {out} ({method})", err=True)


@plot.command("curves")
@click.argument("models", nargs=-1, required=True)
@click.option("--figure", help="Which metric; default: perplexity or loss.")
@_out
@force_option
def draw_curves(models: tuple[str, ...], figure: str | None, out: str, force: bool) -> None:
    """Plot the training curves of MODELS on one axis."""
    from polyseme.api import load
    from polyseme.view import plots
    from polyseme.view.figure import check_picture

    check_picture(out, force=force)
    names = [Path(path).name for path in models]
    curves = {
        name if names.count(name) == 1 else path: load(path).about.curve
        for name, path in zip(names, models, strict=True)
    }
    chosen = plots.draw_curves(curves, figure, out, force=force)
    drawn = "1 model" if len(curves) == 1 else f"{len(curves)} models"
    say(f"{chosen.replace('_', ' ')} of {drawn} in {out}", err=True)


@plot.command("uses")
@click.argument("index")
@click.argument("word")
@_out
@force_option
def draw_uses(index: str, word: str, out: str, force: bool) -> None:
    """Plot the occurrences of WORD in INDEX, coloured by use."""
    from polyseme.cli.uses import heading
    from polyseme.search.occurrences.index import Index
    from polyseme.view import plots
    from polyseme.view.figure import check_picture

    check_picture(out, force=force)
    word_uses = Index.open(index).senses(word)
    names = [f"{sense.share:.0%}  {' '.join(sense.substitutes[:4])}" for sense in word_uses.senses]
    title = f"{word}: {heading(word_uses)}"
    plots.draw_groups(word_uses.points, word_uses.labels, names, title, out, force=force)
    say(f"{len(word_uses.senses)} uses of {word} in {out}", err=True)
