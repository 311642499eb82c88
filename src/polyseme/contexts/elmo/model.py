"""ELMo (基于语言模型的语境词向量): contextual word vectors from the layers of a biLM.

Peters et al., "Deep contextualized word representations", NAACL 2018.

    ELMo_k = γ Σ_j s_j h_{k,j},   j = 0 … L,   h_{k,0} = [x_k; x_k],   h_{k,j} = [h→_{k,j}; h←_{k,j}]

``bilm.py`` has the model and its objective. What differs from the paper: each sentence starts from a zero state, so its
vectors do not depend on what was read before (``stateful=True`` reads as the authors' program does), and words can be
read as Unicode characters, or as characters and a word id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch

from polyseme.contexts.elmo.alphabet import WORD_SPECIALS, Alphabet, make_alphabet
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.encode import ElmoLayers, ElmoReader, Planes, SentenceRunner
from polyseme.contexts.elmo.options import ElmoOptions
from polyseme.contexts.elmo.perplexity import word_losses
from polyseme.contexts.fine_tuning import TunableEncoder
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import (
    ContextEncoder,
    EncodedSentence,
    LanguageModel,
    LayerChoice,
    Layers,
    Sentence,
    WordLosses,
    several,
)
from polyseme.neural.batches import Packing
from polyseme.neural.layers import ScalarMix
from polyseme.neural.weights import arrays_of, load_arrays, with_weights
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run, Trainable

if TYPE_CHECKING:
    from typing_extensions import Self


class Elmo(Trainable, ContextEncoder, LanguageModel):
    """A biLM, its alphabet, and the words of its softmax if it has one."""

    method: ClassVar[str] = "elmo"
    Options: ClassVar[type] = ElmoOptions
    options: ElmoOptions

    def __init__(
        self,
        options: ElmoOptions,
        alphabet: Alphabet,
        bilm: BiLM,
        *,
        classes: list[str] | None = None,
        mix: ScalarMix | None = None,
        about: About | None = None,
    ) -> None:
        """``classes`` are the words of the softmax; unknown, begin and end of sentence follow them."""
        self.options, self.alphabet, self.bilm = options, alphabet, bilm.eval()
        self.classes = classes or []
        self.mix = mix if mix is not None else ScalarMix(bilm.config.n_layers + 1)
        self.about = about if about is not None else About()
        self.dim = 2 * bilm.config.projection
        self.n_layers = bilm.config.n_layers + 1

    @classmethod
    def train(cls, corpus: Corpus, options: ElmoOptions, run: Run) -> Self:
        """Train on a corpus."""
        # train.py imports this module, so it is imported only here.
        trained: Self = import_module("polyseme.contexts.elmo.train").train_elmo(cls, corpus, options, run)
        return trained

    # ---- reading sentences

    def encode_tokens(
        self,
        sentences: Iterable[Sentence],
        *,
        layers: LayerChoice = "all",
        stateful: bool = False,
        batch_size: int | None = None,
    ) -> Iterator[EncodedSentence]:
        """The vectors of the tokens of each sentence, in order, as a stream of any length.

        ``layers``: ``all`` gives ``(L+1, tokens, dim)``, lowest first; ``top``, ``mean``, ``mix`` (with the weights
        saved in the model) or a number give one plane. The vectors of a sentence depend on this sentence only, unless
        ``stateful``: then sentences are read as bilm-tf and AllenNLP do, in batches of ``batch_size`` (None: all of
        this call) whose rows continue from their last states, also from call to call, until ``reset_state``.
        """
        if batch_size is not None and batch_size < 1:
            raise OptionError(f"batch_size must be at least 1, not {batch_size}")
        if stateful and self.options.reader != "lstm":
            raise OptionError(f"the {self.options.reader} reader has no states to carry over: leave out stateful")
        planes = self._planes(layers)
        if stateful:  # reads no sentence ahead, since states continue from call to call
            return self._stateful(map(self.tokens_of, several(sentences)), planes, batch_size)
        return self._stateless(self.token_lists(sentences), planes)

    def encode_predicting(
        self, sentences: Iterable[Sentence], layers: Sequence[int] | None = None
    ) -> Iterator[EncodedSentence]:
        """The states from which the biLM predicts each token, in all or some layers: forward at t-1, backward at t+1.

        They depend on the context of a word and not on the word itself, so they separate its senses better than the
        states at the word.
        """
        planes = Planes(range(self.n_layers) if layers is None else layers, predicting=True)
        return self._stateless(self.token_lists(sentences), planes)

    def reset_state(self) -> None:
        """Reset the states of the stateful mode to zero."""
        self.runner.states = None

    @cached_property
    def runner(self) -> SentenceRunner:
        """Encodes the sentences; delete it (or call ``forget_words``) when the weights have changed."""
        return SentenceRunner(self.bilm, self.alphabet)

    def tuned(self, layers: Sequence[int] | None = None) -> TunableEncoder:
        """The reader and the biLM, to fine-tune with a task. Clears the cache of word vectors."""
        self.forget_words()
        wanted = range(self.n_layers) if layers is None else layers
        names = [(f"bilm.layers.{number}.",) for number in range(self.n_layers - 1)]
        return TunableEncoder(ElmoReader(self.alphabet), ElmoLayers(self.bilm, wanted), names)

    def forget_words(self) -> None:
        """Clear the cache of word vectors, for when the weights have changed."""
        self.runner.cache.clear()

    def _planes(self, choice: LayerChoice) -> Planes:
        layers = Layers.read(choice, self.n_layers)
        return Planes(layers.numbers, layers.weights((self.mix.weights() * self.mix.gamma).tolist()))

    def _stateless(self, lists: Iterator[list[str]], planes: Planes) -> Iterator[EncodedSentence]:
        for window in self.runner.windows(lists, planes):
            for tokens, array in zip(window, self.runner.encode(window, planes), strict=True):
                yield EncodedSentence(tokens, array)

    def _stateful(
        self, lists: Iterator[list[str]], planes: Planes, batch_size: int | None
    ) -> Iterator[EncodedSentence]:
        while batch := list(islice(lists, batch_size)):
            # ELMoForManyLangs sorts a batch by length, so its rows and their states are in that order.
            sorts = self.options.conventions == "manylangs"
            order = sorted(range(len(batch)), key=lambda place: -len(batch[place])) if sorts else range(len(batch))
            arrays = self.runner.encode_stateful([batch[place] for place in order], planes)
            array_of = dict(zip(order, arrays, strict=True))
            for place, tokens in enumerate(batch):
                yield EncodedSentence(tokens, array_of[place])

    # ---- predictions of the language model

    @property
    def language(self) -> str | None:
        """``both-ways``, or None if the biLM has no softmax."""
        return "both-ways" if self.classes else None

    @cached_property
    def class_numbers(self) -> dict[str, int]:
        """word → its number in the softmax."""
        return {word: number for number, word in enumerate(self.classes)}

    def word_losses(self, sentences: Sequence[Sentence]) -> Iterator[WordLosses]:
        """-log p of every word and boundary in each sentence, forward and backward, with the full softmax."""
        return word_losses(self, self.tokenize_all(sentences))

    @torch.inference_mode()
    def expected(self, sentence: Sentence, position: int, topn: int) -> list[tuple[str, float]]:
        """The words that the biLM predicts at a position from both sides, with their probabilities, best first.

        log p(w) = log p→(w | left) + log p←(w | right) + constant; the word at the position itself is not used.
        """
        tokens = self.tokens_of(sentence)
        runner, last = self.runner, len(tokens) + 1
        whole = list(chain((self.alphabet.bos,), tokens, (self.alphabet.eos,)))
        vectors = runner.cache.get(list(dict.fromkeys(whole)), runner.word_vectors)
        number = {word: row for row, word in enumerate(dict.fromkeys(whole))}
        packing = Packing.of([len(whole)])
        ids = np.array([number[word] for word in whole])
        computed, _ = self.bilm.run(vectors[torch.from_numpy(ids[packing.time])], packing.sizes)
        here = position + 1  # the begin-of-sentence token comes first
        # The forward state at here - 1, and the backward state at here + 1, which is its step last - (here + 1).
        states = torch.stack([computed[-1][0, here - 1], computed[-1][1, last - here - 1]])
        logits = torch.log_softmax(states @ self.bilm.softmax_weight.T + self.bilm.softmax_bias, dim=1).sum(dim=0)
        chances = torch.softmax(logits[: len(self.classes)], dim=0)
        best = torch.topk(chances, min(topn, len(self.classes)))
        return [(self.classes[word], p) for p, word in zip(best.values.tolist(), best.indices.tolist(), strict=True)]

    # ---- on disk

    def parts(self) -> Parts:
        """The weights by their names in the module, and the tables of characters and words."""
        tables = {"characters": self.alphabet.characters} if self.alphabet.characters else {}
        words = self.classes or self.alphabet.words
        tensors = {**arrays_of(self.bilm), **arrays_of(self.mix, "mix.")}
        return Parts(tensors, {**tables, **({"vocab": words} if words else {})})

    @classmethod
    def from_parts(cls, options: ElmoOptions, parts: Parts, about: About) -> Self:
        """The model that was saved as ``parts``."""
        words = parts.tables.get("vocab", [])
        alphabet = make_alphabet(options, characters=parts.tables.get("characters", []), words=words)
        mix = ScalarMix(options.n_layers + 1)
        load_arrays(mix, parts.tensors, "mix.")
        tensors = {name: array for name, array in parts.tensors.items() if name not in ("mix.scalars", "mix.gamma")}
        n_classes = len(words) + WORD_SPECIALS if "softmax_weight" in tensors else 0
        project = "encoder.projection.weight" in tensors
        config = BiLMConfig.of(options, alphabet, n_classes=n_classes, project=project)
        bilm = with_weights(lambda: BiLM(config), tensors).eval()
        return cls(options, alphabet, bilm, classes=words if n_classes else None, mix=mix, about=about)


def filled(config: BiLMConfig, tensors: dict[str, torch.Tensor]) -> BiLM:
    """A biLM of these sizes with the weights of published files."""
    return with_weights(lambda: BiLM(config), tensors, FormatError).eval()
