"""Fine-tuning a Transformer with a task: words pooled from subwords, long sentences in windows, pairs as one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.contexts.transformer.encode import Runner, Window, windows
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.tokenizer import PairCut
from polyseme.text.spacing import joined_with_spans
from polyseme.text.strings import well_formed


class WordReader:
    """Turns sentences of words into the windows of subwords that encoding reads, with the subwords of each word.

    Without ``overlapping``, as models fine-tuned by older versions read: one window begins where another ends.
    """

    def __init__(self, runner: Runner, pieces: str, *, overlapping: bool = True) -> None:
        self.runner, self.pooling, self.overlapping = runner, pieces, overlapping

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        """Subword ids ``(R, P)`` of all windows and their mask; which subwords are pooled into which words; the counts.

        Subwords ``(N,)`` are numbered over all windows, words ``(N,)`` over all sentences: a subword may belong to
        several words. The counts ``(B, T)`` are the numbers of subwords that are pooled into each word.
        """
        pieces, room, causal = self.runner.pieces, self.runner.room, self.runner.network.causal
        texts = [joined_with_spans([well_formed(word) for word in words]) for words in sentences]
        cuts = pieces.cut([text for text, _ in texts])
        longest = max(max(map(len, sentences)), 1)
        rows: list[list[int]] = []
        pooled: list[tuple[int, int, int]] = []  # window, position in it, word
        counts = np.zeros((len(sentences), longest), dtype=np.int64)
        for number, (cut, (_, spans)) in enumerate(zip(cuts, texts, strict=True)):
            n = len(cut.ids)
            parts = windows(n, room, causal=causal) if self.overlapping else _side_by_side(n, room)
            states = [  # of every subword: the window that gives its states, and its position there
                (row, len(pieces.before) + piece - window.start)
                for row, window in enumerate(parts, start=len(rows))
                for piece in range(window.first, window.last)
            ]
            for word, (first, last) in enumerate(cut.words(spans, pieces.bare).tolist()):
                chosen = {"first": range(first, min(first + 1, last)), "last": range(max(last - 1, first), last)}
                of_word = chosen.get(self.pooling, range(first, last))
                counts[number, word] = len(of_word)
                pooled += [(*states[piece], number * longest + word) for piece in of_word]
            rows += [[*pieces.before, *cut.ids[part.start : part.end].tolist(), *pieces.behind] for part in parts]
        ids, mask = padded_pieces(rows, self.runner.padding)
        numbers, positions, words = torch.tensor(pooled, dtype=torch.int64).reshape(-1, 3).unbind(dim=1)
        return ids, mask, numbers * ids.shape[1] + positions, words, torch.from_numpy(counts)


def _side_by_side(n: int, room: int) -> list[Window]:
    """Windows of ``room`` subwords over ``n`` that do not overlap."""
    bounds = [(start, min(start + room, n)) for start in range(0, max(n, 1), room)]
    return [Window(*bound, *bound) for bound in bounds]


class WordLayers(nn.Module):
    """The chosen layers of a Transformer as word vectors."""

    def __init__(self, network: Network, wanted: Sequence[int]) -> None:
        super().__init__()
        self.network, self.wanted = network, list(wanted)

    def forward(self, ids: Tensor, mask: Tensor, subwords: Tensor, words: Tensor, counts: Tensor) -> Tensor:
        """``(B, T, L, D)``: the mean of the subwords of a word, or the first or last; zeros for a word without any."""
        layers = self.network(TokenBatch(ids, None if bool(mask.all()) else mask))
        states = torch.stack([layers[number] for number in self.wanted], dim=2)  # (R, P, L, D)
        flat = states.flatten(0, 1)
        summed = flat.new_zeros(counts.numel(), *flat.shape[1:]).index_add(0, words, flat[subwords])
        return (summed / counts.flatten().clamp_min(1)[:, None, None]).view(*counts.shape, *flat.shape[1:])


class PairParts(NamedTuple):
    """A pair of texts as one input in three parts, each of (id, token type), and the second text's (start, end)s."""

    before: list[tuple[int, int]]
    inside: list[tuple[int, int]]
    behind: list[tuple[int, int]]
    spans: list[tuple[int, int]]


