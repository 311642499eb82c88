"""Options of BERT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyseme.contexts.transformer.shape import ShapeOptions
from polyseme.errors import OptionError
from polyseme.options import option

MASKINGS = ("token", "word", "ngram")
PAIRS = ("nsp", "sop", "none")


@dataclass(frozen=True)
class BertOptions(ShapeOptions):
    """Options of the network, the training examples and the optimisation."""

    pace: ClassVar[float] = 0.5  # the norm after each layer bears smaller steps than GPT's before it

    batch_size: int = option(8, "batch size: examples per step", minimum=1)
    masking: str = option(
        "word", "masking unit: subword pieces, whole words as segmented in the corpus, or spans "
                "of one to three words",
        choices=MASKINGS,
    )  # fmt: skip
    mask_share: float = option(0.15, "fraction of tokens to predict", minimum=0.001, maximum=0.999)
    mask_as: str = option("80/10/10", "of these, percent masked / kept / replaced by a random token")
    pairs: str = option(
        "nsp", "second task: next sentence prediction (nsp), sentence order prediction (sop), or none", choices=PAIRS
    )

    def shares(self) -> tuple[float, float]:
        """Of the subwords chosen for prediction: the share that is masked, and the share that is masked or kept."""
        try:
            masked, left, replaced = (float(part) for part in self.mask_as.split("/"))
        except ValueError:
            masked, left, replaced = -1.0, 0.0, 0.0
        if min(masked, left, replaced) < 0 or abs(masked + left + replaced - 100) > 1e-6:
            raise OptionError(f"option 'mask_as' takes three shares of 100 such as 80/10/10, not {self.mask_as!r}")
        return masked / 100, (masked + left) / 100
