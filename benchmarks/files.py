"""Reading vector files: CPU time against gensim, measured in turn.

    python benchmarks/files.py [ROWS] [DIM]          default: 100,000 × 300

Bar: word2vec binary at least 3 times as fast as gensim. The compiled text parser is loaded before the measurement.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from gensim.models import KeyedVectors
from gensim.models.fasttext import load_facebook_vectors

import polyseme
from polyseme.words.files import fasttext as fasttext_format
from polyseme.words.files import word2vec as word2vec_format
from polyseme.words.files.fasttext import FastTextFile, FastTextSettings

RUNS = 5
BAR = 3.0


def seconds(call: Callable[[], Any]) -> float:
    """CPU time of one call, including all threads."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def row(name: str, ours: Callable[[], Any], peer: Callable[[], Any], runs: int = RUNS) -> float:
    """Print and return how many times faster than the peer we are."""
    ours()
    times = [(seconds(ours), seconds(peer)) for _ in range(runs)]
    mine, theirs = (median(column) for column in zip(*times, strict=True))
    print(f"{name:34} {mine:8.2f} s {theirs:8.2f} s {theirs / mine:7.1f}×", flush=True)
    return theirs / mine


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    dim = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(rows, dim)).astype(np.float32)
    words = [f"词{i}" for i in range(rows)]
    few = rows // 10
    print(f"{rows:,} × {dim}; text and fastText: {few:,}\n{'':34} {'polyseme':>10} {'gensim':>10} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binary, text, bin_ = str(folder / "v.bin"), str(folder / "v.txt"), str(folder / "ft.bin")
        word2vec_format.write_binary(binary, words, vectors)
        word2vec_format.write_text(text, words[:few], vectors[:few])
        settings = FastTextSettings(dim, buckets=few, minn=2, maxn=4)
        counts = np.arange(few, 0, -1)
        fasttext_format.write(
            bin_, FastTextFile(settings, words[:few], counts, vectors[:few], vectors[-few:], vectors[:few])
        )
        load = KeyedVectors.load_word2vec_format
        ratio = row("word2vec binary", lambda: polyseme.load(binary), lambda: load(binary, binary=True))
        row("word2vec text", lambda: polyseme.load(text), lambda: load(text), runs=3)
        row("fastText .bin", lambda: polyseme.load(bin_), lambda: load_facebook_vectors(bin_), runs=3)
        polyseme.load(binary).save(folder / "model")
        began = time.perf_counter()
        polyseme.load(folder / "model")
        print(f"{'model folder, memory-mapped':34} {time.perf_counter() - began:8.2f} s")
    print(f"bar: word2vec binary {BAR:.0f}× {'held' if ratio >= BAR else 'MISSED'}")
    sys.exit(ratio < BAR)


if __name__ == "__main__":
    main()
