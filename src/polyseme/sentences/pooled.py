"""Pooling 池化: text vectors from word vectors, by means, extremes, weighted means or power means.

| pool | vector of a text with the words w and their vectors x_w |
|---|---|
| `mean` `max` `first` `last` | the mean, the maximum of each dimension, the first or the last word's vector |
| `last-max-mean` `first-max-mean` | the last or first vector, the maximum and the mean, concatenated (ULMFiT) |
| `tfidf` | Σ idf(w) x_w / Σ idf(w); Arroyo-Fernández et al., WISSE, 2019 |
| `sif` | 1/n Σ a/(a + p(w)) x_w, minus its projection on the principal component u of such vectors: v - u uᵀv |
| `usif` | 1/n Σ a/(½a + p(w)) x̂_w with its own a, minus λ_i times its projection on each of five directions |
| `pmean` | (1/n Σ x^p)^(1/p) for several p, concatenated |
| `surprisal` `pos` | Σ (r + a_w) x_w / Σ (r + a_w), a the softmax of estimated reading times (word_weights.py) |

Arora, Liang and Ma, A Simple but Tough-to-Beat Baseline for Sentence Embeddings, 2017 (SIF); Ethayarajh, Unsupervised
Random Walk Sentence Embeddings: A Strong but Simple Baseline, 2018 (uSIF); Rücklé, Eger, Peyrard and Gurevych,
Concatenated Power Mean Word Embeddings as Universal Cross-Lingual Sentence Representations, 2018.

A word without a vector is omitted, and a text without any word vector has the zero vector. What differs from the
papers: the directions are computed once, from the text that the pooling is fitted on, not again for every list of
sentences. Words that do not occur in this text count as the rarest: p(w) = 0, the greatest idf.

Pool token vectors into one vector per text, for whole groups of texts at once.

The vectors of all texts of a group are stacked, ``(N, D)``; ``starts`` says where each text begins. No text is empty:
the caller must leave those out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints, filled_rows, main_directions
from polyseme.contexts.static import StaticEncoder, looked_up
from polyseme.errors import OptionError, TrainingError, altered_model
from polyseme.interfaces import (
    ContextEncoder,
    EncodedSentence,
    LanguageModel,
    LayerChoice,
    Layers,
    Sentence,
    SentenceEncoder,
    pages,
    several,
    text_batches,
)
from polyseme.options import make_options, options_to_json
from polyseme.sentences import word_weights
from polyseme.sentences.bag_of_words import Bow, inverse_frequencies
from polyseme.sentences.options import ATTENDING, CONCATENATED, PooledOptions
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.corpus import Corpus

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_ATTENTION = 10.0  # nats of surprisal; a higher score does not increase the attention


def reduced(operation: np.ufunc, vectors: NDArray[Any], starts: Ints) -> NDArray[Any]:
    """Same as ``operation.reduceat``, computed on the first rows of all texts at once, then the second rows …

    NumPy's version goes through one dimension after another, and takes ten times as long.
    """
    lengths = np.diff(np.append(starts, len(vectors)))
    order = np.argsort(-lengths, kind="stable")
    shorter, begins = -lengths[order], starts[order]
    found = vectors[begins]
    for step in range(1, int(lengths.max())):
        n = int(np.searchsorted(shorter, -step))  # texts with more than ``step`` words
        operation(found[:n], vectors[begins[:n] + step], out=found[:n])
    result = np.empty_like(found)
    result[order] = found
    return result


def weighted_mean(vectors: FloatArray, starts: Ints, weights: FloatArray | None, divisor: str = "number") -> FloatArray:
    """Σ w·x over each text, divided by the ``number`` of its tokens or by the sum of their ``weights``."""
    from scipy.sparse import csr_array

    n, ends = len(vectors), np.append(starts[1:], len(vectors))
    given = np.ones(n, dtype=np.float32) if weights is None else weights
    rows = csr_array((given, np.arange(n), np.append(starts, n)), shape=(len(starts), n))
    total = (ends - starts).astype(np.float32) if divisor == "number" else np.add.reduceat(given, starts)
    total = np.where(total > 0, total, 1)
    return np.asarray((rows @ vectors) / total[:, None], dtype=np.float32)


def attended(vectors: FloatArray, starts: Ints, scores: FloatArray, residual: float) -> FloatArray:
    """Σ (r + a) x / Σ (r + a) over each text, a the softmax over its words of their scores, clipped to [0, 10]."""
    clipped = np.clip(scores, 0, MOST_ATTENTION)
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(vectors))))
    raised = np.exp(clipped - np.maximum.reduceat(clipped, starts)[owner])
    attention = raised / np.add.reduceat(raised, starts)[owner]
    return weighted_mean(vectors, starts, (residual + attention).astype(np.float32), divisor="weights")


def maximum(vectors: FloatArray, starts: Ints) -> FloatArray:
    """The maximum of each dimension."""
    return reduced(np.maximum, vectors, starts)


def first(vectors: FloatArray, starts: Ints) -> FloatArray:
    """The first token's vector."""
    return vectors[starts]


