"""A model, a corpus and an index that are small and quick to make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from polyseme.interfaces import ContextEncoder, EncodedSentence, Sentence
from polyseme.search import build_index
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

SENTENCES = [["小猫", "喜欢", "吃", "鱼"], ["小狗", "喜欢", "吃", "肉"], ["小猫", "和", "小狗", "打", "球"]] * 5


class Counting(ContextEncoder):
    """An encoder whose vectors depend on a word's position and length, and on ``factor``."""

    dim, n_layers = 4, 1

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: str | int = "all") -> Iterator[EncodedSentence]:
        for sentence in sentences:
            tokens = list(sentence)
            rows = [[place, len(token), self.factor, place % 2] for place, token in enumerate(tokens)]
            yield EncodedSentence(tokens, np.array([rows], dtype=np.float32))


def vectors(value: float = 1.0, words: int = 3) -> WordVectors:
    """Word vectors in which every number is ``value``, and every word contains it too."""
    names = [f"词{value:g}.{place}" for place in range(words)]
    return WordVectors(Vocabulary(names, np.arange(words, 0, -1)), np.full((words, 4), value, np.float32))


def make_model(path: Path, number: int = 1, *, force: bool = False) -> None:
    vectors(float(number)).save(path, force=force)


def make_corpus(path: Path, number: int = 1, *, force: bool = False) -> None:
    Corpus.from_sentences([*SENTENCES, [f"第{number}", "句"]], path, segment="space", force=force)


def make_index(path: Path, number: int = 1, *, force: bool = False) -> None:
    corpus = Corpus.from_sentences(SENTENCES, path.parent / "of the index", segment="space")
    build_index(Counting(number), corpus, path, dim=2 + number, force=force)


MAKERS: dict[str, Callable[..., None]] = {"model": make_model, "corpus": make_corpus, "index": make_index}


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Callable[..., None]:
    """A function that writes a folder of one kind; its content depends on ``number``."""
    return MAKERS[request.param]
