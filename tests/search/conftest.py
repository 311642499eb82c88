"""An encoder with known vectors, and a corpus in which a word has two planted senses."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from polyseme.arrays import FloatArray
from polyseme.interfaces import ContextEncoder, EncodedSentence, Sentence
from polyseme.text.corpus import Corpus

DIM = 24


KINDS = {**dict.fromkeys(["给", "往"], "to"), **dict.fromkeys(["去", "来"], "go")}
KINDS |= {**dict.fromkeys(["电话", "手机", "号码"], "telephone"), **dict.fromkeys(["篮球", "排球", "网球"], "ball")}


def word_vector(word: str) -> FloatArray:
    """A fixed random direction for each word; words of one kind are close to each other."""
    return direction(word) if word not in KINDS else 0.9 * direction(KINDS[word]) + 0.4 * direction(word)


def direction(name: str) -> FloatArray:
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
    return np.random.default_rng(seed).normal(size=DIM).astype(np.float32)


class Neighbours(ContextEncoder):
    """Layer 0: the word itself. Layer 1: its left and right neighbours, concatenated."""

    dim = 2 * DIM
    n_layers = 2

    def __init__(self) -> None:
        self.sentences_read = 0

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: str | int = "all") -> Iterator[EncodedSentence]:
        for sentence in sentences:
            tokens = self.tokenize(sentence) if isinstance(sentence, str) else list(sentence)
            own = [word_vector(word) for word in ("<S>", *tokens, "</S>")]
            words = [np.tile(vector, 2) for vector in own[1:-1]]
            around = [np.concatenate([own[i - 1], own[i + 1]]) for i in range(1, len(own) - 1)]
            self.sentences_read += 1
            states = np.array([words, around], dtype=np.float32).reshape(2, len(tokens), self.dim)
            yield EncodedSentence(tokens, states.mean(axis=0, keepdims=True) if layers == "mean" else states)


def two_sense_sentences(n: int, seed: int = 0) -> list[list[str]]:
    """Sentences with 打: between words of one kind in two thirds of them, of another kind in the rest."""
    rng = np.random.default_rng(seed)
    telephone = ["电话", "手机", "号码"]
    ball = ["篮球", "排球", "网球"]
    sentences = []
    for i in range(n):
        left, right = (["给", "往"], telephone) if i % 3 else (["去", "来"], ball)
        filler = [f"词{k}" for k in rng.integers(0, 40, size=3)]
        sentences.append([*filler, str(rng.choice(left)), "打", str(rng.choice(right)), "，", f"尾{i % 50}", "。"])
    return sentences


@pytest.fixture
def encoder() -> Neighbours:
    return Neighbours()


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.from_sentences(two_sense_sentences(300), tmp_path_factory.mktemp("corpus") / "c", segment="space")
