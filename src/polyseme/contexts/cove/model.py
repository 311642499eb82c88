"""CoVe (翻译所得的语境向量): contextual word vectors from the encoder of a translation model.

McCann et al., "Learned in Translation: Contextualized Word Vectors", NIPS 2017; ``network.py`` has the model.

    CoVe(w) = MT-LSTM(GloVe(w))        used next to the word's own vector:  [GloVe(w); CoVe(w)]

Layer 0 is the input word vectors, followed by the layers of the MT-LSTM; narrower layers are padded with zeros. A word
without a vector gets that of its lowercase form, or zeros. What differs from the paper: AdamW instead of SGD by
default, a sampled softmax, and word vectors that are learned with the rest if none are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from polyseme.arrays import FloatArray
from polyseme.contexts.cove.network import Translation, Translator, translated
from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.target_vocabulary import TargetVocabulary
from polyseme.contexts.cove.train import HELD_OUT, SourceVectors, TranslationTask, kept_pairs, padded
from polyseme.contexts.static import looked_up
from polyseme.data.parallel import Parallel
from polyseme.errors import OptionError, altered_model
from polyseme.interfaces import ContextEncoder, EncodedSentence, LayerChoice, Layers, Sentence, WordVectorsInterface
from polyseme.neural.batches import mask_of
from polyseme.neural.weights import arrays_of, with_weights
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.segment import Segmentation, mostly_chinese
from polyseme.text.spacing import join_words
from polyseme.training.run import Run, Trainable

if TYPE_CHECKING:
    from typing_extensions import Self

SENTENCES_AT_ONCE = 256
WORDS_AT_ONCE = 4096
SAMPLE = 200  # target sentences used to detect whether the language is Chinese


class Cove(Trainable, ContextEncoder):
    """A translation model, the vocabularies of both languages, and the input word vectors if they were given."""

    method: ClassVar[str] = "cove"
    trains_further: ClassVar[bool] = False
    Options: ClassVar[type] = CoveOptions
    options: CoveOptions

    def __init__(
        self,
        options: CoveOptions,
        network: Translator,
        source: TargetVocabulary,
        target: TargetVocabulary,
        *,
        vectors: WordVectorsInterface | None = None,
        about: About | None = None,
    ) -> None:
        """``target`` is empty if there is no decoder (a published encoder)."""
        self.options, self.network, self.vectors = options, network.eval(), vectors
        self.source_words, self.target_words = source, target
        self.about = about or About()
        self.word_dim = vectors.vector_size if vectors is not None else options.dim
        self.dim, self.n_layers = max(self.word_dim, network.encoder.dim), network.encoder.n_layers + 1

    @classmethod
    def train(cls, data: Parallel, options: CoveOptions, run: Run) -> Self:
        """Train to translate the first language of ``data`` into the second."""
        from polyseme.training.loop import fit

        given = run.models.get("word_vectors")
        if given is not None and not isinstance(given, WordVectorsInterface):
            raise OptionError(
                f"option 'word_vectors' must name word vectors, but {options.word_vectors} has method {given.method}"
            )
        options = replace(options, target_units=_units(data, options.target_units))
        cut = data.segmentations[0], _target_segmentation(options, data.segmentations[1])
        pairs = kept_pairs([(cut[0].tokens(a), cut[1].tokens(b)) for a, b in data], options.longest)
        training, held_out = _split(pairs, options.hold_out)
        source, target = (
            TargetVocabulary.of(
                (pair[side] for pair in training), min_count=options.min_count, max_size=options.max_size
            )
            for side in (0, 1)
        )
        if given is not None:
            source = TargetVocabulary([word for word in source.known if word in given or word.lower() in given])
        torch.manual_seed(options.seed)
        dim = options.dim if given is None else given.vector_size
        network = Translator(options, n_source=0 if given else len(source), n_target=len(target), dim=dim)
        task = TranslationTask(network, SourceVectors(source, given), target, training, held_out, options)
        fit(task, options, run)
        about = About(segmentation=data.segmentations[0], corpus=data.facts, curve=run.curve)
        return cls(options, network, source, target, vectors=given, about=about)

    # ---- reading sentences

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all") -> Iterator[EncodedSentence]:
        """The vectors of the words of each sentence, in order, as a stream."""
        wanted = Layers.read(layers, self.n_layers)
        lists = self.token_lists(sentences)
        batches = iter(lambda: list(islice(lists, SENTENCES_AT_ONCE)), [])
        return (sentence for batch in batches for sentence in self._encoded(batch, wanted))

    def _encoded(self, batch: list[list[str]], wanted: Layers) -> list[EncodedSentence]:
        planes_of: list[FloatArray] = [np.zeros((self.n_layers, 0, self.dim), dtype=np.float32)] * len(batch)
        order = sorted((n for n, words in enumerate(batch) if words), key=lambda n: len(batch[n]))
        held: list[int] = []
        for place in order:
            if held and (len(held) + 1) * len(batch[place]) > WORDS_AT_ONCE:
                self._read(held, batch, planes_of)
                held = []
            held.append(place)
        if held:
            self._read(held, batch, planes_of)
        return [EncodedSentence(words, wanted.planes(planes)) for words, planes in zip(batch, planes_of, strict=True)]

    @torch.inference_mode()
    def _read(self, places: list[int], batch: list[list[str]], planes_of: list[FloatArray]) -> None:
        x, lengths = self.word_vectors([batch[place] for place in places])
        planes, _ = self.network.encoder(x, mask_of(lengths, x.shape[1], x.device))
        for row, place in enumerate(places):
            n = len(batch[place])
            stacked = np.zeros((self.n_layers, n, self.dim), dtype=np.float32)
            for layer, plane in enumerate([x, *planes]):
                stacked[layer, :, : plane.shape[2]] = plane[row, :n].numpy()
            planes_of[place] = stacked

    def word_vectors(self, sentences: list[list[str]]) -> tuple[Tensor, Tensor]:
        """The input vectors of the encoder, ``(B, S, D)``, and the lengths."""
        if self.vectors is None:
            numbers, lengths = padded([self.source_words.numbers(words) for words in sentences])
            return self._source.vectors(self.network, numbers), lengths
        lengths = torch.tensor([len(words) for words in sentences])
        x = np.zeros((len(sentences), max(int(lengths.max()), 1), self.word_dim), dtype=np.float32)
        for row, words in enumerate(sentences):
            x[row, : len(words)] = looked_up(self.vectors, words)
        return torch.from_numpy(x), lengths

    @cached_property
    def _source(self) -> SourceVectors:
        return SourceVectors(self.source_words, None)

    # ---- translation

    @property
    def translates(self) -> bool:
        """Whether the model has a decoder."""
        return self.network.decoder is not None

    def share_known(self, texts: Sequence[str]) -> float:
        """The share of the words of these texts that the model knows."""
        words = [word for tokens in self.tokenize_all(texts) for word in tokens]
        if self.vectors is None:
            known = sum(word in self.source_words.index for word in words)
        else:
            known = int(looked_up(self.vectors, words).any(axis=1).sum())
        return known / max(len(words), 1)

    def translate(self, texts: Iterable[Sentence], *, beam: int = 5, longest: int = 100) -> Iterator[Translation]:
        """The translation of each text, with the attention over its words, as a stream."""
        if not self.translates:
            raise OptionError("this encoder has no decoder: it cannot translate")
        if beam < 1 or longest < 1:
            raise OptionError(f"beam and longest must be at least 1, not {beam} and {longest}")
        for words in self.token_lists(texts):
            x, lengths = self.word_vectors([words])
            numbers, weights, score = translated(self.network, x, lengths, beam=beam, longest=longest)
            pieces = [self.target_words.known[n] if n >= 0 else "�" for n in numbers]
            joined = "".join(pieces) if self.options.target_units == "chars" else join_words(pieces)
            yield Translation(joined, pieces, words, weights, score)

    # ---- on disk

    def parts(self) -> Parts:
        """The weights, the vocabularies of both languages, and the given word vectors as a model of their own."""
        tables = {"source": self.source_words.known, "target": self.target_words.known}
        models = {} if self.vectors is None else {"vectors": self.vectors}
        return Parts(arrays_of(self.network), tables, {}, models)

    @classmethod
    def from_parts(cls, options: CoveOptions, parts: Parts, about: About) -> Self:
        vectors = parts.models.get("vectors")
        if vectors is not None and not (isinstance(vectors, WordVectorsInterface) and isinstance(vectors, Model)):
            raise altered_model("vectors/ contains no word vectors")
        source, target = (TargetVocabulary(parts.tables.get(name, [])) for name in ("source", "target"))
        sizes = {
            "dim": options.dim if vectors is None else vectors.vector_size,
            "n_source": len(source) if vectors is None else 0,
            "n_target": len(target) if any(name.startswith("decoder.") for name in parts.tensors) else 0,
        }
        network = with_weights(lambda: Translator(options, **sizes), parts.tensors)
        return cls(options, network, source, target, vectors=vectors, about=about)


def _units(data: Parallel, wanted: str) -> str:
    if wanted != "auto":
        return wanted
    sample = "".join(target for _, target in islice(data, SAMPLE))
    return "chars" if mostly_chinese(sample) else "words"


def _target_segmentation(options: CoveOptions, given: Segmentation) -> Segmentation:
    return replace(given, method="char", words=()) if options.target_units == "chars" else given


def _split(pairs: list[tuple[list[str], list[str]]], share: float) -> tuple[list[tuple[list[str], list[str]]], ...]:
    """Pairs for training and held-out pairs; the choice depends on the pairs alone."""
    order = np.random.default_rng(20170801).permutation(len(pairs))
    n = min(round(share * len(pairs)), HELD_OUT, len(pairs) - 1)
    return [pairs[i] for i in np.sort(order[n:])], [pairs[i] for i in np.sort(order[:n])]
