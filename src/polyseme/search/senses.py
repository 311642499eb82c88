"""The senses of a word: its occurrences clustered, each cluster with its share, typical sentences and a label."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from polyseme.linear import principal_plane
from polyseme.nouns import ContextEncoder, FloatArray, Sentence
from polyseme.search.cluster import cluster
from polyseme.search.hits import Hit, Sense, WordSenses
from polyseme.search.sorting import even_sample

if TYPE_CHECKING:
    from polyseme.search.index import Index

MOST = 2000  # occurrences that are clustered; of more frequent words an even sample
TYPICAL = 5
SUBSTITUTES = 8
_OFFERED = 100  # words that the language model is asked for in one place
_NEAR = 4  # tokens on either side that describe a context


@runtime_checkable
class Substitutes(Protocol):
    """A language model that says what it would expect in a place: words with their probabilities, best first."""

    def substitutes(self, sentence: Sentence, position: int, topn: int = 10) -> Sequence[tuple[str, float]]: ...


def offers_substitutes(encoder: ContextEncoder) -> bool:
    """Whether senses are labelled by what the model expects; a biLM that came without its softmax expects nothing."""
    return encoder.language is not None


def find_senses(index: Index, word: str, rows: slice, *, max_senses: int, layer: int, apart: float) -> WordSenses:
    """Cluster the occurrences ``rows`` of a word."""
    count = rows.stop - rows.start
    places = rows.start + even_sample(count, MOST)
    vectors = index.vectors(places, layer)
    labels = cluster(vectors, max_clusters=max_senses, apart=apart)
    scores = _closeness(vectors, labels)
    hits = index.hits(places, scores)
    senses = []
    for label in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == label)
        ranked = members[np.argsort(-scores[members], kind="stable")]
        typical = _distinct([hits[i] for i in ranked], TYPICAL)
        label_words = _label(index, word, typical, hits, labels, label)
        senses.append(Sense(len(members) / len(labels), len(members), label_words, typical))
    return WordSenses(word, count, senses, principal_plane(vectors), labels, hits)


def _closeness(vectors: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
    """Cosine of each vector with the mean of its cluster."""
    scores = np.zeros(len(vectors), dtype=np.float32)
    for label in np.unique(labels):
        mean = vectors[labels == label].mean(axis=0)
        scores[labels == label] = vectors[labels == label] @ (mean / max(float(np.linalg.norm(mean)), 1e-12))
    return scores


def _distinct(hits: list[Hit], n: int) -> list[Hit]:
    """The first ``n`` whose sentences differ."""
    found: dict[str, Hit] = {}
    for hit in hits:
        found.setdefault(hit.text, hit)
        if len(found) == n:
            break
    return list(found.values())


def _label(
    index: Index, word: str, typical: list[Hit], hits: list[Hit], labels: NDArray[np.int64], label: int
) -> list[str]:
    encoder = index.encoder
    if isinstance(encoder, Substitutes) and offers_substitutes(encoder):
        return _expected_words(index, encoder, word, typical)
    return _context_words(index, hits, labels, label)


def _expected_words(index: Index, encoder: Substitutes, word: str, typical: list[Hit]) -> list[str]:
    """What the language model would say in the typical places.

    Where each direction expects words for itself, both expect frequent ones, and their product p→(w)·p←(w) counts that
    twice; divided by p(w) it is counted once: p(w | left, right) ∝ p(w | left)·p(w | right) / p(w), where the two sides
    are independent given w.
    """
    twice = index.encoder.language == "both-ways"
    counts, numbers = index.corpus.vocabulary.counts, index.corpus.vocabulary.index
    expected: dict[str, float] = defaultdict(float)
    for hit in typical:
        found = encoder.substitutes(index.corpus.sentence(hit.sentence), hit.token, topn=_OFFERED)
        known = {other: p for other, p in found if other in index.words}
        lifts = {other: p / float(counts[numbers[other]]) if twice else p for other, p in known.items()}
        total = sum(lifts.values()) or 1.0  # all of them can be too small for a float
        for other, lift in lifts.items():
            expected[other] += lift / total
    expected.pop(word, None)
    return sorted(expected, key=lambda other: (-expected[other], other))[:SUBSTITUTES]


def _context_words(index: Index, hits: list[Hit], labels: NDArray[np.int64], label: int) -> list[str]:
    """Words that stand near this sense more often than near the word as a whole."""
    here: Counter[str] = Counter()
    everywhere: Counter[str] = Counter()
    for hit, own in zip(hits, labels, strict=True):
        tokens = index.corpus.sentence(hit.sentence)
        around = {*tokens[max(hit.token - _NEAR, 0) : hit.token], *tokens[hit.token + 1 : hit.token + 1 + _NEAR]}
        around = {other for other in around if other != hit.word and other in index.words}
        everywhere.update(around)
        if own == label:
            here.update(around)
    share = max(float(np.mean(labels == label)), 1e-12)
    # Signed log-likelihood: often here, and more often than the sense's share of the occurrences lets expect.
    weight = {other: n * math.log(n / (share * everywhere[other])) for other, n in here.items()}
    total = {other: (weight[other], n) for other, n in here.items()}
    return sorted(here, key=lambda other: (-total[other][0], -total[other][1], other))[:SUBSTITUTES]
