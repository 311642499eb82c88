"""Compiled: skip-gram and CBOW over a piece of text, with negative sampling or hierarchical softmax.

One kernel serves word2vec, fastText and cw2vec: a word's hidden vector is the mean or the sum of its input rows (in
word2vec, one row). The words of the window are held in a ring buffer of hidden vectors. A word enters the ring
``window`` words before it becomes the centre, is updated in place while it is in the window, and adds its change to its
input rows when it leaves. So the rows of, say, twenty n-grams are read and written once for each word of the text, not
for each prediction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.words.kernels.rows import (
    FAST,
    INLINE,
    LANES,
    ROW,
    Alias,
    F,
    below,
    draw,
    next_random,
    predict_pair,
    prefetch_row,
)

PIECE = 4096  # words of a sentence trained at a time; longer sentences are cut
AHEAD = 3  # a word's rows are prefetched this many words before they are read
TRIES = 20  # draws for a negative sample before the words next to the last draw are taken instead


class Text(NamedTuple):
    """A corpus, and how its words map to the vocabulary."""

    ids: NDArray[np.int32]
    offsets: Ints  # of sentences, into ids
    keep: NDArray[np.uint32]  # id -> probability of being kept, times 2³²; 0 outside the vocabulary
    numbers: NDArray[np.int32]  # id -> index in the vocabulary


class InputRows(NamedTuple):
    """Input rows of each word, ``ids[offsets[w]:offsets[w + 1]]``; its hidden vector is their sum times ``scale``."""

    offsets: Ints
    ids: NDArray[np.int32]
    scale: FloatArray  # (V,)


class Tree(NamedTuple):
    """The inner nodes on the path from the root to each word; the sign (1 or -1) is the side the path takes."""

    offsets: Ints
    nodes: NDArray[np.int32]
    signs: FloatArray
    depth: int  # of the deepest word


class Objective(NamedTuple):
    """What is trained, and how."""

    window: int
    negative: int
    skipgram: bool
    hierarchical: bool


@njit(**FAST)
def train_chunk(
    text: Text,
    begin: int,
    end: int,
    inputs_of: InputRows,
    alias: Alias,
    tree: Tree,
    objective: Objective,
    inputs: FloatArray,
    outputs: FloatArray,
    lr_begin: float,
    lr_end: float,
    state: NDArray[np.uint64],
    table: FloatArray,
    result: NDArray[np.float64],
) -> None:
    """Train on the words ``begin`` … ``end`` of the text; set ``result`` to (loss, number of predictions).

    The width P of inputs (rows, P) and outputs (V or nodes, P) is a multiple of LANES. The learning rate changes
    linearly from ``lr_begin`` to ``lr_end``.
    """
    ring, columns = 2 * objective.window + 1, inputs.shape[1]
    most = tree.depth if objective.hierarchical else objective.negative + 1
    filled = 3 * ((most + 2) // 3)
    hidden = np.zeros((ring + 2, columns), F)  # the ring, the CBOW mean, and the mean before it learned
    before = np.zeros((ring, columns), F)  # the ring as it was when each word entered
    rows = np.zeros(filled * int(ROW), F)  # staged output rows
    logits = np.zeros(2 * filled, F)
    targets = np.zeros((2, most), np.int64)  # output rows of this centre and of the next
    signs = np.zeros((2, most), F)
    words = np.empty(PIECE, np.int32)
    loss, predictions = 0.0, 0
    sentence = np.searchsorted(text.offsets, begin, side="right") - 1
    at = begin
    while at < end:
        while text.offsets[sentence + 1] <= at:
            sentence += 1
        stop = min(end, text.offsets[sentence + 1])
        lr = F(lr_begin + (lr_end - lr_begin) * (at - begin) / (end - begin))
        n = 0
        while at < stop and n < PIECE:
            word = text.ids[at]
            at += 1
            if text.keep[word] and np.uint32(next_random(state) >> np.uint64(32)) <= text.keep[word]:
                words[n] = text.numbers[word]
                n += 1
        if n > 1:
            more, count = _train_sentence(
                words, n, inputs_of.offsets, inputs_of.ids, inputs_of.scale, alias.threshold, alias.other,
                tree.offsets, tree.nodes, tree.signs, objective.window,
                objective.negative, objective.skipgram, objective.hierarchical,
                inputs, outputs, lr, state, table, hidden, before, rows, logits, targets, signs,
            )  # fmt: skip
            loss += more
            predictions += count
    result[0] = loss
    result[1] = predictions


@njit(**FAST)
def _train_sentence(
    words: NDArray[np.int32],
    n: int,
    inputs_offsets: Ints,
    inputs_ids: NDArray[np.int32],
    inputs_scale: FloatArray,
    threshold: NDArray[np.uint32],
    other: NDArray[np.int32],
    tree_offsets: Ints,
    tree_nodes: NDArray[np.int32],
    tree_signs: FloatArray,
    window: int,
    negative: int,
    skipgram: bool,
    hierarchical: bool,
    inputs: FloatArray,
    outputs: FloatArray,
    lr: np.float32,
    state: NDArray[np.uint64],
    table: FloatArray,
    hidden: FloatArray,
    before: FloatArray,
    rows: FloatArray,
    logits: FloatArray,
    targets: Ints,
    signs: FloatArray,
) -> tuple[float, int]:
    ring, width = 2 * window + 1, inputs.shape[1] // LANES
    loss, predictions, entered, n_next = 0.0, 0, 0, 0
    for t in range(-1, n):
        n_rows, half = n_next, t & 1
        if t + 1 < n:  # choose the output rows of the next centre now, so that they can be prefetched
            if hierarchical:
                n_next = _way_to(words[t + 1], tree_offsets, tree_nodes, tree_signs, 1 - half, targets, signs)
            else:
                n_next = contrast(words[t + 1], negative, threshold, other, state, 1 - half, targets, signs)
            for j in range(n_next):
                prefetch_row(outputs, targets[1 - half, j], width)
        if t < 0:
            continue
        if t + window + AHEAD < n:
            word = words[t + window + AHEAD]
            for i in range(inputs_offsets[word], inputs_offsets[word + 1]):
                prefetch_row(inputs, np.int64(inputs_ids[i]), width)
        while entered < min(n, t + window + 1):
            if entered >= ring:
                _leave(words[entered - ring], entered % ring, inputs_offsets, inputs_ids, inputs, width, hidden, before)
            _enter(
                words[entered], entered % ring, inputs_offsets, inputs_ids, inputs_scale, inputs, width, hidden, before
            )
            entered += 1
        reach = 1 + below(state, window)
        first, last = max(0, t - reach), min(n - 1, t + reach)
        stage(outputs, targets, half, n_rows, width, rows)
        if skipgram:
            loss += skipgram_pairs(first, t, last, ring, hidden, rows, signs, half, n_rows, width, lr, table, logits)
            predictions += last - first
        else:
            _gather(words, first, t, last, ring, inputs_offsets, hidden, width)
            loss += predict_pair(hidden, ring, ring, 1, rows, signs, half, n_rows, width, lr, table, logits)
            _spread(first, t, last, ring, hidden, width)
            predictions += 1
        unstage(outputs, targets, half, n_rows, width, rows)
    for left in range(max(0, entered - ring), entered):
        _leave(words[left], left % ring, inputs_offsets, inputs_ids, inputs, width, hidden, before)
    return loss, predictions


@njit(**INLINE)
def skipgram_pairs(
    first: int,
    centre: int,
    last: int,
    ring: int,
    hidden: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    half: int,
    n_rows: int,
    width: int,
    lr: np.float32,
    table: FloatArray,
    logits: FloatArray,
) -> float:
    """The pairs of the centre word, each from its context word's end: two at a time, the last alone if they are odd."""
    loss = 0.0
    n = last - first
    for pair in range(0, n, 2):
        a, b = first + pair, first + pair + 1
        a = a if a < centre else a + 1
        b = b if b < centre else b + 1
        alone = pair + 1 == n
        loss += predict_pair(
            hidden, a % ring, b % ring, 1 if alone else 2,
            rows, signs, half, n_rows, width, lr, table, logits,
        )  # fmt: skip
    return loss


