"""The compiled kernel of word2vec and fastText does what plain NumPy does."""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
import pytest

from polyseme.interfaces import silent
from polyseme.words.character_ngrams import marked
from polyseme.words.epochs import chunk_bounds, preparing
from polyseme.words.kernels.huffman import huffman_tree, no_tree
from polyseme.words.kernels.ngrams import ngram_hashes
from polyseme.words.kernels.predict import InputRows, Objective, Text, train_chunk
from polyseme.words.kernels.rows import alias_table, draw, logistic, logistic_table, padded, random_state
from polyseme.words.word2vec import keep_chances, read_only

SENTENCES = [[0, 1, 2, 1, 0, 2, 2, 1], [2, 0], [1, 1, 0], [0]]
WHOLE_WORDS = [[0], [1], [2]]
WITH_NGRAMS = [[0, 3, 4], [1, 4, 5, 6], [2]]
DIM = 20


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


class Reference:
    """word2vec and fastText in plain NumPy; window 1, all other words as negative samples, no subsampling.

    ``rows_of[w]`` are the input rows of a word, ``targets(w)`` its output rows and their signs."""

    def __init__(self, inputs, outputs, rows_of, targets, lr, *, skipgram):
        self.inputs, self.outputs = inputs.astype(np.float64), outputs.astype(np.float64)
        self.rows_of, self.targets, self.lr, self.skipgram = rows_of, targets, lr, skipgram
        self.loss, self.predictions = 0.0, 0

    def predict(self, x: np.ndarray, ids: list[int], signs: np.ndarray) -> np.ndarray:
        """One step for the hidden vectors x (n, D) together; returns what to add to them."""
        y = self.outputs[ids]
        z = signs * (x @ y.T)
        self.loss += np.logaddexp(0, -z).sum()
        steps = self.lr * signs * sigmoid(-z)
        self.outputs[ids] += steps.T @ x
        return steps @ y

    def sentence(self, words: list[int]) -> None:
        """Train on a sentence. A word in the window (of three) is updated on a copy of its mean; its change is added
        to its rows when it leaves the window."""
        now, then = {}, {}

        def leave(place: int) -> None:
            learned = now.pop(place) - then.pop(place)
            for row in self.rows_of[words[place]]:
                self.inputs[row] += learned

        for centre, word in enumerate(words):
            for place in (centre, centre + 1):
                if place < len(words) and place not in now:
                    if place - 3 in now:
                        leave(place - 3)
                    now[place] = self.inputs[self.rows_of[words[place]]].mean(axis=0)
                    then[place] = now[place].copy()
            around = [place for place in (centre - 1, centre + 1) if 0 <= place < len(words)]
            ids, signs = self.targets(word)
            if self.skipgram:
                steps = self.predict(np.stack([now[place] for place in around]), ids, signs)
                self.predictions += len(around)
            else:
                shares = np.array([len(self.rows_of[words[place]]) for place in around], dtype=float)
                mean = (shares[:, None] * np.stack([now[p] for p in around])).sum(axis=0) / shares.sum()
                steps = np.repeat(self.predict(mean[None], ids, signs), len(around), axis=0)
                self.predictions += 1
            for place, step in zip(around, steps, strict=True):
                now[place] = now[place] + step
        for place in sorted(now):
            leave(place)


def as_csr(lists):
    offsets = np.cumsum([0, *(len(one) for one in lists)]).astype(np.int64)
    return offsets, np.array([i for one in lists for i in one], dtype=np.int32)


def trained(rows_of, *, skipgram, hierarchical, lr, inputs, outputs):
    """Inputs, outputs, loss and predictions after the kernel was trained on SENTENCES once."""
    offsets, ids = as_csr(SENTENCES)
    keep = np.full(3, 0xFFFFFFFF, np.uint32)
    text = Text(read_only(ids), read_only(offsets), keep, np.arange(3, dtype=np.int32))
    counts = np.array([5, 4, 3])
    tree = huffman_tree(counts) if hierarchical else no_tree()
    objective = Objective(1, 2, skipgram, hierarchical)
    result = np.zeros(2)
    inputs_of = InputRows(*as_csr(rows_of), np.array([1 / len(rows) for rows in rows_of], dtype=np.float32))
    train_chunk(
        text, 0, len(ids), inputs_of, alias_table(counts**0.75), tree, objective, inputs, outputs,
        lr, lr, random_state(1), logistic_table(), result,
    )  # fmt: skip
    return tree, result


@pytest.mark.parametrize("skipgram", [True, False], ids=["skipgram", "cbow"])
@pytest.mark.parametrize("hierarchical", [False, True], ids=["negative", "hierarchical"])
@pytest.mark.parametrize("rows_of", [WHOLE_WORDS, WITH_NGRAMS], ids=["words", "ngrams"])
def test_a_pass_over_the_text_is_that_of_numpy(skipgram, hierarchical, rows_of):
    random = np.random.default_rng(3)
    inputs, outputs = padded(7, DIM), padded(3, DIM)
    inputs[:, :DIM] = random.normal(size=(7, DIM)) * 0.4
    outputs[:, :DIM] = random.normal(size=(3, DIM)) * 0.4
    before, lr = (inputs.copy(), outputs.copy()), 0.1
    tree, result = trained(rows_of, skipgram=skipgram, hierarchical=hierarchical, lr=lr, inputs=inputs, outputs=outputs)

    def targets(word):
        if hierarchical:
            way = slice(tree.offsets[word], tree.offsets[word + 1])
            return tree.nodes[way].tolist(), tree.signs[way].astype(float)
        others = [w for w in range(3) if w != word]
        return [word, *others], np.array([1.0, -1.0, -1.0])

    reference = Reference(*before, rows_of, targets, lr, skipgram=skipgram)
    for sentence in SENTENCES[:3]:
        reference.sentence(sentence)
    assert result[1] == reference.predictions
    # The kernel rounds a logit to 1/64, which moves a step by at most lr/512.
    np.testing.assert_allclose(result[0], reference.loss, rtol=2e-3)
    np.testing.assert_allclose(inputs, reference.inputs, atol=2e-3)
    np.testing.assert_allclose(outputs, reference.outputs, atol=2e-3)
    moved = np.abs(reference.inputs - before[0]).max()
    assert moved > 0.1  # so the tolerance means something
    assert not inputs[:, DIM:].any()  # the padding stays zero