def last(vectors: FloatArray, starts: Ints) -> FloatArray:
    """The last token's vector."""
    return np.asarray(vectors[np.append(starts[1:], len(vectors)) - 1])


def end_max_mean(vectors: FloatArray, starts: Ints, end: str) -> FloatArray:
    """The ``first`` or ``last`` vector, the maximum and the mean, concatenated: ``(n, 3 D)``."""
    at_end = first(vectors, starts) if end == "first" else last(vectors, starts)
    return np.concatenate([at_end, maximum(vectors, starts), weighted_mean(vectors, starts, None)], axis=1)


def power_means(vectors: FloatArray, starts: Ints, powers: tuple[float, ...]) -> FloatArray:
    """The power means, concatenated, ``(n, D · powers)``."""
    return np.concatenate([_power_mean(vectors, starts, power) for power in powers], axis=1)


def _power_mean(vectors: FloatArray, starts: Ints, power: float) -> FloatArray:
    """The real part of (mean x^p)^(1/p), computed in complex numbers; the maximum or minimum for p = ±∞."""
    if np.isinf(power):
        return maximum(vectors, starts) if power > 0 else reduced(np.minimum, vectors, starts)
    if power == 1:
        return weighted_mean(vectors, starts, None)
    numbers = vectors.astype(np.complex128)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = reduced(np.add, numbers**power, starts)
        means = (sums / np.diff(np.append(starts, len(vectors)))[:, None]) ** (1 / power)
    # With a negative power, a zero among the numbers makes the mean zero, the limit for small numbers.
    return np.nan_to_num(means.real, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)


def read_powers(written: str) -> tuple[float, ...]:
    """Parse powers written as ``-inf,1,inf``."""
    try:
        powers = tuple(float(power) for power in written.split(","))
    except ValueError:
        raise OptionError(
            f"powers must be numbers separated by commas (-inf and inf allowed), not {written!r}"
        ) from None
    if not powers or any(power == 0 or np.isnan(power) for power in powers):
        raise OptionError(f"powers must be numbers other than 0, not {written!r}")
    return powers


def even_dimensions(vectors: FloatArray, starts: Ints) -> FloatArray:
    """Each dimension divided by its norm over the text's tokens, as the authors of uSIF do before weighting."""
    squares = reduced(np.add, vectors * vectors, starts)
    norms = np.sqrt(np.where(squares > 0, squares, 1))
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(vectors))))
    return np.asarray(vectors / norms[owner], dtype=np.float32)


FITTED = ("tfidf", "sif", "usif")  # pools that need word counts
_COMPONENTS = {"sif": 1, "usif": 5}
_GROUP_TOKENS = 1 << 14  # tokens whose vectors are pooled at once

Group = tuple[list[list[str]], FloatArray]  # the tokens of some texts, and all their vectors (N, D)


