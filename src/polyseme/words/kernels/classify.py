"""Compiled: fastText's classifier. A text's vector is the mean of its rows; a linear layer predicts the label."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.words.kernels.predict import Tree
from polyseme.words.kernels.rows import FAST, INLINE, LANES, REACH, STEPS, Alias, F, draw, next_random, prefetch_row

SOFTMAX, NEGATIVE, HIERARCHICAL, ONE_VS_ALL = range(4)
AHEAD = 8  # rows are prefetched this many rows before they are read
_WORD_PRIME = np.uint64(116049371)  # fastText's hash of several words


@njit(nogil=True, cache=True)
def text_rows(
    words: Ints,
    offsets: Ints,
    word_offsets: Ints,
    word_rows: Ints,
    hashes: NDArray[np.uint32],
    word_ngrams: int,
    n_words: int,
    n_buckets: int,
    places: NDArray[np.int32],
    into: NDArray[np.int32],
) -> Ints:
    """Write the rows of each text (those of its words, then of its word n-grams) to ``into``; return their offsets.

    Text t is ``words[offsets[t]:offsets[t + 1]]``; the rows of a word and of its character n-grams are
    ``word_rows[word_offsets[w]:word_offsets[w + 1]]``, its hash is ``hashes[w]``. ``places`` maps a bucket to its row,
    -1 for none; if it is empty, bucket b has row b. If ``into`` has size 0, rows are only counted.
    """
    ends = np.zeros(len(offsets), np.int64)
    found = 0
    for t in range(len(offsets) - 1):
        for i in range(offsets[t], offsets[t + 1]):
            for k in range(word_offsets[words[i]], word_offsets[words[i] + 1]):
                if len(into):
                    into[found] = word_rows[k]
                found += 1
        if n_buckets:
            for i in range(offsets[t], offsets[t + 1]):
                h = np.uint64(np.int64(np.int32(hashes[words[i]])))  # signed, as fastText keeps it
                for j in range(i + 1, min(i + word_ngrams, offsets[t + 1])):
                    h = h * _WORD_PRIME + np.uint64(np.int64(np.int32(hashes[words[j]])))
                    bucket = np.int64(h % np.uint64(n_buckets))
                    row = bucket if not len(places) else np.int64(places[bucket])
                    if row >= 0:
                        if len(into):
                            into[found] = n_words + row
                        found += 1
        ends[t + 1] = found
    return ends


@njit(nogil=True, cache=True)
def mean_rows(rows: NDArray[np.int32], offsets: Ints, inputs: FloatArray, means: FloatArray) -> None:
    """Set ``means`` (texts, D) to the mean of each text's rows; zeros for a text without any."""
    for t in range(len(offsets) - 1):
        n = offsets[t + 1] - offsets[t]
        mean = means[t]
        mean[:] = F(0)
        for i in range(offsets[t], offsets[t + 1]):
            row = inputs[rows[i]]
            for d in range(len(mean)):
                mean[d] += row[d]
        if n:
            for d in range(len(mean)):
                mean[d] /= F(n)


