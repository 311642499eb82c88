"""The three kinds of models, as far as every package needs them: word vectors, context and sentence encoders.

Each lifts to the next (``sentences/lift.py``). A language model is one of the three that also predicts words. Also
here, and only here: how a choice of layers is parsed, and what a caller may pass as sentences. What other libraries
expect of a sentence encoder is in ``interop.py``.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, filled_rows, unit_rows
from polyseme.display import shown
from polyseme.errors import OptionError, TextError, as_given
from polyseme.interop import EncoderInterop, check_asked, tensor_of, texts_in

log = logging.getLogger(__name__)

S = TypeVar("S", bound="Sequence[Any]")
Sentence = str | Sequence[str]  # raw text, or tokens already
LayerChoice = str | int  # all, top, mean, mix or a number, as ``Layers.read`` reads it

CHARACTERS_AT_ONCE = 1 << 14  # that are cut into tokens together
TEXTS_AT_ONCE = 2048  # that a sentence encoder is given in one batch
UNKNOWN = ("zeros", "nan", "error")  # what a text without any known word gives
MASK = "[MASK]"  # the position that ``fill`` asks about
_BATCH = 1 << 20  # characters, or words that are already segmented, in one batch


class Progress(Protocol):
    """Receives the progress of long work. ``total`` is None if unknown."""

    def __call__(self, what: str, done: float, total: float | None, /, **facts: Any) -> None: ...


def silent(what: str, done: float, total: float | None, /, **facts: Any) -> None:
    """A Progress that reports nothing."""


# ---- what callers give


def several(sentences: Iterable[Sentence]) -> Iterable[Sentence]:
    """The sentences; a bare string, which would be read as a list of characters, is refused."""
    if isinstance(sentences, (str, bytes)):
        raise OptionError("this takes several sentences: give a list, or [text] for one text")
    return sentences


def tokens_given(sentence: Sequence[str]) -> list[str]:
    """The tokens of a segmented sentence, each checked to be a string."""
    tokens = list(sentence)
    for token in tokens:
        if not isinstance(token, str):
            raise OptionError(f"a sentence is a text or a list of words; {token!r} is neither")
    return tokens


class RawTextReader(ABC):
    """What reads sentences: raw text, which it cuts into tokens, or tokens already."""

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Segment raw text like the model's training text."""

    def tokens_of(self, sentence: Sentence) -> list[str]:
        """Tokens of raw text; a list of tokens is returned unchanged."""
        return self.tokenize(sentence) if isinstance(sentence, str) else tokens_given(sentence)

    def tokenize_all(self, texts: Sequence[Sentence]) -> list[list[str]]:
        """The tokens of each text, segmented together if the model can."""
        return [self.tokens_of(text) for text in texts]

    def token_lists(self, sentences: Iterable[Sentence]) -> Iterator[list[str]]:
        """The tokens of each sentence; streams, one page at a time."""
        return chain.from_iterable(
            map(self.tokenize_all, pages(several(sentences), CHARACTERS_AT_ONCE, per_sequence=16))
        )