@njit(**INLINE)
def _gather(
    words: NDArray[np.int32],
    first: int,
    centre: int,
    last: int,
    ring: int,
    inputs_offsets: Ints,
    hidden: FloatArray,
    width: int,
) -> None:
    """CBOW: compute the mean of all input rows of the context words, and a copy of it to subtract later."""
    mean, n_inputs = ring, 0
    for d in range(LANES * width):
        hidden[mean, d] = F(0)
    for c in range(first, last + 1):
        if c != centre:
            share, slot = inputs_offsets[words[c] + 1] - inputs_offsets[words[c]], c % ring
            n_inputs += share
            for d in range(LANES * width):
                hidden[mean, d] += F(share) * hidden[slot, d]
    scale = F(1) / F(n_inputs)
    for d in range(LANES * width):
        value = hidden[mean, d] * scale
        hidden[mean, d] = value
        hidden[mean + 1, d] = value


@njit(**INLINE)
def _spread(first: int, centre: int, last: int, ring: int, hidden: FloatArray, width: int) -> None:
    """CBOW: add the change of the mean to every context word."""
    mean = ring
    for d in range(LANES * width):
        hidden[mean, d] -= hidden[mean + 1, d]
    for c in range(first, last + 1):
        if c != centre:
            slot = c % ring
            for d in range(LANES * width):
                hidden[slot, d] += hidden[mean, d]


