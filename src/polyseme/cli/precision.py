"""``--precision``: the number format a Transformer computes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyseme.cli.tables import choice_option
from polyseme.contexts.transformer.options import PRECISIONS
from polyseme.errors import OptionError

precision_option: Callable[[Any], Any] = choice_option(
    "--precision", PRECISIONS, "Transformers: int8 is about twice as fast and gives nearly the same vectors."
)


def opened_at(path: str, precision: str) -> Any:
    """The model at ``path``, with this precision."""
    from polyseme.api import load

    model = load(path)
    if precision == PRECISIONS[0]:
        return model
    if not hasattr(model, "at_precision"):
        raise OptionError(f"{path} has method {model.method}: only Transformers have a precision")
    return model.at_precision(precision)
