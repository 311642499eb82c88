"""Compiled: document vectors that predict the words of the document, alone or together with the context words.

``dbow``: the document's vector predicts its words. To fetch fewer rows, a few consecutive words share their negative
samples, which are weighted by the number of words that share them. ``dbow-words``: in addition, the pairs of
skip-gram, with the same output rows. ``dm``: the mean of the document's and the context words' vectors predicts the
centre word. ``dm-concat``: these vectors are concatenated, so each position of the window has its own part of an output
row.

If ``learns`` is false, only the document's vector is updated: this infers the vector of a new text.

Compiled: a document's vector and the words of a window, around each centre word of the document.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, Ints
from polyseme.words.kernels.predict import AHEAD, PIECE, Text, contrast, draw_others, skipgram_pairs, stage, unstage
from polyseme.words.kernels.rows import (
    FAST,
    INLINE,
    LANES,
    REACH,
    ROW,
    STEPS,
    Alias,
    F,
    below,
    learn_one,
    next_random,
    predict_pair,
    prefetch_row,
    products_of_one,
)  # fmt: skip


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
    targets: Ints,
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
    targets: Ints,
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


DBOW, DBOW_WORDS, DM, DM_CONCAT = 0, 1, 2, 3


class Plan(NamedTuple):
    """What is trained, and how."""

    kind: int  # DBOW …
    window: int
    negative: int
    together: int  # dbow: words that share their negative samples
    learns: bool  # update words and output rows too, not only the documents


@njit(**FAST)
def train_documents(
    text: Text,
    begin: int,
    end: int,
    alias: Alias,
    plan: Plan,
    documents: FloatArray,
    inputs: FloatArray,
    outputs: FloatArray,
    lr_begin: float,
    lr_end: float,
    state: NDArray[np.uint64],
    table: FloatArray,
    result: NDArray[np.float64],
) -> None:
    """Train on the words ``begin`` … ``end``; set ``result`` to (loss, number of predictions).

    ``text.offsets`` are those of the documents, whose vectors are the rows of ``documents`` (N, P). ``inputs`` is
    (V, P); ``outputs`` is (V, P), or (V, (1 + 2·window)·P) for dm-concat; P is a multiple of LANES.
    """
    ring, columns = 2 * plan.window + 1, documents.shape[1]
    most = plan.negative + plan.together
    filled = 3 * ((most + 2) // 3)
    hidden = np.zeros((ring + 3, columns), F)  # the ring, the mean, the mean before it learned, and the document
    before = np.zeros((ring, columns), F)
    rows = np.zeros(filled * int(ROW) if plan.kind != DM_CONCAT else 1, F)
    side = np.zeros((2, ring * columns if plan.kind == DM_CONCAT else 1), F)
    logits = np.zeros(2 * filled, F)
    targets = np.zeros((2, most), np.int64)
    signs = np.zeros((2, most), F)
    words = np.empty(PIECE, np.int32)
    loss, predictions = 0.0, 0
    document = np.searchsorted(text.offsets, begin, side="right") - 1
    at = begin
    while at < end:
        while text.offsets[document + 1] <= at:
            document += 1
        stop = min(end, text.offsets[document + 1])
        hidden[ring + 2] = documents[document]
        while at < stop:
            lr = F(lr_begin + (lr_end - lr_begin) * (at - begin) / (end - begin))
            n = 0
            while at < stop and n < PIECE:
                word = text.ids[at]
                at += 1
                if text.keep[word] and np.uint32(next_random(state) >> np.uint64(32)) <= text.keep[word]:
                    words[n] = text.numbers[word]
                    n += 1
            if plan.kind == DBOW:
                loss += _dbow(
                    words, n, alias.threshold, alias.other, plan.negative, plan.together, plan.learns,
                    outputs, lr, state, table, hidden, ring + 2, rows, logits, targets, signs,
                )  # fmt: skip
            elif plan.kind == DM_CONCAT:
                loss += predict_from_places(
                    words, n, alias.threshold, alias.other, plan.window, plan.negative, plan.learns, inputs, outputs,
                    lr, state, table, hidden, side, targets, signs,
                )  # fmt: skip
            else:
                loss += predict_from_windows(
                    words, n, alias.threshold, alias.other, plan.window, plan.negative, plan.kind == DM, plan.learns,
                    inputs, outputs, lr, state, table, hidden, before, rows, logits, targets, signs,
                )  # fmt: skip
            predictions += n
        documents[document] = hidden[ring + 2]
    result[0] = loss
    result[1] = predictions


@njit(**FAST)
def _dbow(
    words: NDArray[np.int32],
    n: int,
    threshold: NDArray[np.uint32],
    other: NDArray[np.int32],
    negative: int,
    together: int,
    learns: bool,
    outputs: FloatArray,
    lr: np.float32,
    state: NDArray[np.uint64],
    table: FloatArray,
    hidden: FloatArray,
    document: int,
    rows: FloatArray,
    logits: FloatArray,
    targets: Ints,
    signs: FloatArray,
) -> float:
    width = outputs.shape[1] // LANES
    loss, at, half = 0.0, 0, 0
    n_words = _share(words, 0, n, negative, together, threshold, other, state, half, targets, signs)
    while at < n:
        n_rows, following = n_words + negative, at + n_words
        n_next = 0
        if following < n:  # choose the next rows now, so that they can be prefetched
            n_next = _share(words, following, n, negative, together, threshold, other, state, 1 - half, targets, signs)
            for j in range(n_next + negative):
                prefetch_row(outputs, targets[1 - half, j], width)
        stage(outputs, targets, half, n_rows, width, rows)
        n_tiles = (n_rows + 2) // 3
        for q in range(n_tiles):
            products_of_one(hidden, document, rows, 3 * q, width, logits)
        loss += _weighed_steps(logits, signs, half, n_words, n_rows, lr, table)
        for q in range(n_tiles):
            learn_one(hidden, document, rows, 3 * q, width, logits)
        if learns:
            unstage(outputs, targets, half, n_rows, width, rows)
        at, half, n_words = following, 1 - half, n_next
    return loss


@njit(**INLINE)
def _share(
    words: NDArray[np.int32],
    at: int,
    n: int,
    negative: int,
    together: int,
    threshold: NDArray[np.uint32],
    other: NDArray[np.int32],
    state: NDArray[np.uint64],
    half: int,
    targets: Ints,
    signs: FloatArray,
) -> int:
    """Choose the next words (up to ``together``, all different) and their negative samples; return the word count."""
    n_words = 0
    while n_words < together and at + n_words < n:
        word = np.int64(words[at + n_words])
        known = False
        for k in range(n_words):
            known |= targets[half, k] == word
        if known:
            break
        targets[half, n_words] = word
        signs[half, n_words] = F(1)
        n_words += 1
    draw_others(n_words, negative, threshold, other, state, half, targets, signs)
    return n_words


@njit(**INLINE)
def _weighed_steps(
    logits: FloatArray,
    signs: FloatArray,
    half: int,
    n_words: int,
    n_rows: int,
    lr: np.float32,
    table: FloatArray,
) -> float:
    """Turn logits into steps and return the loss; a negative sample weighs as much as the words that share it."""
    loss = 0.0
    for j in range(n_rows):
        sign = signs[half, j]
        weight = F(1) if j < n_words else F(n_words)
        z = sign * logits[2 * j]
        near = min(max(z, F(-REACH)), F(REACH - 1 / STEPS))
        i = np.int64(near * F(STEPS) + F(REACH * STEPS + 0.5)) & (2 * REACH * STEPS - 1)
        loss += weight * table[i, 1]
        logits[2 * j] = lr * weight * sign * table[i, 0]
    for j in range(n_rows, 3 * ((n_rows + 2) // 3)):
        logits[2 * j] = F(0)
    return loss


@njit(**FAST)
def infer_documents(
    text: Text,
    alias: Alias,
    plan: Plan,
    documents: FloatArray,
    inputs: FloatArray,
    outputs: FloatArray,
    lr: float,
    states: NDArray[np.uint64],
    table: FloatArray,
) -> None:
    """Train the document vectors alone, one pass per random state in ``states``, the same for every document."""
    epochs, result = states.size, np.zeros(2)
    state = np.empty(1, np.uint64)
    for document in range(documents.shape[0]):
        begin, end = text.offsets[document], text.offsets[document + 1]
        for epoch in range(epochs):
            state[0] = states[epoch]
            first, last = lr * (1 - epoch / epochs), lr * (1 - (epoch + 1) / epochs)
            if begin < end:
                train_documents(
                    text, begin, end, alias, plan, documents, inputs, outputs, first, last, state, table, result
                )
