"""What the server holds: models, indexes and corpora, each under a short name. Clients say names, never paths."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyseme import catalog
from polyseme.api import load, recognise
from polyseme.disk.mapped import Watch, watching
from polyseme.errors import FileChanged, FormatError, MissingExtra, OptionError, PolysemeError, close_matches
from polyseme.facts import explained_options
from polyseme.interfaces import ContextEncoder, SentenceEncoder
from polyseme.search import Index, TextIndex
from polyseme.search.occurrences.splits import example_words, frequent_words, split_words
from polyseme.sentences.lift import lift
from polyseme.store.model import Model
from polyseme.text.corpus import Corpus
from polyseme.text.tagged import named_tags
from polyseme.words.files.models import PublishedFastText
from polyseme.words.vectors import WordVectors

if TYPE_CHECKING:
    from polyseme.tasks.model import TaskModel

log = logging.getLogger(__name__)


class UnknownName(PolysemeError):
    """No model, index or corpus of that name is loaded."""


class TakenOut(PolysemeError):
    """What had that name was changed on disk, and is not served any more."""


@dataclass
class Item:
    """One thing that was opened."""

    name: str
    kind: str  # words | contexts | sentences | task | index | corpus | texts
    path: str  # as it was given, to be shown in the calls a person can copy
    thing: Any
    facts: dict[str, Any] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)  # over the files it was opened from, of which private copies are read
    changed: bool = False

    def summary(self) -> dict[str, Any]:
        """What lists show of it."""
        changed = {"changed": True} if self.is_changed() else {}
        return {"name": self.name, "kind": self.kind, "path": self.path, **self.facts, **changed}

    def is_changed(self) -> bool:
        """Whether its files were changed since; the log says once which one was."""
        if not self.changed:
            try:
                self.watch.check()
            except FileChanged as error:
                log.error("%s is not served any more: %s", self.name, error)
                self.changed = True
        return self.changed


class Library:
    """The items by name, in the order in which they were given."""

    def __init__(self, items: Iterable[Item] = (), as_texts: Callable[[Any], SentenceEncoder] | None = None) -> None:
        """``as_texts`` makes a sentence encoder of any model; default: by the mean over its words."""
        self.as_texts: Callable[[Any], SentenceEncoder] = as_texts or (lambda model: lift(model, "sentences"))
        self.items: dict[str, Item] = {}
        for item in items:
            self._shelve(item)

    @classmethod
    def open(cls, paths: Iterable[str | Path], as_texts: Callable[[Any], SentenceEncoder] | None = None) -> Library:
        """Open everything; what cannot be opened is an error that names it.

        Private copies of the files are read: nobody can change what is being answered from, or end the process by it.
        """
        library = cls((_opened(str(path)) for path in paths), as_texts)
        library.share_models()
        library.load_encoders()
        return library

    def share_models(self) -> None:
        """Let an index use the model it was made with, where that is loaded too, instead of loading it again."""
        loaded = {os.path.realpath(i.path): i.thing for i in self.items.values() if i.kind == "contexts"}
        for item in self.items.values():
            if loaded and item.kind == "index":
                with suppress(FormatError):  # told by load_encoders
                    encoder = loaded.get(os.path.realpath(item.thing.model_path()))
                    if encoder is not None:
                        item.thing.use(encoder)

    def load_encoders(self) -> None:
        """Load the models of the indexes now: later another one may have taken their place."""
        for item in self.items.values():
            if item.kind == "index":
                try:
                    with watching(private=True) as watch:
                        _ = item.thing.encoder
                    item.watch.also(watch)
                except (FormatError, MissingExtra) as error:  # the corpus can be searched all the same
                    log.warning("%s", error)

    def hide_paths(self) -> None:
        """Show names in their place: to people on other machines they say nothing, or too much."""
        for item in self.items.values():
            item.path = item.name

    def find(self, name: str, *kinds: str) -> Any:
        """The thing of that name and of one of the kinds."""
        item = self.items.get(name)
        if item is None:
            raise UnknownName(f"nothing is loaded under the name {name!r}{close_matches(name, self.items)}")
        if kinds and item.kind not in kinds:
            raise OptionError(f"{name!r} is of kind {item.kind}; this takes {' or '.join(kinds)}")
        if item.is_changed():
            raise TakenOut(f"{name!r} was changed on disk and is not served any more: start the server again")
        return item.thing

    def corpus(self, name: str) -> Corpus:
        """A corpus of that name, or the one under an index of that name."""
        thing = self.find(name, "corpus", "index")
        return thing if isinstance(thing, Corpus) else thing.corpus

    def is_tagged(self, name: str) -> bool:
        """Whether it is a corpus with tags, or an index of one."""
        return self.items[name].kind in ("corpus", "index") and self.corpus(name).tags is not None

    def _shelve(self, item: Item) -> None:
        name, number = item.name, 2
        while item.name in self.items:
            item.name, number = f"{name}-{number}", number + 1
        self.items[item.name] = item


def _opened(path: str) -> Item:
    with watching(private=True) as watch:
        item = _item(path)
    item.watch = watch
    return item


def _item(path: str) -> Item:
    name = Path(path).resolve().name
    form = recognise(path)
    if form == "index":
        return index_item(name, path, Index.open(path))
    if form == "texts":
        return texts_item(name, path, TextIndex.open(path))
    if form == "corpus":
        return corpus_item(name, path, Corpus.open(path))
    return model_item(name, path, load(path))


def corpus_item(name: str, path: str, corpus: Corpus) -> Item:
    """A corpus as an item."""
    examples = {"examples": frequent_words(corpus.vocabulary.words)}
    return Item(
        name, "corpus", path, corpus, {**_plain(corpus.facts), **examples, **_text(corpus.facts), **_tags(corpus)}
    )


def _text(facts: dict[str, Any]) -> dict[str, Any]:
    """The size of the text, by which the page finds models that were trained on the same."""
    return {"text": {name: facts[name] for name in ("tokens", "sentences", "documents", "words") if name in facts}}


def _tags(corpus: Corpus) -> dict[str, Any]:
    """Whether it has tags, and what those of known tag sets stand for, in English and Chinese."""
    return {"tagged": corpus.tags is not None, "tags": named_tags(corpus.tag_names)}


def index_item(name: str, path: str, index: Index) -> Item:
    """An index as an item, with words worth looking at first."""
    facts = {"occurrences": len(index), "words": len(index.words), **_plain(index.facts)}
    facts = {key: value for key, value in facts.items() if not key.startswith("n_")}  # said already
    facts |= {"layers": sorted(index.layers), "layer": index.layers[0], "examples": example_words(index)}
    facts |= {"splits": split_words(index), **_text(index.corpus.facts), **_tags(index.corpus)}
    return Item(name, "index", path, index, facts)


def texts_item(name: str, path: str, index: TextIndex) -> Item:
    """A text index as an item; the model it is asked with is another."""
    return Item(name, "texts", path, index, {"texts": len(index), "dim": index.facts["dim"]})


def model_item(name: str, path: str, model: Any) -> Item:
    """A model as an item."""
    facts: dict[str, Any] = {"method": getattr(model, "method", ""), "curve": bool(_curve(model))}
    row = _row(facts["method"])
    facts["chinese"] = row.chinese if row else ""
    if row in catalog.TASKS:
        return Item(name, "task", path, model, facts | _task_facts(model))
    about = getattr(model, "about", None)
    facts |= _text(about.corpus if about else {})
    if isinstance(model, WordVectors):
        if isinstance(model, PublishedFastText) and model.is_classifier:
            facts |= _task_facts(task_of(model))
        facts |= {"dim": model.vector_size, "words": len(model), "examples": frequent_words(model.index_to_key)}
        return Item(name, "words", path, model, facts)
    if isinstance(model, ContextEncoder):
        shown = {"attention": hasattr(model, "attention")}
        return Item(name, "contexts", path, model, {**facts, "dim": model.dim, "layers": model.n_layers, **shown})
    if isinstance(model, SentenceEncoder):
        return Item(name, "sentences", path, model, {**facts, "dim": model.dim})
    raise OptionError(f"{path} is not something that can be served")


def task_of(model: Model) -> TaskModel:
    """The model as a task's, whose room imports torch: a library of words does without."""
    from polyseme.tasks.fit import as_task

    return as_task(model)


