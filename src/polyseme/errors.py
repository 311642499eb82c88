"""The error classes. Each message is one line for users: what is wrong, where, what to do next."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class PolysemeError(Exception):
    """Every error a user can cause or correct. The command line prints it as one line and exits with 1."""


class TextError(PolysemeError):
    """Text that cannot be read: bad bytes, a missing file, an empty input."""


class FormatError(PolysemeError):
    """A file or folder that is truncated, altered, of another format or of a newer version."""


def altered_model(what: str) -> FormatError:
    """The error of a model folder whose contents do not fit each other."""
    return FormatError(f"the model folder was altered: {what}")


class FileChanged(FormatError):
    """A file that was written to in place while it was in use."""

    def __init__(self, path: Path) -> None:
        advice = "open it again, and replace files instead of writing into them"
        super().__init__(f"{path} was changed while it was in use: {advice}")


class DiskFull(PolysemeError, OSError):
    """No disk space for a result; the previous one is untouched."""

    def __init__(self, place: Path) -> None:
        super().__init__(
            errno.ENOSPC, f"no space left on {place}, nothing was replaced: free some space and start again"
        )

    def __str__(self) -> str:
        return str(self.strerror)


class OptionError(PolysemeError):
    """An unknown option or an invalid value."""


class UnknownWord(PolysemeError, KeyError):
    """A word the model has no vector for."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class TrainingError(PolysemeError):
    """Training that cannot start or continue."""


class MissingExtra(PolysemeError, ImportError):
    """An optional package that is not installed."""

    def __init__(self, what: str, extra: str, package: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: {_install(extra)}")
        self.extra, self.package = extra, package


def _install(extra: str) -> str:
    """The command that adds an extra: of polyseme as it is installed, or of a checkout that is used where it lies."""
    from importlib import metadata

    try:
        metadata.distribution("polyseme")
    except metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]' in the folder of polyseme's pyproject.toml"
    return f"pip install 'polyseme[{extra}]'"


_tool = "python"  # that the person who reads the message uses


@contextmanager
def used_as(tool: str) -> Iterator[None]:
    """Until the end of the block, errors give advice for this tool, ``command`` or ``python``."""
    global _tool
    before, _tool = _tool, tool
    try:
        yield
    finally:
        _tool = before


def advice(*, command: str, python: str) -> str:
    """What to do next, in the words of the tool in use."""
    return command if _tool == "command" else python


def as_given(name: str, value: Any = True) -> str:
    """An option as written for the tool in use: ``--errors skip`` or ``errors='skip'``."""
    flag = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
    return advice(command=flag, python=f"{name}={value!r}")


def close_matches(word: str, known: Iterable[str]) -> str:
    """A hint to append to an error: ``; did you mean 'word2vec'?``, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return "; did you mean " + " or ".join(repr(n) for n in near) + "?" if near else ""
