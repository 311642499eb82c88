"""Word vectors 词向量: a vocabulary, a matrix and the usual queries.

    similarity      cos(a, b)
    most_similar    argmax_w  cos(w, Σ unit(positive) - Σ unit(negative))                    (3CosAdd)
    analogy "mul"   argmax_w  cos'(w, b) cos'(w, c) / (cos'(w, a) + ε),  cos' = (1 + cos)/2  (3CosMul)

Mikolov, Yih and Zweig, Linguistic Regularities in Continuous Space Word Representations, 2013; Levy and Goldberg,
Linguistic Regularities in Sparse and Explicit Word Representations, 2014. The matrix is never copied or normalised:
scores are a product with it, multiplied by the inverse lengths of its rows, which are computed at the first query.

Suggestions for a word that has no vector: words spelled alike, found quickly among hundreds of thousands. Many queries
at once, for a server, share one compiled search.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyseme import interfaces
from polyseme.arrays import FloatArray, Ints, best_places, unit_rows
from polyseme.errors import FormatError, OptionError, PolysemeError, UnknownWord
from polyseme.interfaces import check_query
from polyseme.options import option
from polyseme.store.folder import Parts, as_float32
from polyseme.store.model import About, Model
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.character_ngrams import Subwords
from polyseme.words.nearest import Rows, dense_rows, nearest_rows, products, ranked, squared_lengths

if TYPE_CHECKING:
    from typing_extensions import Self

SEARCHED = 200_000  # the most frequent words; rarer ones are seldom meant
LEAST = 0.55  # minimum similarity of a suggestion
COMPARED = 60  # candidates compared with difflib, which is slow


def similar_spellings(word: str, words: Sequence[str], known: dict[str, int], topn: int = 3) -> list[str]:
    """Words of the vocabulary that are spelled like ``word``, most similar first."""
    spellings = [w for w in (word.lower(), word.capitalize(), word.upper(), word.strip()) if w in known and w != word]
    letters = set(word)
    slack = max(1, len(word) // 3)
    needed = (len(letters) + 1) // 2
    candidates = [
        w for w in words[:SEARCHED] if -slack <= len(w) - len(word) <= slack and len(letters.intersection(w)) >= needed
    ]
    pairs = {word[i : i + 2] for i in range(len(word) - 1)} or letters
    near = heapq.nlargest(COMPARED, candidates, key=lambda w: sum(pair in w for pair in pairs))
    scored = [(_likeness(word, w), w) for w in near]
    similar = [w for score, w in sorted(scored, key=lambda pair: -pair[0]) if score >= LEAST]  # equals: frequent first
    return list(dict.fromkeys([*spellings, *similar]))[:topn]


def _likeness(word: str, other: str) -> float:
    """Spelling similarity: shared characters in order, plus a bonus, larger for short words, for the same length and
    first character: 北精 suggests 北京, not 北."""
    ratio = difflib.SequenceMatcher(None, word, other).ratio()
    return ratio + (0.4 * (len(word) == len(other)) + 0.1 * (word[:1] == other[:1])) / max(1, len(word))


Word = str | FloatArray  # a word, or a vector instead of one
Neighbours = list[tuple[str, float]]

TOGETHER = 64  # queries answered by one pass over the matrix …
LONGEST = 1 << 22  # … with at most this many numbers in total: rows of counts are as long as the vocabulary
EPSILON = np.float32(1e-6)


class Candidates(NamedTuple):
    """The rows among which the nearest are searched."""

    rows: Rows  # (n, D)
    inverse_norms: FloatArray  # (n,)
    numbers: Ints | None  # their row numbers in the whole matrix; None: the first n


@dataclass(frozen=True)
class VectorsOptions:
    """Options of vectors read from a published file."""

    source: str = option("", "the file the vectors were read from")


class WordVectors(Model, interfaces.WordVectorsInterface):
    """One float32 vector per word; trained by a subclass, or read from a published file.

    The matrix is a NumPy array, or ``SparseRows`` if most of its values are zero.
    """

    method: ClassVar[str] = "vectors"
    Options: ClassVar[type] = VectorsOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        vectors: Rows,
        *,
        options: Any = None,
        about: About | None = None,
        output: FloatArray | None = None,
        subwords: Subwords | None = None,
    ) -> None:
        if vectors.ndim != 2 or len(vectors) != len(vocabulary):
            raise FormatError(f"{len(vocabulary):,} words do not fit a matrix of shape {vectors.shape}")
        self.vocabulary = vocabulary
        self.vectors: Any = vectors  # (V, D), possibly a read-only memory map
        self.output = output  # (V, D): the context vectors, if the method keeps them
        self.subwords = subwords
        self.options = self.Options() if options is None else options
        self.about = about or About()

    # The table

    @property
    def vector_size(self) -> int:
        """Dimension of a vector."""
        return int(self.vectors.shape[1])

    @property
    def index_to_key(self) -> list[str]:
        """The words, most frequent first."""
        return self.vocabulary.words

    @property
    def key_to_index(self) -> dict[str, int]:
        """word → row."""
        return self.vocabulary.index

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __contains__(self, word: object) -> bool:
        """Whether the word has a vector, its own or one composed of subwords."""
        return isinstance(word, str) and (word in self.key_to_index or self._unseen(word) is not None)

    def __getitem__(self, words: str | Sequence[str]) -> FloatArray:
        """The vector of a word, (D,), or of several, (n, D)."""
        if isinstance(words, str):
            return self._vector(words)
        vectors = [self._vector(word) for word in words]
        return np.stack(vectors) if vectors else np.empty((0, self.vector_size), dtype=np.float32)

    def lookup(self, words: Sequence[str]) -> FloatArray:
        """The vector of each word, (n, D); zeros for a word that has none."""
        self.watch.check()
        rows = np.fromiter(map(self.key_to_index.get, words, repeat(-1)), dtype=np.int64, count=len(words))
        unknown = np.flatnonzero(rows < 0)
        if len(unknown) == len(words):
            vectors = np.zeros((len(words), self.vector_size), dtype=np.float32)
        else:
            vectors = np.asarray(dense_rows(self.vectors[np.maximum(rows, 0)]), dtype=np.float32)
        vectors[unknown] = 0
        for place in unknown.tolist():
            unseen = self._unseen(words[place])
            vectors[place] = 0 if unseen is None else unseen
        return vectors

    def _vector(self, word: str) -> FloatArray:
        self.watch.check()
        row = self.key_to_index.get(word)
        vector = self.vectors[row] if row is not None else self._unseen(word)
        if vector is None:
            raise UnknownWord(self._explain(word))
        return vector

    def _unseen(self, word: str) -> FloatArray | None:
        return self.subwords.vector(word) if self.subwords and word else None

    def _explain(self, word: str) -> str:
        about = [f"{word!r} has no vector among the {len(self):,} words"]
        pieces = self.tokenize(word)
        if pieces and pieces != [word]:
            known = [f"{p} (known)" if p in self.key_to_index else p for p in pieces]
            about.append(f"text is segmented as {' | '.join(known)}")
        near = similar_spellings(word, self.index_to_key, self.key_to_index)
        if near:
            about.append(f"close words: {', '.join(near)}")
        least = getattr(self.options, "min_count", 0)
        if least and least > 1:
            about.append(f"words with fewer than {least} occurrences were dropped (min_count)")
        return "; ".join(about)

    # Queries

    @cached_property
    def inverse_norms(self) -> FloatArray:
        """1 / length of each row, (V,); 0 for a zero row."""
        norms: FloatArray = np.sqrt(squared_lengths(self.vectors))
        return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)

    def similarity(self, a: Word, b: Word) -> float:
        """The cosine similarity of two words."""
        return float(np.dot(self._unit(a), self._unit(b)))

    def most_similar(
        self,
        positive: Word | Sequence[Word],
        negative: Word | Sequence[Word] = (),
        topn: int = 10,
        restrict: int | Iterable[str] | None = None,
    ) -> Neighbours:
        """The words nearest to the sum of ``positive`` minus the sum of ``negative``, with their cosines.

        The query words are omitted. ``restrict`` is a number n (only the n most frequent words) or a list of
        words to choose from.
        """
        plus, minus = _several(positive), _several(negative)
        target = self.direction(plus, minus)
        return self._nearest(target[None], [self._rows_of([*plus, *minus])], topn, restrict)[0]

    def most_similar_batch(
        self, words: Sequence[Word], topn: int = 10, restrict: int | Iterable[str] | None = None
    ) -> list[Neighbours]:
        """``most_similar`` for each word, in batches: one matrix product for a block of words."""
        together = max(1, min(TOGETHER, LONGEST // self.vector_size))
        answers: list[Neighbours] = []
        for start in range(0, len(words), together):
            block = words[start : start + together]
            targets = np.stack([self._asked(word) for word in block])
            answers += self._nearest(targets, [self._rows_of([word]) for word in block], topn, restrict)
        return answers

    def analogy(
        self,
        a: Word,
        b: Word,
        c: Word,
        method: str = "add",
        topn: int = 10,
        restrict: int | Iterable[str] | None = None,
    ) -> Neighbours:
        """``a`` is to ``b`` as ``c`` is to what? ``method`` is ``add`` (3CosAdd) or ``mul`` (3CosMul)."""
        if method == "add":
            return self.most_similar([b, c], [a], topn, restrict)
        if method != "mul":
            raise OptionError(f"analogy method is add or mul, not {method!r}")
        candidates = self._candidates(restrict)
        asked = np.stack([self._asked(word) for word in (a, b, c)])
        with np.errstate(invalid="ignore"):
            cosines = products(candidates.rows, asked).T * candidates.inverse_norms  # (3, n)
            away, near, too = (1 + cosines) / 2
            scores = near * too / (away + EPSILON)
        return self._best(scores, candidates, self._rows_of([a, b, c]), topn)

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word least similar to the others: the one with the lowest cosine to their mean."""
        if not words:
            raise OptionError("doesnt_match takes at least one word")
        units = np.stack([self._unit(word) for word in words])
        return words[int(np.argmin(units @ units.mean(axis=0)))]

    def _unit(self, word: Word) -> FloatArray:
        vector = self._vector(word) if isinstance(word, str) else np.asarray(word, dtype=np.float32)
        if vector.shape != (self.vector_size,):
            raise OptionError(f"a vector of shape {vector.shape} was given; those of words are ({self.vector_size},)")
        norm = np.linalg.norm(vector)
        with np.errstate(invalid="ignore"):  # of infinity; who searches neighbours refuses it
            return vector / norm if norm > 0 else vector

    def _asked(self, word: Word) -> FloatArray:
        """The vector of a word whose neighbours are searched, ``(D,)`` of length one."""
        vector = self._unit(word)
        check_query(vector, word if isinstance(word, str) else "the query")
        return vector

    def direction(self, positive: Sequence[Word], negative: Sequence[Word]) -> FloatArray:
        """The sum of the words' unit vectors minus that of ``negative``, ``(D,)`` of length one."""
        if not positive and not negative:
            raise OptionError("most_similar takes at least one word")
        total = sum((self._asked(word) for word in positive), np.zeros(self.vector_size, dtype=np.float32))
        return self._unit(total - sum((self._asked(w) for w in negative), np.zeros_like(total)))

    def _rows_of(self, words: Sequence[Word]) -> set[int]:
        return {self.key_to_index[w] for w in words if isinstance(w, str) and w in self.key_to_index}

    def _candidates(self, restrict: int | Iterable[str] | None) -> Candidates:
        self.watch.check()
        if restrict is None or isinstance(restrict, int):
            n = len(self) if restrict is None else max(0, min(restrict, len(self)))
            return Candidates(self.vectors[:n], self.inverse_norms[:n], None)
        known = (self.key_to_index.get(word) for word in dict.fromkeys(restrict))
        numbers = np.array([row for row in known if row is not None], dtype=np.int64)
        return Candidates(self.vectors[numbers], self.inverse_norms[numbers], numbers)

    def _nearest(
        self, targets: FloatArray, asked: list[set[int]], topn: int, restrict: int | Iterable[str] | None
    ) -> list[Neighbours]:
        candidates = self._candidates(restrict)
        if topn < 1 or not len(candidates.rows):
            return [[] for _ in targets]
        most = topn + max(len(left) for left in asked)
        places, scores = nearest_rows(candidates.rows, candidates.inverse_norms, targets, most)
        rows = places if candidates.numbers is None else candidates.numbers[places]
        lines = zip(rows.tolist(), scores.tolist(), asked, strict=True)
        return [self._named(line, cosines, left, topn) for line, cosines, left in lines]

    def _best(self, scores: FloatArray, candidates: Candidates, leave_out: set[int], topn: int) -> Neighbours:
        if topn < 1:
            return []
        top = best_places(scores, topn + len(leave_out))
        rows = top if candidates.numbers is None else candidates.numbers[top]
        return self._named(rows.tolist(), scores[top].tolist(), leave_out, topn)

    def _named(self, rows: list[int], scores: list[float], leave_out: set[int], topn: int) -> Neighbours:
        return [(self.index_to_key[row], score) for row, score in ranked(rows, scores, topn, leave_out)]

    # The folder

    def parts(self) -> Parts:
        """``vectors``, ``counts``, ``output`` if there is one, and the vocabulary."""
        tensors: dict[str, NDArray[Any]] = {"vectors": self.vectors, "counts": self.vocabulary.counts}
        if self.output is not None:
            tensors["output"] = self.output
        return Parts(tensors, {"vocab": self.index_to_key})

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        vectors = matrix_of(parts, "vectors", len(vocabulary))
        output = matrix_of(parts, "output", None) if "output" in parts.tensors else None
        return cls(vocabulary, vectors, options=options, about=about, output=output)


