"""Training a causal language model 因果语言模型: predict the next subword."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.contexts.transformer.network import Batch, Network
from polyseme.contexts.transformer.pretrain.objectives import extras
from polyseme.contexts.transformer.pretrain.training_examples import Examples
from polyseme.training.task import BatchTask, Part, Score

PIECES_A_REPORT = 2_000_000
IGNORED = -100  # target at padding


class CausalTask(BatchTask):
    """Learns to predict every subword of an example from those before it."""

    module: Network
    unit = "pieces"

    def __init__(
        self,
        module: Network,
        examples: Examples,
        held_out: Examples | None,
        *,
        batch_size: int,
        length: int,
        padding: int,
    ) -> None:
        self.module, self.examples, self.held_out = module, examples, held_out
        self.batch_size, self.padding = batch_size, padding
        self.reports = max(round(examples.n_examples(0) * length / PIECES_A_REPORT), 1)

    def n_steps(self, epoch: int) -> int:
        return -(-self.examples.n_examples(epoch) // self.batch_size)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        last = min((index + 1) * self.batch_size, self.examples.n_examples(epoch))
        numbers = range(index * self.batch_size, last)[part.rank :: part.of]
        return self._loss(self.module, self.examples, epoch, numbers) if len(numbers) else (torch.zeros(()), 0)

    @torch.inference_mode()
    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, Network)
        if self.held_out is None:
            return None
        total, n, count = 0.0, 0, self.held_out.n_examples(-1)
        for start in range(0, count, self.batch_size):
            numbers = range(start, min(start + self.batch_size, count))
            loss, more = self._loss(module, self.held_out, -1, numbers)
            total, n = total + float(loss), n + more
        return Score(total / n, {"perplexity": math.exp(min(total / n, 700))}) if n else None

    def _loss(self, module: Network, examples: Examples, epoch: int, numbers: range) -> tuple[Tensor, int]:
        """The sum of -log p over all subwords but the first of each example, and their number."""
        read_examples = [examples.example(epoch, number) for number in numbers]
        found = [example.ids for example in read_examples]
        longest = max(len(ids) for ids in found)
        if longest < 2:
            return torch.zeros((), requires_grad=True), 0
        table = np.full((len(found), longest), self.padding, dtype=np.int64)
        targets = np.full((len(found), longest - 1), IGNORED, dtype=np.int64)
        for row, ids in enumerate(found):
            table[row, : len(ids)] = ids
            targets[row, : len(ids) - 1] = ids[1:]
        read, told = (torch.from_numpy(array).to(self.device) for array in (table[:, :-1].copy(), targets))
        # In a causal network no position sees the padding after it, so no mask is needed.
        more = {name: torch.from_numpy(array[:, :-1].copy()) for name, array in extras(read_examples, longest).items()}
        batch = Batch(read, **{name: array.to(self.device) for name, array in more.items()})
        states = module.top(batch).reshape(-1, module.dim)
        wanted = told.reshape(-1)
        real = wanted != IGNORED
        if not bool(real.all()):
            states, wanted = states[real], wanted[real]
        return F.cross_entropy(module.head(states), wanted, reduction="sum"), len(wanted)
