"""Training the language model of ULMFiT on a corpus, from scratch (stage 1) or further on the text of a task (stage 2).

What differs from the papers: a sampled softmax by default, AdamW instead of averaged SGD, a learning rate that is not
scaled by the length of a step, and text that starts at another position in every epoch instead of being shuffled. In
stage 2, a new unit starts as the mean of all known embeddings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.contexts.ulmfit.network import AwdLstm
from polyseme.contexts.ulmfit.options import UlmfitOptions
from polyseme.contexts.ulmfit.units import SPECIALS, Ints, Units, learn_units, stream_of
from polyseme.errors import TrainingError, as_given
from polyseme.interfaces import perplexity_of
from polyseme.neural.lstm import State, rows_of_states, states_of_rows
from polyseme.neural.softmax import ClassSampler, log_frequencies, log_losses, sampled_softmax_loss
from polyseme.options import keeping_shape
from polyseme.text.corpus import Corpus
from polyseme.training.optimisers import ParameterGroup
from polyseme.training.task import BatchTask, Part, Score

if TYPE_CHECKING:
    from polyseme.contexts.ulmfit.model import Ulmfit

HELD_OUT = 20_000  # units at most
REPORT_UNITS = 1_000_000  # units between two reports, if an epoch is longer
EVALUATED = 32  # rows of held-out text that are read in parallel
SHORT, SPREAD, LEAST = 0.05, 5.0, 5  # lengths of steps: share of half-length ones, standard deviation, minimum


class Stream:
    """Rows of consecutive text, read in parallel in steps of varying length."""

    def __init__(self, units: Ints, *, rows: int, unroll: int, seed: int) -> None:
        self.units, self.unroll, self.seed = units, unroll, seed
        self.rows = max(min(rows, (len(units) - 1) // 2), 1)
        self.length = (len(units) - 1) // self.rows  # predictions of a row
        self._edges = lru_cache(maxsize=2)(self._make_edges)
        self._laid_out = lru_cache(maxsize=2)(self._lay_out)

    def n_steps(self, epoch: int) -> int:
        """The number of steps in an epoch."""
        return len(self._edges(epoch)) - 1

    def step(self, epoch: int, index: int) -> tuple[Tensor, Tensor]:
        """Units to read and to predict, ``(T, B)`` each."""
        start, end = self._edges(epoch)[index : index + 2]
        text = self._laid_out(epoch)
        return torch.from_numpy(text[start:end].copy()), torch.from_numpy(text[start + 1 : end + 1].copy())

    def _make_edges(self, epoch: int) -> list[int]:
        random = np.random.default_rng((self.seed, epoch))
        edges = [0]
        while edges[-1] < self.length:
            base = self.unroll / 2 if random.random() < SHORT else self.unroll
            edges.append(min(edges[-1] + max(int(random.normal(base, SPREAD)), LEAST), self.length))
        return edges

    def _lay_out(self, epoch: int) -> Ints:
        """The text of an epoch, one column per row of the batch: ``(length + 1, B)``.

        The last unit of a column is the first of the next one.
        """
        random = np.random.default_rng((self.seed, epoch, 1))
        turned = np.roll(self.units[:-1], -int(random.integers(len(self.units) - 1))) if epoch else self.units[:-1]
        columns = turned[: self.rows * self.length].reshape(self.rows, self.length)
        following = np.append(columns[1:, 0], turned[0])
        return np.ascontiguousarray(np.concatenate([columns, following[:, None]], axis=1).T)


class LanguageModelTask(BatchTask):
    """Learns to predict the next unit."""

    module: AwdLstm
    unit = "units"

    def __init__(
        self, module: AwdLstm, training: Ints, held_out: Ints, options: UlmfitOptions, *, further: bool = False
    ) -> None:
        self.module, self.options, self.further = module, options, further
        self.stream = Stream(training, rows=options.batch_size, unroll=options.unroll, seed=options.seed)
        self.held_out = Stream(held_out, rows=EVALUATED, unroll=options.unroll, seed=0) if len(held_out) > 2 else None
        self.reports = max(1, round(len(training) / REPORT_UNITS))
        counts = np.bincount(training, minlength=len(module.table))
        self.sampler = ClassSampler(counts, options.negative or len(counts))
        self.states: list[State] = []

    def n_steps(self, epoch: int) -> int:
        return self.stream.n_steps(epoch)

    def groups(self, epoch: int) -> dict[str, ParameterGroup]:
        """In further training, lower layers have a lower learning rate; the table (and softmax) has the full one."""
        n, rates = self.options.n_layers if self.further else 0, self.options.layer_rates
        return {f"layers.{layer}.": ParameterGroup(lr_factor=rates ** (layer + 1 - n)) for layer in range(n)}

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        read, targets = self.stream.step(epoch, index)
        random = np.random.default_rng((self.options.seed, epoch, index))
        candidates = self.sampler.draw(targets.numpy().reshape(-1), random)
        units, wanted = (grid[:, part.rank :: part.of].reshape(-1).to(self.device) for grid in (read, targets))
        sizes = [read[:, part.rank :: part.of].shape[1]] * len(read)
        if not len(units):
            return torch.zeros(()), 0
        output = self.module(units, sizes, self.states if index and self.states else None)
        self.states = [State(state.h.detach(), state.c.detach()) for state in output.states]
        softmax = self.module.table, self.module.bias
        total = sampled_softmax_loss(output.dropped, wanted, *softmax, candidates.to(self.device), 1.0)
        return total + len(units) * self.module.penalty(output, sizes), len(units)

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, AwdLstm)
        if self.held_out is None:
            return None
        total, n, states = 0.0, 0, None
        with torch.inference_mode():
            for index in range(self.held_out.n_steps(0)):
                read, targets = self.held_out.step(0, index)
                output = module(read.reshape(-1).to(self.device), [read.shape[1]] * len(read), states)
                states, wanted = output.states, targets.reshape(-1).to(self.device)
                losses = log_losses(output.dropped, wanted, module.table, module.bias, self.sampler.reported)
                total, n = total + float(losses.sum()), n + len(wanted)
        return Score(total / n, {"perplexity": perplexity_of(total / n)})

    def carried(self) -> dict[str, Tensor]:
        return rows_of_states(self.states)

    def carry(self, tensors: dict[str, Tensor]) -> None:
        self.states = states_of_rows(tensors)


def make_task(corpus: Corpus, options: UlmfitOptions, start: Ulmfit | None) -> tuple[LanguageModelTask, Units]:
    """The training task, ready for the first step, and the units of the model."""
    training, held_out = _split(corpus, options.hold_out)
    if start is not None:
        options = keeping_shape(options, start.options)
    units = _units(corpus, options, start)
    if not units.known:
        raise TrainingError(
            f"no unit occurs {options.min_count} times or more: give more text, or {as_given('min_count', 1)}"
        )
    turn = -1 if options.direction == "backward" else 1
    text, kept_out = (stream_of(corpus, which, units)[::turn].copy() for which in (training, held_out))
    if len(text) < 4:
        raise TrainingError("the text is too short to learn from: it has no words to predict")
    torch.manual_seed(options.seed)
    module = AwdLstm(len(units), options)
    with torch.no_grad():
        module.bias.copy_(log_frequencies(np.bincount(text, minlength=len(module.table))))
    if start is not None:
        _take_over(module, units, start)
    return LanguageModelTask(module, text, kept_out, options, further=start is not None), units


def _split(corpus: Corpus, share: float) -> tuple[Ints, Ints]:
    """Training and held-out sentences; the choice depends on the text alone."""
    lengths = np.diff(corpus.sentence_offsets)
    filled = np.flatnonzero(lengths > 0)
    if not len(filled):
        raise TrainingError("the corpus has no words to train on")
    order = np.random.default_rng(20180118).permutation(filled)
    wanted = min(share * corpus.n_tokens, HELD_OUT)
    n = int(np.searchsorted(np.cumsum(lengths[order]), wanted, side="right"))
    n = min(max(n, 1), len(order) - 1) if share else 0
    return np.sort(order[n:]), np.sort(order[:n])


def _units(corpus: Corpus, options: UlmfitOptions, start: Ulmfit | None) -> Units:
    if start is not None and options.units == "bpe":
        return start.units  # its merges apply to any word
    units = learn_units(corpus, options.units, min_count=options.min_count, max_size=options.max_size)
    if start is None:
        return units
    known = start.units.index
    return Units(units.kind, [*start.units.known, *(unit for unit in units.known if unit not in known)])


@torch.no_grad()
def _take_over(module: AwdLstm, units: Units, start: Ulmfit) -> None:
    """Copy the weights of ``start``; units that are new to it start as the mean of its units."""
    known = start.module.state_dict()
    n = SPECIALS + len(start.units.known)
    for name, tensor in module.state_dict().items():
        if name == "table":
            tensor[:n] = known[name]
            tensor[n:] = known[name].mean(dim=0)
        elif name == "bias":
            tensor[:n] = known[name]
            tensor[n:] = known[name].mean()
        else:
            tensor.copy_(known[name])