def test_the_loss_of_knowing_nothing_is_log_two_for_every_row():
    inputs, outputs = padded(3, DIM), padded(3, DIM)
    _, result = trained(WHOLE_WORDS, skipgram=True, hierarchical=False, lr=0.0, inputs=inputs, outputs=outputs)
    assert result[1] == 14 + 2 + 4
    assert result[0] / result[1] == pytest.approx(3 * math.log(2), rel=1e-6)


@pytest.mark.parametrize("z", [-1000.0, -20.0, -3.1, 0.0, 0.4, 7.7, 15.9, 500.0])
def test_loss_and_step_of_one_logit(z):
    logits = np.array([z, 0, 0, 0, 0, 0], dtype=np.float32)
    signs = np.ones((2, 1), dtype=np.float32)
    loss = logistic(logits, signs, 0, 1, 1, np.float32(0.5), logistic_table())
    assert loss == pytest.approx(np.logaddexp(0, -z), abs=1 / 100, rel=1e-6)
    assert logits[0] == pytest.approx(0.5 / (1 + math.exp(min(z, 700))), abs=0.5 / 256)
    assert not logits[2:].any()


def test_the_alias_table_draws_in_proportion():
    weights = np.array([50.0, 1.0, 9.0, 40.0, 0.5])
    table, state = alias_table(weights), random_state(5)
    n = 100_000
    drawn = np.bincount([draw(state, table.threshold, table.other) for _ in range(n)], minlength=5)
    share = weights / weights.sum()
    deviations = (drawn - n * share) / np.sqrt(n * share * (1 - share))
    assert np.abs(deviations).max() < 4


def test_the_tree_is_a_shortest_code():
    counts = np.sort(np.random.default_rng(0).zipf(1.3, 200).clip(max=10**9))[::-1].astype(np.int64)
    tree = huffman_tree(counts)
    lengths = np.diff(tree.offsets)
    heap = counts.tolist()
    heapq.heapify(heap)
    best = 0
    while len(heap) > 1:  # the cost of a Huffman code is the sum of its inner nodes' weights
        merged = heapq.heappop(heap) + heapq.heappop(heap)
        best += merged
        heapq.heappush(heap, merged)
    assert (lengths * counts).sum() == best
    assert (0.5**lengths).sum() == pytest.approx(1.0)
    assert tree.depth == lengths.max()
    ways = {tuple(zip(tree.nodes[a:b].tolist(), tree.signs[a:b].tolist(), strict=True))
            for a, b in zip(tree.offsets[:-1], tree.offsets[1:], strict=True)}  # fmt: skip
    assert len(ways) == len(counts)
    assert {way[0][0] for way in ways} == {len(counts) - 2}  # all begin at the root


def test_hashes_of_ngrams_are_those_of_the_fasttext_program():
    # get_subwords() of a fasttext model with minn=1, maxn=4 and 2,000,000 buckets.
    known = {
        "北京": [742543, 1187847, 1502395, 1396585, 1908609, 782253, 1478085, 1783713],
        "hello": [1565417, 1188580, 128664, 1000791, 1363254, 1613742, 1198310, 891744, 693732, 1992344, 798165,
                  1890315, 889637, 617342, 350912, 1890315, 556780, 1504790, 667934, 600544],
        "</s>": [],
        "é€😀": [36627, 751181, 1151440, 1043777, 1923927, 717062, 1005736, 493227, 701362, 321764, 31496, 512514],
    }  # fmt: skip
    offsets, hashes = ngram_hashes([marked(word, "</s>") for word in known], 1, 4, marked=True)
    buckets = (hashes % np.uint32(2_000_000)).tolist()
    found = [buckets[a:b] for a, b in itertools.pairwise(offsets)]
    assert found == list(known.values())


def test_frequent_words_are_kept_as_seldom_as_word2vec_c_keeps_them():
    # (sqrt(f / sample) + 1) * sample / f for f = 0.5, 0.01, 0.0001 and sample = 0.001
    chances = keep_chances(np.array([5000, 100, 1, 4899]), 1e-3) / 2**32
    np.testing.assert_allclose(chances[:3], [0.0467214, 0.4162278, 1.0], atol=1e-6)
    assert (keep_chances(np.array([5, 1]), 0.0) == 0xFFFFFFFF).all()


def test_what_breaks_off_the_compiling_comes_through():
    for reason, raised in ((KeyboardInterrupt, KeyboardInterrupt), (ZeroDivisionError, RuntimeError)):
        with pytest.raises(raised), preparing(silent):
            try:
                raise reason
            finally:
                raise RuntimeError("no compiled object yet")


def test_chunks_end_between_sentences_unless_one_is_very_long():
    bounds = chunk_bounds(np.array([0, 7, 12, 20, 500, 503]), 10)
    assert bounds[0] == 0
    assert bounds[-1] == 503
    assert {12, 20} <= set(bounds.tolist())
    assert np.diff(bounds).max() <= 20
    assert (np.diff(bounds) > 0).all()
