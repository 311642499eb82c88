"""Straightforward torch versions of sentence encoders: padded batches in file order, dense gradients, Adam.

The models are those of polyseme (same sizes, same losses); only how they are computed differs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Lists = Sequence[Sequence[str]]
CLIP = 5.0


class Numbers:
    """Words as numbers: 0 is padding and the end of a sentence, 1 an unknown word."""

    def __init__(self, lists: Lists, min_count: int) -> None:
        counts = Counter(word for words in lists for word in words)
        known = [word for word, n in counts.most_common() if n >= min_count]
        self.index = {word: number for number, word in enumerate(known, start=2)}

    def __len__(self) -> int:
        return len(self.index) + 2

    def padded(self, lists: Lists) -> tuple[Tensor, Tensor]:
        """The padded word numbers ``(B, T)``, and the lengths."""
        longest = max(map(len, lists))
        rows = [[self.index.get(word, 1) for word in words] + [0] * (longest - len(words)) for words in lists]
        return torch.tensor(rows), torch.tensor([len(words) for words in lists])


def last_of(states: Tensor, lengths: Tensor) -> Tensor:
    """The state at the last word."""
    return states[torch.arange(len(states)), lengths - 1]


def max_of(states: Tensor, lengths: Tensor) -> Tensor:
    """The maximum over the words."""
    inside = torch.arange(states.shape[1]) < lengths[:, None]
    return states.masked_fill(~inside[:, :, None], -torch.inf).amax(dim=1)


def run(module: nn.Module, losses: Callable[[int], Tensor], n_batches: int) -> float:
    """CPU seconds of ``n_batches`` training steps."""
    optimiser = torch.optim.Adam(module.parameters(), 5e-4)
    begun = time.process_time()
    for number in range(n_batches):
        optimiser.zero_grad()
        losses(number).backward()
        nn.utils.clip_grad_norm_(module.parameters(), CLIP)
        optimiser.step()
    return time.process_time() - begun


def quick_thought(lists: Lists, dim: int, hidden: int, batch_size: int, min_count: int) -> float:
    """Quick-thought: two GRUs, each with its own word vectors, pick the neighbours among the batch."""
    numbers = Numbers(lists, min_count)
    tables = nn.ModuleList(nn.Embedding(len(numbers), dim // 2) for _ in range(2))
    rnns = nn.ModuleList(nn.GRU(dim // 2, hidden, batch_first=True) for _ in range(2))

    def loss(number: int) -> Tensor:
        ids, lengths = numbers.padded(lists[number * batch_size : (number + 1) * batch_size])
        f, g = (last_of(rnn(table(ids))[0], lengths) for rnn, table in zip(rnns, tables, strict=True))
        near = torch.zeros(len(ids), len(ids))
        near[range(len(ids) - 1), range(1, len(ids))] = 1
        near = near + near.t()
        scores = (f @ g.t()).masked_fill(torch.eye(len(ids), dtype=torch.bool), -1e9)
        return -(near / near.sum(dim=1, keepdim=True) * torch.log_softmax(scores, dim=1)).sum(dim=1).mean()

    return run(nn.ModuleList([tables, rnns]), loss, len(lists) // batch_size)


def skip_thought(lists: Lists, known: Lists, dim: int, hidden: int, batch_size: int, min_count: int) -> float:
    """Skip-thought: a GRU encoder, two GRU decoders, and a softmax over all words of ``known``."""
    numbers = Numbers(known, min_count)
    table, output = nn.Embedding(len(numbers), dim), nn.Linear(hidden, len(numbers))
    encoder = nn.GRU(dim, hidden, batch_first=True)
    decoders = nn.ModuleList(nn.GRU(dim + hidden, hidden, batch_first=True) for _ in range(2))

    def loss(number: int) -> Tensor:
        start = 1 + number * batch_size
        ids, lengths = numbers.padded(lists[start : start + batch_size])
        vectors = last_of(encoder(table(ids))[0], lengths)
        total, n = torch.zeros(()), 0
        for step, decoder in zip((-1, 1), decoders, strict=True):
            words, sizes = numbers.padded(lists[start + step : start + step + len(ids)])
            targets = F.pad(words, (0, 1))
            before = F.pad(table(words), (0, 0, 1, 0))
            read = torch.cat([before, vectors[:, None].expand(-1, before.shape[1], -1)], dim=2)
            scores = output(decoder(read, vectors[None])[0])
            inside = torch.arange(targets.shape[1]) <= sizes[:, None]
            total = total + F.cross_entropy(scores[inside], targets[inside], reduction="sum")
            n += int(inside.sum())
        return total / n

    return run(nn.ModuleList([table, output, encoder, decoders]), loss, (len(lists) - 2) // batch_size)


def pairs(sides: tuple[Lists, Lists], targets: Sequence[int], vectors: Any, hidden: int, batch_size: int) -> float:
    """InferSent: a BiLSTM on given word vectors, max pooling, and a classifier."""
    rnn = nn.LSTM(vectors.vector_size, hidden, batch_first=True, bidirectional=True)
    layers = nn.Sequential(nn.Linear(16 * hidden // 2, 512), nn.Linear(512, 512), nn.Linear(512, max(targets) + 1))

    def encoded(lists: Lists) -> Tensor:
        longest = max(map(len, lists))
        lengths = torch.tensor([len(words) for words in lists])
        found = torch.zeros(len(lists), longest, vectors.vector_size)
        for row, words in enumerate(lists):
            found[row, : len(words)] = torch.from_numpy(vectors.lookup([word.lower() for word in words]))
        return max_of(rnn(found)[0], lengths)

    def loss(number: int) -> Tensor:
        some = slice(number * batch_size, (number + 1) * batch_size)
        u, v = (encoded(side[some]) for side in sides)
        features = torch.cat([u, v, (u - v).abs(), u * v], dim=1)
        return F.cross_entropy(layers(features), torch.tensor(targets[some]))

    return run(nn.ModuleList([rnn, layers]), loss, len(targets) // batch_size)


def answers(turns: tuple[Lists, Lists], dim: int, hidden: int, batch_size: int) -> float:
    """Conversation: a max-pooled BiLSTM for turns and answers, two more layers for answers; picks among the batch."""
    numbers = Numbers([*turns[0], *turns[1]], 1)
    table, rnn = nn.Embedding(len(numbers), dim), nn.LSTM(dim, hidden // 2, batch_first=True, bidirectional=True)
    layers = nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())

    def encoded(lists: Lists) -> Tensor:
        ids, lengths = numbers.padded(lists)
        return max_of(rnn(table(ids))[0], lengths)

    def loss(number: int) -> Tensor:
        some = slice(number * batch_size, (number + 1) * batch_size)
        u, v = (encoded(side[some]) for side in turns)
        return F.cross_entropy(u @ layers(v).t(), torch.arange(len(u)))

    return run(nn.ModuleList([table, rnn, layers]), loss, len(turns[0]) // batch_size)
