"""Options of the tasks: one dataclass each, made of its own options and of those of its heads. Nothing loads torch.

An option that heads have with different defaults, or that not all of them have, is None unless it is given; the help
says what each head then takes.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polyseme.contexts.ulmfit.options import UNITS
from polyseme.errors import OptionError
from polyseme.learn.options import MODES, PLACES, UNFREEZING, LabelOptions, LearnedOptions
from polyseme.options import make_options, option
from polyseme.sentences.options import (
    CELLS,
    DanOptions,
    DcnnOptions,
    HanOptions,
    RnnOptions,
    SelfAttentionOptions,
    TextCnnOptions,
)
from polyseme.training.options import TrainingOptions, schedule_option
from polyseme.words.fasttext_classifier import SupervisedOptions

POOL = "pooling into one vector per text; of a Transformer that learns: mean, max, first or last"
COMPARED_POOL = f"{POOL}; auto: mean, and of a Transformer that learns last if it reads from left to right"


@dataclass(frozen=True)
class LinearOptions(LearnedOptions):
    """A layer over one vector per text."""

    pool: str = option(
        "auto",
        f"{POOL}; auto: mean, and of a Transformer that learns first (BERT's [CLS]) if it has a pooler, or last if it "
        "reads from left to right",
    )


@dataclass(frozen=True)
class MlpOptions(LinearOptions):
    """Two layers over one vector per text."""

    hidden: int = option(200, "units of the hidden layer", minimum=1)


@dataclass(frozen=True)
class TaskOptions:
    """What every task has."""

    head: str = option("auto", "model on top of the encoder")
    metric: str | None = option(None, "metric that selects the best weights; default: the task's own")
    held_out: float | None = option(
        None,
        "fraction of the examples held out for early stopping, if no dev examples are given; default: 0.1, or 0 where "
        "that would be fewer than 50 in fine-tuning",
        minimum=0,
        maximum=0.9,
    )


@dataclass(frozen=True)
class UlmfitHeadOptions(TrainingOptions):
    """ULMFiT: its language model trained on the texts, then with the classifier."""

    epochs: int = option(10, "maximum number of passes over the examples", minimum=0)
    batch_size: int = option(32, "batch size: examples per step", minimum=1)
    lr: float = option(5e-3, "learning rate", minimum=0)
    schedule: str = schedule_option("slanted")
    warmup: int = option(0, "warm-up steps of the learning rate", minimum=0)
    dropout: float = option(0.2, "dropout in the encoder", minimum=0, maximum=0.95)
    hidden: int = option(50, "units of the hidden layer", minimum=1)
    class_weights: str = option("none", "balanced: rare classes count more in the loss", choices=("none", "balanced"))
    label_smoothing: float = option(
        0.0, "label smoothing: probability that is spread evenly over all classes", minimum=0, maximum=0.9
    )
    layer_rates: float = option(1.0, "ratio of a layer's learning rate to that of the layer below", minimum=1)
    unfreezing: str = option(
        "none", "gradual unfreezing: train layers one after the other from the top, or all at once", choices=UNFREEZING
    )
    lm_epochs: int = option(5, "epochs of language-model fine-tuning on the texts first; 0: none", minimum=0)
    lm_lr: float = option(4e-3, "learning rate of the language model", minimum=0)
    units: str = option("words", "units to read if no language model is given", choices=UNITS)


CLASSIFY_HEADS: dict[str, type] = {
    "textcnn": TextCnnOptions,
    "linear": LinearOptions,
    "mlp": MlpOptions,
    "dan": DanOptions,
    "dcnn": DcnnOptions,
    "rnn": RnnOptions,
    "bilstm-max": RnnOptions,
    "self-attention": SelfAttentionOptions,
    "han": HanOptions,
    "fasttext": SupervisedOptions,
    "ulmfit": UlmfitHeadOptions,
}


@dataclass(frozen=True)
class TaggerOptions(RnnOptions):
    """Recurrent layers and a CRF over them."""

    epochs: int = option(15, "maximum number of passes over the examples", minimum=0)
    schedule: str = schedule_option("linear")
    batch_size: int = option(16, "batch size: examples per step", minimum=1)
    patience: int = option(5, "early stopping: reports without a better held-out score; 0: never stop", minimum=0)
    lr: float = option(2e-3, "learning rate", minimum=0)
    input_dropout: float = option(0.5, "dropout on the token vectors", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class LinearTaggerOptions(LearnedOptions):
    """A layer over the token vectors."""

    epochs: int = option(30, "maximum number of passes over the examples", minimum=0)
    batch_size: int = option(16, "batch size: examples per step", minimum=1)


@dataclass(frozen=True)
class TagLmOptions(TaggerOptions):
    """TagLM: two recurrent layers, a language model's top layer between them."""

    n_layers: int = option(2, "hidden or recurrent layers", minimum=2, maximum=20)
    layers: str = option("top", "layers of an encoder: a learned weighted sum (mix), or top, mean or a number")
    elmo_at: str = option("hidden", "where encoder vectors are added: [x; ELMo], [h; ELMo] or both", choices=PLACES)


