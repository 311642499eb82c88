"""Common parts of the longer benchmarks: texts, scores, records and tables.

Every training is one record in a JSON-lines file (--results), and is not repeated if its record exists; the tables in
docs/results-words.md are written from the records.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import re
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import polyseme
from polyseme.api import options_of
from polyseme.evaluate.kinds import evaluate_file
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

DATA = Path(os.environ.get("POLYSEME_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXTS = {"en": "enwiki.txt.xz", "zh": "zhwiki.txt.xz"}
SETS = {
    "en": ("EN-WS-353-ALL", "EN-SIMLEX-999", "EN-MEN-TR-3k", "EN-RG-65", "questions-words"),
    "zh": ("wordsim-240", "wordsim-297", "ca_translated", "ca8_morphological"),
}
SHORT = {
    "EN-WS-353-ALL": "WordSim-353", "EN-SIMLEX-999": "SimLex-999", "EN-MEN-TR-3k": "MEN", "EN-RG-65": "RG-65",
    "ca_translated": "CA-translated", "ca8_morphological": "CA8-morph",
}  # fmt: skip
CHARACTERS = {"en": 5.6, "zh": 1.8}  # mean length of a word, including the following blank


class Results:
    """Records of measurements, in an append-only file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []
        if path.exists():
            self.records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def find(self, **key: Any) -> dict[str, Any] | None:
        return next((r for r in self.records if r["key"] == json.loads(json.dumps(key))), None)

    def once(self, measure: Callable[[], dict[str, Any]], **key: Any) -> dict[str, Any]:
        """The record of this key, measured if there is none yet."""
        found = self.find(**key)
        if found is None:
            found = {"key": json.loads(json.dumps(key)), **measure()}
            self.records.append(found)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found, ensure_ascii=False) + "\n")
            print(json.dumps(found, ensure_ascii=False), flush=True)
        return found


def wiki(language: str, words: int, folder: Path, part: int = 0) -> Corpus:
    """About this many words of the Wikipedia sample, from its beginning or a later part; English in lower case."""
    path = folder / (f"{language}-{words}" + (f"-part-{part}" if part else ""))
    if not path.exists():
        size = int(words * CHARACTERS[language])
        with lzma.open(DATA / "corpora" / TEXTS[language], "rt", encoding="utf-8") as file:
            for _ in range(part):
                file.read(size)
            text = file.read(size)
        (folder / "text").write_text(text.lower() if language == "en" else text, encoding="utf-8")
        Corpus.build(folder / "text", path)
    return Corpus.open(path)


def novel(words: int, folder: Path) -> Corpus:
    """About this many words of 红楼梦, which has half a million."""
    path = folder / f"hongloumeng-{words}"
    if not path.exists():
        with tarfile.open(DATA / "corpora" / "classics.tar.xz") as archive:
            name = next(n for n in archive.getnames() if n.endswith("simplified/红楼梦.txt"))
            file = archive.extractfile(name)
            assert file is not None
            text = file.read().decode("utf-8")[: int(words * CHARACTERS["zh"])]
        (folder / "text").write_text(text, encoding="utf-8")
        Corpus.build(folder / "text", path)
    return Corpus.open(path)


def scores(model: WordVectors, language: str) -> dict[str, float | None]:
    """Spearman's ρ of similarities and accuracy of analogies, in per cent; None if no question could be used."""
    found: dict[str, float | None] = {}
    for name in SETS[language]:
        whole = evaluate_file(model, DATA / f"words_{language}" / f"{name}.txt").whole
        value = whole.get("spearman", whole.get("accuracy"))
        found[name] = None if value is None else round(100 * value, 1)
    return found


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the CPU seconds it took."""
    begun = time.process_time()
    result = call()
    return result, time.process_time() - begun


def train(method: str, corpus: Corpus, **options: Any) -> Any:
    """Train with one thread and seed 1, if the method has such options."""
    known = {field.name for field in dataclasses.fields(options_of(method))}
    steady = {name: 1 for name in ("threads", "seed") if name in known}
    return polyseme.train(method, corpus, **{**steady, **options})


def gensim_vectors(name: str, corpus: Corpus, seed: int, **options: Any) -> WordVectors:
    """The vectors of a gensim model, with gensim's defaults for options not given."""
    from gensim import models

    model = getattr(models, name)(list(corpus), workers=1, seed=seed, **options)
    counts = [model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key]
    return WordVectors(Vocabulary(model.wv.index_to_key, np.array(counts)), model.wv.vectors)


def names(language: str) -> list[str]:
    return [SHORT.get(name, name) for name in SETS[language]]


def shown(found: dict[str, float | None], language: str) -> list[str]:
    return ["–" if found[name] is None else f"{found[name]:.1f}" for name in SETS[language]]


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written_rows(name: str, file: str) -> dict[str, list[str]]:
    """The rows of a table that is in a document already, by their first cell."""
    section = (DOCS / file).read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")[2].partition("<!-- /")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line]
    return {row[0]: row for row in rows}


def write_section(name: str, text: str, file: str = "results-words.md") -> None:
    """Put a table between its two marks in a document."""
    path = DOCS / file
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    old = path.read_text(encoding="utf-8")
    assert {begin.strip(), end} <= set(old.splitlines()), f"{path} has no place for {name}"
    path.write_text(re.sub(f"{begin}.*?{end}", lambda _: begin + text + end, old, flags=re.DOTALL), encoding="utf-8")
    print(text, flush=True)
