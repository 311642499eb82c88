"""Probing 探测: what does a sentence vector still know of its sentence? The labels come from any text itself.

| task      | the question | classes |
|-----------|--------------|---------|
| `length`  | how many words has the sentence? | six stretches of lengths that are about equally frequent |
| `content` | which of some words of middling frequency is in it? | one for each word; sentences have just one of them |
| `order`   | were two neighbouring words exchanged? | no, yes |

Conneau et al., What you can cram into a single $&!#* vector, 2018; Adi et al., Fine-grained Analysis of Sentence
Embeddings, 2017. A logistic regression reads the vectors of four fifths of the sentences, its penalty chosen on a
tenth of these, and is tested on the rest. ``commonest`` is what naming the most frequent class gives, ``bag_of_words``
what the same regression gives on counts of words. What differs from the papers: their classifier has a hidden layer,
and their sentences were chosen and filtered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.data.statistics import fold_of_rows
from polyseme.errors import OptionError, TrainingError, close_matches
from polyseme.evaluate.report import EvaluationSettings, Report
from polyseme.evaluate.transfer import Logistic, Rows, Scaling, best_logistic, fit_logistic
from polyseme.interfaces import SentenceEncoder
from polyseme.sentences.bag_of_words import SparseEncoder
from polyseme.text.corpus import Corpus, is_corpus

SHORTEST, LONGEST = 5, 28  # words of the sentences that are asked about
STRETCHES = 6
WORDS = 50  # of word content, at most
EACH = 20  # sentences that a word must be in
COMMON = 0.02  # share of sentences above which a word is too frequent
FEW = 200  # sentences, below which there is nothing to learn from
TESTED, CHOSEN_ON = 5, 10  # one in so many

Tokens = list[str]
Probe = tuple[list[Tokens], NDArray[np.int64]]  # sentences and the class of each


def evaluate_probing(model: Any, path: Path, settings: EvaluationSettings) -> Report:
    """How well each of the tasks of ``settings.probe`` can be told from the vectors, and how well from words."""
    for name in settings.probe:
        if name not in TASKS:
            raise OptionError(f"there is no probing task {name!r}{close_matches(name, TASKS)}: {', '.join(TASKS)}")
    sentences = sentences_of(path, model, settings.at_most)
    encoder = settings.as_texts(model)
    rows = [_row(encoder, name, *TASKS[name](sentences)) for name in settings.probe]
    means = {name: float(np.mean([row[name] for row in rows])) for name in ("accuracy", "bag_of_words", "commonest")}
    counts = {name: sum(row[name] for row in rows) for name in ("used", "total")}
    return Report("probing", [*rows, {"section": "mean", **means, "classes": None, **counts}])


def sentences_of(path: Path, model: Any, at_most: int) -> list[Tokens]:
    """Distinct sentences of a text or corpus that are neither short nor long, spread over all of it."""
    segmentation = getattr(getattr(model, "about", None), "segmentation", None)
    corpus = Corpus.open(path) if is_corpus(path) else Corpus.build(path, segment=segmentation or "auto")
    chosen: dict[tuple[str, ...], None] = {}
    for number in np.random.default_rng(1).permutation(len(corpus)).tolist():
        tokens = tuple(corpus.sentence(number))
        if SHORTEST <= len(tokens) <= LONGEST:
            chosen.setdefault(tokens)
        if len(chosen) == at_most:
            break
    if len(chosen) < FEW:
        raise TrainingError(
            f"{path} has {len(chosen)} distinct sentences of {SHORTEST} to {LONGEST} words, but "
            f"probing needs {FEW}: give more text"
        )
    return [list(tokens) for tokens in chosen]


# ---- the tasks


def length(sentences: list[Tokens]) -> Probe:
    """Stretches of lengths, about equally frequent."""
    sizes = np.array([len(tokens) for tokens in sentences])
    borders = np.unique(np.quantile(sizes, np.arange(1, STRETCHES) / STRETCHES, method="lower"))
    return sentences, np.unique(np.searchsorted(borders, sizes, side="left"), return_inverse=True)[1]


def content(sentences: list[Tokens]) -> Probe:
    """The sentences that have just one of the query words; of the words that are rare enough the most frequent."""
    frequencies = Counter(word for tokens in sentences for word in set(tokens))
    middling = [
        (-n, word)
        for word, n in frequencies.items()
        if EACH <= n <= max(COMMON * len(sentences), 4 * EACH) and any(map(str.isalpha, word))
    ]
    chosen = {word: place for place, (_, word) in enumerate(sorted(middling)[:WORDS])}
    if len(chosen) < 2:
        raise TrainingError(f"too few words are in {EACH} sentences or more: probing word content needs more text")
    asked = [(tokens, {chosen[word] for word in tokens if word in chosen}) for tokens in sentences]
    kept = [(tokens, words.pop()) for tokens, words in asked if len(words) == 1]
    return [tokens for tokens, _ in kept], np.unique([place for _, place in kept], return_inverse=True)[1]


def order(sentences: list[Tokens]) -> Probe:
    """Every second sentence with two neighbouring words exchanged that differ."""
    rng = np.random.default_rng(2)
    changed, classes = [], []
    for number, tokens in enumerate(sentences):
        places = [place for place in range(len(tokens) - 1) if tokens[place] != tokens[place + 1]]
        if not places:
            continue
        place = int(rng.choice(places))
        exchanged = [*tokens[:place], tokens[place + 1], tokens[place], *tokens[place + 2 :]]
        changed.append(exchanged if number % 2 else tokens)
        classes.append(number % 2)
    return changed, np.array(classes)


TASKS: dict[str, Callable[[list[Tokens]], Probe]] = {"length": length, "content": content, "order": order}


# ---- how well they are told


def _row(
    encoder: SentenceEncoder, name: str, sentences: Sequence[Tokens], classes: NDArray[np.int64]
) -> dict[str, Any]:
    encode: Any = encoder.encode_sparse if isinstance(encoder, SparseEncoder) else encoder.encode
    rows: Rows = encode(sentences)
    fold = fold_of_rows(classes, np.arange(len(classes)), TESTED, seed=1)
    known = np.asarray(abs(rows).sum(axis=1)).ravel()[fold == 0] > 0
    return {
        "section": name,
        "accuracy": _accuracy(rows, classes, fold == 0),
        "bag_of_words": _accuracy(_counts(sentences), classes, fold == 0),
        "commonest": float(np.bincount(classes[fold == 0]).max() / len(known)),
        "classes": int(classes.max()) + 1,
        "used": int(known.sum()),
        "total": len(known),
    }


def _accuracy(rows: Rows, classes: NDArray[np.int64], tested: NDArray[np.bool_]) -> float:
    """The share of the tested rows that a regression on the others tells right."""
    targets = np.eye(int(classes.max()) + 1, dtype=np.float32)[classes]
    scaled = Scaling.of(rows[~tested])(rows)
    held = ~tested & (np.cumsum(~tested) % CHOSEN_ON == 0)
    train = ~tested & ~held

    def right(fitted: Logistic, asked: NDArray[np.bool_]) -> float:
        return float((fitted.chances(scaled[asked]).argmax(axis=1) == classes[asked]).mean())

    penalty, start = best_logistic(scaled[train], targets[train], lambda fitted: right(fitted, held))
    return right(fit_logistic(scaled[~tested], targets[~tested], penalty, start), tested)


def _counts(sentences: Sequence[Tokens]) -> Rows:
    """How often each word is in each sentence, ``(n, V)``."""
    from scipy.sparse import csr_array

    place: dict[str, int] = {}
    columns = [place.setdefault(word, len(place)) for tokens in sentences for word in tokens]
    starts = np.cumsum([0, *map(len, sentences)])
    ones = np.ones(len(columns), dtype=np.float32)
    rows = csr_array((ones, np.array(columns), starts), shape=(len(sentences), len(place)))
    rows.sum_duplicates()
    return rows
