"""What the commands are given: flags made from options dataclasses, and flags that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from polyseme.errors import OptionError, close_matches
from polyseme.options import value_type

if TYPE_CHECKING:
    from polyseme.interfaces import SentenceEncoder


_VALUES = 60  # columns of the values of an option in the help

json_option: Callable[[Any], Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class OneOf(click.Choice[str]):
    """Named values, with suggestions for a mistyped one; in the help, many values take several lines."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        shown = super().get_metavar(param, ctx)
        if not shown or len(shown) <= _VALUES:
            return shown
        lines = textwrap.wrap(shown.replace("|", "| "), _VALUES, break_on_hyphens=False)
        return "\n      ".join(line.replace("| ", "|") for line in lines)

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is not one of {', '.join(self.choices)}{close_matches(str(value), self.choices)}"


def out_folder(ctx: click.Context, parameter: click.Parameter, path: str) -> str:
    """A callback for ``--out``: a folder cannot be written to stdout."""
    if path == "-":
        raise click.BadParameter("the result is a folder, which cannot be written to stdout: name it")
    return path


def force_flag() -> click.Option:
    """The flag of every command that writes."""
    return click.Option(["--force"], is_flag=True, help="Replace what is at the output path, if polyseme made it.")


def force_option(command: Any) -> Any:
    """The same as a decorator, above or below that of the command."""
    return click.option("--force", is_flag=True, help=force_flag().help)(command)


def choice_option(flag: str, choices: Sequence[str], help: str) -> Callable[[Any], Any]:
    """A flag with named values, of which the first is the default."""
    return click.option(flag, type=OneOf(choices), default=choices[0], show_default=True, help=help)


topn_option: Callable[[Any], Any] = click.option(
    "--topn", "-n", default=10, show_default=True, type=click.IntRange(min=1), help="How many results."
)
method_option = choice_option(
    "--method",
    ("add", "mul"),
    "Analogies. add: nearest to b - a + c. mul: product of similarities, which no single term can dominate.",
)


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

    given = {name: ctx.params[name] for name in names if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    return given | ({"words": read_words(given["words"])} if "words" in given else {})


@dataclass(frozen=True)
class PoolingFlags:
    """``--pool`` and its options, as given: one vector per text from a model that gives one per word."""

    options: dict[str, Any]
    fit_on: tuple[str, ...] = ()

    @property
    def asked(self) -> bool:
        """Whether any option was given."""
        return bool(self.options or self.fit_on)

    def encoder(self, model: Any) -> SentenceEncoder:
        """The model as a sentence encoder."""
        from polyseme.api import load, text_for
        from polyseme.interfaces import SentenceEncoder
        from polyseme.sentences.lift import lift

        if isinstance(model, SentenceEncoder) and self.asked:
            name = getattr(model, "method", "")
            raise OptionError(f"method {name} already gives one vector per text: leave out --pool and its options")
        data = text_for(model, self.fit_on) if self.fit_on else None
        language_model = self.options.get("language_model")
        reader = {"reader": load(language_model)} if language_model else {}
        return lift(model, "sentences", data=data, **self.options, **reader)


def pooling_flags(command: click.Command) -> click.Command:
    """A decorator that adds the flags; the command receives them as one ``pooling``."""
    from polyseme.sentences.options import PooledOptions

    present = {parameter.name for parameter in command.params}
    flags = [flag for flag in option_flags(PooledOptions) if flag.name not in present]
    names = [str(flag.name) for flag in flags]
    fit_on = click.Option(
        ["--fit-on"],
        multiple=True,
        metavar="TEXT",
        help="tfidf, sif, usif, surprisal: text or corpus for word counts; default for word "
        "vectors: their own counts; pos: tagged text",
    )
    command.params += [*flags, fit_on]
    call: Any = command.callback

    @functools.wraps(call)
    def collected(*arguments: Any, fit_on: tuple[str, ...], **given: Any) -> Any:
        options = {name: value for name in names if (value := given.pop(name)) is not None}
        return call(*arguments, pooling=PoolingFlags(options, fit_on), **given)

    command.callback = collected
    return command


def precision_option(command: Any) -> Any:
    """A decorator that adds ``--precision``: the number format a Transformer computes in."""
    from polyseme.contexts.transformer.options import PRECISIONS

    help = "Transformers: int8 is about twice as fast and gives nearly the same vectors."
    return choice_option("--precision", PRECISIONS, help)(command)


def opened_at(path: str, precision: str) -> Any:
    """The model at ``path``, with this precision."""
    from polyseme.api import load
    from polyseme.contexts.transformer.options import PRECISIONS

    model = load(path)
    if precision == PRECISIONS[0]:
        return model
    if not hasattr(model, "at_precision"):
        raise OptionError(f"{path} has method {model.method}: only Transformers have a precision")
    return model.at_precision(precision)
