"""Options of ULMFiT's language model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from polyseme.options import option, shape
from polyseme.training.options import TrainingOptions
from polyseme.training.schedules import SCHEDULES

UNITS = ("words", "chars", "bpe")
DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class UlmfitOptions(TrainingOptions):
    """Shape of the AWD-LSTM, and how it learns. The defaults suit a CPU; the paper has 400, 1150 and 3 layers."""

    direction: str = shape("forward", "the direction in which the text is read", choices=DIRECTIONS)
    units: str = shape("words", "what is predicted: words, characters or byte-pair pieces", choices=UNITS)
    dim: int = shape(200, "length of a unit's vector, and of the last layer", minimum=1, maximum=8192)
    hidden: int = shape(400, "cells of the layers before the last", minimum=1, maximum=65536)
    n_layers: int = shape(3, "LSTM layers", minimum=1, maximum=16)
    min_count: int = option(2, "units seen fewer times are unknown", minimum=1)
    max_size: int | None = option(30_000, "most units in the vocabulary; pieces of bpe", minimum=10)

    dropout_input: float = option(0.25, "variational dropout of the vectors that are read", minimum=0, maximum=0.95)
    dropout_hidden: float = option(0.15, "variational dropout between layers", minimum=0, maximum=0.95)
    dropout_output: float = option(0.1, "variational dropout before the softmax", minimum=0, maximum=0.95)
    dropout_embedding: float = option(0.02, "share of the units left out whole", minimum=0, maximum=0.95)
    dropout_weight: float = option(0.2, "share of the recurrent weights left out", minimum=0, maximum=0.95)
    activation_penalty: float = option(2.0, "AR: weight of the mean square of the output", minimum=0)
    change_penalty: float = option(1.0, "TAR: weight of the mean square of its change in a step", minimum=0)

    lr: float = option(4e-3, "learning rate", minimum=0)
    schedule: str = option("slanted", "how the learning rate moves", choices=tuple(SCHEDULES))
    warmup: int = option(0, "steps over which the learning rate rises; a slanted schedule has its own rise", minimum=0)
    weight_decay: float = option(1e-7, "decoupled weight decay, of all but biases", minimum=0)
    clip_norm: float = option(0.3, "bound of the gradient's norm; 0: none", minimum=0)
    batch_size: int = option(32, "rows of consecutive text that are read side by side", minimum=1)
    unroll: int = option(70, "units of a row in a step, on average", minimum=2, maximum=10_000)
    negative: int = option(1024, "units that a step is scored on, beside its targets; 0: all", minimum=0)
    layer_rates: float = option(
        2.6, "training further: how many times faster a layer learns than the one below it", minimum=1
    )
    hold_out: float = option(
        0.02, "share of the text kept for the reports, 20,000 units at most", minimum=0, maximum=0.5
    )

    def layer_sizes(self) -> list[tuple[int, int]]:
        """Inputs and cells of each layer; the last is as wide as a vector, so that the softmax can share the table."""
        widths = [self.dim, *[self.hidden] * (self.n_layers - 1), self.dim]
        return list(pairwise(widths))
