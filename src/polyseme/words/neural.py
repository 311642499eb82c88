"""Word vectors that are the first layer of a torch network, which is kept with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import FormatError
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors, vocabulary_of
from polyseme.words.vocabulary_plan import WordPlan, older_rows
from polyseme.words.windows import SPECIALS

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Self


class NeuralVectors(WordVectors):
    """``module.words`` has the vectors of the vocabulary, then those of the unknown word and the sentence boundary."""

    computes_with: ClassVar[str] = "torch"
    by_class: ClassVar[tuple[str, ...]] = ("words.weight",)  # weights with a row for each word and special
    module: Any

    def __init__(
        self, vocabulary: Vocabulary, module: nn.Module, *, options: Any, about: About, counts: NDArray[np.int64]
    ) -> None:
        self.module: Any = module.eval()
        vectors = self.module.words.weight.detach().numpy()[: len(vocabulary)]
        super().__init__(vocabulary, vectors, options=options, about=about)
        self.class_counts = counts  # (V + SPECIALS,)

    @classmethod
    @abstractmethod
    def network(cls, n_words: int, options: Any) -> nn.Module:
        """The network, with random weights."""

    @classmethod
    def take_over(cls, module: nn.Module, plan: WordPlan, start: WordVectors, fresh: Collection[str] = ()) -> None:
        """Start from the vectors of an older model, and if it is of the same class from its other weights that fit.

        The weights named in ``fresh`` stay as they are.
        """
        import torch

        known = torch.from_numpy(np.flatnonzero(plan.old_rows >= 0))
        old = torch.from_numpy(plan.old_rows[plan.old_rows >= 0])
        weights = module.state_dict()
        with torch.no_grad():
            weights["words.weight"][known] = torch.from_numpy(np.array(older_rows(start)))[old]
            if type(start) is not cls:
                return
            for name, tensor in start.module.state_dict().items():
                if name in fresh:
                    continue
                if name in cls.by_class and weights[name].shape[1:] == tensor.shape[1:]:
                    weights[name][known] = tensor[old]
                    weights[name][-SPECIALS:] = tensor[-SPECIALS:]
                elif weights[name].shape == tensor.shape:
                    weights[name].copy_(tensor)

    def parts(self) -> Parts:
        """The weights by their names in the module, and the counts of words and classes."""
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in self.module.state_dict().items()}
        counts = {"counts": self.vocabulary.counts, "class_counts": self.class_counts}
        return Parts({**weights, **counts}, {"vocab": self.index_to_key})

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        import torch

        vocabulary = vocabulary_of(parts)
        given = dict(parts.tensors)
        counts = given.pop("class_counts", np.empty(0))
        del given["counts"]
        with torch.device("meta"):  # shapes only: no memory is allocated before they are known to agree
            module = cls.network(len(vocabulary), options)
        wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
        if {name: array.shape for name, array in given.items()} != wanted or counts.shape != (
            len(vocabulary) + SPECIALS,
        ):
            raise FormatError("the model folder was altered: its weights are not those its options describe")
        state = {name: torch.from_numpy(np.array(array, dtype=np.float32)) for name, array in given.items()}
        module.load_state_dict(state, assign=True)
        return cls(vocabulary, module, options=options, about=about, counts=np.asarray(counts, dtype=np.int64))


def class_counts(vocabulary: Vocabulary, stream: NDArray[np.int32], start: WordVectors | None) -> NDArray[np.int64]:
    """The counts of all words, then of unknown words and of boundaries in the stream and in that of an older model."""
    specials = [int((stream == number).sum()) for number in range(len(vocabulary), len(vocabulary) + SPECIALS)]
    older = start.class_counts[-SPECIALS:] if isinstance(start, NeuralVectors) else 0
    return np.append(vocabulary.counts, np.array(specials) + older)
