"""Making a text index: texts are read, encoded and counted batch by batch, and written as they come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyseme.errors import TextError
from polyseme.interfaces import Progress, SentenceEncoder
from polyseme.search.texts import text_vectors as layout
from polyseme.search.texts.bm25 import Counting, words_of
from polyseme.search.texts.text_units import Unit
from polyseme.search.texts.text_vectors import EXACT, write_cells, write_sparse
from polyseme.sentences.bag_of_words import unit_vectors
from polyseme.text.segment import Segmentation

if TYPE_CHECKING:
    from polyseme.search.texts.text_index import TextIndex

_TOGETHER = 2048  # texts encoded at a time


class TextIndexBuilder:
    """Writes one index; ``adopt`` an earlier one to continue from it."""

    def __init__(self, encoder: SentenceEncoder, segmentation: Segmentation) -> None:
        self.encoder, self.segmentation = encoder, segmentation
        self._counting = Counting()
        self._known: TextIndex | None = None
        self._sources: list[str] = []
        self._added = False  # whether a text was added to those of an earlier index
        self._sparse: list[Any] = []
        self._n = 0

    def adopt(self, index: TextIndex) -> None:
        """Begin with the texts of an index."""
        self._known = index
        self._counting.adopt(index.words)
        self._sources = list(index.sources)

    def write(self, folder: Path, units: Iterator[Unit], progress: Progress) -> None:
        """All files of the index, into a folder that is not in its place yet."""
        names = (layout.TEXTS, layout.OFFSETS, layout.SOURCES, layout.LINES, layout.VECTORS)
        with ExitStack() as stack:
            files = {name: stack.enter_context(open(folder / name, "wb")) for name in names}
            np.zeros(1, dtype=np.int64).tofile(files[layout.OFFSETS])
            end = self._write_known(files) if self._known else 0
            while batch := list(islice(units, _TOGETHER)):
                end = self._add(batch, files, end)
                progress("texts", self._n, None)
        if not self._n:
            raise TextError("there are no texts to search: every line is empty")
        facts = {"n_texts": self._n, "dim": self.encoder.dim, "search": "exact", "probes": 0, "recall": 1.0}
        if self._sparse:
            from scipy.sparse import vstack

            write_sparse(folder, vstack(self._sparse, format="csr"))
            facts["search"] = "sparse"
        elif self._n > EXACT:
            facts |= write_cells(folder, self._n, self.encoder.dim, progress)
        layout.write_words(folder, self._counting.finished())
        entries = {"segmentation": self.segmentation.to_json(), "facts": facts, "sources": self._sources}
        layout.INDEX.write(folder, entries, layout.INDEX.seals(folder))

    def _add(self, batch: list[Unit], files: dict[str, Any], end: int) -> int:
        texts = [unit.text for unit in batch]
        self._counting.add([words_of(tokens) for tokens in self.segmentation.token_lists(texts)])
        self._write_vectors(unit_vectors(self.encoder, texts), files)
        coded = [text.encode("utf-8", "replace") for text in texts]
        files[layout.TEXTS].write(b"".join(coded))
        ends = end + np.cumsum([len(text_bytes) for text_bytes in coded], dtype=np.int64)
        ends.tofile(files[layout.OFFSETS])
        np.array([self._source_number(unit.source) for unit in batch], dtype=np.int32).tofile(files[layout.SOURCES])
        np.array([unit.line for unit in batch], dtype=np.int64).tofile(files[layout.LINES])
        self._n += len(batch)
        return int(ends[-1])

    def _source_number(self, source: str) -> int:
        """Texts that are added later are no neighbours of those before, even if their file has the same name."""
        if not self._added or source != self._sources[-1]:
            self._sources.append(source)
            self._added = True
        return len(self._sources) - 1

    def _write_vectors(self, rows: Any, files: dict[str, Any]) -> None:
        if isinstance(rows, np.ndarray):
            np.ascontiguousarray(rows, dtype=np.float32).tofile(files[layout.VECTORS])
        else:
            self._sparse.append(rows)

    def _write_known(self, files: dict[str, Any]) -> int:
        assert self._known is not None
        data, offsets, sources, lines = self._known.texts_bytes()
        for name, values in ((layout.TEXTS, data), (layout.SOURCES, sources), (layout.LINES, lines)):
            values.tofile(files[name])
        offsets[1:].tofile(files[layout.OFFSETS])
        self._write_vectors(self._known.vectors.in_order(), files)
        self._n = len(self._known)
        return int(offsets[-1])
