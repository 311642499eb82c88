"""``polyseme train METHOD``: every option of the method is a flag, made from its dataclass."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from polyseme import catalog
from polyseme.cli.corpus import text_options
from polyseme.cli.show import Choice, out_folder, shown_progress
from polyseme.cli.terminal import say
from polyseme.errors import OptionError
from polyseme.options import value_type


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
            ctx.fail(f"{name} models are composed or read from files, not trained (polyseme methods lists the others)")
        return _command(row)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Methods"):
            formatter.write_dl([(row.name, f"{row.chinese} ({row.kind}, {row.year})") for row in catalog.METHODS])


@click.group(cls=MethodGroup, subcommand_metavar="METHOD TEXT_OR_CORPUS... -o MODEL [OPTIONS]")
def train() -> None:
    """Train a method on a corpus or on raw text; `train METHOD --help` lists its options."""


class MethodCommand(click.Command):
    """A method; its help tells its own options from those of any training and of raw text."""

    def __init__(self, name: str, options: type, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.own = [field.name for field in dataclasses.fields(options)]
        self.params += option_flags(options)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from polyseme.text.corpus import READING

        titles = ("Options", f"Options of {self.name}", "For raw text")
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in titles}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                place = (parameter.name in self.own) + 2 * (parameter.name in READING)
                sections[titles[place]].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _command(row: catalog.Row) -> click.Command:
    from polyseme.api import options_of

    help_text = f"{row.chinese} {row.name}. {row.paper} ({row.year})"

    @click.command(row.name, cls=MethodCommand, options=options_of(row.name), help=help_text)
    @click.argument("sources", nargs=-1, required=True, metavar="TEXT_OR_CORPUS...")
    @click.option("-o", "--out", required=True, callback=out_folder, help="Folder of the model.")
    @click.option("--resume", is_flag=True, help="Go on with an interrupted training; threads may differ.")
    @click.option("--from", "start", help="A saved model to train further.")
    @text_options
    @click.pass_context
    def call(
        ctx: click.Context, /, sources: tuple[str, ...], out: str, resume: bool, start: str | None, **flags: Any
    ) -> None:
        from polyseme.api import train as run
        from polyseme.text.segment import read_words

        # Only what was given: a built corpus admits no flags for raw text, and a method knows its own defaults.
        options = {name: value for name, value in flags.items() if _given(ctx, name)}
        if "words" in options:
            options["words"] = read_words(options["words"])
        source = sources[0] if len(sources) == 1 else sources
        try:
            with shown_progress() as progress:
                run(row.name, source, out=out, resume=resume, start=start, progress=progress, **options)
        except KeyboardInterrupt:
            if Path(f"{out}.checkpoint").exists():
                say(f"{out}.checkpoint keeps the work so far: the same command with --resume goes on", err=True)
            raise
        say(f"{row.name} model in {out}", err=True)

    return call


def _given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


def option_flags(options: type) -> list[click.Parameter]:
    """A flag for each field of an options dataclass."""
    flags: list[click.Parameter] = []
    for field in dataclasses.fields(options):
        kind, _ = value_type(options, field.name)
        name = field.name.replace("_", "-")
        shown = field.metadata["help"]
        if field.default is not None:  # else the help says what happens without the option
            shown += f"  [default: {('' if field.default else 'no-') + name if kind is bool else field.default}]"
        if kind is bool:
            flags.append(click.Option([f"--{name}/--no-{name}", field.name], default=None, help=shown))
        elif choices := field.metadata.get("choices"):
            flags.append(click.Option([f"--{name}", field.name], type=Choice(choices), help=shown))
        else:
            flags.append(click.Option([f"--{name}", field.name], type=kind, help=shown))
    return flags
