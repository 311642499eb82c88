"""Read sources as blocks of text: files, folders or stdin, compressed or not, in any encoding.

Everything is streamed. A block ends at the end of a line; a line too long for one block is cut after a sentence or a
space, or else anywhere.

The visible text of HTML files. 网页文本

A file named .html, .htm or .xhtml is read as a browser shows it: each paragraph, heading, list item or row of a table
is a line; scripts, styles and the title are left out.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import logging
import lzma
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import takewhile
from pathlib import Path
from typing import IO

from polyseme.disk.files import PACKED, open_text
from polyseme.disk.ownership import is_ours
from polyseme.errors import TextError, advice, as_given
from polyseme.text import encoding as encodings
from polyseme.text.blocks import PACKED_ENDING, Block, sniff
from polyseme.text.spacing import CHINESE_JAPANESE
from polyseme.text.tagged import last_article

_ENDINGS = (".html", ".htm", ".xhtml")
_UNSEEN = {"script", "style", "template", "noscript", "title", "rt", "rp"}  # rt and rp: pronunciation beside the text
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img",
    "ins", "kbd", "label", "mark", "nobr", "q", "ruby", "rb", "s", "samp", "small", "span", "strike", "strong", "sub",
    "sup", "time", "tt", "u", "var", "wbr",
}  # fmt: skip
_CELLS = {"td", "th"}
_LONGEST_TAG = 1 << 22  # characters: longer ones are no tags
# The end of a line between Chinese or Japanese characters, where a browser shows no space.
_BREAK = re.compile(rf"(?<=[{CHINESE_JAPANESE}])[ \t\r\f]*\n\s*(?=[{CHINESE_JAPANESE}])")
_SPACES = re.compile(r"[ \t\r\n\f\xa0]+")


def is_web_page(name: str) -> bool:
    """Whether a file is HTML, by its name."""
    return PACKED_ENDING.sub("", name).lower().endswith(_ENDINGS)


def visible_text(name: str, chunks: Iterable[str]) -> Iterator[str]:
    """The text of an HTML file, some lines at a time."""
    page = _Page()
    for chunk in chunks:
        page.feed(chunk)
        if len(page.rawdata) > _LONGEST_TAG:
            raise TextError(f"{name} is not HTML: a tag has no end; read it as text under a name that ends in .txt")
        yield page.lines()
    page.close()
    yield page.lines(last=True)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []  # of the line that is being read
        self._done: list[str] = []  # lines
        self._unseen: list[str] = []  # open tags around what is not shown
        self._kept = False  # within <pre>, where line breaks count

    def lines(self, *, last: bool = False) -> str:
        """The lines that are complete, or at the end all of them."""
        if last:
            self._end_line()
        text = "".join(f"{line}\n" for line in self._done)
        self._done.clear()
        return text

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("rt", "rp"):  # their end may be omitted
            self._leave("rt", "rp")
        if tag in _UNSEEN:
            self._unseen.append(tag)
        self._separate(tag)
        self._kept = self._kept or tag == "pre"

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        self._leave(*(("rt", "rp") if tag == "ruby" else (tag,)))
        self._separate(tag)
        self._kept = self._kept and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._unseen:
            return
        if not self._kept:
            self._pieces.append(data)
            return
        for number, line in enumerate(data.split("\n")):
            if number:
                self._end_line()
            self._pieces.append(line)

    def _leave(self, *tags: str) -> None:
        for place in reversed(range(len(self._unseen))):
            if self._unseen[place] in tags:
                del self._unseen[place:]
                return

    def _separate(self, tag: str) -> None:
        if tag in _CELLS:
            self._pieces.append(" ")
        elif tag not in _INLINE and tag not in _UNSEEN:
            self._end_line()

    def _end_line(self) -> None:
        line = _SPACES.sub(" ", _BREAK.sub("", "".join(self._pieces))).strip()
        self._pieces.clear()
        if line:
            self._done.append(line)


log = logging.getLogger(__name__)

BLOCK = 1 << 18  # characters that are processed at once
CHUNK = 1 << 18  # bytes that are read at once, and the size of the sample from which the encoding is detected
LONGEST_RECORD = 1 << 26  # characters of one line of JSON
STDIN = "-"
_SENTENCES = "; for sentences in memory use Corpus.from_sentences"


@dataclass(frozen=True)
class Source:
    """A file to read. If it was found in a folder rather than ``named`` by the user, it may turn out not to be text."""

    name: str
    named: bool = True

    @property
    def title(self) -> str:
        """The name to show to people."""
        return "standard input" if self.name == STDIN else self.name

    @property
    def size(self) -> int | None:
        """Bytes on disk; None for stdin and pipes."""
        return os.path.getsize(self.name) if self.name != STDIN and os.path.isfile(self.name) else None


def _check_exist(paths: list[str | Path]) -> None:
    """Refuse a list of paths none of which exists: they may be sentences."""
    if any(path == STDIN or os.path.exists(path) for path in paths):
        return
    hint = advice(command="", python=_SENTENCES)
    if len(paths) == 1 and str(paths[0]):
        _file(os.fspath(paths[0]), hint)
    if len(paths) > 1:
        raise TextError(f"none of the {len(paths):,} sources exists, such as {str(paths[0])[:40]!r}{hint}")


def paths_given(sources: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """The given paths as a list; sentences instead of paths are refused."""
    paths = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    given: Sequence[object] = paths
    for path in given:
        if not isinstance(path, (str, os.PathLike)):
            hint = _SENTENCES if isinstance(path, (list, tuple)) else ""
            raise TextError(f"a source is a path, not {type(path).__name__}: {str(path)[:40]!r}{hint}")
    if not isinstance(sources, (str, os.PathLike)):
        _check_exist(paths)
    return paths


def find_sources(paths: Sequence[str | Path]) -> list[Source]:
    """The files at these paths; those of a folder are sorted, without hidden files and polyseme's own folders."""
    sources: list[Source] = []
    for path in paths_given(paths):
        name = os.fspath(path)
        if name == STDIN:
            sources.append(Source(STDIN))
        elif os.path.isdir(name):
            sources += _folder(Path(name))
        else:
            sources.append(_file(name))
    if not sources:
        raise TextError(f"there are no files in {', '.join(map(str, paths)) or 'no path at all'}")
    return sources