def vocabulary_of(parts: Parts, table: str = "vocab", counts: str = "counts") -> Vocabulary:
    """The words of a table of a model folder and their counts."""
    words = parts.table(table)
    return Vocabulary(words, np.asarray(parts.tensor(counts, (len(words),), np.integer), dtype=np.int64))


def matrix_of(parts: Parts, name: str, rows: int | None) -> FloatArray:
    """A float matrix of a model folder, checked to have ``rows`` rows if that is given."""
    return as_float32(parts.tensor(name, (rows, None), np.floating))


@dataclass(frozen=True)
class NearestQuestion:
    """A query for the words nearest to the sum of ``plus`` minus the sum of ``minus`` (3CosAdd)."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]
    topn: int


def nearest_words(vectors: WordVectors, questions: Sequence[NearestQuestion]) -> list[Neighbours | PolysemeError]:
    """The neighbours for each query, or what is wrong with it; all queries share one compiled search."""
    from polyseme.words.kernels import nearest as compiled

    targets = [_direction(vectors, question) for question in questions]
    asked = [target for target in targets if not isinstance(target, PolysemeError)]
    if not asked:
        return [target for target in targets if isinstance(target, PolysemeError)]
    most = max(len(q.plus) + len(q.minus) + q.topn for q in questions)
    rows, cosines = compiled.nearest_rows(vectors.vectors, vectors.inverse_norms, np.stack(asked), most)
    lines = iter(zip(rows.tolist(), cosines.tolist(), strict=True))
    return [
        target if isinstance(target, PolysemeError) else _named(vectors, question, *next(lines))
        for question, target in zip(questions, targets, strict=True)
    ]


def _direction(vectors: WordVectors, question: NearestQuestion) -> FloatArray | PolysemeError:
    try:
        return vectors.direction(question.plus, question.minus)
    except PolysemeError as error:
        return error


def _named(vectors: WordVectors, question: NearestQuestion, rows: list[int], cosines: list[float]) -> Neighbours:
    words = vectors.index_to_key
    asked = {vectors.key_to_index.get(word, -1) for word in (*question.plus, *question.minus)}
    return [(words[row], cosine) for row, cosine in ranked(rows, cosines, question.topn, asked)]


def neighbour_links(vectors: WordVectors, words: Sequence[str]) -> list[tuple[str, str, float]]:
    """The links of a graph, with cosines: each word to the first, and to the two most similar of the others."""
    units = unit_rows(vectors[list(words)])
    cosines = units @ units.T
    pairs = {(0, i) for i in range(1, len(words))}
    for i in range(1, len(words)):
        others = [j for j in np.argsort(-cosines[i]).tolist() if j not in (0, i)][:2]
        pairs.update((min(i, j), max(i, j)) for j in others)
    return [(words[i], words[j], float(cosines[i, j])) for i, j in sorted(pairs)]


def _several(words: Word | Sequence[Word]) -> list[Word]:
    if isinstance(words, str) or (isinstance(words, np.ndarray) and words.ndim == 1):
        return [words]
    return list(words)
