"""doc2vec 段落向量: each document has a vector that predicts its words.

Le and Mikolov, Distributed Representations of Sentences and Documents, 2014; Dai, Olah and Le, Document Embedding with
Paragraph Vectors, 2015.

    dbow        max Σ_{w in d}  log σ(x_d·y_w) + Σ_{n ~ P^0.75} log σ(-x_d·y_n)
    dbow-words  the same, and words predict their neighbours as in skip-gram
    dm          x_d is replaced by the mean of x_d and the vectors of the context words
    dm-concat   x_d is replaced by the concatenation of x_d and the vectors of the context words

The vector of a new text is trained the same way, with words and output rows fixed. It starts from the mean of all
documents and uses the same random numbers for every text, so it depends only on the text and the seed. A text without
a known word has the zero vector.

What differs from the paper: negative sampling only, no hierarchical softmax; in dbow a few consecutive words share
their negative samples; the window size is random, as in word2vec. The paper concatenates the vectors of a dm and a dbow
model: ``np.hstack([dm.encode(texts), dbow.encode(texts)])``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, unit_rows
from polyseme.errors import OptionError, TrainingError, altered_model, close_matches
from polyseme.interfaces import Sentence, SentenceEncoder, check_query
from polyseme.options import option
from polyseme.sentences.bag_of_words import sentence_numbers, text_offsets
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run, Trainable
from polyseme.words.epochs import Epochs, available_threads, chunk_bounds, preparing, read_only
from polyseme.words.nearest import nearest_rows, ranked
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import carried_over, plan_words
from polyseme.words.word2vec import MOST_DIM, keep_chances, random_rows

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.words.kernels.documents import Plan

ARCHITECTURES = ("dbow", "dbow-words", "dm", "dm-concat")
TOGETHER = 2  # words of dbow that share their negative samples in training
RATES = {"dbow": 0.08, "dm": 0.16}  # chosen on documents of zhwiki; dm gets worse at 0.25
RATE = 0.05  # for the others
INFERENCE_RATES = {"dm": 0.0125}
INFERENCE_RATE = 0.025
TITLE = 60  # characters of a document's first sentence


@dataclass(frozen=True)
class Doc2VecOptions:
    """Options of doc2vec."""

    architecture: str = option("dbow", "architecture: what predicts a document's words", choices=ARCHITECTURES)
    dim: int = option(100, "dimension of a vector", minimum=1, maximum=MOST_DIM)
    window: int = option(5, "context words on each side (not dbow)", minimum=1, maximum=1000)
    negative: int = option(5, "negative samples per word", minimum=1, maximum=100)
    sample: float = option(1e-3, "subsampling: words more frequent than this are skipped at random; 0: off", minimum=0)
    epochs: int = option(10, "passes over the text", minimum=1)
    lr: float | None = option(
        None,
        "initial learning rate; decays linearly to zero; default: 0.08 (dbow), 0.16 (dm) or 0.05",
        minimum=1e-9,
    )
    inference_epochs: int = option(10, "passes over a new text at inference", minimum=1)
    inference_lr: float | None = option(
        None, "initial learning rate for a new text; default: 0.0125 (dm) or 0.025", minimum=1e-9
    )
    min_count: int = option(5, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)
    texts: str = option(
        "auto",
        "unit of text; auto: documents, or sentences if there is only one document",
        choices=("auto", "documents", "sentences"),
    )
    threads: int | None = option(None, "threads; default: one per CPU core", minimum=1, maximum=1024, changes="speed")
    seed: int = option(1, "random seed; results are identical only with one thread", minimum=0)


class Doc2Vec(Trainable, SentenceEncoder):
    """``documents`` (N, D) with their ``titles``, word vectors ``inputs`` (V, D; None for dbow), ``outputs`` (V, ·)."""

    method: ClassVar[str] = "doc2vec"
    Options: ClassVar[type] = Doc2VecOptions
    options: Doc2VecOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        documents: FloatArray,
        titles: list[str],
        inputs: FloatArray | None,
        outputs: FloatArray,
        *,
        options: Doc2VecOptions,
        about: About | None = None,
    ) -> None:
        self.vocabulary, self.documents, self.titles = vocabulary, documents, titles
        self.inputs, self.outputs = inputs, outputs
        self.options, self.about = options, about or About()
        self.dim = int(documents.shape[1])

    @classmethod
    def train(cls, corpus: Corpus, options: Doc2VecOptions, run: Run) -> Self:
        start = _older(run.start, options)
        words = WordVectors(start.vocabulary, start.outputs) if start else None
        plan = plan_words(corpus, options.min_count, options.max_size, words)
        offsets = text_offsets(corpus, options.texts)
        training = _Training(plan.vocabulary, options, len(offsets) - 1)
        if start is not None:
            carried_over(training.inputs, plan.old_rows, start.inputs)
            training.carry_outputs(plan.old_rows, start.outputs)
        training.learn(corpus, offsets, plan.numbers, run)
        documents = training.documents[:, : options.dim]
        titles = [corpus.text(int(i))[:TITLE] for i in sentence_numbers(corpus, options.texts)[:-1]]
        if start is not None:  # the documents of the older model keep their vectors
            documents, titles = np.concatenate([start.documents, documents]), [*start.titles, *titles]
        inputs = None if options.architecture == "dbow" else np.ascontiguousarray(training.inputs[:, : options.dim])
        about = About(corpus.segmentation, corpus.facts, run.curve)
        documents = np.ascontiguousarray(documents)
        return cls(plan.vocabulary, documents, titles, inputs, training.plain_outputs(), options=options, about=about)

    # ---- documents that were trained on

    def document(self, which: int | str) -> FloatArray:
        """The vector of a training document, by its number or its title (its first sentence)."""
        return np.asarray(self.documents[self._number(which)])

    def most_similar(self, which: int | str | Sentence, topn: int = 10) -> list[tuple[int, str, float]]:
        """The documents nearest to one of them (by number or title) or to a new text: number, title, cosine."""
        known = isinstance(which, int) or (isinstance(which, str) and which in self._titles)
        own = self._number(which) if known else -1  # type: ignore[arg-type]
        vector = self.documents[own : own + 1] if known else self.encode([which])  # type: ignore[list-item]
        norms = np.linalg.norm(self.documents, axis=1)
        inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
        check_query(vector, str(which))
        rows, scores = nearest_rows(self.documents, inverse, unit_rows(vector), topn + known)
        best = ranked(rows[0].tolist(), scores[0].tolist(), topn, (own,))
        return [(row, self.titles[row], score) for row, score in best]

    @cached_property
    def _titles(self) -> dict[str, int]:
        return {title: number for number, title in reversed(list(enumerate(self.titles)))}

    def _number(self, which: int | str) -> int:
        if isinstance(which, str):
            if which not in self._titles:
                raise OptionError(f"no document starts with {which[:TITLE]!r}{close_matches(which, self._titles)}")
            return self._titles[which]
        if not 0 <= which < len(self.documents):
            raise OptionError(f"there are {len(self.documents):,} documents: no number {which}")
        return which

    # ---- new texts

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``, each inferred independently."""
        lists = self.tokenize_all(texts)
        ids = [self.vocabulary.ids(tokens) for tokens in lists]
        known = [numbers[numbers < len(self.vocabulary)] for numbers in ids]
        return self._inference.vectors(known)

    @cached_property
    def _inference(self) -> _Inference:
        return _Inference(self)

    # ---- on disk

    def parts(self) -> Parts:
        """Vectors of documents and words, the vocabulary and the titles."""
        tensors: dict[str, NDArray[Any]] = {"documents": self.documents, "outputs": self.outputs}
        if self.inputs is not None:
            tensors["inputs"] = self.inputs
        tensors["counts"] = self.vocabulary.counts
        return Parts(tensors, {"vocab": self.vocabulary.words, "titles": self.titles})

    @classmethod
    def from_parts(cls, options: Doc2VecOptions, parts: Parts, about: About) -> Self:
        vocabulary, titles = vocabulary_of(parts), parts.table("titles")
        if not len(vocabulary):
            raise altered_model("its words are missing")
        documents, outputs = matrix_of(parts, "documents", len(titles)), matrix_of(parts, "outputs", len(vocabulary))
        dbow = options.architecture == "dbow"
        inputs = None if dbow else matrix_of(parts, "inputs", len(vocabulary))
        wide = options.dim * (1 + 2 * options.window if options.architecture == "dm-concat" else 1)
        sizes = [documents.shape[1], options.dim if inputs is None else inputs.shape[1], outputs.shape[1]]
        if sizes != [options.dim, options.dim, wide]:
            raise altered_model("its vectors are not of the length its options say")
        return cls(vocabulary, documents, titles, inputs, outputs, options=options, about=about)


