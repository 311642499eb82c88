"""``polyseme evaluate MODEL FILE...``: test files of every kind, told by content."""

from __future__ import annotations

import logging
from functools import cache

import click

from polyseme.cli.pooling import Pooling, pooling_flags
from polyseme.cli.show import choice_option, json_option, print_json, print_table
from polyseme.cli.terminal import say
from polyseme.cli.words import method_option
from polyseme.errors import PolysemeError

log = logging.getLogger(__name__)

FEW = 30  # pairs, below which a correlation is mostly chance


@pooling_flags
@click.command()
@click.argument("model")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--restrict",
    type=click.IntRange(min=1),
    default=300_000,
    show_default=True,
    help="Only so many most frequent words take part, in questions and answers.",
)
@choice_option("--case", ("ignore", "keep"), "Whether words that differ in case only are the same.")
@method_option
@choice_option(
    "--unseen",
    ("skip", "subwords"),
    "Word pairs outside the vocabulary: left out, or made of subwords where the model has them.",
)
@click.option("--dev", metavar="FILE", help="Of word-in-context files: the one that the threshold is chosen on.")
@click.option(
    "--texts", metavar="FILE", help="Retrieval: the texts that are searched, one a line; FILE... are queries."
)
@click.option(
    "--gold", metavar="FILE",
    help="Retrieval: numbers of the right texts, from 1, a line for each query; else behind a tab in the query's line.",
)  # fmt: skip
@json_option
def evaluate(
    model: str,
    files: tuple[str, ...],
    restrict: int,
    case: str,
    method: str,
    unseen: str,
    dev: str | None,
    texts: str | None,
    gold: str | None,
    as_json: bool,
    pooling: Pooling,
) -> None:
    """How well MODEL does on files of words (WordSim, SimLex, questions-words, CA8 …), of sentence pairs (STS-B, SICK,
    CNSD; a folder of several sets), of words in context (WiC, MCL-WiC), on retrieval or, if it is a language model, on
    plain text (perplexity). Accuracies and correlations of words are over the items whose words are known (used)."""
    from polyseme.api import load
    from polyseme.evaluate.kinds import evaluate_file
    from polyseme.evaluate.report import Settings

    examined = load(model)
    lifted = cache(pooling.encoder)  # fitted once for all files
    layers = pooling.options.get("layers", "mean")
    settings = Settings(restrict, case, method, unseen, lifted, layers, dev, texts, gold)
    reports, failures = [], []
    for number, file in enumerate(files):
        try:
            report = evaluate_file(examined, file, settings)
        except PolysemeError as error:  # the others are not lost
            failures.append(str(error))
            reports.append({"file": file, "error": str(error)})
            continue
        reports.append(report.to_json())
        if report.kind == "similarity" and report.whole["used"] < FEW:
            log.warning("%s: %d pairs are too few for a figure to rely on", report.file, report.whole["used"])
        if not as_json:
            say(("\n" if number else "") + f"{report.file} ({report.kind})")
            print_table(list(report.rows[0]), [list(row.values()) for row in report.rows])
    if as_json:
        print_json(reports)
    for failure in failures:
        say(f"polyseme: {failure}", err=True)
    if failures:
        raise click.exceptions.Exit(1)
