"""The base class of all models: saving, and restoring from the saved parts.

The model card: what a model is, how it was made, how to use it. Written into every model folder as README.md.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polyseme import catalog
from polyseme.catalog import Row
from polyseme.disk.mapped import Watch
from polyseme.display import facts_table, plain
from polyseme.interfaces import Sentence, tokens_given
from polyseme.options import changed_options, options_to_json
from polyseme.store.folder import Contents, Parts, content_fingerprint, write_folder
from polyseme.text.segment import Segmentation

if TYPE_CHECKING:
    from typing_extensions import Self

_CALLS = {
    "words": 'wv = polyseme.load("{path}")\nwv.most_similar("word", topn=10)',
    "contexts": 'encoder = polyseme.load("{path}")\nfor sentence in encoder.encode_tokens(["A sentence."]):\n'
    "    sentence.tokens, sentence.layers.shape",
    "sentences": 'encoder = polyseme.load("{path}")\nencoder.encode(["A text."])',
    "tasks": 'model = polyseme.load("{path}")\nmodel.predict(["A text."])',
}


def model_card(row: Row, options: Any, manifest: dict[str, Any], made_of: Mapping[str, str]) -> str:
    """The card in Markdown; ``made_of`` maps the folders of inner models to their methods."""
    facts = "\n".join(f"- {name}: {_plain(value)}" for name, value in manifest["corpus"].items())
    rows = "\n".join(
        f"| {f.name} | {_plain(getattr(options, f.name))} | {f.metadata.get('help', '')} |"
        for f in dataclasses.fields(options)
    )
    listed = "".join(f"- [{name}]({name}/README.md): {method}\n" for name, method in made_of.items())
    below = f"## Made of\n\n{listed}\n" if listed else ""
    call = _CALLS[row.kind].format(path="path/to/this/folder")
    return (
        f"# {row.name} {row.chinese}\n\n{row.paper} ({row.year})\n\n"
        f"## Use\n\n```python\nimport polyseme\n\n{call}\n```\n\n"
        f"## Text\n\n{facts or '- not known'}\n- segmentation: {_plain(manifest['segmentation'])}\n\n"
        f"{below}"
        f"## Options\n\n| option | value | meaning |\n|---|---|---|\n{rows}\n"
    )


def _plain(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    )


@dataclass
class About:
    """How a model was made: its text, segmentation and training."""

    segmentation: Segmentation | None = None  # None: unknown, raw strings are segmented by script
    corpus: dict[str, Any] = field(default_factory=dict)
    curve: list[dict[str, Any]] = field(default_factory=list)
    recipe: str = ""  # checksum of method, options and data: a model with the same recipe may replace this one
    fingerprint: str = ""  # checksum of the description that the model was opened with; "" if it was not opened

    @classmethod
    def of(cls, part: Any) -> About:
        """The segmentation and corpus facts of an inner model, for a composed model that segments text like it."""
        known = getattr(part, "about", None) or cls()
        return cls(known.segmentation, known.corpus)


class Model(ABC):
    """A model of the catalog, trained, composed or loaded."""

    method: ClassVar[str]
    Options: ClassVar[type]
    computes_with: ClassVar[str] = ""  # a package that it imports only when it computes, if that is optional
    options: Any
    about: About
    watch: Watch = Watch()  # over the files that the model was opened from

    @abstractmethod
    def parts(self) -> Parts:
        """The arrays, tables, files and models from which ``from_parts`` restores the model."""

    @classmethod
    @abstractmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        """Restore a model from its ``parts``. Raises FormatError if an array is missing or has the wrong shape."""

    def tokenize(self, text: str) -> list[str]:
        """Segment raw text like the model's training text, or by script if that is not known."""
        return self.segmentation.tokens(text)

    def tokenize_all(self, texts: Sequence[Sentence]) -> list[list[str]]:
        """The tokens of each text. Raw texts are segmented together, for speed; token lists are kept as they are."""
        raw = iter(self.segmentation.token_lists([text for text in texts if isinstance(text, str)]))
        return [next(raw) if isinstance(text, str) else tokens_given(text) for text in texts]

    @property
    def segmentation(self) -> Segmentation:
        """How raw text is segmented for this model."""
        return self.about.segmentation or Segmentation()

    def size(self) -> dict[str, int]:
        """The number of words or layers, if the model has any, and the dimension of its vectors."""
        names = {"layers": "n_layers", "dim": "vector_size" if hasattr(self, "vector_size") else "dim"}
        words = {"words": len(self.index_to_key)} if hasattr(self, "index_to_key") else {}
        return {**words, **{name: getattr(self, known) for name, known in names.items() if hasattr(self, known)}}

    def __repr__(self) -> str:
        tokens = self.about.corpus.get("tokens")
        size = [f"{name} {plain(value)}" for name, value in self.size().items()]
        facts = [*size, *([f"trained on {plain(tokens)} tokens"] if tokens else [])]
        return f"{type(self).__name__}({self.method}: {', '.join(facts)})" if facts else f"{type(self).__name__}()"

    def _repr_html_(self) -> str:
        row = catalog.find(self.method)
        changed = {name: value for name, value in changed_options(self.options).items() if name not in self.size()}
        last = {"last_report": self.about.curve[-1]} if self.about.curve else {}
        text = {
            "corpus": self.about.corpus,
            "segmentation": self.segmentation.method if self.about.segmentation else "",
        }
        return facts_table(f"{row.name} {row.chinese}", {**self.size(), **changed, **text, **last})

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write a model folder atomically.

        Another model, corpus or index at ``path`` is replaced only with ``force``; any other folder is never replaced.
        """
        write_folder(path, self.contents(), force=force)

    # What is saved also travels to other processes and into copies; locks, packed layers and maps are made again there.

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.options, self.parts(), self.about)

    def __copy__(self) -> Self:
        """Another object of the same weights."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def revision(self) -> str:
        """A hash of what the model consists of: equal for equal models, wherever they come from."""
        return content_fingerprint(self)

    def contents(self) -> Contents:
        """The contents of the model's folder, with inner models in subfolders."""
        row = catalog.find(self.method)
        segmentation = self.about.segmentation.to_json() if self.about.segmentation else None
        manifest = {
            "method": row.name,
            "kind": row.kind,
            "options": options_to_json(self.options),
            "segmentation": segmentation,
            "corpus": self.about.corpus,
            **({"recipe": self.about.recipe} if self.about.recipe else {}),
        }
        parts = self.parts()
        models = {name: model.contents() for name, model in parts.models.items()}
        made_of = {name: below.manifest["method"] for name, below in models.items()}
        return Contents(manifest, parts, models, self.about.curve, model_card(row, self.options, manifest, made_of))


def _restored(cls: type[Model], options: Any, parts: Parts, about: About) -> Model:
    """The model of these parts, in the process or for the copy that they were taken to."""
    return cls.from_parts(options, parts, about)
