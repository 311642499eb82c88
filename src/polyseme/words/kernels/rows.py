"""Compiled: the arithmetic of one prediction, on rows that are in the first-level cache.

A window of text predicts some output rows y₀ … y_R from hidden vectors x. Hidden vectors are taken two at a time and
output rows three at a time: 2×3 products share five loads, and all values fit in the registers of any x86-64 or ARM
processor.

    z = ± x·y,   loss = log(1 + e^-z),   step = ± lr · σ(-z),   y += Σ_x step · x,   x += Σ_y step · y

Output rows are staged at a constant distance (``ROW`` floats) in one work area, because then the compiler can prove
that they do not overlap and omits checks that would cost as much as the arithmetic. Indices into it are unsigned: a
signed index could count from the end, and then the compiler would not load eight floats at a time. The functions take
plain arrays and create no views: Numba counts references to each view, which costs more than a row.

Compiled: random numbers, and sampling in proportion to weights in constant time (Walker's alias method).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from polyseme.arrays import FloatArray

F = np.float32
LANES = 8  # rows are padded with zeros to a multiple of this many floats
ROW = np.uint64(1136)  # 71 cache lines: neighbouring rows fall into different cache sets
LINE = 16  # floats in a cache line

# Sums may be reordered into vector registers; NaN keeps its meaning, so that divergence is noticed.
FAST: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}

INLINE: dict[str, Any] = {**FAST, "forceinline": True}  # for functions called for every word

STEPS = 64  # table entries per unit of z
REACH = 16  # beyond ±REACH, σ is 0 or 1 in float32


def logistic_table() -> FloatArray:
    """σ(-z) and log(1 + e^-z) for z from -REACH to REACH, ``(2 · REACH · STEPS, 2)``."""
    z = np.arange(-REACH * STEPS, REACH * STEPS) / STEPS
    return np.stack([1 / (1 + np.exp(z)), np.logaddexp(0, -z)], axis=1).astype(F)


@njit(**INLINE)
def products(hidden: FloatArray, a: int, b: int, rows: FloatArray, r: int, width: int, logits: FloatArray) -> None:
    """``logits[2(r + i) + c]`` = hidden row c ∈ {a, b} times output row r + i, i ∈ {0, 1, 2}."""
    start = np.uint64(r) * ROW
    s00, s01, s02 = F(0), F(0), F(0)
    s10, s11, s12 = F(0), F(0), F(0)
    for d in range(LANES * width):
        at = start + np.uint64(d)
        x0, x1 = hidden[a, d], hidden[b, d]
        y0, y1, y2 = rows[at], rows[at + ROW], rows[at + ROW + ROW]
        s00 += x0 * y0
        s01 += x0 * y1
        s02 += x0 * y2
        s10 += x1 * y0
        s11 += x1 * y1
        s12 += x1 * y2
    logits[2 * r], logits[2 * r + 1] = s00, s10
    logits[2 * r + 2], logits[2 * r + 3] = s01, s11
    logits[2 * r + 4], logits[2 * r + 5] = s02, s12


@njit(**INLINE)
def learn(hidden: FloatArray, a: int, b: int, rows: FloatArray, r: int, width: int, steps: FloatArray) -> None:
    """Move two hidden rows and three output rows by ``steps``, laid out as the logits of ``products``."""
    start = np.uint64(r) * ROW
    g00, g10 = steps[2 * r], steps[2 * r + 1]
    g01, g11 = steps[2 * r + 2], steps[2 * r + 3]
    g02, g12 = steps[2 * r + 4], steps[2 * r + 5]
    for d in range(LANES * width):
        at = start + np.uint64(d)
        x0, x1 = hidden[a, d], hidden[b, d]
        y0, y1, y2 = rows[at], rows[at + ROW], rows[at + ROW + ROW]
        rows[at] = y0 + g00 * x0 + g10 * x1
        rows[at + ROW] = y1 + g01 * x0 + g11 * x1
        rows[at + ROW + ROW] = y2 + g02 * x0 + g12 * x1
        hidden[a, d] = x0 + g00 * y0 + g01 * y1 + g02 * y2
        hidden[b, d] = x1 + g10 * y0 + g11 * y1 + g12 * y2


@njit(**INLINE)
def products_of_one(hidden: FloatArray, a: int, rows: FloatArray, r: int, width: int, logits: FloatArray) -> None:
    """``products`` of hidden row a alone."""
    start = np.uint64(r) * ROW
    s0, s1, s2 = F(0), F(0), F(0)
    for d in range(LANES * width):
        at, x = start + np.uint64(d), hidden[a, d]
        s0 += x * rows[at]
        s1 += x * rows[at + ROW]
        s2 += x * rows[at + ROW + ROW]
    logits[2 * r], logits[2 * r + 2], logits[2 * r + 4] = s0, s1, s2


@njit(**INLINE)
def learn_one(hidden: FloatArray, a: int, rows: FloatArray, r: int, width: int, steps: FloatArray) -> None:
    """``learn`` for hidden row a alone."""
    start = np.uint64(r) * ROW
    g0, g1, g2 = steps[2 * r], steps[2 * r + 2], steps[2 * r + 4]
    for d in range(LANES * width):
        at, x = start + np.uint64(d), hidden[a, d]
        y0, y1, y2 = rows[at], rows[at + ROW], rows[at + ROW + ROW]
        rows[at] = y0 + g0 * x
        rows[at + ROW] = y1 + g1 * x
        rows[at + ROW + ROW] = y2 + g2 * x
        hidden[a, d] = x + g0 * y0 + g1 * y1 + g2 * y2


@njit(**INLINE)
def logistic(
    logits: FloatArray, signs: FloatArray, half: int, n_rows: int, n_hidden: int, lr: np.float32, table: FloatArray
) -> float:
    """Turn logits into steps and return the loss. Rows that only fill up a tile get a step of zero."""
    loss = 0.0
    for j in range(n_rows):
        sign = signs[half, j]
        for c in range(n_hidden):
            z = sign * logits[2 * j + c]
            near = min(max(z, F(-REACH)), F(REACH - 1 / STEPS))
            i = np.int64(near * F(STEPS) + F(REACH * STEPS + 0.5)) & (2 * REACH * STEPS - 1)  # NaN stays inside too
            loss += table[i, 1]
            if z < F(-REACH):
                loss -= z + F(REACH)
            logits[2 * j + c] = lr * sign * table[i, 0]
    for j in range(n_rows, 3 * ((n_rows + 2) // 3)):
        logits[2 * j] = F(0)
        logits[2 * j + 1] = F(0)
    return loss


@njit(**INLINE)
def predict_pair(
    hidden: FloatArray,
    a: int,
    b: int,
    n_hidden: int,
    rows: FloatArray,
    signs: FloatArray,
    half: int,
    n_rows: int,
    width: int,
    lr: np.float32,
    table: FloatArray,
    logits: FloatArray,
) -> float:
    """One gradient step for the hidden rows a and b, or for a alone if ``n_hidden`` is 1; returns the loss.

    All logits are computed before any step. Hidden rows change tile by tile, so later output rows see the new values.
    """
    n_tiles = (n_rows + 2) // 3
    for q in range(n_tiles):
        if n_hidden == 1:
            products_of_one(hidden, a, rows, 3 * q, width, logits)
        else:
            products(hidden, a, b, rows, 3 * q, width, logits)
    loss: float = logistic(logits, signs, half, n_rows, n_hidden, lr, table)
    for q in range(n_tiles):
        if n_hidden == 1:
            learn_one(hidden, a, rows, 3 * q, width, logits)
        else:
            learn(hidden, a, b, rows, 3 * q, width, logits)
    return loss


@intrinsic
def prefetch(typing_context: Any, matrix: Any, row: Any, column: Any) -> Any:
    """Prefetch one cache line of a C-contiguous matrix."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.add(builder.mul(arguments[1], builder.extract_value(array.shape, 1)), arguments[2])
        pointer = builder.bitcast(builder.gep(array.data, [place]), ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        builder.call(function, [pointer, i32(0), i32(3), i32(1)])  # for reading, keep it close, data
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp), build