class Pooled(Model, SentenceEncoder):
    """A context encoder as a sentence encoder."""

    method: ClassVar[str] = "pooled"
    Options: ClassVar[type] = PooledOptions
    options: PooledOptions

    def __init__(
        self,
        encoder: ContextEncoder,
        pool: str = "mean",
        *,
        layers: LayerChoice = "mean",
        counts: Bow | None = None,
        directions: FloatArray | None = None,
        reader: LanguageModel | word_weights.Scores | None = None,
        about: About | None = None,
        **options: Any,
    ) -> None:
        """``counts`` and ``directions`` come from ``fitted``; ``reader`` gives the reading times (surprisal, pos).

        ``directions`` (D, m) are multiplied by the square root of the fraction of each that is subtracted. ``reader``
        is a language model, or a score for each word.
        """
        self.options = make_options(PooledOptions, {"pool": pool, "layers": str(layers), **options})
        if Layers.read(self.options.layers, encoder.n_layers).name == "all":
            raise OptionError("a sentence vector uses one layer: top, mean, mix or a number")
        if pool in FITTED and counts is None:
            raise OptionError(f"pool {pool!r} needs word frequencies: fit it on some text")
        if pool in ATTENDING and reader is None:
            raise OptionError(f"pool {pool!r} needs attention scores: fit it on some text")
        is_language_model = isinstance(reader, LanguageModel) and reader.language is not None
        if not (reader is None or isinstance(reader, Mapping) or is_language_model):
            raise OptionError("the surprisal model is not a language model: use elmo, ulmfit, gpt or nnlm")
        self.encoder, self.counts, self.directions, self.reader = encoder, counts, directions, reader
        self.about = about or About.of(encoder)
        self.powers = read_powers(self.options.powers)
        self.dim = encoder.dim * (len(self.powers) if pool == "pmean" else 3 if pool in CONCATENATED else 1)
        self._weights = _word_weights(self.options, counts) if counts else {}

    @classmethod
    def fitted(
        cls,
        encoder: ContextEncoder,
        pool: str,
        data: Corpus | Iterable[Sentence] | None = None,
        *,
        layers: LayerChoice = "mean",
        **options: Any,
    ) -> Self:
        """Count words in a corpus or in texts, and compute the principal components of their vectors.

        Without ``data``, the counts of the word vectors' own vocabulary are used (see word_weights.py).
        """
        if pool == "pos":
            if not isinstance(data, Corpus):
                raise OptionError("pool 'pos' learns from tagged text, word/TAG: fit it on a file or corpus of such")
            return cls(encoder, pool, layers=layers, reader=word_weights.by_part_of_speech(data), **options)
        if data is not None:
            counts, texts = word_weights.from_texts(encoder, data)
        elif isinstance(encoder, StaticEncoder):
            counts, texts = word_weights.from_vocabulary(encoder.words)
        else:
            raise OptionError(f"pool {pool!r} needs word frequencies: fit it on some text")
        if pool == "surprisal":
            return cls(encoder, pool, layers=layers, reader=word_weights.by_frequency(counts), **options)
        plain = cls(encoder, pool, layers=layers, counts=counts, **options)
        wanted = plain.options.components
        n = _COMPONENTS.get(pool, 0) if wanted is None else wanted if pool in _COMPONENTS else 0
        if not n:
            return plain
        vectors = plain.encode_silently(texts)
        if not vectors.any():
            raise TrainingError("no word of this text has a vector: fit on text in the language of the model")
        directions, squares = main_directions(vectors, n)
        shares = squares / squares.sum() if pool == "usif" else np.ones(len(squares))
        plain.directions = (directions * np.sqrt(shares)).astype(np.float32)
        return plain

    # ---- reading texts

    def tokenize(self, text: str) -> list[str]:
        """Tokenize like the encoder."""
        return self.encoder.tokenize(text)

    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``."""
        return np.concatenate([self._pooled(*group) for group in self._groups(texts)])

    def stream(self, texts: Iterable[Sentence]) -> Iterator[FloatArray]:
        """The vectors one by one, also for an endless stream of texts."""
        return (vector for group in self._groups(several(texts)) for vector in self._pooled(*group))

    def _groups(self, texts: Iterable[Sentence]) -> Iterator[Group]:
        """Groups of texts with a limited number of tokens, so that many long texts are not in memory at once."""
        if isinstance(self.encoder, StaticEncoder):  # all words of a group are looked up at once
            for batch in text_batches(texts):
                for lists in pages(self.encoder.tokenize_all(batch), _GROUP_TOKENS):
                    yield lists, looked_up(self.encoder.words, list(chain.from_iterable(lists)))
            return
        held: list[list[str]] = []
        planes: list[FloatArray] = []
        n = 0
        for sentence in self.encoder.encode_tokens(texts, layers=self.options.layers):
            held.append(sentence.tokens)
            planes.append(self._distinct(sentence))
            n += len(sentence.tokens) + 1
            if n >= _GROUP_TOKENS:
                yield held, np.concatenate(planes)
                held, planes, n = [], [], 0
        if held:
            yield held, np.concatenate(planes)

    def _distinct(self, sentence: EncodedSentence) -> FloatArray:
        """The word vectors without what all texts of their kind have in common, ``(T, D)``."""
        plane, common = sentence.layers[0], self.encoder.common(sentence.tokens, self.options.layers)
        return plane if common is None else np.asarray(np.where(filled_rows(plane)[:, None], plane - common, plane))

    def _pooled(self, texts: list[list[str]], vectors: FloatArray) -> FloatArray:
        """``(N, D) -> (n, dim)``"""
        result = np.zeros((len(texts), self.dim), dtype=np.float32)
        owner = np.repeat(np.arange(len(texts)), [len(tokens) for tokens in texts])
        known = filled_rows(vectors)
        weights = self._token_weights(texts)
        if not known.all():
            vectors, owner = vectors[known], owner[known]
            weights = weights[known] if weights is not None else None
        lengths = np.bincount(owner, minlength=len(texts))
        filled = lengths > 0
        if filled.any():
            starts = (np.cumsum(lengths) - lengths)[filled]
            result[filled] = self._without_directions(self._pool(vectors, starts, weights))
        return result

    def _pool(self, vectors: FloatArray, starts: Ints, weights: FloatArray | None) -> FloatArray:
        match self.options.pool:
            case "max":
                return maximum(vectors, starts)
            case "first":
                return first(vectors, starts)
            case "last":
                return last(vectors, starts)
            case "last-max-mean" | "first-max-mean":
                return end_max_mean(vectors, starts, CONCATENATED[self.options.pool])
            case "pmean":
                return power_means(vectors, starts, self.powers)
            case "surprisal" | "pos":
                assert weights is not None
                return attended(vectors, starts, weights, self.options.residual)
            case "tfidf":
                return weighted_mean(vectors, starts, weights, divisor="weights")
            case "usif":
                return weighted_mean(even_dimensions(vectors, starts), starts, weights)
            case _:
                return weighted_mean(vectors, starts, weights)

    def _token_weights(self, texts: list[list[str]]) -> FloatArray | None:
        if self.options.pool in ATTENDING and self.reader is not None:
            return word_weights.scores_of(texts, self.reader)
        if self.options.pool not in FITTED:
            return None
        tokens = chain.from_iterable(texts)
        return np.fromiter(map(self._weights.get, tokens, repeat(self._weights[""])), dtype=np.float32)

    def _without_directions(self, vectors: FloatArray) -> FloatArray:
        if self.directions is None:
            return vectors
        return np.asarray(vectors - (vectors @ self.directions) @ self.directions.T)

    # ---- on disk

    def parts(self) -> Parts:
        """The encoder, the counts and the reader as separate models, the directions, and word scores."""
        tensors: dict[str, NDArray[Any]] = {} if self.directions is None else {"directions": self.directions}
        models: dict[str, Any] = {"encoder": self.encoder, **({"counts": self.counts} if self.counts else {})}
        if self.reader is None:
            return Parts(tensors, models=models)
        if isinstance(self.reader, LanguageModel):
            return Parts(tensors, models={**models, "reader": self.reader})
        words = [word for word in self.reader if word != word_weights.UNSEEN]
        scores = np.array([self.reader[word] for word in (*words, word_weights.UNSEEN)], dtype=np.float32)
        return Parts({**tensors, "scores": scores}, {"scored": words}, models=models)

    @classmethod
    def from_parts(cls, options: PooledOptions, parts: Parts, about: About) -> Self:
        encoder = parts.model("encoder", ContextEncoder)
        counts = parts.model("counts", Bow) if "counts" in parts.models else None
        reader: Any = parts.models.get("reader")
        if reader is None and "scores" in parts.tensors:
            words = [*parts.tables.get("scored", []), word_weights.UNSEEN]
            scores = parts.tensor("scores", (len(words),))
            reader = dict(zip(words, scores.tolist(), strict=True))
        try:
            made = cls(encoder, **options_to_json(options), counts=counts, reader=reader, about=about)
        except OptionError as error:
            raise altered_model(str(error)) from None
        if "directions" in parts.tensors:
            made.directions = parts.tensor("directions", (made.dim, None))
        return made


def _word_weights(options: PooledOptions, counts: Bow) -> dict[str, float]:
    """The weight of each word; the key ``""`` holds that of words that were never counted."""
    words, numbers = counts.vocabulary.words, counts.vocabulary.counts
    if options.pool == "tfidf":
        idf = inverse_frequencies(np.append(counts.frequencies, 0), counts.n_texts, "smooth")
        return dict(zip([*words, ""], idf.tolist(), strict=True))
    chances = np.append(numbers, 0) / max(int(numbers.sum()), 1)
    if options.pool == "sif":
        weights = options.smoothing / (options.smoothing + chances)
    else:
        a = usif_smoothing(chances[:-1], numbers.sum() / max(counts.n_texts, 1))
        weights = a / (a / 2 + chances)
    return dict(zip([*words, ""], weights.tolist(), strict=True))


def usif_smoothing(chances: NDArray[np.float64], length: float) -> float:
    """a = (1 - α) / (α Z), Z = ½V, α the share of words with p(w) > 1 - (1 - 1/V)^n, n the mean length of a text."""
    size = len(chances)
    threshold = 1 - (1 - 1 / size) ** length
    alpha = float(np.count_nonzero(chances > threshold)) / size
    # If all words, or none, are above the threshold, it does not separate frequent words from rare ones.
    alpha = min(max(alpha, 1 / size), 1 - 1 / (size + 1))
    return float((1 - alpha) / (alpha * size / 2))
