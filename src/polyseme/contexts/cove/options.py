"""Options of CoVe."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.options import option
from polyseme.training.options import TrainingOptions

TARGET_UNITS = ("auto", "words", "chars")


@dataclass(frozen=True)
class CoveOptions(TrainingOptions):
    """Options of the translation model and its training. The paper: 300 cells, SGD at lr 1.0, halved on plateaus."""

    word_vectors: str | None = option(
        None, "pretrained word vectors as input, a model or a published file; default: learned",
        names="model",
    )  # fmt: skip
    dim: int = option(200, "dimension of a learned word vector", minimum=1, maximum=8192)
    hidden: int = option(150, "LSTM cells per direction and layer; vectors are twice as long", minimum=1, maximum=8192)
    n_layers: int = option(2, "LSTM layers of encoder and decoder", minimum=1, maximum=16)
    min_count: int = option(2, "minimum word count; rarer words are unknown", minimum=1)
    max_size: int | None = option(20_000, "maximum vocabulary size of each language", minimum=10)
    target_units: str = option(
        "auto", "decoder units: words or characters; auto: characters for Chinese", choices=TARGET_UNITS
    )
    dropout: float = option(0.2, "dropout between layers and before the softmax", minimum=0, maximum=0.95)
    lr: float = option(4e-3, "learning rate", minimum=0)
    clip_norm: float = option(5.0, "maximum gradient norm (clipping); 0: no limit", minimum=0)
    batch_tokens: int = option(400, "words per step, source and target together", minimum=1)
    longest: int = option(80, "maximum words of a sentence; longer pairs are skipped", minimum=2)
    negative: int = option(1024, "sampled softmax: words to score per step besides the targets; 0: all", minimum=0)
    hold_out: float = option(
        0.02, "fraction of the pairs held out for the reports, at most 1,000", minimum=0, maximum=0.5
    )
