"""Options of ELMo, and the presets of their sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from polyseme.errors import OptionError
from polyseme.options import option, shape
from polyseme.training.options import TrainingOptions

if TYPE_CHECKING:
    from typing_extensions import Self

PAPER_FILTERS = "1x32 2x32 3x64 4x128 5x256 6x512 7x1024"

# The values of options that are None, by size. "default" is meant for a CPU and one to ten million words.
SIZES: dict[str, dict[str, Any]] = {
    "default": {
        "alphabet": "chars+words", "char_dim": 32, "max_characters": 16, "filters": "1x32 2x64 3x96",
        "n_highway": 1, "word_dim": 96, "hidden": 128, "projection": 128,
    },
    "tiny": {
        "alphabet": "chars+words", "char_dim": 8, "max_characters": 8, "filters": "1x8 2x8",
        "n_highway": 1, "word_dim": 16, "hidden": 24, "projection": 16,
    },
    "small": {
        "alphabet": "bytes", "char_dim": 16, "max_characters": 50, "filters": PAPER_FILTERS,
        "n_highway": 1, "word_dim": 128, "hidden": 1024, "projection": 128,
    },
    "medium": {
        "alphabet": "bytes", "char_dim": 16, "max_characters": 50, "filters": PAPER_FILTERS,
        "n_highway": 1, "word_dim": 256, "hidden": 2048, "projection": 256,
    },
    "original": {
        "alphabet": "bytes", "char_dim": 16, "max_characters": 50, "filters": PAPER_FILTERS,
        "n_highway": 2, "word_dim": 512, "hidden": 4096, "projection": 512,
    },
}  # fmt: skip
READERS = ("lstm", "cnn", "transformer")
ALPHABETS = ("bytes", "chars", "words", "chars+words")


@dataclass(frozen=True)
class BiLMShape:
    """The options that determine the weights of a biLM; they stay the same when it is trained further."""

    size: str = shape(
        "default", "preset for the sizes below; sizes given explicitly take precedence", choices=tuple(SIZES)
    )
    alphabet: str | None = shape(
        None, "input units of a word: UTF-8 bytes, Unicode characters, word ids, or characters "
              "and word ids",
        choices=ALPHABETS,
    )  # fmt: skip
    char_dim: int | None = shape(None, "dimension of a character embedding", minimum=1, maximum=4096)
    max_characters: int | None = shape(
        None, "maximum characters of a word, including its two boundary marks", minimum=3, maximum=1000
    )
    filters: str | None = shape(None, "convolutions over the characters, as WIDTHxNUMBER, e.g. '1x32 2x64 3x96'")
    activation: str = shape("relu", "activation after the convolutions", choices=("relu", "tanh"))
    n_highway: int | None = shape(None, "highway layers after the convolutions", minimum=0, maximum=32)
    word_dim: int | None = shape(None, "dimension of a word's own embedding, if word ids are read", minimum=1)
    hidden: int | None = shape(None, "LSTM cells per direction and layer", minimum=1, maximum=65536)
    projection: int | None = shape(None, "dimension of a state per direction; vectors are twice as long", minimum=1)
    reader: str = shape("lstm", "network over the words, in each direction", choices=READERS)
    n_layers: int = shape(2, "layers of the reader", minimum=1, maximum=32)
    width: int = shape(4, "kernel width of the cnn reader, in words", minimum=1, maximum=64)
    n_heads: int = shape(4, "attention heads of the transformer reader", minimum=1, maximum=128)
    cell_clip: float = shape(3.0, "cell values are clipped to this; 0: no clipping", minimum=0, maximum=1e30)
    projection_clip: float = shape(3.0, "projected states are clipped to this; 0: no clipping", minimum=0, maximum=1e30)
    skip: bool = shape(True, "residual connections from the second layer on")
    conventions: str = shape(
        "polyseme", "details as in a published program: bilm-tf has other marks of where sentences begin and end; "
                    "manylangs cuts words to max_characters before it looks them up, and sorts stateful batches by "
                    "length",
        choices=("polyseme", "bilm-tf", "manylangs"),
    )  # fmt: skip

    def value(self, name: str) -> Any:
        """The value of an option; if it is None, that of the size preset."""
        given = getattr(self, name)
        return SIZES[self.size][name] if given is None else given

    def preset(self) -> Self:
        """The options that this size stands for, all others left at their defaults."""
        return type(self)(size=self.size, **SIZES[self.size])

    def filter_list(self) -> tuple[tuple[int, int], ...]:
        """``((width, number), …)``."""
        return parse_filters(self.value("filters"))


@dataclass(frozen=True)
class ElmoOptions(TrainingOptions, BiLMShape):
    """Options of the biLM and its training."""

    lr: float = option(1e-2, "learning rate", minimum=0)
    min_count: int = option(
        3, "rarer words are not softmax classes; as input they are read by their characters", minimum=1
    )
    max_size: int | None = option(200_000, "maximum number of softmax classes", minimum=1)
    sequences: str = option(
        "sentences", "train on whole sentences, or on a stream of text with states carried over "
                     "(as the paper's authors did)",
        choices=("sentences", "stream"),
    )  # fmt: skip
    batch_tokens: int = option(1024, "predictions per step and direction", minimum=1)
    unroll: int = option(
        60, "maximum words of a sequence; in a stream, steps of backpropagation through time", minimum=1
    )
    negative: int = option(512, "sampled softmax: classes to score per step besides the targets; 0: all", minimum=0)
    dropout: float = option(0.3, "dropout on the input of each layer", minimum=0, maximum=0.95)
    hold_out: float = option(
        0.02, "fraction of the text held out for the reports, at most 20,000 words", minimum=0, maximum=0.5
    )


def parse_filters(text: str) -> tuple[tuple[int, int], ...]:
    """``"1x32 2x64"`` → ``((1, 32), (2, 64))``."""
    try:
        pairs = tuple((int(w), int(n)) for w, n in (item.lower().split("x") for item in text.split()))
    except ValueError:
        pairs = ()
    if not pairs or any(w < 1 or n < 1 for w, n in pairs):
        raise OptionError(f"option 'filters' takes pairs WIDTHxNUMBER such as '1x32 2x64', not {text!r}")
    return pairs


def filters_text(filters: tuple[tuple[int, int], ...]) -> str:
    """The inverse of ``parse_filters``."""
    return " ".join(f"{width}x{number}" for width, number in filters)


def with_sizes(options: ElmoOptions) -> ElmoOptions:
    """The options with all sizes filled in, so that a saved model does not change when a preset does."""
    return replace(options, **{name: options.value(name) for name in SIZES["default"]})
