"""Compiled: a document's vector and the words of a window, around each centre word of the document."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.interfaces import FloatArray
from polyseme.words.kernels.predict import AHEAD, contrast, skipgram_pairs, stage, unstage
from polyseme.words.kernels.random import below
from polyseme.words.kernels.rows import FAST, INLINE, LANES, REACH, STEPS, F, predict_pair, prefetch_row


@njit(**FAST)
def predict_from_windows(
    words: NDArray[np.int32],
    n: int,
    threshold: NDArray[np.uint32],
    other: NDArray[np.int32],
    window: int,
    negative: int,
    mean: bool,
    learns: bool,
    inputs: FloatArray,
    outputs: FloatArray,
    lr: np.float32,
    state: NDArray[np.uint64],
    table: FloatArray,
    hidden: FloatArray,
    before: FloatArray,
    rows: FloatArray,
    logits: FloatArray,
    targets: NDArray[np.int64],
    signs: FloatArray,
) -> float:
    """Predict each centre word from the mean of its document and window (dm), or train its pairs (dbow-words)."""
    ring, width = 2 * window + 1, inputs.shape[1] // LANES
    document = ring + 2
    loss, entered, n_next = 0.0, 0, 0
    for t in range(-1, n):
        n_rows, half = n_next, t & 1
        if t + 1 < n:
            n_next = contrast(words[t + 1], negative, threshold, other, state, 1 - half, targets, signs)
            for j in range(n_next):
                prefetch_row(outputs, targets[1 - half, j], width)
        if t < 0:
            continue
        if t + window + AHEAD < n:
            prefetch_row(inputs, np.int64(words[t + window + AHEAD]), width)
        while entered < min(n, t + window + 1):
            slot = entered % ring
            if entered >= ring and learns:
                _leave(words[entered - ring], slot, inputs, width, hidden, before)
            _enter(words[entered], slot, inputs, width, hidden, before)
            entered += 1
        reach = 1 + below(state, window)
        first, last = max(0, t - reach), min(n - 1, t + reach)
        stage(outputs, targets, half, n_rows, width, rows)
        if mean:
            _gather(first, t, last, ring, document, hidden, width)
            loss += predict_pair(hidden, ring, ring, 1, rows, signs, half, n_rows, width, lr, table, logits)
            _spread(first, t, last, ring, document, learns, hidden, width)
        else:
            if learns:
                skipgram_pairs(first, t, last, ring, hidden, rows, signs, half, n_rows, width, lr, table, logits)
            loss += predict_pair(hidden, document, document, 1, rows, signs, half, n_rows, width, lr, table, logits)
        if learns:
            unstage(outputs, targets, half, n_rows, width, rows)
    if learns:
        for left in range(max(0, entered - ring), entered):
            _leave(words[left], left % ring, inputs, width, hidden, before)
    return loss


@njit(**INLINE)
def _enter(word: int, slot: int, inputs: FloatArray, width: int, hidden: FloatArray, before: FloatArray) -> None:
    for d in range(LANES * width):
        value = inputs[word, d]
        hidden[slot, d] = value
        before[slot, d] = value


@njit(**INLINE)
def _leave(word: int, slot: int, inputs: FloatArray, width: int, hidden: FloatArray, before: FloatArray) -> None:
    for d in range(LANES * width):
        inputs[word, d] += hidden[slot, d] - before[slot, d]


@njit(**INLINE)
def _gather(first: int, centre: int, last: int, ring: int, document: int, hidden: FloatArray, width: int) -> None:
    """Compute the mean of the document and the context words, and a copy of it to subtract later."""
    mean = ring
    for d in range(LANES * width):
        hidden[mean, d] = hidden[document, d]
    for c in range(first, last + 1):
        if c != centre:
            slot = c % ring
            for d in range(LANES * width):
                hidden[mean, d] += hidden[slot, d]
    scale = F(1) / F(last - first + 1)
    for d in range(LANES * width):
        value = hidden[mean, d] * scale
        hidden[mean, d] = value
        hidden[mean + 1, d] = value


@njit(**INLINE)
def _spread(
    first: int, centre: int, last: int, ring: int, document: int, learns: bool, hidden: FloatArray, width: int
) -> None:
    """Add the change of the mean to the document and, if ``learns``, to the context words."""
    mean = ring
    for d in range(LANES * width):
        hidden[mean, d] -= hidden[mean + 1, d]
    for d in range(LANES * width):
        hidden[document, d] += hidden[mean, d]
    if learns:
        for c in range(first, last + 1):
            if c != centre:
                slot = c % ring
                for d in range(LANES * width):
                    hidden[slot, d] += hidden[mean, d]


@njit(**FAST)
def predict_from_places(
    words: NDArray[np.int32],
    n: int,
    threshold: NDArray[np.uint32],
    other: NDArray[np.int32],
    window: int,
    negative: int,
    learns: bool,
    inputs: FloatArray,
    outputs: FloatArray,
    lr: np.float32,
    state: NDArray[np.uint64],
    table: FloatArray,
    hidden: FloatArray,
    side: FloatArray,
    targets: NDArray[np.int64],
    signs: FloatArray,
) -> float:
    """Predict each centre word from the concatenated vectors of its document and a full window (dm-concat).

    Positions outside the text are zeros.
    """
    columns, document = inputs.shape[1], 2 * window + 3
    joined, step = side[0], side[1]
    loss = 0.0
    for t in range(n):
        joined[:columns] = hidden[document]
        for place in range(2 * window):
            neighbour = t - window + place + (1 if place >= window else 0)
            part = joined[(1 + place) * columns : (2 + place) * columns]
            if 0 <= neighbour < n:
                part[:] = inputs[words[neighbour]]
            else:
                part[:] = F(0)
        n_rows = contrast(words[t], negative, threshold, other, state, 0, targets, signs)
        step[:] = F(0)
        for j in range(n_rows):
            row, sign = outputs[targets[0, j]], signs[0, j]
            z = F(0)
            for d in range(row.size):
                z += joined[d] * row[d]
            z *= sign
            near = min(max(z, F(-REACH)), F(REACH - 1 / STEPS))
            i = np.int64(near * F(STEPS) + F(REACH * STEPS + 0.5)) & (2 * REACH * STEPS - 1)
            loss += table[i, 1]
            g = lr * sign * table[i, 0]
            for d in range(row.size):
                step[d] += g * row[d]
            if learns:
                for d in range(row.size):
                    row[d] += g * joined[d]
        hidden[document] += step[:columns]
        if learns:
            for place in range(2 * window):
                neighbour = t - window + place + (1 if place >= window else 0)
                if 0 <= neighbour < n:
                    inputs[words[neighbour]] += step[(1 + place) * columns : (2 + place) * columns]
    return loss
