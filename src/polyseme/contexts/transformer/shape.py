"""Sizes of Transformers trained here, and the options they share.

The sizes up to ``medium`` are those of Turc et al., "Well-Read Students Learn Better", 2019; ``base`` and ``large``
those of BERT.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from polyseme.contexts.transformer.options import POOLINGS
from polyseme.errors import OptionError
from polyseme.options import option
from polyseme.training.options import SCHEDULES, TrainingOptions

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.contexts.transformer.network import Network

log = logging.getLogger(__name__)

MOST_PIECES = 1_000_000  # of a vocabulary of subwords: the largest published ones have 256,000
# layers, dimension of a vector, learning rate
SIZES: dict[str, tuple[int, int, float]] = {
    "tiny": (2, 128, 2e-3),
    "mini": (4, 256, 1e-3),
    "small": (4, 512, 7e-4),
    "medium": (8, 512, 4e-4),
    "base": (12, 768, 1e-4),
    "large": (24, 1024, 5e-5),
}
HEAD_DIM = 64  # dimension of an attention head
FURTHER_PACE = 0.5  # factor on the learning rate of a size, for a network that is trained further

O = TypeVar("O", bound="ShapeOptions")  # noqa: E741


@dataclass(frozen=True)
class ShapeOptions(TrainingOptions):
    """Options of the network, its tokenizer and its training."""

    pace: ClassVar[float] = 1.0  # factor on the learning rate of a size

    size: str = option(
        "mini", "preset for layers, dim, heads and inner; values given explicitly take precedence", choices=tuple(SIZES)
    )
    n_layers: int | None = option(None, "layers", minimum=1, maximum=200)
    dim: int | None = option(None, "dimension of a vector", minimum=2, maximum=16384)
    n_heads: int | None = option(None, "attention heads per layer; default: dim / 64", minimum=1)
    inner: int | None = option(None, "feed-forward dimension of a layer; default: 4 × dim", minimum=1)
    max_size: int = option(
        8000, "vocabulary size of the tokenizer learned from the text", minimum=50, maximum=MOST_PIECES
    )
    tokenizer: str = option(
        "", "use the tokenizer of this Transformer instead, or this vocab.txt (WordPiece) or tokenizer.json",
        names="tokenizer",
    )  # fmt: skip
    length: int = option(
        128, "tokens per training example, including special tokens; longer text is read in windows",
        minimum=8, maximum=8192,
    )  # fmt: skip
    batch_size: int = option(32, "batch size: examples per step", minimum=1)
    dropout: float = option(0.0, "dropout", minimum=0, maximum=0.9)
    hold_out: float = option(
        0.02, "fraction of the text held out for the reports, at most 20,000 tokens", minimum=0, maximum=0.5
    )
    pieces: str = option("mean", "pooling of a word's subword vectors into one", choices=POOLINGS)

    lr: float = option(0.0, "learning rate; 0: by the number of layers and their dimension", minimum=0)
    schedule: str = option("slanted", "learning rate schedule", choices=tuple(SCHEDULES))
    warmup: int = option(0, "warm-up steps; a slanted schedule has its own", minimum=0)
    weight_decay: float = option(0.01, "decoupled weight decay, except for biases and norms", minimum=0)
    patience: int = option(0, "early stopping: reports without a better held-out score; 0: never stop", minimum=0)

    def preset(self) -> Self:
        """The options that this size stands for, all others left at their defaults."""
        return with_shape(type(self)(size=self.size))


def with_shape(options: O) -> O:
    """The options with all sizes filled in, so that a saved model does not change when a preset does."""
    layers, dim, _ = SIZES[options.size]
    layers, dim = options.n_layers or layers, options.dim or dim
    heads = options.n_heads or max(dim // HEAD_DIM, 1)
    if dim % heads:
        raise OptionError(f"{heads} attention heads do not divide the dimension {dim}: give n_heads")
    given: dict[str, Any] = {
        "n_layers": layers,
        "dim": dim,
        "n_heads": heads,
        "inner": options.inner or 4 * dim,
        "lr": options.lr or options.pace * usual_lr(layers, dim),
    }
    return replace(options, **given)


def with_shape_of(network: Network, options: O) -> O:
    """The options with the sizes of a network to train further, and a learning rate that keeps what it knows."""
    config, layers, dim = network.whole.config, network.n_layers - 1, network.dim
    inner = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * dim
    given: dict[str, Any] = {
        "n_layers": layers,
        "dim": dim,
        "n_heads": getattr(config, "num_attention_heads", None),
        "inner": inner,
        "lr": options.lr or FURTHER_PACE * usual_lr(layers, dim),
        "length": readable_length(network, options.length),
    }
    return replace(options, **given)


def usual_lr(n_layers: int, dim: int) -> float:
    """The learning rate of the smallest size that has as many layers and dimensions, or of the largest."""
    rates = [lr for layers, width, lr in SIZES.values() if n_layers <= layers and dim <= width]
    return rates[0] if rates else SIZES["large"][2]


def readable_length(network: Network, wanted: int) -> int:
    """The wanted length of the inputs, or the longest that a network to train further can read, which is told."""
    most = network.positions() or wanted
    if wanted > most:
        log.warning("this %s reads at most %d subwords at once: length=%d", network.whole.config.model_type, most, most)
    return min(wanted, most)


def check_inner(options: ShapeOptions) -> None:
    """Refuse ``inner`` for architectures whose feed-forward layers always have four times the dimension."""
    if options.inner and options.dim and options.inner != 4 * options.dim:
        raise OptionError(f"this network has feed-forward layers of 4 × dim, {4 * options.dim}: leave inner out")


def initial_deviation(options: ShapeOptions) -> float:
    """Standard deviation of the initial weights. BERT's 0.02 suits dim 768, but is too small for smaller networks."""
    return 1 / math.sqrt(options.dim or SIZES[options.size][1])
