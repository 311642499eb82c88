"""The index of occurrences: ask for those that are used the same way, or for the uses of a word. 按用法检索

>>> index = Index.open("人民日报.index")
>>> index.same_sense("他打了个电话。", word="打")         # occurrences of 打 used as in this sentence
>>> index.same_sense("他打了个电话。", word="打", any_word=True)    # other words that are used so
>>> index.senses("打")                                  # its uses: share, typical sentences, substitutes
>>> index.expected("他打了个电话。", word="打")           # what the language model expects there instead

A word's occurrences are contiguous, so a question about one word is answered exactly; only ``any_word`` on a large
index goes through cells (see cells.py), whose recall was measured when they were made.

Which token of a sentence is meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, best_places, unit_rows
from polyseme.disk.folders import OpenFolder, steady
from polyseme.disk.mapped import Watch, watching
from polyseme.display import facts_table
from polyseme.errors import FormatError, MissingExtra, OptionError, UnknownWord
from polyseme.interfaces import ContextEncoder, Sentence, check_query
from polyseme.search.occurrences import index_folder, short_codes
from polyseme.search.occurrences.cells import Cells
from polyseme.search.occurrences.cluster import SHARED
from polyseme.search.occurrences.hits import Hit, WordSenses
from polyseme.search.occurrences.short_codes import CODES, KINDS, MIXED, Projection, encode_states
from polyseme.search.occurrences.uses import expected_words, find_senses, offers_substitutes
from polyseme.store import safetensors_file as tensor_file
from polyseme.text.corpus import Corpus
from polyseme.text.segment import FUNCTION
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import similar_spellings

_MOST_CUTS = 32  # places that are tried: each costs a segmentation of the whole text


def locate(
    sentence: Sentence, position: int | None, word: str | None, encoder: ContextEncoder, share: Callable[[str], float]
) -> tuple[list[str], int]:
    """The sentence's tokens and the place among them of the word that is meant.

    A word that the segmentation would not cut out of raw text is cut out all the same: the text before it and the text
    after it are segmented apart. Where that can be done in several places, the cut into likelier words is taken, by the
    ``share`` of a text that each has: 里 of 从这里到那里有三十里 is the last one where 这里 and 那里 are words.
    """
    tokens = encoder.tokenize(sentence) if isinstance(sentence, str) else list(sentence)
    if position is not None:
        if not -len(tokens) <= position < len(tokens):
            raise OptionError(f"the sentence has {len(tokens)} tokens ({' '.join(tokens)}), no position {position}")
        place = position % len(tokens)
        if word is not None and tokens[place] != word:
            raise OptionError(f"token {position} is {tokens[place]!r}, not {word!r} ({' '.join(tokens)})")
        return tokens, place
    if word is None:
        if len(tokens) != 1:
            raise OptionError(f"which word is meant? give word or position ({' '.join(tokens)})")
        return tokens, 0
    if word in tokens:
        return tokens, tokens.index(word)
    if isinstance(sentence, str) and word and word in sentence:
        cuts = [_cut_out(sentence, begin, word, encoder) for begin in islice(_occurrences(sentence, word), _MOST_CUTS)]
        return max(cuts, key=lambda cut: sum(math.log(share(token)) for token in cut[0]))
    raise OptionError(f"{word!r} is not in the sentence ({' '.join(tokens)})")


def _occurrences(text: str, word: str) -> Iterator[int]:
    begin = text.find(word)
    while begin >= 0:
        yield begin
        begin = text.find(word, begin + len(word))


def _cut_out(text: str, begin: int, word: str, encoder: ContextEncoder) -> tuple[list[str], int]:
    before = encoder.tokenize(text[:begin]) if begin else []
    return [*before, word, *encoder.tokenize(text[begin + len(word) :])], len(before)


_ORIGINS_KEPT = 1000
_CANDIDATES_PER_HIT = 200  # other words are told apart among so many of the best occurrences


class Index:
    """Every occurrence of every indexed word of a corpus, with its vector. Made by ``build_index``."""

    def __init__(self, folder: OpenFolder, corpus: Corpus, model: Any) -> None:
        path = self.path = folder.path
        self.watch = Watch()  # over the files of the index and of its corpus
        self.corpus = corpus
        self.facts: dict[str, Any] = folder.found["facts"]
        self._model_record, self._model = folder.found["model"], model
        try:
            self.layers = [int(layer) for layer in self.facts["layers"]]
            self._kind, precision = str(self.facts["states"]), str(self.facts["precision"])
            n, searched = int(self.facts["n_occurrences"]), self.facts["search"]
            self._n, probes, self._apart = n, int(self.facts["probes"]), float(self.facts["apart"])
            dtype = CODES[precision]
        except (KeyError, TypeError, ValueError):
            raise FormatError(f"{path / index_folder.INDEX_MANIFEST} was altered: its facts are incomplete") from None
        if not self.layers or self._kind not in KINDS:
            raise FormatError(f"{path / index_folder.INDEX_MANIFEST} was altered: its facts are incomplete")
        where = str(path / index_folder.TABLES)
        arrays = tensor_file.read(folder.file(index_folder.TABLES))
        self.offsets = _checked_offsets(arrays.get("words"), n, corpus, where)
        self._tokens = index_folder.array(folder.file(index_folder.TOKENS), (n,), np.dtype(np.int64))
        self._projections = {k: Projection.from_tensors(arrays, f"layer{k}", precision, where) for k in self.layers}
        self._codes = {
            k: index_folder.array(folder.file(index_folder.codes_name(k)), (n, p.dim), dtype)
            for k, p in self._projections.items()
        }
        self._origins: dict[tuple[str, int], FloatArray] = {}
        self._cells: Cells | None = None
        if searched == "cells":
            rows = index_folder.array(
                folder.file(index_folder.CELLS), (n,), np.dtype(np.int32 if n < 2**31 else np.int64)
            )
            dim = self._projections[self.layers[0]].dim
            self._cells = Cells.from_tensors(arrays, rows, probes, dim, where)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        model: ContextEncoder | str | Path | None = None,
        corpus: Corpus | str | Path | None = None,
    ) -> Index:
        """Open an index. ``model`` and ``corpus`` say where they are now, if they were moved since."""
        path = Path(path)

        def once() -> Index:
            with index_folder.INDEX.open(path) as folder, watching() as watch:
                folder.verify()
                index = cls(folder, index_folder.open_corpus(folder.found["corpus"], path, corpus), model)
            index.watch = watch
            return index

        return steady(path, once)

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"Index({str(self.path)!r}, {len(self):,} occurrences of {len(self.words):,} words)"

    def _repr_html_(self) -> str:
        return facts_table(f"Index {self.path}", {**self.facts, "words": len(self.words), "corpus": repr(self.corpus)})

    @cached_property
    def words(self) -> Vocabulary:
        """The indexed words, most frequent first."""
        counts = np.diff(self.offsets)
        kept = np.flatnonzero(counts)
        return Vocabulary([self.corpus.vocabulary.words[i] for i in kept], counts[kept])

    @cached_property
    def encoder(self) -> ContextEncoder:
        """The model the index was made with, loaded at first use: one that reads with NumPy, if torch is missing."""
        if isinstance(self._model, ContextEncoder):
            return self._model
        try:
            return index_folder.open_encoder(self._model_record, self.path, self._model)
        except MissingExtra:
            plain = self._plain_encoder()
            if plain is None:
                raise
            index_folder.check_encoder(plain, self._model_record, self.path)
            return plain

    def model_path(self) -> Path:
        """Where the model is, compared with the one the index was made with."""
        return index_folder.encoder_path(self._model_record, self.path, self._model)

    def use(self, encoder: ContextEncoder) -> None:
        """Take a model that was loaded from ``model_path`` already instead of loading it again."""
        index_folder.check_encoder(encoder, self._model_record, self.path)
        self._model = encoder

    def read_plainly(self) -> None:
        """For a few questions: let the model read with NumPy alone, where it can, and not wait for torch."""
        if "encoder" not in self.__dict__ and not isinstance(self._model, ContextEncoder):
            plain = self._plain_encoder()
            if plain is not None:
                self.use(plain)

    def _plain_encoder(self) -> ContextEncoder | None:
        """The model, if it is one that NumPy alone can read."""
        from polyseme.contexts.elmo.plain import open_plain

        return open_plain(self.model_path())

    def count(self, word: str) -> int:
        """Occurrences of a word in the index; 0 if it is not in it."""
        rows = self._rows(word)
        return int(rows.stop - rows.start)

    def same_sense(
        self,
        sentence: Sentence,
        position: int | None = None,
        word: str | None = None,
        *,
        topn: int = 10,
        any_word: bool = False,
        layer: int | None = None,
    ) -> list[Hit]:
        """Occurrences that are used as a word is in a sentence, nearest first; below ``cutoff`` they hardly are.

        The word is named by itself, by its ``position`` among the sentence's tokens, or both. With ``any_word`` the
        answer holds other words, each once, in the occurrence that is nearest. A sentence that stands several times
        in the corpus is answered once, and the query sentence never.
        """
        tokens, place = locate(sentence, position, word, self.encoder, self._share)
        layer = self._layer(layer)
        vector = self._projections[layer].vectors(self._state(tokens, place, layer))[0]
        asked = (tokens, place)
        return self._nearest(vector, tokens[place], topn=topn, any_word=any_word, layer=layer, asked=asked)

    def _state(self, tokens: list[str], place: int, layer: int) -> FloatArray:
        """What the model makes of one token, ``(1, D)``."""
        if layer < self.encoder.n_layers or self._kind in MIXED:
            states = next(encode_states(self.encoder, [tokens], self._kind, [layer]))
            if states and states[0].shape[1] == len(self._projections[layer].mean):
                return states[0][place : place + 1]
        raise FormatError(f"{self.path} was built with a different model than the one given now")

    def cutoff(self, *, any_word: bool = False) -> float | None:
        """The score below which a hit is no more likely used the same way than not; None of an index that did not
        learn it."""
        known = self.facts.get("alike_words" if any_word else "alike")
        return float(known) if isinstance(known, (int, float)) else None

    def expected(
        self, sentence: Sentence, position: int | None = None, word: str | None = None, *, topn: int = 10
    ) -> list[str]:
        """What the index's model expects in a place of a sentence, the likeliest first; nothing if it predicts none."""
        tokens, place = locate(sentence, position, word, self.encoder, self._share)
        if not offers_substitutes(self.encoder):
            return []
        return expected_words(self, self.encoder, tokens[place], [(tokens, place)])[:topn]

    def like(self, occurrence: int, *, topn: int = 10, any_word: bool = False, layer: int | None = None) -> list[Hit]:
        """The same for an occurrence of the index itself (``Hit.occurrence``), which is not among the answers."""
        if not 0 <= occurrence < len(self):
            raise OptionError(f"the index has occurrences 0 to {len(self) - 1:,}, no {occurrence}")
        layer = self._layer(layer)
        vector = self.vectors(slice(occurrence, occurrence + 1), layer)[0]
        hit = self._hit(occurrence, 1.0)
        asked = (self.corpus.sentence(hit.sentence), hit.token)
        return self._nearest(vector, hit.word, topn=topn, any_word=any_word, layer=layer, asked=asked)

    def senses(self, word: str, *, max_senses: int = 8, layer: int | None = None) -> WordSenses:
        """The uses of a word, found by clustering its occurrences; there may be one only."""
        rows = self._known_rows(word)
        return find_senses(self, word, rows, max_senses=max_senses, layer=self._layer(layer), apart=self._apart)

    def vectors(self, rows: slice | NDArray[np.int64], layer: int | None = None) -> FloatArray:
        """Vectors of occurrences, ``(n, d)``, of length one."""
        layer = self._layer(layer)
        self.watch.check()
        return self._projections[layer].decode(self._codes[layer][rows])

    def centred_vectors(self, word: str, layer: int | None = None) -> FloatArray:
        """The vectors of a word's occurrences minus half their mean, ``(n, d)`` of length one.

        So they are compared with each other: what all of them share says nothing about which use is which.
        """
        layer = self._layer(layer)
        return unit_rows(self.vectors(self._known_rows(word), layer) - self._origin(word, layer))

    def uses(self, word: str, layer: int | None = None) -> FloatArray:
        """The former name of ``centred_vectors``; the uses of a word are what ``senses`` finds."""
        return self.centred_vectors(word, layer)

    def occurrences(self, word: str) -> range:
        """The occurrences of a word, by their places in the index."""
        rows = self._known_rows(word)
        return range(rows.start, rows.stop)

    def tokens(self, rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """Places of occurrences among the corpus's tokens."""
        self.watch.check()
        tokens = np.asarray(self._tokens[rows])
        if len(tokens) and (tokens.min() < 0 or tokens.max() >= self.corpus.n_tokens):
            raise FormatError(f"{self.path / index_folder.TOKENS} was altered: it leads outside the corpus")
        return tokens

    def hits(self, rows: Iterable[int], scores: Iterable[float]) -> list[Hit]:
        """Occurrences in their sentences."""
        return [self._hit(int(row), float(score)) for row, score in zip(rows, scores, strict=True)]

    def sentences_of(self, rows: NDArray[np.int64]) -> list[int]:
        """The sentences in which occurrences stand."""
        return [int(i) for i in np.searchsorted(self.corpus.sentence_offsets, self.tokens(rows), side="right") - 1]

    def _nearest(
        self,
        vector: FloatArray,
        word: str,
        *,
        topn: int,
        any_word: bool,
        layer: int,
        asked: tuple[list[str], int],
    ) -> list[Hit]:
        if topn < 1:
            raise OptionError(f"topn must be at least 1, not {topn}")
        check_query(vector, word)
        self.watch.check()
        if any_word:
            rows, values = self._among_all(vector, self._rows(word), layer, topn * _CANDIDATES_PER_HIT)
        else:
            of_word = self._known_rows(word)
            origin = self._origin(word, layer)
            values = short_codes.scores_from(self._codes[layer][of_word], self._projections[layer], vector, origin)
            rows = np.arange(of_word.start, of_word.stop)
        hits: list[Hit] = []
        seen: set[Any] = set()
        for place in best_places(values, min(len(values), topn * _CANDIDATES_PER_HIT)):
            hit = self._hit(int(rows[place]), min(float(values[place]), 1.0))
            if hit.token == asked[1] and self.corpus.sentence(hit.sentence) == asked[0]:
                continue
            key = hit.word if any_word else (hit.text, hit.start)
            if key not in seen:
                seen.add(key)
                hits.append(hit)
                if len(hits) == topn:
                    break
        return hits

    def _among_all(
        self, vector: FloatArray, of_word: slice, layer: int, n: int
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """The ``n`` best occurrences of other words, unordered."""
        codes, projection = self._codes[layer], self._projections[layer]
        if self._cells and layer == self.layers[0]:
            rows = self._cells.candidates(vector)
            if len(rows) and (rows[0] < 0 or rows[-1] >= len(self)):
                raise FormatError(f"{self.path / index_folder.CELLS} was altered: it leads outside the index")
            rows = rows[(rows < of_word.start) | (rows >= of_word.stop)]
            values = short_codes.scores(codes[rows], projection, vector)
        else:
            values = short_codes.scores(codes, projection, vector)
            values[of_word] = -np.inf
            rows = np.arange(len(self))
        best = best_places(values, min(n, len(values)))
        return rows[best], values[best]

    def _origin(self, word: str, layer: int) -> FloatArray:
        if (word, layer) not in self._origins:
            if len(self._origins) >= _ORIGINS_KEPT:
                self._origins.clear()
            codes = self._codes[layer][self._known_rows(word)]
            self._origins[word, layer] = SHARED * short_codes.mean(codes, self._projections[layer])
        return self._origins[word, layer]

    def _hit(self, row: int, score: float) -> Hit:
        corpus = self.corpus
        place = int(self.tokens(slice(row, row + 1))[0])
        word = self._word_of(row)
        if corpus.ids[place] != word:
            raise FormatError(f"{self.path} does not belong to {corpus.path}: index it again")
        sentence = int(np.searchsorted(corpus.sentence_offsets, place, side="right")) - 1
        token = place - int(corpus.sentence_offsets[sentence])
        start, end = corpus.token_spans(sentence)[token]
        tag = corpus.tag_names[int(corpus.tags[place])] if corpus.tags is not None else None
        text, spelt = corpus.text(sentence), corpus.sentence(sentence)[token]
        return Hit(row, sentence, token, spelt, score, text, start, end, tag)

    def _word_of(self, row: int) -> int:
        return int(np.searchsorted(self.offsets, row, side="right")) - 1

    def _share(self, word: str) -> float:
        return (self.corpus.count(word) or 0.5) / (self.corpus.n_tokens + 1)

    def _rows(self, word: str) -> slice:
        i = self.corpus.number(word)
        if not 0 <= i < len(self.offsets) - 1:
            return slice(0, 0)
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def _known_rows(self, word: str) -> slice:
        rows = self._rows(word)
        if rows.start == rows.stop:
            if self.corpus.count(word):
                raise UnknownWord(f"{word!r} was not indexed (min_count or skip of polyseme index)")
            raise UnknownWord(f"{word!r} is not in the corpus{self._hint(word)}")
        return rows

    def _hint(self, word: str) -> str:
        segmentation = self.corpus.segmentation
        parts = segmentation.tokens(word) if segmentation.method != FUNCTION else [word]
        cut = f", where it is segmented as {' '.join(parts)}" if len(parts) > 1 else ""
        near = similar_spellings(word, self.words.words, self.words.index)
        return cut + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")

    def _layer(self, layer: int | None) -> int:
        if layer is None:
            return self.layers[0]
        if layer not in self.layers:
            kept = ", ".join(map(str, sorted(self.layers)))
            raise OptionError(f"the index has layer {kept}, not {layer} (polyseme index --layers all)")
        return layer


def _checked_offsets(offsets: NDArray[Any] | None, n: int, corpus: Corpus, where: str) -> NDArray[np.int64]:
    if offsets is None or offsets.dtype != np.int64 or offsets.shape != (corpus.n_vocabulary + 1,):
        raise FormatError(f"{where} was altered: its table of words does not fit the corpus")
    if offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets) < 0).any():
        raise FormatError(f"{where} was altered: its table of words does not fit its occurrences")
    return offsets
