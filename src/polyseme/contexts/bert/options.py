"""Options of BERT."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.contexts.transformer.shape import ShapeOptions
from polyseme.errors import OptionError
from polyseme.options import option

MASKINGS = ("token", "word", "ngram")
PAIRS = ("nsp", "sop", "none")


@dataclass(frozen=True)
class BertOptions(ShapeOptions):
    """Shape of the network, how examples are made, and how it learns."""

    masking: str = option(
        "word", "what is masked together: pieces, whole words as the corpus cuts them, or one to three words",
        choices=MASKINGS,
    )  # fmt: skip
    mask_share: float = option(0.15, "share of the pieces that are to be told", minimum=0.001, maximum=0.999)
    mask_as: str = option("80/10/10", "of these, per cent masked, left as they are, and replaced by any other")
    pairs: str = option(
        "nsp", "second task: does B follow A (nsp), do they stand in their order (sop), or none", choices=PAIRS
    )

    def shares(self) -> tuple[float, float]:
        """The share of the chosen pieces that is masked, and the share that is masked or left as it is."""
        try:
            masked, left, replaced = (float(part) for part in self.mask_as.split("/"))
        except ValueError:
            masked, left, replaced = -1.0, 0.0, 0.0
        if min(masked, left, replaced) < 0 or abs(masked + left + replaced - 100) > 1e-6:
            raise OptionError(f"option 'mask_as' takes three shares of 100 such as 80/10/10, not {self.mask_as!r}")
        return masked / 100, (masked + left) / 100
