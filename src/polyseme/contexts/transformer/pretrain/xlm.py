"""Training XLM on corpora of several languages and on parallel text.

XLM (跨语言语境词向量): one Transformer for several languages, with a shared subword vocabulary.

Lample & Conneau, "Cross-lingual Language Model Pretraining", 2019.

    CLM   max Σ log p(x_i | x_<i)                        on streams of one language
    MLM   max Σ over masked log p(x_i | masked x)         on streams of one language
    TLM   the same on  </s> x </s> </s> y </s>,  y a translation of x: positions restart at y, and every subword has
          the language of its side, so that a masked word can be predicted from the other language
    input = subword + position + language

What differs from the paper: when encoding, the language of a text is detected from its subwords unless it is given;
what all texts of a language have in common is subtracted where word vectors are pooled into one vector per text, so
that translations are near; there is no dropout by default; weights are initialised with standard deviation 1/√dim.

Training examples of XLM: streams of one language, pairs of translations, and a mixture of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import XLMConfig, XLMWithLMHeadModel

from polyseme.arrays import FloatArray
from polyseme.contexts.transformer.encode import Runner, Window
from polyseme.contexts.transformer.inference_speed import packed
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.options import XlmOptions, check_inner, initial_deviation, with_shape, with_shape_of
from polyseme.contexts.transformer.pretrain.corpus_tokens import PieceCorpus, PieceTable, split
from polyseme.contexts.transformer.pretrain.objectives import CausalTask, MaskedTask
from polyseme.contexts.transformer.pretrain.start import fresh, given_pieces, look_at_neighbours
from polyseme.contexts.transformer.pretrain.training_examples import Example, Masking, StreamExamples, TrainingExamples
from polyseme.contexts.transformer.subwords import learn_byte_pairs
from polyseme.contexts.transformer.tokenizer import Ints, Pieces
from polyseme.contexts.transformer.trained import TrainedTransformer
from polyseme.data.parallel import Parallel
from polyseme.errors import OptionError, TrainingError, altered_model
from polyseme.interfaces import EncodedSentence, LayerChoice, Layers, Sentence
from polyseme.neural.layers import ScalarMix
from polyseme.neural.softmax import log_frequencies
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.loop import fit
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self

SAMPLE = 300  # texts of a language to find its centre from


class Languages:
    """Detects the languages of sequences: argmax over languages of Σ log p(subword | language)."""

    def __init__(self, frequencies: FloatArray) -> None:
        self.log_frequencies = torch.log(torch.from_numpy(frequencies))  # (languages, V)

    def __call__(self, batch: TokenBatch) -> Tensor:
        """The language of each row, at every position, ``(B, T)``."""
        scores = self.log_frequencies.to(batch.ids.device)[:, batch.ids]  # (languages, B, T)
        if batch.mask is not None:
            scores = scores * batch.mask
        return scores.sum(dim=2).argmax(dim=0)[:, None].expand_as(batch.ids)

    def of_sequence(self, ids: Ints) -> int:
        """The language of one sequence."""
        return int(self.log_frequencies[:, ids].sum(dim=1).argmax())


class LanguageRunner(Runner):
    """A runner that adds the language of every sequence: the given one, or the one detected from its subwords."""

    def __init__(self, network: Network, pieces: Pieces, languages: Languages) -> None:
        super().__init__(network, pieces)
        self.languages = languages
        self.language: int | None = None

    def language_of(self, ids: Ints) -> int:
        """The given language, or the detected one."""
        return self.languages.of_sequence(ids) if self.language is None else self.language

    def _batch(self, sequences: Sequence[Ints], rows: list[tuple[int, Window]]) -> TokenBatch:
        batch = super()._batch(sequences, rows)
        languages = torch.tensor([self.language_of(sequences[number]) for number, _ in rows])
        return batch._replace(languages=languages[:, None].expand_as(batch.ids))


class Xlm(TrainedTransformer):
    """A network for several languages, and the frequency of each subword in each language."""

    method: ClassVar[str] = "xlm"
    Options: ClassVar[type] = XlmOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.xlm:train_xlm"
    options: XlmOptions

    def __init__(
        self,
        options: XlmOptions,
        network: Network,
        pieces: Pieces,
        languages: list[str],
        frequencies: FloatArray,
        *,
        centres: FloatArray | None = None,
        mix: ScalarMix | None = None,
        about: About | None = None,
    ) -> None:
        """``centres`` is the mean of the texts of each language, ``(languages, layers, dim)``."""
        super().__init__(options, network, pieces, mix=mix, about=about)
        self.languages, self.frequencies, self.centres = languages, frequencies, centres
        network.detect = self._detect = Languages(frequencies)  # for readers that do not pass languages themselves

    @classmethod
    def train(cls, data: Any, options: XlmOptions, run: Run) -> Self:
        """Train, then find the centre of each language."""
        trained = super().train(data, options, run)
        trained.centres = trained._found_centres(_samples(data, options), run.start)
        return trained

    def _found_centres(self, samples: Mapping[str, list[Sentence]], start: Model | None) -> FloatArray | None:
        """The mean of the texts of each language; of one without texts here, that of the model trained further."""
        known = start.centres if isinstance(start, Xlm) else None
        centres = []
        for number, name in enumerate(self.languages):
            encoded = self.encode_tokens(samples.get(name, []), language=name)
            means = [sentence.layers.mean(axis=1) for sentence in encoded if sentence.tokens]
            if not means and known is None:
                return None
            centres.append(np.mean(means, axis=0) if means or known is None else known[number])
        return np.asarray(centres, dtype=np.float32)

    def common(self, tokens: Sequence[str], layers: LayerChoice) -> FloatArray | None:
        """The centre of the language of this text, of one layer, ``(D,)``."""
        if self.centres is None:
            return None
        centre = self.centres[self.languages.index(self.language_of(" ".join(tokens)))][:, None]  # (L, 1, D)
        return np.asarray(Layers.read(layers, self.n_layers).planes(centre, self._mix_weights())[0, 0])

    @cached_property
    def runner(self) -> LanguageRunner:
        """Encodes sequences of subwords."""
        return LanguageRunner(packed(self.reading), self.pieces, self._detect)

    def encode_tokens(
        self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all", language: str | None = None
    ) -> Iterator[EncodedSentence]:
        """The vectors of the words of each sentence; ``language`` is that of all sentences (default: detected)."""
        if language is None:
            return super().encode_tokens(sentences, layers=layers)
        if language not in self.languages:
            raise OptionError(f"there is no language {language!r}; there are {', '.join(self.languages)}")
        return self._of_language(sentences, layers, self.languages.index(language))

    def _of_language(
        self, sentences: Iterable[Sentence], layers: LayerChoice, language: int
    ) -> Iterator[EncodedSentence]:
        self.runner.language = language
        try:
            yield from super().encode_tokens(sentences, layers=layers)
        finally:
            self.runner.language = None

    def language_of(self, text: str) -> str:
        """The most likely language of a text, by the frequencies of its subwords."""
        return self.languages[self.runner.language_of(self.pieces.ids([self.segmentation.normalised(text)])[0])]

    @property
    def continues(self) -> bool:
        """Never: XLM in ``transformers`` generates by filling masks, which a causal model has not learned."""
        return False

    def parts(self) -> Parts:
        """The parts of every Transformer, and the languages."""
        parts = super().parts()
        centres = {} if self.centres is None else {"centres": self.centres}
        return Parts(
            {**parts.tensors, "languages": self.frequencies, **centres},
            {**parts.tables, "languages": self.languages},
            parts.files,
        )

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        """The model that was saved as ``parts``."""
        tensors = {name: array for name, array in parts.tensors.items() if name not in ("languages", "centres")}
        plain = TransformerEncoder.from_parts(options, Parts(tensors, {}, parts.files), about)
        languages = parts.table("languages")
        frequencies = parts.tensor("languages", (len(languages), plain.network.vocabulary_size))
        if not languages or not (frequencies > 0).all():
            raise altered_model("the table of its languages is empty, or its frequencies are not above 0")
        shape = (len(languages), plain.n_layers, plain.dim)
        centres = parts.tensor("centres", shape) if "centres" in parts.tensors else None
        if centres is not None and not np.isfinite(centres).all():
            raise altered_model("the centres of its languages are not finite")
        frequency_table = np.array(frequencies, dtype=np.float32)
        return cls(
            options, plain.network, plain.pieces, list(languages), frequency_table,
            centres=centres, mix=plain.mix, about=about,
        )  # fmt: skip


def _samples(data: Mapping[str, Corpus | Parallel], options: XlmOptions) -> dict[str, list[Sentence]]:
    """Some texts of each language; of translations if there are any, whose centres differ by the language alone."""
    samples: dict[str, list[Sentence]] = {}
    for name, text in data.items():
        places = np.unique(np.linspace(0, len(text) - 1, min(SAMPLE, len(text)), dtype=int)).tolist()
        if isinstance(text, Corpus):
            samples.setdefault(name, [text.sentence(place) for place in places])
        else:
            pairs = [text[place] for place in places]
            samples.update({side: [pair[n] for pair in pairs] for n, side in enumerate(options.sides())})
    return samples


PAIRS_AT_ONCE = 4096


class OneLanguage:
    """A stream of text in one language."""

    def __init__(self, stream: StreamExamples, language: int) -> None:
        self.stream, self.language = stream, language

    def n_examples(self, epoch: int) -> int:
        """The number of examples that cover the text."""
        return self.stream.n_examples(epoch)

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number."""
        piece_run = self.stream.example(epoch, number)
        return piece_run._replace(
            types=np.zeros_like(piece_run.ids), languages=np.full_like(piece_run.ids, self.language)
        )


