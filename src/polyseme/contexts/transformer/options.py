"""Options of a Transformer that was read from published files."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.options import option

POOLINGS = ("mean", "first", "last")
PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True)
class TransformerOptions:
    """How its vectors are made of what the network computes."""

    pieces: str = option("mean", "pooling of a word's subword vectors into one", choices=POOLINGS)
