"""Training data for all methods, generated here, and each method trained once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import polyseme
from polyseme.api import options_of
from polyseme.catalog import COMPOSED, Row, find
from polyseme.contexts.stack import Stack
from polyseme.contexts.static import StaticEncoder
from polyseme.data.examples import Answer, Examples
from polyseme.data.parallel import Parallel
from polyseme.sentences.pooled import Pooled
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation

# Options that make a method small enough for a test; all others keep their defaults. One line per method.
SMALL: dict[str, dict[str, Any]] = {
    "onehot": {"min_count": 1},
    "counts": {"min_count": 1},
    "word2vec": {"dim": 16, "epochs": 2, "min_count": 1},
    "fasttext": {"dim": 16, "epochs": 2, "min_count": 1, "buckets": 1000},
    "glove": {"dim": 16, "epochs": 2, "min_count": 1},
    "nnlm": {"dim": 8, "hidden": 8, "epochs": 2, "min_count": 1, "batch_size": 64},
    "polyglot": {"dim": 8, "hidden": 8, "epochs": 2, "min_count": 1},
    "wordrank": {"dim": 16, "epochs": 2, "min_count": 1},
    "cw2vec": {"dim": 16, "epochs": 2, "min_count": 1, "buckets": 1000},
    "svd": {"dim": 8, "min_count": 1},
    "dan": {"dim": 8, "hidden": 8, "epochs": 1},
    "textcnn": {"dim": 8, "filters": "2x4 3x4", "epochs": 1},
    "dcnn": {"dim": 8, "epochs": 1},
    "rnn": {"dim": 8, "hidden": 8, "epochs": 1},
    "bilstm-max": {"dim": 8, "hidden": 8, "epochs": 1},
    "self-attention": {"dim": 8, "hidden": 8, "epochs": 1},
    "han": {"dim": 8, "hidden": 8, "epochs": 1},
    "infersent": {"dim": 10, "hidden": 6, "classifier": 8, "epochs": 1},
    "skip-thought": {"dim": 10, "hidden": 8, "epochs": 2, "batch_size": 10, "min_count": 1},
    "rae": {"word_dim": 8, "epochs": 2, "batch_size": 10},
    "quick-thought": {"dim": 10, "hidden": 6, "epochs": 2, "batch_size": 10, "min_count": 1},
    "gensen": {"dim": 10, "hidden": 8, "classifier": 8, "epochs": 1, "batch_size": 10, "min_count": 1},
    "use": {"dim": 10, "hidden": 8, "classifier": 8, "epochs": 1, "batch_size": 8, "min_count": 1},
    "conversation": {"dim": 10, "hidden": 8, "classifier": 8, "epochs": 1, "batch_size": 8},
    "elmo": {"epochs": 1},
    "cove": {"dim": 12, "hidden": 8, "min_count": 1, "epochs": 2},
    "xlm": {"dim": 16, "n_layers": 2, "n_heads": 2, "max_size": 200, "epochs": 1, "length": 24, "batch_size": 16},
    "bert": {"dim": 16, "n_layers": 2, "n_heads": 2, "max_size": 200, "epochs": 1, "length": 24, "batch_size": 16},
    "mtdnn": {"dim": 16, "n_layers": 2, "n_heads": 2, "max_size": 200, "epochs": 1, "length": 24, "batch_size": 16},
    "gpt": {"dim": 16, "n_layers": 2, "n_heads": 2, "max_size": 200, "epochs": 1, "length": 24, "batch_size": 16},
    "ulmfit": {"dim": 16, "hidden": 24, "n_layers": 2, "min_count": 1, "epochs": 2, "batch_size": 4, "unroll": 10},
    "bow": {},
    "tfidf": {},
    "lsa": {"dim": 12},
    "softbow": {"dim": 8, "min_count": 1},
    "doc2vec": {"dim": 16, "epochs": 2, "min_count": 1},
}


def small_options(name: str) -> dict[str, Any]:
    """Options for a small, reproducible training: one thread and a seed, if the method has such options."""
    known = {field.name for field in dataclasses.fields(options_of(name))}
    steady = {"seed": 1, "threads": 1}
    return {**{key: value for key, value in steady.items() if key in known}, **SMALL[name]}


class Fit(NamedTuple):
    """What a head is fitted with: an encoder by its method, and options."""

    encoder: str | None = None
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)


NARROW, TUNED = {"dim": 8, "hidden": 8}, {"encoder_mode": "finetune"}
# Every head of every task, with options that make it small; after a +, an encoder that learns with it.
FITS: dict[str, Fit] = {
    "classify textcnn": Fit(None, {"dim": 8, "filters": "2x4 3x4"}),
    "classify linear": Fit("elmo", {"layers": "top"}),
    "classify linear + bert": Fit("bert", TUNED),
    "classify mlp": Fit(None, NARROW),
    "classify dan": Fit(None, NARROW),
    "classify dcnn": Fit(None, {"dim": 8}),
    "classify rnn": Fit(None, NARROW),
    "classify rnn + elmo": Fit("elmo", {"hidden": 8, **TUNED}),
    "classify bilstm-max": Fit("elmo", {"hidden": 8}),
    "classify self-attention": Fit(None, NARROW),
    "classify han": Fit(None, NARROW),
    "classify ulmfit": Fit("ulmfit", {"hidden": 8, "lm_epochs": 1}),
    "pair bilstm-max": Fit(None, NARROW),
    "pair linear": Fit("elmo", {"layers": "top"}),
    "pair mlp": Fit(None, {"dim": 8}),
    "pair dan": Fit(None, NARROW),
    "pair textcnn": Fit(None, {"dim": 8, "filters": "2x4 3x4"}),
    "pair rnn": Fit(None, NARROW),
    "pair self-attention": Fit(None, NARROW),
    "pair arc1": Fit(None, {"dim": 8, "filters": "3x4"}),
    "pair arc2": Fit(None, {"dim": 8, "filters": "3x4"}),
    "pair cnn-sm": Fit(None, {"dim": 8, "filters": "3x4"}),
    "pair bi-cnn": Fit(None, {"dim": 8, "filters": "3x4"}),
    "pair mpcnn": Fit(None, {"dim": 8, "filters": "3x4"}),
    "pair cross": Fit("gpt", {"orders": "both"}),
    "pair cosine": Fit("bert"),
    "choice bilstm-max": Fit(None, NARROW),
    "choice linear": Fit("elmo", {"layers": "top"}),
    "choice mlp": Fit(None, {"dim": 8}),
    "choice dan": Fit(None, NARROW),
    "choice textcnn": Fit(None, {"dim": 8, "filters": "2x4 3x4"}),
    "choice rnn": Fit(None, NARROW),
    "choice self-attention": Fit(None, NARROW),
    "choice arc1": Fit(None, {"dim": 8, "filters": "3x4"}),
    "choice arc2": Fit(None, {"dim": 8, "filters": "3x4"}),
    "choice cnn-sm": Fit(None, {"dim": 8, "filters": "3x4"}),
    "choice bi-cnn": Fit(None, {"dim": 8, "filters": "3x4"}),
    "choice mpcnn": Fit(None, {"dim": 8, "filters": "3x4"}),
    "choice cross": Fit("bert"),
    "tag bilstm-crf": Fit(None, NARROW),
    "tag bilstm-crf + elmo": Fit("elmo", {"hidden": 8, **TUNED}),
    "tag linear": Fit(None, {"dim": 8}),
    "tag linear + bert": Fit("bert", TUNED),
    "tag taglm": Fit("elmo", NARROW),
    "span reader": Fit(None, NARROW),
    "span cross": Fit("bert"),
}


def fit_small(name: str, data: Data, encoders: Mapping[str, Any]) -> Any:
    """A task's model, fitted in two passes with a report after each, and asked once."""
    task, head = name.split()[:2]
    encoder, options = FITS[name]
    examples = data.labelled(task, scored=head == "cosine")
    steady = {"seed": 1, "threads": 1, "epochs": 2, "batch_size": 8, "held_out": 0.25}
    model = polyseme.fit(task, examples, encoder=encoders.get(encoder), head=head, **{**steady, **options})
    assert len(model.about.curve) == 2
    assert len(model.score(examples).figures)
    return model


