"""A corpus on disk: words by number, memory-mapped, with their sentences, documents and original text. 语料"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.atomic import new_folder
from polyseme.errors import FormatError, OptionError
from polyseme.text.align import token_spans
from polyseme.text.block import Counted, count_block
from polyseme.text.build import Builder
from polyseme.text.layout import MARKER, mapped, offsets, read_header
from polyseme.text.read import read_blocks
from polyseme.text.segment import Cut, Segmentation
from polyseme.text.vocabulary import Vocabulary, words_from_bytes
from polyseme.types import Progress, Sentence, silent

if TYPE_CHECKING:
    from typing_extensions import Self

Sources = str | Path | Sequence[str | Path]


def is_corpus(path: str | Path) -> bool:
    """Is there a corpus at this path?"""
    return (Path(path) / MARKER).is_file()


class Corpus:
    """Text as trained on. ``Corpus.build`` makes one of raw text, ``Corpus.open`` opens one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        header = read_header(self.path)
        self.facts: dict[str, Any] = header["facts"]
        self.fingerprint: str = header["fingerprint"]
        self.segmentation = Segmentation.from_json(header["segmentation"])
        self._read_arrays(header)
        self._kept_alive: Any = None

    def _read_arrays(self, header: dict[str, Any]) -> None:
        words = words_from_bytes((self.path / "words.txt").read_bytes(), where=str(self.path / "words.txt"))
        counts = mapped(self.path / "counts.i64", np.int64)
        self.ids: NDArray[np.int32] = mapped(self.path / "ids.i32", np.int32)
        self.text_bytes: NDArray[np.uint8] = mapped(self.path / "text.utf8", np.uint8)
        if len(words) != len(counts) or not 0 <= header["vocabulary"] <= len(words):
            raise FormatError(f"{self.path} was altered: its words and their counts do not fit together")
        if len(self.ids) and not 0 <= int(self.ids.min()) <= int(self.ids.max()) < len(words):
            raise FormatError(f"{self.path / 'ids.i32'} was altered: it holds numbers of words that do not exist")
        self.sentence_offsets = offsets(self.path / "sentences.i64", len(self.ids))
        self.text_offsets = offsets(self.path / "text.i64", len(self.text_bytes))
        self.paragraph_offsets = offsets(self.path / "paragraphs.i64", self.n_sentences)
        self.document_offsets = offsets(self.path / "documents.i64", self.n_sentences)
        if len(self.text_offsets) != len(self.sentence_offsets):
            raise FormatError(f"{self.path} was altered: sentences and their texts differ in number")
        self.all_words = words  # min_count and max_size left out some of them
        self.vocabulary = Vocabulary(words, counts).cut(max_size=header["vocabulary"])
        self.tag_names: list[str] = header.get("tag_names") or []
        self.tags: NDArray[Any] | None = None

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The corpus in a folder."""
        return cls(path)

    @classmethod
    def build(
        cls,
        sources: Sources,
        path: str | Path | None = None,
        *,
        segment: str | Cut | Segmentation = "auto",
        normalise: str = "nfkc",
        script: str = "keep",
        case: str = "keep",
        words: Iterable[str] = (),
        documents: str = "blank-line",
        min_count: int = 1,
        max_size: int | None = None,
        progress: Progress = silent,
    ) -> Self:
        """Read, normalise, split, segment and count text. Without ``path`` the corpus lives as long as the object."""
        if isinstance(segment, Segmentation):
            segmentation = segment
        else:
            segmentation = Segmentation.of(segment, normalise=normalise, script=script, case=case, words=tuple(words))
        names = [sources] if isinstance(sources, (str, Path)) else list(sources)
        blocks = read_blocks(names)
        counted = (count_block(block, segmentation, documents) for block in blocks)
        return cls._write(path, segmentation, counted, min_count, max_size, [str(name) for name in names])

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sentence],
        path: str | Path | None = None,
        *,
        segment: str | Cut | Segmentation = "auto",
        documents: str = "file",
        min_count: int = 1,
        max_size: int | None = None,
    ) -> Self:
        """From sentences at hand: raw text or lists of words. They are one document, or each one with ``line``."""
        if documents not in ("file", "line"):
            raise OptionError(f"documents is one of file, line; not {documents!r}")
        segmentation = Segmentation.of(segment)
        counted = _counted_sentences(sentences, segmentation, each=documents == "line")
        return cls._write(path, segmentation, [counted], min_count, max_size, ["the sentences"])

    @classmethod
    def _write(
        cls,
        path: str | Path | None,
        segmentation: Segmentation,
        blocks: Iterable[Counted],
        min_count: int,
        max_size: int | None,
        sources: list[str],
    ) -> Self:
        temporary = tempfile.TemporaryDirectory(prefix="polyseme-") if path is None else None
        where = Path(temporary.name) / "corpus" if temporary else Path(path)  # type: ignore[arg-type]
        with new_folder(where, marker=MARKER) as part:
            builder = Builder(part, segmentation)
            for counted in blocks:
                builder.add(counted)
            builder.finish(min_count=min_count, max_size=max_size, sources=sources)
        corpus = cls(where)
        corpus.segmentation = segmentation  # with its function, if it has one
        corpus._kept_alive = temporary
        return corpus

    @property
    def n_tokens(self) -> int:
        """Words of the text, each as often as it occurs."""
        return len(self.ids)

    @property
    def n_sentences(self) -> int:
        """Number of sentences; also ``len(corpus)``."""
        return len(self.sentence_offsets) - 1

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.document_offsets) - 1

    def __len__(self) -> int:
        return self.n_sentences

    def __iter__(self) -> Iterator[list[str]]:
        """The words of every sentence."""
        return (self.sentence(i) for i in range(self.n_sentences))

    def _place(self, i: int) -> int:
        if not -self.n_sentences <= i < self.n_sentences:
            raise IndexError(f"sentence {i} of {self.n_sentences}")
        return i % self.n_sentences

    def sentence(self, i: int) -> list[str]:
        """The words of sentence ``i``, those outside the vocabulary too."""
        i = self._place(i)
        start, end = self.sentence_offsets[i], self.sentence_offsets[i + 1]
        return [self.all_words[word] for word in self.ids[start:end].tolist()]

    def text(self, i: int) -> str:
        """Sentence ``i`` as it was written, before normalisation."""
        i = self._place(i)
        start, end = self.text_offsets[i], self.text_offsets[i + 1]
        return self.text_bytes[start:end].tobytes().decode("utf-8", "replace")

    def token_spans(self, i: int) -> list[tuple[int, int]]:
        """Where each word of sentence ``i`` stands in ``text(i)``: (start, end)."""
        return token_spans(self.text(i), self.sentence(i), self.segmentation)

    @cached_property
    def sentence_documents(self) -> NDArray[np.int64]:
        """For every sentence, the number of its document."""
        sizes = np.diff(self.document_offsets)
        return np.repeat(np.arange(self.n_documents, dtype=np.int64), sizes)

    def __repr__(self) -> str:
        facts = f"{self.n_tokens:,} tokens, {self.n_sentences:,} sentences, {len(self.vocabulary):,} words"
        return f"Corpus({str(self.path)!r}: {facts})"


def _counted_sentences(sentences: Iterable[Sentence], segmentation: Segmentation, *, each: bool) -> Counted:
    counted = Counted()
    numbers: dict[str, int] = {}
    pieces = []
    for place, sentence in enumerate(sentences):
        tokens = segmentation.tokens(sentence) if isinstance(sentence, str) else list(sentence)
        text = sentence if isinstance(sentence, str) else joined(tokens)
        counted.ids.extend([numbers.setdefault(token, len(numbers)) for token in tokens])
        counted.tokens.append(len(tokens))
        pieces.append(text.encode("utf-8", "replace"))
        counted.sizes.append(len(pieces[-1]))
        counted.paragraphs.append(place)
        if each or not place:
            counted.documents.append(place)
    counted.words = list(numbers)
    counted.text = b"".join(pieces)
    return counted


def joined(tokens: Sequence[str]) -> str:
    """Words as running text: a space between two of them unless one side is Chinese."""
    text = ""
    for token in tokens:
        space = text and token and text[-1] < "\u2e80" and token[0] < "\u2e80"
        text += f" {token}" if space else token
    return text
