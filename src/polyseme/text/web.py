"""The visible text of HTML files. 网页文本

A file named .html, .htm or .xhtml is read as a browser shows it: each paragraph, heading, list item or row of a table
is a line; scripts, styles and the title are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser

from polyseme.errors import TextError
from polyseme.text.formats import PACKED_ENDING
from polyseme.text.spacing import CHINESE_JAPANESE

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
