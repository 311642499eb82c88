"""Vectors of the words seen lately, so that a word that comes back is not spelt out again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

import torch
from torch import Tensor


class WordCache:
    """Up to ``capacity`` word vectors of length ``dim``; the ones unused for longest make room."""

    def __init__(self, capacity: int, dim: int) -> None:
        self.capacity = capacity
        self._rows: OrderedDict[str, int] = OrderedDict()
        self._vectors = torch.empty(0, dim)
        self._lock = Lock()  # a server asks from several threads

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Forget everything: the model has changed."""
        self._rows.clear()

    def get(self, words: Sequence[str], compute: Callable[[list[str]], Tensor]) -> Tensor:
        """Vectors of distinct words, ``(W, dim)``; ``compute`` gives those of the words not held, and only those."""
        with self._lock:
            return self._get(words, compute)

    def _get(self, words: Sequence[str], compute: Callable[[list[str]], Tensor]) -> Tensor:
        rows = torch.tensor([self._rows.get(word, -1) for word in words], dtype=torch.long)
        held, missing = (rows >= 0).nonzero()[:, 0], (rows < 0).nonzero()[:, 0]
        found = self._vectors.new_empty(len(words), self._vectors.shape[1])
        found[held] = self._vectors[rows[held]]
        for place in held.tolist():
            self._rows.move_to_end(words[place])
        if len(missing):
            new = [words[place] for place in missing.tolist()]
            found[missing] = computed = compute(new)
            room = min(self.capacity, len(new))
            self._keep(new[:room], computed[:room])
        return found

    def _keep(self, words: list[str], vectors: Tensor) -> None:
        rows = []
        for word in words:
            full = len(self._rows) >= self.capacity
            rows.append(self._rows.popitem(last=False)[1] if full else len(self._rows))
            self._rows[word] = rows[-1]
        needed = len(self._rows)
        if needed > len(self._vectors):
            grown = self._vectors.new_empty(min(self.capacity, max(needed, 2 * len(self._vectors))), vectors.shape[1])
            grown[: len(self._vectors)] = self._vectors
            self._vectors = grown
        self._vectors[torch.tensor(rows, dtype=torch.long)] = vectors
