"""Predictions of a Transformer language model: words at a position, the perplexity of a text, its continuation.

A masked model (BERT) sees both sides of a masked position:

    p(w | left, right)            perplexity: exp of the mean -log p of each subword, masked in turn
                                  (pseudo-perplexity, Salazar et al. 2020)

A causal model (GPT) sees only the left side. The words it predicts from there are reranked by how likely they make the
right side:

    p(w | left, right) ∝ p(w | left) · p(right | left, w)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.contexts.transformer.encode import BATCH_PIECES, Runner, windows
from polyseme.contexts.transformer.network import TokenBatch
from polyseme.contexts.transformer.offline import offline
from polyseme.contexts.transformer.tokenizer import Ints
from polyseme.errors import OptionError

BEAM = 48  # beam width for words of several subwords
LONGEST_WORD = 32  # subwords of a word that is predicted
REREAD = 64  # words that a causal model reranks by the right side
MASKED_AT_ONCE = 64  # masked copies of texts that are read together


class Place(NamedTuple):
    """The subwords before and after a word, and the number of subwords of the word."""

    left: list[int]
    n_pieces: int
    right: list[int]


class BeamRow(NamedTuple):
    """Subwords of one input, and the index in them where the word begins."""

    ids: list[int]
    at: int


class Expectation:
    """The predictions of one language model."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.network, self.pieces = runner, runner.network, runner.pieces
        names = [*self.pieces.names, *[""] * (self.network.vocabulary_size - len(self.pieces.names))]
        special = {self.pieces.tokenizer.token_to_id(name) for name in self.pieces.specials.values()}
        self.special = torch.tensor([n in special or not name for n, name in enumerate(names)])  # and rows without name
        # WordPiece marks subwords inside a word with ##, but a Chinese character is unmarked everywhere.
        self.inside = torch.tensor([name.startswith("##") for name in names])
        self.alone = torch.tensor([len(name) == 1 and ord(name) > 0x2E7F for name in names])

    # ---- one position

    @torch.inference_mode()
    def words(self, place: Place, topn: int, *, word_there: str) -> list[tuple[str, float]]:
        """Words for a position with their probabilities, best first; each has as many subwords as the word there."""
        candidates = self._masked(place) if self.network.is_masked_lm else self._causal(place)
        best: dict[str, float] = {}
        for ids, score in candidates:
            word = self.pieces.spelt(ids)
            if word and not word.isspace():
                best[word] = max(best.get(word, -math.inf), score)
        ranked = sorted(best.items(), key=lambda item: (-item[1], item[0] != word_there, item[0]))
        return [(word, math.exp(score)) for word, score in ranked[:topn]]

    def _masked(self, place: Place) -> list[tuple[list[int], float]]:
        """Beam search over the masked subwords of the word, from left to right."""
        mask = self._mask()
        beams: list[tuple[list[int], float]] = [([], 0.0)]
        for number in range(place.n_pieces):
            rows = []
            for ids, _ in beams:
                missing = [mask] * (place.n_pieces - len(ids))
                rows.append(self._around(place.left, [*ids, *missing], place.right))
            scores = self._log_probabilities(rows, [row.at + number for row in rows])
            barred = self._barred(number)
            scores[:, barred] = -math.inf
            beams = _best(beams, scores, BEAM if number < place.n_pieces - 1 else 4 * BEAM)
        return beams

    def _barred(self, number: int) -> Tensor:
        """Mask of subwords that cannot be the ``number``-th of a word: special tokens and, by their mark ##, others."""
        if not bool(self.inside.any()):
            return self.special
        return self.special | (self.inside if number == 0 else ~self.inside & ~self.alone)

    def _causal(self, place: Place) -> list[tuple[list[int], float]]:
        beams: list[tuple[list[int], float]] = [([], 0.0)]
        for number in range(place.n_pieces):
            rows = [self._around(place.left, ids, []) for ids, _ in beams]
            scores = self._log_probabilities(rows, [row.at + number - 1 for row in rows])
            scores[:, self.special] = -math.inf
            beams = _best(beams, scores, REREAD)
        right = place.right[: self.runner.room // 2]
        if not right:
            return beams
        rows = [self._around(place.left, ids, right) for ids, _ in beams]
        read = self._surprise([row.ids for row in rows], [row.at + place.n_pieces for row in rows])
        totals = torch.tensor([score for _, score in beams]) - torch.tensor(read)
        totals -= torch.logsumexp(totals, dim=0)
        return [(ids, float(total)) for (ids, _), total in zip(beams, totals, strict=True)]

    def _mask(self) -> int:
        mask = self.pieces.id_of("mask")
        if mask is None:
            raise OptionError("the tokenizer has no mask, so the model cannot predict a word at a position")
        return mask

    def _around(self, left: list[int], inner: list[int], right: list[int]) -> BeamRow:
        """``inner`` with as much of both sides as the network can read at once."""
        room = max(self.runner.room - len(inner), 0)
        n_left = min(len(left), max(room - len(right), room // 2))
        n_right = min(len(right), room - n_left)
        before, behind = self.pieces.before, self.pieces.behind
        kept = left[len(left) - n_left :]
        # A causal model would take the final special tokens as the end of the text.
        end = [] if self.network.causal else behind
        return BeamRow([*before, *kept, *inner, *right[:n_right], *end], len(before) + n_left)

    def _log_probabilities(self, rows: Sequence[BeamRow], places: Sequence[int]) -> Tensor:
        """log p of all subwords at one position of each row, ``(rows, V)``; zeros if the position is negative."""
        log_chances = torch.zeros(len(rows), self.network.vocabulary_size)
        order = [n for n in sorted(range(len(rows)), key=lambda n: -len(rows[n].ids)) if places[n] >= 0]
        for chosen in _by_budget(order, [len(row.ids) for row in rows]):
            batch = self._padded([rows[n].ids for n in chosen])
            where = torch.tensor([places[n] for n in chosen])
            log_chances[chosen] = torch.log_softmax(
                self.network.expected(batch, torch.arange(len(chosen)), where), dim=1
            )
        return log_chances

    def _padded(self, rows: Sequence[Sequence[int]]) -> TokenBatch:
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[self.runner.padding] * (longest - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        return TokenBatch(ids, None if bool(mask.all()) else mask)

    # ---- masks in a text

    @torch.inference_mode()
    def fill(self, parts: Sequence[Ints], topn: int) -> list[list[tuple[str, float]]]:
        """The predicted subwords with their probabilities for each mask between the parts of a text."""
        if not self.network.is_masked_lm:
            left = [int(n) for part in parts[:1] for n in part]
            right = [int(n) for part in parts[1:] for n in part]
            return [self.words(Place(left, 1, right), topn, word_there="")]
        mask = self._mask()
        ids = [*parts[0].tolist()]
        places = []
        for part in parts[1:]:
            places.append(len(ids))
            ids += [mask, *part.tolist()]
        answers = []
        for place in places:
            row = self._around(ids[:place], [mask], ids[place + 1 :])
            scores = self._log_probabilities([row], [row.at])[0]
            scores[self.special] = -math.inf
            best = torch.topk(scores.exp(), min(topn, int((~self.special).sum())))
            answers.append(
                [(self.pieces.spelt([n]), p) for p, n in zip(best.values.tolist(), best.indices.tolist(), strict=True)]
            )
        return answers

    # ---- whole texts

    @property
    def n_unpredicted(self) -> int:
        """Subwords at the beginning of a text that nothing precedes to predict them from: 0 or 1."""
        return 1 if self.network.causal and not self.pieces.before else 0

    @torch.inference_mode()
    def losses(self, texts: Sequence[Ints]) -> list[NDArray[np.float64]]:
        """-log p of the subwords of each text but the unpredicted one, ``(pieces,)``."""
        return (
            self._causal_losses(texts) if self.network.causal else [self._masked_losses(ids.tolist()) for ids in texts]
        )

    def _masked_losses(self, ids: list[int]) -> NDArray[np.float64]:
        """Each subword is masked in turn."""
        mask = self._mask()
        rows = [self._around(ids[:place], [mask], ids[place + 1 :]) for place in range(len(ids))]
        losses = np.zeros(len(ids))
        for start in range(0, len(rows), MASKED_AT_ONCE):
            chosen = rows[start : start + MASKED_AT_ONCE]
            scores = self._log_probabilities(chosen, [row.at for row in chosen])
            targets = torch.tensor(ids[start : start + MASKED_AT_ONCE])
            losses[start : start + len(chosen)] = -scores.gather(1, targets[:, None])[:, 0].numpy()
        return losses

    def _causal_losses(self, texts: Sequence[Ints]) -> list[NDArray[np.float64]]:
        before = self.pieces.before
        jobs = [
            (number, window)
            for number, ids in enumerate(texts)
            for window in windows(len(ids), self.runner.room, causal=True)
        ]
        rows = [[*before, *texts[number][window.start : window.end].tolist()] for number, window in jobs]
        parts: list[list[NDArray[np.float64]]] = [[np.zeros(0)] for _ in texts]
        for (number, window), losses in zip(jobs, self._row_losses(rows), strict=True):
            first = len(before) + window.first - window.start
            parts[number].append(losses[max(first, 1) - 1 :])
        return [np.concatenate(losses) for losses in parts]

    def _row_losses(self, rows: Sequence[list[int]]) -> list[NDArray[np.float64]]:
        """-log p of every subword but the first of each row, with a causal model."""
        lengths = [len(row) for row in rows]
        by_row = [np.zeros(0)] * len(rows)
        longest_first = sorted((n for n, length in enumerate(lengths) if length > 1), key=lambda n: -lengths[n])
        for chosen in _by_budget(longest_first, lengths):
            batch = self._padded([rows[n] for n in chosen])
            sizes = np.array([lengths[n] - 1 for n in chosen])
            inputs, places = torch.nonzero(torch.arange(sizes[0]) < torch.from_numpy(sizes)[:, None], as_tuple=True)
            scores = torch.log_softmax(self.network.expected(batch, inputs, places), dim=1)
            losses = -scores.gather(1, batch.ids[inputs, places + 1][:, None])[:, 0]
            ends = np.cumsum(sizes)
            for n, part in zip(chosen, np.split(losses.numpy().astype(np.float64), ends[:-1]), strict=True):
                by_row[n] = part
        return by_row

    def _surprise(self, rows: Sequence[list[int]], starts: Sequence[int]) -> list[float]:
        """For each row, the sum of -log p from the position in ``starts`` on."""
        losses = self._row_losses(rows)
        return [float(row[start - 1 :].sum()) for row, start in zip(losses, starts, strict=True)]

    # ---- generation

    def generate(
        self, ids: list[int], length: int, *, temperature: float, top_k: int, top_p: float, seed: int
    ) -> list[int]:
        """``length`` new subwords that follow ``ids``, or fewer if the model ends the text."""
        end = self.pieces.id_of("eos")
        written = [*self.pieces.before, *ids] or [n for n in (self.pieces.id_of("bos"), end, 0) if n is not None][:1]
        n_given = len(written)
        settings = {
            "do_sample": temperature > 0, "pad_token_id": self.runner.padding,
            "eos_token_id": end, "top_k": top_k or None, "top_p": top_p, "num_return_sequences": 1,
        }  # fmt: skip
        if temperature > 0:
            settings["temperature"] = temperature
        with offline(), torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(seed)
            while (missing := length - (len(written) - n_given)) > 0:
                seen = written[-max(self.runner.limit // 2, 1) :]
                n_new = min(missing, self.runner.limit - len(seen))
                whole = self.network.whole.generate(torch.tensor([seen]), max_new_tokens=n_new, **settings)[0].tolist()
                new = whole[len(seen) :]
                written += [n for n in new if n != end]
                if end in new or not new:
                    break
        return written[n_given:]


def _best(beams: list[tuple[list[int], float]], scores: Tensor, width: int) -> list[tuple[list[int], float]]:
    """The ``width`` best beams, extended by one subword."""
    totals = scores + torch.tensor([score for _, score in beams])[:, None]
    best = torch.topk(totals.reshape(-1), min(width, totals.numel()))
    size = scores.shape[1]
    extended = [
        ([*beams[place // size][0], place % size], score)
        for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
    return [beam for beam in extended if beam[1] > -math.inf]


def _by_budget(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows in batches of about ``BATCH_PIECES`` subwords; ``order`` has the longest first."""
    start = 0
    while start < len(order):
        n = max(BATCH_PIECES // max(lengths[order[start]], 1), 1)
        yield list(order[start : start + n])
        start += n


def split_at_masks(text: str, *names: str) -> list[str]:
    """The parts of a text between its masks, which may be written as any of ``names``."""
    return re.split("|".join(map(re.escape, names)), text)
