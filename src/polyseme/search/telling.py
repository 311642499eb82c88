"""In which directions uses differ: linear discriminants between words. 判别方向

Occurrences of one word differ by construction, topic and chance; words differ by what they are used for, and two uses
of a word differ as two words do. So the occurrences of a word are grouped in the directions v in which words differ
most, compared with the occurrences of each (Fisher 1936):

    S_between v = λ S_within v          S_within = (1 - s) · mean covariance within words + s · (its mean variance) · I

the n largest λ, scaled so that the occurrences of a word have variance 1 in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyseme.linear import main_directions
from polyseme.nouns import FloatArray, unit_rows

DIRECTIONS = 64
FEWEST_WORDS = 40  # with fewer of them the directions would be theirs alone
_SHRUNK = 0.3


def learn_telling(words: Sequence[FloatArray]) -> FloatArray | None:
    """The directions, ``(d, n)``, from vectors of occurrences of many words; None where there are too few words."""
    if len(words) < FEWEST_WORDS:
        return None
    dim = words[0].shape[1]
    within = np.mean([np.cov(word.T, bias=True) for word in words], axis=0).reshape(dim, dim)
    within = (1 - _SHRUNK) * within + _SHRUNK * max(np.trace(within) / dim, 1e-12) * np.eye(dim)
    variances, axes = np.linalg.eigh(within)
    white = axes / np.sqrt(variances)
    means = np.array([word.mean(axis=0) for word in words]) @ white  # (words, d)
    between, _ = main_directions((means - means.mean(axis=0)).astype(np.float32), min(DIRECTIONS, dim))
    return np.asarray(white @ between, dtype=np.float32)


def told(vectors: FloatArray, directions: FloatArray | None) -> FloatArray:
    """Vectors seen in those directions, of length one; as they are where there are none."""
    return vectors if directions is None else unit_rows(np.asarray(vectors @ directions, dtype=np.float32))
