"""Ways to alter a file: bits, bytes, pieces, numbers in text, values in JSON; and how to make checksums valid again."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyseme.disk.description import checksum
from polyseme.disk.folders import Manifest
from polyseme.search.occurrences.index_folder import INDEX
from polyseme.store.folder import MODEL
from polyseme.text.corpus_files import CORPUS

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1e308, float("nan"), float("inf"), "", "x", "\ud800", ".."),
    *("词" * 5000, [], {}, [[]], [0] * 1000, {"a": {"b": {}}}, "../../x", "/etc/passwd", "\0", "%s%n", "9" * 5000),
)  # fmt: skip


def mutated(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """The name of a random mutation, and the mutated bytes."""
    ways: list[Callable[[bytes, random.Random], bytes]] = [
        _bits,
        _bytes,
        _cut,
        _remove,
        _repeat,
        _insert,
        _zeros,
        _swap,
    ]
    if re.search(rb"\d", data[:4096]):
        ways += [_number, _number]
    if data[:1] in (b"{", b"["):
        ways += [_json] * 8
    elif data[8:9] == b"{":
        ways += [_safetensors_header] * 8
    way = rng.choice(ways)
    try:
        return way.__name__.strip("_"), way(data, rng)
    except (ValueError, IndexError, RecursionError):  # this mutation does not apply
        return "bits", _bits(data, rng)


def _place(data: bytes, rng: random.Random) -> int:
    """A random position, more often near the beginning, where headers are."""
    return rng.randrange(max(1, min(len(data), 400) if rng.random() < 0.5 else len(data)))


def _bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 1, 3, 20))):
        changed[_place(changed, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    place = _place(data, rng)
    new = rng.choice((rng.randbytes(8), b"\xff" * 8, b"\x00" * 8, b"\x7f\xff\xff\xff", b"\x80"))
    return data[:place] + new + data[place + len(new) :]


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(data: bytes, rng: random.Random) -> bytes:
    place = _place(data, rng)
    return data[:place] + data[place + rng.choice((1, 4, 8, 100)) :]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    place, size = _place(data, rng), rng.choice((1, 8, 100, 5000))
    return data[: place + size] + data[place : place + size] * rng.choice((1, 50)) + data[place + size :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    place = _place(data, rng)
    new = rng.choice(
        (b"\n", b" ", b"\0", b"\xef\xbb\xbf", b"[" * 5000, rng.randbytes(50), b"9" * 5000, b"\x1b]0;x\x07")
    )
    return data[:place] + new + data[place:]


def _zeros(data: bytes, rng: random.Random) -> bytes:
    place, size = _place(data, rng), rng.choice((4, 64, 4096))
    return data[:place] + bytes(min(size, len(data) - place)) + data[place + size :]


def _swap(data: bytes, rng: random.Random) -> bytes:
    one, other, size = _place(data, rng), _place(data, rng), rng.choice((1, 8, 64))
    one, other = sorted((one, other))
    return (
        data[:one]
        + data[other : other + size]
        + data[one + size : other]
        + data[one : one + size]
        + data[other + size :]
    )


def _number(data: bytes, rng: random.Random) -> bytes:
    numbers = list(re.finditer(rb"-?\d+", data[:20_000]))
    found = rng.choice(numbers)
    new = rng.choice((b"-1", b"0", b"1", b"99999999999", b"18446744073709551616", b"1e9999", b"nan", b"0x10", b""))
    return data[: found.start()] + new + data[found.end() :]


def _json(data: bytes, rng: random.Random) -> bytes:
    value = json.loads(data)
    changed = _odd_inside(value, rng)
    return json.dumps(changed, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _odd_inside(value: Any, rng: random.Random) -> Any:
    """The value with one thing in it replaced, removed or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        how = rng.random()
        if how < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if how < 0.2:
            return {**value, str(rng.choice(ODD)): value[key]}
        return {**value, key: _odd_inside(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], _odd_inside(value[place], rng), *value[place + 1 :]]
    return rng.choice(ODD)


def _safetensors_header(data: bytes, rng: random.Random) -> bytes:
    length = int.from_bytes(data[:8], "little")
    header = _json(data[8 : 8 + length], rng)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def sealed_anew(folder: Path) -> None:
    """Make the checksums of one of our folders valid for its present contents, including models inside it."""
    for manifest in (MODEL, CORPUS, INDEX):
        if (folder / manifest.marker).is_file():
            _seal(folder, manifest)
    state = folder / "building.json"
    if state.is_file():
        record = json.loads(state.read_bytes())
        state.write_text(
            json.dumps({**record, "checksum": checksum({k: v for k, v in record.items() if k != "checksum"})})
        )


def _seal(folder: Path, manifest: Manifest) -> None:
    file = folder / manifest.marker
    found = json.loads(file.read_bytes())
    for name in found["files"]:
        if (folder / name).is_file():
            found["files"][name] = manifest.seal(folder / name)
    for name in found.get("models", {}):
        _seal(folder / name, manifest)
        found["models"][name] = json.loads((folder / name / manifest.marker).read_bytes())["checksum"]
    file.write_text(json.dumps({**found, "checksum": checksum(found)}))
