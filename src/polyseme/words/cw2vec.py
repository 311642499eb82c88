"""cw2vec 笔画词向量: word2vec in which a word's vector is composed of the vectors of its stroke n-grams.

Cao, Lu, Zhou and Li, cw2vec: Learning Chinese Word Embeddings with Stroke n-gram Information, 2018.

    max Σ_(w,c)  log σ(x_w·y_c) + Σ_{n ~ P^0.75} log σ(-x_w·y_n),    x_w = Σ_{g ∈ S(w)} z_g

S(w) is the set of n-grams, minn <= n <= maxn, of the stroke sequence of w: the strokes of all its characters, in five
classes (``strokes.txt``). 大人 is 13434. So words that share a radical share n-grams, and an unseen word has a
vector too if its characters are known.

What differs from the paper: the sum is divided by the square root of the number of n-grams, so that words of many
strokes do not learn a hundred times faster than words of few (``compose="sum"`` omits this); the vectors returned are
x + y (``vectors="output"`` gives the paper's y alone); a character without known strokes (other scripts, rare ones)
enters the sequence as itself; the strokes of a word with fewer than minn of them form one n-gram, where the paper gives
it none; n-grams are hashed into buckets; and the pairs of a window are trained from the context word's end, as in
word2vec here, which makes the same pairs.

The strokes of Chinese characters in five classes. 笔画

    1 横 提    2 竖 竖钩    3 撇    4 捺 点    5 折

The built-in table has 6,939 characters, which cover 99.95 % of running simplified text; its header names its source
and licence. A table of your own has one line per character: the character, a space, its strokes as digits from 1 to 5.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import FormatError, OptionError, TrainingError, altered_model, as_given
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.segment import has_han
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run, Trainable
from polyseme.words.character_ngrams import ngram_hash, word_bytes
from polyseme.words.epochs import preparing
from polyseme.words.vectors import WordVectors, matrix_of, vocabulary_of
from polyseme.words.vocabulary_plan import older_vectors, plan_words
from polyseme.words.word2vec import SkipgramOptions, learn, random_rows, served, with_passes

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.words.kernels.predict import InputRows

TABLE = Path(__file__).with_name("strokes.txt")
_LINE = re.compile(r"(\S)[ \t]+([1-5]+)")


class Strokes:
    """A table from characters to their strokes, written as digits."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.table = dict(table)
        # Stroke n becomes the control character chr(n), so it cannot be mistaken for a character of the text.
        self._units = str.maketrans({c: "".join(chr(int(d)) for d in digits) for c, digits in self.table.items()})

    @classmethod
    def read(cls, path: str | Path | None = None) -> Strokes:
        """Read the table from a file; without a path, the built-in table."""
        path = Path(path or TABLE)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"the table of strokes {path} cannot be read: {error}") from None
        return cls.of_lines(text.splitlines(), where=str(path))

    @classmethod
    def of_lines(cls, lines: Iterable[str], where: str) -> Strokes:
        """Parse the lines of a table; empty lines and those that begin with # are skipped."""
        table = {}
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.startswith("#"):
                match = _LINE.fullmatch(line.strip())
                if match is None:
                    raise FormatError(f"{where} line {number}: {line[:40]!r} is not a character and digits from 1 to 5")
                table[match[1]] = match[2]
        if not table:
            raise FormatError(f"{where} has no characters")
        return cls(table)

    def lines(self) -> list[str]:
        """The table as lines that ``of_lines`` can read."""
        return [f"{character} {digits}" for character, digits in self.table.items()]

    def digits(self, word: str) -> str:
        """The strokes of a word's characters, concatenated; a character that is not in the table stays as it is."""
        return "".join(self.table.get(character, character) for character in word)

    def units(self, word: str) -> str:
        """Like ``digits``, but with one control character per stroke; n-grams are taken from this string."""
        return word.translate(self._units)

    def missing(self, words: Iterable[str]) -> dict[str, None]:
        """The Chinese characters in these words that the table lacks, in order of first appearance."""
        return {c: None for word in words for c in word if has_han(c) and c not in self.table}


log = logging.getLogger(__name__)

MOST_BUCKETS = 500_000


@dataclass(frozen=True)
class Cw2VecOptions(SkipgramOptions):
    """Options of cw2vec."""

    lr: float = option(  # each of a word's n-grams takes the full step, so words of many n-grams learn fast
        0.025, "initial learning rate; decays linearly to zero", minimum=1e-9
    )
    minn: int = option(3, "shortest stroke n-gram", minimum=1, maximum=100)
    maxn: int = option(12, "longest stroke n-gram", minimum=1, maximum=100)
    compose: str = option(
        "root",
        "how n-gram vectors form a word vector: sum, mean, or sum divided by the square root of their number",
        choices=("root", "sum", "mean"),
    )
    buckets: int | None = option(
        None, "hash buckets for n-grams; default: the distinct n-grams, at most 500,000", minimum=1
    )
    strokes: str | None = option(None, "file with the strokes of characters; default: the built-in table", names="file")
    vectors: str = option(
        "sum",
        "which vectors to return: built from strokes, output, or both",
        choices=("input", "output", "sum", "concat"),
    )