class _Training:
    """The matrices during training, padded for the compiled code."""

    def __init__(self, vocabulary: Vocabulary, options: Doc2VecOptions, n_documents: int) -> None:
        from polyseme.words.kernels.rows import padded

        self.vocabulary, self.options = vocabulary, options
        n_words, dbow = len(vocabulary), options.architecture == "dbow"
        self.documents = random_rows(n_documents, options.dim, options.seed, 0.5)
        self.inputs = padded(1, options.dim) if dbow else random_rows(n_words, options.dim, options.seed + 1, 0.5)
        columns, self.slots = self.documents.shape[1], slots_of(options)
        self.outputs = padded(n_words, columns * self.slots)

    def learn(self, corpus: Corpus, offsets: NDArray[np.int64], numbers: NDArray[np.int32], run: Run) -> None:
        from polyseme.words.kernels.documents import train_documents
        from polyseme.words.kernels.predict import Text
        from polyseme.words.kernels.rows import logistic_table, random_state

        options = self.options
        keep = np.append(keep_chances(self.vocabulary.counts, options.sample), np.uint32(0))[numbers]
        text = Text(read_only(corpus.ids), read_only(offsets), keep, numbers)
        alias, table = negatives_of(self.vocabulary), logistic_table()
        plan = plan_of(options, len(self.vocabulary), learns=True)
        matrices = {"documents": self.documents, "inputs": self.inputs, "outputs": self.outputs}
        snapshot = run.resumed()
        for name, matrix in matrices.items() if snapshot else ():
            matrix[:] = snapshot.tensors[name]  # type: ignore[union-attr]

        def train(epoch: int, chunk: int, begin: int, end: int, lr_begin: float, lr_end: float) -> tuple[float, float]:
            state, result = random_state(options.seed, epoch, chunk), np.zeros(2)
            train_documents(
                text, begin, end, alias, plan, self.documents, self.inputs, self.outputs,
                lr_begin, lr_end, state, table, result,
            )  # fmt: skip
            return float(result[0]), float(result[1])

        with preparing(run.progress):
            train(0, 0, 0, 0, 0.0, 0.0)
        Epochs(
            bounds=chunk_bounds(offsets),
            epochs=options.epochs,
            lr=rate_of(options),
            threads=available_threads(options.threads),
            train=train,
            keep=lambda state: run.save(Snapshot(matrices, state)),
            check=lambda: all(np.isfinite(matrix.sum(dtype=np.float64)) for matrix in matrices.values()),
        ).run(run, snapshot.state if snapshot else {})

    def carry_outputs(self, old_rows: NDArray[np.int64], source: FloatArray) -> None:
        """Copy the output rows of the older model, slot by slot."""
        known, dim, columns = old_rows >= 0, self.options.dim, self.documents.shape[1]
        for slot in range(self.slots):
            part = source[old_rows[known], slot * dim : (slot + 1) * dim]
            self.outputs[: len(old_rows)][known, slot * columns : slot * columns + dim] = part

    def plain_outputs(self) -> FloatArray:
        """The output rows without padding."""
        columns = self.documents.shape[1]
        by_slot = self.outputs[:, : columns * self.slots].reshape(len(self.outputs), self.slots, columns)
        return np.ascontiguousarray(by_slot[:, :, : self.options.dim]).reshape(len(self.outputs), -1)