def _file(name: str, hint: str = "") -> Source:
    try:
        os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        raise TextError(f"{name[:200] or repr(name)} does not exist{hint}") from None
    except OSError as error:  # such as no permission for a parent folder
        raise TextError(f"{name} cannot be read: {error.strerror}") from None
    return Source(name)


def _folder(folder: Path) -> list[Source]:
    def refuse(error: OSError) -> None:
        raise TextError(f"{error.filename} cannot be read: {error.strerror}")

    if is_ours(folder):
        raise TextError(f"{folder} is a corpus, model or index, not text")
    files = []
    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and not is_ours(Path(root, name)))
        files += [Path(root, name) for name in names if not name.startswith(".")]
    return [Source(str(file), named=False) for file in sorted(files) if file.is_file()]


class SourceReader:
    """Reads one source as text. ``consumed`` counts bytes on disk, for the progress display."""

    def __init__(self, source: Source, *, encoding: str | None = None, errors: str = "strict") -> None:
        self.source = source
        self.name = source.title
        self.encoding = encodings.check_name(encoding) if encoding else None
        self.errors = errors
        self.consumed = 0

    def chunks(self) -> Iterator[str]:
        """The text, piece by piece."""
        try:
            with self._open() as (raw, stream):
                try:
                    decoded = self._decoded(stream)
                    for text in visible_text(self.name, decoded) if is_web_page(self.name) else decoded:
                        self.consumed = raw.tell() if raw.seekable() else self.consumed + len(text)
                        yield text.replace("\ufeff", "") if "\ufeff" in text else text
                except TextError:
                    self._blame_packing(stream)
                    raise
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise TextError(f"{self.name} is truncated or damaged: it cannot be decompressed ({error})") from None
        except OSError as error:
            if error.errno is None:  # bz2 reports damage this way
                raise TextError(f"{self.name} is truncated or damaged: it cannot be decompressed ({error})") from None
            raise TextError(f"{self.name} cannot be read: {error.strerror}") from None

    def _blame_packing(self, stream: IO[bytes]) -> None:
        """Raise if bytes that are not text come from damaged compressed data, by reading on to its checksum."""
        if isinstance(stream, (gzip.GzipFile, bz2.BZ2File, lzma.LZMAFile)):
            while stream.read(CHUNK):
                pass
        elif self.name.lower().endswith((".gz", ".bz2", ".xz")):
            raise TextError(f"{self.name} is damaged, or not what its name says: it is not a compressed file")

    def _open(self) -> _OpenText:
        if self.source.name == STDIN:
            return _OpenText(sys.stdin.buffer, close=False)
        return _OpenText(open_text(self.source.name), close=True)

    def _decoded(self, stream: IO[bytes]) -> Iterator[str]:
        """Decode the stream; the encoding is detected at the first chunk that is not plain ASCII."""
        offset = 0
        chunk = _read_full(stream)
        mark = encodings.mark_of(chunk)
        name = self.encoding
        if mark and (name is None or codecs.lookup(name).name.replace("-sig", "") in (mark[0], mark[0][:6])):
            name, offset = mark
            chunk = chunk[offset:]
        elif name and codecs.lookup(name).name in ("utf-16", "utf-32") and chunk:
            raise TextError(f"{self.name} has no byte order mark: use {name}-le or {name}-be")
        while name is None and encodings.is_plain(chunk):
            if not chunk:
                self.encoding = self.encoding or "utf-8"
                return
            yield chunk.decode("ascii")
            offset += len(chunk)
            chunk = _read_full(stream)
        following = _read_full(stream)
        name = name or encodings.detect(chunk, whole=not following)
        if self.errors == "strict" and (name is None or (b"\0" in chunk and encodings.known_binary(chunk))):
            raise encodings.not_text(self.name, chunk)
        self.encoding = name or "utf-8"
        yield from self._rest(stream, chunk, following, offset)

    def _rest(self, stream: IO[bytes], chunk: bytes, following: bytes, offset: int) -> Iterator[str]:
        assert self.encoding
        decoder = encodings.decoder(self.encoding, self.errors)
        while True:
            pending = _pending(decoder)
            try:
                text = decoder.decode(chunk, final=not following)
            except UnicodeDecodeError as error:
                at = offset - pending + error.start
                raise self._bad(f"byte 0x{error.object[error.start]:02x}", at) from None
            except UnicodeError as error:  # codecs that raise other errors, such as idna
                raise TextError(f"{self.name} is not {self.encoding.upper()} text ({error})") from None
            if "\0" in text:
                if self.errors == "strict":
                    before = text[: text.index("\0")].encode(self.encoding, "replace")
                    raise self._bad("a NUL", offset - pending + len(before))
                text = text.replace("\0", "\ufffd")
            yield text
            if not following:
                return
            offset += len(chunk)
            chunk, following = following, _read_full(stream)

    def _bad(self, what: str, at: int) -> TextError:
        return TextError(
            f"{self.name}: {what} at offset {at:,} is not {str(self.encoding).upper()} text: "
            f"give the right encoding ({as_given('encoding', 'NAME')}), or {as_given('errors', 'replace')}"
        )


