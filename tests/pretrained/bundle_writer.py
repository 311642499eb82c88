"""Writes TensorFlow checkpoints without TensorFlow, as its source describes them, for the tests of the reader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from polyseme.contexts.transformer.files.tensor_bundle import masked_crc32c

MAGIC = 0xDB4775248B80FB57
NUMBERS = {  # DataType in types.proto
    torch.float32: 1, torch.float64: 2, torch.int64: 9, torch.bfloat16: 14, torch.float16: 19,
}  # fmt: skip


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def write_checkpoint(prefix: Path, tensors: Mapping[str, Tensor], *, shards: int = 1) -> None:
    """Write ``PREFIX.index`` and the files of data, over which the tensors are spread."""
    contents = [bytearray() for _ in range(shards)]
    entries = {b"": varint(1 << 3) + varint(shards)}
    for number, (name, tensor) in enumerate(sorted(tensors.items())):
        shard, raw = number % shards, tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        sizes = [varint(1 << 3) + varint(size) for size in tensor.shape]
        shape = b"".join(varint(2 << 3 | 2) + varint(len(size)) + size for size in sizes)
        entries[name.encode()] = (
            varint(1 << 3) + varint(NUMBERS[tensor.dtype])
            + varint(2 << 3 | 2) + varint(len(shape)) + shape
            + varint(3 << 3) + varint(shard)
            + varint(4 << 3) + varint(len(contents[shard]))
            + varint(5 << 3) + varint(len(raw))
            + varint(6 << 3 | 5) + masked_crc32c(raw).to_bytes(4, "little")
        )  # fmt: skip
        contents[shard] += raw
    for shard, content in enumerate(contents):
        prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{shards:05d}").write_bytes(content)
    table = block(entries)
    handle = varint(0) + varint(len(table) - 5)
    other = block({})
    listed = block({max(entries): handle})
    footer = varint(len(table)) + varint(len(other) - 5)
    footer += varint(len(table) + len(other)) + varint(len(listed) - 5)
    footer = footer.ljust(40, b"\0") + MAGIC.to_bytes(8, "little")
    prefix.with_name(f"{prefix.name}.index").write_bytes(table + other + listed + footer)


def block(entries: Mapping[bytes, bytes]) -> bytes:
    found = b"".join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in sorted(entries.items()))
    found += (0).to_bytes(4, "little") + (1).to_bytes(4, "little") + b"\0"
    return found + masked_crc32c(found).to_bytes(4, "little")


def as_tensorflow(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of BertForPreTraining by their names in google-research/bert."""
    found: dict[str, Tensor] = {}
    for name, array in weights.items():
        theirs = name.replace(".layer.", ".layer_").replace("cls.predictions.bias", "cls.predictions.output_bias")
        theirs = theirs.replace("seq_relationship.weight", "seq_relationship.output_weights")
        theirs = theirs.replace("seq_relationship.bias", "seq_relationship.output_bias")
        theirs = theirs.replace("_embeddings.weight", "_embeddings")
        theirs = theirs.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        if theirs.endswith(".weight"):
            theirs, array = theirs.replace(".weight", ".kernel"), array.t()
        found[theirs.replace(".", "/")] = array.contiguous()
    return found
