"""A corpus on disk: memory-mapped word numbers with sentences, documents and the original text. 语料"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints
from polyseme.disk.atomic import Scratch
from polyseme.disk.folders import OpenFolder
from polyseme.disk.mapped import watching
from polyseme.display import facts_table, shown
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import Progress, Sentence
from polyseme.text.blocks import BlockSettings
from polyseme.text.corpus_files import CORPUS, MARKER, TAGS, CorpusBuilder, numbers, offsets, spans
from polyseme.text.normalise import check
from polyseme.text.numbering import Counter
from polyseme.text.options import Reading, make_reading
from polyseme.text.segment import Function, Segmentation
from polyseme.text.source import find_sources, read_blocks
from polyseme.text.spacing import token_spans
from polyseme.text.vocabulary import Vocabulary, WordLines
from polyseme.text.workers import MOST_WORKERS, counted_blocks

if TYPE_CHECKING:
    from typing_extensions import Self

C = TypeVar("C", bound="Corpus")
Sources = str | Path | Sequence[str | Path]

BATCH = 10_000  # sentences in memory that are processed at once
_LONGEST_PIECE = 20  # characters


def is_corpus(path: str | Path) -> bool:
    """Whether there is a corpus at this path."""
    return (Path(path) / MARKER).is_file()


class Corpus:
    """Text prepared for training. ``Corpus.build`` makes a corpus from raw text, ``Corpus.open`` opens one on disk."""

    kind = "corpus"

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with CORPUS.open(self.path) as folder, watching() as self.watch:
            folder.verify()
            header = folder.found
            self.facts: dict[str, Any] = header["facts"]
            self.fingerprint: str = header["fingerprint"]
            sources = header.get("sources")
            self.sources = [str(name) for name in sources] if isinstance(sources, list) else []
            self.segmentation = Segmentation.from_json(header["segmentation"], where=self.path / MARKER)
            self._read_arrays(folder)
        self._kept_alive: Any = None

    def _read_arrays(self, folder: OpenFolder) -> None:
        path = folder.path
        self._words = WordLines(folder.file("words.txt").mapped(np.uint8), where=str(path / "words.txt"))
        self.all_counts: Ints = folder.file("counts.i64").mapped(np.int64)
        self.n_vocabulary: int = folder.found["vocabulary"]
        words = len(self._words)
        if words != len(self.all_counts) or not 0 <= self.n_vocabulary <= words:
            raise FormatError(f"{path} was altered: its words and their counts do not fit together")
        self.ids: NDArray[np.int32] = numbers(folder.file("ids.i32"), np.int32, words)
        self.text_bytes: NDArray[np.uint8] = folder.file("text.utf8").mapped(np.uint8)
        self.text_spans = spans(folder.file("text.i64"), len(self.text_bytes))
        self.sentence_offsets = offsets(folder.file("sentences.i64"), len(self.ids))
        self.paragraph_offsets = offsets(folder.file("paragraphs.i64"), self.n_sentences)
        self.document_offsets = offsets(folder.file("documents.i64"), self.n_sentences)
        if len(self.text_spans) != self.n_sentences:
            raise FormatError(f"{path} was altered: sentences and their texts differ in number")
        self.tag_names: list[str] = folder.found.get("tag_names") or []
        if not isinstance(self.tag_names, list) or not all(isinstance(name, str) for name in self.tag_names):
            raise FormatError(f"{path / MARKER} was altered: its 'tag_names' are not names")
        self.tags: NDArray[np.uint16] | None = None
        if self.tag_names:
            self.tags = numbers(folder.file(TAGS), np.uint16, len(self.tag_names))
            if len(self.tags) != len(self.ids):
                raise FormatError(f"{path / TAGS} was altered: it does not fit the words")

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the corpus in a folder."""
        return cls(path)

    @classmethod
    def build(
        cls,
        sources: Sources,
        path: str | Path | None = None,
        *,
        min_count: int = 1,
        max_size: int | None = None,
        workers: int | None = None,
        force: bool = False,
        progress: Progress = shown,
        **reading: Any,
    ) -> Self:
        """Read, normalise, split, segment and count text; without ``path`` the corpus lasts as long as the object.

        sources      a file, a folder, "-" for stdin, or several; .gz, .bz2 and .xz are decompressed
        min_count    leave rarer words out of the vocabulary;  max_size  keep at most this many
        workers      cores to use; None uses all. The result is the same for any number.
        reading      how text is read and segmented, the options of ``Reading``:

        segment      auto, jieba, char, space, english, a function, or a Segmentation, which includes the next two lines
        normalise    nfkc or none;  script  keep, simplified or traditional;  case  keep or lower
        words        words that jieba must not split: the user dictionary
        format       auto, text, wrapped, jsonl (the text is in ``field``), segmented, tagged: see text/blocks.py
        documents    auto, file, blank-line or line: what separates documents
        encoding     None detects UTF-8, UTF-16, GB18030, Big5, Windows-1252;  errors  strict, or replace for bad bytes
        force        replace another corpus, model or index at ``path``
        """
        if workers is not None and workers > MOST_WORKERS:
            raise OptionError(f"workers must be at most {MOST_WORKERS:,}, not {workers}")
        how, segment = make_reading(Reading, reading)
        files = find_sources([sources] if isinstance(sources, (str, Path)) else list(sources))
        sizes = [file.size for file in files]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        settings = BlockSettings(segment, how.documents, how.field, single=len(files) == 1)
        blocks = read_blocks(files, encoding=how.encoding, errors=how.errors, format=how.format)
        with _Writing(path, segment, min_count, max_size, force, [file.name for file in files]) as writing:
            for counted, done in counted_blocks(blocks, settings, workers):
                writing.builder.add(counted)
                progress("corpus", done, total, tokens=writing.builder.n_tokens, words=writing.builder.n_words)
            writing.finish()
        return writing.opened(cls)

    @classmethod
    def from_sentences(
        cls,
        sentences: Iterable[Sentence],
        path: str | Path | None = None,
        *,
        segment: str | Function | Segmentation = "auto",
        documents: str = "file",
        min_count: int = 1,
        max_size: int | None = None,
        force: bool = False,
    ) -> Self:
        """Make a corpus from sentences, raw or as lists of words: one document, or with "line" one per sentence."""
        check("documents", documents, ("file", "line"))
        segmentation = Segmentation.of(segment)
        with _Writing(path, segmentation, min_count, max_size, force, ["the sentences"]) as writing:
            counter = Counter(BlockSettings(segmentation))
            rest = iter(sentences)
            while batch := list(islice(rest, BATCH)):
                writing.builder.add(counter.count_sentences(batch, each_a_document=documents == "line"))
            writing.finish()
        return writing.opened(cls)

    @property
    def all_words(self) -> list[str]:
        """All words by number, including those that ``min_count`` and ``max_size`` leave out of the vocabulary."""
        return self._words.all

    def number(self, word: str) -> int:
        """A word's index in ``all_words``; below ``n_vocabulary`` if it is in the vocabulary, -1 if it is unknown."""
        return self._words.number(word)

    def count(self, word: str) -> int:
        """How often a word occurs; 0 if it is outside the vocabulary."""
        number = self.number(word)
        return int(self.all_counts[number]) if 0 <= number < self.n_vocabulary else 0

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The ``n_vocabulary`` words to train on, with their counts."""
        return Vocabulary(self.all_words, self.all_counts).cut(max_size=self.n_vocabulary)

    @property
    def n_tokens(self) -> int:
        """Number of tokens (running words)."""
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
        for begin in range(0, self.n_sentences, BATCH):
            self.watch.check()
            for i in range(begin, min(begin + BATCH, self.n_sentences)):
                yield self.sentence(i)

    def _place(self, i: int) -> int:
        if not -self.n_sentences <= i < self.n_sentences:
            raise IndexError(f"sentence {i} of {self.n_sentences}")
        return i % self.n_sentences

    def sentence(self, i: int) -> list[str]:
        """The words of sentence ``i``, including those outside the vocabulary."""
        i = self._place(i)
        start, end = self.sentence_offsets[i], self.sentence_offsets[i + 1]
        return self._words.take(self.ids[start:end].tolist())

    def text(self, i: int) -> str:
        """Sentence ``i`` as it was written, before normalisation."""
        i = self._place(i)
        start, end = self.text_spans[i]
        return self.text_bytes[start:end].tobytes().decode("utf-8", "replace")

    def token_spans(self, i: int) -> list[tuple[int, int]]:
        """(start, end) of each word of sentence ``i`` in ``text(i)``."""
        return token_spans(self.text(i), self.sentence(i), self.segmentation)

    def tokenize(self, text: str) -> list[str]:
        """Segment a text; a word that is not in the vocabulary is split into the longest known words, if possible.

        This helps if the corpus came already segmented in another way: 一 张 instead of 一张.
        """
        return [piece for word in self.segmentation.tokens(text) for piece in self._known_pieces(word)]

    def _known_pieces(self, word: str) -> list[str]:
        pieces, start = [], 0
        while start < len(word):
            ends = range(min(len(word), start + _LONGEST_PIECE), start, -1)
            end = next((end for end in ends if self.count(word[start:end])), None)
            if end is None:
                return [word]
            pieces.append(word[start:end])
            start = end
        return pieces

    @cached_property
    def sentence_documents(self) -> Ints:
        """For every sentence, the number of its document."""
        sizes = np.diff(self.document_offsets)
        return np.repeat(np.arange(self.n_documents, dtype=np.int64), sizes)

    def __repr__(self) -> str:
        facts = f"{self.n_tokens:,} tokens, {self.n_sentences:,} sentences, {self.n_vocabulary:,} words"
        return f"Corpus({str(self.path)!r}: {facts})"

    def _repr_html_(self) -> str:
        known = {**self.facts, "vocabulary": self.n_vocabulary, "segmentation": self.segmentation.method}
        most = " ".join(self.vocabulary.words[:10])
        return facts_table(f"Corpus {self.path}", {**known, "most_frequent": most, "tags": len(self.tag_names) or None})


class _Writing:
    """Context manager that writes a corpus; when it ends, the corpus is there completely or not at all."""

    def __init__(
        self,
        path: str | Path | None,
        segmentation: Segmentation,
        min_count: int,
        max_size: int | None,
        force: bool,
        sources: list[str],
    ) -> None:
        if min_count < 1 or (max_size is not None and max_size < 1):
            raise OptionError(f"min_count and max_size must be at least 1, not {min_count} and {max_size}")
        self.scratch = Scratch() if path is None else None
        self.path = self.scratch.path / "corpus" if self.scratch else Path(path or "")
        self.segmentation, self.min_count, self.max_size = segmentation, min_count, max_size
        self.force, self.sources = force, sources

    def __enter__(self) -> Self:
        self.open = ExitStack()
        known = {"sources": self.sources, "segmentation": self.segmentation.to_json()}
        part = self.open.enter_context(CORPUS.new_folder(self.path, force=self.force, **known))
        self.builder = CorpusBuilder(part, self.segmentation)
        self.open.callback(self.builder.close)  # this can fail too, on a full disk
        return self

    def __exit__(self, *raised: Any) -> None:
        self.open.__exit__(*raised)

    def finish(self) -> None:
        self.builder.finish(min_count=self.min_count, max_size=self.max_size, sources=self.sources)

    def opened(self, cls: type[C]) -> C:
        corpus = cls(self.path)
        corpus.segmentation = self.segmentation  # with its function, if it has one
        corpus._kept_alive = self.scratch
        return corpus