class Translations:
    """``</s> x </s> </s> y </s>``: positions restart at y, and every subword has the language of its side."""

    def __init__(
        self, pairs: Parallel, pieces: Pieces, languages: tuple[int, int], *, end: int, length: int, seed: int
    ) -> None:
        self.end, self.languages, self.seed, self.room = end, languages, seed, (length - 4) // 2
        sides: tuple[list[str], list[str]] = ([], [])
        self.sides: tuple[list[Ints], list[Ints]] = ([], [])
        for number, pair in enumerate(pairs, start=1):
            for side, text, segmentation in zip(sides, pair, pairs.segmentations, strict=True):
                side.append(segmentation.normalised(text))
            if len(sides[0]) == PAIRS_AT_ONCE or number == len(pairs):
                for texts, kept in zip(sides, self.sides, strict=True):
                    kept += [ids.astype(np.int32) for ids in pieces.ids(texts)]
                    texts.clear()
        self._order = lru_cache(maxsize=2)(self._make_order)

    def n_examples(self, epoch: int) -> int:
        """The number of pairs."""
        return len(self.sides[0])

    def example(self, epoch: int, number: int) -> Example:
        """The pair with this number; a side that is too long is truncated."""
        place = int(self._order(epoch)[number])
        parts = [side[place][: self.room].astype(np.int64) for side in self.sides]
        ids, words, positions, languages = [], [], [], []
        for part, language in zip(parts, self.languages, strict=True):
            ids.append(np.concatenate([[self.end], part, [self.end]]))
            words.append(np.concatenate([[-1], np.arange(len(part)), [-1]]))
            positions.append(np.arange(len(part) + 2))
            languages.append(np.full(len(part) + 2, language))
        whole = np.concatenate(ids)
        return Example(
            whole, np.concatenate(words), np.zeros_like(whole), -1, np.concatenate(languages), np.concatenate(positions)
        )

    def _make_order(self, epoch: int) -> Ints:
        if epoch < 0:
            return np.arange(len(self.sides[0]))
        return np.random.default_rng((self.seed, epoch, 4)).permutation(len(self.sides[0]))


