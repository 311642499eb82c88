"""An index being built: ``<out>.checkpoint``, a folder with the arrays that are being filled and a sealed state.

The state, ``building.json``, is there from the first moment. It says what the index is made of, how many sentences are
done, and the checksum of what was written for them, in the order of the text; it has a checksum of its own. So what was
damaged meanwhile is refused when the work continues, and a folder that somebody else put there is never touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.disk.atomic import rewrite
from polyseme.disk.description import checksum
from polyseme.disk.files import parse_json, read_small
from polyseme.disk.ownership import Standing, standing
from polyseme.errors import FormatError
from polyseme.search.occurrences import index_folder

STATE = "building.json"
PROJECTIONS = "projections.safetensors"
_NAMES = re.compile(
    rf"\.?({re.escape(STATE)}|{re.escape(PROJECTIONS)}|{re.escape(index_folder.TABLES)}|{re.escape(index_folder.MARKER)})"
    r"|tokens\.npy|codes\.\d+\.npy|cells\.npy|\.assigned\.npy"
)


@dataclass
class Sums:
    """Checksums of the codes and places written so far, in the order of the text."""

    digests: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Some more."""
        self.digests.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(array).data)

    def to_json(self) -> dict[str, str]:
        """What the state keeps."""
        return {name: digest.hexdigest() for name, digest in self.digests.items()}


@dataclass(frozen=True)
class State:
    """How far an index being built is."""

    identity: dict[str, Any]
    sentences: int
    sums: dict[str, str]

    def write(self, folder: Path) -> None:
        """Replace what was there."""
        record = {"identity": self.identity, "sentences": self.sentences, "sums": self.sums}
        rewrite(folder / STATE, json.dumps({**record, "checksum": checksum(record)}).encode())


def find(part: Path) -> State | Standing | None:
    """The state of the unfinished index at ``part``; an index that only lacks its name; None if nothing is.

    Whatever else is there is a FormatError: it may be somebody's own.
    """
    if not os.path.lexists(part):
        return None
    try:
        names = os.listdir(part)
        if any((part / name).is_symlink() for name in names):  # none is ours
            raise FormatError(f"{part} was altered")
        if STATE in names and all(_NAMES.fullmatch(name) for name in names):
            state = _state(part / STATE)
            if PROJECTIONS in names:
                return state
            (part / STATE).unlink()  # which is the last that goes when an index is finished
        there = standing(part)
    except (FormatError, OSError):
        raise FormatError(f"{part} is in the way: not an unfinished index, or altered; move it away") from None
    if there is None:
        os.rmdir(part)
    return there


def _state(file: Path) -> State:
    try:
        record = parse_json(read_small(file))
        seal = record.pop("checksum")
        if seal == checksum(record):
            return State(record["identity"], int(record["sentences"]), dict(record["sums"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise FormatError(f"{file} was altered")
