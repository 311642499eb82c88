"""Options of ULMFiT's language model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from polyseme.options import option, shape
from polyseme.training.options import SCHEDULES, TrainingOptions

UNITS = ("words", "chars", "bpe")
DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class UlmfitOptions(TrainingOptions):
    """Options of the AWD-LSTM and its training. The defaults suit a CPU; the paper: dim 400, hidden 1150, 3 layers."""

    direction: str = shape("forward", "reading direction", choices=DIRECTIONS)
    units: str = shape("words", "units to predict: words, characters or byte-pair subwords", choices=UNITS)
    dim: int = shape(200, "dimension of an embedding, and of the last layer", minimum=1, maximum=8192)
    hidden: int = shape(400, "LSTM cells of all layers but the last", minimum=1, maximum=65536)
    n_layers: int = shape(3, "LSTM layers", minimum=1, maximum=16)
    min_count: int = option(2, "minimum count; rarer units are unknown", minimum=1)
    max_size: int | None = option(
        30_000, "maximum vocabulary size; for bpe, number of subwords", minimum=10, maximum=10_000_000
    )

    dropout_input: float = option(0.25, "variational dropout of the input embeddings", minimum=0, maximum=0.95)
    dropout_hidden: float = option(0.15, "variational dropout between layers", minimum=0, maximum=0.95)
    dropout_output: float = option(0.1, "variational dropout before the softmax", minimum=0, maximum=0.95)
    dropout_embedding: float = option(0.02, "dropout of whole embeddings", minimum=0, maximum=0.95)
    dropout_weight: float = option(0.2, "dropout of recurrent weights (weight drop)", minimum=0, maximum=0.95)
    activation_penalty: float = option(2.0, "AR: weight of the mean square of the output", minimum=0)
    change_penalty: float = option(1.0, "TAR: weight of the mean square of its change per step", minimum=0)

    lr: float = option(4e-3, "learning rate", minimum=0)
    schedule: str = option("slanted", "learning rate schedule", choices=tuple(SCHEDULES))
    warmup: int = option(0, "warm-up steps; a slanted schedule has its own", minimum=0)
    weight_decay: float = option(1e-7, "decoupled weight decay, except for biases", minimum=0)
    clip_norm: float = option(0.3, "maximum gradient norm (clipping); 0: no limit", minimum=0)
    batch_size: int = option(32, "batch size: streams of text read in parallel", minimum=1)
    unroll: int = option(
        70, "mean number of units per stream and step (backpropagation through time)", minimum=2, maximum=10_000
    )
    negative: int = option(1024, "sampled softmax: units to score per step besides the targets; 0: all", minimum=0)
    layer_rates: float = option(
        2.6, "further training: ratio of a layer's learning rate to that of the layer below", minimum=1
    )
    hold_out: float = option(
        0.02, "fraction of the text held out for the reports, at most 20,000 units", minimum=0, maximum=0.5
    )

    def layer_sizes(self) -> list[tuple[int, int]]:
        """Input size and cells of each layer; the last has ``dim`` cells, so that the softmax can share the table."""
        widths = [self.dim, *[self.hidden] * (self.n_layers - 1), self.dim]
        return list(pairwise(widths))
