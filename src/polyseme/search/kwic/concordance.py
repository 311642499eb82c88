"""A concordance: every place where something stands, in its context, with how often, where, and next to what. 语料检索

    found = concordance(corpus, "改革开放")
    found.count, found.per_million, found.dispersion
    found.lines(sort="left", stop=20)
    found.collocates(score="logdice")

What can be looked for is said in ``patterns``, how near words are scored in ``collocates``.

Words that occur near a word more often than chance would have them there. 搭配

O is how often a word occurs in the windows around the hits, C how often in the corpus; the windows have W words in all,
the corpus N; there are n hits. By chance E = W C / N of them would be there.

    log-likelihood   2 Σ O ln(O / E) over the four cells of (here or elsewhere) × (this word or another)   Dunning 1993
    MI               log2(O / E), which prefers rare words                                     Church and Hanks 1990
    logDice          14 + log2(2 O / (n + C)), which does not depend on the size of the corpus        Rychlý 2008

The sign of the log-likelihood is that of O - E: negative for words that keep away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.display import excerpt, rows_table
from polyseme.errors import OptionError
from polyseme.search.kwic.patterns import Matches, Places, decoded, find, tags_like, words_of
from polyseme.search.word_selection import has_letter
from polyseme.text.corpus import Corpus
from polyseme.text.source import short_names

SCORES = ("loglik", "mi", "logdice", "count")
_AT_ONCE = 1 << 16  # hits

Counts = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Collocate:
    """A word that occurs near the hits."""

    word: str
    count: int  # in the windows
    left: int  # of these, before the hit
    right: int
    in_corpus: int
    expected: float
    loglik: float
    mi: float
    logdice: float

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return dict(vars(self))


def collocates(
    corpus: Corpus,
    sentences: Counts,
    places: Counts,
    *,
    left: int = 5,
    right: int = 5,
    min_count: int = 3,
    score: str = "loglik",
    topn: int = 50,
) -> list[Collocate]:
    """The words within ``left`` and ``right`` words of the hits and in their sentences, the highest score first.

    ``places`` are the first word of each hit and the one after its last, ``(n, 2)``; punctuation is omitted.
    """
    before = window_counts(corpus, sentences, places[:, 0], range(-left, 0))
    behind = window_counts(corpus, sentences, places[:, 1], range(right))
    observed = before + behind
    totals = corpus.all_counts
    chosen = np.flatnonzero(observed >= max(min_count, 1))
    chosen = chosen[[has_letter(corpus.all_words[word]) for word in chosen.tolist()]] if len(chosen) else chosen
    scores = association(observed[chosen], totals[chosen], int(observed.sum()), corpus.n_tokens, len(places))
    by = observed[chosen].astype(np.float64) if score == "count" else scores[score]
    order = np.lexsort((chosen, -by))[:topn]
    return [
        Collocate(
            corpus.all_words[chosen[i]],
            int(observed[chosen[i]]),
            int(before[chosen[i]]),
            int(behind[chosen[i]]),
            int(totals[chosen[i]]),
            *(round(float(scores[name][i]), 4) for name in ("expected", "loglik", "mi", "logdice")),
        )
        for i in order.tolist()
    ]


def association(observed: Counts, in_corpus: Counts, window: int, n_tokens: int, n_hits: int) -> dict[str, Numbers]:
    """The scores of words that were seen ``observed`` > 0 times in windows of ``window`` words together."""
    o, c, n = observed.astype(np.float64), in_corpus.astype(np.float64), float(n_tokens)
    w = min(float(window), n)  # windows that overlap can have more words than the corpus
    expected = np.maximum(w * c / n, 1e-12)
    cells = ((o, w * c / n), (w - o, w * (n - c) / n), (c - o, (n - w) * c / n), (n - w - c + o, (n - w) * (n - c) / n))
    total = np.zeros_like(o)
    for seen, chance in cells:
        positive = (seen > 0) & (chance > 0)
        total[positive] += seen[positive] * np.log(seen[positive] / chance[positive])
    return {
        "expected": expected,
        "loglik": np.sign(o - expected) * 2 * np.maximum(total, 0),
        "mi": np.log2(o / expected),
        "logdice": 14 + np.log2(2 * o / (n_hits + c)),
    }


def window_counts(corpus: Corpus, sentences: Counts, places: Counts, steps: range) -> Counts:
    """How often each word stands so many ``steps`` from a place, within the sentence of the place."""
    counts = np.zeros(len(corpus.all_words), dtype=np.int64)
    offsets = np.arange(steps.start, steps.stop)
    for begin in range(0, len(places), _AT_ONCE):
        rows = slice(begin, begin + _AT_ONCE)
        tokens = places[rows, None] + offsets  # (hits, steps)
        starts = corpus.sentence_offsets[sentences[rows]][:, None]
        ends = corpus.sentence_offsets[sentences[rows] + 1][:, None]
        inside = tokens[(tokens >= starts) & (tokens < ends)]
        counts += np.bincount(corpus.ids[inside], minlength=len(counts))
    return counts


SORTS = ("order", "left", "right", "match", "random")
PARTS = 20  # of the text: where the hits stand in it
_SHOWN = 20  # lines in a notebook
_WORDS_COMPARED = 3  # on the side that is sorted by
_NOTHING = -1


@dataclass(frozen=True, repr=False)
class Line:
    """One hit in its sentence: ``text[start:end]`` is what was found."""

    document: int
    source: str
    sentence: int
    token: int  # the first word of the hit, counted in the sentence
    start: int
    end: int
    text: str
    tag: str | None
    before: str  # the sentence before, and the one behind, of the same document
    behind: str

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"Line({self.source}: {excerpt(self.text, self.start, self.end)!r})"


@dataclass(frozen=True)
class InDocument:
    """How often something occurs in one document."""

    document: int
    source: str
    count: int
    tokens: int

    @property
    def per_million(self) -> float:
        """Hits per million words of the document."""
        return 1e6 * self.count / max(self.tokens, 1)


def concordance(
    corpus: Corpus, query: str, mode: str = "text", *, tag: str | None = None, seconds: float | None = None
) -> Concordance:
    """Look for a query. ``tag`` keeps the hits whose first word has such a tag (``n``, ``n*``)."""
    corpus.watch.check()
    hits = Concordance(corpus, query, find(corpus, query, mode, seconds=seconds))
    return hits if tag is None else hits.with_tag(tag)


class Concordance:
    """All hits of a query, in the order of the text."""

    def __init__(self, corpus: Corpus, query: str, matches: Matches) -> None:
        self.corpus, self.query, self._matches = corpus, query, matches
        self.sentences = matches.sentences  # (n,)

    @cached_property
    def places(self) -> Places:
        """The first word of each hit among those of the corpus, and the one after its last, ``(n, 2)``."""
        return (
            self._matches.spans
            if self._matches.by_words
            else words_of(self.corpus, self.sentences, self._matches.spans)
        )

    def with_tag(self, tag: str) -> Concordance:
        """The hits whose first word has such a tag: ``n``, or ``n*`` for all that begin so."""
        if self.corpus.tags is None:
            raise OptionError("the corpus has no tags to choose by")
        kept = tags_like(self.corpus, tag)[self.corpus.tags[self._first_words(self.places)]]
        matches = Matches(self.sentences[kept], self._matches.spans[kept], self._matches.by_words)
        return Concordance(self.corpus, self.query, matches)

    # ---- how often, and where

    @property
    def count(self) -> int:
        """How many hits there are; also ``len``."""
        return len(self.sentences)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"Concordance({self.query!r}: {self.count:,} hits, {self.per_million:,.1f} per million words)"

    def to_json(self) -> dict[str, Any]:
        """How often, and where, for programs; ``lines`` and ``collocates`` have the rest."""
        return {
            "count": self.count,
            "per_million": round(self.per_million, 4),
            "documents": self.n_documents,
            "of_documents": self.corpus.n_documents,
            "dispersion": None if self.dispersion is None else round(self.dispersion, 6),
            "parts": self.parts(),
        }

    def _repr_html_(self) -> str:
        shown = self.lines(stop=_SHOWN)
        rows = [
            (line.source, line.text[: line.start], line.text[line.start : line.end], line.text[line.end :])
            for line in shown
        ]
        return rows_table(repr(self), ("source", "left", "match", "right"), rows)

    @property
    def per_million(self) -> float:
        """Hits in a million words."""
        return 1e6 * self.count / max(self.corpus.n_tokens, 1)

    @cached_property
    def _document_counts(self) -> Places:
        documents = self.corpus.sentence_documents[self.sentences]
        return np.bincount(documents, minlength=self.corpus.n_documents).astype(np.int64)

    @cached_property
    def _document_tokens(self) -> Places:
        return np.diff(self.corpus.sentence_offsets[self.corpus.document_offsets])

    @property
    def n_documents(self) -> int:
        """Documents that have a hit."""
        return int(np.count_nonzero(self._document_counts))

    @property
    def dispersion(self) -> float | None:
        """DP: 0 if the hits are spread as evenly as the text, near 1 if one small document has them all.

        Half the sum, over all documents, of the differences between the document's share of the hits and its share of
        the words (Gries, Dispersions and adjusted frequencies in corpora, 2008). A text that is one document, such as a
        novel, is taken in equal ``parts``. None without hits.
        """
        if not self.count:
            return None
        if self.corpus.n_documents < 2:
            return float(np.abs(np.array(self.parts()) / self.count - 1 / PARTS).sum() / 2)
        shares = self._document_tokens / max(self.corpus.n_tokens, 1)
        return float(np.abs(self._document_counts / self.count - shares).sum() / 2)

    def parts(self, n: int = PARTS) -> list[int]:
        """How many hits occur in each of ``n`` equal parts of the text."""
        where = self.corpus.sentence_offsets[self.sentences] * n // max(self.corpus.n_tokens, 1)
        where = np.minimum(where, n - 1)  # a last sentence without words begins behind the text
        return [int(count) for count in np.bincount(where, minlength=n)]

    def documents(self, topn: int | None = None) -> list[InDocument]:
        """The documents that have hits, those with most of them first."""
        counts = self._document_counts
        order = np.argsort(-counts, kind="stable")[: self.n_documents][:topn]
        sizes = self._document_tokens
        return [InDocument(int(i), self._source(int(i)), int(counts[i]), int(sizes[i])) for i in order]

    # ---- in context

    def lines(self, start: int = 0, stop: int | None = None, *, sort: str = "order", seed: int = 1) -> list[Line]:
        """The hits in their sentences; by what stands to the ``left`` or ``right`` of them, or by what was found."""
        return [self.line(int(hit)) for hit in self.order(sort, seed=seed)[start:stop]]

    def order(self, sort: str, *, seed: int = 1) -> Places:
        """The numbers of the hits, sorted."""
        if sort not in SORTS:
            raise OptionError(f"sort must be one of {', '.join(SORTS)}, not {sort!r}")
        numbers = np.arange(self.count)
        if sort == "random":
            return np.random.default_rng(seed).permutation(numbers)
        if sort == "order":
            return numbers
        if sort == "match":
            keys = [collation_key(self._matched(hit)) for hit in range(self.count)]
            return np.array(sorted(range(self.count), key=keys.__getitem__), dtype=np.int64)
        steps = range(1, _WORDS_COMPARED + 1)
        beside = [self._beside(-step if sort == "left" else step) for step in steps]
        ranks = _ranks(self.corpus, beside)
        return np.lexsort((numbers, *reversed(ranks)))

    def collocates(
        self, *, left: int = 5, right: int = 5, min_count: int = 3, score: str = "loglik", topn: int = 50
    ) -> list[Collocate]:
        """Words that occur near the hits; see ``collocates``."""
        if score not in SCORES:
            raise OptionError(f"score must be one of {', '.join(SCORES)}, not {score!r}")
        if left < 0 or right < 0 or left + right == 0:
            raise OptionError(f"the window needs words on at least one side, not {left} and {right}")
        return collocates(
            self.corpus,
            self.sentences,
            self.places,
            left=left,
            right=right,
            min_count=min_count,
            score=score,
            topn=topn,
        )

    def _beside(self, step: int) -> Places:
        """The word so many steps before (negative) or after each hit, by number; -1 outside the document."""
        corpus = self.corpus
        tokens = self.places[:, 0] + step if step < 0 else self.places[:, 1] + step - 1
        bounds = corpus.sentence_offsets[corpus.document_offsets]
        documents = corpus.sentence_documents[self.sentences]
        inside = (tokens >= bounds[documents]) & (tokens < bounds[documents + 1])
        words = np.full(self.count, _NOTHING, dtype=np.int64)
        words[inside] = corpus.ids[tokens[inside]]
        return words

    def _matched(self, hit: int) -> str:
        """What was found, as the corpus has it."""
        start, end = self._matches.spans[hit].tolist()
        if self._matches.by_words:
            return "".join(self.corpus.all_words[word] for word in self.corpus.ids[start:end].tolist())
        return decoded(self.corpus, start, end)

    def line(self, hit: int) -> Line:
        """One hit in its sentence."""
        corpus, sentence = self.corpus, int(self.sentences[hit])
        span = self._matches.spans[hit : hit + 1]
        place = span if self._matches.by_words else words_of(corpus, self.sentences[hit : hit + 1], span)
        first, behind = (place[0] - corpus.sentence_offsets[sentence]).tolist()
        if self._matches.by_words:
            words = corpus.token_spans(sentence)
            start, end = words[first][0], words[behind - 1][1]
        else:
            origin = int(corpus.text_spans[sentence, 0])
            start, end = (len(decoded(corpus, origin, byte)) for byte in span[0].tolist())
        document = int(corpus.sentence_documents[sentence])
        tag = corpus.tag_names[int(corpus.tags[self._first_words(place)[0]])] if corpus.tags is not None else None
        before, after = self._sentence(sentence - 1, document), self._sentence(sentence + 1, document)
        source, text = self._source(document), corpus.text(sentence)
        return Line(document, source, sentence, first, start, end, text, tag, before, after)

    def _sentence(self, number: int, document: int) -> str:
        """A sentence of this document; nothing if it belongs to another."""
        corpus = self.corpus
        inside = 0 <= number < corpus.n_sentences and corpus.sentence_documents[number] == document
        return corpus.text(number) if inside else ""

    def _first_words(self, places: Places) -> Places:
        """The first word of each hit; a hit in a sentence without words, of dashes perhaps, has the next one."""
        return np.minimum(places[:, 0], self.corpus.n_tokens - 1)

    def _source(self, document: int) -> str:
        """The name of its file where each file is a document, else its number."""
        return self._names[document] if len(self._names) == self.corpus.n_documents else f"#{document}"

    @cached_property
    def _names(self) -> list[str]:
        return short_names(self.corpus.sources)


def collation_key(word: str) -> bytes:
    """For sorting: as GB 2312 has its characters, the frequent ones by pinyin; letters without their case."""
    return word.lower().encode("gb18030", "replace")


def _ranks(corpus: Corpus, columns: list[Places]) -> list[Places]:
    """The same columns with the place of each word in the order of collation instead of its number."""
    known, inverse = np.unique(np.concatenate(columns), return_inverse=True)
    words = corpus.all_words
    keys = [b"" if word == _NOTHING else collation_key(words[word]) for word in known.tolist()]
    rank = np.empty(len(known), dtype=np.int64)
    rank[sorted(range(len(known)), key=keys.__getitem__)] = np.arange(len(known))
    return np.split(rank[inverse], len(columns))
