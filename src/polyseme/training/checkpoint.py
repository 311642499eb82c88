"""Unfinished training, in one file beside the model to come: arrays, and a JSON state.

The file is replaced whole, so a kill at any moment leaves the last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from polyseme.disk.atomic import new_file
from polyseme.errors import FormatError, TrainingError
from polyseme.store import tensors as tensor_file


@dataclass
class Snapshot:
    """What a checkpoint holds."""

    tensors: Mapping[str, NDArray[Any]]
    state: dict[str, Any]


@dataclass
class Checkpoint:
    """The file, and the identity of the training it belongs to (method, options, corpus)."""

    path: Path
    identity: dict[str, Any]

    def save(self, snapshot: Snapshot) -> None:
        """Replace what was there."""
        text = json.dumps({"identity": self.identity, "state": snapshot.state}, ensure_ascii=False)
        with new_file(self.path) as part:
            tensor_file.write(part, snapshot.tensors, {"checkpoint": text})

    def load(self) -> Snapshot | None:
        """The last snapshot; None where there is none. One of another training is refused."""
        if not self.path.exists():
            return None
        arrays, metadata = tensor_file.read_with_metadata(self.path)
        try:
            record = json.loads(metadata["checkpoint"])
            identity, state = record["identity"], record["state"]
        except (KeyError, ValueError, TypeError):
            raise FormatError(f"{self.path} is not a checkpoint: delete it to start anew") from None
        difference = _first_difference(json.loads(json.dumps(self.identity)), identity)
        if difference:
            raise TrainingError(f"{self.path} belongs to another training ({difference}): delete it to start anew")
        return Snapshot(arrays, state)

    def remove(self) -> None:
        """The training is finished."""
        self.path.unlink(missing_ok=True)


def _first_difference(now: Any, then: Any, name: str = "") -> str:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in sorted({*now, *then}):
            found = _first_difference(now.get(key), then.get(key), key)
            if found:
                return found
        return ""
    return "" if now == then else f"{name} was {then!r} and is {now!r}"
