"""fastText's classifier 有监督 fastText: a linear layer on the mean of the rows of a text's words and word n-grams.

Joulin, Grave, Bojanowski and Mikolov, "Bag of Tricks for Efficient Text Classification", EACL 2017.

    h = mean of the rows of words, of their character n-grams and of word n-grams;   p(label) = softmax(B h)

or a Huffman tree of the labels, or a logistic classifier for each label. Hashes are fastText's own: published .bin and
.ftz files predict the same labels here as in fastText, and a classifier trained here can be written as such a file.
What differs from fastText in training: texts are converted to numbers once, not in each epoch, and come in random
order.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import OptionError, TrainingError
from polyseme.options import option
from polyseme.store.model import About
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run
from polyseme.words.character_ngrams import END_OF_SENTENCE, Subwords, ngram_hash, word_bytes
from polyseme.words.epochs import Epochs, chunk_bounds
from polyseme.words.files.models import FastTextFileOptions, PublishedFastText

if TYPE_CHECKING:
    from polyseme.words.kernels.predict import Tree

LABEL = "__label__"
LOSSES = ("softmax", "negative", "hierarchical", "one-vs-all")
MOST_BUCKETS = 2_000_000
_BLANKS = str.maketrans(dict.fromkeys("\t\n\v\f\r\0", " "))


@dataclass(frozen=True)
class SupervisedOptions:
    """Options of fastText's classifier."""

    dim: int = option(100, "dimension of a vector", minimum=1)
    epochs: int = option(10, "passes over the texts", minimum=1)
    lr: float = option(0.5, "initial learning rate; decays linearly to zero", minimum=1e-9)
    loss: str = option("softmax", "training objective", choices=LOSSES)
    negative: int = option(5, "negative samples (labels) per text (negative)", minimum=1)
    word_ngrams: int = option(2, "longest word n-gram", minimum=1, maximum=20)
    minn: int | None = option(
        None, "shortest character n-gram; default: 1 for Chinese, otherwise 3", minimum=0, maximum=100
    )
    maxn: int | None = option(
        None,
        "longest character n-gram, 0: none; default: 2 for Chinese, otherwise 5",
        minimum=0,
        maximum=100,
    )
    buckets: int | None = option(
        None, "hash buckets for n-grams; default: twice the n-grams, at most 2,000,000", minimum=1
    )
    min_count: int = option(1, "minimum word count; rarer words are dropped", minimum=1)
    threads: int = option(1, "threads; 1 is reproducible", minimum=1, changes="speed")
    seed: int = option(1, "random seed", minimum=0)


class FastTextClassifier:
    """A fastText model that predicts labels, trained here or read from a published file."""

    def __init__(self, model: PublishedFastText) -> None:
        if model.options.architecture != "supervised" or not len(model.labels):
            raise OptionError("this fastText model was trained without labels: it has vectors but no classifier")
        self.model = model
        prefixed = all(label.startswith(LABEL) for label in model.labels.words)
        self.labels = [label[len(LABEL) :] if prefixed else label for label in model.labels.words]

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, segmented like the training text; if unknown, split at blanks, as in fastText."""
        segmentation = self.model.about.segmentation
        return segmentation.tokens(text) if segmentation else text.translate(_BLANKS).split(" ")

    def hidden(self, texts: Sequence[str | Sequence[str]]) -> FloatArray:
        """The vector of each text, ``(n, D)``."""
        from polyseme.words.kernels.classify import mean_rows

        lists = [self.tokens(text) if isinstance(text, str) else list(text) for text in texts]
        offsets, rows = self.reader.rows(lists)
        means = np.empty((len(texts), self.model.vector_size), dtype=np.float32)
        mean_rows(rows, offsets, self._inputs, means)
        return means

    def probabilities(self, texts: Sequence[str | Sequence[str]]) -> FloatArray:
        """p(label), ``(n, labels)``. With one-vs-all and negative, labels are independent: p does not sum to one."""
        scores = self.hidden(texts) @ np.asarray(self.model.output).T
        loss = self.model.options.loss
        if loss == "softmax":
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(scores / scores.sum(axis=1, keepdims=True), dtype=np.float32)
        if loss != "hierarchical":
            return _tabulated(scores)
        tree = self._tree
        shares = np.empty((len(texts), len(self.labels)), dtype=np.float32)
        for label in range(len(self.labels)):
            way = slice(tree.offsets[label], tree.offsets[label + 1])
            shares[:, label] = _logistic(-tree.signs[way] * scores[:, tree.nodes[way]]).prod(axis=1)
        return shares

    @cached_property
    def reader(self) -> TextReader:
        """Converts texts to row numbers."""
        model = self.model
        return TextReader(model.key_to_index, model.subwords, model.options.word_ngrams, set(model.labels.words))

    @cached_property
    def _inputs(self) -> FloatArray:
        return np.concatenate([self.model.subwords.own, self.model.subwords.rows])

    @cached_property
    def _tree(self) -> Tree:
        from polyseme.words.kernels.huffman import huffman_tree

        return huffman_tree(self.model.labels.counts)


def _tabulated(scores: FloatArray) -> FloatArray:
    """σ from fastText's lookup table: from -8 to 8 in steps of 1/32, 0 and 1 beyond."""
    steps = _logistic(np.asarray(np.floor(np.clip(scores, -8, 8) * 32) / 32, dtype=np.float32))
    return np.where(scores < -8, np.float32(0), np.where(scores > 8, np.float32(1), steps))


