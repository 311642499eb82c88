"""MT-DNN (多任务深度神经网络): a Transformer that learned several tasks at once, each with a head of its own.

Liu et al., "Multi-Task Deep Neural Networks for Natural Language Understanding", ACL 2019. The network is a new BERT or
any Transformer that is given; the heads (heads.py) are for labelled texts, labelled pairs (the stochastic answer
network), scored pairs, and ranking. Every batch is of one task; without shares an epoch has all batches of all tasks,
shuffled. The heads are dropped afterwards: the network is fine-tuned per task by ``fit --encoder-mode finetune``.

What differs from the paper: AdamW instead of Adamax; the right one of a ranked pair is told from a few candidates, not
from all of its paragraph.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from polyseme.contexts.mtdnn.options import MtDnnOptions
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.text.examples import Examples
from polyseme.training.run import Run, Trainable

if TYPE_CHECKING:
    from typing_extensions import Self


class MtDnn(TransformerEncoder, Trainable):
    """A Transformer below the heads of several tasks."""

    method: ClassVar[str] = "mtdnn"
    Options: ClassVar[type] = MtDnnOptions
    options: MtDnnOptions
    trains_further: ClassVar[bool] = False

    @classmethod
    def train(cls, data: dict[str, Examples], options: MtDnnOptions, run: Run) -> Self:
        """Learn from labelled texts and pairs by name, all at once."""
        trained: Self = import_module("polyseme.contexts.mtdnn.train").train_mtdnn(cls, data, options, run)
        return trained
