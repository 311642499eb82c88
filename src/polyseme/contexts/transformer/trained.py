"""A Transformer that was trained here: what BERT, GPT, XLM and MT-DNN have in common."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.training.run import Run, Trainable

if TYPE_CHECKING:
    from typing_extensions import Self


class TrainedTransformer(TransformerEncoder, Trainable):
    """``recipe`` is the function ``module:name`` that trains it, loaded when it is called: a model is read without."""

    recipe: ClassVar[str]

    @classmethod
    def train(cls, data: Any, options: Any, run: Run) -> Self:
        module, name = cls.recipe.split(":")
        trained: Self = getattr(import_module(module), name)(cls, data, options, run)
        return trained
