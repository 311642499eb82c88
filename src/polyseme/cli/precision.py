"""``--precision``: how exactly a Transformer computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyseme.cli.show import choice_option
from polyseme.contexts.transformer.options import PRECISIONS
from polyseme.errors import OptionError

precision_option: Callable[[Any], Any] = choice_option(
    "--precision", PRECISIONS, "Of a Transformer: int8 reads about twice as fast, its vectors are nearly the same."
)


def opened_at(path: str, precision: str) -> Any:
    """The model at ``path``, reading in this precision."""
    from polyseme.api import load

    model = load(path)
    if precision == PRECISIONS[0]:
        return model
    if not hasattr(model, "at_precision"):
        raise OptionError(f"{path} is a model of {model.method}: precision is of Transformers")
    return model.at_precision(precision)