@dataclass
class StrokeGrams:
    """The vectors of stroke n-grams, hashed into buckets, and how they compose into word vectors."""

    strokes: Strokes
    minn: int
    maxn: int
    compose: str
    rows: FloatArray  # (B, D)

    def ngrams(self, word: str) -> set[bytes]:
        """The distinct n-grams of the word's strokes; if there are fewer than minn strokes, all of them as one."""
        units = self.strokes.units(word)
        sizes = range(self.minn, min(self.maxn, len(units)) + 1)
        ngrams = {word_bytes(units[at : at + n]) for n in sizes for at in range(len(units) - n + 1)}
        return ngrams or ({word_bytes(units)} if units else set())

    def vector(self, word: str) -> FloatArray | None:
        """The word's vector, composed of its n-grams' rows; None if none of them was ever trained."""
        buckets = sorted({ngram_hash(gram) % len(self.rows) for gram in self.ngrams(word)})
        vector = self.rows[buckets].sum(axis=0) * scales(np.array(len(buckets)), self.compose)
        return np.asarray(vector, dtype=np.float32) if vector.any() else None

    def vectors(self, inputs: InputRows) -> FloatArray:
        """The vectors of many words, (V, D), given the buckets of each."""
        from polyseme.words.kernels.ngrams import add_rows

        vectors = np.zeros((len(inputs.scale), self.rows.shape[1]), dtype=np.float32)
        add_rows(self.rows, inputs.offsets, inputs.ids.astype(np.int64), vectors)
        vectors *= inputs.scale[:, None]
        return vectors