class _Inference:
    """A trained model prepared for the inference of new texts."""

    def __init__(self, model: Doc2Vec) -> None:
        from polyseme.words.kernels.rows import logistic_table

        self.options, self.dim, n_words = model.options, model.dim, len(model.vocabulary)
        self.plan = plan_of(model.options, n_words, learns=False)
        matrices = _Training(model.vocabulary, model.options, 1)
        self.first, self.outputs = matrices.documents, matrices.outputs  # (1, P), (V, P)
        if len(model.documents):
            self.first[0, : self.dim] = model.documents.mean(axis=0, dtype=np.float64)
        matrices.carry_outputs(np.arange(n_words), model.outputs)
        self.inputs = matrices.inputs
        if model.inputs is not None:
            self.inputs[:, : self.dim] = model.inputs
        self.keep = keep_chances(model.vocabulary.counts, model.options.sample)
        self.alias, self.table = negatives_of(model.vocabulary), logistic_table()

    def vectors(self, texts: Sequence[NDArray[np.int32]]) -> FloatArray:
        """The vectors of texts given as word numbers, ``(n, dim)``."""
        from polyseme.words.kernels.documents import infer_documents
        from polyseme.words.kernels.predict import Text
        from polyseme.words.kernels.rows import random_state

        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        ids = np.concatenate([np.zeros(0, dtype=np.int32), *texts]).astype(np.int32)
        text = Text(
            read_only(ids),
            read_only(np.append(0, np.cumsum(lengths))),
            self.keep,
            np.arange(len(self.keep), dtype=np.int32),
        )
        found = np.repeat(self.first, len(texts), axis=0)
        options = self.options
        states = np.concatenate([random_state(options.seed, epoch, 1) for epoch in range(options.inference_epochs)])
        lr = options.inference_lr or INFERENCE_RATES.get(options.architecture, INFERENCE_RATE)
        infer_documents(text, self.alias, self.plan, found, self.inputs, self.outputs, lr, states, self.table)
        found[lengths == 0] = 0
        return np.ascontiguousarray(found[:, : self.dim])


