"""Polyglot 多语言词向量: a real window of text should score higher than the same window with another centre word.

Collobert and Weston, A Unified Architecture for Natural Language Processing, 2008; Al-Rfou, Perozzi and Skiena,
Polyglot: Distributed Word Representations for Multilingual NLP, 2013, which has vectors for 117 languages.

    min Σ max(0, 1 - f(s) + f(s')),    f(s) = W₂ tanh(W₁ [C(w_-k); …; C(w_0); …; C(w_k)] + b₁)

s' is the window s with its centre w_0 replaced by a word drawn uniformly from the vocabulary. C holds the word vectors.
64 dimensions, 32 hidden units and windows of 5 words are the paper's values.

As in the papers, gradient descent takes a step for each window. What differs: the learning rate decays linearly to
zero; the text is read in pieces of 64 words in random order; windows whose centre is outside the vocabulary are
omitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyseme.arrays import Ints
from polyseme.options import option
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.checkpoint import Snapshot
from polyseme.training.run import Run, Trainable
from polyseme.words.epochs import CHUNK, Epochs, available_threads, preparing
from polyseme.words.neural import Batches, NeuralVectors, WordStream, class_counts, split_sentences
from polyseme.words.vocabulary_plan import older_vectors, plan_words

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.words.networks import PolyglotNet


@dataclass(frozen=True)
class PolyglotOptions:
    """Options of Polyglot."""

    dim: int = option(64, "dimension of a word vector", minimum=1)
    hidden: int = option(32, "units of the hidden layer", minimum=1)
    radius: int = option(2, "words on each side of the centre: 2 makes windows of 5", minimum=1, maximum=50)
    epochs: int = option(10, "passes over the text", minimum=0)
    lr: float = option(0.03, "initial learning rate; decays linearly to zero", minimum=1e-9)
    min_count: int = option(5, "minimum word count; rarer words are unknown", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)
    hold_out: float = option(
        0.02, "fraction of the text held out for the reports, at most 20,000 words", minimum=0, maximum=0.5
    )
    threads: int | None = option(None, "threads; default: one per CPU core", minimum=1, maximum=1024, changes="speed")
    seed: int = option(1, "random seed; results are identical only with one thread", minimum=0)


class Polyglot(Trainable, NeuralVectors):
    """``vectors`` (V, D) are C; ``module`` is the whole network, which scores windows."""

    method: ClassVar[str] = "polyglot"
    Options: ClassVar[type] = PolyglotOptions
    options: PolyglotOptions

    @classmethod
    def network(cls, n_words: int, options: PolyglotOptions) -> PolyglotNet:
        from polyseme.words.networks import PolyglotNet

        return PolyglotNet(n_words, options)

    @classmethod
    def train(cls, data: Corpus, options: PolyglotOptions, run: Run) -> Self:
        import torch

        start = older_vectors(run.start, options.dim)
        plan = plan_words(data, options.min_count, options.max_size, start)
        training, held_out = (
            WordStream.of_corpus(data, plan, part) for part in split_sentences(data, options.hold_out)
        )
        torch.manual_seed(options.seed)
        module = cls.network(len(plan.vocabulary), options)
        if start is not None:
            cls.take_over(module, plan, start)
        _learn(module, training, held_out, options, run)
        about = About(data.segmentation, data.facts, run.curve)
        counts = class_counts(plan.vocabulary, training.numbers, start)
        return cls(plan.vocabulary, module, options=options, about=about, counts=counts)


def _learn(module: PolyglotNet, training: WordStream, held_out: WordStream, options: PolyglotOptions, run: Run) -> None:
    """Train the weights of ``module`` in place."""
    from polyseme.words.kernels.polyglot import rank_windows
    from polyseme.words.kernels.rows import random_state

    weights = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    snapshot = run.resumed()
    if snapshot:
        snapshot.fill(**weights)
    batches = Batches(np.flatnonzero(training.numbers < training.unknown), CHUNK, options.seed)

    def rank(places: Ints, lr: float, *numbers: int) -> tuple[float, float]:
        state, result = random_state(options.seed, *numbers), np.zeros(2)
        rank_windows(
            training.numbers, places, training.unknown, weights["words.weight"], weights["inner.weight"],
            weights["inner.bias"], weights["out.weight"][0], lr, state, result,
        )  # fmt: skip
        return float(result[0]), float(result[1])

    with preparing(run.progress):
        rank(batches.places[:0], 0.0)  # only compiles, so that the measured speed excludes it
    Epochs(
        bounds=np.minimum(np.arange(len(batches) + 1) * CHUNK, len(batches.places)),
        epochs=options.epochs,
        lr=options.lr,
        threads=available_threads(options.threads),
        train=lambda epoch, chunk, begin, end, lr, _: rank(batches(epoch, chunk), lr, epoch, chunk),
        keep=lambda state: run.save(Snapshot(weights, state)),
        check=lambda: all(np.isfinite(weight.sum(dtype=np.float64)) for weight in weights.values()),
        score=lambda: held_out_scores(module, held_out),
    ).run(run, snapshot.state if snapshot else {})


def held_out_scores(module: PolyglotNet, stream: WordStream) -> dict[str, float]:
    """The mean loss, and the fraction of windows that score above their altered copies; empty if there is no text."""
    from polyseme.words.networks import window_losses

    places = np.flatnonzero(stream.numbers < stream.unknown)
    if not len(places):
        return {}
    losses = window_losses(
        module, stream, places, np.random.default_rng(20080705).integers(0, stream.unknown, len(places))
    )
    return {"held_out_loss": float(losses.mean()), "right": float((losses < 1).double().mean())}
