"""Options of a Transformer loaded from published files."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.options import option

POOLINGS = ("mean", "first", "last")
PRECISIONS = ("fp32", "int8")


@dataclass(frozen=True)
class TransformerOptions:
    """How word vectors are computed from the output of the network."""

    pieces: str = option("mean", "pooling of a word's subword vectors into one", choices=POOLINGS)