@dataclass(frozen=True)
class Layers:
    """A choice of layers, and how they are combined into the planes that are returned.

    ``all`` returns every layer, ``top`` the highest, a number that one; ``mean`` and ``mix`` return one weighted
    sum of all, with the weights the encoder has learned for ``mix`` (γ s_j of ELMo), or else uniform ones.
    """

    name: str  # all | top | mean | mix | one
    numbers: tuple[int, ...]  # the layers that are needed, lowest first

    @classmethod
    def read(cls, choice: LayerChoice, n_layers: int) -> Layers:
        """Parse ``choice`` for an encoder with ``n_layers``."""
        if isinstance(choice, str) and choice.isdecimal():
            choice = int(choice)
        if isinstance(choice, int) and not isinstance(choice, bool) and 0 <= choice < n_layers:
            return cls("one", (choice,))
        if choice in ("all", "mean", "mix"):
            return cls(str(choice), tuple(range(n_layers)))
        if choice == "top":
            return cls("top", (n_layers - 1,))
        last = f"0 … {n_layers - 1}" if n_layers > 1 else "0, the only one"
        raise OptionError(f"layers must be all, top, mean, mix or {last}, not {choice!r}")

    @staticmethod
    def listed(choice: str, n_layers: int) -> list[int] | None:
        """The numbers of a list such as ``9,10,11`` or ``-1,-2`` (from the top); None if ``choice`` is not a list."""
        names = choice.split(",")
        if not all(name.strip().lstrip("-").isdecimal() for name in names) or (len(names) == 1 and "-" not in choice):
            return None
        numbers = [int(name) for name in names]
        for number in numbers:
            if not -n_layers <= number < n_layers:
                raise OptionError(
                    f"layers {choice!r}: the model has the layers 0 … {n_layers - 1}, or -{n_layers} … -1"
                )
        return numbers

    @property
    def top(self) -> int:
        """The highest layer that must be computed."""
        return self.numbers[-1]

    @property
    def n_planes(self) -> int:
        """How many planes are returned."""
        return len(self.numbers) if self.name == "all" else 1

    def weights(self, mix: Sequence[float] | None = None) -> list[float] | None:
        """The weight of each of ``numbers`` in the returned sum; None if layers are returned separately.

        ``mix`` are the weights the encoder has learned, one per layer.
        """
        if self.name == "mix" and mix is not None:
            return list(mix)
        return [1 / len(self.numbers)] * len(self.numbers) if self.name in ("mean", "mix") else None

    def planes(self, layers: FloatArray, mix: Sequence[float] | None = None) -> FloatArray:
        """All layers of a sentence → the planes wanted: ``(L, T, D) -> (n_planes, T, D)``."""
        weights = self.weights(mix)
        if weights is None:
            return layers if self.name == "all" else layers[list(self.numbers)]
        return np.asarray(np.einsum("l,ltd->td", np.asarray(weights, dtype=np.float32), layers)[None])


# ---- the nouns


class WordVectorsInterface(ABC):
    """A vocabulary and a matrix: one vector per word. The queries are in ``words/vectors.py``."""

    @property
    @abstractmethod
    def vector_size(self) -> int:
        """Dimension of a vector."""

    @property
    @abstractmethod
    def index_to_key(self) -> list[str]:
        """The words with their own vector, most frequent first."""

    @abstractmethod
    def __contains__(self, word: object) -> bool:
        """Whether the word has a vector."""

    @abstractmethod
    def lookup(self, words: Sequence[str]) -> FloatArray:
        """The vector of each word, ``(n, D)``; zeros for a word that has none."""

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Segment raw text like the training text."""


@dataclass(frozen=True, repr=False)
class EncodedSentence:
    """A sentence's tokens and their vectors, one ``(tokens, dim)`` plane per layer."""

    tokens: list[str]
    layers: FloatArray  # (L, T, D)

    def __repr__(self) -> str:
        return f"EncodedSentence({' '.join(self.tokens)!r}, layers {self.layers.shape})"


class ContextEncoder(RawTextReader):
    """A model that reads a sentence: one vector per occurrence of a word."""

    dim: int
    n_layers: int

    @property
    def language(self) -> str | None:
        """How it predicts words; None if it does not, being no ``LanguageModel``."""
        return None

    @abstractmethod
    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all") -> Iterator[EncodedSentence]:
        """Vectors of every token, sentence by sentence, in order; streams.

        ``layers`` is ``all``, ``top``, ``mean``, ``mix`` or a number; all but ``all`` give L = 1.
        """

    def common(self, tokens: Sequence[str], layers: LayerChoice) -> FloatArray | None:
        """What texts like this one have in common whatever they say, ``(dim,)``; None if that is not known.

        Pooled word vectors are without it. A reader of several languages knows it for each of them.
        """
        return None


