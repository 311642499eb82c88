"""Tiny random Transformers in folders, for the tests of this package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny_transformers import save_tiny

from polyseme.text.corpus import Corpus


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> Callable[[str], Path]:
    """A function that returns the folder of an architecture, saved once by transformers."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = save_tiny(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder


@pytest.fixture(scope="module")
def corpus(fifty_lines) -> Corpus:
    """Fifty lines of text."""
    return Corpus.from_sentences(fifty_lines)
