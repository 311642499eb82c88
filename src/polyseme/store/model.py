"""What every trained or loaded model can do: be trained, saved and opened again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polyseme import catalog
from polyseme.errors import FormatError, OptionError
from polyseme.options import make_options, options_to_json
from polyseme.store.card import model_card
from polyseme.store.checkpoint import Checkpoint, Snapshot
from polyseme.store.folder import MARKER, MODEL, Parts, read_curve, read_parts, write_folder
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.types import Progress, silent

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class Run:
    """How a training is carried out: all that is not an option of the method."""

    checkpoint: Checkpoint | None = None
    resume: bool = False
    start: Model | None = None  # go on from this model, perhaps on another corpus
    progress: Progress = silent
    curve: list[dict[str, Any]] = field(default_factory=list)  # becomes training.jsonl

    def resumed(self) -> Snapshot | None:
        """The snapshot to go on from, its curve restored; None where training starts at the beginning."""
        snapshot = self.checkpoint.load() if self.checkpoint and self.resume else None
        if snapshot:
            self.curve[:] = snapshot.state.get("curve", [])
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        """Keep a checkpoint, the curve with it, where checkpoints are kept."""
        if self.checkpoint:
            snapshot.state["curve"] = self.curve
            self.checkpoint.save(snapshot)


@dataclass
class About:
    """What a model remembers of its making."""

    segmentation: Segmentation | None = None  # None: not known, raw strings are segmented by script
    corpus: dict[str, Any] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)


class Model(ABC):
    """A trained or loaded model of the catalog."""

    method: ClassVar[str]
    Options: ClassVar[type]
    options: Any
    about: About

    @classmethod
    @abstractmethod
    def train(cls, corpus: Corpus, options: Any, run: Run) -> Self:
        """Learn from a corpus."""

    @abstractmethod
    def parts(self) -> Parts:
        """The arrays and tables that ``from_parts`` makes the same model of."""

    @classmethod
    @abstractmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        """The model that ``parts`` came from. A missing or misshapen array is a FormatError."""

    def save(self, path: str | Path) -> None:
        """Write a model folder, whole or not at all."""
        row = catalog.find(self.method)
        segmentation = self.about.segmentation.to_json() if self.about.segmentation else None
        manifest = {
            "method": row.name,
            "kind": row.kind,
            "options": options_to_json(self.options),
            "segmentation": segmentation,
            "corpus": self.about.corpus,
        }
        card = model_card(row, self.options, manifest)
        write_folder(path, manifest, self.parts(), curve=self.about.curve, card=card)


def open_folder(path: str | Path) -> Model:
    """The model in a folder of ours."""
    manifest = MODEL.read(path)
    try:
        cls: type[Model] = catalog.find(manifest["method"]).load_class()
        options: Any = make_options(cls.Options, manifest["options"])
    except OptionError as error:
        raise FormatError(f"{path} was altered or made by another polyseme: {error}") from None
    parts = read_parts(path, manifest)
    segmentation = manifest.get("segmentation")
    about = About(
        segmentation=Segmentation.from_json(segmentation, where=Path(path) / MARKER) if segmentation else None,
        corpus=manifest.get("corpus") or {},
        curve=read_curve(path),
    )
    return cls.from_parts(options, parts, about)
