"""One-hot vectors 独热向量: word i is the vector whose i-th number is 1 and all others 0.

    e_i · e_j = 1 if i = j else 0

No two words are similar: every cosine is 0 and every distance √2. One-hot vectors are the baseline for the other
methods, and their starting point: a matrix of word vectors is a linear map of these. Salton, Wong and Yang, A Vector
Space Model for Automatic Indexing, 1975, gave each term its own dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyseme.options import option
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run, Trainable
from polyseme.words.sparse import SparseRows, SparseVectors
from polyseme.words.vocabulary_plan import older_words, plan_words

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class OneHotOptions:
    """Options of one-hot vectors."""

    min_count: int = option(5, "minimum word count; rarer words are dropped", minimum=1)
    max_size: int | None = option(None, "maximum vocabulary size; default: no limit", minimum=2)


class OneHot(Trainable, SparseVectors):
    """The identity matrix (V, V), sparse."""

    method: ClassVar[str] = "onehot"
    Options: ClassVar[type] = OneHotOptions

    @classmethod
    def train(cls, corpus: Corpus, options: OneHotOptions, run: Run) -> Self:
        from scipy.sparse import eye_array

        plan = plan_words(corpus, options.min_count, options.max_size, older_words(run.start))
        identity = eye_array(len(plan.vocabulary), dtype=np.float32, format="csr")
        about = About(corpus.segmentation, corpus.facts, run.curve)
        return cls(plan.vocabulary, SparseRows(identity), options=options, about=about)
