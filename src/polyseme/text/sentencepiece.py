"""Unigram tokenization with a SentencePiece model file 子词模型文件; ``tokenizers`` does the search.

Kudo, "Subword Regularization", ACL 2018: of all segmentations of a text, take the one with the greatest Σ log p(piece).
The text is normalised by the table in the file (NFKC and more), each run of spaces becomes one ``▁``, and a ``▁`` is
put before the text. Every character that no piece covers becomes one unknown piece.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

from polyseme.disk.protobuf import fields
from polyseme.errors import FormatError

UNKNOWN, BEGIN, END = 0, 1, 2
BLANK = "▁"


class UnigramPieces:
    """The pieces of a model file; ``numbers`` turns texts into piece numbers."""

    def __init__(self, content: bytes, where: object) -> None:
        from tokenizers import Tokenizer, models, normalizers

        self.content = content
        try:
            pieces, table = _read(content)
            self._normalizer = normalizers.Precompiled(table) if table else None
            self._tokenizer: Any = Tokenizer(models.Unigram(pieces, unk_id=UNKNOWN))
        except Exception as error:  # tokenizers raises plain Exceptions
            raise FormatError(f"{where} is truncated or is not a SentencePiece unigram model ({error})") from None
        self.n_pieces = len(pieces)

    def numbers(self, texts: Sequence[str]) -> list[list[int]]:
        """The piece numbers of each text, between the begin and end symbols."""
        cut = self._tokenizer.encode_batch([self._written(text) for text in texts], add_special_tokens=False)
        return [[BEGIN, *(_expanded(found.ids, found.tokens) or [UNKNOWN]), END] for found in cut]

    def _written(self, text: str) -> str:
        normal = self._normalizer.normalize_str(text) if self._normalizer else text
        inside = re.sub(" +", " ", normal).strip(" ")
        return BLANK + inside.replace(" ", BLANK) if inside else ""


def _expanded(numbers: list[int], pieces: list[str]) -> list[int]:
    """One unknown piece per character: ``tokenizers`` merges unknown characters that follow each other."""
    if UNKNOWN not in numbers:
        return numbers
    return [n for n, piece in zip(numbers, pieces, strict=True) for _ in range(len(piece) if n == UNKNOWN else 1)]


def _read(content: bytes) -> tuple[list[tuple[str, float]], bytes]:
    """The pieces with their scores, and the normalisation table (b"" if the file has none)."""
    pieces: list[tuple[str, float]] = []
    table = b""
    for number, value in fields(content):
        if number == 1 and isinstance(value, bytes):
            piece, score = "", 0.0
            for part, inner in fields(value):
                if part == 1 and isinstance(inner, bytes):
                    piece = inner.decode("utf-8")
                elif part == 2 and isinstance(inner, int):
                    score = struct.unpack("<f", struct.pack("<I", inner))[0]
            pieces.append((piece, score))
        elif number == 3 and isinstance(value, bytes):
            table = next((inner for part, inner in fields(value) if part == 2 and isinstance(inner, bytes)), b"")
    if len(pieces) <= END:
        raise ValueError("it has no pieces")
    return pieces, table
