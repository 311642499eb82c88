"""How well an index separates word senses, measured with pseudo-words: two words treated as one word of two senses.

    python benchmarks/senses.py INDEX... [--pairs 60]

Nearest: how often most of the ten nearest occurrences belong to the same word. V: V-measure of the clusters that
``uses`` finds (Rosenberg and Hirschberg, 2007) against the two words; parted: pairs for which it finds more than one
cluster. Whole: single words that it does not split, as should be the case for most. Means over random pairs of words
with at least 60 occurrences; the second word has a quarter to all of the occurrences of the first.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import v_measure_score

from polyseme.arrays import unit_rows
from polyseme.evaluate.tag_agreement import neighbour_scores
from polyseme.search import Index
from polyseme.search.occurrences.cluster import SHARED, cluster
from polyseme.search.occurrences.sorting import even_sample
from polyseme.search.word_selection import tells_something

FEWEST, MOST = 60, 400


def measure(index: Index, pairs: int, seed: int = 1) -> dict[str, float]:
    """The scores of one index."""
    rng = np.random.default_rng(seed)
    words = [word for word in index.words if index.count(word) >= FEWEST and tells_something(word)]
    drawn = rng.permutation(np.array(words, dtype=object))[: 2 * pairs]
    apart = float(index.facts["apart"])
    right, measures, parted, whole = [], [], [], []
    for first, second in zip(drawn[::2], drawn[1::2], strict=False):
        one, other = drawn_evenly(index, first), drawn_evenly(index, second)
        other = other[: max(FEWEST // 4, int(len(one) * rng.uniform(0.25, 1)))]
        truth = np.repeat([0, 1], [len(one), len(other)])
        both = index.vectors(np.concatenate([one, other]))
        right.append(neighbour_scores(unit_rows(both - SHARED * both.mean(axis=0)), truth, 10)[1])
        labels = cluster(both, apart=apart)
        measures.append(v_measure_score(truth, labels))
        parted.append(labels.max() > 0)
        whole.append(cluster(index.vectors(one), apart=apart).max() == 0)
    means = (float(np.mean(values)) for values in (right, measures, parted, whole))
    return dict(zip(("nearest", "V", "parted", "whole"), means, strict=True))


def drawn_evenly(index: Index, word: str) -> NDArray[np.int64]:
    """A sample of a word's occurrences, as positions in the index."""
    own = index.occurrences(word)
    return own.start + even_sample(len(own), MOST)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("indexes", nargs="*", default=["polyseme-demo/index"])
    parser.add_argument("--pairs", type=int, default=60)
    given = parser.parse_args()
    print("| index | pairs | nearest right | V-measure | pairs split | words not split | CPU-s |")
    print("|---|---|---|---|---|---|---|")
    for path in given.indexes:
        if not Path(path).exists():
            print(f"{path} is not there: polyseme demo makes one")
            continue
        begun = time.process_time()
        found = measure(Index.open(path), given.pairs)
        figures = " | ".join(f"{found[name]:.3f}" for name in ("nearest", "V", "parted", "whole"))
        print(f"| {Path(path).name} | {given.pairs} | {figures} | {time.process_time() - begun:.0f} |")


if __name__ == "__main__":
    main()
