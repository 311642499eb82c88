"""Text whose words fall into two topics, for methods that should find them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from polyseme.text.corpus import Corpus
from polyseme.words.vectors import WordVectors

ANIMALS = ["猫", "狗", "鸟", "鱼", "马"]
NUMBERS = ["一", "二", "三", "四", "五"]


@pytest.fixture(scope="session")
def topics() -> Corpus:
    """600 sentences, each mostly with words of one topic, some common words and a few of the other topic."""
    choice = random.Random(0)
    sentences = []
    for _ in range(600):
        topic, other = choice.sample((ANIMALS, NUMBERS), 2)
        groups = choice.choices((topic, ["的", "了", "是"], other), (6, 3, 1), k=9)
        sentences.append([choice.choice(group) for group in groups])
    return Corpus.from_sentences(sentences)


@pytest.fixture(scope="session")
def topic_margin() -> Callable[[WordVectors], float]:
    """The mean cosine of words of one topic minus that of words of two topics."""

    def margin(model: WordVectors) -> float:
        same = [model.similarity(a, b) for group in (ANIMALS, NUMBERS) for a in group for b in group if a != b]
        other = [model.similarity(a, b) for a in ANIMALS for b in NUMBERS]
        return sum(same) / len(same) - sum(other) / len(other)

    return margin
