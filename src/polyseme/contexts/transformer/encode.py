"""Sequences of pieces through a network: of like length together, long ones in windows, each as if it stood alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from polyseme.contexts.transformer.network import Batch, Network
from polyseme.contexts.transformer.pieces import Ints, Pieces
from polyseme.contexts.transformer.windows import Window, windows
from polyseme.nouns import FloatArray, Layers

BATCH_PIECES = 384  # more do not fit the caches, fewer leave the multiplications small
QUANTISED_PIECES = 768  # of whole numbers more fit
USUAL_LIMIT = 512  # of pieces at once, where neither network nor tokenizer says one


class Runner:
    """A network and its tokenizer, ready to read."""

    def __init__(self, network: Network, pieces: Pieces, *, limit: int | None = None) -> None:
        self.network, self.pieces = network, pieces
        limits = [n for n in (limit, network.positions(), pieces.limit) if n]
        self.limit = min(limits) if limits else USUAL_LIMIT
        self.room = max(self.limit - len(pieces.before) - len(pieces.behind), 1)
        self.padding = pieces.id_of("pad") or 0

    @torch.inference_mode()
    def run(
        self, sequences: Sequence[Ints], layers: Layers, mix: Sequence[float] | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """The number of a sequence and its states ``(planes, before + pieces + behind, D)``, in no certain order."""
        weights = layers.weights(mix)
        parts = [windows(len(ids), self.room, causal=self.network.causal) for ids in sequences]
        jobs = [(number, window) for number, own in enumerate(parts) for window in own]
        unfinished = {number: _Whole(len(own)) for number, own in enumerate(parts) if len(own) > 1}
        for rows in self._batches(jobs):
            computed = self._planes(self._batch(sequences, rows), layers, weights)  # (P, B, T, D)
            for row, (number, window) in enumerate(rows):
                states = computed[:, row]
                if number not in unfinished:
                    yield number, states[:, : self._length(window)]
                elif unfinished[number].add(window, self._answers(states, window, len(sequences[number]))):
                    yield number, unfinished.pop(number).states()

    def alone(self, ids: Ints) -> Batch:
        """A sequence as a batch of its own, special pieces around it."""
        return self._batch([ids], [(0, windows(len(ids), self.room, causal=self.network.causal)[0])])

    def together(self, sequences: Sequence[Ints]) -> Batch:
        """Sequences that the network can read at once as one batch, special pieces around each."""
        return self._batch(sequences, [(number, Window.whole(len(ids))) for number, ids in enumerate(sequences)])

    def _length(self, window: Window) -> int:
        return len(self.pieces.before) + window.end - window.start + len(self.pieces.behind)

    def _batches(self, jobs: list[tuple[int, Window]]) -> Iterator[list[tuple[int, Window]]]:
        """Windows of like length together, longest first; of one length if padding would change what is read."""
        most = QUANTISED_PIECES if self.network.quantised else BATCH_PIECES
        jobs = sorted(jobs, key=lambda job: (-self._length(job[1]), job[0]))
        start = 0
        while start < len(jobs):
            length = self._length(jobs[start][1])
            rows = jobs[start : start + max(most // max(length, 1), 1)]
            if not self.network.pads:
                rows = [job for job in rows if self._length(job[1]) == length]
            yield rows
            start += len(rows)

    def _batch(self, sequences: Sequence[Ints], rows: list[tuple[int, Window]]) -> Batch:
        before, behind = self.pieces.before, self.pieces.behind
        lengths = [self._length(window) for _, window in rows]
        longest = max(max(lengths), 1)
        ids = np.full((len(rows), longest), self.padding, dtype=np.int64)
        for row, (number, window) in enumerate(rows):
            ids[row, : lengths[row]] = [*before, *sequences[number][window.start : window.end].tolist(), *behind]
        padded = min(lengths) < longest
        mask = np.arange(longest) < np.array(lengths)[:, None] if padded else None
        return Batch(torch.from_numpy(ids), None if mask is None else torch.from_numpy(mask.astype(np.int64)))

    def _planes(self, batch: Batch, layers: Layers, weights: list[float] | None) -> Tensor:
        computed = self.network(batch)
        wanted = [computed[number] for number in layers.numbers]
        if weights is None:
            return torch.stack(wanted)
        total: Tensor = wanted[0] * weights[0]
        for layer, weight in zip(wanted[1:], weights[1:], strict=True):
            total.add_(layer, alpha=weight)
        return total[None]

    def _answers(self, states: Tensor, window: Window, n: int) -> Tensor:
        """The states that a window answers for; the first has the special pieces before, the last those behind."""
        offset = len(self.pieces.before) - window.start
        first = 0 if window.first == 0 else window.first + offset
        last = self._length(window) if window.last == n else window.last + offset
        return states[:, first:last]


class _Whole:
    """The states of a sequence in several windows, until all are there."""

    def __init__(self, n_windows: int) -> None:
        self.missing = n_windows
        self.found: dict[int, Tensor] = {}

    def add(self, window: Window, states: Tensor) -> bool:
        """Whether that was the last one."""
        self.found[window.start] = states.clone()
        self.missing -= 1
        return self.missing == 0

    def states(self) -> Tensor:
        return torch.cat([self.found[start] for start in sorted(self.found)], dim=1)


def word_states(states: FloatArray, words: Ints, pooling: str) -> FloatArray:
    """Pieces' states → words' states, ``(P, T, D) -> (P, W, D)``; zeros for a word without a piece.

    ``words`` holds the first piece of each word and the one after its last.
    """
    first, last = words[:, 0], words[:, 1]
    count = last - first
    if not len(words) or not states.shape[1]:
        return np.zeros((len(states), len(words), states.shape[2]), dtype=np.float32)
    if pooling == "mean" and (count > 1).any():
        padded = np.concatenate([states, np.zeros_like(states[:, :1])], axis=1)  # bounds may be at the end
        sums = np.add.reduceat(padded, words.reshape(-1), axis=1)[:, ::2]
        found = sums / np.maximum(count, 1)[None, :, None].astype(np.float32)
    else:
        chosen = last - 1 if pooling == "last" else first
        found = states[:, np.clip(chosen, 0, states.shape[1] - 1)]
    found[:, count == 0] = 0
    return np.ascontiguousarray(found, dtype=np.float32)