class Mixture:
    """Mixes several sources: each step draws one of them by ``weights`` and continues where that source stopped."""

    def __init__(
        self, sources: Sequence[TrainingExamples], weights: Sequence[float], *, batch_size: int, seed: int
    ) -> None:
        self.sources, self.batch_size, self.seed = sources, batch_size, seed
        self.weights = np.array(weights) / np.sum(weights)
        self._plan = lru_cache(maxsize=2)(self._make_plan)

    def n_examples(self, epoch: int) -> int:
        """The number of examples of all sources."""
        total = sum(source.n_examples(max(epoch, 0)) for source in self.sources)
        return -(-total // self.batch_size) * self.batch_size

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number; all examples of a step are from one source."""
        step, row = divmod(number, self.batch_size)
        source, before = self._plan(epoch)[step]
        n = self.sources[source].n_examples(epoch)
        again, place = divmod(before * self.batch_size + row, n)
        return self.sources[source].example(epoch + again * 1000, place)

    def _make_plan(self, epoch: int) -> list[tuple[int, int]]:
        """For every step, its source and how many steps of that source came before."""
        random = np.random.default_rng((self.seed, epoch, 5))
        n_steps = self.n_examples(epoch) // self.batch_size
        drawn = random.choice(len(self.sources), size=n_steps, p=self.weights).tolist()
        counts = [0] * len(self.sources)
        plan = []
        for source in drawn:
            plan.append((source, counts[source]))
            counts[source] += 1
        return plan


class OneAfterTheOther:
    """All examples of several sources in order, for held-out text."""

    def __init__(self, sources: Sequence[TrainingExamples]) -> None:
        self.sources = sources

    def n_examples(self, epoch: int) -> int:
        """The total of all sources."""
        return sum(source.n_examples(epoch) for source in self.sources)

    def example(self, epoch: int, number: int) -> Example:
        """The example with this number."""
        for source in self.sources:
            n = source.n_examples(epoch)
            if number < n:
                return source.example(epoch, number)
            number -= n
        raise IndexError(number)


X = TypeVar("X", bound=Xlm)

PARALLEL = "parallel"
END = "</s>"
SPECIALS = {
    "bos_token": "<s>", "eos_token": END, "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<special1>",
    "cls_token": END, "sep_token": END,
}  # fmt: skip


SplitPairs = tuple[Parallel | None, Parallel | None]  # to learn from, and held out


def train_xlm(cls: type[X], data: dict[str, Corpus | Parallel], options: XlmOptions, run: Run) -> X:
    """Train an XLM on ``data``, starting from ``run.start`` if it is given."""
    start = run.start
    if start is not None and not isinstance(start, Xlm):
        raise OptionError(f"xlm can only continue from an xlm model, not from {start.method}")
    pairs, texts = _sources(data, options)
    if not any(len(text) > 1 and len(text.vocabulary) for text in texts.values()):
        raise TrainingError("the texts have no two sentences to learn from")
    if start is None:
        options = with_shape(options)
        languages, vocabulary = list(texts), _shared_vocabulary(list(texts.values()), options.exponent)
        segmentation = next(iter(texts.values())).segmentation
        given = given_pieces(run.models, "bos", "eos", "pad", "unk", "mask")
        pieces = given or _learned(vocabulary, segmentation, options)
        network = _network(pieces, len(languages), options)
    else:
        languages, network, pieces, options = _taken_over(start, texts, options)
    tables = {name: PieceTable(text, pieces, texts="sentence") for name, text in texts.items()}
    frequencies = _frequencies(tables, languages, network.vocabulary_size, start)
    if start is None:
        counts = (frequencies.mean(axis=0) * 1e9).astype(np.int64)
        with torch.no_grad():
            network.whole.pred_layer.proj.bias.copy_(log_frequencies(counts))
    task = make_task(network, pieces, tables, languages, pairs, options)
    fit(task, options, run)
    about = About(segmentation=_plain(texts), corpus=_facts(data), curve=run.curve)
    mix = start.mix if start else None
    return cls(options, network, pieces, languages, frequencies, mix=mix, about=about)


def make_task(
    network: Network, pieces: Pieces, tables: dict[str, PieceTable], languages: list[str], pairs: SplitPairs,
    options: XlmOptions,
) -> MaskedTask | CausalTask:  # fmt: skip
    """The training task, ready for the first step."""
    end, padding = pieces.id_of("eos"), pieces.id_of("pad") or 0
    assert end is not None
    training: list[TrainingExamples] = []
    held_out: list[TrainingExamples] = []
    sizes: list[float] = []
    extra = 1 if options.objective == "clm" else 0
    for name, table in tables.items() if options.objective != "tlm" else ():
        for parts, sentences in zip((training, held_out), split(table, options.hold_out, options.seed), strict=True):
            text = PieceCorpus(table, sentences, end=end, behind="sentence")
            room = options.length - 1 + extra
            stream = StreamExamples(text, room=room, before=[end], behind=[], seed=options.seed)
            if stream.n_examples(0):
                parts.append(OneLanguage(stream, languages.index(name)))
                if parts is training:
                    sizes.append(text.n_pieces)
    weights = [(size / sum(sizes)) ** options.exponent for size in sizes]
    weights = [weight / sum(weights) for weight in weights]
    if "tlm" in options.objective:
        source, target = (languages.index(name) for name in options.sides())
        for parts, translations in zip((training, held_out), pairs, strict=True):
            if translations is not None:
                parts.append(
                    Translations(
                        translations, pieces, (source, target), end=end, length=options.length, seed=options.seed
                    )
                )
        weights.append(1.0)  # translations in every second step
    if not training:
        raise TrainingError(f"there is nothing to learn {options.objective} from")
    examples = Mixture(training, weights, batch_size=options.batch_size, seed=options.seed)
    rest = OneAfterTheOther(held_out) if held_out else None
    if options.objective == "clm":
        return CausalTask(
            network, examples, rest, batch_size=options.batch_size, length=options.length, padding=padding
        )
    mask = pieces.id_of("mask")
    if mask is None:
        raise OptionError("the tokenizer has no mask token: use another, or objective clm")
    return MaskedTask(
        network, examples, rest, Masking("token", options.mask_share, 0.8, 0.9, mask, pieces.ordinary),
        batch_size=options.batch_size, length=options.length, padding=padding, seed=options.seed,
    )  # fmt: skip


def _sources(data: dict[str, Corpus | Parallel], options: XlmOptions) -> tuple[SplitPairs, dict[str, Corpus]]:
    """The parallel text, and a corpus for every language; a language without one uses its side of the parallel text.

    Pairs that are held out for translations are not in that text either.
    """
    pairs = data.get(PARALLEL)
    texts = {name: text for name, text in data.items() if isinstance(text, Corpus)}
    if not isinstance(pairs, Parallel):
        if "tlm" in options.objective:
            raise OptionError(f"objective {options.objective} needs parallel text: give it as {PARALLEL}=…")
        return (None, None), texts
    kept = None
    if "tlm" in options.objective and options.hold_out and len(pairs) > 1:
        pairs, kept = pairs.split(options.hold_out, options.seed)
    for number, name in enumerate(options.sides()):
        if name not in texts:
            sentences = (pair[number] for pair in pairs)
            texts[name] = Corpus.from_sentences(sentences, segment=pairs.segmentations[number], documents="line")
    return (pairs, kept), texts


def _shared_vocabulary(texts: list[Corpus], exponent: float) -> Vocabulary:
    """The words of all languages; smaller languages get more weight, with the same exponent as in sampling."""
    totals = np.array([max(text.n_tokens, 1) for text in texts], dtype=np.float64)
    shares = totals / totals.sum()
    wanted = shares**exponent / (shares**exponent).sum()
    counts: dict[str, int] = {}
    for text, factor in zip(texts, wanted / shares, strict=True):
        for word, n in zip(text.vocabulary.words, text.vocabulary.counts.tolist(), strict=True):
            counts[word] = counts.get(word, 0) + max(round(n * factor), 1)
    return Vocabulary.from_counts(counts)


def _learned(vocabulary: Vocabulary, segmentation: Segmentation, options: XlmOptions) -> Pieces:
    return learn_byte_pairs(
        vocabulary, options.max_size, segmentation, SPECIALS,
        single=f"{END} $A {END}", pair=f"{END} $A {END} {END} $B {END}", limit=options.length,
    )  # fmt: skip


def _network(pieces: Pieces, n_languages: int, options: XlmOptions) -> Network:
    check_inner(options)
    config = XLMConfig(
        vocab_size=len(pieces.names), emb_dim=options.dim, n_layers=options.n_layers, n_heads=options.n_heads,
        max_position_embeddings=options.length, n_langs=max(n_languages, 2), use_lang_emb=True,
        dropout=options.dropout, attention_dropout=options.dropout, gelu_activation=True,
        causal=options.objective == "clm", sinusoidal_embeddings=False, layer_norm_eps=1e-12,
        embed_init_std=initial_deviation(options), init_std=initial_deviation(options),
        bos_token_id=pieces.id_of("bos"), eos_token_id=pieces.id_of("eos"), pad_token_id=pieces.id_of("pad"),
        bos_index=pieces.id_of("bos"), eos_index=pieces.id_of("eos"), pad_index=pieces.id_of("pad"),
        unk_index=pieces.id_of("unk"), mask_index=pieces.id_of("mask"), mask_token_id=pieces.id_of("mask"),
    )  # fmt: skip
    network = fresh(XLMWithLMHeadModel, config, options.seed)
    if not network.causal:  # a causal one cannot look ahead
        look_at_neighbours(network.body)
    return network


def _taken_over(
    start: Xlm, texts: dict[str, Corpus], options: XlmOptions
) -> tuple[list[str], Network, Pieces, XlmOptions]:
    """Copies of the parts of the model to train further, which must have the same languages and kind of objective."""
    for name in texts:
        if name not in start.languages:
            raise OptionError(f"the model knows the languages {', '.join(start.languages)}, and not {name}")
    if start.network.causal != (options.objective == "clm"):
        raise OptionError("a clm model can only be trained further with clm, a masked one with mlm or tlm")
    whole = start.network.whole
    network = fresh(type(whole), type(whole.config).from_dict(whole.config.to_dict()), options.seed)
    network.whole.load_state_dict(whole.state_dict())
    return start.languages, network, start.pieces, with_shape_of(network, options)


def _frequencies(tables: dict[str, PieceTable], languages: list[str], n_pieces: int, start: Xlm | None) -> FloatArray:
    """The smoothed frequency of each subword in each language, ``(languages, V)``."""
    rows = []
    for number, name in enumerate(languages):
        if name in tables:
            counts = tables[name].frequencies(n_pieces) + 0.1
            rows.append(counts / counts.sum())
        else:
            assert start is not None
            rows.append(start.frequencies[number])
    return np.asarray(rows, dtype=np.float32)


def _plain(texts: dict[str, Corpus]) -> Segmentation:
    """The segmentation for text of any language: that of the first, without its dictionary."""
    first = next(iter(texts.values())).segmentation
    return replace(first, method="auto", words=(), function=None)


def _facts(data: dict[str, Corpus | Parallel]) -> dict[str, Any]:
    return {name: text.facts for name, text in data.items()}
