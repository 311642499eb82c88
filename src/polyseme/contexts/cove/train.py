"""Training CoVe's translation model on parallel text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.cove.network import Translator
from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.target_vocabulary import BOUNDARY, SPECIALS, TargetVocabulary
from polyseme.contexts.static import looked_up
from polyseme.errors import TrainingError
from polyseme.interfaces import WordVectorsInterface, perplexity_of
from polyseme.neural.batches import BudgetBatches, Packing
from polyseme.neural.layers import dropout
from polyseme.neural.softmax import ClassSampler, log_losses, sampled_softmax_loss
from polyseme.training.task import BatchTask, Part, Score

HELD_OUT = 1000  # pairs at most
REPORT_PAIRS = 20_000  # pairs between two reports, if an epoch is longer
Pair = tuple[list[str], list[str]]


class SourceVectors:
    """The vectors of source words: from a learned table, or given ones, with zeros for unknown words."""

    def __init__(self, words: TargetVocabulary, vectors: WordVectorsInterface | None) -> None:
        self.words = words
        self.fixed = None if vectors is None else torch.from_numpy(np.concatenate([
            np.zeros((SPECIALS, vectors.vector_size), dtype=np.float32), looked_up(vectors, words.known),
        ]))  # fmt: skip

    def vectors(self, network: Translator, numbers: Tensor) -> Tensor:
        """Word ids ``(B, S)`` → vectors ``(B, S, D)``."""
        if self.fixed is not None:
            return F.embedding(numbers.cpu(), self.fixed).to(numbers.device)
        assert network.table is not None
        return F.embedding(numbers, network.table, sparse=True)


class TranslationTask(BatchTask):
    """Learns to predict each target sentence word by word."""

    module: Translator
    unit = "words"

    def __init__(
        self, network: Translator, source: SourceVectors, target: TargetVocabulary, training: Sequence[Pair],
        held_out: Sequence[Pair],
        options: CoveOptions,
    ) -> None:  # fmt: skip
        self.module, self.source, self.options = network, source, options
        self.pairs = [(source.words.numbers(a), target.numbers(b)) for a, b in training]
        self.held_out = [(source.words.numbers(a), target.numbers(b)) for a, b in held_out]
        self.batches = self._batches(self.pairs)
        self.reports = max(1, round(len(self.pairs) / REPORT_PAIRS))
        written = np.concatenate([[BOUNDARY] * len(self.pairs), *(b for _, b in self.pairs)]).astype(np.int64)
        counts = np.bincount(written, minlength=len(target))
        self.sampler = ClassSampler(counts, options.negative or len(target))

    def _batches(self, pairs: Sequence[tuple[list[int], list[int]]]) -> BudgetBatches:
        sizes = [len(a) + len(b) + 1 for a, b in pairs]
        return BudgetBatches(sizes, tokens=self.options.batch_tokens, seed=self.options.seed, padded=True)

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        rows = self.batches.rows(epoch, index)
        random = np.random.default_rng((self.options.seed, epoch, index))
        targets = np.concatenate([[BOUNDARY], *(self.pairs[row][1] for row in rows)]).astype(np.int64)
        candidates = self.sampler.draw(targets, random)
        mine = [self.pairs[row] for row in rows[part.rank :: part.of]]
        if not mine:
            return torch.zeros(()), 0
        outputs, wanted = self._outputs(self.module, mine)
        dropped = dropout(outputs, self.options.dropout, self.module.training)
        decoder = self.module.decoder
        assert decoder is not None
        softmax = decoder.softmax_weight, decoder.softmax_bias
        total = sampled_softmax_loss(dropped, wanted, *softmax, candidates.to(self.device), 1.0)
        return total, len(wanted)

    def _outputs(self, network: Translator, pairs: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        """h̃ at every target word ``(M, 2H)``, and the ids of these words ``(M,)``."""
        source, lengths = padded([a for a, _ in pairs])
        read, sizes = padded([[BOUNDARY, *b] for _, b in pairs])
        write, _ = padded([[*b, BOUNDARY] for _, b in pairs])
        packing = Packing.of(sizes.numpy())
        read, write = (words[packing.row, packing.time[0]].to(self.device) for words in (read, write))
        return network.outputs(self.source.vectors(network, source.to(self.device)), lengths, read, packing), write

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, Translator)
        assert module.decoder is not None
        total, n = 0.0, 0
        with torch.inference_mode():
            for rows in self._batches(self.held_out).in_order():
                outputs, wanted = self._outputs(module, [self.held_out[row] for row in rows])
                softmax = module.decoder.softmax_weight, module.decoder.softmax_bias
                losses = log_losses(outputs, wanted, *softmax, self.sampler.reported)
                total, n = total + float(losses.sum()), n + len(wanted)
        return Score(total / n, {"perplexity": perplexity_of(total / n)}) if n else None


def padded(lists: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """The lists padded with zeros ``(B, T)``, and their lengths ``(B,)``."""
    lengths = np.array([len(numbers) for numbers in lists], dtype=np.int64)
    grid: NDArray[np.int64] = np.zeros((len(lists), max(int(lengths.max()), 1)), dtype=np.int64)
    for row, numbers in enumerate(lists):
        grid[row, : len(numbers)] = numbers
    return torch.from_numpy(grid), torch.from_numpy(lengths)


def kept_pairs(pairs: Sequence[Pair], longest: int) -> list[Pair]:
    """The pairs with 1 to ``longest`` words on both sides; raises if there are fewer than two."""
    kept = [(a, b) for a, b in pairs if 0 < len(a) <= longest and 0 < len(b) <= longest]
    if len(kept) < 2:
        raise TrainingError(
            f"{len(kept)} of {len(pairs):,} pairs have between 1 and {longest} words on both sides: give more text"
        )
    return kept
