"""Occurrences in their sentences, the word in one column: a concordance (KWIC). 语境中的关键词"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from polyseme.cli.console import SafeConsole
from polyseme.text.spacing import joined

PIPED_WIDTH = 100
_SOURCE_WIDTH = 16
_ELLIPSIS = "…"


def console() -> Console:
    """Stdout as rich sees it: colours on a terminal, plain lines in a pipe."""
    found = SafeConsole(soft_wrap=True)
    if not found.is_terminal:
        found.width = PIPED_WIDTH
    return found


class InSentence(Protocol):
    """A match in a sentence, ``text[start:end]``; perhaps with a ``score``, a ``source`` and neighbouring sentences."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def tag(self) -> str | None: ...


def print_kwic(
    to: Console,
    hits: Sequence[InSentence],
    *,
    indent: int = 0,
    scores: bool = True,
    sources: bool = False,
    faded: bool = False,
) -> None:
    """One line per hit: score, source, tag if there are tags, and the word in its context."""
    width = to.width - indent
    for line in kwic_lines(hits, width=width, scores=scores, sources=sources, brackets=not to.is_terminal):
        whole = Text(" " * indent) + (Text(line.plain, "dim") if faded else line)
        to.print(whole, no_wrap=True, crop=False)


def kwic_lines(
    hits: Sequence[InSentence], *, width: int, scores: bool = True, sources: bool = False, brackets: bool = False
) -> Iterable[Text]:
    """The lines, each at most ``width`` columns wide; a Chinese character takes two."""
    names = [trimmed(_clean(hit.source), _SOURCE_WIDTH) if sources else "" for hit in hits]  # type: ignore[attr-defined]
    named = max(map(cell_len, names), default=0)
    tags = max((cell_len(hit.tag) for hit in hits if hit.tag), default=0)
    words = min(max((cell_len(_clean(hit.text[hit.start : hit.end])) for hit in hits), default=0), width // 2)
    marks = 4 if brackets else 2
    taken = (7 if scores else 0) + (tags + 1 if tags else 0) + (named + 2 if named else 0)
    side = max((width - words - marks - taken) // 2, 4)
    for hit, name in zip(hits, names, strict=True):
        line = Text()
        if scores:
            line.append(f"{hit.score:5.3f}  ", style="dim")  # type: ignore[attr-defined]
        if named:
            line.append(name + " " * (named - cell_len(name) + 2), style="dim")
        if tags:
            line.append(f"{hit.tag or '':<{tags}} ", style="cyan")
        left = trimmed_left(_clean(joined([getattr(hit, "before", ""), hit.text[: hit.start]])), side)
        right = trimmed(_clean(joined([hit.text[hit.end :], getattr(hit, "behind", "")])), side)
        word = trimmed(_clean(hit.text[hit.start : hit.end]), max(words, 1))
        line.append(" " * (side - cell_len(left)) + left)
        line.append(f"【{word}】" if brackets else f" {word} ", style="bold red")
        line.append(right)
        yield line


def trimmed(text: str, width: int) -> str:
    """The start of a text that fits ``width`` columns, with ``…`` if something is cut off."""
    if cell_len(text) <= width:
        return text
    used, kept = cell_len(_ELLIPSIS), []
    for character in text:
        used += cell_len(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept) + _ELLIPSIS


def trimmed_left(text: str, width: int) -> str:
    """The end of a text in the same way."""
    if cell_len(text) <= width:
        return text
    used, kept = cell_len(_ELLIPSIS), []
    for character in reversed(text):
        used += cell_len(character)
        if used > width:
            break
        kept.append(character)
    return _ELLIPSIS + "".join(reversed(kept))


def _clean(text: str) -> str:
    # A corpus may hold control characters; a terminal must not obey them.
    return "".join(character if character.isprintable() else " " for character in text)
