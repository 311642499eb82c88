"""Recursive autoencoder (递归自编码器) over greedy trees: composes sentences from phrases, trained on unlabelled text.

Socher, Huang, Pennington, Ng and Manning, "Dynamic Pooling and Unfolding Recursive Autoencoders for Paraphrase
Detection", NIPS 2011. Two neighbours are merged into a phrase, and every phrase should reconstruct all its words:

    p = tanh(W [a; b] + c) / |·|        E = Σ_phrases |(x_i … x_j) - (x'_i … x'_j)|²,   x' = what p unfolds to

What differs from the paper: it uses the trees of a parser; here the pair with the lowest reconstruction error is merged
first (Socher et al., "Semi-Supervised Recursive Autoencoders", EMNLP 2011). Word vectors are scaled to length one and
not trained. A text's vector is the mean of its words and phrases, or its top phrase (``vector``). ``matched`` compares
two texts node by node (dynamic.py); ``fit pair`` uses that in addition to both vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.errors import TrainingError
from polyseme.interfaces import FloatArray, Progress, Sentence, WordVectors, silent
from polyseme.sentences import dynamic
from polyseme.sentences.infersent import given_vectors
from polyseme.sentences.learned import EncoderNet, ExampleTask, LearnedEncoder
from polyseme.sentences.modules import Encoding, TextModule, Tokens
from polyseme.sentences.options import RaeOptions
from polyseme.sentences.rae import AutoEncoder, Nodes, folded, unfolding_errors
from polyseme.sentences.token_vectors import Ints
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Score
from polyseme.words.word2vec import Word2Vec, Word2VecOptions

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_HELD_OUT = 2000
TEXTS_AT_ONCE = 64


class RaeModule(TextModule):
    """Greedy trees over word vectors of length one."""

    def __init__(self, dim: int, vector: str) -> None:
        super().__init__()
        self.net, self.vector, self.dim = AutoEncoder(dim), vector, dim

    def nodes(self, tokens: Tokens) -> Nodes:
        """The vectors of all words and phrases."""
        return folded(self.net, F.normalize(tokens.x, dim=2), tokens.mask)

    def forward(self, tokens: Tokens) -> Encoding:
        nodes = self.nodes(tokens)
        found = tokens.x.new_zeros(len(tokens.x), self.dim)
        if self.vector == "root":
            some = nodes.root >= 0
            return Encoding(found.index_copy(0, some.nonzero()[:, 0], nodes.vectors[nodes.root[some]]))
        counts = torch.bincount(nodes.text, minlength=len(found)).clamp(min=1)
        return Encoding(found.index_add(0, nodes.text, nodes.vectors) / counts[:, None])


class Rae(LearnedEncoder):
    """A recursive autoencoder: gives vectors of texts and of all their phrases."""

    method: ClassVar[str] = "rae"
    Options: ClassVar[type] = RaeOptions
    options: RaeOptions
    module: RaeModule

    @classmethod
    def make_module(cls, options: RaeOptions, dim: int, beside: int) -> RaeModule:
        return RaeModule(dim, options.vector)

    @classmethod
    def train(cls, data: Corpus, options: RaeOptions, run: Run) -> Self:
        """Train to reconstruct the words of every phrase in the sentences of a corpus."""
        chosen = np.flatnonzero(np.diff(data.sentence_offsets) > 1)[: options.max_sentences]
        if not len(chosen):
            raise TrainingError("the corpus has no sentence of two words to learn from")
        texts = [data.sentence(int(number))[: options.longest] for number in chosen]
        given = given_vectors(run, options.word_vectors) or [_own_vectors(data, options)]
        encoder = cls.of(texts, given, About(data.segmentation, data.facts, run.curve), options)
        n = min(round(options.hold_out * len(texts)), MOST_HELD_OUT)
        held, training = texts[:n], texts[n:]
        fit(UnfoldingTask(encoder, training, held, run.progress), options, run)
        encoder.net.eval()
        return encoder

    # ---- pairs

    @torch.inference_mode()
    def nodes(self, texts: Sequence[Sentence]) -> list[FloatArray]:
        """The vectors of each text's words and phrases, ``(2n - 1, dim)``; ``(0, dim)`` for a text without words."""
        prepared = self.prepare(texts)
        found: list[FloatArray] = [np.zeros((0, self.dim), dtype=np.float32)] * len(texts)
        order = np.argsort(prepared.sizes, kind="stable")
        device = next(self.net.parameters()).device
        for start in range(0, len(order), TEXTS_AT_ONCE):
            rows = order[start : start + TEXTS_AT_ONCE]
            nodes = self.module.nodes(self.net.inputs(prepared.batch(rows).to(device)))
            vectors, owner = nodes.vectors.cpu().numpy(), nodes.text.cpu().numpy()
            for place, row in enumerate(rows.tolist()):
                found[row] = vectors[owner == place]
        return found

    @property
    def matched_dim(self) -> int:
        """The number of features that ``matched`` gives for a pair."""
        return self.options.grid**2 + dynamic.NUMBERS

    def matched(self, pairs: Sequence[tuple[Sentence, Sentence]]) -> FloatArray:
        """The features of each pair: pooled distances of all nodes and three on numbers; ``(n, matched_dim)``."""
        first, second = zip(*pairs, strict=True) if pairs else ((), ())
        nodes = self.nodes([*first, *second])
        words = self.inputs.token_lists([*first, *second])
        n = len(first)
        rows = [
            np.concatenate([
                dynamic.pooled_distances(nodes[i], nodes[n + i], self.options.grid).ravel(),
                dynamic.number_features(words[i], words[n + i]),
            ])
            for i in range(n)
        ]  # fmt: skip
        return np.array(rows, dtype=np.float32).reshape(n, self.matched_dim)


def _own_vectors(corpus: Corpus, options: RaeOptions) -> WordVectors:
    """Word vectors trained on the same text, used if none are given."""
    wanted = Word2VecOptions(dim=options.word_dim, min_count=options.min_count, seed=options.seed, threads=1)
    return Word2Vec.train(corpus, wanted, Run())


class UnfoldingTask(ExampleTask):
    """Training: encode sentences and reconstruct them."""

    module: EncoderNet
    unit = "sentences"

    def __init__(
        self, encoder: Rae, training: list[list[str]], held_out: list[list[str]], progress: Progress = silent
    ) -> None:
        self.texts, self.held_out = encoder.prepare(training, progress), encoder.prepare(held_out, progress)
        super().__init__(encoder.net, self.texts.sizes, encoder.options)

    def loss_of(self, rows: Ints) -> Tensor:
        return self._error(self.module, self.texts, rows)[0]

    def _error(self, module: Any, texts: Any, rows: Ints) -> tuple[Tensor, int]:
        encoder: RaeModule = module.encoder
        nodes = encoder.nodes(module.inputs(texts.batch(rows).to(self.device)))
        return unfolding_errors(encoder.net, nodes), len(nodes.vectors) - nodes.n_words

    def evaluate(self, module: nn.Module) -> Score | None:
        total, n = 0.0, 0
        with torch.inference_mode():
            for start in range(0, len(self.held_out.sizes), self.options.batch_size):
                rows = np.arange(start, min(start + self.options.batch_size, len(self.held_out.sizes)))
                error, phrases = self._error(module, self.held_out, rows)
                total, n = total + float(error), n + phrases
        return Score(total / n, {"held_out_error": total / n}) if n else None
