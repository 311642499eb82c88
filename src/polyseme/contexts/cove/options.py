"""Options of CoVe."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.options import option
from polyseme.training.options import TrainingOptions

TARGET_UNITS = ("auto", "words", "chars")


@dataclass(frozen=True)
class CoveOptions(TrainingOptions):
    """Shape of the translation model, and how it learns. The paper has 300 cells and SGD at 1.0, halved on plateaus."""

    word_vectors: str | None = option(
        None, "word vectors that the encoder reads, a model or a published file; unless given, they are learned",
        names="model",
    )  # fmt: skip
    dim: int = option(200, "length of a learned word vector", minimum=1, maximum=8192)
    hidden: int = option(150, "LSTM cells per direction and layer; vectors are twice as long", minimum=1, maximum=8192)
    n_layers: int = option(2, "LSTM layers of encoder and decoder", minimum=1, maximum=16)
    min_count: int = option(2, "words seen fewer times are unknown", minimum=1)
    max_size: int | None = option(20_000, "most words of each language", minimum=10)
    target_units: str = option(
        "auto", "what is written: words or characters; auto: characters for Chinese", choices=TARGET_UNITS
    )
    dropout: float = option(0.2, "share left out between layers and before the softmax", minimum=0, maximum=0.95)
    lr: float = option(2e-3, "learning rate", minimum=0)
    clip_norm: float = option(5.0, "bound of the gradient's norm; 0: none", minimum=0)
    batch_tokens: int = option(1600, "words of a step, source and target together", minimum=1)
    longest: int = option(80, "pairs with more words on either side are left out", minimum=2)
    negative: int = option(1024, "words that a step is scored on, beside its targets; 0: all", minimum=0)
    hold_out: float = option(0.02, "share of the pairs kept for the reports, 1,000 at most", minimum=0, maximum=0.5)
