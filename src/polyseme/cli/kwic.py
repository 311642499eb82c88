"""Occurrences in their sentences, the word in one column: a concordance (KWIC). 语境中的关键词"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from polyseme.cli.console import SafeConsole
from polyseme.search.hits import Hit

PIPED_WIDTH = 100
_ELLIPSIS = "…"


def console() -> Console:
    """Stdout as rich sees it: colours on a terminal, plain lines in a pipe."""
    found = SafeConsole(soft_wrap=True)
    if not found.is_terminal:
        found.width = PIPED_WIDTH
    return found


def print_kwic(to: Console, hits: Sequence[Hit], *, indent: int = 0, scores: bool = True) -> None:
    """One line for each hit: score, tag where there are tags, and the word between what stands beside it."""
    for line in kwic_lines(hits, width=to.width - indent, scores=scores, brackets=not to.is_terminal):
        to.print(Text(" " * indent) + line, no_wrap=True, crop=False)


def kwic_lines(hits: Sequence[Hit], *, width: int, scores: bool = True, brackets: bool = False) -> Iterable[Text]:
    """The lines, each at most ``width`` columns wide; a Chinese character takes two."""
    tags = max((cell_len(hit.tag) for hit in hits if hit.tag), default=0)
    words = max((cell_len(hit.text[hit.start : hit.end]) for hit in hits), default=0)
    marks = 4 if brackets else 2
    side = max((width - words - marks - (7 if scores else 0) - (tags + 1 if tags else 0)) // 2, 4)
    for hit in hits:
        line = Text()
        if scores:
            line.append(f"{hit.score:5.3f}  ", style="dim")
        if tags:
            line.append(f"{hit.tag or '':<{tags}} ", style="cyan")
        left, right = trimmed_left(_clean(hit.text[: hit.start]), side), trimmed(_clean(hit.text[hit.end :]), side)
        word = _clean(hit.text[hit.start : hit.end])
        line.append(" " * (side - cell_len(left)) + left)
        line.append(f"【{word}】" if brackets else f" {word} ", style="bold red")
        line.append(right)
        yield line


def trimmed(text: str, width: int) -> str:
    """The beginning of a text, as much as fits ``width`` columns, ``…`` where something is missing."""
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
