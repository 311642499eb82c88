"""``polyseme evaluate``, ``compare`` and ``dimension``: test files of every kind, recognised by content."""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.flags import (
    ColumnsFlag,
    PoolingFlags,
    choice_option,
    force_option,
    json_option,
    method_option,
    opened_at,
    pooling_flags,
    precision_option,
)
from polyseme.cli.tables import print_json, print_table
from polyseme.cli.terminal import say, shown_progress
from polyseme.errors import PolysemeError

if TYPE_CHECKING:
    from polyseme.evaluate.report import EvaluationSettings


log = logging.getLogger(__name__)

STDIN = "stdin"
FEW = 30  # pairs, below which a correlation is mostly chance
DIMENSION_METHODS = ("svd", "word2vec", "glove")


@pooling_flags
@click.command()
@click.argument("model")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--restrict",
    type=click.IntRange(min=1),
    default=300_000,
    show_default=True,
    help="Use only this many most frequent words, in questions and answers.",
)
@choice_option("--case", ("ignore", "keep"), "Whether words that differ only in case are the same.")
@method_option
@choice_option(
    "--unseen",
    ("skip", "subwords"),
    "Words outside the vocabulary: skip their pairs, or build vectors from subwords if the model has them.",
)
@click.option(
    "--dev", metavar="FILE",
    help="File on which to choose the threshold (word-in-context) or the regularisation "
         "(transfer); for transfer without --test, the file to predict.",
)  # fmt: skip
@click.option("--texts", metavar="FILE", help="Retrieval: the texts to search, one per line; FILE... are the queries.")
@click.option(
    "--gold", metavar="FILE",
    help="Retrieval: numbers of the relevant texts, from 1, one line per query; default: after a "
         "tab in the query's line.",
)  # fmt: skip
@click.option("--transfer", is_flag=True, help="Labelled texts or pairs: fit a logistic regression to the vectors.")
@click.option("--test", metavar="FILE", help="Transfer: labelled file to predict; default: cross-validation.")
@click.option("--folds", type=click.IntRange(min=2), default=10, show_default=True, help="Transfer without --test.")
@click.option("--columns", type=ColumnsFlag(), help="Labelled files: text=sentence,label=2; default: guessed.")
@click.option(
    "--label-parts", type=click.IntRange(min=1), help="Keep only the first parts of labels such as DESC:manner."
)
@click.option("--probe", metavar="TASK,...", help="Any text: predict length, content or order from the vectors.")
@click.option("--also", "others", multiple=True, metavar="MODEL", help="Another model to compare with; repeatable.")
@precision_option
@json_option
def evaluate(
    model: str,
    files: tuple[str, ...],
    others: tuple[str, ...],
    probe: str | None,
    precision: str,
    as_json: bool,
    pooling: PoolingFlags,
    **asked: Any,
) -> None:
    """Score MODEL on word similarity and analogies (WordSim, SimLex, questions-words, CA8 …), sentence pairs (STS-B,
    SICK, CNSD; a folder of several sets), words in context (WiC, MCL-WiC), labelled texts or pairs (transfer, as in
    SentEval), retrieval, probing of its vectors on any text or, for language models, plain text (perplexity). Scores
    on words cover the items whose words are known (used). FILE may be - for stdin."""
    from polyseme.evaluate.report import EvaluationSettings

    if files.count("-") > 1:
        raise click.UsageError("stdin can only be read once: give - once")
    models = {path: opened_at(path, precision) for path in (model, *others)}
    tasks = tuple(name.strip() for name in probe.split(",")) if probe else ()
    lifted = cache(pooling.encoder)  # fitted once for all files
    settings = EvaluationSettings(as_texts=lifted, layers=pooling.options.get("layers", "mean"), probe=tasks, **asked)
    reports: list[dict[str, Any]] = []
    for number, file in enumerate(files):
        with _as_file(file) as place:
            examined = [_examined(path, opened, place, settings) for path, opened in models.items()]
        reports += [report if others else {k: v for k, v in report.items() if k != "model"} for report in examined]
        good = [report for report in examined if "rows" in report]
        if good and not as_json:
            say(("\n" if number else "") + f"{good[0]['file']} ({good[0]['kind']})")
            _print_reports(good, beside=bool(others))
    if as_json:
        print_json(reports)
    failures = [report["error"] for report in reports if "error" in report]
    for failure in failures:
        say(f"polyseme: {failure}", err=True)
    if failures:
        raise click.exceptions.Exit(1)


@contextmanager
def _as_file(name: str) -> Iterator[str]:
    """The file itself; for stdin a copy, since a file is read twice: to recognise it, and to evaluate it."""
    if name != "-":
        yield name
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / STDIN
        with open(place, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield str(place)


def _examined(path: str, model: Any, file: str, settings: EvaluationSettings) -> dict[str, Any]:
    """The scores of a model on a file, or the error, so that the other results are not lost."""
    from polyseme.evaluate.kinds import evaluate_file

    try:
        report = evaluate_file(model, file, settings)
    except PolysemeError as error:
        name = STDIN if Path(file).name == STDIN else file
        return {"model": path, "file": name, "error": str(error).replace(file, name)}
    if report.kind == "similarity" and report.whole["used"] < FEW:
        log.warning("%s: %d pairs are too few for a reliable score", report.file, report.whole["used"])
    return {"model": path, **report.to_json()}


def _print_reports(reports: list[dict[str, Any]], *, beside: bool) -> None:
    """All rows for one model; for several, the total row of each (for probing, all rows)."""
    rows = reports[0]["rows"]
    if beside:
        totals = {report["model"]: report["rows"][0 if report["kind"] == "probing" else -1 :] for report in reports}
        rows = [{"model": model, **row} for model, total in totals.items() for row in total]
    names = list(dict.fromkeys(name for row in rows for name in row))
    print_table(names, [[row.get(name) for name in names] for row in rows])


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


@click.command()
@click.argument("source", metavar="TEXT_OR_CORPUS")
@choice_option("--method", DIMENSION_METHODS, "Which method's matrix to analyse.")
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
    for file in files:  # a wrong name among them is reported before any work
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
