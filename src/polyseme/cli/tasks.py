"""``polyseme fit TASK``, ``predict`` and ``score``: any encoder for any task, frozen or fine-tuned, and its use."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyseme import catalog
from polyseme.cli.flags import force_flag, force_option, given_flags, json_option, option_flags, out_folder
from polyseme.cli.tables import print_json, print_table, sink_of
from polyseme.cli.terminal import json_printable, say, say_end, shown_progress
from polyseme.cli.train import MethodCommand
from polyseme.errors import OptionError
from polyseme.text.options import ReadingExamples

if TYPE_CHECKING:
    from polyseme.tasks.fit import RepeatedFit


class TaskGroup(click.Group):
    """The tasks of the catalog as subcommands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [row.name for row in catalog.TASKS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        try:
            return _command(catalog.find_task(name))
        except OptionError as error:
            ctx.fail(str(error))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Tasks"):
            formatter.write_dl([(row.name, f"{row.chinese}: {row.paper}") for row in catalog.TASKS])


@click.group(cls=TaskGroup, subcommand_metavar="TASK --train FILE -o MODEL [OPTIONS]")
def fit() -> None:
    """Train a task on labelled examples; `fit TASK --help` lists its heads and options."""


def _command(row: catalog.Row) -> click.Command:
    from polyseme.api import options_of
    from polyseme.data.training_data import FORMS, reading_options

    help_text = f"{row.chinese} {row.name}: {row.paper}.\n\nLearns from {FORMS[row.learns_from[0]]}."

    @click.command(
        row.name, cls=MethodCommand, options=options_of(row.name), reading=reading_options(row.learns_from),
        help=help_text,
    )  # fmt: skip
    @click.option("--train", "train_files", required=True, multiple=True, metavar="FILE", help="Training examples.")
    @click.option("--dev", "dev_files", multiple=True, metavar="FILE", help="Examples for early stopping.")
    @click.option(
        "--encoder", "encoders", multiple=True, metavar="MODEL", help="Model that gives the vectors; repeatable."
    )
    @click.option("-o", "--out", callback=out_folder, help="Folder of the model; without it, nothing is saved.")
    @click.option("--resume", is_flag=True, help="Continue an interrupted training run; threads may differ.")
    @click.option(
        "--folds",
        type=click.IntRange(min=2),
        help="Score by cross-validation with this many folds of the training examples.",
    )
    @click.option("--seeds", type=click.IntRange(min=1), default=1, help="Repeat with this many consecutive seeds.")
    @click.option("--picture", metavar="FILE", help="Also plot the learning curve: .png, .svg or .pdf.")
    @force_option
    @json_option
    @click.pass_context
    def call(
        ctx: click.Context,
        /,
        train_files: tuple[str, ...],
        dev_files: tuple[str, ...],
        encoders: tuple[str, ...],
        out: str | None,
        resume: bool,
        folds: int | None,
        seeds: int,
        picture: str | None,
        force: bool,
        as_json: bool,
        **flags: Any,
    ) -> None:
        from polyseme import api
        from polyseme.disk.ownership import check_replaceable
        from polyseme.training.run import Run

        if not out and not folds and seeds == 1:
            raise click.UsageError(
                "nothing to do: give -o MODEL to save the model, or --folds or --seeds to see scores", ctx
            )
        if (folds or seeds > 1) and resume:
            raise click.UsageError(
                "--resume continues a single training run; leave it out with --folds and --seeds", ctx
            )
        if (folds or seeds > 1) and picture:
            raise click.UsageError("--picture plots a single training run; leave it out with --folds and --seeds", ctx)
        if picture:
            from polyseme.view.figure import check_picture

            check_picture(picture, force=force)
        options = given_flags(ctx, flags)
        begun = time.monotonic()
        data = (_one_or_many(train_files), _one_or_many(dev_files) if dev_files else None, list(encoders) or None)
        with shown_progress() as progress:
            if folds or seeds > 1:
                if out:
                    check_replaceable(out, "model", recipe="", force=force)
                plan = api.plan_fit(row.name, *data, progress=progress, **options)
                run = Run(progress=progress)
                repeated = plan.repeat(run, folds=folds, seeds=seeds)
                if out:
                    model = plan.fit(run) if repeated.best is None else repeated.best
                    model.save(out, force=force)
                if as_json:
                    print_json(repeated.to_json())
                else:
                    _print_repeated(repeated)
                return
            try:
                model = api.fit(row.name, *data, out=out, resume=resume, force=force, progress=progress, **options)
            except KeyboardInterrupt:
                if Path(f"{out}.checkpoint").exists():
                    say(
                        f"{out}.checkpoint keeps the work so far: run the same command with --resume to continue",
                        err=True,
                    )
                raise
        if picture:
            from polyseme.view.plots import draw_curve

            draw_curve(model.about.curve, picture, force=force)
        if as_json:
            print_json({"model": out, "curve": model.about.curve})
        then = f"polyseme score {out} FILE" if out else ""
        say_end(f"{row.name} model in {out}", begun, model.about.curve, then=then)

    return call


def _one_or_many(files: tuple[str, ...]) -> Any:
    return files[0] if len(files) == 1 else list(files)


def _print_repeated(repeated: RepeatedFit) -> None:
    """The figures of each run, their mean and standard deviation."""
    summary = repeated.to_json()
    mean, deviation = summary["mean"], summary["deviation"]
    runs = zip(repeated.names, summary["each"], strict=True)
    rows = [[name, *(figures[figure] for figure in mean)] for name, figures in runs]
    print_table(["", *mean], [*rows, ["mean", *mean.values()], ["deviation", *deviation.values()]])


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
