"""``polyseme index``: every occurrence of every word, with its vector."""

from __future__ import annotations

import time
from typing import Any

import click

from polyseme.cli.flags import option_flags
from polyseme.cli.tables import force_flag, out_folder, say_end, shown_progress
from polyseme.search.occurrences.build import IndexOptions, build_index
from polyseme.search.occurrences.splits import split_words


def _call(model: str, corpus: str, out: str, resume: bool, force: bool, **given: Any) -> None:
    options = {name: value for name, value in given.items() if value is not None}
    begun = time.monotonic()
    with shown_progress() as progress:
        index = build_index(model, corpus, out, resume=resume, force=force, progress=progress, **options)
    facts = index.facts
    found = f"recall {facts['recall']:.3f} over all words" if facts["search"] == "cells" else "exact"
    made = f"{len(index):,} occurrences of {len(index.words):,} words in {out}, {found}"
    splits = [word for word, _ in split_words(index)][:8]
    if splits:
        made = f"{made}; words that split: {' '.join(splits)}"
    say_end(made, begun, then=f"polyseme uses {out} {splits[0] if splits else 'WORD'}")


index = click.Command(
    "index",
    params=[
        click.Argument(["model"], metavar="MODEL"),
        click.Argument(["corpus"], metavar="CORPUS"),
        click.Option(["-o", "--out"], required=True, callback=out_folder, help="Folder of the index."),
        click.Option(["--resume"], is_flag=True, help="Continue an interrupted index."),
        force_flag(),
        *option_flags(IndexOptions),
    ],
    callback=_call,
    help="Encode every occurrence of every word of CORPUS with MODEL, for `polyseme uses` and the page.",
)
