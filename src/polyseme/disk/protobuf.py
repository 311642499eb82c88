"""Read protocol-buffer messages field by field; a length that extends beyond the message is an error."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode the integer at offset ``at``; returns it and the offset after it."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("a number without end")


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as (field number, integer or bytes); ValueError or IndexError if it is damaged."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = varint(message, at)
        else:
            size = {_FIXED32: 4, _FIXED64: 8}.get(kind, len(message) + 1)
        if at + size > len(message):
            raise ValueError("a field extends beyond its message")
        raw = message[at : at + size]
        yield tag >> 3, raw if kind == _BYTES else int.from_bytes(raw, "little")
        at += size
