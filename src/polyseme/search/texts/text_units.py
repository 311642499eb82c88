"""The texts that are searched: lines or documents, with the place each was found at. 检索单元"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from polyseme.data.tables import Lines
from polyseme.errors import OptionError
from polyseme.text.corpus import Corpus, is_corpus
from polyseme.text.normalise import check
from polyseme.text.segment import Segmentation
from polyseme.text.source import SourceReader, find_sources, short_names

UNITS = ("lines", "documents")

Given = Corpus | str | Path | Sequence[str | Path]


class Unit(NamedTuple):
    """A text, the file it comes from, and its line there; of a corpus, its sentence or document, from 1."""

    text: str
    source: str
    line: int


def read_units(
    given: Given, unit: str, segmentation: Segmentation, *, encoding: str | None = None, errors: str = "strict"
) -> Iterator[Unit]:
    """The texts of a corpus, a file, a folder or several; lines without anything in them are skipped."""
    check("unit", unit, UNITS)
    if not isinstance(given, Corpus):
        paths = [given] if isinstance(given, (str, Path)) else list(given)
        if len(paths) == 1 and is_corpus(paths[0]):
            given = Corpus.open(paths[0])
        elif unit == "lines":
            return _file_lines(paths, encoding, errors)
        else:
            given = Corpus.build(paths, segment=segmentation, encoding=encoding, errors=errors)
    return _sentences(given) if unit == "lines" else _documents(given)


def units_of(texts: Iterable[str]) -> Iterator[Unit]:
    """Units of the given texts, numbered from 1."""
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise OptionError(f"texts must be strings, not {str(text)[:40]!r}")
        yield Unit(text, "", number)


def _file_lines(paths: Sequence[str | Path], encoding: str | None, errors: str) -> Iterator[Unit]:
    sources = find_sources(paths)
    short = short_names([source.name for source in sources])
    for source, name in zip(sources, short, strict=True):
        name = source.title if source.named else name
        for number, line in Lines(SourceReader(source, encoding=encoding, errors=errors)):
            if line.strip():
                yield Unit(line.strip(), name, number)


def _sentences(corpus: Corpus) -> Iterator[Unit]:
    for document, source in enumerate(document_names(corpus)):
        for number in range(int(corpus.document_offsets[document]), int(corpus.document_offsets[document + 1])):
            yield Unit(corpus.text(number), source, number + 1)


def _documents(corpus: Corpus) -> Iterator[Unit]:
    for document, source in enumerate(document_names(corpus)):
        first, end = (int(place) for place in corpus.document_offsets[document : document + 2])
        if first < end:
            start, stop = int(corpus.text_spans[first][0]), int(corpus.text_spans[end - 1][1])
            text = corpus.text_bytes[start:stop].tobytes().decode("utf-8", "replace")
            yield Unit(text, source, document + 1)


def document_names(corpus: Corpus) -> list[str]:
    """The file of each document where that is known, else the corpus."""
    names = corpus.sources
    if len(names) == corpus.n_documents:
        return short_names(names)
    return [Path(names[0]).name if len(names) == 1 else corpus.path.name] * corpus.n_documents