class _OpenText:
    """Context manager: the raw file and the stream of its content, decompressed if necessary."""

    def __init__(self, raw: IO[bytes], *, close: bool) -> None:
        self.raw, self.close = raw, close

    def __enter__(self) -> tuple[IO[bytes], IO[bytes]]:
        head = io.BufferedReader(self.raw, 1 << 16) if isinstance(self.raw, io.RawIOBase) else self.raw
        start = head.peek(6)[:6]  # type: ignore[attr-defined]
        for magic, opener in PACKED:
            if start.startswith(magic):
                return self.raw, opener(head)  # type: ignore[return-value]
        return self.raw, head

    def __exit__(self, *_: object) -> None:
        if self.close:
            self.raw.close()


def _read_full(stream: IO[bytes]) -> bytes:
    """Read a whole chunk, even from a pipe that returns less at a time."""
    pieces = []
    missing = CHUNK
    while missing and (piece := stream.read(missing)):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _pending(decoder: codecs.IncrementalDecoder) -> int:
    """The number of bytes of an incomplete character that the decoder has buffered."""
    held = decoder.getstate()[0]
    return len(held) if isinstance(held, bytes) else 0


def read_blocks(
    sources: Sequence[Source], *, encoding: str | None = None, errors: str = "strict", format: str = "auto"
) -> Iterator[tuple[Block, int]]:
    """The blocks of all sources in order, each with the number of bytes on disk that have been read so far."""
    before = 0
    blocks = 0
    for source in sources:
        reader = SourceReader(source, encoding=encoding, errors=errors)
        try:
            for block in _blocks(reader, format):
                blocks += 1
                yield block, before + reader.consumed
        except TextError as error:
            if source.named or reader.encoding is not None:
                raise
            log.warning("skipped: %s", error)
        before += source.size or reader.consumed
    if not blocks:
        raise TextError(f"there is no text in {', '.join(s.title for s in sources[:3])}")


