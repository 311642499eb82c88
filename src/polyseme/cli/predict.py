"""``polyseme predict`` and ``polyseme score``: apply and evaluate a task model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from polyseme.cli.flags import given_flags, option_flags
from polyseme.cli.tables import force_flag, print_json, print_table, shown_progress
from polyseme.cli.terminal import json_printable, say
from polyseme.text.options import ReadingExamples


def _predict(
    ctx: click.Context, /, model: str, file: str, out: str, attention: bool, force: bool, **flags: Any
) -> None:
    from polyseme.api import load_task
    from polyseme.disk.atomic import check_file

    if out != "-":
        check_file(out, force=force)
    task = load_task(model).with_label_parts(flags.get("label_parts"))
    rows = task.rows_to_predict(file, **given_flags(ctx, flags))
    with shown_progress(out) as progress, sink_of(out, force) as sink:
        for done, record in enumerate(task.records(rows, attention=attention), start=1):
            line = json.dumps(record, ensure_ascii=False)
            sink.write((json_printable(line) if out == "-" else line) + "\n")
            progress("predicting", done, len(rows))


@contextmanager
def sink_of(out: str, force: bool) -> Iterator[IO[str]]:
    """Where lines go: stdout for -, or a new file, written atomically."""
    if out == "-":
        yield sys.stdout
        return
    from polyseme.disk.atomic import new_files

    with new_files(Path(out), force=force) as (part,), part.open("w", encoding="utf-8", errors="replace") as sink:
        yield sink


predict = click.Command(
    "predict",
    params=[
        click.Argument(["model"]),
        click.Argument(["file"]),
        click.Option(["-o", "--out"], default="-", show_default=True, help="One JSON record per line; - is stdout."),
        force_flag(),
        click.Option(
            ["--attention"], is_flag=True, help="Also how much each word mattered, if the head has attention."
        ),
        *option_flags(ReadingExamples),
    ],
    callback=click.pass_context(_predict),
    help="Predict each example of FILE with MODEL, with probabilities. FILE is a table as for "
    "fit, labelled or not, or plain lines.",
)


def _score(
    ctx: click.Context, /, model: str, file: str, as_json: bool, picture: str | None, force: bool, **flags: Any
) -> None:
    from polyseme.api import load_task
    from polyseme.view.figure import check_picture

    if picture:
        check_picture(picture, force=force)
    task = load_task(model)
    report = task.score(task.examples(file, **given_flags(ctx, flags)))
    if picture:
        from polyseme.view.plots import draw_confusion

        draw_confusion(report, picture, force=force)
    if as_json:
        print_json(report.to_json())
        return
    say(f"{report.file}: {report.n:,} examples")
    print_table(["figure", ""], [[name, value] for name, value in report.figures.items()])
    if report.rows:
        say()
        print_table(list(report.rows[0]), [list(row.values()) for row in report.rows])


score = click.Command(
    "score",
    params=[
        click.Argument(["model"]),
        click.Argument(["file"]),
        click.Option(["--picture"], metavar="FILE", help="Also plot the confusion matrix: .png, .svg or .pdf."),
        force_flag(),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
        *option_flags(ReadingExamples),
    ],
    callback=click.pass_context(_score),
    help="Score MODEL on the labelled examples of FILE.",
)