def _task_facts(model: TaskModel) -> dict[str, Any]:
    """What a model predicts; its labels where there are some."""
    labels = {"labels": model.labels} if model.labels else {}
    return {"task": model.method, "head": model.options.head, "attends": model.attends, **labels}


def model_card(item: Item) -> dict[str, Any]:
    """What the page shows of a model: where it comes from, its options with their meaning, its text."""
    card = item.summary()
    row = _row(card.get("method", ""))
    card["paper"] = "" if row is None else row.paper if item.kind == "task" else f"{row.paper} ({row.year})"
    card["options"] = explained_options(item.thing)
    about = getattr(item.thing, "about", None)
    card["corpus"] = _plain(about.corpus) if about else {}
    card["segmentation"] = about.segmentation.to_json() if about and about.segmentation else None
    return card


def _row(method: str) -> catalog.Row | None:
    return next((row for row in (*catalog.METHODS, *catalog.PUBLISHED, *catalog.TASKS) if row.name == method), None)


def training_curve(item: Item) -> list[dict[str, Any]]:
    """The records of the training, as they were written."""
    return _curve(item.thing)


def _curve(model: Any) -> list[dict[str, Any]]:
    about = getattr(model, "about", None)
    return [record for record in about.curve if isinstance(record, dict)] if about else []


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that fit a line: numbers, words and short lists of them."""
    return {str(name): value for name, value in facts.items() if isinstance(value, str | int | float | bool | list)}
