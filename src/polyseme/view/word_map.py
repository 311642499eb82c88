"""The vocabulary on a plane: PCA at once, t-SNE computed once in the background and kept.

t-SNE: van der Maaten and Hinton, Visualizing Data using t-SNE, 2008; scikit-learn's Barnes-Hut version, started
from PCA.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections import Counter, OrderedDict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, principal_components, principal_plane, unit_rows, within_square
from polyseme.disk.atomic import new_file
from polyseme.errors import FormatError, PolysemeError
from polyseme.store import safetensors_file
from polyseme.text.corpus import Corpus
from polyseme.words.sparse import SparseRows
from polyseme.words.vectors import WordVectors

log = logging.getLogger(__name__)

IN_MEMORY, ON_DISK = 16, 100  # maps that are kept
_TAGGED_WORDS = 5_000_000  # looked through for the tags of words

Places = tuple[list[int], FloatArray]  # rows of the words, and their points (n, 2) within [-1, 1]


class MapFailed(PolysemeError):
    """A map that cannot be computed: the message is the reason."""


class Maps:
    """Maps of word vectors; those of t-SNE are kept in a folder, under a fingerprint of what they show."""

    def __init__(self, folder: Path | None = None, tagged: Corpus | None = None) -> None:
        """``tagged`` is a corpus by whose tags words are coloured."""
        self.folder = folder or default_folder()
        self._groups = lru_cache(maxsize=8)(partial(_clusters_and_tags, tagged))
        self._lock = threading.Lock()
        self._known: OrderedDict[str, FloatArray] = OrderedDict()
        self._running: set[str] = set()
        self._failed: dict[str, str] = {}

    def to_json(self, vectors: WordVectors, method: str, size: int) -> dict[str, Any] | None:
        """Each word with its point, count, cluster and tag, and the tags by frequency; None or MapFailed as above."""
        places = self.points(vectors, method, size)
        if places is None:
            return None
        rows, plane = places
        labels, tags = self._groups(vectors, tuple(rows))
        counts = vectors.vocabulary.counts
        points = [
            {
                "word": vectors.index_to_key[row],
                "x": round(x, 5),
                "y": round(y, 5),
                "count": int(counts[row]),
                "cluster": label,
                "tag": tag,
            }
            for row, (x, y), label, tag in zip(rows, plane.tolist(), labels, tags, strict=True)
        ]
        return {"points": points, "tags": [tag for tag, _ in Counter(filter(None, tags)).most_common()]}

    def points(self, vectors: WordVectors, method: str, size: int) -> Places | None:
        """Points of the most frequent words; None while t-SNE is being computed, MapFailed where it cannot be."""
        rows = _rows_with_letters(vectors, size)
        units = unit_rows(_dense_rows(vectors, np.array(rows)))
        if method == "pca" or len(rows) < 8:
            return rows, within_square(principal_plane(units))
        key = hashlib.sha256(b"tsne 1" + units.tobytes()).hexdigest()[:32]
        with self._lock:
            plane = self._known.get(key)
            if plane is None:
                plane = self._kept(key, len(rows))
            if plane is not None:
                self._remember(key, plane)
                return rows, plane
            if key in self._failed:
                raise MapFailed(self._failed[key])
            if not self._running:  # one at a time: the others are requested again
                self._running.add(key)
                threading.Thread(target=self._compute, args=(key, units), daemon=True, name="polyseme-tsne").start()
        return None

    def _compute(self, key: str, units: FloatArray) -> None:
        plane, reason = None, ""
        try:
            plane = within_square(tsne(units))
            with new_file(self.folder / f"{key}.safetensors") as part:
                safetensors_file.write(part, {"points": plane})
            self._forget_oldest()
        except Exception as error:  # of any kind: the page waits for an end, and a second time would end alike
            if plane is None:
                reason = "not enough memory" if isinstance(error, MemoryError) else "t-SNE failed, see the log"
                log.error("t-SNE failed: %r", error)
            else:
                log.warning("the map is kept in memory only: %s cannot be written (%s)", self.folder, error)
        with self._lock:
            if plane is None:
                self._failed[key] = reason
            else:
                self._remember(key, plane)
            self._running.discard(key)

    def _remember(self, key: str, plane: FloatArray) -> None:
        self._known[key] = plane
        self._known.move_to_end(key)
        if len(self._known) > IN_MEMORY:
            self._known.popitem(last=False)

    def _forget_oldest(self) -> None:
        files = sorted(self.folder.glob("*.safetensors"), key=lambda file: file.stat().st_mtime)
        for file in files[:-ON_DISK]:
            file.unlink(missing_ok=True)

    def _kept(self, key: str, n: int) -> FloatArray | None:
        file = self.folder / f"{key}.safetensors"
        if not file.is_file():
            return None
        try:
            points = safetensors_file.read(file).get("points")
        except FormatError:
            return None
        if points is None or points.shape != (n, 2) or points.dtype != np.float32 or not np.isfinite(points).all():
            return None
        return np.array(points)


def plane_of(vectors: WordVectors, method: str, size: int) -> Places:
    """The most frequent words and their points by PCA or t-SNE, which takes its time."""
    rows = _rows_with_letters(vectors, size)
    units = unit_rows(_dense_rows(vectors, np.array(rows)))
    return rows, within_square(principal_plane(units) if method == "pca" or len(rows) < 8 else tsne(units))


def _clusters_and_tags(
    tagged: Corpus | None, vectors: WordVectors, rows: tuple[int, ...]
) -> tuple[list[int], list[str | None]]:
    words = [vectors.index_to_key[row] for row in rows]
    tags: list[str | None] = commonest_tags(tagged, words) if tagged else [None] * len(words)
    return clusters(vectors, list(rows)).tolist(), tags


def clusters(vectors: WordVectors, rows: list[int], n: int = 7) -> NDArray[np.int64]:
    """Groups of words that are near each other in all dimensions (k-means), the largest first, ``(rows,)``."""
    from sklearn.cluster import KMeans

    if len(rows) <= n:
        return np.zeros(len(rows), dtype=np.int64)
    units = unit_rows(_dense_rows(vectors, np.array(rows)))
    labels = KMeans(n, n_init=1, random_state=0).fit(units).labels_
    rank = np.argsort(np.argsort(-np.bincount(labels, minlength=n), kind="stable"), kind="stable")
    return np.asarray(rank[labels], dtype=np.int64)


def commonest_tags(corpus: Corpus, words: list[str]) -> list[str | None]:
    """The tag that each word has most often, in the first millions of words; None if it is not there."""
    if corpus.tags is None:
        return [None] * len(words)
    ids, tags = corpus.ids[:_TAGGED_WORDS].astype(np.int64), corpus.tags[:_TAGGED_WORDS]
    chosen = np.array([corpus.number(word) for word in words])
    place = np.full(len(corpus.all_words) + 1, -1, dtype=np.int64)
    place[chosen] = np.arange(len(words))
    place[-1] = -1
    known = place[ids] >= 0
    table = np.zeros((len(words), len(corpus.tag_names)), dtype=np.int64)
    np.add.at(table, (place[ids[known]], tags[known]), 1)
    best = table.argmax(axis=1)
    return [corpus.tag_names[tag] if table[row, tag] else None for row, tag in enumerate(best.tolist())]


def default_folder() -> Path:
    """Where programs keep what they can compute again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "polyseme" / "maps"