@njit(**FAST)
def train_texts(
    rows: NDArray[np.int32],
    offsets: Ints,
    order: Ints,
    labels: NDArray[np.int32],
    loss_kind: int,
    negative: int,
    alias: Alias,
    tree: Tree,
    inputs: FloatArray,
    outputs: FloatArray,
    lr_begin: float,
    lr_end: float,
    state: NDArray[np.uint64],
    table: FloatArray,
    result: NDArray[np.float64],
) -> None:
    """Train on the texts in ``order``; set ``result`` to (loss, number of texts).

    The width P of inputs (rows, P) and outputs (labels or nodes, P) is a multiple of LANES.
    """
    columns, n_outputs = inputs.shape[1], outputs.shape[0]
    width = columns // LANES
    hidden, slope = np.zeros(columns, F), np.zeros(columns, F)
    scores = np.zeros(n_outputs, F)
    loss = 0.0
    for number in range(len(order)):
        t = order[number]
        begin, end = offsets[t], offsets[t + 1]
        if begin == end:
            continue
        lr = F(lr_begin + (lr_end - lr_begin) * number / len(order))
        _gather(rows, begin, end, inputs, width, hidden)
        for d in range(LANES * width):
            slope[d] = F(0)
        if loss_kind == SOFTMAX:
            loss += _softmax(labels[t], outputs, width, hidden, slope, scores, lr)
        elif loss_kind == HIERARCHICAL:
            for k in range(tree.offsets[labels[t]], tree.offsets[labels[t] + 1]):
                loss += _binary(tree.nodes[k], -tree.signs[k], outputs, width, hidden, slope, lr, table)
        elif loss_kind == ONE_VS_ALL:
            for k in range(n_outputs):
                loss += _binary(k, F(1) if k == labels[t] else F(-1), outputs, width, hidden, slope, lr, table)
        else:
            loss += _binary(labels[t], F(1), outputs, width, hidden, slope, lr, table)
            for _ in range(negative):
                other = draw(state, alias.threshold, alias.other)
                while other == labels[t] and n_outputs > 1:
                    other = draw(state, alias.threshold, alias.other)
                loss += _binary(other, F(-1), outputs, width, hidden, slope, lr, table)
        scale = F(1) / F(end - begin)
        for d in range(LANES * width):
            slope[d] *= scale
        after = order[number + 1] if number + 1 < len(order) else t
        ahead, stop = offsets[after], offsets[after + 1]
        for i in range(begin, end):
            if ahead < stop:  # prefetch the rows of the next text
                prefetch_row(inputs, np.int64(rows[ahead]), width)
                ahead += 1
            row = rows[i]
            for d in range(LANES * width):
                inputs[row, d] += slope[d]
    next_random(state)
    result[0] = loss
    result[1] = len(order)


@njit(**INLINE)
def _gather(rows: NDArray[np.int32], begin: int, end: int, inputs: FloatArray, width: int, hidden: FloatArray) -> None:
    for d in range(LANES * width):
        hidden[d] = F(0)
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch_row(inputs, np.int64(rows[i + AHEAD]), width)
        row = rows[i]
        for d in range(LANES * width):
            hidden[d] += inputs[row, d]
    scale = F(1) / F(end - begin)
    for d in range(LANES * width):
        hidden[d] *= scale


@njit(**INLINE)
def _softmax(
    label: int,
    outputs: FloatArray,
    width: int,
    hidden: FloatArray,
    slope: FloatArray,
    scores: FloatArray,
    lr: np.float32,
) -> float:
    highest = F(-np.inf)
    for k in range(len(scores)):
        z = F(0)
        for d in range(LANES * width):
            z += hidden[d] * outputs[k, d]
        scores[k] = z
        highest = max(highest, z)
    total = F(0)
    for k in range(len(scores)):
        scores[k] = np.exp(scores[k] - highest)
        total += scores[k]
    own = scores[label] / total
    for k in range(len(scores)):
        step = lr * ((F(1) if k == label else F(0)) - scores[k] / total)
        for d in range(LANES * width):
            y = outputs[k, d]
            slope[d] += step * y
            outputs[k, d] = y + step * hidden[d]
    loss: float = -np.log(max(own, F(1e-30)))
    return loss


@njit(**INLINE)
def _binary(
    row: int,
    sign: np.float32,
    outputs: FloatArray,
    width: int,
    hidden: FloatArray,
    slope: FloatArray,
    lr: np.float32,
    table: FloatArray,
) -> float:
    """A step of logistic regression for one output row: z = ± h·y, step = ± lr σ(-z). Returns the loss."""
    z = F(0)
    for d in range(LANES * width):
        z += hidden[d] * outputs[row, d]
    z *= sign
    near = min(max(z, F(-REACH)), F(REACH - 1 / STEPS))
    i = np.int64(near * F(STEPS) + F(REACH * STEPS + 0.5)) & (2 * REACH * STEPS - 1)
    step = lr * sign * table[i, 0]
    for d in range(LANES * width):
        y = outputs[row, d]
        slope[d] += step * y
        outputs[row, d] = y + step * hidden[d]
    loss: float = table[i, 1] - (z + F(REACH) if z < F(-REACH) else F(0))
    return loss
