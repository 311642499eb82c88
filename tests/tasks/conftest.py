"""Small labelled sets that can be learned in seconds, written for these tests."""

from __future__ import annotations

import random

import numpy as np
import pytest

from polyseme.data.examples import Examples
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

GOOD, BAD, PLAIN = (
    ["干净", "舒服", "满意", "热情", "方便"],
    ["肮脏", "吵闹", "失望", "冷淡", "破旧"],
    ["房间", "服务", "早餐", "位置", "前台"],
)


def review(rng: random.Random, words: list[str]) -> str:
    return "，".join(f"{rng.choice(PLAIN)}很{rng.choice(words)}" for _ in range(rng.randint(1, 3))) + "。"


def choices(n: int = 60, seed: int = 0) -> Examples:
    """A remark that praises or blames, and two to four more, one of which goes on in the same way."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        same, other = (GOOD, BAD) if rng.random() < 0.5 else (BAD, GOOD)
        kinds = [same, *[other] * rng.randint(1, 3)]
        rng.shuffle(kinds)
        context, *alternatives = (f"{rng.choice(PLAIN)}很{rng.choice(words)}。" for words in (same, *kinds))
        rows.append((context, alternatives, kinds.index(same)))
    return Examples.of(rows)


def reviews(n: int = 60, seed: int = 0) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(review(rng, GOOD if i % 2 else BAD), "good" if i % 2 else "bad") for i in range(n)]


@pytest.fixture(scope="session")
def texts() -> Examples:
    return Examples.of(reviews())


@pytest.fixture(scope="session")
def other_texts() -> Examples:
    return Examples.of(reviews(20, seed=1))


@pytest.fixture(scope="session")
def vectors() -> WordVectors:
    """Word vectors in which good and bad words are far apart, including 满意 and 失望."""
    rng = np.random.default_rng(0)
    words = [*GOOD, *BAD, *PLAIN, "很", "，", "。"]
    matrix = rng.normal(0, 0.3, (len(words), 8)).astype(np.float32)
    matrix[: len(GOOD), 0] += 2
    matrix[len(GOOD) : len(GOOD) + len(BAD), 0] -= 2
    return WordVectors(Vocabulary(words, np.arange(len(words), 0, -1)), matrix)
