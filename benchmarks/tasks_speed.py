"""The speed part of benchmarks/tasks.py: an epoch of TextCNN, and our fastText classifier against the original."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fasttext
import numpy as np

from polyseme.api import plan_fit
from polyseme.data.examples import Examples
from polyseme.learn.metrics import classification
from polyseme.training.run import Run
from polyseme.words.fasttext_classifier import LABEL, FastTextClassifier, SupervisedOptions, train_supervised
from tasks_sets import SETS
from words_records import Results, table, timed

FEW, MANY = 4, 12  # epochs: their difference excludes reading, numbering and compiling
TURNS = 3
COMPARED = ("ChnSentiCorp", "SUBJ")


def measure_speed(results: Results) -> None:
    """Measure what has no record yet."""
    results.once(textcnn_epoch, speed="textcnn")
    for name in COMPARED:
        results.once(lambda name=name: classifier_speed(name), speed="fasttext", set=name)


def speed_tables(results: Results) -> str:
    """Both tables, from the existing records."""
    text = ""
    if epoch := results.find(speed="textcnn"):
        text += (
            f"A TextCNN epoch over the {epoch['texts']:,} texts of ChnSentiCorp, one thread, dev scored at its end: "
            f"**{epoch['seconds']:.1f} CPU-seconds**.\n"
        )
    rows = [
        [r["key"]["set"], *(f"{r[who]:,.0f}" for who in ("ours", "theirs")), f"{r['ours'] / r['theirs']:.1f}×",
         *(f"{r[who]:.1f}" for who in ("our accuracy", "their accuracy"))]
        for r in (results.find(speed="fasttext", set=name) for name in COMPARED) if r
    ]  # fmt: skip
    if rows:
        header = ["", "head fasttext", "fasttext", "ratio", "accuracy", "fasttext's"]
        text += (
            "\nWords (and ends of texts) per CPU-second, one thread, d = 100, n-grams of two words, softmax; accuracy "
            f"after {MANY} epochs:\n\n{table(header, rows)}"
        )
    return text


def textcnn_epoch() -> dict[str, Any]:
    """CPU seconds of one epoch: those of two epochs minus those of one."""
    train, dev = SETS["ChnSentiCorp"].parts()

    def fit(epochs: int) -> float:
        plan = plan_fit("classify", train, dev, head="textcnn", epochs=epochs, threads=1)
        return timed(lambda: plan.fit(Run()))[1]

    fit(1)  # compiles
    return {"texts": len(train), "seconds": round(fit(2) - fit(1), 1)}


def classifier_speed(name: str) -> dict[str, Any]:
    """Words per CPU-second and accuracy of ours and fastText's, measured in turn."""
    train, test = SETS[name].parts()
    if test is None:
        train, test = next(iter(train.folds(10, 1)))
    texts, gold = _cut(train)
    asked, right = _cut(test)
    words = sum(map(len, texts)) + len(texts)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.txt"
        lines = [f"{LABEL}{label} {' '.join(tokens)}\n" for tokens, label in zip(texts, gold, strict=True)]
        file.write_text(
            "".join(lines[place] for place in np.random.default_rng(1).permutation(len(lines))), encoding="utf-8"
        )
        options = {"dim": 100, "lr": 0.5, "minn": 0, "maxn": 0}

        def ours(epochs: int) -> Any:
            mine = SupervisedOptions(**options, epochs=epochs, word_ngrams=2, buckets=2_000_000)  # type: ignore[arg-type]
            return train_supervised(texts, gold, mine, Run())

        def theirs(epochs: int) -> Any:
            return fasttext.train_supervised(
                str(file), **options, epoch=epochs, wordNgrams=2, bucket=2_000_000, thread=1, verbose=0
            )

        ours(1)  # compiles
        speeds = [[_speed(who, words) for who in (ours, theirs)] for _ in range(TURNS)]
        mine, other = FastTextClassifier(ours(MANY)), theirs(MANY)
        predicted = [mine.labels[place] for place in mine.probabilities(asked).argmax(axis=1)]
        said = [other.predict(" ".join(tokens))[0][0].removeprefix(LABEL) for tokens in asked]
    best = [max(turn[who] for turn in speeds) for who in (0, 1)]
    return {
        "ours": round(best[0]), "theirs": round(best[1]),
        "our accuracy": round(100 * classification(right, predicted)["accuracy"], 2),
        "their accuracy": round(100 * classification(right, said)["accuracy"], 2),
    }  # fmt: skip


def _speed(train: Callable[[int], Any], words: int) -> float:
    few, many = (timed(lambda epochs=epochs: train(epochs))[1] for epochs in (FEW, MANY))
    return words * (MANY - FEW) / (many - few)


def _cut(examples: Examples) -> tuple[list[list[str]], list[str]]:
    rows: Any = examples
    return examples.segmentation.token_lists([row.text for row in rows]), [row.label for row in rows]
