"""MT-DNN (多任务深度神经网络): a Transformer that learned several tasks at once, each with a head of its own.

Liu et al., "Multi-Task Deep Neural Networks for Natural Language Understanding", ACL 2019. The network is a new BERT or
any Transformer that is given; the heads (heads.py) are for labelled texts, labelled pairs (the stochastic answer
network), scored pairs, and ranking. Every batch is of one task; without shares an epoch has all batches of all tasks,
shuffled. The heads are dropped afterwards: the network is fine-tuned per task by ``fit --encoder-mode finetune``.

What differs from the paper: AdamW instead of Adamax; the right one of a ranked pair is told from a few candidates, not
from all of its paragraph.
"""

from __future__ import annotations

from typing import ClassVar

from polyseme.contexts.mtdnn.options import MtDnnOptions
from polyseme.contexts.transformer.trained import TrainedTransformer


class MtDnn(TrainedTransformer):
    """A Transformer below the heads of several tasks."""

    method: ClassVar[str] = "mtdnn"
    Options: ClassVar[type] = MtDnnOptions
    recipe: ClassVar[str] = "polyseme.contexts.mtdnn.train:train_mtdnn"
    options: MtDnnOptions
    trains_further: ClassVar[bool] = False
