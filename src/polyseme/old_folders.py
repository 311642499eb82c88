"""What options of older model folders were called, so that these folders still open."""

from __future__ import annotations

from typing import Any

# What options were called in older model folders: method and old name → the name now, and values that mean another one.
RENAMED: dict[tuple[str, str], tuple[str, dict[Any, Any]]] = {
    ("elmo", "max_vocabulary"): ("max_size", {0: None}),
    ("elmo", "negatives"): ("negative", {}),
    ("elmo", "threads"): ("threads", {0: None}),
    ("fasttext-file", "model"): ("architecture", {}),
}


# Options of older model folders that a method no longer has.
_LOOP_OPTIONS = frozenset(
    [
        "minutes",
        "optimizer",
        "schedule",
        "warmup",
        "decay",
        "accumulate",
        "clip_norm",
        "weight_decay",
        "momentum",
        "accumulator",
        "patience",
        "device",
        "batch_size",
    ]
)


_TUNING_OPTIONS = frozenset(
    [
        "letters",
        "layers",
        "mix_penalty",
        "elmo_at",
        "encoder_lr",
        "layer_rates",
        "encoder_dropout",
        "lm_weight",
        "max_pieces",
        "top_layers",
    ]
)


_TASK_OPTIONS = _TUNING_OPTIONS | {"bigrams", "class_weights"}


GONE: dict[str, frozenset[str]] = {
    "polyglot": _LOOP_OPTIONS,
    "rae": _TASK_OPTIONS | {"dropout"},
    "quick-thought": _TASK_OPTIONS | {"dropout"},
    "skip-thought": _TASK_OPTIONS | {"dropout", "encoder_mode"},
    "infersent": _TASK_OPTIONS,
    "infersent-file": _TASK_OPTIONS,
    "conversation": _TASK_OPTIONS,
    "gensen": _TUNING_OPTIONS | {"bigrams", "encoder_mode"},
    "use": _TUNING_OPTIONS,
    "tag": frozenset(["class_weights"]),
    "span": frozenset(["class_weights"]),
}


def renamed(method: str, values: dict[str, Any]) -> dict[str, Any]:
    """The options of a saved model under their current names, without obsolete ones."""
    current = {}
    for old, value in values.items():
        if old in GONE.get(method, ()):
            continue
        new, meant = RENAMED.get((method, old), (old, {}))
        current[new] = meant.get(value, value) if meant else value
    return current
