"""Training examples of XLM: streams of one language, pairs of translations, and a mixture of both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from polyseme.contexts.transformer.pretrain.training_examples import Example, Examples, StreamExamples
from polyseme.contexts.transformer.tokenizer import Ints, Pieces
from polyseme.data.parallel import Parallel

PAIRS_AT_ONCE = 4096


class OneLanguage:
    """A stream of text in one language."""

    def __init__(self, stream: StreamExamples, language: int) -> None:
        self.stream, self.language = stream, language

    def n_examples(self, epoch: int) -> int:
        """The number of examples that cover the text."""
        return self.stream.n_examples(epoch)

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number."""
        found = self.stream.example(epoch, number)
        return found._replace(types=np.zeros_like(found.ids), languages=np.full_like(found.ids, self.language))


class Translations:
    """``</s> x </s> </s> y </s>``: positions restart at y, and every subword has the language of its side."""

    def __init__(
        self, pairs: Parallel, pieces: Pieces, languages: tuple[int, int], *, end: int, length: int, seed: int
    ) -> None:
        self.end, self.languages, self.seed, self.room = end, languages, seed, (length - 4) // 2
        sides: tuple[list[str], list[str]] = ([], [])
        self.sides: tuple[list[Ints], list[Ints]] = ([], [])
        for number, pair in enumerate(pairs, start=1):
            for side, text, segmentation in zip(sides, pair, pairs.segmentations, strict=True):
                side.append(segmentation.normalised(text))
            if len(sides[0]) == PAIRS_AT_ONCE or number == len(pairs):
                for texts, found in zip(sides, self.sides, strict=True):
                    found += [ids.astype(np.int32) for ids in pieces.ids(texts)]
                    texts.clear()
        self._order = lru_cache(maxsize=2)(self._make_order)

    def n_examples(self, epoch: int) -> int:
        """The number of pairs."""
        return len(self.sides[0])

    def example(self, epoch: int, number: int) -> Example:
        """The pair with this number; a side that is too long is truncated."""
        place = int(self._order(epoch)[number])
        parts = [side[place][: self.room].astype(np.int64) for side in self.sides]
        ids, words, positions, languages = [], [], [], []
        for part, language in zip(parts, self.languages, strict=True):
            ids.append(np.concatenate([[self.end], part, [self.end]]))
            words.append(np.concatenate([[-1], np.arange(len(part)), [-1]]))
            positions.append(np.arange(len(part) + 2))
            languages.append(np.full(len(part) + 2, language))
        whole = np.concatenate(ids)
        return Example(
            whole, np.concatenate(words), np.zeros_like(whole), -1, np.concatenate(languages), np.concatenate(positions)
        )

    def _make_order(self, epoch: int) -> Ints:
        if epoch < 0:
            return np.arange(len(self.sides[0]))
        return np.random.default_rng((self.seed, epoch, 4)).permutation(len(self.sides[0]))


class Mixture:
    """Mixes several sources: each step draws one of them by ``weights`` and continues where that source stopped."""

    def __init__(self, sources: Sequence[Examples], weights: Sequence[float], *, batch_size: int, seed: int) -> None:
        self.sources, self.batch_size, self.seed = sources, batch_size, seed
        self.weights = np.array(weights) / np.sum(weights)
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def n_examples(self, epoch: int) -> int:
        """The number of examples of all sources."""
        total = sum(source.n_examples(max(epoch, 0)) for source in self.sources)
        return -(-total // self.batch_size) * self.batch_size

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number; all examples of a step are from one source."""
        step, row = divmod(number, self.batch_size)
        source, before = self._plan(epoch)[step]
        n = self.sources[source].n_examples(epoch)
        again, place = divmod(before * self.batch_size + row, n)
        return self.sources[source].example(epoch + again * 1000, place)

    def _make_plan(self, epoch: int) -> list[tuple[int, int]]:
        """For every step, its source and how many steps of that source came before."""
        random = np.random.default_rng((self.seed, epoch, 5))
        n_steps = self.n_examples(epoch) // self.batch_size
        drawn = random.choice(len(self.sources), size=n_steps, p=self.weights).tolist()
        counts = [0] * len(self.sources)
        plan = []
        for source in drawn:
            plan.append((source, counts[source]))
            counts[source] += 1
        return plan


class OneAfterTheOther:
    """All examples of several sources in order, for held-out text."""

    def __init__(self, sources: Sequence[Examples]) -> None:
        self.sources = sources

    def n_examples(self, epoch: int) -> int:
        """The total of all sources."""
        return sum(source.n_examples(epoch) for source in self.sources)

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number."""
        for source in self.sources:
            n = source.n_examples(epoch)
            if number < n:
                return source.example(epoch, number)
            number -= n
        raise IndexError(number)
