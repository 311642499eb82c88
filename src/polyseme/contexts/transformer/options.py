"""Options of a Transformer loaded from published files.

Sizes of Transformers trained here, and the options they share.

The sizes up to ``medium`` are those of Turc et al., "Well-Read Students Learn Better", 2019; ``base`` and ``large``
those of BERT.

Options of BERT.

Options of GPT.

Options of XLM.

Options of MT-DNN.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from polyseme.errors import OptionError
from polyseme.options import option
from polyseme.training.options import SCHEDULES, TrainingOptions

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.contexts.transformer.network import Network

POOLINGS = ("mean", "first", "last")
PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True)
class TransformerOptions:
    """How word vectors are computed from the output of the network."""

    pieces: str = option("mean", "pooling of a word's subword vectors into one", choices=POOLINGS)


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


MASKINGS = ("token", "word", "ngram")
PAIRS = ("nsp", "sop", "none")


@dataclass(frozen=True)
class BertOptions(ShapeOptions):
    """Options of the network, the training examples and the optimisation."""

    pace: ClassVar[float] = 0.5  # the norm after each layer bears smaller steps than GPT's before it

    batch_size: int = option(8, "batch size: examples per step", minimum=1)
    masking: str = option(
        "word", "masking unit: subword pieces, whole words as segmented in the corpus, or spans "
                "of one to three words",
        choices=MASKINGS,
    )  # fmt: skip
    mask_share: float = option(0.15, "fraction of tokens to predict", minimum=0.001, maximum=0.999)
    mask_as: str = option("80/10/10", "of these, percent masked / kept / replaced by a random token")
    pairs: str = option(
        "nsp", "second task: next sentence prediction (nsp), sentence order prediction (sop), or none", choices=PAIRS
    )

    def shares(self) -> tuple[float, float]:
        """Of the subwords chosen for prediction: the share that is masked, and the share that is masked or kept."""
        try:
            masked, left, replaced = (float(part) for part in self.mask_as.split("/"))
        except ValueError:
            masked, left, replaced = -1.0, 0.0, 0.0
        if min(masked, left, replaced) < 0 or abs(masked + left + replaced - 100) > 1e-6:
            raise OptionError(f"option 'mask_as' takes three shares of 100 such as 80/10/10, not {self.mask_as!r}")
        return masked / 100, (masked + left) / 100


NORMS = ("post", "pre")


@dataclass(frozen=True)
class GptOptions(ShapeOptions):
    """Options of the network and its training."""

    batch_size: int = option(8, "batch size: examples per step", minimum=1)
    norm: str = option(
        "pre",
        "position of layer normalisation: after each block as in GPT (post), or before it as in GPT-2 (pre)",
        choices=NORMS,
    )


OBJECTIVES = ("clm", "mlm", "tlm", "mlm+tlm")


@dataclass(frozen=True)
class XlmOptions(ShapeOptions):
    """Options of the network, its objective and its training."""

    batch_size: int = option(16, "batch size: examples per step", minimum=1)
    objective: str = option(
        "mlm+tlm",
        "predict the next token (clm), masked tokens of each language (mlm), masked tokens of a "
        "sentence and its translation (tlm), or alternate the last two",
        choices=OBJECTIVES,
    )
    translates: str = option("source-target", "languages of the parallel text, as SOURCE-TARGET")
    exponent: float = option(
        0.5, "sampling exponent of the languages: 1 as frequent as in the text, 0 uniform",
        minimum=0, maximum=1,
    )  # fmt: skip
    mask_share: float = option(0.15, "fraction of tokens to predict", minimum=0.001, maximum=0.999)
    max_size: int = option(
        10_000,
        "vocabulary size of the tokenizer learned from the text of all languages",
        minimum=50,
        maximum=MOST_PIECES,
    )

    def sides(self) -> tuple[str, str]:
        """The languages of the parallel text."""
        source, dash, target = self.translates.partition("-")
        if not (source and dash and target) or source == target:
            raise OptionError(f"option 'translates' takes two languages such as en-zh, not {self.translates!r}")
        return source, target


@dataclass(frozen=True)
class MtDnnOptions(ShapeOptions):
    """Options of the network, the heads and their training."""

    transformer: str = option(
        "", "pretrained Transformer to start from; default: one of this size, trained from scratch",
        names="model",
    )  # fmt: skip
    shares: str | None = option(
        None, "sampling weights of the sources, such as rte=2 mrpc=1; default: proportional to their size"
    )
    answer_steps: int = option(5, "reasoning steps of the answer network for pairs", minimum=1, maximum=100)
    step_dropout: float = option(0.1, "probability of dropping a reasoning step", minimum=0, maximum=0.9)
    ranking: str = option("", "train a source of pairs as ranking: SOURCE=LABEL, where LABEL marks the relevant pairs")
    candidates: int = option(4, "candidates per ranked pair", minimum=2)
    head_dropout: float = option(0.1, "dropout on a text's vector below the heads", minimum=0, maximum=0.9)

    epochs: int = option(5, "passes over all sources", minimum=0)
    dropout: float = option(0.1, "dropout", minimum=0, maximum=0.9)
    hold_out: float = option(0.1, "fraction of each source's examples held out for the reports", minimum=0, maximum=0.5)
    lr: float = option(0.0, "learning rate; 0: 5e-5 for a pretrained Transformer, otherwise by size", minimum=0)
    schedule: str = option("slanted", "learning rate schedule", choices=tuple(SCHEDULES))

    def ranked(self) -> dict[str, str]:
        """The sources to train as ranking, each with the label of its relevant pairs."""
        labels = {}
        for assignment in self.ranking.split():
            name, equals, label = assignment.partition("=")
            if not equals or not label:
                raise OptionError(f"option 'ranking' takes SOURCE=LABEL, not {assignment!r}")
            labels[name] = label
        return labels
