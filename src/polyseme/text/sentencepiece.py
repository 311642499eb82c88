"""Unigram pieces of a SentencePiece model file 子词模型文件, read as data; ``tokenizers`` finds the likeliest pieces.

Kudo, "Subword Regularization", ACL 2018: of all ways to cut a text, that with the greatest Σ log p(piece). The text is
normalised by the table in the file (NFKC and more), runs of blanks become one ``▁``, and one precedes the text. A
character without a piece is the unknown piece, each separately.
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
    """The pieces of a model file, and texts as their numbers."""

    def __init__(self, content: bytes, where: object) -> None:
        from tokenizers import Tokenizer, models, normalizers

        self.content = content
        try:
            pieces, table = _read(content)
            self._normalizer = normalizers.Precompiled(table) if table else None
            self._tokenizer: Any = Tokenizer(models.Unigram(pieces, unk_id=UNKNOWN))
        except Exception as error:  # tokenizers raises nothing more special
            raise FormatError(f"{where} is truncated or is not a SentencePiece unigram model ({error})") from None
        self.n_pieces = len(pieces)

    def numbers(self, texts: Sequence[str]) -> list[list[int]]:
        """The pieces of each text by number, between the marks of its beginning and end."""
        cut = self._tokenizer.encode_batch([self._written(text) for text in texts], add_special_tokens=False)
        return [[BEGIN, *(_expanded(found.ids, found.tokens) or [UNKNOWN]), END] for found in cut]

    def _written(self, text: str) -> str:
        normal = self._normalizer.normalize_str(text) if self._normalizer else text
        inside = re.sub(" +", " ", normal).strip(" ")
        return BLANK + inside.replace(" ", BLANK) if inside else ""


def _expanded(numbers: list[int], pieces: list[str]) -> list[int]:
    """``tokenizers`` joins unknown characters that follow each other."""
    if UNKNOWN not in numbers:
        return numbers
    return [n for n, piece in zip(numbers, pieces, strict=True) for _ in range(len(piece) if n == UNKNOWN else 1)]


def _read(content: bytes) -> tuple[list[tuple[str, float]], bytes]:
    """Pieces with their scores, and the table of the normaliser, which older files keep with the trainer's settings."""
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