def _logistic(scores: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-scores)), dtype=np.float32)


@dataclass(frozen=True)
class Texts:
    """Texts as word numbers; each ends in </s>, as fastText reads a line."""

    offsets: Ints  # of the texts, into numbers
    numbers: Ints  # of words
    words: list[str]  # each once

    @classmethod
    def of(cls, lists: Sequence[Sequence[str]]) -> Texts:
        """From tokenised texts."""
        number: defaultdict[str, int] = defaultdict(count().__next__)
        flat: list[int] = []
        ends = [0]
        for tokens in lists:
            flat.extend(map(number.__getitem__, tokens))
            flat.append(number[END_OF_SENTENCE])
            ends.append(len(flat))
        return cls(np.array(ends, dtype=np.int64), np.array(flat, dtype=np.int64), list(number))

    def without(self, left_out: Sequence[bool]) -> Texts:
        """The texts without the words for which ``left_out`` is true."""
        if not any(left_out):
            return self
        kept = ~np.array(left_out)[self.numbers]
        ends = np.concatenate([[0], np.cumsum(kept)])[self.offsets]
        return Texts(ends, self.numbers[kept], self.words)

    def vocabulary(self, min_count: int) -> Vocabulary:
        """The words that occur at least ``min_count`` times, most frequent first."""
        counts = np.bincount(self.numbers, minlength=len(self.words)).astype(np.int64)
        order = [place for place in np.argsort(-counts, kind="stable").tolist() if self.words[place]]
        order = [place for place in order if counts[place] >= min_count]
        return Vocabulary([self.words[place] for place in order], counts[order])


class TextReader:
    """Converts texts to row numbers: of words, their character n-grams and word n-grams."""

    def __init__(
        self, index: dict[str, int], subwords: Subwords, word_ngrams: int, labels: set[str] | None = None
    ) -> None:
        self.index, self.subwords, self.word_ngrams = index, subwords, word_ngrams
        self.labels = labels or set()
        places = np.empty(0, dtype=np.int32)
        if subwords.kept is not None:
            places = np.full(max(subwords.n_buckets, 1), -1, dtype=np.int32)
            for bucket, row in subwords.kept.items():
                places[bucket] = row
        self.places = places

    def rows(self, lists: Sequence[Sequence[str]]) -> tuple[Ints, NDArray[np.int32]]:
        """The rows of tokenised texts: offsets of each text, and row numbers."""
        return self.rows_of(Texts.of(lists))

    def rows_of(self, texts: Texts) -> tuple[Ints, NDArray[np.int32]]:
        """The same for texts whose words are already numbered."""
        from polyseme.words.kernels.classify import text_rows

        texts = texts.without([not word or self._is_label(word) for word in texts.words])
        word_offsets, word_rows = self._rows_of_words(texts.words)
        n_buckets = self.subwords.n_buckets if self.word_ngrams > 1 else 0
        hashes = np.zeros(len(texts.words), dtype=np.uint32)
        if n_buckets:
            hashes[:] = [ngram_hash(word_bytes(word)) for word in texts.words]
        known = (texts.numbers, texts.offsets, word_offsets, word_rows, hashes, self.word_ngrams, len(self.index))
        size = text_rows(*known, n_buckets, self.places, np.empty(0, dtype=np.int32))[-1]
        rows = np.empty(max(size, 1), dtype=np.int32)
        return text_rows(*known, n_buckets, self.places, rows), rows[:size]

    def _is_label(self, word: str) -> bool:
        return word in self.labels or (word.startswith(LABEL) and word not in self.index)

    def _rows_of_words(self, words: list[str]) -> tuple[Ints, Ints]:
        rows, ends = [], [0]
        for word in words:
            number = self.index.get(word)
            if number is not None:
                rows.append(number)
            rows += (self.subwords.ids(word) + len(self.index)).tolist()
            ends.append(len(rows))
        return np.array(ends, dtype=np.int64), np.array(rows, dtype=np.int64)


