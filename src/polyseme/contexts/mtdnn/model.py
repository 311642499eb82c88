"""MT-DNN (多任务深度神经网络): a Transformer trained on several tasks at once, each with its own head.

Liu et al., "Multi-Task Deep Neural Networks for Natural Language Understanding", ACL 2019. The network is a new BERT or
any given Transformer; the heads (heads.py) are for labelled texts, labelled pairs (the stochastic answer network),
scored pairs, and ranking. Each batch is from one task; without shares an epoch has all batches of all tasks, shuffled.
The heads are discarded afterwards: the network is fine-tuned per task by ``fit --encoder-mode finetune``.

What differs from the paper: AdamW instead of Adamax; in ranking, the right answer is compared with a few candidates,
not with all sentences of its paragraph.
"""

from __future__ import annotations

from typing import ClassVar

from polyseme.contexts.mtdnn.options import MtDnnOptions
from polyseme.contexts.transformer.trained import TrainedTransformer


class MtDnn(TrainedTransformer):
    """A Transformer trained on several tasks."""

    method: ClassVar[str] = "mtdnn"
    Options: ClassVar[type] = MtDnnOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.mtdnn:train_mtdnn"
    options: MtDnnOptions
    trains_further: ClassVar[bool] = False
