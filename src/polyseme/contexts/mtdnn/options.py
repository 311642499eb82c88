"""Options of MT-DNN."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.contexts.transformer.shape import ShapeOptions
from polyseme.errors import OptionError
from polyseme.options import option
from polyseme.training.schedules import SCHEDULES


@dataclass(frozen=True)
class MtDnnOptions(ShapeOptions):
    """The network below, the heads above, and how they learn."""

    transformer: str = option(
        "", "a Transformer to begin with, ours or published; unless given, one of this size begins from nothing",
        names="model",
    )  # fmt: skip
    shares: str | None = option(
        None, "how often each source is drawn, such as rte=2 mrpc=1; unless given, as often as it has batches"
    )
    answer_steps: int = option(5, "steps of the answer network over pairs", minimum=1, maximum=100)
    step_dropout: float = option(0.1, "chance that a step's judgement is left out", minimum=0, maximum=0.9)
    ranking: str = option(
        "", "pairs whose second texts are ranked for their first: SOURCE=LABEL, the label of those that come first"
    )
    candidates: int = option(4, "second texts among which the right one of a ranked pair is to be found", minimum=2)
    head_dropout: float = option(0.1, "share of a text's vector dropped below the heads", minimum=0, maximum=0.9)

    epochs: int = option(5, "passes over all sources", minimum=0)
    dropout: float = option(0.1, "share of states left out in training", minimum=0, maximum=0.9)
    hold_out: float = option(0.1, "share of each source's examples kept for the reports", minimum=0, maximum=0.5)
    lr: float = option(0.0, "learning rate; 0: 5e-5 with a given Transformer, else what suits the size", minimum=0)
    schedule: str = option("slanted", "how the learning rate moves", choices=tuple(SCHEDULES))

    def ranked(self) -> dict[str, str]:
        """The sources that are ranked, and the label of what comes first."""
        found = {}
        for one in self.ranking.split():
            name, equals, label = one.partition("=")
            if not equals or not label:
                raise OptionError(f"option 'ranking' takes SOURCE=LABEL, not {one!r}")
            found[name] = label
        return found
