"""Modules under the names that older programs import, as the docs printed them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
    "polyseme.nouns": "polyseme.interfaces",
    "polyseme.linear": "polyseme.arrays",
    "polyseme.neural.mix": "polyseme.neural.layers",
    "polyseme.search.agreement": "polyseme.evaluate.tag_agreement",
    "polyseme.search.build": "polyseme.search.occurrences.build",
    "polyseme.search.concordances": "polyseme.search.kwic.concordance",
    "polyseme.search.index": "polyseme.search.occurrences.index",
    "polyseme.search.listing": "polyseme.search.occurrences.uses",
    "polyseme.tasks.metrics": "polyseme.learn.metrics",
    "polyseme.text.examples": "polyseme.data.examples",
    "polyseme.text.parallel": "polyseme.data.parallel",
    "polyseme.words.files.published": "polyseme.words.files.models",
}


class OldNames(MetaPathFinder, Loader):
    """Finds a module under its former name; it stands last among the finders and so costs nothing elsewhere."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """A module that looks every name up in the one that holds it now."""
        module = ModuleType(spec.name)
        vars(module)["__getattr__"] = lambda name: getattr(import_module(MODULES[spec.name]), name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to execute."""


def install() -> None:
    """Let Python find the former names."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())
