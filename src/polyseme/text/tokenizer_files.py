"""Checks of a tokenizer.json before the library ``tokenizers`` reads it.

A Python program cannot handle a panic of that library as an error: some of them end the process.

Unigram tokenization with a SentencePiece model file 子词模型文件; ``tokenizers`` does the search.

Kudo, "Subword Regularization", ACL 2018: of all segmentations of a text, take the one with the greatest Σ log p(piece).
The text is normalised by the table in the file (NFKC and more), each run of spaces becomes one ``▁``, and a ``▁`` is
put before the text. Every character that no piece covers becomes one unknown piece.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from polyseme.disk.binary import fields
from polyseme.errors import FormatError

_MOST_GROWTH = 3e7  # of a character through all replacements, at most; BioGPT's escapes could give 2e7


def check_tokenizer(content: bytes) -> None:
    """A ValueError if the content is not JSON, or if the library would panic on it."""
    record = json.loads(content)
    if isinstance(record, dict):
        _check_merges(record.get("model"))
        for template in _steps(record.get("post_processor"), "TemplateProcessing"):
            _check_template(template)
        for step in _steps(record.get("pre_tokenizer"), "FixedLength"):
            if step.get("length") == 0:
                raise ValueError("it cuts words into pieces of length 0")
        for step in _steps(record.get("normalizer"), "Precompiled"):
            _check_map(step.get("precompiled_charsmap"))
        if math.prod(map(_growth, _steps(record.get("normalizer"), "Replace"))) > _MOST_GROWTH:
            raise ValueError("its replacements make texts too long")


def _check_merges(model: Any) -> None:
    """With a prefix of subwords inside words, the second of two that are merged has it, and loses it."""
    if not isinstance(model, dict):
        return
    prefix, merges = model.get("continuing_subword_prefix"), model.get("merges")
    if not (isinstance(prefix, str) and isinstance(merges, list)):
        return
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        second = parts[-1] if isinstance(parts, list) and parts else None
        if isinstance(second, str) and not second.startswith(prefix):
            raise ValueError(f"it merges {second[:40]!r}, which does not begin with {prefix[:40]!r}")


def _steps(part: Any, kind: str) -> Iterator[dict[str, Any]]:
    """The steps of a kind in a part of the tokenizer, which may be a sequence of others."""
    if not isinstance(part, dict):
        return
    if part.get("type") == kind:
        yield part
    for name in ("normalizers", "pretokenizers", "processors"):
        inner = part.get(name)
        for one in inner if isinstance(inner, list) else []:
            yield from _steps(one, kind)


def _growth(step: dict[str, Any]) -> float:
    """How many times longer a replacement can make a text."""
    pattern, content = step.get("pattern"), step.get("content")
    text = pattern.get("String") if isinstance(pattern, dict) else None
    shortest = len(text) if isinstance(text, str) and text else 1
    return max(len(content) / shortest, 1.0) if isinstance(content, str) else 1.0


def _check_map(content: Any) -> None:
    """SentencePiece's table of characters: a trie in an array (Darts), whose values are places in a text behind it."""
    if not isinstance(content, str):
        return
    data = base64.b64decode(content, validate=True)
    size = int.from_bytes(data[:4], "little")
    if not 4 <= size <= len(data) - 4 or size % 4:
        raise ValueError("its table of characters is truncated")
    units, text = np.frombuffer(data[4 : 4 + size], dtype="<u4"), data[4 + size :]
    text.decode("utf-8")
    inner = np.union1d(0, np.flatnonzero(units >> 31 == 0))  # the root is one in any case
    after = inner ^ ((units[inner] >> 10) << ((units[inner] & 0x200) >> 6))
    if ((after | 0xFF) >= len(units)).any():
        raise ValueError("its table of characters leads out of itself")
    values = units[after[(units[inner] >> 8) & 1 == 1]] & 0x7FFFFFFF
    starts = np.frombuffer(text + b"\0", dtype=np.uint8) & 0xC0 != 0x80  # no byte inside a character
    if (values > len(text)).any() or not starts[values].all():
        raise ValueError("its table of characters leads out of its text")


def _check_template(template: dict[str, Any]) -> None:
    """The special tokens of a template have ids."""
    known = template.get("special_tokens")
    for form in ("single", "pair"):
        pieces = template.get(form)
        for piece in pieces if isinstance(pieces, list) else []:
            token = piece.get("SpecialToken") if isinstance(piece, dict) else None
            name = token.get("id") if isinstance(token, dict) else None
            if isinstance(name, str) and isinstance(known, dict) and name not in known:
                raise ValueError(f"its template has a special token {name[:40]!r} without an id")


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
        return [[BEGIN, *(_expanded(encoding.ids, encoding.tokens) or [UNKNOWN]), END] for encoding in cut]

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