@njit(**INLINE)
def prefetch_row(matrix: FloatArray, row: int, width: int) -> None:
    """Prefetch a whole row."""
    for d in range(0, LANES * width, LINE):
        prefetch(matrix, row, d)  # type: ignore[call-arg]  # the compiler gives the context


def padded(rows: int, dim: int) -> FloatArray:
    """Zeros of shape (rows, dim padded to a multiple of LANES), aligned for vector loads."""
    columns = -(-dim // LANES) * LANES
    size = rows * columns * 4
    memory: NDArray[np.uint8] = np.zeros(size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(F).reshape(rows, columns)


_HALF = np.uint64(32)


class Alias(NamedTuple):
    """The alias table: column i gives i if a random 32-bit number is below ``threshold[i]``, else ``other[i]``."""

    threshold: NDArray[np.uint32]
    other: NDArray[np.int32]


@njit(nogil=True, cache=True, forceinline=True)
def next_random(state: NDArray[np.uint64]) -> Any:
    """64 random bits (xorshift64*); ``state`` is one number other than 0."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(0x2545F4914F6CDD1D)


@njit(nogil=True, cache=True, forceinline=True)
def below(state: NDArray[np.uint64], n: int) -> Any:
    """A random integer from 0 to n - 1, for n up to 2³²."""
    return np.int64(((next_random(state) >> _HALF) * np.uint64(n)) >> _HALF)


@njit(nogil=True, cache=True, forceinline=True)
def draw(state: NDArray[np.uint64], threshold: NDArray[np.uint32], other: NDArray[np.int32]) -> Any:
    """A random index, drawn in proportion to the weights of the alias table."""
    bits = next_random(state)
    i = np.int64(((bits >> _HALF) * np.uint64(threshold.size)) >> _HALF)
    return i if np.uint32(bits & np.uint64(0xFFFFFFFF)) < threshold[i] else np.int64(other[i])


@njit(nogil=True, cache=True)
def _fill_alias(share: NDArray[np.float64], threshold: NDArray[np.uint32], other: NDArray[np.int32]) -> None:
    # ``share`` has mean 1. Columns below 1 are filled up from columns above it; two stacks grow towards each other.
    n = share.size
    stack = np.empty(n, dtype=np.int64)
    low, high = 0, n
    for i in range(n):
        if share[i] < 1:
            stack[low] = i
            low += 1
        else:
            high -= 1
            stack[high] = i
    while low > 0 and high < n:
        low -= 1
        small, large = stack[low], stack[high]
        threshold[small] = np.uint32(min(share[small] * 4294967296.0, 4294967295.0))
        other[small] = large
        share[large] -= 1 - share[small]
        if share[large] < 1:
            high += 1
            stack[low] = large
            low += 1


def alias_table(weights: NDArray[np.float64]) -> Alias:
    """The alias table for positive weights."""
    share = weights * (len(weights) / weights.sum())
    threshold = np.full(len(weights), 0xFFFFFFFF, dtype=np.uint32)
    other = np.arange(len(weights), dtype=np.int32)
    _fill_alias(share, threshold, other)
    return Alias(threshold, other)


def random_state(*numbers: int) -> NDArray[np.uint64]:
    """A state for ``next_random``, different for each combination of numbers (seed, epoch, chunk …)."""
    return np.random.SeedSequence(numbers).generate_state(1, np.uint64) | np.uint64(1)
