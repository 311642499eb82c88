"""A table of subword vectors (子词向量表), as in sentence-transformers' StaticEmbedding and model2vec.

    v = steps(1/n Σ_i x_{piece i})

A text without any subword has the zero vector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import nn

from polyseme.arrays import FloatArray
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.errors import FormatError, altered_model
from polyseme.interfaces import Sentence, SentenceEncoder, tokens_given
from polyseme.neural.weights import arrays_of
from polyseme.options import option
from polyseme.sentences.vector_layers import Step, describe, steps_of
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.spacing import joined

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class TokenTableOptions:
    """Options of subword tables."""

    prompt: str = option("", "text put before every text")


class TokenTable(Model, SentenceEncoder):
    """A tokenizer, a vector for each of its subwords, and the steps applied to their mean."""

    method: ClassVar[str] = "piece-table"
    Options: ClassVar[type] = TokenTableOptions
    options: TokenTableOptions

    def __init__(
        self,
        pieces: Pieces,
        rows: FloatArray,
        steps: Iterable[Step] = (),
        *,
        options: TokenTableOptions | None = None,
        about: About | None = None,
    ) -> None:
        if len(pieces.names) > len(rows):
            raise FormatError(f"a tokenizer of {len(pieces.names):,} pieces and vectors of {len(rows):,}")
        self.pieces, self.rows = pieces, rows
        self.steps: list[Step] = [step.eval() for step in steps]
        self.options, self.about = options or TokenTableOptions(), about or About()
        self.dim = self.steps[-1].out if self.steps else rows.shape[1]

    @torch.inference_mode()
    def encode_batch(self, texts: list[Sentence]) -> FloatArray:
        """Vectors of the texts, ``(n, dim)``."""
        found = self.pieces.ids([self._text(text) for text in texts])
        offsets = np.cumsum([0, *map(len, found)])[:-1]
        rows, ids = torch.from_numpy(self.rows), torch.from_numpy(np.concatenate([*found, np.zeros(0, np.int64)]))
        vectors = torch.nn.functional.embedding_bag(ids, rows, torch.from_numpy(offsets), mode="mean")
        for step in self.steps:
            vectors = step(vectors)
        return np.asarray(vectors.numpy(), dtype=np.float32)

    def _text(self, sentence: Sentence) -> str:
        text = sentence if isinstance(sentence, str) else joined(tokens_given(sentence))
        return self.options.prompt + text

    # ---- on disk

    def parts(self) -> Parts:
        """The vectors, the tokenizer's files and the steps."""
        steps = json.dumps({"steps": [describe(step) for step in self.steps]}, indent=1).encode()
        tensors = {"rows": self.rows, **arrays_of(nn.ModuleList(self.steps))}
        return Parts(tensors, files={"steps.json": steps, **self.pieces.files()})

    @classmethod
    def from_parts(cls, options: TokenTableOptions, parts: Parts, about: About) -> Self:
        """The model from its ``parts``."""
        rows = parts.tensor("rows", (None, None))
        tokenizer, tokenizer_config = parts.file("tokenizer.json"), parts.file("tokenizer_config.json")
        pieces = Pieces.read(tokenizer, tokenizer_config, where="tokenizer.json")
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in parts.tensors.items() if name != "rows"}
        try:
            steps = steps_of(json.loads(parts.file("steps.json"))["steps"], rows.shape[1], tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise altered_model(f"its steps are invalid ({error})") from None
        return cls(pieces, np.array(rows, dtype=np.float32), steps, options=options, about=about)