def train_supervised(
    lists: Sequence[Sequence[str]],
    labels: Sequence[str],
    options: SupervisedOptions,
    run: Run,
    segmentation: Segmentation | None = None,
) -> PublishedFastText:
    """Train a classifier on tokenised texts and their labels."""
    if not lists:
        raise TrainingError("there are no texts to learn from")
    names, numbers = _numbered_labels(labels)
    order = np.random.default_rng(options.seed).permutation(len(lists))  # files are often sorted by label
    texts = Texts.of([lists[place] for place in order])
    vocabulary = texts.vocabulary(options.min_count)
    options = _settled(options, texts, vocabulary)
    nothing = np.empty((0, options.dim), dtype=np.float32)
    subwords = Subwords(
        options.minn or 0, options.maxn or 0, nothing, nothing, options.buckets or 0, None, END_OF_SENTENCE
    )
    offsets, rows = TextReader(vocabulary.index, subwords, options.word_ngrams).rows_of(texts)
    subwords.own, subwords.rows, outputs = _learned(offsets, rows, numbers[order], names, len(vocabulary), options, run)
    kept = {name: getattr(options, name) for name in ("epochs", "min_count", "negative", "word_ngrams", "minn", "maxn")}
    return PublishedFastText(
        vocabulary,
        subwords.compose(vocabulary.words),
        options=FastTextFileOptions(architecture="supervised", loss=options.loss, buckets=options.buckets or 0, **kept),
        about=About(segmentation=segmentation, corpus={"tokens": int(vocabulary.counts.sum())}, curve=run.curve),
        output=outputs,
        subwords=subwords,
        labels=Vocabulary([LABEL + name for name in names.words], names.counts),
    )


def _numbered_labels(labels: Sequence[str]) -> tuple[Vocabulary, NDArray[np.int32]]:
    names, places, counts = np.unique(np.array(labels, dtype=str), return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")  # a Huffman tree needs descending counts
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Vocabulary(names[order].tolist(), counts[order].astype(np.int64)), rank[places].astype(np.int32)


def _settled(options: SupervisedOptions, texts: Texts, vocabulary: Vocabulary) -> SupervisedOptions:
    """The options with the n-gram lengths and buckets filled in; no buckets if nothing is hashed."""
    minn, maxn = (1, 2) if vocabulary.is_chinese() else (3, 5)
    options = dataclasses.replace(
        options,
        minn=minn if options.minn is None else options.minn,
        maxn=max(maxn, options.minn or 0) if options.maxn is None else options.maxn,
    )
    assert options.minn is not None
    assert options.maxn is not None
    if 0 < options.maxn < options.minn:
        raise OptionError(
            f"minn is {options.minn} and maxn {options.maxn}: the shortest n-gram is longer than the longest"
        )
    if options.word_ngrams == 1 and not options.maxn:
        return dataclasses.replace(options, buckets=None)
    if options.buckets:
        return options
    pairs = texts.numbers[:-1] * len(texts.words) + texts.numbers[1:]
    grams = len(np.unique(pairs)) * (options.word_ngrams - 1) + 8 * len(vocabulary) * (options.maxn > 0)
    return dataclasses.replace(options, buckets=min(MOST_BUCKETS, max(1, 2 * grams)))


def _learned(
    offsets: Ints,
    rows: NDArray[np.int32],
    labels: NDArray[np.int32],
    names: Vocabulary,
    n_words: int,
    options: SupervisedOptions,
    run: Run,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Train; return the rows of words, of buckets and of labels."""
    from polyseme.words.kernels import classify as kernel
    from polyseme.words.kernels.huffman import huffman_tree, no_tree
    from polyseme.words.kernels.rows import alias_table, logistic_table, padded, random_state
    from polyseme.words.word2vec import random_rows

    n_rows, dim = n_words + (options.buckets or 0), options.dim
    is_touched = np.zeros(n_rows, dtype=bool)
    is_touched[rows] = True
    touched = np.flatnonzero(is_touched)  # only these rows are in memory during training
    rows = (np.cumsum(is_touched) - 1).astype(np.int32)[rows]
    inputs, outputs = random_rows(len(touched), dim, options.seed, 1.0), padded(len(names), dim)
    tree = huffman_tree(names.counts) if options.loss == "hierarchical" else no_tree()
    alias = alias_table(np.sqrt(names.counts.astype(np.float64)))
    kind, table = LOSSES.index(options.loss), logistic_table()
    snapshot = run.resumed()
    if snapshot:
        inputs[:], outputs[:] = snapshot.tensors["inputs"], snapshot.tensors["outputs"]

    def learn(epoch: int, chunk: int, begin: int, end: int, lr_begin: float, lr_end: float) -> tuple[float, float]:
        first, last = np.searchsorted(offsets, [begin, end])
        order = first + np.random.default_rng([options.seed, epoch, chunk]).permutation(last - first)
        result = np.zeros(2)
        kernel.train_texts(
            rows, offsets, order, labels, kind, options.negative, alias, tree, inputs, outputs, lr_begin, lr_end,
            random_state(options.seed, epoch, chunk), table, result,
        )  # fmt: skip
        return float(result[0]), float(result[1])

    def keep(state: dict[str, Any]) -> None:
        run.save(Snapshot({"inputs": inputs, "outputs": outputs}, state))

    Epochs(
        bounds=chunk_bounds(offsets),
        epochs=options.epochs,
        lr=options.lr,
        threads=options.threads,
        train=learn,
        keep=keep,
        check=lambda: bool(np.isfinite(outputs).all()),
    ).run(run, snapshot.state if snapshot else {})
    learned = np.zeros((n_rows, dim), dtype=np.float32)
    learned[touched] = inputs[:, :dim]
    return learned[:n_words], learned[n_words:], np.ascontiguousarray(outputs[:, :dim])