def _blocks(reader: SourceReader, format: str) -> Iterator[Block]:
    rest = ""
    new, continues, line, article = True, False, 1, ""
    for text in reader.chunks():
        rest += text
        while len(rest) >= BLOCK:
            if format == "auto":
                format = sniff(reader.name, rest)
            end, whole = _cut(rest, format)
            if not end:
                if len(rest) > LONGEST_RECORD:
                    raise TextError(f"{reader.name}: line {line:,} is too long for a line of JSON")
                break
            yield Block(reader.name, rest[:end], format, new, continues, line, reader.encoding or "utf-8", article)
            article = last_article(rest[:end]) if format == "tagged" else ""
            line += rest.count("\n", 0, end)
            rest, new, continues = rest[end:], False, not whole
    if rest:
        format = sniff(reader.name, rest) if format == "auto" else format
        yield Block(reader.name, rest, format, new, continues, line, reader.encoding or "utf-8", article)


_LINE_ENDS = re.compile("\r(?!\n)|[\u2028\u2029\x85\v\f]")
_SENTENCE_ENDS = re.compile('[。！？；…!?][”’」』）"]?|\\. |\\s')


def _cut(text: str, format: str) -> tuple[int, bool]:
    """The position where a block of this text can end (0 if more text is needed), and whether a line ends there."""
    if format == "wrapped" and (end := max(text.rfind("\n\n"), text.rfind("\n\r\n"))) > 0:
        return end + 2, True
    if end := text.rfind("\n") + 1:
        return end, True
    if format == "jsonl":
        return 0, True
    start = max(0, len(text) - (BLOCK >> 2))
    for pattern, whole in ((_LINE_ENDS, True), (_SENTENCE_ENDS, False)):
        ends = [match.end() for match in pattern.finditer(text, start, len(text) - 1)]
        if ends:
            return ends[-1], whole
    return len(text) - 1, False


def short_names(paths: Sequence[str]) -> list[str]:
    """The names of files; those that several folders have, with the folders in which they differ."""
    parts = [Path(os.path.abspath(path)).parts for path in paths]
    often = Counter(part[-1] for part in parts)
    folders = [part[:-1] for part in parts if often[part[-1]] > 1]
    shared = len(list(takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False))))
    return [part[-1] if often[part[-1]] == 1 else "/".join(part[shared:]) for part in parts]
