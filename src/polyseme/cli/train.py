"""``polyseme train METHOD``: every option of the method is a flag, made from its dataclass."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from polyseme import catalog
from polyseme.cli.corpus import SEGMENTERS
from polyseme.cli.show import shown_progress
from polyseme.options import value_type


class MethodGroup(click.Group):
    """The methods of the catalog as subcommands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [row.name for row in catalog.METHODS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        row = catalog.find(name)
        if row not in catalog.METHODS:
            ctx.fail(f"{name} models are read from published files, not trained (polyseme methods lists the others)")
        return _command(row)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Methods"):
            formatter.write_dl([(row.name, f"{row.chinese} ({row.kind}, {row.year})") for row in catalog.METHODS])


@click.group(cls=MethodGroup, subcommand_metavar="METHOD TEXT_OR_CORPUS... -o MODEL [OPTIONS]")
def train() -> None:
    """Train a method on a corpus or on raw text; `train METHOD --help` lists its options."""


def _command(row: catalog.Row) -> click.Command:
    cls = row.load_class()
    shared: list[click.Parameter] = [
        click.Argument(["sources"], nargs=-1, required=True, metavar="TEXT_OR_CORPUS..."),
        click.Option(["-o", "--out"], required=True, help="Folder of the model."),
        click.Option(["--resume"], is_flag=True, help="Go on with an interrupted training."),
        click.Option(["--from", "start"], help="A saved model to train further."),
        click.Option(
            ["--segment"],
            type=click.Choice(SEGMENTERS),
            default="auto",
            show_default=True,
            help="How raw text is cut into words; auto goes by script.",
        ),
    ]

    def call(sources: tuple[str, ...], out: str, resume: bool, start: str | None, segment: str, **given: Any) -> None:
        from polyseme.store.train import train as run

        options = {name: value for name, value in given.items() if value is not None}
        source = sources[0] if len(sources) == 1 else sources
        run_options: dict[str, Any] = {"out": out, "resume": resume, "start": start, "segment": segment}
        try:
            with shown_progress() as progress:
                run(row.name, source, progress=progress, **run_options, **options)
        except KeyboardInterrupt:
            if Path(f"{out}.checkpoint").exists():
                click.echo(f"{out}.checkpoint keeps the work so far: the same command with --resume goes on", err=True)
            raise
        click.echo(f"{row.name} model in {out}", err=True)

    help_text = f"{row.chinese} {row.name}. {row.paper} ({row.year})"
    return click.Command(row.name, params=[*shared, *option_flags(cls.Options)], callback=call, help=help_text)


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
            flags.append(click.Option([f"--{name}", field.name], type=click.Choice(choices), help=shown))
        else:
            flags.append(click.Option([f"--{name}", field.name], type=kind, help=shown))
    return flags
