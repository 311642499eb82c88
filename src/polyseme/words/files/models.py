"""Read published vector files as models, and write models in published formats.

The tables of TensorBoard's Embedding Projector: vectors.tsv, and metadata.tsv with a word for each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.disk.atomic import check_file, new_files
from polyseme.errors import OptionError, altered_model
from polyseme.options import option
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.character_ngrams import END_OF_SENTENCE, Subwords
from polyseme.words.files import fasttext as fasttext_format
from polyseme.words.files import models as projector_format
from polyseme.words.files import word2vec as word2vec_format
from polyseme.words.files.fasttext import LOSSES, MODELS, FastTextFile, FastTextSettings
from polyseme.words.sparse import SparseRows
from polyseme.words.vectors import VectorsOptions, WordVectors, matrix_of, vocabulary_of

if TYPE_CHECKING:
    from typing_extensions import Self

VECTORS, METADATA = "vectors.tsv", "metadata.tsv"
_BREAKS = str.maketrans("\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " " * 11)


def write(folder: str | Path, words: list[str], vectors: FloatArray, *, force: bool = True) -> None:
    """Write both files, or neither, into a folder, which is created if necessary."""
    folder = Path(folder)
    with new_files(folder / VECTORS, folder / METADATA, force=force) as (rows, metadata):
        with open(rows, "w", encoding="ascii") as file:
            file.writelines("\t".join(map(str, row)) + "\n" for row in vectors)
        with open(metadata, "w", encoding="utf-8", errors="replace") as file:
            # One column, so no header; an empty word or one with a line break would shift all that follow.
            file.writelines((word.translate(_BREAKS).strip() or "(blank)") + "\n" for word in words)


_TOLD_BY, _ENOUGH = 20_000, 1000  # words to look at, and cased words needed, to decide that all are lower-case


def open_vectors(path: str | Path) -> WordVectors:
    """Read a word2vec, GloVe or fastText .vec file. It has no word counts, so all counts are 0."""
    file = word2vec_format.read(path)
    vocabulary = Vocabulary(file.words, np.zeros(len(file.words), dtype=np.int64))
    about = About(segmentation=Segmentation(case="lower")) if _uncased(file.words) else None
    return WordVectors(vocabulary, file.vectors, options=VectorsOptions(source=Path(path).name), about=about)


def _uncased(words: list[str]) -> bool:
    """Whether the training text was lower-cased: there are a thousand cased words, all of them lower-case."""
    cased = [word for word in words[:_TOLD_BY] if word.lower() != word.upper()]
    return len(cased) >= _ENOUGH and all(word == word.lower() for word in cased)


def open_fasttext(path: str | Path) -> PublishedFastText:
    """Read a fastText .bin or .ftz file, with its subwords and labels."""
    file = fasttext_format.read(path)
    settings = file.settings
    whole = END_OF_SENTENCE if file.end_is_whole else ""
    subwords = Subwords(settings.minn, settings.maxn, file.buckets, file.own, settings.buckets, file.kept, whole)
    kept = {name: value for name, value in vars(settings).items() if name not in ("dim", "model", "loss")}
    options = FastTextFileOptions(
        source=Path(path).name,
        architecture=MODELS[settings.model],
        loss=LOSSES[settings.loss],
        end_is_whole=file.end_is_whole,
        **kept,
    )
    return PublishedFastText(
        Vocabulary(file.words, file.counts),
        subwords.compose(file.words),
        options=options,
        about=About(corpus={"tokens": file.n_tokens}),
        output=file.output,
        subwords=subwords,
        labels=Vocabulary(file.labels, file.label_counts),
    )


@dataclass(frozen=True)
class FastTextFileOptions:
    """The training options stored in a fastText file."""

    source: str = option("", "the file the model was read from")
    architecture: str = option("skipgram", "what was trained", choices=tuple(MODELS.values()))
    loss: str = option("negative", "training objective", choices=tuple(LOSSES.values()))
    window: int = option(5, "context words on each side")
    epochs: int = option(5, "passes over the text")
    min_count: int = option(1, "minimum word count; rarer words were dropped")
    negative: int = option(5, "negative samples per word")
    word_ngrams: int = option(1, "longest word n-gram (supervised)")
    buckets: int = option(0, "hash buckets for n-grams")
    minn: int = option(0, "shortest character n-gram")
    maxn: int = option(0, "longest character n-gram")
    lr_update_rate: int = option(100, "words between two updates of the learning rate")
    sample: float = option(1e-4, "threshold above which frequent words are skipped")
    end_is_whole: bool = option(True, "whether </s> has no n-grams")


class PublishedFastText(WordVectors):
    """A model read from a fastText file, with vectors for unseen words and, if it is supervised, its labels."""

    method: ClassVar[str] = "fasttext-file"
    Options: ClassVar[type] = FastTextFileOptions
    subwords: Subwords

    def __init__(
        self,
        vocabulary: Vocabulary,
        vectors: FloatArray,
        *,
        options: Any,
        about: About,
        output: FloatArray | None,
        subwords: Subwords,
        labels: Vocabulary,
    ) -> None:
        super().__init__(vocabulary, vectors, options=options, about=about, output=output, subwords=subwords)
        self.labels = labels

    @property
    def is_classifier(self) -> bool:
        """Whether it was trained on labels, which it predicts."""
        return bool(self.options.architecture == "supervised")

    def parts(self) -> Parts:
        parts = super().parts()
        tensors: dict[str, NDArray[Any]] = {
            **parts.tensors,
            "own": self.subwords.own,
            "buckets": self.subwords.rows,
            "label_counts": self.labels.counts,
        }
        if self.subwords.kept is not None:
            tensors["kept"] = np.array([*self.subwords.kept.items()], dtype=np.int32).reshape(-1, 2)
        return Parts(tensors, {**parts.tables, "labels": self.labels.words})

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        vocabulary = vocabulary_of(parts)
        labels = vocabulary_of(parts, "labels", "label_counts")
        vectors, own = (matrix_of(parts, name, len(vocabulary)) for name in ("vectors", "own"))
        kept = "kept" in parts.tensors
        pairs = dict(parts.tensor("kept", (None, 2), np.signedinteger).tolist()) if kept else None
        rows = matrix_of(parts, "buckets", options.buckets if pairs is None else len(pairs))
        if pairs and not 0 <= min(pairs.values()) <= max(pairs.values()) < len(rows):
            raise altered_model("its kept buckets have no rows")
        whole = END_OF_SENTENCE if options.end_is_whole else ""
        subwords = Subwords(options.minn, options.maxn, rows, own, options.buckets, pairs, whole)
        output = matrix_of(parts, "output", None)
        return cls(vocabulary, vectors, options=options, about=about, output=output, subwords=subwords, labels=labels)


def save_vectors_as(
    model: WordVectors, path: str | Path, form: str, *, dense: bool = False, force: bool = False
) -> None:
    """Write the vectors in one of ``FORMATS``; ``force`` overwrites an existing file.

    Sparse vectors are written, with all their zeros, only if ``dense`` is true.
    """
    if form not in FORMATS:
        raise OptionError(f"there is no format {form!r}; there are {', '.join(FORMATS)}")
    if form != "polyseme" and isinstance(model.vectors, SparseRows) and not dense:
        rows, columns = model.vectors.shape
        raise OptionError(
            f"{form} has no sparse vectors, and with all their zeros these {rows:,} × {columns:,} take "
            f"{rows * columns * 4 / 1e9:,.1f} GB or more: reduce them (polyseme train svd), or give --dense"
        )
    if form not in ("polyseme", "projector"):
        check_file(path, force=force)
    FORMATS[form](model, Path(path), force)


def fasttext_file(model: WordVectors) -> FastTextFile:
    """The contents of a fastText file for the model. Vectors without subwords give a file without n-grams."""
    if isinstance(model.vectors, SparseRows):
        raise OptionError("a fastText file cannot be written row by row: convert sparse vectors to word2vec-binary")
    words, subwords = model.vocabulary, model.subwords
    settings = _settings(model)
    own, rows = (subwords.own, subwords.rows) if subwords else (model.vectors, np.empty((0, settings.dim), np.float32))
    if subwords and not subwords.whole and END_OF_SENTENCE in words:
        # Current fastText gives </s> no n-grams, so its row has to be the whole vector.
        own = np.array(own)
        own[words.index[END_OF_SENTENCE]] = model[END_OF_SENTENCE]
    labels = model.labels if isinstance(model, PublishedFastText) else Vocabulary([], np.empty(0, dtype=np.int64))
    output = model.output
    if output is None or output.shape[1] != settings.dim:  # concatenated vectors are longer than the output rows
        output = np.zeros_like(model.vectors)
    return FastTextFile(
        settings,
        words.words,
        np.maximum(words.counts, 1),
        own,
        rows,
        output,
        labels.words,
        labels.counts,
        int(model.about.corpus.get("tokens") or words.counts.sum()),
        subwords.kept if subwords else None,
    )


def _settings(model: WordVectors) -> FastTextSettings:
    """The settings of a fastText file: the model's options where it has them, otherwise fastText's defaults."""
    known = {name: getattr(model.options, name) for name in vars(FastTextSettings(1)) if hasattr(model.options, name)}
    numbers = {name: {v: k for k, v in names.items()} for name, names in (("model", MODELS), ("loss", LOSSES))}
    known["model"] = numbers["model"].get(known.get("model", getattr(model.options, "architecture", "")), 2)
    known["loss"] = numbers["loss"].get(known.get("loss", ""), 2)
    sub = model.subwords
    shape = (
        {"minn": sub.minn, "maxn": sub.maxn, "buckets": sub.n_buckets} if sub else {"minn": 0, "maxn": 0, "buckets": 0}
    )
    return FastTextSettings(**{**known, **shape, "dim": model.vector_size})


# Writers, called with a model, a path, and whether to overwrite an existing file.
FORMATS: dict[str, Callable[[WordVectors, Path, bool], None]] = {
    "polyseme": lambda model, path, force: model.save(path, force=force),
    "word2vec-text": lambda model, path, _: word2vec_format.write_text(path, model.index_to_key, model.vectors),
    "word2vec-binary": lambda model, path, _: word2vec_format.write_binary(path, model.index_to_key, model.vectors),
    "glove": lambda model, path, _: word2vec_format.write_text(path, model.index_to_key, model.vectors, header=False),
    "fasttext": lambda model, path, _: fasttext_format.write(path, fasttext_file(model)),
    "projector": lambda model, path, force: projector_format.write(
        path, model.index_to_key, model.vectors, force=force
    ),
}
