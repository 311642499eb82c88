"""Making an index: encode every occurrence of every word, keep its short code and its place in the corpus.

The corpus is read once, in order; the code of an occurrence goes straight to its place on disk, so memory does not grow
with the corpus. Unfinished work is in ``<out>.checkpoint`` and says how many sentences are done: after a kill,
``resume`` continues from there and ends in the same bytes (see build.py).

An index being built: ``<out>.checkpoint``, a folder with the arrays that are being filled and a sealed state.

The state, ``building.json``, is there from the first moment. It says what the index is made of, how many sentences are
done, and the checksum of what was written for them, in the order of the text; it has a checksum of its own. So what was
damaged meanwhile is refused when the work continues, and a folder that somebody else put there is never touched.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.disk.atomic import check_absent, followed, new_folder, publish_folder, rewrite, writing
from polyseme.disk.description import checksum, sha256
from polyseme.disk.files import PlainFile, parse_json, read_small
from polyseme.disk.ownership import ExistingResult, check_new, check_replaceable, recipe, standing
from polyseme.display import shown
from polyseme.errors import FormatError, OptionError, TrainingError
from polyseme.interfaces import ContextEncoder, Progress
from polyseme.options import make_options, option, options_to_json
from polyseme.search.kwic.patterns import words_beside
from polyseme.search.occurrences import index_folder
from polyseme.search.occurrences.cells import Cells, build_cells
from polyseme.search.occurrences.cluster import learn_apart
from polyseme.search.occurrences.index import Index
from polyseme.search.occurrences.short_codes import CODES, KINDS, Projection, chosen_layers, encode_states, resolve_kind
from polyseme.search.occurrences.sorting import Places, even_sample
from polyseme.search.occurrences.splits import WordSample, find_splits, learn_cutoffs
from polyseme.search.word_selection import SKIPS, indexed_words, tells_something
from polyseme.store import safetensors_file as tensor_file
from polyseme.text.corpus import Corpus
from polyseme.version import VERSION

STATE = "building.json"
PROJECTIONS = "projections.safetensors"
_NAMES = re.compile(
    rf"\.?({re.escape(STATE)}|{re.escape(PROJECTIONS)}|{re.escape(index_folder.TABLES)}|{re.escape(index_folder.INDEX_MANIFEST)})"
    r"|tokens\.npy|codes\.\d+\.npy|cells\.npy|\.assigned\.npy"
)


@dataclass
class Sums:
    """Checksums of the codes and places written so far, in the order of the text."""

    digests: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Some more."""
        self.digests.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(array).data)

    def to_json(self) -> dict[str, str]:
        """What the state keeps."""
        return {name: digest.hexdigest() for name, digest in self.digests.items()}


@dataclass(frozen=True)
class BuildState:
    """How far an index being built is."""

    identity: dict[str, Any]
    sentences: int
    sums: dict[str, str]

    def write(self, folder: Path) -> None:
        """Replace what was there."""
        record = {"identity": self.identity, "sentences": self.sentences, "sums": self.sums}
        rewrite(folder / STATE, json.dumps({**record, "checksum": checksum(record)}).encode())


def find(part: Path) -> BuildState | ExistingResult | None:
    """The state of the unfinished index at ``part``; an index that only lacks its name; None if nothing is.

    Whatever else is there is a FormatError: it may be somebody's own.
    """
    if not os.path.lexists(part):
        return None
    try:
        names = os.listdir(part)
        if any((part / name).is_symlink() for name in names):  # none is ours
            raise FormatError(f"{part} was altered")
        if STATE in names and all(_NAMES.fullmatch(name) for name in names):
            state = _state(part / STATE)
            if PROJECTIONS in names:
                return state
            (part / STATE).unlink()  # which is the last that goes when an index is finished
        there = standing(part)
    except (FormatError, OSError):
        raise FormatError(f"{part} is in the way: not an unfinished index, or altered; move it away") from None
    if there is None:
        os.rmdir(part)
    return there


