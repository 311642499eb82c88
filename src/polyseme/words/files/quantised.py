"""Product-quantised matrices, as stored in fastText's .ftz files. 乘积量化

    row i = norm[i] · [ centroid_1[code(i, 1)] ; … ; centroid_m[code(i, m)] ],  256 centroids for each piece

Jégou, Douze and Schmid, Product Quantization for Nearest Neighbor Search, 2011; Joulin et al., FastText.zip, 2016.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.binary import BinaryReader
from polyseme.errors import FormatError
from polyseme.interfaces import FloatArray

CENTROIDS = 256
MOST_GROWTH = 64  # decoded bytes per byte of codes and centroids; usual files, with pieces of 2 numbers, have 8
SMALL = 64 << 20


@dataclass
class Codebook:
    """The centroids of each piece of a vector."""

    dim: int
    pieces: int
    width: int  # of every piece but the last, which has the remainder
    centroids: FloatArray  # (256 · dim,)

    def decode(self, codes: NDArray[np.uint8]) -> FloatArray:
        """(n, pieces) codes -> (n, dim)."""
        rows = np.empty((len(codes), self.dim), dtype=np.float32)
        for piece in range(self.pieces):
            start = piece * self.width
            end = min(start + self.width, self.dim)
            table = self.centroids[start * CENTROIDS : end * CENTROIDS].reshape(CENTROIDS, end - start)
            rows[:, start:end] = table[codes[:, piece]]
        return rows


def read_quantised(reader: BinaryReader, what: str) -> FloatArray:
    """Read a quantised matrix and decode it; ``what`` names it in error messages."""
    with_norms, n_rows, dim, n_codes = reader.fields("?qqi")
    most = MOST_GROWTH * (n_codes + 4 * CENTROIDS * dim) + SMALL
    if min(n_rows, n_codes) < 0 or dim < 1 or 4 * n_rows * dim > most:
        raise FormatError(f"{reader.path} is altered: its quantised {what} cannot have {n_rows:,} × {dim:,} numbers")
    codes = reader.array(np.uint8, n_codes, what)
    codebook = _read_codebook(reader, what)
    if codebook.dim != dim or n_codes != n_rows * codebook.pieces:
        raise FormatError(f"{reader.path} is altered: the codes of its {what} do not fit {n_rows:,} × {dim:,} numbers")
    rows = codebook.decode(codes.reshape(n_rows, codebook.pieces))
    if with_norms:
        norm_codes = reader.array(np.uint8, n_rows, what)
        norms = _read_codebook(reader, what)
        if norms.dim != 1:
            raise FormatError(f"{reader.path} is altered: the lengths of its {what} have {norms.dim} numbers each")
        rows *= norms.decode(norm_codes[:, None])
    return rows


def _read_codebook(reader: BinaryReader, what: str) -> Codebook:
    dim, pieces, width, last = reader.fields("iiii")
    fits = dim >= 1 and pieces >= 1 and width >= 1 and (pieces - 1) * width + last == dim and 1 <= last <= width
    if not fits:
        raise FormatError(f"{reader.path} is altered: {pieces} × {width} numbers make no vector of {dim} in its {what}")
    return Codebook(dim, pieces, width, reader.array(np.float32, dim * CENTROIDS, what))
