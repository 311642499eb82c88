"""The fields of a row of the catalog."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One method."""

    name: str
    chinese: str
    kind: str  # words | contexts | sentences | tasks
    learns_from: tuple[str, ...]  # kinds of data (text/data.py), any of them; "name=kind": several, by name
    where: str  # "module:Class"
    options: str  # the same of its options, found without importing what the method computes with
    year: int
    paper: str


class Format(NamedTuple):
    """One published format."""

    name: str
    tells: str  # "module:function", of a path and a file's first bytes: is it this?
    opens: str  # "module:function", of a path: the model
    inside: tuple[str, ...] = ()  # of STRANGERS, what its files may begin as
    needs_others: bool = False  # whether ``opens`` is also given ``load``, for models that are next to it
