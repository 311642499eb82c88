"""Options of a method: one frozen dataclass next to it, the source of flags, saved configuration, model card and docs.

>>> @dataclass(frozen=True)
... class Options:
...     dim: int = option(100, "dimension of a vector", minimum=1)
...     loss: str = option("negative", "training objective", choices=("negative", "hierarchical"))
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import types
import typing
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from polyseme.errors import OptionError, close_matches

T = TypeVar("T")


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    changes: str = "result",
    names: str | None = None,
) -> Any:
    """A dataclass field with its help text, its valid values, and whether it changes the result or only the speed.

    A checkpoint may be resumed with another value of an option that only changes the ``speed``; one that changes the
    ``shape`` of a model is fixed when the model is trained further. An option that ``names`` a ``file`` or a ``model``
    is identified by content; a model is opened before training and passed to it (``Run.models``).
    """
    about = {"help": help, "choices": choices, "minimum": minimum, "maximum": maximum, "changes": changes}
    about["names"] = names
    return dataclasses.field(default=default, metadata=about)


shape = partial(option, changes="shape")

# What an option of this name may be at most where its method does not say: more than any text, network or machine has,
# and not yet so much that a library gives up the process when it asks for the memory.
_DIMENSION, _STEPS, _WORDS = 1 << 16, 1_000_000, 100_000_000
MOST: dict[str, float] = {
    **dict.fromkeys(("threads", "n_heads", "rows", "top_layers", "k", "k_top", "candidates"), 1024),
    **dict.fromkeys((
        "dim", "hidden", "inner", "projection", "word_dim", "attention_units", "classifier", "classifier_units",
        "dimension_maps", "components", "pca", "neighbours", "letters",
    ), _DIMENSION),
    **dict.fromkeys((
        "epochs", "inference_epochs", "lm_epochs", "iterations", "period", "accumulate", "batch_size", "batch_tokens",
        "negative", "unroll", "longest", "longest_answer", "longest_question", "max_pieces", "window", "stride",
    ), _STEPS),
    **dict.fromkeys(("max_size", "buckets", "bigrams"), _WORDS),
    **dict.fromkeys(("lr", "encoder_lr", "lm_lr", "inference_lr", "layer_rates"), 1000),
    "seed": (1 << 63) - 1,
}  # fmt: skip
MOST_OF_KIND: dict[type, float] = {int: (1 << 31) - 1, float: 1e9}  # and of any other name


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def value_type(cls: type, name: str) -> tuple[type, bool]:
    """The plain type of an option (int, float, str, bool or tuple), and whether None is allowed."""
    hint = _hints(cls)[name]
    arguments = typing.get_args(hint)
    optional = isinstance(hint, types.UnionType) and type(None) in arguments
    if optional:
        hint = next(a for a in arguments if a is not type(None))
    return typing.get_origin(hint) or hint, optional


# What gensim, fastText and scikit-learn call the same thing.
ELSEWHERE = {
    "vector_size": "dim", "size": "dim", "n_components": "dim", "embedding_dim": "dim",
    "workers": "threads", "thread": "threads", "n_jobs": "threads",
    "alpha": "lr", "learning_rate": "lr", "eta": "lr",
    "iter": "epochs", "epoch": "epochs", "n_epochs": "epochs", "num_epochs": "epochs", "max_iter": "epochs",
    "sg": "architecture", "model": "architecture", "hs": "loss", "ws": "window", "window_size": "window",
    "neg": "negative", "t": "sample", "min_df": "min_count", "max_vocab_size": "max_size",
    "max_final_vocab": "max_size", "max_features": "max_size", "min_n": "minn", "max_n": "maxn",
    "bucket": "buckets", "random_state": "seed",
}  # fmt: skip


def make_options(cls: type[T], values: dict[str, Any]) -> T:
    """Checked options from plain values; an unknown name or a wrong value is an OptionError."""
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    checked = {}
    for name, value in values.items():
        if name not in fields:
            known = ELSEWHERE.get(name)
            meant = f"; here it is called {known!r}" if known in fields else close_matches(name, fields)
            raise OptionError(f"unknown option {name!r}{meant}")
        checked[name] = _checked(cls, fields[name], value)
    return cls(**checked)


def options_to_json(options: Any) -> dict[str, Any]:
    """The options as stored in model.json."""
    return dataclasses.asdict(options)


def part_of(options: Any, cls: type[T]) -> T:
    """The options of ``cls`` as ``options`` has them; those it does not have take their defaults."""
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    return cls(**{name: getattr(options, name) for name in names if hasattr(options, name)})


def changed_options(options: Any) -> dict[str, Any]:
    """The options that differ from their defaults, and from the preset that was chosen, if there are presets."""
    preset = vars(options.preset()) if hasattr(options, "preset") else {}
    by_size = {name: value for name, value in preset.items() if name != "size"}
    return {
        field.name: value
        for field in dataclasses.fields(options)
        if (value := getattr(options, field.name)) != field.default and value != by_size.get(field.name, field.default)
    }


def keeping_shape(given: T, known: T) -> T:
    """``given`` with the shape of ``known``, the model to start from; an explicitly given shape must match the
    model's."""
    options: Any = given
    usual = type(given)()
    kept = {f.name: getattr(known, f.name) for f in dataclasses.fields(options) if f.metadata["changes"] == "shape"}
    for name, value in kept.items():
        if getattr(given, name) not in (getattr(usual, name), value):
            raise OptionError(f"{name} is {value!r} in the model to start from, not {getattr(given, name)!r}")
    kept_options: T = dataclasses.replace(options, **kept)
    return kept_options


def identity_of(options: Any) -> dict[str, Any]:
    """The options that affect the result: all but those that only change the speed."""
    fields = {field.name: field for field in dataclasses.fields(options)}
    return {
        name: _content(value) if fields[name].metadata.get("names") == "file" and value else value
        for name, value in options_to_json(options).items()
        if fields[name].metadata.get("changes") != "speed"
    }


def _content(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}") from None


def _checked(cls: type, field: dataclasses.Field[Any], value: Any) -> Any:
    kind, optional = value_type(cls, field.name)
    limits = field.metadata
    if value is None and optional:
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is tuple and isinstance(value, list):
        value = tuple(tuple(v) if isinstance(v, list) else v for v in value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise OptionError(f"option {field.name!r} takes {kind.__name__}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise OptionError(f"option {field.name!r} must be a finite number, not {value!r}")
    if limits.get("choices") and value not in limits["choices"]:
        names = ", ".join(limits["choices"])
        close = close_matches(str(value), limits["choices"])
        raise OptionError(f"option {field.name!r} must be one of {names}, not {value!r}{close}")
    if limits.get("minimum") is not None and value < limits["minimum"]:
        raise OptionError(f"option {field.name!r} must be at least {limits['minimum']}, not {value!r}")
    maximum: Any = limits.get("maximum")
    if maximum is None:
        maximum = MOST.get(field.name, MOST_OF_KIND[kind]) if kind in MOST_OF_KIND else None
    if maximum is not None and value > maximum:
        raise OptionError(f"option {field.name!r} must be at most {maximum}, not {value!r}")
    return value
