"""Questions on passages as a network reads them 阅读理解输入: windows of tokens, what they share with a question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.data.rows import Passage
from polyseme.learn.inputs import sentence_numbers
from polyseme.text.segment import Segmentation
from polyseme.text.spacing import token_spans

N_FEATURES = 6
_COMMAS = frozenset('，、：,:—（）()“”"《》「」')


@dataclass(frozen=True)
class PassageWindow:
    """Some tokens of a passage that are read together, for a question on it."""

    example: int  # which question of all
    spans: list[tuple[int, int]]  # (start, end) of each token in the passage's text
    start: int  # the answer's first and last token in the window; -1: it is not here
    end: int


@dataclass(frozen=True)
class TokenWindow(PassageWindow):
    """A window and its question by their numbers among all token lists."""

    text: int
    question: int
    features: FloatArray  # (T, N_FEATURES)


class Readings:
    """Windows of passages with their questions; each distinct list of tokens is there once."""

    def __init__(self, rows: Sequence[Passage], segmentation: Segmentation, window: int, stride: int) -> None:
        self.rows = rows
        self.lists: list[list[str]] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self.windows: list[TokenWindow] = []
        self.unplaced: list[int] = []  # questions whose answers are in no window
        cut = _Cutter(segmentation, [text for row in rows for text in (row.passage, row.question)])
        for number, row in enumerate(rows):
            self._add(number, row, cut, window, stride)

    def _add(self, number: int, row: Passage, cut: _Cutter, window: int, stride: int) -> None:
        tokens, spans = cut.tokens(row.passage), cut.spans(row.passage)
        question = cut.tokens(row.question)
        features = shared_features(tokens, question)
        answer = answer_tokens(row, spans)
        placed = not row.answers
        for first in window_starts(len(tokens), window, stride):
            last = min(first + window, len(tokens))
            start, end = answer_in(answer, first, last)
            placed = placed or start >= 0
            numbers = self._listed(tokens[first:last]), self._listed(question)
            self.windows.append(TokenWindow(number, spans[first:last], start, end, *numbers, features[first:last]))
        if not placed:
            self.unplaced.append(number)

    def _listed(self, tokens: list[str]) -> int:
        number = self._numbers.setdefault(tuple(tokens), len(self.lists))
        if number == len(self.lists):
            self.lists.append(tokens)
        return number


class _Cutter:
    """Tokens of texts, all cut at once, and where they stand."""

    def __init__(self, segmentation: Segmentation, texts: Sequence[str]) -> None:
        self.segmentation = segmentation
        distinct = list(dict.fromkeys(texts))
        self._tokens = dict(zip(distinct, segmentation.token_lists(distinct), strict=True))
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def tokens(self, text: str) -> list[str]:
        return self._tokens[text]

    def spans(self, text: str) -> list[tuple[int, int]]:
        if text not in self._spans:
            self._spans[text] = token_spans(text, self._tokens[text], self.segmentation)
        return self._spans[text]


def window_starts(n: int, window: int, stride: int) -> list[int]:
    """Where windows over ``n`` tokens begin, so that each stretch of ``window - stride`` tokens is whole in one."""
    if n <= window:
        return [0]
    return [*range(0, n - window, stride), n - window]


def answer_in(answer: tuple[int, int] | None, first: int, last: int) -> tuple[int, int]:
    """The answer's first and last token counted from ``first``, if both are before ``last``; else -1 and -1."""
    if answer is None or answer[0] < first or answer[1] >= last:
        return -1, -1
    return answer[0] - first, answer[1] - first


def answer_tokens(row: Passage, spans: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The first answer's first and last token; None if it touches none."""
    if not row.answers:
        return None
    answer = row.answers[0]
    inside = [
        number for number, (start, end) in enumerate(spans)
        if start < answer.start + len(answer.text) and end > answer.start
    ]  # fmt: skip
    return (inside[0], inside[-1]) if inside else None


def shared_features(tokens: Sequence[str], question: Sequence[str]) -> FloatArray:
    """What each token of a passage has to do with the question, ``(T, N_FEATURES)``.

    Whether the question has the token; which share of its letters; how much its sentence shares with the question
    against the sentence that shares most, and whether it is that one; whether a clause begins or ends at the token.
    """
    asked, letters = {token.lower() for token in question}, set("".join(question).lower())
    numbers = sentence_numbers(tokens)
    shares = _sentence_shares(tokens, question, numbers.tolist())
    features = np.zeros((len(tokens), N_FEATURES), dtype=np.float32)
    for place, token in enumerate(tokens):
        small = token.lower()
        share = shares[numbers[place]]
        begins = place == 0 or _parts(tokens[place - 1]) or numbers[place] != numbers[place - 1]
        ends = place + 1 == len(tokens) or _parts(tokens[place + 1]) or numbers[place + 1] != numbers[place]
        features[place] = (
            small in asked, sum(letter in letters for letter in small) / max(len(small), 1), share, share == 1,
            begins, ends,
        )  # fmt: skip
    return features


def _parts(token: str) -> bool:
    return token in _COMMAS


def _sentence_shares(tokens: Sequence[str], question: Sequence[str], numbers: Sequence[int]) -> list[float]:
    """How much each sentence shares with the question, in words and pairs of letters, rare ones more; the most is 1."""
    sentences: list[list[str]] = [[] for _ in range(max(numbers, default=-1) + 1)]
    for token, number in zip(tokens, numbers, strict=True):
        sentences[number].append(token)
    shingles = [_shingles(sentence) for sentence in sentences]
    seen = Counter(shingle for of_sentence in shingles for shingle in of_sentence)
    wanted = _shingles(question)
    shares = [sum(math.log(1 + len(sentences) / seen[s]) for s in wanted & of_sentence) for of_sentence in shingles]
    most = max(shares, default=0.0)
    return [share / most if most else 0.0 for share in shares]


def _shingles(tokens: Sequence[str]) -> set[str]:
    whole = "".join(tokens).lower()
    pairs = {whole[i : i + 2] for i in range(len(whole) - 1)} if not whole.isascii() else set()
    return {token.lower() for token in tokens} | pairs
