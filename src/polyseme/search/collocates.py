"""Words that occur near a word more often than chance would have them there. 搭配

O is how often a word occurs in the windows around the hits, C how often in the corpus; the windows have W words in all,
the corpus N; there are n hits. By chance E = W C / N of them would be there.

    log-likelihood   2 Σ O ln(O / E) over the four cells of (here or elsewhere) × (this word or another)   Dunning 1993
    MI               log2(O / E), which prefers rare words                                     Church and Hanks 1990
    logDice          14 + log2(2 O / (n + C)), which does not depend on the size of the corpus        Rychlý 2008

The sign of the log-likelihood is that of O - E: negative for words that keep away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.search.word_selection import has_letter
from polyseme.text.corpus import Corpus

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
        some = (seen > 0) & (chance > 0)
        total[some] += seen[some] * np.log(seen[some] / chance[some])
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
