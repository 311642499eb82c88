"""Perplexity (困惑度) of a biLM: exp of the mean negative log probability of a word, over all classes.

All words and the sentence boundary after them are predicted, forward and backward. A word outside the softmax counts as
the class "unknown", so only perplexities over the same classes can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from polyseme.arrays import FloatArray
from polyseme.contexts.elmo.bilm import BiLM
from polyseme.contexts.elmo.training_batches import PackedBatch, SentenceBatches, Sentences, WordTable
from polyseme.errors import OptionError, TextError
from polyseme.interfaces import Progress, Sentence, pages, silent
from polyseme.neural.packing import Packing
from polyseme.neural.softmax import SampledClasses, log_losses

if TYPE_CHECKING:
    from polyseme.contexts.elmo.model import Elmo

BATCH_TOKENS = 4096
SENTENCES_AT_ONCE = 4096


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of each direction, the number of words, and how many of them are outside the softmax."""

    forward: float
    backward: float
    tokens: int
    sentences: int
    unknown: int


@torch.inference_mode()
def losses_of(
    bilm: BiLM, words: WordTable, batch: PackedBatch, among: SampledClasses | None = None
) -> NDArray[np.float64]:
    """Sums of -log p over a batch, forward and backward ``(2,)``; estimated from the classes ``among`` if given."""
    device = bilm.softmax_bias.device
    distinct, place = np.unique(batch.inputs, return_inverse=True)
    vectors = bilm.encoder(words.tokens.at(distinct, device))
    x = F.embedding(torch.from_numpy(place.reshape(batch.inputs.shape)).to(device), vectors)  # (W, P) -> (2, N, P)
    states = bilm.run(x, batch.packing.sizes)[0][-1]
    targets = torch.from_numpy(words.class_of[batch.targets]).to(device)
    softmax = bilm.softmax_weight, bilm.softmax_bias
    return np.array([float(log_losses(states[d], targets[d], *softmax, among).sum()) for d in (0, 1)])


def exponentials(losses: NDArray[np.float64]) -> tuple[float, float]:
    """The perplexities for mean losses ``(2,)``; infinite on overflow."""
    with np.errstate(over="ignore"):
        forward, backward = np.exp(losses).tolist()
    return forward, backward


def perplexity(elmo: Elmo, sentences: Iterable[Sentence], progress: Progress = silent) -> Perplexity:
    """Full-softmax perplexity of both directions over a stream of sentences, raw or tokenised."""
    if not elmo.classes:
        raise OptionError("this biLM has no softmax (published files leave it out): it has no perplexity")
    sums, n, tokens, count, unknown = np.zeros(2), 0, 0, 0, 0
    iterator = (words for words in elmo.token_lists(sentences) if words)
    for chunk in _chunks(iterator):
        text = _Numbered(chunk)
        words = WordTable(text.all_words, elmo.alphabet, elmo.classes)
        which = Sentences(text, np.arange(len(chunk)))
        for batch in SentenceBatches(which, tokens=BATCH_TOKENS, longest=1 << 30, seed=0).in_order():
            sums += losses_of(elmo.bilm, words, batch)
            n += batch.n_predictions // 2
        tokens, count = tokens + len(text.ids), count + len(chunk)
        unknown += int((words.class_of[text.ids] == len(elmo.classes)).sum())
        forward, backward = exponentials(sums / n)
        progress("perplexity", tokens, None, forward=forward, backward=backward)
    if not n:
        raise TextError("there is no text to compute the perplexity of")
    return Perplexity(*exponentials(sums / n), tokens, count, unknown)


@torch.inference_mode()
def surprisals(elmo: Elmo, sentences: Sequence[Sequence[str]]) -> list[FloatArray]:
    """-log p of every word in the forward direction."""
    if not elmo.classes:
        raise OptionError("this biLM has no softmax (published files leave it out): it has no surprisal")
    found: list[FloatArray] = [np.zeros(len(words), dtype=np.float32) for words in sentences]
    classes = {word: number for number, word in enumerate(elmo.classes)}
    order = sorted((n for n, words in enumerate(sentences) if len(words)), key=lambda n: len(sentences[n]))
    for places in pages([[n] * len(sentences[n]) for n in order], BATCH_TOKENS):
        rows = [[elmo.alphabet.bos, *sentences[same[0]], elmo.alphabet.eos] for same in places]
        number: dict[str, int] = {}
        ids = np.array([number.setdefault(word, len(number)) for row in rows for word in row])
        starts = np.cumsum([0, *map(len, rows)])
        packing = Packing.of([len(row) for row in rows])
        vectors = elmo.runner.cache.get(list(number), elmo.runner.word_vectors)
        states = elmo.bilm.run(vectors[torch.from_numpy(ids[starts[packing.row] + packing.time])], packing.sizes)[0]
        time = packing.time[0]
        asked = time < np.array([len(row) - 2 for row in rows])[packing.row]  # states that predict a word
        words = [rows[row][t + 1] for row, t in zip(packing.row[asked].tolist(), time[asked].tolist(), strict=True)]
        targets = torch.tensor([classes.get(word, len(classes)) for word in words])
        softmax = elmo.bilm.softmax_weight, elmo.bilm.softmax_bias
        losses = log_losses(states[-1][0][torch.from_numpy(asked)], targets, *softmax, None).numpy()
        for loss, row, t in zip(losses.tolist(), packing.row[asked].tolist(), time[asked].tolist(), strict=True):
            found[places[row][0]][t] = loss
    return found


def _chunks(sentences: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    while chunk := list(islice(sentences, SENTENCES_AT_ONCE)):
        yield chunk


class _Numbered:
    """Sentences in memory as word ids, with the attributes of a corpus."""

    def __init__(self, sentences: list[list[str]]) -> None:
        number: dict[str, int] = {}
        ids = [number.setdefault(word, len(number)) for sentence in sentences for word in sentence]
        self.all_words = list(number)
        self.ids = np.array(ids, dtype=np.int32)
        self.sentence_offsets = np.cumsum([0, *(len(sentence) for sentence in sentences)])
