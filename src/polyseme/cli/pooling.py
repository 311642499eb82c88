"""``--pool`` and its options: one vector per text from a model that gives one per word."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.flags import option_flags
from polyseme.errors import OptionError
from polyseme.sentences.options import PooledOptions

if TYPE_CHECKING:
    from polyseme.interfaces import SentenceEncoder


@dataclass(frozen=True)
class PoolingFlags:
    """The given options; the others keep their defaults."""

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
        named = self.options.get("language_model")
        reader = {"reader": load(named)} if named else {}
        return lift(model, "sentences", data=data, **self.options, **reader)


def pooling_flags(command: click.Command) -> click.Command:
    """A decorator that adds the flags; the command receives them as one ``pooling``."""
    own = {parameter.name for parameter in command.params}
    flags = [flag for flag in option_flags(PooledOptions) if flag.name not in own]
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
