"""Checkpoints of unfinished training: one file next to the output folder, with arrays, a JSON state and a checksum.

The file is replaced atomically, so the last checkpoint survives a kill at any moment. A damaged or edited checkpoint is
refused; a file that is not a checkpoint is never overwritten or removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from polyseme.disk.atomic import new_file
from polyseme.disk.files import parse_json
from polyseme.errors import FormatError, TrainingError
from polyseme.store import safetensors_file as tensor_file

Arrays = Mapping[str, NDArray[Any]]


@dataclass
class Snapshot:
    """The contents of a checkpoint: named arrays and a JSON-compatible state."""

    tensors: Arrays
    state: dict[str, Any]

    def fill(self, **arrays: NDArray[Any]) -> None:
        """Copy the saved arrays of these names into the given ones, which must have the same shapes."""
        for name, array in arrays.items():
            kept = self.tensors.get(name)
            if kept is None or kept.shape != array.shape:
                raise FormatError(f"the checkpoint does not match this training run ({name}): delete it to start again")
            array[...] = kept


@dataclass
class Checkpoint:
    """A checkpoint file, and the identity of the training run it belongs to (method, options, corpus)."""

    path: Path
    identity: dict[str, Any]

    def save(self, snapshot: Snapshot) -> None:
        """Write the snapshot, replacing the previous checkpoint."""
        text = json.dumps({"identity": self.identity, "state": snapshot.state})
        with new_file(self.path) as part:
            tensor_file.write_sealed(part, snapshot.tensors, {"checkpoint": text})

    def check(self, *, resume: bool) -> bool:
        """Whether there is a checkpoint. Raises if the file is something else or, on resume, is of another run."""
        content = self._read()
        if content and resume:
            self._check_identity(content[1])
        return content is not None

    def load(self) -> Snapshot | None:
        """The last snapshot, or None if there is none. Raises if it belongs to another training run."""
        content = self._read()
        if content is None:
            return None
        arrays, record = content
        self._check_identity(record)
        return Snapshot(arrays, record["state"])

    def remove(self) -> None:
        """Delete the checkpoint once training is finished."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The arrays and the record of identity and state; None if there is no file."""
        try:
            arrays, metadata = tensor_file.read_sealed(self.path)
            record = parse_json(metadata["checkpoint"].encode())
            if all(isinstance(record[name], dict) for name in ("identity", "state")):
                return arrays, record
        except FileNotFoundError:
            return None
        except FormatError as error:
            raise FormatError(f"{error}: the checkpoint is incomplete; move it away to start again") from None
        except OSError as error:
            raise FormatError(f"{self.path} is in the way of a checkpoint: {error.strerror}") from None
        except (KeyError, ValueError, TypeError):
            pass
        raise FormatError(f"{self.path} is not a training checkpoint: move it away to start again")

    def _check_identity(self, record: dict[str, Any]) -> None:
        difference = _first_difference(json.loads(json.dumps(self.identity)), record["identity"])
        if difference:
            raise TrainingError(f"{self.path} belongs to another training run ({difference}): delete it to start again")


def _first_difference(now: Any, then: Any, name: str = "") -> str:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in sorted({*now, *then}):
            difference = _first_difference(now.get(key), then.get(key), key)
            if difference:
                return difference
        return ""
    return "" if now == then else f"{name} was {then!r} and is {now!r}"
