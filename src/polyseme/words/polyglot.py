"""Polyglot 多语言词向量: a window that people wrote scores above the same window with another word at its centre.

Collobert and Weston, A Unified Architecture for Natural Language Processing, 2008; Al-Rfou, Perozzi and Skiena,
Polyglot: Distributed Word Representations for Multilingual NLP, 2013, which has vectors for 117 languages.

    min Σ max(0, 1 - f(s) + f(s')),    f(s) = W₂ tanh(W₁ [C(w_-k); …; C(w_0); …; C(w_k)] + b₁)

s' is the window s with its centre w_0 replaced by a word drawn evenly from the vocabulary. C are the vectors served.
64 dimensions, 32 hidden units and windows of 5 words are the paper's.

What differs from the paper: Adam on the rows that a batch touches, and larger batches; what the words around the centre
give to the hidden layer is computed once for both windows; windows whose centre is outside the vocabulary are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from polyseme.options import option
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.options import TrainingOptions
from polyseme.training.run import Run, Trainable
from polyseme.words.further import older_vectors, plan_words
from polyseme.words.neural import NeuralVectors, class_counts
from polyseme.words.windows import WordStream, split_sentences

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.words.networks import PolyglotNet


@dataclass(frozen=True)
class PolyglotOptions(TrainingOptions):
    """Options of Polyglot."""

    dim: int = option(64, "length of a word's vector", minimum=1)
    hidden: int = option(32, "units of the hidden layer", minimum=1)
    radius: int = option(2, "words on each side of the centre: 2 makes windows of 5", minimum=1, maximum=50)
    batch_size: int = option(1024, "windows in a step", minimum=1)
    lr: float = option(2e-3, "learning rate", minimum=0)
    epochs: int = option(10, "passes over the text", minimum=0)
    min_count: int = option(5, "words seen fewer times are unknown", minimum=1)
    max_size: int | None = option(None, "most words in the vocabulary; unless given, there is no limit", minimum=2)
    hold_out: float = option(
        0.02, "share of the text kept for the reports, 20,000 words at most", minimum=0, maximum=0.5
    )


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

        from polyseme.training.loop import fit
        from polyseme.words.networks import PolyglotTask

        start = older_vectors(run.start, options.dim)
        plan = plan_words(data, options.min_count, options.max_size, start)
        training, held_out = (
            WordStream.of_corpus(data, plan, some) for some in split_sentences(data, options.hold_out)
        )
        torch.manual_seed(options.seed)
        module = cls.network(len(plan.vocabulary), options)
        if start is not None:
            cls.take_over(module, plan, start)
        fit(PolyglotTask(module, training, held_out, options), options, run)
        about = About(data.segmentation, data.facts, run.curve)
        counts = class_counts(plan.vocabulary, training.numbers)
        return cls(plan.vocabulary, module, options=options, about=about, counts=counts)
