"""NNLM 神经网络语言模型: the first neural language model, whose word vectors are a by-product.

Bengio, Ducharme, Vincent and Jauvin, A Neural Probabilistic Language Model, 2003.

    x = [C(w_{t-1}); …; C(w_{t-n+1})],    p(w_t | w_{t-n+1} … w_{t-1}) = softmax(b + W x + U tanh(d + H x))

n (``order``) includes the predicted word. C holds the word vectors; W, the direct connections, is optional.

What differs from the paper: the softmax is computed on a sample of the classes (or, by option, with a Huffman tree or
in full); sparse Adam, on the rows that a batch touches, replaces plain gradient descent; each sentence has a boundary
before and after it; rare words are one class, "unknown". The mixture with a trigram model is omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyseme.arrays import Ints, best_places
from polyseme.interfaces import LanguageModel, Sentence, WordLosses
from polyseme.options import option
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.options import TrainingOptions
from polyseme.training.run import Run, Trainable
from polyseme.words.neural import NeuralVectors, WordStream, class_counts, split_sentences
from polyseme.words.vectors import WordVectors
from polyseme.words.vocabulary_plan import WordPlan, older_vectors, plan_words

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.words.networks import HuffmanPaths, NnlmNet


@dataclass(frozen=True)
class NnlmOptions(TrainingOptions):
    """Options of NNLM."""

    order: int = option(5, "n: the predicted word and the n - 1 words before it", minimum=2, maximum=50)
    dim: int = option(100, "dimension of a word vector", minimum=1)
    hidden: int = option(100, "units of the hidden layer", minimum=1)
    direct: bool = option(False, "also connect the words directly to the softmax")
    softmax: str = option(
        "sampled",
        "softmax over a sample of the classes, a Huffman tree (hierarchical), or all",
        choices=("sampled", "hierarchical", "full"),
    )
    negative: int = option(1024, "sampled softmax: classes per batch besides the targets", minimum=1)
    dropout: float = option(0.1, "dropout on word embeddings and hidden units", minimum=0, maximum=0.95)
    batch_size: int = option(1024, "predictions per step", minimum=1)
    lr: float = option(2e-3, "learning rate", minimum=0)
    epochs: int = option(10, "passes over the text", minimum=0)
    min_count: int = option(5, "minimum word count; rarer words are unknown", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)
    hold_out: float = option(
        0.02, "fraction of the text held out for the reports, at most 20,000 words", minimum=0, maximum=0.5
    )


class Nnlm(Trainable, NeuralVectors, LanguageModel):
    """``vectors`` (V, D) are C; ``module`` is the whole network, which predicts the next word."""

    method: ClassVar[str] = "nnlm"
    Options: ClassVar[type] = NnlmOptions
    by_class: ClassVar[tuple[str, ...]] = ("words.weight", "table", "bias")
    options: NnlmOptions

    @classmethod
    def network(cls, n_words: int, options: NnlmOptions) -> NnlmNet:
        from polyseme.words.networks import NnlmNet

        return NnlmNet(n_words, options)

    @classmethod
    def train(cls, data: Corpus, options: NnlmOptions, run: Run) -> Self:
        import torch

        from polyseme.neural.softmax import log_frequencies
        from polyseme.training.loop import fit
        from polyseme.words.networks import NnlmTask

        start = older_vectors(run.start, options.dim)
        plan = plan_words(data, options.min_count, options.max_size, start)
        training, held_out = (
            WordStream.of_corpus(data, plan, chosen) for chosen in split_sentences(data, options.hold_out)
        )
        counts = class_counts(plan.vocabulary, training.numbers, start)
        torch.manual_seed(options.seed)
        module = cls.network(len(plan.vocabulary), options)
        if options.softmax != "hierarchical":  # a Huffman tree already reflects the frequencies
            with torch.no_grad():
                module.bias.copy_(log_frequencies(counts))
        if start is not None:
            cls.take_over(module, plan, start, fresh=_of_another_tree(start, plan, counts, options))
        fit(NnlmTask(module, training, held_out, counts, options), options, run)
        about = About(data.segmentation, data.facts, run.curve)
        return cls(plan.vocabulary, module, options=options, about=about, counts=counts)

    @property
    def language(self) -> str:
        """``causal``: it predicts words from those before them."""
        return "causal"

    def word_losses(self, sentences: Sequence[Sentence]) -> Iterator[WordLosses]:
        """-log p of every word and of the end of each sentence, with a softmax over all classes."""
        from polyseme.words.networks import next_word_losses

        lists = self.tokenize_all(sentences)
        numbers = [self.vocabulary.ids(words) for words in lists]
        stream = WordStream.of_sentences(numbers, len(self))
        losses = next_word_losses(self.module, stream, self.options.order, self._paths)
        ends = np.cumsum([len(words) + 1 for words in lists])
        for words, ids, end in zip(lists, numbers, ends.tolist(), strict=True):
            unknown = int((ids == stream.unknown).sum())
            yield WordLosses.of_words(words, losses[None, end - len(words) - 1 : end], unknown)

    def expected(self, sentence: Sentence, position: int, topn: int) -> list[tuple[str, float]]:
        """The words most probable at a position given those before it, with their probabilities."""
        from polyseme.words.networks import next_word_chances

        tokens = self.tokens_of(sentence)
        stream = WordStream.of_sentences([self.vocabulary.ids(tokens)], len(self))
        context = stream.before(np.array([position + 1]), self.options.order - 1)[0]
        chances = next_word_chances(self.module, context, self._paths)[: len(self)]
        best = best_places((chances / chances.sum()).astype(np.float32), topn)
        return [(self.index_to_key[word], float(chances[word] / chances.sum())) for word in best]

    @cached_property
    def _paths(self) -> HuffmanPaths | None:
        from polyseme.words.networks import HuffmanPaths

        return HuffmanPaths(self.class_counts) if self.options.softmax == "hierarchical" else None


def _of_another_tree(start: WordVectors, plan: WordPlan, counts: Ints, options: NnlmOptions) -> tuple[str, ...]:
    """The weights that an older model has for the nodes of another Huffman tree, or for classes instead of nodes."""
    from polyseme.words.networks import HuffmanPaths

    if not isinstance(start, Nnlm) or "hierarchical" not in (options.softmax, start.options.softmax):
        return ()
    same = options.softmax == start.options.softmax and np.array_equal(plan.old_rows, np.arange(len(start)))
    return () if same and HuffmanPaths(counts).same_as(HuffmanPaths(start.class_counts)) else ("table", "bias")
