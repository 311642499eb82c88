"""``polyseme distil MODEL CORPUS -o VECTORS``: turn a context encoder into word vectors."""

from __future__ import annotations

import time
from typing import Any

import click

from polyseme.cli.flags import option_flags
from polyseme.cli.tables import force_flag, out_folder, say_end, shown_progress
from polyseme.words.distil import DistilOptions


def _call(model: str, sources: tuple[str, ...], out: str, resume: bool, force: bool, **given: Any) -> None:
    from polyseme.api import distil as run

    options = {name: value for name, value in given.items() if value is not None}
    source = sources[0] if len(sources) == 1 else sources
    begun = time.monotonic()
    with shown_progress() as progress:
        vectors = run(model, source, out=out, resume=resume, force=force, progress=progress, **options)
    made = f"{len(vectors):,} words with {vectors.vector_size} dimensions in {out}"
    say_end(made, begun, then=f"polyseme neighbours {out} WORD")


distil = click.Command(
    "distil",
    params=[
        click.Argument(["model"], metavar="MODEL"),
        click.Argument(["sources"], nargs=-1, required=True, metavar="TEXT_OR_CORPUS..."),
        click.Option(["-o", "--out"], required=True, callback=out_folder, help="Folder of the word vectors."),
        click.Option(["--resume"], is_flag=True, help="Continue an interrupted run."),
        force_flag(),
        *(flag for flag in option_flags(DistilOptions) if flag.name != "encoder"),
    ],
    callback=_call,
    help="Turn a context encoder into word vectors: each word of the text gets the mean of the "
    "vectors that MODEL gives its occurrences. The result works with neighbours, analogy, "
    "evaluate and the map like other word vectors.",
)
