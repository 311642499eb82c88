"""The table of methods and published formats, read by everything that lists or looks one up. 方法目录

in    nothing: rows of strings, ``"module:name"`` where something is defined, so that listing imports no method
out   ``METHODS`` (can be trained), ``TASKS`` (heads that are fitted), ``PUBLISHED`` (classes of files of others),
      ``COMPOSED`` (models made of models), ``FORMATS`` (how a file is recognised, and who opens it); ``find`` by name

``api`` imports what a row names when it is needed; flags, saved folders, the README's table, the page's menu and the
contract tests are made from the rows. A new method is a file, a row in ``methods``, a page of docs; a new format a row
in ``formats``. ``options_zh`` has the options' meaning in Chinese; the English stands in each dataclass.
"""

from __future__ import annotations

from polyseme.catalog.formats import FOLDERS, FORMATS, REFUSALS, STRANGERS
from polyseme.catalog.methods import COMPOSED, METHODS, PUBLISHED, TASKS, Format, Row
from polyseme.errors import OptionError, close_matches

__all__ = [
    "COMPOSED", "FOLDERS", "FORMATS", "METHODS", "PUBLISHED", "REFUSALS", "STRANGERS", "TASKS", "Format", "Row",
    "find", "find_task",
]  # fmt: skip


def find(name: str) -> Row:
    """The row of a method, or an error with close names."""
    for row in (*METHODS, *PUBLISHED, *COMPOSED, *TASKS):
        if row.name == name:
            return row
    hint = close_matches(name, [row.name for row in METHODS])
    raise OptionError(f"there is no method {name!r}{hint} (see polyseme methods)")


def find_task(name: str) -> Row:
    """The row of a task, or an error with the available names."""
    for row in TASKS:
        if row.name == name:
            return row
    names = [row.name for row in TASKS]
    raise OptionError(f"there is no task {name!r}{close_matches(name, names)}; there are {', '.join(names)}")
