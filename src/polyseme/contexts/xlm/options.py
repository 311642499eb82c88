"""Options of XLM."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.contexts.transformer.shape import MOST_PIECES, ShapeOptions
from polyseme.errors import OptionError
from polyseme.options import option

OBJECTIVES = ("clm", "mlm", "tlm", "mlm+tlm")


@dataclass(frozen=True)
class XlmOptions(ShapeOptions):
    """Options of the network, its objective and its training."""

    batch_size: int = option(16, "batch size: examples per step", minimum=1)
    objective: str = option(
        "mlm+tlm",
        "predict the next token (clm), masked tokens of each language (mlm), masked tokens of a "
        "sentence and its translation (tlm), or alternate the last two",
        choices=OBJECTIVES,
    )
    translates: str = option("source-target", "languages of the parallel text, as SOURCE-TARGET")
    exponent: float = option(
        0.5, "sampling exponent of the languages: 1 as frequent as in the text, 0 uniform",
        minimum=0, maximum=1,
    )  # fmt: skip
    mask_share: float = option(0.15, "fraction of tokens to predict", minimum=0.001, maximum=0.999)
    max_size: int = option(
        10_000,
        "vocabulary size of the tokenizer learned from the text of all languages",
        minimum=50,
        maximum=MOST_PIECES,
    )

    def sides(self) -> tuple[str, str]:
        """The languages of the parallel text."""
        source, dash, target = self.translates.partition("-")
        if not (source and dash and target) or source == target:
            raise OptionError(f"option 'translates' takes two languages such as en-zh, not {self.translates!r}")
        return source, target
