"""``polyseme compare``: models or methods on the same files."""

from __future__ import annotations

import logging
from typing import Any

import click

from polyseme.cli.show import force_option, json_option, print_json, print_table, shown_progress

log = logging.getLogger(__name__)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="CORPUS|MODEL...")
@click.option("--on", "files", multiple=True, required=True, metavar="FILE", help="A test file; repeatable.")
@click.option(
    "--methods",
    help="Methods to train on a text, separated by commas; default: all that give word vectors.",
)
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="For methods trained by time.")
@click.option("--picture", help="Plot the scores to this .png, .svg or .pdf file.")
@force_option
@json_option
def compare(
    paths: tuple[str, ...],
    files: tuple[str, ...],
    methods: str | None,
    minutes: float | None,
    picture: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compare models on the same test files: one table, one plot. Given a corpus or text, methods are first trained
    on it with their defaults."""
    from polyseme import catalog
    from polyseme.api import load
    from polyseme.evaluate.compare import Comparison, Entry, examine, train_methods
    from polyseme.evaluate.kinds import recognise_kind
    from polyseme.text.corpus import Corpus, is_corpus
    from polyseme.view.figure import check_picture

    if picture:
        check_picture(picture, force=force)
    names = [row.name for row in catalog.METHODS if row.kind == "words"] if methods is None else methods.split(",")
    for name in names:
        catalog.find(name.strip())
    for file in files:  # a wrong name among them is told before any work
        recognise_kind(file)
    entries: list[Entry] = []
    with shown_progress() as progress:
        for path in paths:
            if not _is_text(path):
                entries.append(examine(path, load(path), files))
                continue
            corpus = Corpus.open(path) if is_corpus(path) else Corpus.build(path, progress=progress)
            trained: Any = train_methods(corpus, [name.strip() for name in names], minutes=minutes, progress=progress)
            for name, model, seconds in trained:
                entry = examine(name if len(paths) == 1 else f"{path} {name}", model, files)
                entry.cpu_seconds = seconds
                entries.append(entry)
    found = Comparison(entries, list(files))
    if picture:
        from polyseme.view.plots import draw_comparison

        figures = {found.heading(file): [entry.value(file) for entry in entries] for file in files}
        draw_comparison([entry.name for entry in entries], figures, picture, force=force)
    if as_json:
        print_json([entry.to_json() for entry in found.entries])
        return
    print_table(*found.table())
    for warning in found.warnings():
        log.warning("%s", warning)


def _is_text(path: str) -> bool:
    """Whether methods should be trained on this path: a corpus, raw text, or a folder of text."""
    from polyseme.api import recognise
    from polyseme.text.corpus import is_corpus

    return is_corpus(path) or recognise(path) in ("text", "folder", "empty")
