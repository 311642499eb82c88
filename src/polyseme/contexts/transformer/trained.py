"""The base class of Transformers trained here: BERT, GPT, XLM and MT-DNN."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.training.run import Run, Trainable

if TYPE_CHECKING:
    from typing_extensions import Self


class TrainedTransformer(TransformerEncoder, Trainable):
    """A trainable Transformer. ``recipe`` is its training function as ``module:name``, imported only for training."""

    recipe: ClassVar[str]

    @classmethod
    def train(cls, data: Any, options: Any, run: Run) -> Self:
        module, name = cls.recipe.split(":")
        trained: Self = getattr(import_module(module), name)(cls, data, options, run)
        return trained
