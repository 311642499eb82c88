"""Options of GPT."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.contexts.transformer.shape import ShapeOptions
from polyseme.options import option

NORMS = ("post", "pre")


@dataclass(frozen=True)
class GptOptions(ShapeOptions):
    """Options of the network and its training."""

    batch_size: int = option(8, "batch size: examples per step", minimum=1)
    norm: str = option(
        "pre",
        "position of layer normalisation: after each block as in GPT (post), or before it as in GPT-2 (pre)",
        choices=NORMS,
    )
