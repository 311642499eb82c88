"""Tagged sentences in columns: one word and its tag per line, a blank line after each sentence. 序列标注

Reads CoNLL columns separated by tabs or spaces, with BIO or BMES tags or parts of speech, and CoNLL-U. Some published
datasets put each character's position in its word after it (口0 腔1, Weibo NER) or a language code before each word
(en:Sioux, WikiANN): both are removed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from polyseme.data.tables import Lines
from polyseme.errors import OptionError, TextError
from polyseme.text.segment import has_han

ENTITY = re.compile(r"O|[BIESMLUW]-\S+|[BMES]")  # BIO, BIOES, BMES, BILOU; B, M, E, S alone: segmentation
_PART_OF_SPEECH = re.compile(r"\S{1,12}")
_LANGUAGE = re.compile(r"[a-z]{2,3}:(?=.)")
_HEAD = 5000  # lines
_DOCUMENT = "-DOCSTART-"
_UNIVERSAL = 10  # columns of CoNLL-U
_WORD, _CHINESE_WORD = 10, 2.5  # the greatest mean length of words, in characters


@dataclass(frozen=True)
class Conll:
    """The layout of a line: which columns contain the word and its tag."""

    separator: str | None  # None: any white space
    width: int
    token: int
    tag: int | None  # None: the words have no tags
    numbered: bool = False  # each token ends with its position in its word
    language: str = ""  # the prefix of every token, such as "en:"

    def split(self, line: str) -> list[str]:
        """The columns of a line."""
        return line.split(self.separator)

    def facts(self) -> dict[str, Any]:
        """The columns that are used, numbered from 1, and what was removed from the words."""
        off = [what for what, is_so in (("place in word", self.numbered), (self.language, self.language)) if is_so]
        places = {"token": self.token, "tag": self.tag}
        taken = {"columns": {name: place + 1 for name, place in places.items() if place is not None}}
        return {**taken, **({"taken_off_words": off} if off else {})}


def _beginning(lines: Lines) -> tuple[list[str], list[str]]:
    """The first lines without comments, and those among them that contain a word."""
    head = [line for line in lines.head_lines(_HEAD) if not _is_comment(line)]
    return head, [line for line in head if line.strip() and not line.startswith(_DOCUMENT)]


def detect_conll(lines: Lines, *, trusted: bool, columns: Mapping[str, str | int] | None = None) -> Conll | None:
    """Detect the layout of a file of tagged sentences; None if it is not one.

    ``trusted``: the caller says that it is one, so the checks are looser.
    """
    head, full = _beginning(lines)
    if not full or lines.head.lstrip()[:1] in ("{", "["):
        return None
    separator = "\t" if sum("\t" in line for line in full) > len(full) / 2 else None
    rows = [line.split(separator) for line in full]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    rows = [row for row in rows if len(row) == width]
    if width < 2 or len(rows) < (0.5 if trusted else 0.9) * len(full):
        return None
    universal = width == _UNIVERSAL and all(row[0][:1].isdigit() for row in rows)
    token, tag = _places(width, columns, (1, 3) if universal else (0, width - 1))
    layout = Conll(separator, width, token, tag)
    words, tags = [row[token] for row in rows], [row[tag] for row in rows]
    if not trusted and not _are_tags(words, tags, sentences="\n".join(map(str.strip, head)).strip().count("\n\n") + 1):
        return None
    return Conll(separator, width, token, tag, _are_numbered(head, layout), _language(words))


def detect_words(lines: Lines) -> Conll | None:
    """The layout of a file with one word per line and no tags; None if its lines are too long to be words."""
    head, full = _beginning(lines)
    words = [line.strip() for line in full]
    most = sum(_CHINESE_WORD if has_han(word) else _WORD for word in words)
    if len(words) < 2 or any(len(word.split()) > 1 for word in words) or sum(map(len, words)) > most:
        return None
    layout = Conll(None, 1, 0, None)
    return Conll(None, 1, 0, None, _are_numbered(head, layout), _language(words))


def _places(width: int, columns: Mapping[str, str | int] | None, usual: tuple[int, int]) -> tuple[int, int]:
    if not columns:
        return usual
    if set(columns) - {"token", "tag"}:
        raise OptionError(f"the columns of tagged sentences are token and tag, not {', '.join(columns)}")
    try:
        token, tag = int(columns.get("token", usual[0] + 1)), int(columns.get("tag", usual[1] + 1))
    except ValueError:
        raise OptionError(f"columns of tagged sentences must be numbers from 1, not {dict(columns)}") from None
    if not (1 <= token <= width and 1 <= tag <= width):
        raise OptionError(f"tagged sentences with {width} columns, numbered from 1; not {dict(columns)}")
    return token - 1, tag - 1


def _are_tags(words: list[str], tags: list[str], *, sentences: int) -> bool:
    """Whether these are words with tags: words without spaces, and entity tags or a small set of parts of speech."""
    if any(" " in word.strip() for word in words) or sum(map(len, words)) > 20 * len(words):
        return False
    if sum(map(bool, map(ENTITY.fullmatch, tags))) >= 0.99 * len(tags):
        return True
    few = len(set(tags)) <= min(100, len(tags) / 4)
    return 2 <= sentences <= len(words) / 2 and few and all(map(_PART_OF_SPEECH.fullmatch, tags))


def _is_comment(line: str) -> bool:
    return line.startswith("# ") and "\t" not in line


def _are_numbered(head: list[str], layout: Conll) -> bool:
    place, beyond, fitting, tokens = -1, 0, 0, 0
    for line in head:
        if not line.strip():
            place = -1
            continue
        row = layout.split(line)
        if len(row) != layout.width or line.startswith(_DOCUMENT):
            continue
        expected = (place + 1, 0)
        word, place = without_place(row[layout.token], place)
        fitting += bool(word) and place in expected
        tokens += 1
        beyond += place > 0
    return beyond > 0 and fitting >= 0.99 * tokens


def without_place(token: str, before: int) -> tuple[str, int]:
    """Split a token into word and position, preferring ``before`` + 1 and 0; ("", -1) if it has no position."""
    for place in (before + 1, 0):
        word = token.removesuffix(str(place))
        if word and word != token:
            return word, place
    return (token[0], int(token[1:])) if token[1:].isdecimal() else ("", -1)


def _language(words: list[str]) -> str:
    first = _LANGUAGE.match(words[0])
    prefix = first.group() if first else ""
    return prefix if all(word.startswith(prefix) and word != prefix for word in words) else ""


def read_conll(lines: Lines, layout: Conll) -> Iterator[tuple[int, list[str], list[str], str]]:
    """Every sentence as (first line, words, tags, ""); a bad one has the faulty line and says what is wrong."""
    sentence = _Sentence(layout)
    for number, line in lines:
        if not line.strip():
            if sentence.begun:
                yield sentence.finished()
                sentence = _Sentence(layout)
        elif not _is_comment(line) and not line.startswith(_DOCUMENT):
            sentence.add(number, line)
    if sentence.begun:
        yield sentence.finished()


class _Sentence:
    def __init__(self, layout: Conll) -> None:
        self.layout = layout
        self.line, self.wrong = 0, ""
        self.tokens: list[str] = []
        self.tags: list[str] = []
        self.place = -1

    @property
    def begun(self) -> bool:
        return bool(self.tokens or self.wrong)

    def add(self, number: int, line: str) -> None:
        if self.wrong:
            return
        self.line = self.line or number
        layout = self.layout
        row = layout.split(line)
        if len(row) != layout.width:
            columns = "1 column" if len(row) == 1 else f"{len(row)} columns"
            self.line, self.wrong = number, f"has {columns} instead of {layout.width}"
            return
        if layout.width == _UNIVERSAL and not row[0].isdigit():
            return  # CoNLL-U: a multiword token, whose words follow (1-2), or an empty node (1.1)
        token = row[layout.token].strip().removeprefix(layout.language).replace("\0", "\ufffd")
        if layout.numbered:
            token, self.place = without_place(token, self.place)
        tag = None if layout.tag is None else row[layout.tag].strip()
        if not token or tag == "":
            self.line, self.wrong = number, f"has no {'tag' if token else 'word'}"
            return
        self.tokens.append(token)
        if tag is not None:
            self.tags.append(tag)

    def finished(self) -> tuple[int, list[str], list[str], str]:
        return self.line, self.tokens, self.tags, self.wrong


def check_detected(layout: Conll | None, name: str) -> Conll:
    """The layout, or an error that says what tagged sentences look like."""
    if layout is None:
        raise TextError(
            f"{name} has no tagged sentences: expected one word and its tag per line, a blank line after each sentence"
        )
    return layout