NEW_LINES = [f"小明的显微镜比{person}的显微镜好。" for person in ("老王", "姐姐", "弟弟")] * 5  # with a new word


class Data:
    """Data of every kind in the catalog's ``learns_from``, a few dozen lines each, generated from lines of text."""

    def __init__(self, lines: list[str], folder: Path) -> None:
        self.lines, self.folder = lines, folder

    def of(self, row: Row) -> Any:
        """The training data of a method."""
        return self._made(row, self.lines)

    def more(self, row: Row) -> Any:
        """Other data of the same kind, with words that the first does not have."""
        return self._made(row, NEW_LINES)

    def nothing(self, row: Row) -> Any:
        """Data of the same kind from which nothing can be learned: no word is kept, or there is one class only."""
        if row.learns_from[0] == "corpus":
            return Corpus.from_sentences(self.lines[:1], min_count=1000)
        return self._made(row, self.lines[:1])

    def _made(self, row: Row, lines: list[str]) -> Any:
        named = [source.split("=") for source in row.learns_from if "=" in source]
        if named:
            several = [(name, kind) for name, kinds in named for kind in kinds.split("|")]
            return {kind if name == "*" else name: getattr(self, kind)(lines) for name, kind in several}
        return getattr(self, row.learns_from[0])(lines)

    def corpus(self, lines: list[str]) -> Corpus:
        return Corpus.from_sentences(lines)

    def texts(self, lines: list[str]) -> Examples:
        return Examples.of([(line, self._label(line)) for line in lines])

    def pairs(self, lines: list[str]) -> Examples:
        others = lines[len(lines) // 3 :] + lines
        return Examples.of(
            [
                (line, other, "same" if self._label(line) == self._label(other) else "other")
                for line, other in zip(lines, others, strict=False)
            ]
        )

    def tags(self, lines: list[str]) -> Examples:
        cut = [Segmentation().tokens(line) for line in lines]
        return Examples.of([(tokens, ["B-PER" if i == 0 else "O" for i in range(len(tokens))]) for tokens in cut])

    def spans(self, lines: list[str]) -> Examples:
        return Examples.of([(line, "谁？", [Answer(line[:2], 0)]) for line in lines])

    def choices(self, lines: list[str]) -> Examples:
        return Examples.of(
            [(line[:3], [line[3:], other[3:]], 0) for line, other in zip(lines, lines[5:], strict=False)]
        )

    def labelled(self, task: str, *, scored: bool = False) -> Examples:
        """A few examples for a task; pairs have scores, if asked for."""
        lines = self.lines[::2]
        if scored:
            return Examples.of([(one, two, n % 6) for n, (one, two) in enumerate(pairwise(lines))], scored=True)
        kinds = {"classify": self.texts, "pair": self.pairs, "choice": self.choices, "tag": self.tags}
        return kinds.get(task, self.spans)(lines)

    def parallel(self, lines: list[str]) -> Parallel:
        file = self.folder / f"{len(lines)}.tsv"
        file.write_text("".join(f"line {len(line)} {line[0]}\t{line}\n" for line in lines), encoding="utf-8")
        return Parallel.read(file)

    @staticmethod
    def _label(line: str) -> str:
        return "family" if "姐姐" in line or "弟弟" in line else "other"


@pytest.fixture(scope="session")
def data(fifty_lines, tmp_path_factory) -> Data:
    return Data(fifty_lines, tmp_path_factory.mktemp("data"))


Maker = Callable[[str], Any]  # a model by name

# The parts of each composed model of the catalog.
COMPOSED_OF: dict[str, Callable[[Maker, Data], Any]] = {
    "distilled": lambda model, data: polyseme.distil(model("elmo"), data.corpus(data.lines), min_count=1),
    "static": lambda model, data: StaticEncoder(model("fasttext")),
    "stack": lambda model, data: Stack([StaticEncoder(model("word2vec")), model("elmo")]),
    "pooled": lambda model, data: Pooled.fitted(model("elmo"), "sif", data.lines, layers="top"),
}


@pytest.fixture(scope="session")
def model(data) -> Maker:
    """A model of the catalog by the name of its row, trained or composed once; tests must not change it."""
    models: dict[str, Any] = {}

    def made(name: str) -> Any:
        if name not in models:
            row = find(name)
            models[name] = (
                COMPOSED_OF[name](made, data)
                if row in COMPOSED
                else polyseme.train(name, data.of(row), **small_options(name))
            )
        return models[name]

    return made


@pytest.fixture(scope="session")
def train_again(data) -> Callable[..., Any]:
    """Train a method again, on the same or on other data."""

    def train(row: Row, other: Any = None, **options: Any) -> Any:
        given = data.of(row) if other is None else other
        return polyseme.train(row.name, given, **small_options(row.name), **options)

    return train
