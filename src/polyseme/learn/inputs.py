"""The input of a trained encoder 输入层: texts become batches, and batches become token vectors.

    x_t = [learned word; given vector; letters; bigram; Σ layers of an encoder],   beside_t = Σ layers of an encoder

``Inputs`` holds what is not learned (segmentation, vocabularies, encoders); ``InputModule`` holds the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.arrays import Ints
from polyseme.contexts.fine_tuning import transformer_of
from polyseme.contexts.static import StaticEncoder
from polyseme.errors import OptionError, altered_model
from polyseme.interfaces import ContextEncoder, Progress, Sentence, WordVectorsInterface, silent, tokens_given
from polyseme.learn.context_layers import FrozenLayers, LayerSums, TunedLayers, TunedSums
from polyseme.learn.modules import TextTokens, copied, fill, weights
from polyseme.learn.options import DIM, InputOptions, TextOptions
from polyseme.learn.prepared import PreparedInputs
from polyseme.learn.token_vectors import (
    FixedVectors,
    LearnedKeys,
    Letters,
    SourceModule,
    TokenInputs,
    TokenLists,
    TokenVectorSource,
)
from polyseme.neural.layers import Dropout
from polyseme.options import part_of
from polyseme.store.folder import Parts
from polyseme.store.model import Model
from polyseme.text.segment import Segmentation
from polyseme.text.sentences import ENDS

OVERLAPPING = "overlapping"  # in folders of models whose fine-tuned Transformer reads long texts in such windows
_ENDS = frozenset(ENDS + ".!?;")


class InputBatch(NamedTuple):
    """A batch of texts for the input module."""

    mask: Tensor  # (B, T)
    parts: list[tuple[Tensor, ...]]  # of each source
    sentence: Tensor | None = None


class InputModule(nn.Module):
    """The weights of all sources."""

    def __init__(
        self, sources: Sequence[SourceModule], dropout: float, mix_penalty: float, toward: str = "zero"
    ) -> None:
        super().__init__()
        self.sources = nn.ModuleList(sources)
        self.dim, self.beside = sum(source.dim for source in sources), sum(source.beside for source in sources)
        self.dropout, self.mix_penalty, self.toward = Dropout(dropout), mix_penalty, toward

    def forward(self, batch: InputBatch) -> TextTokens:
        made = [source(*part) for source, part in zip(self.sources, batch.parts, strict=True)]
        x, beside = ([part for part in parts if part is not None] for parts in zip(*made, strict=True))
        joined = self.dropout(torch.cat(x, dim=2))
        return TextTokens(
            joined, batch.mask, self.dropout(torch.cat(beside, dim=2)) if beside else None, batch.sentence
        )

    def penalty(self) -> Tensor | float:
        """The penalty on the weights of layer sums, which is added to the loss."""
        if not self.mix_penalty:
            return 0.0
        mixing = [source.sums if isinstance(source, TunedSums) else source for source in self.sources]
        sums = [part.penalty(self.mix_penalty, self.toward) for part in mixing if isinstance(part, LayerSums)]
        return sum((found for found in sums if found is not None), start=0.0)


class PreparedTexts(PreparedInputs):
    """Texts prepared by every source, from which batches are made."""

    def __init__(self, lists: TokenLists, prepared: list[TokenInputs], *, numbered: bool) -> None:
        self.lists, self.prepared, self.numbered = lists, prepared, numbered
        self.sizes: Ints = np.array([len(tokens) for tokens in lists], dtype=np.int64)

    def batch(self, rows: Ints, *, learning: bool = False) -> InputBatch:
        """A batch of some of the texts. It has at least one position, even if all texts are empty."""
        sizes = self.sizes[rows]
        longest = max(int(sizes.max()), 1)
        mask = torch.from_numpy(np.arange(longest) < sizes[:, None])
        parts = [prepared.batch(rows, longest) for prepared in self.prepared]
        return InputBatch(mask, parts, self._sentences(rows, longest) if self.numbered else None)

    def _sentences(self, rows: Ints, longest: int) -> Tensor:
        numbers = np.zeros((len(rows), longest), dtype=np.int64)
        for place, row in enumerate(rows):
            of_row = sentence_numbers(self.lists[row])
            numbers[place, : len(of_row)] = of_row
        return torch.from_numpy(numbers)


def token_lists(segmentation: Segmentation, texts: Sequence[Sentence]) -> list[list[str]]:
    """The tokens of texts: raw texts are segmented, all at once; lists of tokens are used as they are."""
    raw = [text for text in texts if isinstance(text, str)]
    cut = iter(segmentation.token_lists(raw) if raw else [])
    return [next(cut) if isinstance(text, str) else tokens_given(text) for text in texts]


def sentence_numbers(tokens: Sequence[str]) -> NDArray[np.int64]:
    """The number of each token's sentence: a new one begins after a run of tokens that end a sentence."""
    ends = np.array([token in _ENDS for token in tokens], dtype=bool)
    begins = np.concatenate([[False], ends[:-1] & ~ends[1:]]) if len(ends) else ends
    return np.cumsum(begins)


