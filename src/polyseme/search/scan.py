"""Comparing a query with codes where they lie, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.nouns import FloatArray, unit_rows
from polyseme.search.projection import Projection

BLOCK = 1 << 15  # codes turned into floats at a time


def scores(codes: NDArray[Any], projection: Projection, vector: FloatArray) -> FloatArray:
    """Cosines of one vector with every code, ``(n,)``."""
    query = vector * projection.step
    result = np.empty(len(codes), dtype=np.float32)
    for begin in range(0, len(codes), BLOCK):
        result[begin : begin + BLOCK] = codes[begin : begin + BLOCK].astype(np.float32) @ query
    return result


def scores_from(codes: NDArray[Any], projection: Projection, vector: FloatArray, origin: FloatArray) -> FloatArray:
    """Cosines of one vector with every code as seen from ``origin``: of v − o with c − o."""
    query = unit_rows((vector - origin)[None])[0]
    result = np.empty(len(codes), dtype=np.float32)
    for begin in range(0, len(codes), BLOCK):
        block = unit_rows(projection.decode(codes[begin : begin + BLOCK]) - origin)
        result[begin : begin + BLOCK] = block @ query
    return result


def mean(codes: NDArray[Any], projection: Projection) -> FloatArray:
    """The mean of the codes' vectors."""
    total = np.zeros(projection.dim)
    for begin in range(0, len(codes), BLOCK):
        total += projection.decode(codes[begin : begin + BLOCK]).sum(axis=0, dtype=np.float64)
    return np.asarray(total / max(len(codes), 1), dtype=np.float32)


def nearest(codes: NDArray[Any], projection: Projection, vectors: FloatArray, *, topn: int) -> NDArray[np.int64]:
    """The ``topn`` nearest codes of each vector by comparing all, nearest first: ``(q, d) -> (q, topn)``."""
    queries = (vectors * projection.step).T  # (d, q)
    topn = min(topn, len(codes))
    best = np.full((len(vectors), topn), -np.inf, dtype=np.float32)
    rows = np.zeros((len(vectors), topn), dtype=np.int64)
    for begin in range(0, len(codes), BLOCK):
        block = (codes[begin : begin + BLOCK].astype(np.float32) @ queries).T  # (q, b)
        joined = np.concatenate([best, block], axis=1)
        numbers = np.concatenate([rows, np.broadcast_to(np.arange(begin, begin + block.shape[1]), block.shape)], axis=1)
        order = np.argsort(-joined, axis=1, kind="stable")[:, :topn] if topn >= joined.shape[1] else _top(joined, topn)
        best, rows = np.take_along_axis(joined, order, axis=1), np.take_along_axis(numbers, order, axis=1)
    return rows


def top(values: FloatArray, n: int) -> NDArray[np.int64]:
    """Places of the ``n`` highest values, highest first, equal ones in order."""
    kept = np.sort(np.argpartition(-values, n)[:n]) if n < len(values) else np.arange(len(values))
    return kept[np.argsort(-values[kept], kind="stable")]


def _top(values: FloatArray, n: int) -> NDArray[np.int64]:
    kept = np.argpartition(-values, n - 1, axis=1)[:, :n]
    order = np.argsort(-np.take_along_axis(values, kept, axis=1), axis=1, kind="stable")
    return np.take_along_axis(kept, order, axis=1)
