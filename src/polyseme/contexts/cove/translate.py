"""Beam search 束搜索: the most likely translation, generated word by word.

A finished translation is scored by its mean log probability, so that short ones are not preferred. The unknown word is
never generated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyseme.contexts.cove.network import Translator
from polyseme.contexts.cove.target_words import BOUNDARY, SPECIALS, UNKNOWN
from polyseme.interfaces import FloatArray


@dataclass(frozen=True)
class Translation:
    """The translation of a text."""

    text: str
    words: list[str]
    source: list[str]  # the words that were translated
    attention: FloatArray  # (words, source): attention weights of each word
    score: float  # mean log probability of its words


@torch.inference_mode()
def translated(
    network: Translator, x: Tensor, lengths: Tensor, *, beam: int, longest: int
) -> tuple[list[int], FloatArray, float]:
    """For one sentence ``(1, S, D)``: indices of the generated words, their attention weights, and the score."""
    decoder = network.decoder
    assert decoder is not None
    n = int(lengths[0])
    if not n:
        return [], np.zeros((0, 0), dtype=np.float32), 0.0
    mask = torch.ones(1, n, dtype=torch.bool)
    planes, last = network.encoder(x, mask)
    memory, cursor = decoder.begin(planes[-1], mask, last)
    scores, words = torch.zeros(1), torch.tensor([BOUNDARY])
    written: list[list[int]] = [[]]
    attention: list[list[Tensor]] = [[]]
    best: tuple[float, list[int], list[Tensor]] | None = None
    for step in range(1, min(longest, 3 * n + 10) + 1):
        fed, cursor, weights = decoder.step(words, memory.rows(torch.zeros(len(words), dtype=torch.int64)), cursor)
        chances = decoder.log_probabilities(fed)
        chances[:, UNKNOWN] = -torch.inf
        total = (scores[:, None] + chances).reshape(-1)
        top = torch.topk(total, min(2 * beam, len(total)))
        kept: list[tuple[int, int, float]] = []
        for score, place in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            row, word = divmod(place, chances.shape[1])
            if word == BOUNDARY:
                if best is None or score / step > best[0]:
                    best = (score / step, written[row], attention[row])
            elif len(kept) < beam and np.isfinite(score):
                kept.append((row, word, score))
        if not kept or (best is not None and kept[0][2] / step < best[0]):
            break
        rows = torch.tensor([row for row, _, _ in kept])
        written = [[*written[row], word] for row, word, _ in kept]
        attention = [[*attention[row], weights[row]] for row, _, _ in kept]
        scores, words = torch.tensor([score for *_, score in kept]), torch.tensor([word for _, word, _ in kept])
        cursor = cursor.rows(rows)
    if best is None:
        best = (float(scores[0]) / max(len(written[0]), 1), written[0], attention[0])
    score, numbers, weights_of = best
    table = torch.stack(weights_of).numpy() if weights_of else np.zeros((0, n), dtype=np.float32)
    return [number - SPECIALS for number in numbers], table, score
