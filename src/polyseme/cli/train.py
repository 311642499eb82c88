"""``polyseme train METHOD`` and ``methods``: every option of a method is a flag, made from its dataclass."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import click

from polyseme import catalog
from polyseme.cli.flags import force_option, given_flags, json_option, option_flags, out_folder
from polyseme.cli.tables import print_json, print_table
from polyseme.cli.terminal import say, say_end, shown_progress
from polyseme.errors import OptionError

# What to try with a model of each kind.
NEXT = {
    "words": "polyseme neighbours {} WORD",
    "contexts": "polyseme encode {} TEXT -o VECTORS.npy",
    "sentences": "polyseme similarity {} TEXT TEXT",
}


class MethodGroup(click.Group):
    """The methods of the catalog as subcommands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [row.name for row in catalog.METHODS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        try:
            row = catalog.find(name)
        except OptionError as error:
            ctx.fail(str(error))
        if row not in catalog.METHODS:
            ctx.fail(f"{name} models are composed or loaded from files, not trained (see polyseme methods)")
        return _command(row)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Methods"):
            formatter.write_dl([(row.name, f"{row.chinese} ({row.kind}, {row.year})") for row in catalog.METHODS])


@click.group(cls=MethodGroup, subcommand_metavar="METHOD DATA... -o MODEL [OPTIONS]")
def train() -> None:
    """Train a method; `train METHOD --help` lists its training data and options."""


class MethodCommand(click.Command):
    """A method; its help separates its own options from those of training and of reading data."""

    def __init__(self, name: str, options: type, reading: list[type], **settings: Any) -> None:
        super().__init__(name, **settings)
        read = {flag.name: flag for cls in reading for flag in option_flags(cls)}
        self.method_options = [field.name for field in dataclasses.fields(options)]
        self.reading_options = list(read)
        self.params += [*option_flags(options), *read.values()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        titles = ("Options", f"Options of {self.name}", "Reading files")
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                place = (parameter.name in self.method_options) + 2 * (parameter.name in self.reading_options)
                sections[titles[place]].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _command(row: catalog.Row) -> click.Command:
    from polyseme.api import options_of
    from polyseme.data.training_data import FORMS, kinds_of, reading_options, sources_by_name

    named = sources_by_name(row.learns_from)
    forms = {name: " or ".join(FORMS[part] for part in kinds_of(kind)) for name, kind in named.items()}
    learns = "; ".join([f"{name}=PATH: {form}" for name, form in forms.items()]) or " or ".join(
        FORMS[kind] for kind in row.learns_from
    )
    help_text = f"{row.chinese} {row.name}\n\n{row.paper} ({row.year})\n\nLearns from {learns}."

    @click.command(
        row.name, cls=MethodCommand, options=options_of(row.name), reading=reading_options(row.learns_from),
        help=help_text,
    )  # fmt: skip
    @click.argument("sources", nargs=-1, required=True, metavar="NAME=PATH..." if named else "DATA...")
    @click.option("-o", "--out", required=True, callback=out_folder, help="Folder of the model.")
    @click.option("--resume", is_flag=True, help="Continue an interrupted training run; threads may differ.")
    @click.option("--from", "start", help="A saved model to train further.")
    @force_option
    @click.pass_context
    def call(
        ctx: click.Context,
        /,
        sources: tuple[str, ...],
        out: str,
        resume: bool,
        start: str | None,
        force: bool,
        **flags: Any,
    ) -> None:
        from polyseme.api import train as run

        options = given_flags(ctx, flags)  # a built corpus admits no others, and a method knows its own defaults
        data = _by_name(sources) if named else sources[0] if len(sources) == 1 else sources
        begun = time.monotonic()
        try:
            with shown_progress() as progress:
                model = run(
                    row.name, data, out=out, resume=resume, start=start, force=force, progress=progress, **options
                )
        except KeyboardInterrupt:
            if Path(f"{out}.checkpoint").exists():
                say(f"{out}.checkpoint keeps the work so far: run the same command with --resume to continue", err=True)
            raise
        say_end(f"{row.name} model in {out}", begun, model.about.curve, then=_next(row.kind, out, data))

    return call


def _next(kind: str, out: str, data: Any) -> str:
    """What to try with a new model: words in context are indexed if their text is a corpus already."""
    from polyseme.text.corpus import is_corpus

    if kind == "contexts" and isinstance(data, str) and is_corpus(data):
        return f"polyseme index {out} {data} -o INDEX"
    return NEXT[kind].format(out)


def _by_name(sources: tuple[str, ...]) -> dict[str, list[str]]:
    """``name=PATH`` arguments; several files of one name belong together."""
    paths: dict[str, list[str]] = {}
    for source in sources:
        name, is_named, path = source.partition("=")
        if not is_named:
            raise OptionError(
                f"{source} has no name: this method is trained on several sources, each given as name=PATH"
            )
        paths.setdefault(name, []).append(path)
    return paths


@click.command()
@json_option
def methods(as_json: bool) -> None:
    """List the methods, and the models that are composed of others."""
    rows = (*catalog.METHODS, *catalog.COMPOSED)
    if as_json:
        print_json([row._asdict() for row in rows])
    else:
        print_table(
            ("method", "名称", "kind", "learns from", "year", "paper"),
            [(row.name, row.chinese, row.kind, " ".join(row.learns_from), str(row.year), row.paper) for row in rows],
        )
