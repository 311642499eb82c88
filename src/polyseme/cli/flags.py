"""Flags generated from options dataclasses: of methods, and of reading text and tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from polyseme.cli.tables import OneOf
from polyseme.options import value_type


class ColumnsFlag(click.ParamType[Any]):
    """``text=sentence,label=2``: which columns of a table are which."""

    name = "ROLE=COLUMN,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, Mapping):
            return value
        entries = [entry.partition("=") for entry in str(value).split(",")]
        if not all(role.strip() and column.strip() for role, _, column in entries):
            self.fail(f"{value!r} does not have the form text=sentence,label=2", param, ctx)
        return {role.strip(): column.strip() for role, _, column in entries}


def option_flags(options: type) -> list[click.Parameter]:
    """A flag for each field of an options dataclass, except those for encoders, which training is not given."""
    unused = getattr(options, "for_encoders", ())
    return [_flag(options, field) for field in dataclasses.fields(options) if field.name not in unused]


def _flag(options: type, field: dataclasses.Field[Any]) -> click.Option:
    kind, _ = value_type(options, field.name)
    name = field.name.replace("_", "-")
    shown = field.metadata["help"]
    if field.default is not None and field.default != ():  # else the help says what happens without the option
        shown += f"  [default: {('' if field.default else 'no-') + name if kind is bool else field.default}]"
    if kind is bool:
        return click.Option([f"--{name}/--no-{name}", field.name], default=None, help=shown)
    if choices := field.metadata.get("choices"):
        return click.Option([f"--{name}", field.name], type=OneOf(choices), help=shown)
    if kind is Mapping:
        return click.Option([f"--{name}", field.name], type=ColumnsFlag(), help=shown)
    if kind is tuple:
        return click.Option([f"--{name}", field.name], metavar="FILE", help=f"{shown}; a file, one per line")
    return click.Option([f"--{name}", field.name], type=kind, help=shown)


def with_flags(options: type, *names: str) -> Callable[[click.Command], click.Command]:
    """A decorator that adds the flags of an options dataclass to a command: those of these names, or all."""

    def add(command: click.Command) -> click.Command:
        command.params += [flag for flag in option_flags(options) if not names or flag.name in names]
        return command

    return add


def given_flags(ctx: click.Context, names: Iterable[str]) -> dict[str, Any]:
    """The flags that were given, with the user dictionary read; the others keep their defaults."""
    from polyseme.text.segment import read_words

    found = {name: ctx.params[name] for name in names if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    return found | ({"words": read_words(found["words"])} if "words" in found else {})
