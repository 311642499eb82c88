"""What other libraries expect of a sentence encoder: sentence-transformers, mteb and scikit-learn. 与其他库的互通

A trained encoder is a step of a scikit-learn pipeline and a model that sentence-transformers' evaluators and mteb can
score. What an encoder is stands in ``interfaces.py``; here are only the names and arguments of those libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from polyseme.arrays import FloatArray
from polyseme.errors import OptionError

if TYPE_CHECKING:
    from typing_extensions import Self

    from polyseme.interfaces import Sentence


class EncoderInterop:
    """The methods of a sentence encoder under the names of other libraries; all of them lead to ``encode``."""

    dim: int
    encode: Callable[..., FloatArray]

    # ---- scikit-learn: a trained encoder is a step of a pipeline as it is

    def fit(self, texts: Iterable[Sentence], y: object = None) -> Self:
        """The encoder itself: nothing to fit."""
        return self

    def transform(self, texts: Iterable[Sentence]) -> Any:
        """``encode``, under scikit-learn's name."""
        return self.encode(texts)

    def fit_transform(self, texts: Iterable[Sentence], y: object = None) -> Any:
        """``transform``."""
        return self.transform(texts)

    def __sklearn_clone__(self) -> Self:
        return copy(self)  # the same weights in another object: scikit-learn's threads note things on each

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        inputs = InputTags(one_d_array=True, two_d_array=False, string=True)
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=inputs,
            requires_fit=False,
        )

    # ---- sentence-transformers and mteb

    similarity_fn_name = "cosine"  # what sentence-transformers' evaluators compare vectors by

    def encode_query(self, sentences: Iterable[Sentence], **options: Any) -> FloatArray:
        """``encode``: queries are texts like others."""
        return self.encode(sentences, **options)

    def encode_document(self, sentences: Iterable[Sentence], **options: Any) -> FloatArray:
        """``encode``."""
        return self.encode(sentences, **options)

    @property
    def mteb_model_meta(self) -> Any:
        """Name and revision by which mteb keeps this model's scores apart from others; None without mteb."""
        try:
            meta = import_module("mteb.models.model_meta")
        except ImportError:
            return None
        method, revision = getattr(self, "method", type(self).__name__), self.revision()
        name = f"polyseme/{method}-{revision[:12]}"
        cosine = meta.ScoringFunction.COSINE
        facts = {"name": name, "revision": revision, "embed_dim": self.dim, "similarity_fn_name": cosine}
        return meta.ModelMeta.create_empty(facts)

    def revision(self) -> str:
        """A name for this state of the encoder, other for every other one; here, where nothing is known, a new one."""
        return uuid4().hex

    @property
    def model_card_data(self) -> Any:
        """Where sentence-transformers' evaluators store their scores."""
        return NoModelCard()

    def get_sentence_embedding_dimension(self) -> int:
        """``dim``, under sentence-transformers' name."""
        return self.dim


class NoModelCard:
    """Discards the scores of sentence-transformers' evaluators, which also return them."""

    def set_evaluation_metrics(self, *figures: Any, **more: Any) -> None:
        """Keep nothing."""


def check_asked(
    batch_size: object, prompt_name: str | None, output_value: str | None, precision: str | None, device: object
) -> None:
    """Refuse what sentence-transformers' ``encode`` can be asked for and ours cannot give."""
    if batch_size is not None and (not isinstance(batch_size, (int, np.integer)) or batch_size < 1):
        raise OptionError(f"batch_size must be a whole number from 1 on, not {batch_size!r}")
    if prompt_name is not None:
        raise OptionError(f"there is no prompt named {prompt_name!r}: give its text, prompt=…")
    if output_value != "sentence_embedding":
        raise OptionError(f"output_value {output_value!r}: for vectors of words use encode_tokens of a context encoder")
    if precision not in (None, "float32"):
        raise OptionError(f"vectors are float32, not {precision}: quantise them afterwards")
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise OptionError(f"texts are encoded on the CPU, not on {device}")


def texts_in(sentences: Iterable[Any]) -> Iterator[Sentence]:
    """The texts; those of a batch that is a mapping, as passed by mteb, under ``text``."""
    for text in sentences:
        if isinstance(text, Mapping):
            yield from text["text"]
        elif hasattr(text, "__len__"):
            yield text
        else:
            raise OptionError(f"a text is a string or a list of words; {text!r} is neither")


def tensor_of(array: FloatArray) -> FloatArray:
    """The same numbers as a torch tensor."""
    tensor: FloatArray = import_module("torch").from_numpy(np.ascontiguousarray(array))
    return tensor