def rate_of(options: Doc2VecOptions) -> float:
    """The initial learning rate of training."""
    return options.lr or RATES.get(options.architecture, RATE)


def plan_of(options: Doc2VecOptions, n_words: int, *, learns: bool) -> Plan:
    """The plan for the compiled code; ``learns`` is false for inference."""
    from polyseme.words.kernels.documents import DBOW, DBOW_WORDS, DM, DM_CONCAT, Plan

    kinds = {"dbow": DBOW, "dbow-words": DBOW_WORDS, "dm": DM, "dm-concat": DM_CONCAT}
    negative = min(options.negative, n_words - 1)
    together = min(TOGETHER if learns else 1, n_words - negative)
    return Plan(kinds[options.architecture], options.window, negative, together, learns)


def negatives_of(vocabulary: Vocabulary) -> Any:
    """The alias table from which negative samples are drawn."""
    from polyseme.words.kernels.rows import alias_table

    return alias_table(np.maximum(vocabulary.counts, 1).astype(np.float64) ** 0.75)


def slots_of(options: Doc2VecOptions) -> int:
    """The number of vectors concatenated in an output row."""
    return 1 + 2 * options.window if options.architecture == "dm-concat" else 1


def _older(start: Any, options: Doc2VecOptions) -> Doc2Vec | None:
    if start is None or isinstance(start, Doc2Vec):
        same = start is None or all(
            getattr(start.options, name) == getattr(options, name) for name in ("architecture", "dim")
        )
        if not same or (start is not None and start.outputs.shape[1] != options.dim * slots_of(options)):
            raise TrainingError("the model to train further has a different architecture, dim or window: give the same")
        return start
    raise TrainingError(f"training cannot continue from a {start.method} model: doc2vec only continues from doc2vec")
