"""``polyseme compare``: models or methods on the same files."""

from __future__ import annotations

import logging

import click

from polyseme.cli.tables import force_option, json_option, print_json, print_table, shown_progress

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
    from polyseme.evaluate.compare import compare_paths
    from polyseme.view.figure import check_picture

    if picture:
        check_picture(picture, force=force)
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    with shown_progress() as progress:
        comparison = compare_paths(paths, files, methods=names, minutes=minutes, progress=progress)
    if picture:
        from polyseme.view.plots import draw_comparison

        models = [entry.name for entry in comparison.entries]
        draw_comparison(models, comparison.figures(), picture, force=force)
    if as_json:
        print_json(comparison.to_json())
        return
    print_table(*comparison.table())
    for warning in comparison.warnings():
        log.warning("%s", warning)
