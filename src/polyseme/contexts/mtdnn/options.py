"""Options of MT-DNN."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.contexts.transformer.shape import ShapeOptions
from polyseme.errors import OptionError
from polyseme.options import option
from polyseme.training.options import SCHEDULES


@dataclass(frozen=True)
class MtDnnOptions(ShapeOptions):
    """Options of the network, the heads and their training."""

    transformer: str = option(
        "", "pretrained Transformer to start from; default: one of this size, trained from scratch",
        names="model",
    )  # fmt: skip
    shares: str | None = option(
        None, "sampling weights of the sources, such as rte=2 mrpc=1; default: proportional to their size"
    )
    answer_steps: int = option(5, "reasoning steps of the answer network for pairs", minimum=1, maximum=100)
    step_dropout: float = option(0.1, "probability of dropping a reasoning step", minimum=0, maximum=0.9)
    ranking: str = option("", "train a source of pairs as ranking: SOURCE=LABEL, where LABEL marks the relevant pairs")
    candidates: int = option(4, "candidates per ranked pair", minimum=2)
    head_dropout: float = option(0.1, "dropout on a text's vector below the heads", minimum=0, maximum=0.9)

    epochs: int = option(5, "passes over all sources", minimum=0)
    dropout: float = option(0.1, "dropout", minimum=0, maximum=0.9)
    hold_out: float = option(0.1, "fraction of each source's examples held out for the reports", minimum=0, maximum=0.5)
    lr: float = option(0.0, "learning rate; 0: 5e-5 for a pretrained Transformer, otherwise by size", minimum=0)
    schedule: str = option("slanted", "learning rate schedule", choices=tuple(SCHEDULES))

    def ranked(self) -> dict[str, str]:
        """The sources to train as ranking, each with the label of its relevant pairs."""
        found = {}
        for one in self.ranking.split():
            name, equals, label = one.partition("=")
            if not equals or not label:
                raise OptionError(f"option 'ranking' takes SOURCE=LABEL, not {one!r}")
            found[name] = label
        return found