class Cw2Vec(Trainable, WordVectors):
    """``input`` (V, D) is composed of strokes, ``output`` (V, D) holds the words as predicted.

    ``grams`` composes the vectors of unseen words, and ``bridge`` maps those to approximate ``output`` vectors.
    """

    method: ClassVar[str] = "cw2vec"
    Options: ClassVar[type] = Cw2VecOptions

    def __init__(
        self,
        vocabulary: Vocabulary,
        input: FloatArray,
        output: FloatArray,
        *,
        options: Cw2VecOptions,
        about: About,
        grams: StrokeGrams,
        bridge: FloatArray,
    ) -> None:
        vectors = served(options.vectors, input, output)
        super().__init__(vocabulary, vectors, options=options, about=about, output=output)
        self.input = input
        self.grams = grams
        self.bridge = bridge  # (D, D)

    @classmethod
    def train(cls, corpus: Corpus, options: Cw2VecOptions, run: Run) -> Self:
        if options.minn > options.maxn:
            raise OptionError(f"minn is {options.minn} and maxn {options.maxn}: minn is larger than maxn")
        options = with_passes(options, corpus.n_tokens)
        start = older_vectors(run.start, options.dim)
        options, strokes = _settled(options, start)
        plan = plan_words(corpus, options.min_count, options.max_size, start)
        with preparing(run.progress):
            inputs, buckets = stroke_inputs(plan.vocabulary.words, strokes, options)
        first = _initial(inputs, buckets, options, start)
        rows, outputs = learn(corpus, plan, inputs, first, options, run, start)
        dim = options.dim
        kept = np.ascontiguousarray(rows[:, :dim])
        grams = StrokeGrams(strokes, options.minn, options.maxn, options.compose, kept)
        input, output = grams.vectors(inputs), np.ascontiguousarray(outputs[:, :dim])
        facts = {**corpus.facts, "without strokes": _told(strokes.missing(plan.vocabulary.words))}
        about = About(corpus.segmentation, facts, run.curve)
        options = dataclasses.replace(options, buckets=buckets)
        return cls(
            plan.vocabulary, input, output, options=options, about=about, grams=grams, bridge=_bridge(input, output)
        )

    @cached_property
    def characters(self) -> set[str]:
        """Characters with known strokes and those of the vocabulary: what an unseen word may consist of."""
        return {*self.grams.strokes.table, *"".join(self.index_to_key)}

    def _unseen(self, word: str) -> FloatArray | None:
        made = self.grams.vector(word) if word and self.characters.issuperset(word) else None
        return None if made is None else served(self.options.vectors, made[None], made[None] @ self.bridge)[0]

    def parts(self) -> Parts:
        assert self.output is not None
        tensors: dict[str, NDArray[Any]] = {
            "input": self.input,
            "output": self.output,
            "buckets": self.grams.rows,
            "bridge": self.bridge,
            "counts": self.vocabulary.counts,
        }
        return Parts(tensors, {"vocab": self.index_to_key, "strokes": self.grams.strokes.lines()})

    @classmethod
    def from_parts(cls, options: Cw2VecOptions, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        input, output = (matrix_of(parts, name, len(vocabulary)) for name in ("input", "output"))
        rows, bridge = matrix_of(parts, "buckets", options.buckets), matrix_of(parts, "bridge", options.dim)
        if {input.shape[1], output.shape[1], rows.shape[1], bridge.shape[1]} != {options.dim}:
            raise altered_model("its matrices do not fit each other")
        strokes = Strokes.of_lines(parts.tables.get("strokes", []), where="strokes.txt of the model folder")
        grams = StrokeGrams(strokes, options.minn, options.maxn, options.compose, rows)
        return cls(vocabulary, input, output, options=options, about=about, grams=grams, bridge=bridge)


def _settled(options: Cw2VecOptions, start: WordVectors | None) -> tuple[Cw2VecOptions, Strokes]:
    """The options and strokes of the model to train further, or those that were requested."""
    if not isinstance(start, Cw2Vec):
        return options, Strokes.read(options.strokes)
    for name in ("minn", "maxn", "compose", "buckets"):
        was = getattr(start.options, name)
        if getattr(options, name) not in (None, was):
            raise TrainingError(f"the model to train further has {name}={was}: give {as_given(name, was)}")
    return dataclasses.replace(options, buckets=start.options.buckets), start.grams.strokes


def stroke_inputs(words: list[str], strokes: Strokes, options: Cw2VecOptions) -> tuple[InputRows, int]:
    """The distinct buckets of each word's n-grams, and the total number of buckets."""
    from polyseme.words.kernels.ngrams import ngram_hashes
    from polyseme.words.kernels.predict import InputRows

    spellings = [word_bytes(strokes.units(word)) for word in words]
    offsets, hashes = ngram_hashes(spellings, options.minn, options.maxn, marked=False)
    short = np.flatnonzero(np.diff(offsets) == 0)
    hashes = np.append(hashes, np.array([ngram_hash(spellings[word]) for word in short], dtype=np.uint32))
    owners = np.append(np.repeat(np.arange(len(words)), np.diff(offsets)), short)
    buckets = options.buckets or min(MOST_BUCKETS, len(np.unique(hashes)))
    distinct = np.unique(owners * np.int64(buckets) + hashes % np.uint32(buckets))  # by word, then by bucket
    owners, ids = np.divmod(distinct, buckets)
    sizes = np.bincount(owners, minlength=len(words))
    return InputRows(np.append(0, np.cumsum(sizes)), ids.astype(np.int32), scales(sizes, options.compose)), buckets


def scales(sizes: Ints, compose: str) -> FloatArray:
    """The factors by which sums of these many rows are multiplied."""
    power = {"sum": 0.0, "mean": -1.0, "root": -0.5}[compose]
    return np.asarray(np.maximum(sizes, 1) ** power, dtype=np.float32)


def _initial(inputs: InputRows, buckets: int, options: Cw2VecOptions, start: WordVectors | None) -> FloatArray:
    """Small random rows for the buckets in use; rows trained in the older model keep their values."""
    first = random_rows(buckets, options.dim, options.seed, 0.5, np.unique(inputs.ids).astype(np.int64))
    if isinstance(start, Cw2Vec):
        trained = start.grams.rows.any(axis=1)
        first[trained, : options.dim] = start.grams.rows[trained]
    return first


def _bridge(input: FloatArray, output: FloatArray) -> FloatArray:
    """The linear map (D, D) from ``input`` to ``output`` vectors, by ridge regression."""
    wide = input.astype(np.float64)
    products = wide.T @ wide
    ridge = 1e-3 * np.trace(products) / len(products) + 1e-12
    return np.asarray(np.linalg.solve(products + ridge * np.eye(len(products)), wide.T @ output), dtype=np.float32)


def _told(missing: dict[str, None]) -> str:
    """How many Chinese characters have no known strokes, and the first of them; logs a warning if there are any."""
    if not missing:
        return "0 Chinese characters"
    shown = f"{len(missing):,} Chinese characters: {''.join(list(missing)[:20])}{'…' if len(missing) > 20 else ''}"
    log.warning("no strokes are known for %s; each counts as itself (give a larger table with strokes)", shown)
    return shown