@njit(**INLINE)
def _way_to(
    centre: int,
    offsets: Ints,
    nodes: NDArray[np.int32],
    node_signs: FloatArray,
    half: int,
    targets: Ints,
    signs: FloatArray,
) -> int:
    """Hierarchical softmax: set the targets to the inner nodes above the centre word; return their number."""
    n_rows = int(offsets[centre + 1] - offsets[centre])
    for j in range(n_rows):
        targets[half, j] = nodes[offsets[centre] + j]
        signs[half, j] = node_signs[offsets[centre] + j]
    return n_rows


@njit(**INLINE)
def contrast(
    centre: int,
    negative: int,
    threshold: NDArray[np.uint32],
    other: NDArray[np.int32],
    state: NDArray[np.uint64],
    half: int,
    targets: Ints,
    signs: FloatArray,
) -> int:
    """Negative sampling: set the targets to the centre word and ``negative`` other, distinct words; return how many."""
    targets[half, 0] = centre
    signs[half, 0] = F(1)
    draw_others(1, negative, threshold, other, state, half, targets, signs)
    return negative + 1


@njit(**INLINE)
def draw_others(
    n_words: int,
    negative: int,
    threshold: NDArray[np.uint32],
    other: NDArray[np.int32],
    state: NDArray[np.uint64],
    half: int,
    targets: Ints,
    signs: FloatArray,
) -> None:
    """Append ``negative`` samples to the first ``n_words`` targets; all differ: a row staged twice loses an update."""
    for j in range(n_words, n_words + negative):
        word = draw(state, threshold, other)
        tries, k = 0, 0
        while k < j:
            k += 1
            if targets[half, k - 1] == word:
                tries += 1
                word = draw(state, threshold, other) if tries < TRIES else (word + 1) % threshold.size
                k = 0
        targets[half, j] = word
        signs[half, j] = F(-1)


@njit(**INLINE)
def stage(outputs: FloatArray, targets: Ints, half: int, n_rows: int, width: int, rows: FloatArray) -> None:
    for j in range(n_rows):
        start, target = np.uint64(j) * ROW, targets[half, j]
        for d in range(LANES * width):
            rows[start + np.uint64(d)] = outputs[target, d]


@njit(**INLINE)
def unstage(outputs: FloatArray, targets: Ints, half: int, n_rows: int, width: int, rows: FloatArray) -> None:
    for j in range(n_rows):
        start, target = np.uint64(j) * ROW, targets[half, j]
        for d in range(LANES * width):
            outputs[target, d] = rows[start + np.uint64(d)]


@njit(**INLINE)
def _enter(
    word: int,
    slot: int,
    offsets: Ints,
    ids: NDArray[np.int32],
    scales: FloatArray,
    inputs: FloatArray,
    width: int,
    hidden: FloatArray,
    before: FloatArray,
) -> None:
    """Set a word's hidden vector to the scaled sum of its input rows."""
    row = ids[offsets[word]]
    for d in range(LANES * width):
        hidden[slot, d] = inputs[row, d]
    for i in range(offsets[word] + 1, offsets[word + 1]):
        row = ids[i]
        for d in range(LANES * width):
            hidden[slot, d] += inputs[row, d]
    scale = scales[word]
    for d in range(LANES * width):
        value = hidden[slot, d] * scale
        hidden[slot, d] = value
        before[slot, d] = value


@njit(**INLINE)
def _leave(
    word: int,
    slot: int,
    offsets: Ints,
    ids: NDArray[np.int32],
    inputs: FloatArray,
    width: int,
    hidden: FloatArray,
    before: FloatArray,
) -> None:
    """Add the change of the hidden vector to each of the word's input rows."""
    for i in range(offsets[word], offsets[word + 1]):
        row = ids[i]
        for d in range(LANES * width):
            inputs[row, d] += hidden[slot, d] - before[slot, d]
