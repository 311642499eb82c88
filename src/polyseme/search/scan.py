"""Comparing a query with codes where they are, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.interfaces import FloatArray, unit_rows
from polyseme.search.occurrences.index_folder import release
from polyseme.search.occurrences.short_codes import Projection
from polyseme.words.nearest import best_of_blocks

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


def nearest(codes: NDArray[Any], step: FloatArray, vectors: FloatArray, *, topn: int) -> NDArray[np.int64]:
    """The ``topn`` nearest codes of each vector by comparing all, nearest first: ``(q, d) -> (q, topn)``."""
    queries = (vectors * step).T  # (d, q)

    def blocks() -> Iterator[FloatArray]:
        for at in range(0, len(codes), BLOCK):
            yield np.asarray(codes[at : at + BLOCK].astype(np.float32) @ queries)  # (b, q)
            release(codes)

    return best_of_blocks(blocks(), len(vectors), min(topn, len(codes)))[0]
