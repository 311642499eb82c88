"""Parallel text: two languages, aligned line by line. 平行语料

>>> pairs = Parallel.read("train.tsv.xz")                 # two columns, or JSON lines with columns={"source": "en", …}
>>> pairs = Parallel.read("europarl.en", "europarl.de")   # two files with the same number of lines
>>> next(iter(pairs))
('Hi.', '嗨。')

Both sides are kept as they were written; ``segmentations`` says how they will be segmented into words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyseme.arrays import Ints
from polyseme.data.detect import Request, detect
from polyseme.data.statistics import held_out_rows
from polyseme.data.tables import BadRows, Lines, plain_text, read_rows
from polyseme.errors import OptionError, TextError
from polyseme.text.blocks import PACKED_ENDING
from polyseme.text.options import ReadingParallel, make_reading
from polyseme.text.segment import Function, Segmentation
from polyseme.text.source import Source, find_sources
from polyseme.text.strings import Strings

if TYPE_CHECKING:
    from typing_extensions import Self

Segment = str | Function | Segmentation
_LANGUAGE = re.compile(r"(.*)\.([A-Za-z_-]{2,8})")  # train.en and train.zh are the two sides of train


class Parallel(Sequence[tuple[str, str]]):
    """Pairs of a sentence and its translation: (source, target)."""

    kind = "parallel"

    def __init__(
        self, path: Path, sides: tuple[Strings, Strings], segmentations: tuple[Segmentation, Segmentation]
    ) -> None:
        self.path = path
        self.segmentations = segmentations  # of the source and of the target
        self._sides = sides
        self._order: Ints = np.arange(len(sides[0]))
        self._source: dict[str, Any] = {}

    @classmethod
    def read(
        cls,
        source: str | Path | Sequence[str | Path],
        target: str | Path | None = None,
        *,
        segment: Segment | tuple[Segment, Segment] = "auto",
        **reading: Any,
    ) -> Self:
        """Read pairs from a table, from two files with the same number of lines, or from a folder; compressed or not.

        segment      how text will be segmented into words; a tuple (source, target) if the two sides differ
        reading      how the files are read, the options of ``ReadingParallel``:

        columns      source and target, by name or number from 1; default: the two columns of a two-column table
        errors       strict refuses unreadable rows; replace puts � for bad bytes; skip also skips unreadable rows
        encoding     UTF-8, UTF-16, GB18030, Big5 or Windows-1252; None detects it
        """
        ways = segment if isinstance(segment, tuple) else (segment, segment)
        (how, source_way), (_, target_way) = (
            make_reading(ReadingParallel, {**reading, "segment": way}) for way in ways
        )
        paths = [source] if isinstance(source, (str, Path)) else list(source)
        if target is not None:
            paths.append(target)
        request = Request("parallel", how)
        read = _Reading(", ".join(map(str, paths)), request)
        for one, other in _pairs(paths, request, two_files=target is not None):
            if other is None:
                read.add_table(one)
            else:
                read.add_files(one, other)
        read.finish()
        made = cls(Path(paths[0]), read.sides, (source_way, target_way))
        made._source = read.facts
        return made

    def reversed(self) -> Self:
        """The same pairs with source and target swapped."""
        other = self._part(self._order)
        other._sides = self._sides[::-1]
        other.segmentations = self.segmentations[::-1]
        if "columns" in self._source:
            columns = self._source["columns"]
            other._source = {**self._source, "columns": {"source": columns["target"], "target": columns["source"]}}
        return other

    def split(self, share: float, seed: int = 1) -> tuple[Self, Self]:
        """Split in two; the second part has this share of the pairs."""
        if not 0 < share < 1 or len(self) < 2:
            raise OptionError(f"share must be between 0 and 1, of at least two pairs, not {share} of {len(self)}")
        everything = np.arange(len(self))
        held_out = held_out_rows(np.zeros(len(self), dtype=np.int64), everything, share, seed)
        return self._part(self._order[~held_out]), self._part(self._order[held_out])

    def _part(self, order: Ints) -> Self:
        part = copy(self)
        part._order = order
        for counted in ("fingerprint", "facts"):
            part.__dict__.pop(counted, None)
        return part

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, i: int) -> tuple[str, str]:  # type: ignore[override]
        place = int(self._order[i])
        return self._sides[0][place], self._sides[1][place]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        source, target = self._sides
        return ((source[i], target[i]) for i in self._order.tolist())

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the pairs in order and of the segmentations; it does not depend on the file."""
        digest = hashlib.sha256(repr([sorted(one.to_json().items()) for one in self.segmentations]).encode())
        for pair in self:
            for text in pair:
                raw = text.encode()
                digest.update(len(raw).to_bytes(8, "little") + raw)
        return digest.hexdigest()

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Number of pairs, mean lengths, and how the files were read (format, columns, encoding)."""
        lengths = [0, 0]
        for source, target in self:
            lengths[0] += len(source)
            lengths[1] += len(target)
        means = {side: round(n / max(len(self), 1), 1) for side, n in zip(("source", "target"), lengths, strict=True)}
        return {"kind": "parallel", "rows": len(self), "mean_characters": means, **self._source}

    def __repr__(self) -> str:
        return f"Parallel({str(self.path)!r}: {len(self):,} pairs)"


class _Reading:
    def __init__(self, name: str, request: Request) -> None:
        self.request = request
        self.sides = (Strings(), Strings())
        self.bad = BadRows(name, request.how.errors)
        self.facts: dict[str, Any] = {}
        self.files = self.empty = 0

    def add_table(self, source: Source) -> None:
        lines = self.request.open(source)
        detected = detect(lines, self.request)
        assert isinstance(detected.layout, tuple)
        table, columns = detected.layout
        for line, cells, wrong in read_rows(lines, table):
            texts = [] if wrong else [plain_text(cells[columns.places[side]]) for side in ("source", "target")]
            if wrong or None in texts:
                self.bad.add(f"line {line:,} {wrong or 'has no text'}")
            else:
                self._add(*(text or "" for text in texts))
        self._tell(lines, detected.facts())

    def add_files(self, source: Source, target: Source) -> None:
        """Pair two files line by line; if one ends before the other, they are not aligned."""
        one, other = self.request.open(source), self.request.open(target)
        for left, right in zip_longest(one, other):
            if left is None or right is None:
                line = (left or right or (0,))[0]
                short, long = (one, other) if left is None else (other, one)
                raise TextError(f"{short.name} ends before line {line:,} of {long.name}: the two are not aligned")
            self._add(left[1], right[1])
        self._tell(one, {"format": "two files"})

    def _add(self, source: str, target: str) -> None:
        if not source.strip() or not target.strip():
            self.empty += 1
            return
        self.sides[0].append(source)
        self.sides[1].append(target)

    def _tell(self, lines: Lines, facts: dict[str, Any]) -> None:
        self.files += 1
        self.facts = self.facts or {**facts, "encoding": lines.encoding}

    def finish(self) -> None:
        self.bad.finish(len(self.sides[0]))
        if not len(self.sides[0]):
            raise TextError(f"{self.bad.name} has no pairs of sentences")
        counts = {"files": self.files if self.files > 1 else 0, "left_out_with_an_empty_side": self.empty}
        self.facts |= {name: count for name, count in {**counts, "unreadable": self.bad.number}.items() if count}


def _pairs(paths: Sequence[str | Path], request: Request, *, two_files: bool) -> Iterator[tuple[Source, Source | None]]:
    """Group the sources: each table alone, as (table, None), or the files of the two languages as (source, target)."""
    sources = find_sources(paths)
    if len(sources) == 2 and sources[0].named and (two_files or not _is_table(sources[0], request)):
        yield sources[0], sources[1]
    elif len(sources) > 1 and (sides := _by_language(sources)):
        yield from sides
    else:  # in a folder there may be other files
        yield from ((source, None) for source in sources if source.named or _is_table(source, request))


def _is_table(source: Source, request: Request) -> bool:
    try:
        detect(request.open(source), request)
    except TextError:
        return False
    return True


def _by_language(sources: list[Source]) -> list[tuple[Source, Source]]:
    """Pair files such as a.en, a.zh, b.en, b.zh; [] if they are not named like this."""
    languages: dict[str, dict[str, Source]] = {}
    for source in sources:
        if name := _LANGUAGE.fullmatch(PACKED_ENDING.sub("", source.name)):
            languages.setdefault(name[1], {})[name[2]] = source
    sides = [sorted(files) for files in languages.values()]
    if not sides or len(sides[0]) != 2 or any(side != sides[0] for side in sides):
        return []
    return [(files[sides[0][0]], files[sides[0][1]]) for files in languages.values()]
