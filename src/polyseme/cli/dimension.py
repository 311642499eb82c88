"""``polyseme dimension CORPUS``: choose the vector dimension for a corpus."""

from __future__ import annotations

import click

from polyseme.cli.tables import choice_option, force_option, json_option, print_json, print_table, shown_progress

METHODS = ("svd", "word2vec", "glove")


@click.command()
@click.argument("source", metavar="TEXT_OR_CORPUS")
@choice_option("--method", METHODS, "Which method's matrix to analyse.")
@click.option(
    "--max-size",
    type=click.IntRange(10, 30_000),
    default=3000,
    show_default=True,
    help="Most frequent words to use; time grows with the cube.",
)
@click.option("--window", type=click.IntRange(min=1), help="Words on each side; default: the method's.")
@click.option(
    "--exponent", type=click.FloatRange(0, 2), default=0.5, show_default=True, help="Exponent of the singular values."
)
@click.option("--picture", help="Plot the loss to this .png, .svg or .pdf file.")
@click.option(
    "--on", "files", multiple=True, metavar="FILE", help="Also train, and score on this test file; repeatable."
)
@click.option("--seed", type=int, default=1, show_default=True)
@force_option
@json_option
def dimension(
    source: str,
    method: str,
    max_size: int,
    window: int | None,
    exponent: float,
    picture: str | None,
    files: tuple[str, ...],
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    """Which vector dimension suits this text? The PIP loss (Yin and Shen 2018) balances the signal that few
    dimensions lose against the noise that many fit. With --on, vectors of several dimensions are trained and scored."""
    from polyseme.evaluate.dimension import TRIED, choose_dimension, scores_by_dimension
    from polyseme.evaluate.kinds import recognise_kind
    from polyseme.text.corpus import Corpus, is_corpus
    from polyseme.view.figure import check_picture

    if picture:
        check_picture(picture, force=force)
    for file in files:  # a wrong name among them is told before any work
        recognise_kind(file)
    options = {} if window is None else {"window": window}
    with shown_progress() as progress:
        corpus = Corpus.open(source) if is_corpus(source) else Corpus.build(source, progress=progress)
        report = choose_dimension(
            corpus, method, max_size=max_size, exponent=exponent, seed=seed, progress=progress, **options
        )
        tried = (*TRIED, report.best)
        scores = scores_by_dimension(corpus, method, tried, files, progress=progress, **options) if files else []
    if picture:
        from polyseme.view.plots import draw_dimension

        title = f"{method}, {report.words:,} words"
        draw_dimension(picture, title, report.losses, report.best, report.ranges, force=force)
    if as_json:
        print_json({**report.to_json(), "scores": scores})
        return
    print_table(
        ("what", "is"), [("best dimension", report.best), ("rank of the signal", report.rank), ("noise", report.noise)]
    )
    print_table(
        ("loss at most", "from", "to"), [(f"{share} % more", low, high) for share, (low, high) in report.ranges.items()]
    )
    if scores:
        print_table(list(scores[0]), [list(row.values()) for row in scores])