class SentenceEncoder(EncoderInterop, ABC):
    """Anything that gives one vector per text. A subclass implements how a batch is encoded."""

    dim: int
    shortens: ClassVar[bool] = False  # whether the first k dimensions are the vectors of a model of k dimensions

    @abstractmethod
    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of some texts, ``(n, dim)``; a vector depends only on its text."""

    def encode(
        self,
        sentences: Iterable[Sentence],
        batch_size: int | None = None,
        *,
        unknown: str = "zeros",
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        prompt: str | None = None,
        prompt_name: str | None = None,
        show_progress_bar: bool | None = None,
        output_value: str | None = "sentence_embedding",
        precision: str | None = None,
        device: object = None,
        task_name: object = None,
        task_metadata: object = None,
        prompt_type: object = None,
        hf_split: object = None,
        hf_subset: object = None,
        num_proc: object = None,
    ) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``.

        A text without any known word has the zero vector, and a warning counts such texts; ``unknown`` may be ``nan``
        (a vector of NaN) or ``error`` instead.

        The other arguments are those of sentence-transformers' ``encode``: vectors may be normalised, truncated to
        their first dimensions, and returned as a tensor (``convert_to_tensor``) or a list of tensors
        (``convert_to_numpy=False``); a ``prompt`` is added before every raw text. ``batch_size`` changes nothing, as
        encoders choose their own batches. What would give other vectors than these (named prompts, vectors of tokens,
        other precisions and devices) is an error. The last six are mteb's names of the task, which change nothing.
        """
        check_asked(batch_size, prompt_name if prompt is None else None, output_value, precision, device)
        if unknown not in UNKNOWN:
            raise OptionError(f"unknown must be one of {', '.join(UNKNOWN)}, not {unknown!r}")
        if truncate_dim is not None and not 1 <= truncate_dim <= self.dim:
            raise OptionError(f"truncate_dim must be between 1 and {self.dim}, not {truncate_dim}")
        texts = _prompted(texts_in(several(sentences)), prompt)
        batches: list[FloatArray] = []
        done = n_unknown = 0
        for batch in text_batches(texts):
            vectors = self.encode_batch(batch)
            n_unknown += mark_unknown(vectors, batch, unknown, done)
            batches.append(vectors)
            done += len(batch)
            if show_progress_bar:
                shown("encoding", done, len(sentences) if isinstance(sentences, Sized) else None)
        if n_unknown and unknown == "zeros":
            log.warning("%s", unknown_told(n_unknown, done, as_given("unknown", "nan")))
        whole = np.concatenate(batches) if batches else np.zeros((0, self.dim), dtype=np.float32)
        whole = whole if truncate_dim is None else whole[:, :truncate_dim]
        whole = unit_rows(whole) if normalize_embeddings else whole
        answer: Any = whole if convert_to_numpy and not convert_to_tensor else tensor_of(whole)
        answer = answer if convert_to_numpy or convert_to_tensor else list(answer)
        encoded: FloatArray = answer
        return encoded

    def encode_silently(self, texts: Iterable[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``, zeros without a warning where no word is known."""
        batches = [self.encode_batch(batch) for batch in text_batches(several(texts))]
        return np.concatenate(batches) if batches else np.zeros((0, self.dim), dtype=np.float32)

    def stream(self, texts: Iterable[Sentence]) -> Iterator[FloatArray]:
        """The same one by one, for endless streams of texts."""
        return (vector for batch in text_batches(several(texts)) for vector in self.encode_batch(batch))

    def similarity(self, a: Iterable[Sentence] | FloatArray, b: Iterable[Sentence] | FloatArray) -> FloatArray:
        """Cosines of every text of ``a`` with every text of ``b``, ``(len(a), len(b))``; either may be vectors.

        For torch tensors the result is a tensor too.
        """
        left, right = unit_rows(self._vectors_of(a)), unit_rows(self._vectors_of(b))
        cosines = np.asarray(left @ right.T, dtype=np.float32)
        return tensor_of(cosines) if hasattr(a, "detach") else cosines

    def similarity_pairwise(self, a: Iterable[Sentence] | FloatArray, b: Iterable[Sentence] | FloatArray) -> FloatArray:
        """Cosines of each text of ``a`` with the one at the same position in ``b``, ``(n,)``; either may be vectors."""
        left, right = unit_rows(self._vectors_of(a)), unit_rows(self._vectors_of(b))
        return np.asarray(np.einsum("nd,nd->n", left, right), dtype=np.float32)

    def _vectors_of(self, given: Any) -> FloatArray:
        """Given vectors unchanged, an array or a tensor; for texts, their vectors."""
        if hasattr(given, "shape") and len(given.shape) == 2:
            return np.asarray(given, dtype=np.float32)
        return self.encode(given)


# ---- a capability beside one of the three: predicting words


class WordLosses(NamedTuple):
    """What one sentence costs a language model: -log p of each of its predictions, in nats."""

    losses: NDArray[np.float64]  # (D, N) D = 2 if words are predicted from each side separately: forward, backward
    words: NDArray[np.int64]  # (W, 2) where the predictions of each word begin and end; others are of boundaries
    characters: int  # of the words
    unknown: int  # predictions of what the model has no unit for

    @classmethod
    def of_words(cls, words: Sequence[str], losses: NDArray[np.float64], unknown: int) -> WordLosses:
        """Of a model that predicts each word whole; predictions of boundaries follow those of the words."""
        spans = np.add.outer(np.arange(len(words)), [0, 1])
        return cls(losses, spans, sum(map(len, words)), unknown)


@dataclass(frozen=True)
class Perplexity:
    """How surprised a language model is by a text, and what that was computed on."""

    perplexity: float  # exp of the mean -log p of a prediction; of two directions the geometric mean
    bits_per_character: float  # characters of the words: those of blanks and boundaries do not count
    tokens: int  # predictions of one direction: words or other units, and the boundaries that are predicted
    sentences: int  # that have words
    unknown: int  # predictions of what the model has no unit for
    forward: float | None = None  # of each direction, if there are two
    backward: float | None = None

    @classmethod
    def of(cls, totals: Sequence[float], *, tokens: int, characters: int, sentences: int, unknown: int) -> Perplexity:
        """From the sum of -log p over the predictions of each direction."""
        total = sum(totals) / len(totals)
        ways = [perplexity_of(total / tokens) for total in totals] if len(totals) == 2 else [None, None]
        bits = total / math.log(2) / max(characters, 1)
        return cls(perplexity_of(total / tokens), bits, tokens, sentences, unknown, *ways)


def perplexity_of(loss: float) -> float:
    """The perplexity for a mean -log p; infinite where no float is large enough, which a training run refuses."""
    return math.inf if loss >= 700 else math.exp(loss)


class LanguageModel(RawTextReader):
    """A model that predicts words. What it expects and how surprised it is follow from ``word_losses``, ``expected``.

    A subclass is asked for both only where ``language`` is not None.
    """

    @property
    @abstractmethod
    def language(self) -> str | None:
        """How it predicts words; None if it came without its softmax, which published files leave out.

        ``both-ways``: from each side separately; ``masked``: from both sides at once; ``causal``: from the words of one
        side.
        """

    @property
    def continues(self) -> bool:
        """Whether it has ``generate``, which continues a text."""
        return False

    @abstractmethod
    def word_losses(self, sentences: Sequence[Sentence]) -> Iterator[WordLosses]:
        """-log p of every prediction in each sentence, in order; to perplexity, one without words does not count."""

    @abstractmethod
    def expected(self, sentence: Sentence, position: int, topn: int) -> list[tuple[str, float]]:
        """``substitutes``, where the position is known to be in the sentence."""

    def substitutes(self, sentence: Sentence, position: int, topn: int = 10) -> list[tuple[str, float]]:
        """The words that the model predicts in place of a token, with their probabilities, best first.

        The token that stands there is not used.
        """
        self._check_predicts(topn)
        tokens = self.tokens_of(sentence)
        if not 0 <= position < len(tokens):
            raise OptionError(f"the sentence has {len(tokens)} tokens: there is no position {position}")
        return self.expected(sentence, position, topn)

    def fill(self, text: str, topn: int = 10) -> list[list[tuple[str, float]]]:
        """The words predicted for the ``[MASK]`` of a text, with their probabilities, best first."""
        parts = text.split(MASK)
        if len(parts) != 2:
            raise OptionError(f"mark the one position to fill with {MASK}")
        left, right = map(self.tokenize, parts)
        return [self.substitutes([*left, MASK, *right], len(left), topn)]

    def surprisals(self, sentences: Sequence[Sentence]) -> list[FloatArray]:
        """-log p of every word, summed over its units, in nats, ``(words,)`` for each sentence.

        Given the words before it, or, for a masked model, on both sides.
        """
        self._check_predicts()
        surprisals = []
        for sentence in self.word_losses(sentences):
            sums = np.concatenate([[0.0], np.cumsum(sentence.losses[0])])
            first, last = sentence.words.T
            surprisals.append((sums[last] - sums[first]).astype(np.float32))
        return surprisals

    def perplexity(self, sentences: Iterable[Sentence], progress: Progress = silent) -> Perplexity:
        """The perplexity of a stream of sentences, over the whole softmax."""
        self._check_predicts()
        totals, tokens, characters, count, unknown = np.zeros(1), 0, 0, 0, 0
        for page in pages(several(sentences), CHARACTERS_AT_ONCE, per_sequence=16):
            for sentence in self.word_losses(page):
                if len(sentence.words):
                    totals = totals + sentence.losses.sum(axis=1)
                    tokens, count = tokens + sentence.losses.shape[1], count + 1
                    characters, unknown = characters + sentence.characters, unknown + sentence.unknown
            progress("perplexity", tokens, None, perplexity=perplexity_of(totals.mean() / max(tokens, 1)))
        if not tokens:
            raise TextError("there is no text to compute the perplexity of")
        figures = {"tokens": tokens, "characters": characters, "sentences": count, "unknown": unknown}
        return Perplexity.of(totals.tolist(), **figures)

    def _check_predicts(self, topn: int = 1) -> None:
        if self.language is None:
            raise OptionError(
                "this is not a language model: it has no softmax to predict words with (published files leave it out)"
            )
        if topn < 1:
            raise OptionError(f"topn must be at least 1, not {topn}")


def text_batches(texts: Iterable[Sentence]) -> Iterator[list[Sentence]]:
    """Texts to encode together: at most ``TEXTS_AT_ONCE``, fewer if they are long."""
    return pages(texts, _BATCH, per_sequence=_BATCH // TEXTS_AT_ONCE)


def mark_unknown(vectors: FloatArray, texts: Sequence[Sentence], unknown: str, first: int = 0) -> int:
    """The number of texts without any known word: those whose vectors are zeros.

    Where ``unknown`` is ``nan`` their vectors become NaN; where it is ``error`` the first of them is one, with its
    number counted from ``first``.
    """
    rows = np.flatnonzero(~filled_rows(vectors))
    if len(rows) and unknown == "error":
        text = texts[rows[0]] if isinstance(texts[rows[0]], str) else " ".join(texts[rows[0]])
        raise OptionError(f"text {first + int(rows[0]):,} has no word that the model knows: {str(text)[:60]!r}")
    if unknown == "nan":
        vectors[rows] = np.nan
    return len(rows)


def unknown_told(n_unknown: int, n: int, other: str) -> str:
    """What is said of texts without any known word; ``other`` is the option that does not give zeros."""
    if n == 1:
        return f"the text has no word that the model knows: its vector is zeros ({other}: NaN)"
    return f"{n_unknown:,} of {n:,} texts have no word that the model knows: their vectors are zeros ({other}: NaN)"


def _prompted(texts: Iterator[Sentence], prompt: str | None) -> Iterator[Sentence]:
    return (prompt + text if prompt and isinstance(text, str) else text for text in texts)


def pages(sequences: Iterable[S], size: int, *, per_sequence: int = 1) -> Iterator[list[S]]:
    """Group sequences so that each group has at most ``size`` elements; each sequence counts ``per_sequence`` more."""
    page: list[S] = []
    n_elements = 0
    for sequence in sequences:
        page.append(sequence)
        n_elements += len(sequence) + per_sequence
        if n_elements >= size:
            yield page
            page, n_elements = [], 0
    if page:
        yield page


def batched(sentences: Iterable[Sentence], size: int) -> Iterator[list[Sentence]]:
    """The sentences, at most ``size`` at a time."""
    rest = iter(sentences)
    while batch := list(islice(rest, size)):
        yield batch


def check_query(vector: Any, name: str) -> None:
    """Refuse a vector, dense or sparse, that nothing can be near to: one with NaN or infinite numbers."""
    if not np.isfinite(abs(vector).sum(dtype=np.float64)):
        raise OptionError(f"the vector of {name[:60]!r} has values that are not finite: nothing is near to it")