class Inputs:
    """The segmentation of texts, and the sources of token vectors."""

    def __init__(
        self, sources: list[TokenVectorSource], encoders: list[Any], segmentation: Segmentation, options: InputOptions
    ) -> None:
        self.sources, self.encoders, self.segmentation = sources, encoders, segmentation
        modules = [source.module for source in sources]
        self.module = InputModule(modules, options.input_dropout, options.mix_penalty, options.toward)

    @classmethod
    def of(
        cls, lists: TokenLists, encoders: Sequence[Any], segmentation: Segmentation, given_options: TextOptions
    ) -> Inputs:
        """The input of an encoder that is to be trained on these texts."""
        options = part_of(given_options, InputOptions)
        given = [_opened(encoder) for encoder in encoders]
        if options.encoder_mode == "finetune":  # a copy, so that the given encoder stays unchanged
            given = [copied(e) if isinstance(e, ContextEncoder) and isinstance(e, Model) else e for e in given]
        dim = _learned_dim(given, options)
        tables: list[TokenVectorSource] = [LearnedKeys.of("words", lists, dim, options.min_count)] if dim else []
        if options.bigrams:
            tables.append(LearnedKeys.of("bigrams", lists, options.bigrams, options.min_count))
        if options.letters:
            tables.append(Letters.of(lists, options.letters))
        sources = [
            FixedVectors.of(encoder, _mode_of_words(options), lists, options.min_count)
            if isinstance(encoder, WordVectorsInterface)
            else _context_source(encoder, options)
            for encoder in given
        ]
        return cls([*tables, *sources], given, segmentation, options)

    # ---- reading texts

    def token_lists(self, texts: Sequence[Sentence]) -> list[list[str]]:
        """The tokens of raw texts; lists of tokens are used as they are."""
        return token_lists(self.segmentation, texts)

    def prepare(self, lists: TokenLists, progress: Progress = silent, *, numbered: bool = False) -> PreparedTexts:
        """Prepare texts for batches; with ``numbered``, batches contain sentence numbers too."""
        prepared = [source.prepare(lists, progress) for source in self.sources]
        return PreparedTexts(lists, prepared, numbered=numbered)

    # ---- on disk

    def parts(self, prefix: str = "inputs.") -> Parts:
        """Weights, vocabularies, and the encoders as separate models."""
        tables: dict[str, list[str]] = {}
        for source in self.sources:
            tables.update(source.table())
        tensors = weights(self.module, prefix)
        tuned = [source for source in self.sources if isinstance(source, TunedLayers) and source.has_windows]
        if tuned and all(source.overlapping for source in tuned):
            tensors[prefix + OVERLAPPING] = np.ones(1, dtype=np.int64)
        encoders = {f"encoder{n}": encoder for n, encoder in enumerate(self.encoders)}
        return Parts(tensors, tables, {}, encoders)

    @classmethod
    def from_parts(
        cls, given_options: TextOptions, parts: Parts, segmentation: Segmentation, prefix: str = "inputs."
    ) -> Inputs:
        """The inputs that ``parts`` came from."""
        options = part_of(given_options, InputOptions)
        encoders = [parts.models.get(f"encoder{number}") for number in range(_n_encoders(parts))]
        if not all(isinstance(encoder, (WordVectorsInterface, ContextEncoder)) for encoder in encoders):
            raise altered_model("encoder0, encoder1 … are not its encoders")
        dim = _learned_dim(encoders, options)
        tables: list[TokenVectorSource] = [LearnedKeys("words", parts.table("words"), dim)] if dim else []
        if options.bigrams:
            tables.append(LearnedKeys("bigrams", parts.table("bigrams"), options.bigrams))
        if options.letters:
            tables.append(Letters(parts.table("letters"), options.letters))
        sources: list[TokenVectorSource] = []
        for encoder in encoders:
            if isinstance(encoder, WordVectorsInterface):
                mode = _mode_of_words(options)
                tuned = mode != "frozen"
                learned = LearnedKeys("words", parts.table("words"), encoder.vector_size) if tuned else None
                sources.append(FixedVectors(encoder, mode, learned))
            elif isinstance(encoder, ContextEncoder):
                overlapping = prefix + OVERLAPPING in parts.tensors
                sources.append(_context_source(encoder, options, overlapping=overlapping))
        made = cls([*tables, *sources], encoders, segmentation, options)
        fill(made.module, parts, prefix)
        return made


def _opened(encoder: Any) -> Any:
    """The encoder to use as a source of token vectors.

    For a ``StaticEncoder``, its word vectors, which are looked up and not encoded one by one; for a
    sentence-transformers model, its Transformer.
    """
    source = encoder.words if isinstance(encoder, StaticEncoder) else transformer_of(encoder) or encoder
    if not isinstance(source, (WordVectorsInterface, ContextEncoder)):
        name = getattr(source, "method", type(source).__name__)
        raise OptionError(f"method {name} gives one vector per text, but this head needs one per word")
    return source


def _learned_dim(encoders: Sequence[Any], options: InputOptions) -> int:
    at_input = any(isinstance(e, WordVectorsInterface) or options.elmo_at != "hidden" for e in encoders)
    dim = (0 if at_input else DIM) if options.dim is None else options.dim
    if not (dim or at_input or options.bigrams or options.letters):
        raise OptionError("there is no input: give dim more than 0" + (", or elmo_at=both" if encoders else ""))
    if dim and _mode_of_words(options) != "frozen" and any(isinstance(e, WordVectorsInterface) for e in encoders):
        raise OptionError("the given word vectors are fine-tuned here, and others cannot be learned too: give dim=0")
    return dim


def _mode_of_words(options: InputOptions) -> str:
    """The mode of given word vectors; ``auto`` fine-tunes them, or freezes them if there are learned ones too."""
    if options.encoder_mode != "auto":
        return options.encoder_mode
    return "frozen" if options.dim else "finetune"


def _context_source(encoder: ContextEncoder, options: InputOptions, *, overlapping: bool = True) -> TokenVectorSource:
    if options.encoder_mode == "multichannel":
        raise OptionError("multichannel is for word vectors: an encoder is frozen or fine-tuned")
    if options.encoder_mode == "finetune":
        return TunedLayers(encoder, options.layers, options.elmo_at, overlapping=overlapping)
    return FrozenLayers(encoder, options.layers, options.elmo_at)


def _n_encoders(parts: Parts) -> int:
    return sum(name.startswith("encoder") for name in parts.models)
