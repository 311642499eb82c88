"""Options of XLM."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.contexts.transformer.shape import ShapeOptions
from polyseme.errors import OptionError
from polyseme.options import option

OBJECTIVES = ("clm", "mlm", "tlm", "mlm+tlm")


@dataclass(frozen=True)
class XlmOptions(ShapeOptions):
    """Shape of the network, what it learns, and how."""

    objective: str = option(
        "mlm+tlm",
        "predict the next piece (clm), masked pieces of each language (mlm), masked pieces of a sentence beside its "
        "translation (tlm), or the last two in turns",
        choices=OBJECTIVES,
    )
    translates: str = option("source-target", "the languages of the parallel text, as SOURCE-TARGET")
    exponent: float = option(
        0.5, "languages are drawn by their share of the text to this power: 1 as they are, 0 all alike",
        minimum=0, maximum=1,
    )  # fmt: skip
    mask_share: float = option(0.15, "share of the pieces that are to be told", minimum=0.001, maximum=0.999)
    max_size: int = option(10_000, "most pieces that are learned from the text of all languages", minimum=50)

    def sides(self) -> tuple[str, str]:
        """The languages of the parallel text."""
        source, dash, target = self.translates.partition("-")
        if not (source and dash and target) or source == target:
            raise OptionError(f"option 'translates' takes two languages such as en-zh, not {self.translates!r}")
        return source, target
