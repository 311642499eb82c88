"""A Transformer encoder (Transformer 编码器): BERT, RoBERTa, ALBERT, ELECTRA, DistilBERT, XLM-R, GPT-2 and their kin.

Vaswani et al., "Attention Is All You Need", 2017; Devlin et al., "BERT", 2018. The architectures are those of
``transformers``; this module makes them ContextEncoders: words instead of subwords, sentences of any length, and
vectors that do not depend on the batch.

Attention between the words of a sentence (词间注意力), in every layer and head of a Transformer.

Attention between subwords becomes attention between words as in Clark et al., "What Does BERT Look At?", 2019:
attention *to* a word is the sum over its subwords, attention *from* a word the mean over them. Special tokens are left
out, so a row sums to one minus the attention to them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch

from polyseme.arrays import FloatArray
from polyseme.contexts.fine_tuning import TunableEncoder
from polyseme.contexts.transformer.encode import BATCH_PIECES, USUAL_LIMIT, Runner, word_states
from polyseme.contexts.transformer.inference_speed import in_int8, packed
from polyseme.contexts.transformer.language import LONGEST_WORD, Expectation, Place, split_at_masks
from polyseme.contexts.transformer.network import Network, TokenBatch, build, configuration, state
from polyseme.contexts.transformer.options import PRECISIONS, ShapeOptions, TransformerOptions
from polyseme.contexts.transformer.tokenizer import Cut, Ints, Pieces
from polyseme.contexts.transformer.tuning import PairReader, WordLayers, WordReader
from polyseme.disk.files import parsed_settings
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import (
    MASK,
    ContextEncoder,
    EncodedSentence,
    LanguageModel,
    LayerChoice,
    Layers,
    Sentence,
    WordLosses,
    several,
    tokens_given,
)
from polyseme.neural.batches import BudgetBatches
from polyseme.neural.layers import ScalarMix
from polyseme.neural.weights import arrays_of, load_arrays
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.normalise import check
from polyseme.text.segment import Segmentation
from polyseme.text.spacing import continued, joined_with_spans, token_spans
from polyseme.text.strings import well_formed

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Attention:
    """The attention weights between the words of a sentence."""

    tokens: list[str]
    weights: FloatArray  # (layers, heads, from, to)


class AttentionNetwork:
    """A copy of a network that returns its attention; it shares the weights of the original."""

    def __init__(self, network: Network) -> None:
        whole = network.whole
        shared = {id(tensor): tensor for tensor in (*whole.parameters(), *whole.buffers())}
        self.network = copy.copy(network)
        self.network._modules = {"whole": copy.deepcopy(whole, shared)}
        self.network.whole.set_attn_implementation("eager")  # faster implementations do not return the weights

    @torch.inference_mode()
    def weights(self, batch: TokenBatch, words: Ints) -> FloatArray:
        """``(layers, heads, words, words)`` for a batch of one row; ``words (W, 2)``: start and end of each word."""
        layers = self.network.attentions(batch)
        returned = [layer[0] for layer in layers if layer is not None]
        if not returned or len(returned) < len(layers):
            raise OptionError(f"a {self.network.whole.config.model_type} does not return its attention")
        pieces = torch.stack(returned).float().numpy()  # (L, H, T, T)
        return between_words(pieces, words)


def between_words(pieces: FloatArray, words: Ints) -> FloatArray:
    """``(L, H, T, T) -> (L, H, W, W)``: sums over the subwords attended to, means over those that attend."""
    member = np.zeros((len(words), pieces.shape[-1]), dtype=np.float32)
    for word, (first, last) in enumerate(words.tolist()):
        member[word, first:last] = 1
    looking = member / np.maximum(member.sum(axis=1, keepdims=True), 1)
    return np.asarray(looking @ pieces @ member.T, dtype=np.float32)


AHEAD_BYTES = 128 << 20  # vectors of the sentences that are read ahead and sorted by length
AHEAD_CHARACTERS = 1 << 16
SENTENCES_AT_ONCE = 4096


class GivenSentence(NamedTuple):
    """A sentence as text, its words, and their positions in the text."""

    text: str
    tokens: list[str]
    spans: list[tuple[int, int]]


class TransformerEncoder(Model, ContextEncoder, LanguageModel):
    """A network, its tokenizer, and the weights of the layer mix."""

    method: ClassVar[str] = "transformer"
    Options: ClassVar[type] = TransformerOptions
    options: TransformerOptions | ShapeOptions

    def __init__(
        self,
        options: TransformerOptions | ShapeOptions,
        network: Network,
        pieces: Pieces,
        *,
        mix: ScalarMix | None = None,
        about: About | None = None,
    ) -> None:
        self.options, self.network, self.pieces = options, network, pieces
        self.dim, self.n_layers = network.dim, network.n_layers
        self.reading = network  # the network used for encoding: itself, or a copy in another precision
        self.mix = mix if mix is not None else ScalarMix(self.n_layers)
        self.about = about if about is not None else About()

    @property
    def segmentation(self) -> Segmentation:
        """How raw text is segmented into words. By default text is not normalised, as published tokenizers expect."""
        return self.about.segmentation or Segmentation(normalise="none")

    @cached_property
    def runner(self) -> Runner:
        """Encodes sequences of subwords."""
        return Runner(packed(self.reading), self.pieces)

    @property
    def precision(self) -> str:
        """What it encodes in: ``fp32`` or ``int8``."""
        return "fp32" if self.reading is self.network else "int8"

    def __reduce__(self) -> Any:
        if self.precision == "fp32":
            return super().__reduce__()
        return methodcaller("at_precision", self.precision), (self.at_precision("fp32"),)

    def at_precision(self, precision: str) -> Self:
        """The same model, encoding in ``int8`` (faster, with nearly the same vectors) or in ``fp32``.

        It is still saved in fp32. On a machine without int8 support it stays in fp32, with a warning.
        """
        check("precision", precision, PRECISIONS)
        twin = copy.copy(self)
        for cached in ("runner", "expectation"):
            twin.__dict__.pop(cached, None)
        twin.reading = self.network if precision == "fp32" else in_int8(self.network) or self.network
        return twin

    @property
    def transformer(self) -> TransformerEncoder:
        """Itself."""
        return self

    def tuned(self, layers: Sequence[int] | None = None, *, overlapping: bool = True) -> TunableEncoder:
        """The reader and the network, to fine-tune with a task."""
        wanted = range(self.n_layers) if layers is None else layers
        names = [tuple(f"network.{name}" for name in layer) for layer in self.network.layer_names]
        reader = WordReader(self.runner, self.options.pieces, overlapping=overlapping)
        return TunableEncoder(reader, WordLayers(self.network, wanted), names)

    def pooled_by(self, pieces: str) -> Self:
        """The same model with another pooling of a word's subwords."""
        twin = copy.copy(self)
        twin.options = dataclasses.replace(self.options, pieces=pieces)
        return twin

    # ---- reading sentences

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all") -> Iterator[EncodedSentence]:
        """The vectors of the words of each sentence, ``(layers, words, dim)``, in order, as a stream.

        The vector of a word is pooled from its subwords (option ``pieces``). A sentence longer than the network's limit
        is read in overlapping windows. The vectors of a sentence depend on this sentence only.
        """
        chosen = Layers.read(layers, self.n_layers)
        given = (self._given(sentence) for sentence in several(sentences))
        return self._encoded(given, chosen)

    def encode_pieces(
        self, texts: Iterable[str | tuple[str, str]], *, layers: LayerChoice = "all"
    ) -> Iterator[EncodedSentence]:
        """The vectors of the subwords and special tokens; a pair of texts is one input."""
        chosen = Layers.read(layers, self.n_layers)
        return (self._encoded_pieces(text, chosen) for text in several(texts))  # type: ignore[arg-type]

    def _encoded(self, given: Iterator[GivenSentence], layers: Layers) -> Iterator[EncodedSentence]:
        for window in self._read_ahead(given, layers):
            cuts = self.pieces.cut([sentence.text for sentence in window])
            results: dict[int, EncodedSentence] = {}
            for number, states in self.runner.run([cut.ids for cut in cuts], layers, self._mix_weights()):
                words = self._words(cuts[number], window[number])
                tokens = window[number].tokens
                results[number] = EncodedSentence(tokens, word_states(states.numpy(), words, self.options.pieces))
            for number in range(len(window)):
                yield results[number]

    def _words(self, cut: Cut, sentence: GivenSentence) -> Ints:
        return cut.words(sentence.spans, self.pieces.bare) + len(self.pieces.before)

    def _given(self, sentence: Sentence) -> GivenSentence:
        if isinstance(sentence, str):
            text = well_formed(self.segmentation.normalised(sentence))
            tokens = self.segmentation.tokens(text)
            return GivenSentence(text, tokens, token_spans(text, tokens, self.segmentation))
        tokens = tokens_given(sentence)
        text, spans = joined_with_spans([well_formed(token) for token in tokens])
        return GivenSentence(text, tokens, spans)

    def _read_ahead(self, given: Iterator[GivenSentence], layers: Layers) -> Iterator[list[GivenSentence]]:
        room = max(min(AHEAD_CHARACTERS, AHEAD_BYTES // (4 * self.dim * layers.n_planes)), 1024)
        held: list[GivenSentence] = []
        size = 0
        for sentence in given:
            held.append(sentence)
            size += len(sentence.text) + 2
            if size >= room or len(held) == SENTENCES_AT_ONCE:
                yield held
                held, size = [], 0
        if held:
            yield held

    @torch.inference_mode()
    def _encoded_pieces(self, text: str | tuple[str, str], layers: Layers) -> EncodedSentence:
        names = self.pieces.names
        if isinstance(text, str):
            ids = self.pieces.ids([self.segmentation.normalised(text)])[0]
            (_, states), *_ = self.runner.run([ids], layers, self._mix_weights())
            whole = [*self.pieces.before, *ids.tolist(), *self.pieces.behind]
            return EncodedSentence([names[n] for n in whole], states.numpy().copy())
        ids, types = self.pieces.pair(*map(self.segmentation.normalised, text))
        if len(ids) > self.runner.limit:
            raise OptionError(f"a pair of texts has {len(ids)} pieces, and the model reads {self.runner.limit} at once")
        batch = TokenBatch(torch.from_numpy(ids[None]), None, torch.from_numpy(types[None]) if types.any() else None)
        all_layers = torch.stack([layer[0] for layer in self.runner.network(batch)]).numpy()
        return EncodedSentence([names[n] for n in ids.tolist()], layers.planes(all_layers, self._mix_weights()))

    def attention(self, sentence: Sentence) -> Attention:
        """The attention weights between the words of a sentence, ``(layers, heads, words, words)``.

        Attention to special tokens is left out. The sentence must fit into the network's limit.
        """
        given = self._given(sentence)
        cut = self.pieces.cut([given.text])[0]
        if len(cut.ids) > self.runner.room:
            raise OptionError(
                f"the sentence has {len(cut.ids)} pieces: attention covers at most {self.runner.room}, give a part"
            )
        batch = self.runner.alone(cut.ids)
        return Attention(given.tokens, self._attention_network.weights(batch, self._words(cut, given)))

    @cached_property
    def _attention_network(self) -> AttentionNetwork:
        return AttentionNetwork(self.network)

    def _mix_weights(self) -> list[float]:
        weights: list[float] = (self.mix.weights() * self.mix.gamma).tolist()
        return weights

    # ---- whether one text follows another

    @property
    def tells_order(self) -> bool:
        """Whether it has the head that BERT learns with: next sentence, or the order of two (ALBERT)."""
        return self.network.tells_pairs

    @torch.inference_mode()
    def follows(self, pairs: Iterable[tuple[str, str]]) -> FloatArray:
        """p(the second text follows the first) of each pair, ``(n,)``; of ALBERT, p(they stand in this order)."""
        if not self.tells_order:
            raise OptionError(
                f"this {self.method} model has no head for pairs of sentences (next sentence): published BERT has one, "
                "and so has what train bert makes with pairs=nsp"
            )
        reader, normalised = PairReader(self.runner), self.segmentation.normalised
        inputs = reader.cut([(normalised(pair[0]), normalised(pair[1])) for pair in pairs])
        sizes = [len(ids) for ids, _ in inputs]
        answers = np.zeros(len(inputs), dtype=np.float32)
        for rows in BudgetBatches(sizes, tokens=BATCH_PIECES, seed=0, padded=True).in_order():
            ids, mask, types = reader.together([inputs[row] for row in rows.tolist()])
            scores = self.network.pair_scores(self.network.top(TokenBatch(ids, mask, types)))  # (B, 2)
            answers[rows] = torch.softmax(scores, dim=1)[:, 0].numpy()
        return answers

    # ---- predictions of the language model

    @property
    def language(self) -> str | None:
        """``masked`` or ``causal``; None without the head of a language model."""
        return "masked" if self.network.is_masked_lm else "causal" if self.network.is_causal_lm else None

    @property
    def continues(self) -> bool:
        """Whether it has ``generate``: causal ones have."""
        return self.language == "causal"

    @cached_property
    def expectation(self) -> Expectation:
        """The predictions of the language model."""
        if self.language is None:
            raise OptionError("this model is not a language model: its files hold an encoder without a head for words")
        return Expectation(self.runner)

    def expected(self, sentence: Sentence, position: int, topn: int) -> list[tuple[str, float]]:
        """The words that the model predicts in place of a word, with their probabilities, best first.

        They have as many subwords as the word there (at most 32), which is not itself used.
        """
        given = self._given(sentence)
        cut = self.pieces.cut([given.text])[0]
        first, last = cut.words(given.spans, self.pieces.bare)[position].tolist()
        ids = cut.ids.tolist()
        n_pieces = min(max(last - first, 1), LONGEST_WORD, self.runner.room)
        place = Place(ids[:first], n_pieces, ids[last:])
        return self.expectation.words(place, topn, word_there=given.tokens[position])

    def fill(self, text: str, topn: int = 10) -> list[list[tuple[str, float]]]:
        """The predicted subwords for every ``[MASK]`` of a text, with their probabilities."""
        parts = split_at_masks(text, MASK, self.pieces.specials.get("mask_token", MASK))
        if topn < 1 or len(parts) < 2:
            raise OptionError(
                f"mark the position to fill with {MASK}" if topn > 0 else f"topn must be at least 1, not {topn}"
            )
        if self.language == "causal" and len(parts) > 2:
            raise OptionError("a left-to-right model fills one [MASK], not several")
        return self.expectation.fill(self.pieces.between_masks(list(map(self.segmentation.normalised, parts))), topn)

    def word_losses(self, sentences: Sequence[Sentence]) -> Iterator[WordLosses]:
        """-log p of every subword; of the first one only where something precedes it, or both sides are read."""
        given = [self._given(sentence) for sentence in sentences]
        cuts = self.pieces.cut([sentence.text for sentence in given])
        losses = self.expectation.losses([cut.ids for cut in cuts])
        missing, unknown = self.expectation.n_unpredicted, self.pieces.id_of("unk")
        for sentence, cut, of_pieces in zip(given, cuts, losses, strict=True):
            spans = np.maximum(cut.words(sentence.spans, self.pieces.bare) - missing, 0)
            n_unknown = 0 if unknown is None else int((cut.ids == unknown).sum())
            yield WordLosses(of_pieces[None], spans, sum(map(len, sentence.tokens)), n_unknown)

    def generate(
        self, text: str = "", length: int = 50, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0,
        seed: int = 1,
    ) -> str:  # fmt: skip
        """The text as given, continued by a causal model with ``length`` subwords, or until the model ends it.

        ``temperature`` 0 always takes the most likely subword; ``top_k`` (0: all) and ``top_p`` restrict sampling to
        the most likely ones, by their number or their total probability.
        """
        if not self.continues:
            raise OptionError(
                f"this {self.method} model cannot continue a text: that takes a left-to-right one, as of gpt"
            )
        if length < 1 or temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
            raise OptionError("length must be at least 1, temperature and top_k at least 0, top_p between 0 and 1")
        ids = self.pieces.ids([self.segmentation.normalised(text)])[0].tolist()
        drawn = self.expectation.generate(ids, length, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        return continued(text, self.pieces.spelt(ids), self.pieces.spelt([*ids, *drawn]))

    # ---- on disk

    def parts(self) -> Parts:
        """The weights by their names in ``transformers``, config.json, and the files of the tokenizer."""
        tensors = {name: tensor.cpu().numpy() for name, tensor in state(self.network).items()}
        tensors |= arrays_of(self.mix, "mix.")
        config = self.network.whole.config.to_json_string(use_diff=True).encode()
        return Parts(tensors, files={"config.json": config, **self.pieces.files()})

    @classmethod
    def from_parts(cls, options: TransformerOptions | ShapeOptions, parts: Parts, about: About) -> Self:
        """The model that was saved as ``parts``."""
        where = "the model folder"
        names = ("config.json", "tokenizer.json", "tokenizer_config.json")
        config, tokenizer, tokenizer_config = (parts.file(name) for name in names)
        arrays = {name: array for name, array in parts.tensors.items() if name not in ("mix.scalars", "mix.gamma")}
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        record = parsed_settings(config, where="config.json")
        network = build(configuration(record, where="config.json"), tensors, where=where)
        mix = ScalarMix(network.n_layers)
        load_arrays(mix, parts.tensors, "mix.")
        pieces = Pieces.read(tokenizer, tokenizer_config, where="tokenizer.json")
        check_vocabulary(network, pieces, where=where)
        return cls(options, network, pieces, mix=mix, about=about)


def check_vocabulary(network: Network, pieces: Pieces, *, where: object) -> None:
    """Refuse a tokenizer with more subwords than the network has embeddings, or with special tokens it cannot read."""
    rows = len(network.whole.get_input_embeddings().weight)
    if len(pieces.names) > rows:
        raise FormatError(f"{where} has a tokenizer of {len(pieces.names):,} pieces and a network of {rows:,}")
    pair, around = pieces.encoded_pair("a", "a"), [*pieces.before, *pieces.behind]
    if (most := max([*around, *pair.ids], default=0)) >= rows:
        raise FormatError(f"{where} has a tokenizer that adds a token of number {most:,} and a network of {rows:,}")
    if network.n_types and (most := max(pair.type_ids, default=0)) >= network.n_types:
        raise FormatError(f"{where} has a tokenizer with the token type {most:,}, which the network does not know")
    if len(around) >= (network.positions() or USUAL_LIMIT):
        raise FormatError(f"{where} has a tokenizer that adds {len(around):,} tokens, more than the network reads")
