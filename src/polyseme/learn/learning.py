"""Learning from labelled examples (在标注数据上学习): the one training task of every task and every trained encoder.

    loss = Σ_rows (goal's loss of the net's outputs + what the net adds + λ Σ w² of mixed layers) / rows

What the net adds to a row: the penalty of an attention, or the language-model loss of a GPT that learns with the task.
An encoder that was given and is fine-tuned learns at a rate of its own, its lower layers more slowly or not at all.
With gradual unfreezing (Howard and Ruder, "ULMFiT", 2018) the new layers learn first, then in each epoch a layer more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from polyseme.arrays import Ints
from polyseme.contexts.fine_tuning import GivenEncoder, begin_tuning, usual_rate
from polyseme.data.examples import Examples
from polyseme.learn.goals import Goal
from polyseme.learn.inputs import InputModule
from polyseme.learn.modules import Encoding
from polyseme.learn.options import TextOptions, TuningOptions
from polyseme.learn.prepared import PreparedInputs, on, run
from polyseme.neural.batches import sized_batches
from polyseme.options import part_of
from polyseme.training.optimisers import ParameterGroup
from polyseme.training.task import RowsTask, Score
from polyseme.training.torchrun import chosen_device

HELD_OUT = 0.1  # fraction of the examples used for early stopping, if no dev set is given


class Held(NamedTuple):
    """Examples that are held out to choose among weights."""

    examples: Examples
    prepared: PreparedInputs


class Learning(RowsTask):
    """Prepared inputs through a net, whose outputs are to become what is wanted of each row.

    The net returns its outputs for a batch, and what it adds to the loss of each row, ``(B,)`` or None.
    """

    def __init__(
        self,
        net: nn.Module,
        goal: Goal,
        prepared: PreparedInputs,
        wanted: Any,
        options: Any,
        *,
        held: Held | None = None,
        metric: str | None = None,
        unit: str = "examples",
        pace: float = 1.0,
        tuning: TuningOptions | None = None,
    ) -> None:
        """``pace`` is a factor on the usual learning rate of fine-tuned encoders, which ``tuning`` says more about."""
        self.module, self.goal, self.prepared, self.wanted, self.held = net, goal, prepared, wanted, held
        self.options, self.metric, self.unit, self.pace = options, metric or goal.primary, unit, pace
        self.tuning = tuning or part_of(options, TuningOptions)
        if isinstance(options, TextOptions):  # others set up their networks themselves
            sparse = chosen_device(options.device).type != "mps"  # which has no sparse gradients
            begin_tuning(net, self.tuning.encoder_dropout, sparse=sparse, lm_weight=self.tuning.lm_weight)
        self.mixing = [part for part in net.modules() if isinstance(part, InputModule)]
        self.batches = sized_batches(prepared.sizes, options.batch_size, options.seed)

    def loss_of(self, rows: Ints) -> Tensor:
        outputs, added = self.module(on(self.device, self.prepared.batch(rows, learning=True)))
        total = self.goal.loss(outputs, self.wanted[rows])
        if added is not None:
            total = total + added.sum()
        return total + len(rows) * sum((part.penalty() for part in self.mixing), start=0.0)

    def groups(self, epoch: int) -> dict[str, ParameterGroup]:
        """Given encoders have their own learning rate; their lower layers learn more slowly or not at all."""
        groups: dict[str, ParameterGroup] = {}
        for name, module in self.module.named_modules():
            if isinstance(module, GivenEncoder):
                groups.update(self._layer_groups(f"{name}.network." if name else "network.", module, epoch))
        return groups

    def _layer_groups(self, start: str, given: GivenEncoder, epoch: int) -> dict[str, ParameterGroup]:
        """The groups of an encoder whose names begin with ``start``; what is in no layer is below the first one."""
        n, tuning = len(given.layers), self.tuning
        learning = n + 1 if tuning.top_layers is None else tuning.top_layers
        if tuning.unfreezing == "gradual":
            learning = min(learning, epoch)
        top = self.pace * usual_rate(given.network) if tuning.encoder_lr is None else tuning.encoder_lr
        return {
            start + name: ParameterGroup(top * tuning.layer_rates ** (layer + 1 - n), frozen=layer < n - learning)
            for layer, names in enumerate([("",), *given.layers], start=-1)
            for name in names
        }

    def evaluate(self, module: nn.Module) -> Score | None:
        if self.held is None:
            return None
        answers = answers_of(module, self.goal, self.held.prepared)
        return self.goal.score(answers, self.held.examples, self.metric)


def answers_of(net: nn.Module, goal: Goal, prepared: PreparedInputs) -> Any:
    """What a net says of prepared inputs, as its goal puts it."""
    return goal.answers(((rows, outputs) for rows, (outputs, _) in run(net, prepared)), prepared, net)


class HeadedNetwork(nn.Module):
    """A reader's network and the output layer above it."""

    def __init__(self, net: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.net, self.output = net, output

    def forward(self, batch: Any) -> tuple[Tensor, Tensor | None]:
        """Outputs ``(B, n)``, and what is added to the loss of each row."""
        encoding: Encoding = self.net(batch)
        return self.output(encoding.vectors), encoding.penalty


def output_layer(dim: int, n_outputs: int, options: Any, hidden: int = 0) -> nn.Sequential:
    """Dropout and one layer, or two with ``hidden`` units between them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        below = [nn.Dropout(options.dropout), nn.Linear(dim, hidden), nn.ReLU()] if hidden else []
        return nn.Sequential(*below, nn.Dropout(options.dropout), nn.Linear(hidden or dim, n_outputs))
