"""Options of all training on labelled examples: token vectors, encoders that learn, labels. No torch is imported."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from polyseme.options import option
from polyseme.training.options import TrainingOptions, schedule_option

PLACES = ("input", "hidden", "both")
MODES = ("auto", "frozen", "finetune", "multichannel")
TOWARD = ("zero", "uniform")
UNFREEZING = ("gradual", "none")
BIGRAMS, LETTERS = 50, 30  # for tagging characters, for tagging words
DIM = 100  # of word vectors trained with the task if there is no other input


@dataclass(frozen=True)
class TextOptions(TrainingOptions):
    """Options of all trained text encoders. Defaults suit thousands of short texts."""

    dim: int | None = option(
        None,
        f"dimension of word vectors learned with the task, 0: none; default: {DIM} if no encoder is at the input",
        minimum=0,
    )
    min_count: int = option(1, "minimum word count; rarer words are unknown", minimum=1)
    input_dropout: float = option(0.2, "dropout on the token vectors", minimum=0, maximum=0.95)
    epochs: int = option(20, "maximum number of passes over the examples", minimum=0)
    schedule: str = schedule_option("constant")
    warmup: int = option(0, "warm-up steps of the learning rate", minimum=0)
    clip_norm: float = option(5.0, "maximum gradient norm (clipping); 0: no limit", minimum=0)
    batch_size: int = option(32, "batch size: examples per step", minimum=1)


@dataclass(frozen=True)
class InputOptions(TextOptions):
    """Further options of token vectors, where encoders may be given."""

    encoder_mode: str = option(
        "auto",
        "freeze or fine-tune encoders and vectors; auto: encoders are frozen, word vectors are trained, "
        "unless dim is given or classify has them alone under linear or mlp; multichannel: word vectors as both, added",
        choices=MODES,
    )
    dropout: float = option(0.5, "dropout in the encoder", minimum=0, maximum=0.95)
    bigrams: int | None = option(
        None,
        f"dimension of embeddings of token bigrams; default: {BIGRAMS} for tags of characters",
        minimum=0,
    )
    letters: int | None = option(
        None,
        f"filters of a character CNN over each token; default: {LETTERS} for tags of words",
        minimum=0,
    )
    layers: str = option("mix", "layers of an encoder: a learned weighted sum (mix), or top, mean or a number")
    mix_penalty: float = option(0.001, "penalty λ on the weights of the sum (--toward)", minimum=0)
    toward: str = option(
        "zero",
        "what the penalty draws the weights to: zero, λ Σ w² before the softmax (ELMo's program), or uniform, "
        "λ ‖s - 1/(L+1)‖² after it",
        choices=TOWARD,
    )
    elmo_at: str = option("input", "where encoder vectors are added: [x; ELMo], [h; ELMo] or both", choices=PLACES)


@dataclass(frozen=True)
class TuningOptions:
    """Options for fine-tuning given encoders."""

    encoder_lr: float | None = option(
        None,
        "learning rate of fine-tuned encoders relative to lr; default: 0.1, for Transformers "
        "up to 256 wide 0.3, wider than 512 0.05, wider than 768 0.02; twice as much for tags",
        minimum=0,
    )
    layer_rates: float = option(
        1.1, "fine-tuning: ratio of a layer's learning rate to that of the layer below", minimum=1
    )
    encoder_dropout: float = option(0.0, "fine-tuning: dropout inside the Transformer", minimum=0, maximum=0.95)
    lm_weight: float = option(
        0.5, "fine-tuning GPT under linear, mlp, cross or cosine: weight of the language-model loss next to the task's",
        minimum=0,
    )  # fmt: skip
    max_pieces: int = option(
        256, "fine-tuning under linear, mlp, cross or cosine: maximum tokens of a text or pair; longer ones lose "
             "their middle",
        minimum=8,
    )  # fmt: skip
    top_layers: int | None = option(None, "fine-tuning: number of top layers to train; default: all", minimum=0)
    unfreezing: str = option(
        "none", "gradual unfreezing: train layers one after the other from the top, or all at once", choices=UNFREEZING
    )


@dataclass(frozen=True)
class LabelOptions:
    """Options for labels."""

    class_weights: str = option("none", "balanced: rare classes count more in the loss", choices=("none", "balanced"))
    label_smoothing: float = option(
        0.0, "label smoothing: probability that is spread evenly over all classes", minimum=0, maximum=0.9
    )


@dataclass(frozen=True)
class LearnedOptions(LabelOptions, TuningOptions, InputOptions):
    """Options of all training on labelled examples."""

    for_encoders: ClassVar[tuple[str, ...]] = (  # of no use where no encoder is given
        "encoder_mode", "layers", "mix_penalty", "toward", "elmo_at", *(field.name for field in fields(TuningOptions)),
    )  # fmt: skip
