"""What a text costs a biLM (困惑度的计算): -log p of every prediction, over all classes or estimated from some.

All words and the sentence boundary after them are predicted, forward and backward. A word outside the softmax counts as
the class "unknown", so only perplexities over the same classes can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.contexts.elmo.bilm import BiLM
from polyseme.interfaces import WordLosses
from polyseme.neural.batches import BudgetBatches, Packing
from polyseme.neural.softmax import SampledClasses, log_losses

if TYPE_CHECKING:
    from polyseme.contexts.elmo.model import Elmo

BATCH_TOKENS = 4096
Ints = NDArray[np.int64]
Losses = NDArray[np.float64]


def losses_of(bilm: BiLM, x: Tensor, packing: Packing, targets: Ints, among: SampledClasses | None = None) -> Losses:
    """-log p of the classes ``targets`` given packed word vectors ``(2, N, P)``, forward and backward ``(2, N)``.

    Estimated from the classes ``among`` if given.
    """
    states = bilm.run(x, packing.sizes)[0][-1]
    classes = torch.from_numpy(targets).to(x.device)
    softmax = bilm.softmax_weight, bilm.softmax_bias
    return np.stack([log_losses(states[d], classes[d], *softmax, among).cpu().numpy() for d in (0, 1)])


def word_losses(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> Iterator[WordLosses]:
    """What each sentence costs, in order: its words in text order, then the boundary of each direction."""
    filled = [number for number, words in enumerate(sentences) if words]
    sizes = np.array([len(sentences[number]) + 1 for number in filled], dtype=np.int64)
    losses = {number: np.zeros((2, 0)) for number in range(len(sentences))}
    for rows in BudgetBatches(sizes, tokens=BATCH_TOKENS, seed=0).in_order():
        places = [filled[row] for row in rows]
        losses.update(zip(places, _batch_losses(elmo, [sentences[place] for place in places]), strict=True))
    known = elmo.class_numbers
    for number, words in enumerate(sentences):
        unknown = sum(word not in known for word in words)
        yield WordLosses.of_words(words, losses[number], unknown)


@torch.inference_mode()
def _batch_losses(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> list[Losses]:
    """For each sentence ``(2, words + 1)``, the boundary last in both directions."""
    rows = [[elmo.alphabet.bos, *words, elmo.alphabet.eos] for words in sentences]
    number: dict[str, int] = {}
    ids = np.array([number.setdefault(word, len(number)) for row in rows for word in row])
    known, unknown = elmo.class_numbers, len(elmo.classes)
    targets = np.array([known.get(word, unknown) for word in number])[ids]
    sizes = np.array([len(words) + 1 for words in sentences])  # predictions of a direction
    ends = np.cumsum(sizes + 1)
    starts = ends - sizes - 1
    targets[starts], targets[ends - 1] = unknown + 1, unknown + 2
    packing = Packing.of(sizes)
    before = starts[packing.row] + packing.time  # (2, N) the earlier of the two words of each prediction
    vectors = elmo.runner.cache.get(list(number), elmo.runner.word_vectors)
    x = vectors[torch.from_numpy(ids[np.stack([before[0], before[1] + 1])])]
    packed = losses_of(elmo.bilm, x, packing, targets[np.stack([before[0] + 1, before[1]])])
    losses = np.empty((2, len(ids)))
    losses[0, before[0]] = packed[0]
    losses[1, starts[packing.row] + (packing.time[1] - 1) % sizes[packing.row]] = packed[1]
    return [losses[:, start : end - 1] for start, end in zip(starts, ends, strict=True)]
