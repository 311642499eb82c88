"""The uses of a word: its occurrences clustered, each cluster with its share, typical sentences and a label. 用法

What is found is how a word is used. Where its uses differ in meaning these are its senses; a surname and a measure word
part, and so do two constructions of one meaning.

All occurrences of a use of a word, sorted, with their context: to read through, or for other programs.

The uses were found among a sample of a frequent word's occurrences; here every occurrence is put to the use whose mean
is nearest.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, principal_plane, unit_rows
from polyseme.display import excerpt
from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, LanguageModel
from polyseme.search.kwic.concordance import SORTS, Concordance
from polyseme.search.kwic.patterns import Matches
from polyseme.search.occurrences.cluster import cluster, silhouettes
from polyseme.search.occurrences.hits import Hit, Sense, WordSenses
from polyseme.search.occurrences.sorting import even_sample

if TYPE_CHECKING:
    from polyseme.search.occurrences.index import Index

MOST = 2000  # occurrences that are clustered; of more frequent words an even sample
TYPICAL = 5
_LOOKED_THROUGH = 200  # occurrences among which the typical ones are chosen
_DIVERSITY = 0.6
SUBSTITUTES = 8
_OFFERED = 100  # words that the language model is asked for at one position
_NEAR = 4  # tokens on either side that describe a context


def offers_substitutes(encoder: ContextEncoder) -> TypeGuard[LanguageModel]:
    """Whether uses are labelled by what the model expects; a biLM that came without its softmax expects nothing."""
    return isinstance(encoder, LanguageModel) and encoder.language is not None


def find_senses(index: Index, word: str, rows: slice, *, max_senses: int, layer: int, apart: float) -> WordSenses:
    """Cluster the occurrences ``rows`` of a word."""
    count = rows.stop - rows.start
    places = rows.start + even_sample(count, MOST)
    vectors = index.vectors(places, layer)
    labels = cluster(vectors, max_clusters=max_senses, apart=apart)
    clear = silhouettes(vectors, labels)
    scores = _closeness(vectors, labels)
    senses: list[Sense] = []
    word_uses = WordSenses(
        word, count, layer, senses, principal_plane(vectors), labels, places, scores, clear, index.hits
    )
    for label in range(int(labels.max()) + 1):
        members = np.flatnonzero(labels == label)
        typical = _typical(index, places, vectors, members, scores + clear)
        hits = index.hits(places[typical], scores[typical])
        label_words = _label(index, word_uses, hits, label)
        sure = float(clear[members].mean()) if labels.max() > 0 else None
        senses.append(Sense(len(members) / len(labels), len(members), sure, label_words, hits))
    return word_uses


def _closeness(vectors: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
    """Cosine of each vector with the mean of its cluster."""
    scores = np.zeros(len(vectors), dtype=np.float32)
    for label in np.unique(labels):
        mean = vectors[labels == label].mean(axis=0)
        scores[labels == label] = vectors[labels == label] @ (mean / max(float(np.linalg.norm(mean)), 1e-12))
    return scores


def _typical(
    index: Index, places: NDArray[np.int64], vectors: FloatArray, members: NDArray[np.int64], scores: FloatArray
) -> NDArray[np.int64]:
    """A few of the members: those in the middle of their use, in sentences to be read, unlike each other.

    The next one has the highest score − ``_DIVERSITY`` · its largest cosine with those that are chosen (maximal
    marginal relevance: Carbonell and Goldstein, 1998).
    """
    ranked = members[np.argsort(-scores[members], kind="stable")][:_LOOKED_THROUGH]
    sentences = [index.corpus.sentence(place) for place in index.sentences_of(places[ranked])]
    gain = scores[ranked] + np.array([_readable(tokens) for tokens in sentences])
    alike = vectors[ranked] @ vectors[ranked].T
    chosen: list[int] = []
    seen: set[tuple[str, ...]] = set()
    nearest = np.zeros(len(ranked))
    while len(chosen) < TYPICAL:
        order = np.argsort(-(gain - _DIVERSITY * nearest), kind="stable")
        following = next((int(i) for i in order if i not in chosen and tuple(sentences[i]) not in seen), None)
        if following is None:
            break
        chosen.append(following)
        seen.add(tuple(sentences[following]))
        nearest = np.maximum(nearest, alike[following])
    return ranked[chosen]


def _readable(tokens: list[str]) -> float:
    """0 for a sentence, less for a list of names, a headline or a page of text."""
    words = sum(token[0].isalnum() for token in tokens)
    lists = max(0.0, 1 - words / max(len(tokens), 1) - 0.2)
    short, long = max(0, 6 - words) / 6, min(max(0, len(tokens) - 60) / 60, 1)
    return -(2 * lists + 0.3 * short + 0.3 * long)


def _label(index: Index, word_uses: WordSenses, typical: list[Hit], label: int) -> list[str]:
    encoder = index.encoder
    if offers_substitutes(encoder):
        places = [(index.corpus.sentence(hit.sentence), hit.token) for hit in typical]
        return expected_words(index, encoder, word_uses.word, places)[:SUBSTITUTES]
    return _context_words(index, word_uses.hits, word_uses.labels, label)


def expected_words(
    index: Index, encoder: LanguageModel, word: str, places: Sequence[tuple[list[str], int]]
) -> list[str]:
    """What the language model would say in some places instead of a word, the likeliest first.

    Where each direction expects words separately, both expect frequent ones, and their product p→(w)·p←(w) counts that
    twice; divided by p(w) it is counted once: p(w | left, right) ∝ p(w | left)·p(w | right) / p(w), where the two sides
    are independent given w.
    """
    twice = encoder.language == "both-ways"
    expected: dict[str, float] = defaultdict(float)
    for tokens, position in places:
        offered = encoder.substitutes(tokens, position, topn=_OFFERED)
        known = {other: p for other, p in offered if index.count(other)}
        lifts = {other: p / index.corpus.count(other) if twice else p for other, p in known.items()}
        total = sum(lifts.values()) or 1.0  # all of them can be too small for a float
        for other, lift in lifts.items():
            expected[other] += lift / total
    expected.pop(word, None)
    return sorted(expected, key=lambda other: (-expected[other], other))


def _context_words(index: Index, hits: list[Hit], labels: NDArray[np.int64], label: int) -> list[str]:
    """Words that occur near this use more often than near the word as a whole."""
    here: Counter[str] = Counter()
    everywhere: Counter[str] = Counter()
    for hit, use in zip(hits, labels, strict=True):
        tokens = index.corpus.sentence(hit.sentence)
        around = {*tokens[max(hit.token - _NEAR, 0) : hit.token], *tokens[hit.token + 1 : hit.token + 1 + _NEAR]}
        around = {other for other in around if other != hit.word and index.count(other)}
        everywhere.update(around)
        if use == label:
            here.update(around)
    share = max(float(np.mean(labels == label)), 1e-12)
    # Signed log-likelihood: often here, and more often than the use's share of the occurrences lets expect.
    weight = {other: n * math.log(n / (share * everywhere[other])) for other, n in here.items()}
    total = {other: (weight[other], n) for other, n in here.items()}
    return sorted(here, key=lambda other: (-total[other][0], -total[other][1], other))[:SUBSTITUTES]


USE_SORTS = ("score", *SORTS)
UNSURE = 0.0  # an occurrence with this margin lies as near to another use


@dataclass(frozen=True, repr=False)
class UseOccurrence:
    """One occurrence of a use: its sentence, and those before and after it."""

    use: int  # counted from 1
    score: float  # cosine with the mean of its use
    margin: float  # by which the mean of the next use is farther; 0 where there is one use
    document: int
    source: str
    sentence: int
    token: int
    tag: str | None
    before: str
    text: str
    start: int
    end: int
    behind: str

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"UseOccurrence({self.use}, {self.score:.3f}: {excerpt(self.text, self.start, self.end)!r})"


def scores_and_margins(cosines: FloatArray, labels: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """The cosine of each row with the mean it was put to, ``(n, uses) -> (n,)``, less that of the nearest other one."""
    rows = np.arange(len(labels))
    scores = cosines[rows, labels]
    others = cosines.copy()
    others[rows, labels] = -np.inf
    return scores, scores - others.max(axis=1) if cosines.shape[1] > 1 else np.zeros_like(scores)


class Listing:
    """Every occurrence of a word with the use that it was put to."""

    def __init__(self, index: Index, found: WordSenses) -> None:
        self.index, self.found = index, found
        occurrences = index.occurrences(found.word)
        self.rows = np.arange(occurrences.start, occurrences.stop)
        self.labels, self.scores, self.margins = self._assign()

    def _assign(self) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """The use of every occurrence, the cosine with its mean, and by how much the next mean is farther."""
        uses = self.found
        sample = self.index.vectors(uses.rows, uses.layer)
        places = range(len(uses.senses))
        means = unit_rows(np.array([sample[uses.labels == use].mean(axis=0) for use in places], dtype=np.float32))
        cosines = self.index.vectors(self.rows, uses.layer) @ means.T  # (n, uses)
        labels = cosines.argmax(axis=1)
        labels[uses.rows - self.rows[0]] = uses.labels  # those that were clustered stay where they were put
        return labels, *scores_and_margins(cosines, labels)

    def count(self, use: int | None = None) -> int:
        """How many occurrences a use has; all of them for None."""
        return len(self.rows) if use is None else int(np.count_nonzero(self.labels == self._place(use)))

    def lines(
        self, use: int | None = None, start: int = 0, stop: int | None = None, *, sort: str = "score", seed: int = 1
    ) -> list[UseOccurrence]:
        """The occurrences of a use (counted from 1) or of all, the most typical first or sorted like a concordance."""
        if sort not in USE_SORTS:
            raise OptionError(f"sort must be one of {', '.join(USE_SORTS)}, not {sort!r}")
        chosen = np.arange(len(self.rows)) if use is None else np.flatnonzero(self.labels == self._place(use))
        tokens = self.index.tokens(self.rows[chosen])
        sentences = np.array(self.index.sentences_of(self.rows[chosen]), dtype=np.int64)
        concordance = Concordance(
            self.index.corpus, self.found.word, Matches(sentences, np.stack([tokens, tokens + 1], axis=1), True)
        )
        if sort == "score":
            order = np.argsort(-self.scores[chosen], kind="stable")
        else:
            order = concordance.order(sort, seed=seed)
        return [self._line(concordance, int(chosen[place]), int(place)) for place in order[start:stop]]

    def _line(self, concordance: Concordance, occurrence: int, place: int) -> UseOccurrence:
        line = concordance.line(place)
        return UseOccurrence(
            int(self.labels[occurrence]) + 1,
            round(float(self.scores[occurrence]), 4),
            round(float(self.margins[occurrence]), 4),
            line.document,
            line.source,
            line.sentence,
            line.token,
            line.tag,
            line.before,
            line.text,
            line.start,
            line.end,
            line.behind,
        )

    def _place(self, use: int) -> int:
        if not 1 <= use <= len(self.found.senses):
            raise OptionError(f"{self.found.word!r} has uses 1 to {len(self.found.senses)}, no {use}")
        return use - 1