class PairReader:
    """Turns each pair of texts into one input, as for a cross-encoder.

    A causal network reads ``<start> first <delimiter> second <end>`` (Radford et al., 2018), even if its tokenizer
    would join the texts without special tokens. ``keeps`` is the end of a too long first text that stays: a passage
    with a question behind it, or that the second text continues, keeps its end.
    """

    def __init__(self, runner: Runner, keeps: str = "start") -> None:
        self.runner, self.keeps, pieces = runner, keeps, runner.pieces
        unmarked = runner.network.causal and not any(pieces.encoded_pair("a", "b").special_tokens_mask)
        self.marks = pieces.marks if unmarked else None
        self.limit = max(runner.limit - (len(self.marks) if self.marks else 0), 1)

    def cut(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """The ids and token types of each pair. If it is too long for the network, the longer text is truncated."""
        inputs = [self.fitted(first, second) for first, second in pairs]
        if self.marks is None:
            return [(pair.ids, pair.type_ids) for pair in inputs]
        start, delimiter, end = self.marks
        halves = [(pair.ids, pair.sequence_ids.count(0)) for pair in inputs]
        marked = [[start, *ids[:middle], delimiter, *ids[middle:], end] for ids, middle in halves]
        return [(ids, [0] * len(ids)) for ids in marked]

    def parted(self, first: str, second: str) -> PairParts:
        """A pair of any length as one input, with the second text apart from what is before and behind it."""
        pair_cut = self.runner.pieces.encoded_pair(first, second)
        both = list(zip(pair_cut.ids, pair_cut.type_ids, strict=True))
        second_places = [place for place, text in enumerate(pair_cut.sequence_ids) if text == 1]
        begin, end = (second_places[0], second_places[-1] + 1) if second_places else (len(both), len(both))
        before, inside, behind = both[:begin], both[begin:end], both[end:]
        if self.marks is not None:
            start, delimiter, last = ((mark, 0) for mark in self.marks)
            before, behind = [start, *before, delimiter], [last]
        return PairParts(
            before, inside, behind, [_trimmed(second, *pair_cut.offsets[place]) for place in second_places]
        )

    def together(self, cut: Sequence[tuple[list[int], list[int]]]) -> tuple[Tensor, ...]:
        """Pairs as one batch: ids ``(B, P)``, mask and token types."""
        ids, mask = padded_pieces([ids for ids, _ in cut], self.runner.padding)
        return ids, mask, filled([types for _, types in cut], 0)

    def fitted(self, first: str, second: str) -> PairCut:
        """One pair, truncated until the network can read it."""
        pair_cut = self.runner.pieces.encoded_pair(first, second)
        while len(pair_cut.ids) > self.limit:
            share = 0.9 * self.limit / len(pair_cut.ids)
            if len(first) >= len(second):
                room = int(len(first) * share)
                first = first[:room] if self.keeps == "start" else first[len(first) - room :]
            else:
                second = second[: max(int(len(second) * share), 0)]
            pair_cut = self.runner.pieces.encoded_pair(first, second)
        return pair_cut


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the blanks at its start, which some tokenizers count to a subword."""
    while start < end and text[start].isspace():
        start += 1
    return start, end


def padded_pieces(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """The rows padded to one length ``(B, P)``, and their mask."""
    lengths = torch.tensor([len(row) for row in rows])
    longest = max(int(lengths.max()), 1)
    return filled(rows, padding), (torch.arange(longest) < lengths[:, None]).long()


def filled(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """The rows as one tensor, with ``value`` after shorter ones."""
    longest = max(max(map(len, rows)), 1)
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows], dtype=torch.int64)