REGRESSIONS = ("distribution", "mse")


@dataclass(frozen=True)
class _Pairs:
    """What every head over pairs has."""

    encoder_mode: str = option("frozen", "freeze or fine-tune encoders and vectors", choices=MODES[1:])
    classifier_units: int = option(200, "units of the layer over a pair's features; 0: none", minimum=0)
    regression: str = option(
        "distribution",
        "how scores are learned: as distributions over the integers, or by regression",
        choices=REGRESSIONS,
    )
    dropout: float = option(0.3, "dropout in the encoder", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class PairLinearOptions(_Pairs, LinearOptions):
    """A layer over frozen vectors, compared."""

    pool: str = option("auto", COMPARED_POOL)
    classifier_units: int = option(0, "units of the layer over a pair's features; 0: none", minimum=0)


@dataclass(frozen=True)
class PairMlpOptions(_Pairs, LinearOptions):
    """Two layers over frozen vectors, compared."""

    pool: str = option("auto", COMPARED_POOL)


@dataclass(frozen=True)
class PairDanOptions(_Pairs, DanOptions):
    """DAN for both texts."""


@dataclass(frozen=True)
class PairTextCnnOptions(_Pairs, TextCnnOptions):
    """TextCNN for both texts."""


@dataclass(frozen=True)
class PairRnnOptions(_Pairs, RnnOptions):
    """A recurrent encoder for both texts."""


@dataclass(frozen=True)
class PairSelfAttentionOptions(_Pairs, SelfAttentionOptions):
    """Self-attention for both texts."""


@dataclass(frozen=True)
class MatchingOptions(_Pairs, LearnedOptions):
    """A convolutional matching network."""

    filters: str = option("3x50", "convolution filters, as WIDTHxNUMBER")
    k_top: int = option(4, "values kept per row by k-max pooling in the last layer (cnn-sm, bi-cnn)", minimum=1)
    dimension_maps: int = option(20, "filters over each single dimension (mpcnn)", minimum=1)


@dataclass(frozen=True)
class SentenceModelOptions(MatchingOptions):
    """CNN-SM and Bi-CNN, which convolve layer by layer."""

    filters: str = option("3x5 5x5", "convolution filters, as WIDTHxNUMBER")


@dataclass(frozen=True)
class CrossOptions(_Pairs, LearnedOptions):
    """A Transformer that reads both texts as one input, fine-tuned."""

    orders: str = option(
        "auto",
        "read pairs in the given order; in both, with the states added; or, where order means nothing, in a random one "
        "in training and the mean of both in prediction; auto: both for scores with a causal model, else one",
        choices=("auto", "one", "both", "random"),
    )
    encoder_mode: str = option("finetune", "the encoder is fine-tuned (cross, cosine)", choices=("finetune",))
    classifier_units: int = option(0, "units of the layer over a pair's features; 0: none", minimum=0)


@dataclass(frozen=True)
class CosineOptions(_Pairs, LinearOptions):
    """The cosine of both texts' vectors as their score, under a Transformer that learns (SBERT)."""

    pool: str = option("auto", COMPARED_POOL)
    encoder_mode: str = option("finetune", "the encoder is fine-tuned (cross, cosine)", choices=("finetune",))
    classifier_units: int = option(0, "units of the layer over a pair's features; 0: none", minimum=0, maximum=0)
    regression: str = option("mse", "how scores are learned: by regression (cosine)", choices=("mse",))
    encoder_lr: float | None = option(0.05, "learning rate of fine-tuned encoders relative to lr", minimum=0)


PAIR_HEADS: dict[str, type] = {
    "bilstm-max": PairRnnOptions,
    "linear": PairLinearOptions,
    "mlp": PairMlpOptions,
    "dan": PairDanOptions,
    "textcnn": PairTextCnnOptions,
    "rnn": PairRnnOptions,
    "self-attention": PairSelfAttentionOptions,
    "arc1": MatchingOptions,
    "arc2": MatchingOptions,
    "cnn-sm": SentenceModelOptions,
    "bi-cnn": SentenceModelOptions,
    "mpcnn": MatchingOptions,
    "cross": CrossOptions,
    "cosine": CosineOptions,
}
CHOICE_HEADS = {head: kind for head, kind in PAIR_HEADS.items() if kind is not CosineOptions}
# What means nothing to a task. Choices have no scores or classes, and an alternative is always second.
_OF_CLASSES = tuple(field.name for field in dataclasses.fields(LabelOptions))
UNUSED = {"choice": ("regression", "orders", *_OF_CLASSES), "tag": _OF_CLASSES, "span": _OF_CLASSES}
TAG_HEADS: dict[str, type] = {"bilstm-crf": TaggerOptions, "linear": LinearTaggerOptions, "taglm": TagLmOptions}


PASSAGE_PIECES = "fine-tuning under cross: maximum tokens of a question and a window together"


@dataclass(frozen=True)
class ReaderOptions(LearnedOptions):
    """A reader of passages."""

    max_pieces: int = option(384, PASSAGE_PIECES, minimum=8)

    cell: str = option("lstm", "recurrent cells", choices=CELLS)
    hidden: int = option(64, "units of a hidden layer, or of a recurrent layer per direction", minimum=1)
    window: int = option(400, "maximum number of passage tokens read at once", minimum=8)
    stride: int = option(250, "stride between windows, in tokens", minimum=1)
    longest_answer: int = option(60, "maximum number of answer tokens", minimum=1)
    batch_size: int = option(16, "batch size: examples per step", minimum=1)
    dropout: float = option(0.3, "dropout in the encoder", minimum=0, maximum=0.95)
    lr: float = option(2e-3, "learning rate", minimum=0)


@dataclass(frozen=True)
class SpanCrossOptions(LearnedOptions):
    """A Transformer that reads question and passage as one input, fine-tuned."""

    encoder_mode: str = option("finetune", "the encoder is fine-tuned (cross)", choices=("finetune",))
    max_pieces: int = option(384, PASSAGE_PIECES, minimum=8)
    longest_question: int = option(64, "maximum number of question tokens", minimum=1)
    stride: int = option(128, "stride between windows, in tokens", minimum=1)
    longest_answer: int = option(60, "maximum number of answer tokens", minimum=1)
    batch_size: int = option(16, "batch size: examples per step", minimum=1)


SPAN_HEADS: dict[str, type] = {"reader": ReaderOptions, "cross": SpanCrossOptions}
HELD_OUT, FEWEST = 0.1, 50  # usual fraction held out; with a rate that falls to zero, not if that is fewer examples
SEEN, MOST_EPOCHS = 5_000, 20  # examples that fine-tuning sees next to two passes over all, and its most passes
# What a head takes where encoders learn with it, unless it is given: rates that leave them most of what they know.
FINETUNED: dict[str, Any] = {
    "epochs": f"2 + {SEEN:,} / examples, at most {MOST_EPOCHS}", "lr": 1e-3,
    "schedule": "slanted", "layers": "top", "dropout": 0.1, "input_dropout": 0.0,
    "weight_decay": 0.01, "clip_norm": 1.0, "patience": 0,
}  # fmt: skip
# The head over a Transformer that learns with the task, unless one is given.
TUNED_HEADS = {"classify": "linear", "pair": "cross", "tag": "linear", "span": "cross", "choice": "cross"}
SCORED_HEAD = "cosine"  # of pairs with scores, over a sentence encoder, whose cosines tell much of them already
HEADS = {"classify": CLASSIFY_HEADS, "pair": PAIR_HEADS, "tag": TAG_HEADS, "span": SPAN_HEADS, "choice": CHOICE_HEADS}


def joined_options(task: str) -> type[TaskOptions]:
    """The options of a task: its own, and all that its heads have."""
    heads = HEADS[task]
    shared = {field.name: field for field in dataclasses.fields(TaskOptions)}
    first, tuned = next(iter(heads)), TUNED_HEADS.get(task)
    help_text = f"; auto: {first}" + (f", and {tuned} where a Transformer is fine-tuned" if tuned else "")
    help_text += f" ({SCORED_HEAD} for scores under a sentence-transformers model)" if task == "pair" else ""
    known = shared["head"].metadata
    about = {**known, "choices": ("auto", *heads), "help": known["help"] + help_text}
    fields: list[tuple[str, Any, Any]] = [("head", str, dataclasses.field(default="auto", metadata=about))]
    by_name: dict[str, dict[str, dataclasses.Field[Any]]] = {}
    for head, kind in heads.items():
        for field in dataclasses.fields(kind):
            if field.name not in UNUSED.get(task, ()):
                by_name.setdefault(field.name, {})[head] = field
    for option_name, of_head in by_name.items():
        hint = typing.get_type_hints(heads[next(iter(of_head))])[option_name]
        fields.append((option_name, *_joined(hint, of_head, len(heads))))
    name = f"{task.capitalize()}Options"
    made: type[TaskOptions] = dataclasses.make_dataclass(name, fields, bases=(TaskOptions,), frozen=True)
    made.__doc__, made.__module__ = f"Options of {task}.", __name__
    return made


def _joined(hint: Any, of_head: Mapping[str, dataclasses.Field[Any]], n_heads: int) -> tuple[Any, Any]:
    """The type and field of an option that some heads have, each with a default of its own."""
    field = next(iter(of_head.values()))
    defaults: dict[Any, list[str]] = {}
    for head, its_field in of_head.items():
        defaults.setdefault(its_field.default, []).append(head)
    if len(of_head) == n_heads and len(defaults) == 1 and field.name not in FINETUNED:
        return hint, dataclasses.field(default=field.default, metadata=field.metadata)
    help_text = field.metadata["help"]
    if len(defaults) > 1:
        shown = [_named(value, names, n_heads) for value, names in defaults.items() if value is not None]
        help_text += f"  [default: {'; '.join(shown)}]"
    else:
        help_text += f" ({', '.join(of_head)})" if len(of_head) <= n_heads // 2 else ""
        help_text += "" if field.default is None else f"  [default: {field.default}]"
    if field.name in FINETUNED:
        help_text = help_text.removesuffix("]") + f"; fine-tuning: {FINETUNED[field.name]}]"
    choices = dict.fromkeys(
        choice for its_field in of_head.values() for choice in its_field.metadata.get("choices") or ()
    )
    about = {**field.metadata, "help": help_text, "choices": tuple(choices) or None}
    return hint | None, dataclasses.field(default=None, metadata=about)


def _named(value: Any, heads: list[str], n_heads: int) -> str:
    """A default and whose it is; that of most heads needs no names."""
    return str(value) if len(heads) > n_heads // 2 else f"{value} {', '.join(heads)}"


def usual_head(task: str, *, tuned: bool = False) -> str:
    """The head where none is given; over a Transformer that learns with the task, another one may be best."""
    return (TUNED_HEADS.get(task) if tuned else None) or next(iter(HEADS[task]))


def tuned_epochs(n_examples: int) -> int:
    """Passes of fine-tuning over so many examples: the fewer there are, the more."""
    return min(2 + round(SEEN / max(n_examples, 1)), MOST_EPOCHS)


def held_out_share(options: TaskOptions, settings: Any, n_examples: int) -> float:
    """The fraction of the examples to hold out.

    If the learning rate falls to zero at the end (fine-tuning, ULMFiT), the last weights are good ones. A few dozen
    examples could not choose better among the earlier ones, and are worth more in training.
    """
    if options.held_out is not None:
        return options.held_out
    return 0.0 if settings.schedule == "slanted" and HELD_OUT * n_examples < FEWEST else HELD_OUT


def head_options(task: str, options: TaskOptions, n_examples: int = 0) -> Any:
    """The options of the head that was chosen; one given that it does not have is an OptionError."""
    kind = HEADS[task][usual_head(task) if options.head == "auto" else options.head]
    known = {field.name for field in dataclasses.fields(kind)}
    shared = {field.name for field in dataclasses.fields(TaskOptions)}
    given = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in shared or value is None:
            continue
        if field.name not in known:
            if field.default is None:
                raise OptionError(f"the head {options.head} has no option {field.name!r}: {_with(task, field.name)}")
            continue
        given[field.name] = value
    usually = {**FINETUNED, "epochs": tuned_epochs(n_examples)}
    tuned = {name: value for name, value in usually.items() if name in known}
    usual = getattr(kind, "encoder_mode", "frozen")
    return make_options(kind, {**tuned, **given} if given.get("encoder_mode", usual) == "finetune" else given)


def _with(task: str, name: str) -> str:
    heads = [head for head, kind in HEADS[task].items() if name in {f.name for f in dataclasses.fields(kind)}]
    return f"it is one of {', '.join(heads)}"


ClassifyOptions = joined_options("classify")
PairOptions = joined_options("pair")
TagOptions = joined_options("tag")
SpanOptions = joined_options("span")
ChoiceOptions = joined_options("choice")
