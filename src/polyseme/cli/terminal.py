"""What reaches the terminal. Words come from other people's files and may contain escape sequences.

Every printed line goes through ``say``, ``print_json`` or ``console``.
"""

from __future__ import annotations

import logging
import re

import click

# Controls but tab and newline, those of Latin-1 among them; signs that reorder text; halves of surrogate pairs.
_UNSAFE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with each control character replaced by a visible sign: ␛ for escape, � for others."""
    return _UNSAFE.sub(_sign, text)


def json_printable(text: str) -> str:
    """JSON with the same characters escaped; lone surrogates, which JSON should not contain, as �."""
    return _UNSAFE.sub(lambda found: _sign(found) if found[0] >= "\ud800" else f"\\u{ord(found[0]):04x}", text)


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line."""
    click.echo(printable(text), err=err, nl=nl)


class SafeFormatter(logging.Formatter):
    """For log messages, which may name files and words."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