def _state(file: Path) -> BuildState:
    try:
        record = parse_json(read_small(file))
        seal = record.pop("checksum")
        if seal == checksum(record):
            return BuildState(record["identity"], int(record["sentences"]), dict(record["sums"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise FormatError(f"{file} was altered")


log = logging.getLogger(__name__)

_BLOCK_TOKENS = 1 << 15  # encoded between two writes: many sentences of each length are read together
_CHECKPOINT_TOKENS = 5 * _BLOCK_TOKENS
_WORDS_TO_LEARN_FROM = 80  # how far uses are apart, from so many words with
_OCCURRENCES_TO_LEARN_FROM = (60, 200)  # at least and at most so many occurrences
_WORDS_LOOKED_AT = 2000  # the frequent words among which those that split are looked for


@dataclass(frozen=True)
class IndexOptions:
    """How occurrences are turned into codes."""

    states: str = option("auto", "vector of an occurrence: the states that predict the word, or its own", choices=KINDS)
    layers: str = option("auto", "layers to store: auto, all, or numbers such as 1,0,2; the first is the default")
    dim: int = option(128, "dimension of the stored vectors (PCA)", minimum=1)
    precision: str = option("int8", "storage precision", choices=tuple(CODES))
    skip: str = option(
        "punctuation", "what to skip: punctuation, punctuation and function words, or nothing", choices=SKIPS
    )
    min_count: int = option(1, "minimum word count; rarer words are not indexed", minimum=1)
    sample: int = option(50_000, "occurrences used to fit the projection", minimum=100)
    cells_from: int = option(
        200_000, "number of occurrences above which the search over all words is approximate", minimum=1
    )
    seed: int = option(1, "seed of the sample and the cells", minimum=0)


def build_index(
    model: ContextEncoder | str | Path,
    corpus: Corpus | str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = shown,
    **options: Any,
) -> Index:
    """Index every occurrence of every word of ``corpus`` as ``model`` sees it, and open the index.

    ``model`` is best given as a path: the index remembers it, and encodes the sentences of later queries with it.
    Another index, model or corpus that is at ``out`` is replaced only with ``force``.
    """
    checked = make_options(IndexOptions, options)
    out = followed(out)  # so that unfinished work is on the same disk
    with writing(out), writing(f"{out}.checkpoint"):
        check_replaceable(out, "index", force=force or resume)
        text = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        known: dict[str, Any] = {"fingerprint": None}
        if isinstance(model, ContextEncoder):
            encoder = model
        else:
            encoder, fingerprint = index_folder.load_encoder(model)
            known = {**index_folder.place(model, out), "fingerprint": fingerprint}
        _Builder(encoder, known, text, out, checked, progress).build(resume=resume, force=force)
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
        self.offsets = Places(self.counts).offsets
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
        self.recipe = recipe(self.identity) if known["fingerprint"] else ""
        self.done = 0  # sentences whose codes are on disk
        self.sums = Sums()
        self.kept_sums: dict[str, str] = {}  # of what an earlier run wrote
        self.projections: dict[int, Projection] = {}
        self.codes: dict[int, NDArray[Any]] = {}

    def build(self, *, resume: bool, force: bool) -> None:
        """Go on with what an earlier run left, or start over."""
        there = find(self.part)
        if resume and isinstance(there, ExistingResult) and self._replaced(there):
            with writing(self.part) as workshop:
                self.part.rename(workshop / "new")  # which is removed with the block
            return
        if resume and there is not None:
            self._check_identity(there)
            force = True  # as it was begun
        check_replaceable(self.out, "index", recipe=self.recipe, force=force)
        if not (resume and isinstance(there, ExistingResult)):  # else it lacks nothing but its name
            if resume and isinstance(there, BuildState):
                self._reopen(there)
            else:
                self._begin(there)
            self.encode()
            self.finish()
        publish_folder(
            self.part, self.out, lambda path, new: check_new(path, new, index_folder.INDEX_MANIFEST, force=force)
        )

    def _replaced(self, there: ExistingResult) -> bool:
        """The index has its name, and ``there`` is what had it before: a kill left it, after the two changed places."""
        named = standing(self.out)
        recipes = [each.found.get("recipe") for each in (named, there) if each is not None]
        return bool(self.recipe) and len(recipes) == 2 and recipes[0] == self.recipe != recipes[1]

    def _check_identity(self, there: BuildState | ExistingResult) -> None:
        if isinstance(there, BuildState):
            same = there.identity == self.identity
        else:
            same = bool(self.recipe) and there.found.get("recipe") == self.recipe
        if not same:
            raise TrainingError(f"{self.part} belongs to another model, corpus or options: delete it to start again")

    def _begin(self, there: BuildState | ExistingResult | None) -> None:
        """Fit the projections and lay out the empty arrays."""
        if there is not None:
            log.warning("starting over: the unfinished index in %s is deleted (resume would continue it)", self.part)
            with writing(self.part) as workshop:
                self.part.rename(workshop / "new")
        self._fit()
        tables: dict[str, NDArray[Any]] = {}
        for layer, projection in self.projections.items():
            tables.update(projection.tensors(f"layer{layer}"))
        with new_folder(self.part, check_absent) as part:
            self.tokens = index_folder.create(part / index_folder.TOKENS, (self.n,), np.dtype(np.int64))
            for layer in self.layers:
                shape = (self.n, self.projections[layer].dim)
                file = part / index_folder.codes_name(layer)
                self.codes[layer] = index_folder.create(file, shape, CODES[self.options.precision])
            tensor_file.write(part / PROJECTIONS, tables)
            self._save_state(part)

    def encode(self) -> None:
        """Codes of all sentences that are not done yet."""
        corpus, offsets = self.corpus, self.corpus.sentence_offsets
        places = self._places()
        since = 0
        for first, last in _blocks(offsets, self.done, corpus.n_sentences):
            rows, mask, tokens = self._rows(places, first, last)
            states = self._states(range(first, last), mask)
            for layer in self.layers:
                codes = self.projections[layer].codes(states[layer])
                self.codes[layer][rows] = codes
                self.sums.add(index_folder.codes_name(layer), codes)
            self.tokens[rows] = tokens
            self.sums.add(index_folder.TOKENS, tokens)
            for array in self._arrays().values():
                index_folder.release(array)
            self.done, since = last, since + int(offsets[last] - offsets[first])
            if since >= _CHECKPOINT_TOKENS:
                self._save_state(self.part)
                since = 0
            self.progress("encode occurrences", int(offsets[last]), corpus.n_tokens)
        self._save_state(self.part)

    def _rows(self, places: Places, first: int, last: int) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
        """For some sentences: the rows of their occurrences, which tokens these are, and where in the corpus."""
        begin, end = (int(self.corpus.sentence_offsets[at]) for at in (first, last))
        ids = np.asarray(self.corpus.ids[begin:end])
        mask = (ids < len(self.kept)) & self.kept[np.minimum(ids, len(self.kept) - 1)]
        return places.take(ids[mask]), mask, begin + np.flatnonzero(mask)

    def _places(self) -> Places:
        """The places that are free; what occurs in the others is compared with the sums that were kept of it."""
        places = Places(self.counts)
        for first, last in _blocks(self.corpus.sentence_offsets, 0, self.done):
            rows, _, _ = self._rows(places, first, last)
            for name, array in self._arrays().items():
                self.sums.add(name, array[rows])
                index_folder.release(array)
        if self.sums.to_json() != self.kept_sums:
            raise self._damaged()
        return places

    def _damaged(self) -> FormatError:
        return FormatError(f"{self.part} was damaged or altered since it was written: delete it to start again")

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            index_folder.TOKENS: self.tokens,
            **{index_folder.codes_name(k): codes for k, codes in self.codes.items()},
        }

    def finish(self) -> None:
        """Cells where the index is large, the description, and the folder gets its name."""
        first = self.layers[0]
        cells: Cells | None = None
        recall = 1.0
        if self.n >= self.options.cells_from:
            cells, recall = build_cells(
                self.codes[first],
                self.projections[first].step,
                self.part / index_folder.CELLS,
                seed=self.options.seed,
                progress=self.progress,
            )
        tables: dict[str, NDArray[Any]] = {"words": self.offsets}
        for layer, projection in self.projections.items():
            tables.update(projection.tensors(f"layer{layer}"))
        if cells:
            tables.update(cells.tensors())
        tensor_file.write(self.part / index_folder.TABLES, tables)
        manifest = {
            "model": self.model,
            "corpus": {**index_folder.place(self.corpus.path, self.out), "fingerprint": self.corpus.fingerprint},
            "options": options_to_json(self.options),
            "facts": {**self._facts(cells, recall), **self._learnt()},
            **({"recipe": self.recipe} if self.recipe else {}),
        }
        names = [*self._arrays(), index_folder.TABLES, *([index_folder.CELLS] if cells else [])]
        seals = {name: index_folder.INDEX.seal(self.part / name) for name in sorted(names)}
        index_folder.INDEX.write(self.part, manifest, seals)
        for name in (PROJECTIONS, STATE):  # a kill before this line costs the cells only
            (self.part / name).unlink()

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
        }

    def _learnt(self) -> dict[str, Any]:
        """How far uses are apart, which score tells them, and which words have several: from the codes themselves."""
        vocabulary = self.corpus.vocabulary
        fewest, most = _OCCURRENCES_TO_LEARN_FROM

        def sample(word: str) -> WordSample:
            number = vocabulary.index[word]
            neighbours = words_beside(self.corpus, np.asarray(self.tokens[self._sampled(number, most)]))
            return WordSample(self._vectors(number, most), neighbours)

        frequent = np.flatnonzero(self.counts >= fewest)
        drawn = np.random.default_rng(self.options.seed).permutation(frequent).tolist()
        drawn_vectors = [self._vectors(word, most) for word in drawn[:_WORDS_TO_LEARN_FROM]]
        apart = learn_apart(drawn_vectors, seed=self.options.seed, progress=self.progress)
        alike, alike_words = learn_cutoffs(drawn_vectors)
        telling = [vocabulary.words[word] for word in frequent.tolist() if tells_something(vocabulary.words[word])]
        splits = find_splits(telling[:_WORDS_LOOKED_AT], sample, apart=apart, progress=self.progress)
        return {
            "apart": round(apart, 4),
            "alike": None if alike is None else round(alike, 4),
            "alike_words": None if alike_words is None else round(alike_words, 4),
            "splits": [[word, round(score, 3)] for word, score in splits],
        }

    def _sampled(self, word: int, most: int) -> NDArray[np.int64]:
        """Occurrences of a word, evenly drawn."""
        return np.asarray(self.offsets[word] + even_sample(int(self.counts[word]), most))

    def _vectors(self, word: int, most: int) -> FloatArray:
        layer = self.layers[0]
        vectors = self.projections[layer].decode(self.codes[layer][self._sampled(word, most)])
        index_folder.release(self.codes[layer])
        return vectors

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
        for sentence in encode_states(self.encoder, tokens, self.kind, self.layers):
            for layer, states in zip(self.layers, sentence, strict=True):
                found[layer].append(states)
        return {layer: np.concatenate(states)[mask] for layer, states in found.items()}

    def _save_state(self, part: Path) -> None:
        # The codes first: a state on disk never promises more than what is there.
        for array in self._arrays().values():
            array.flush()  # type: ignore[attr-defined]
        with PlainFile(part / PROJECTIONS) as file:
            sums = {PROJECTIONS: sha256(file)}
        BuildState(self.identity, self.done, {**self.sums.to_json(), **sums}).write(part)

    def _reopen(self, state: BuildState) -> None:
        sums = dict(state.sums)
        if not 0 <= state.sentences <= self.corpus.n_sentences:
            raise self._damaged()
        with PlainFile(self.part / PROJECTIONS) as file:
            if sums.pop(PROJECTIONS, None) != sha256(file):
                raise self._damaged()
            arrays, where = tensor_file.read(file), str(file.path)
        precision = self.options.precision
        self.tokens = index_folder.reopen(self.part / index_folder.TOKENS, (self.n,), np.dtype(np.int64))
        for layer in self.layers:
            projection = Projection.from_tensors(arrays, f"layer{layer}", precision, where)
            self.projections[layer] = projection
            codes = self.part / index_folder.codes_name(layer)
            self.codes[layer] = index_folder.reopen(codes, (self.n, projection.dim), CODES[precision])
        self.done, self.kept_sums = state.sentences, sums
        log.info("resuming at sentence %d of %d", self.done, self.corpus.n_sentences)


def _blocks(offsets: NDArray[np.int64], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Runs of sentences of about as many tokens as are encoded at once, from ``first`` on."""
    while first < last:
        end = int(np.searchsorted(offsets, offsets[first] + _BLOCK_TOKENS, side="right")) - 1
        end = min(max(end, first + 1), last)
        yield first, end
        first = end