def tsne(units: FloatArray) -> FloatArray:
    """scikit-learn's t-SNE of at most 50 principal components."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    reduced = principal_components(units, 50)
    perplexity = min(30.0, (len(units) - 1) / 3)
    # n_jobs does not reach its gradient, whose threads wait for each other all the time: on busy cores, for minutes.
    with threadpool_limits(1, user_api="openmp"):
        plane = TSNE(2, perplexity=perplexity, init="pca", random_state=0, n_jobs=1).fit_transform(reduced)
    return np.asarray(plane, dtype=np.float32)


def _dense_rows(vectors: WordVectors, rows: NDArray[np.int64]) -> FloatArray:
    """The vectors of some rows; sparse ones, which are as long as the vocabulary, in few dimensions."""
    chosen = vectors.vectors[rows]
    return chosen.reduced(min(50, *chosen.shape)) if isinstance(chosen, SparseRows) else np.asarray(chosen)


def _rows_with_letters(vectors: WordVectors, size: int) -> list[int]:
    """The most frequent words, punctuation and figures omitted (unless there is nothing else)."""
    rows: list[int] = []
    for row, word in enumerate(vectors.index_to_key):
        if any(c.isalpha() for c in word):
            rows.append(row)
            if len(rows) == size:
                return rows
    return rows if len(rows) >= 2 else list(range(min(size, len(vectors))))
