"""Making an index: encode every occurrence of every word, keep its short code and its place in the corpus.

The corpus is read once, in order; the code of an occurrence goes straight to its place on disk, so memory does not grow
with the corpus. Unfinished work lies in ``<out>.checkpoint`` and says how many sentences are done: after a kill,
``resume`` goes on from there and ends in the same bytes.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.atomic import check_replaceable, followed, new_file, publish_folder
from polyseme.errors import FormatError, OptionError, TrainingError
from polyseme.nouns import ContextEncoder, FloatArray, Progress, silent
from polyseme.options import make_options, option, options_to_json
from polyseme.search import layout, sources
from polyseme.search.cells import Cells, build_cells
from polyseme.search.cluster import learn_apart
from polyseme.search.index import Index
from polyseme.search.projection import CODES, Projection
from polyseme.search.selection import SKIPS, indexed_words
from polyseme.search.sorting import Places, even_sample
from polyseme.search.states import KINDS, chosen_layers, encode_states, layer_states, resolve_kind
from polyseme.store import tensors as tensor_file
from polyseme.store.fingerprint import model_fingerprint
from polyseme.text.corpus import Corpus
from polyseme.version import VERSION

log = logging.getLogger(__name__)

_STATE = "building.json"
_BLOCK_TOKENS = 8192  # encoded between two writes
_CHECKPOINT_TOKENS = 20 * _BLOCK_TOKENS
_WORDS_TO_LEARN_FROM = 40  # how far senses lie apart, from so many words with
_OCCURRENCES_TO_LEARN_FROM = (60, 200)  # at least and at most so many occurrences


@dataclass(frozen=True)
class IndexOptions:
    """How occurrences are turned into codes."""

    states: str = option("auto", "what stands for an occurrence: the states that predict it, or its own", choices=KINDS)
    layers: str = option("auto", "layers to keep: auto, all, or numbers such as 1,0,2; the first is the default")
    dim: int = option(128, "numbers kept of each vector (PCA)", minimum=1)
    precision: str = option("int8", "how a number is kept", choices=tuple(CODES))
    skip: str = option("punctuation", "what to leave out: punctuation, that and function words, nothing", choices=SKIPS)
    min_count: int = option(1, "leave out words that the corpus holds fewer times", minimum=1)
    sample: int = option(50_000, "occurrences on which the projection is fitted", minimum=100)
    cells_from: int = option(200_000, "occurrences from which the search over all words is approximate", minimum=1)
    seed: int = option(1, "seed of the sample and the cells", minimum=0)


def build_index(
    model: ContextEncoder | str | Path,
    corpus: Corpus | str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> Index:
    """Index every occurrence of every word of ``corpus`` as ``model`` sees it, and open the index.

    ``model`` is best given as a path: the index remembers it, and encodes the sentences of later queries with it.
    """
    checked = make_options(IndexOptions, options)
    out = followed(out)  # so that unfinished work lies on the same disk
    check_replaceable(out, marker=layout.MARKER)
    text = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    known: dict[str, Any] = {"fingerprint": None}
    if isinstance(model, ContextEncoder):
        encoder = model
    else:
        encoder = sources.load_encoder(model)
        known = {**sources.place(model, out), "fingerprint": model_fingerprint(model)}
    builder = _Builder(encoder, known, text, out, checked, progress)
    builder.begin(resume)
    builder.encode()
    builder.finish()
    return Index.open(out, model=encoder, corpus=text)


class _Builder:
    """The work of one ``build_index``, in the folder of unfinished work."""

    def __init__(
        self,
        encoder: ContextEncoder,
        known: dict[str, Any],
        corpus: Corpus,
        out: Path,
        options: IndexOptions,
        progress: Progress,
    ) -> None:
        self.encoder, self.corpus, self.out, self.options, self.progress = encoder, corpus, out, options, progress
        self.model = known
        self.part = Path(f"{out}.checkpoint")
        self.kind = resolve_kind(encoder, options.states)
        self.layers = chosen_layers(encoder, options.layers, self.kind)
        self.kept = indexed_words(corpus.vocabulary, min_count=options.min_count, skip=options.skip)
        self.counts = np.where(self.kept, corpus.vocabulary.counts, 0)
        self.n = int(self.counts.sum())
        if not self.n:
            raise OptionError(
                f"{corpus.path} has no word to index (min_count {options.min_count}, skip {options.skip})"
            )
        self.identity = {
            "options": options_to_json(options),
            "model": known["fingerprint"],
            "corpus": corpus.fingerprint,
            "polyseme": VERSION,
        }
        self.done = 0  # sentences whose codes are on disk
        self.projections: dict[int, Projection] = {}
        self.codes: dict[int, NDArray[Any]] = {}

    def begin(self, resume: bool) -> None:
        """Open what an earlier run left, or start: fit the projections and lay out the empty arrays."""
        state = self.part / _STATE
        if self.part.exists() and not state.exists() and any(self.part.iterdir()) and not self._ours():
            raise FormatError(f"{self.part} is in the way: it holds other things than an unfinished index")
        if resume and state.exists():
            self._reopen(state)
            return
        if state.exists():
            log.warning("starting over: the unfinished index in %s is thrown away (resume goes on with it)", self.part)
        shutil.rmtree(self.part, ignore_errors=True)
        self.part.mkdir(parents=True)
        self._fit()
        self.tokens = layout.create(self.part / layout.TOKENS, (self.n,), np.dtype(np.int64))
        for layer in self.layers:
            shape = (self.n, self.projections[layer].dim)
            file = self.part / layout.codes_name(layer)
            self.codes[layer] = layout.create(file, shape, CODES[self.options.precision])
        self._save_state()

    def encode(self) -> None:
        """Codes of all sentences that are not done yet."""
        corpus, offsets = self.corpus, self.corpus.sentence_offsets
        places = Places(self.counts)
        places.skip(self._counts_before(self.done))
        since = 0
        for first, last in _blocks(offsets, self.done, _BLOCK_TOKENS):
            begin, end = int(offsets[first]), int(offsets[last])
            ids = np.asarray(corpus.ids[begin:end])
            mask = (ids < len(self.kept)) & self.kept[np.minimum(ids, len(self.kept) - 1)]
            rows = places.take(ids[mask])
            states = self._states(range(first, last), mask)
            for layer in self.layers:
                self.codes[layer][rows] = self.projections[layer].codes(states[layer])
            self.tokens[rows] = begin + np.flatnonzero(mask)
            self.done, since = last, since + end - begin
            if since >= _CHECKPOINT_TOKENS:
                self._save_state()
                since = 0
            self.progress("encode occurrences", end, corpus.n_tokens)
        self._save_state()

    def finish(self) -> None:
        """Cells where the index is large, the description, and the folder gets its name."""
        first = self.layers[0]
        cells: Cells | None = None
        recall = 1.0
        if self.n >= self.options.cells_from:
            cells, recall = build_cells(
                self.codes[first],
                self.projections[first],
                self.part / layout.CELLS,
                seed=self.options.seed,
                progress=self.progress,
            )
        tables: dict[str, NDArray[Any]] = {"words": Places(self.counts).offsets}
        for layer, projection in self.projections.items():
            tables.update(projection.tensors(f"layer{layer}"))
        if cells:
            tables.update(cells.tensors())
        with new_file(self.part / layout.TABLES) as part:  # resuming reads the projections from it
            tensor_file.write(part, tables)
        manifest = {
            "model": self.model,
            "corpus": {**sources.place(self.corpus.path, self.out), "fingerprint": self.corpus.fingerprint},
            "options": options_to_json(self.options),
            "facts": self._facts(cells, recall),
        }
        layout.INDEX.write(self.part, manifest, layout.INDEX.seals(self.part, aside=(_STATE,)))
        (self.part / _STATE).unlink()  # last: a kill before this line costs the cells, not the encoding
        publish_folder(self.part, self.out, marker=layout.MARKER)

    def _facts(self, cells: Cells | None, recall: float) -> dict[str, Any]:
        return {
            "n_occurrences": self.n,
            "n_words": int(np.count_nonzero(self.counts)),
            "states": self.kind,
            "layer": self.layers[0],
            "layers": self.layers,
            "dim": self.projections[self.layers[0]].dim,
            "precision": self.options.precision,
            "search": "cells" if cells else "exact",
            "cells": len(cells.centres) if cells else 0,
            "probes": cells.probes if cells else 0,
            "recall": round(recall, 4),
            "apart": round(self._apart(), 4),
        }

    def _apart(self) -> float:
        fewest, most = _OCCURRENCES_TO_LEARN_FROM
        frequent = np.flatnonzero(self.counts >= fewest)
        rng = np.random.default_rng(self.options.seed)
        chosen = rng.permutation(frequent)[:_WORDS_TO_LEARN_FROM]
        offsets, first = Places(self.counts).offsets, self.layers[0]
        words = []
        for word in chosen:
            rows = offsets[word] + even_sample(int(self.counts[word]), most)
            words.append(self.projections[first].decode(self.codes[first][rows]))
        return learn_apart(words, seed=self.options.seed, progress=self.progress)

    def _fit(self) -> None:
        # Sentences spread evenly over the corpus, so that every part of it has a say.
        corpus, share = self.corpus, min(1.0, self.options.sample / self.n)
        rng = np.random.default_rng(self.options.seed)
        chosen = np.flatnonzero(rng.random(corpus.n_sentences) < share)
        if not len(chosen):
            chosen = np.arange(corpus.n_sentences)[: self.options.sample]
        sample: dict[int, list[FloatArray]] = {layer: [] for layer in self.layers}
        for begin in range(0, len(chosen), 256):
            block = chosen[begin : begin + 256]
            states = self._states(block, None)
            for layer in self.layers:
                sample[layer].append(states[layer])
            self.progress("fit the projection", begin + len(block), len(chosen))
        for layer in self.layers:
            joined = np.concatenate(sample.pop(layer))
            if not len(joined):  # rare words only: every sentence has a say
                joined = self._states(range(corpus.n_sentences), None)[layer]
            self.projections[layer] = Projection.fit(joined, dim=self.options.dim, precision=self.options.precision)

    def _states(self, sentences: Any, mask: NDArray[np.bool_] | None) -> dict[int, FloatArray]:
        """States of the indexed words of some sentences, by layer, ``(n, D)`` each."""
        corpus = self.corpus
        tokens = [corpus.sentence(int(i)) for i in sentences]
        if mask is None:
            offsets = corpus.sentence_offsets
            ids = np.concatenate([corpus.ids[offsets[i] : offsets[i + 1]] for i in sentences])
            mask = (ids < len(self.kept)) & self.kept[np.minimum(ids, len(self.kept) - 1)]
        found: dict[int, list[FloatArray]] = {layer: [] for layer in self.layers}
        for sentence in encode_states(self.encoder, tokens, self.kind):
            for layer in self.layers:
                found[layer].append(layer_states(sentence.layers, layer, self.kind))
        return {layer: np.concatenate(states)[mask] for layer, states in found.items()}

    def _counts_before(self, sentence: int) -> NDArray[np.int64]:
        end, size = int(self.corpus.sentence_offsets[sentence]), len(self.kept)
        counts = np.zeros(size, dtype=np.int64)
        for begin in range(0, end, 1 << 20):
            ids = np.asarray(self.corpus.ids[begin : min(begin + (1 << 20), end)])
            counts += np.bincount(ids[ids < size], minlength=size)
        return np.where(self.kept, counts, 0)

    def _save_state(self) -> None:
        # The codes first: a state on disk never promises more than what is there.
        self.tokens.flush()  # type: ignore[attr-defined]
        for codes in self.codes.values():
            codes.flush()  # type: ignore[attr-defined]
        tables: dict[str, NDArray[Any]] = {}
        for layer, projection in self.projections.items():
            tables.update(projection.tensors(f"layer{layer}"))
        if not (self.part / layout.TABLES).exists():
            with new_file(self.part / layout.TABLES) as part:
                tensor_file.write(part, tables)
        with new_file(self.part / _STATE) as part:
            part.write_text(json.dumps({"identity": self.identity, "sentences": self.done}), encoding="utf-8")

    def _reopen(self, state: Path) -> None:
        try:
            record = json.loads(state.read_text(encoding="utf-8"))
            identity, done = record["identity"], int(record["sentences"])
        except (ValueError, KeyError, TypeError):
            raise FormatError(f"{state} is not the state of an unfinished index: delete {self.part}") from None
        if identity != self.identity:
            raise TrainingError(f"{self.part} belongs to another model, corpus or options: delete it to start anew")
        if not 0 <= done <= self.corpus.n_sentences:
            raise FormatError(f"{state} was altered: the corpus has {self.corpus.n_sentences:,} sentences")
        arrays = tensor_file.read(self.part / layout.TABLES)
        precision, where = self.options.precision, str(self.part / layout.TABLES)
        self.tokens = layout.reopen(self.part / layout.TOKENS, (self.n,), np.dtype(np.int64), writable=True)
        for layer in self.layers:
            projection = Projection.from_tensors(arrays, f"layer{layer}", precision, where)
            self.projections[layer] = projection
            file = self.part / layout.codes_name(layer)
            self.codes[layer] = layout.reopen(file, (self.n, projection.dim), CODES[precision], writable=True)
        self.done = done
        log.info("going on at sentence %d of %d", done, self.corpus.n_sentences)

    def _ours(self) -> bool:
        return all(
            file.name.startswith(("codes.", "tokens.", "tables.", "cells.", layout.MARKER, "."))
            for file in self.part.iterdir()
        )


def _blocks(offsets: NDArray[np.int64], first: int, tokens: int) -> Iterator[tuple[int, int]]:
    """Runs of sentences of about so many tokens, from sentence ``first`` on."""
    last = len(offsets) - 1
    while first < last:
        end = int(np.searchsorted(offsets, offsets[first] + tokens, side="right")) - 1
        end = min(max(end, first + 1), last)
        yield first, end
        first = end
