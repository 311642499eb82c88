"""Data files to alter: text in several encodings and formats, labelled examples, parallel text."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import polyseme
from faults_jobs import World
from faults_subject import Subject, use_model
from polyseme.data.examples import Examples
from polyseme.data.parallel import Parallel
from polyseme.evaluate.kinds import evaluate_file
from polyseme.text.corpus import Corpus

LINES = ["他打了个电话。", "The cat sat on the mat, 1998.", "", "宝玉见了，便笑道：“这是什么话？”", "naïve café 𠮷"] * 8


def texts(place: Path) -> Iterator[Subject]:
    """Text files from which a corpus is built."""
    text = "\n".join(LINES)
    tagged = "\n".join("他/r 打/v 了/u 个/q 电话/n 。/w" for _ in LINES)
    records = "\n".join(json.dumps({"text": line, "id": n}, ensure_ascii=False) for n, line in enumerate(LINES))
    for name, data in (
        ("text in UTF-8", text.encode()),
        ("text in GB18030", text.encode("gb18030")),
        ("text in UTF-16", text.encode("utf-16")),
        ("text in .gz", gzip.compress(text.encode())),
        ("tagged text", tagged.encode()),
        ("text in records", records.encode()),
    ):
        yield Subject(name, _file(place, name, data), use_text)


def examples(world: World, place: Path) -> Iterator[Subject]:
    """Labelled examples of every kind, and parallel text."""
    lines = [line for line in LINES if line]
    passage = {"context": "他打了个电话。", "qas": [_question(n) for n in range(5)]}
    for name, text in (
        ("table.tsv", "label\ttext\n" + "".join(f"{n % 2}\t{line}\n" for n, line in enumerate(lines))),
        ("table.csv", "text,label\n" + "".join(f'"{line}, ""x""",{n % 3}\n' for n, line in enumerate(lines))),
        (
            "pairs.tsv",
            "text_a\ttext_b\tscore\n" + "".join(f"{line}\t{line[::-1]}\t{n % 6}\n" for n, line in enumerate(lines)),
        ),
        ("records.jsonl", "".join(json.dumps({"sentence": x, "label": len(x) % 2}) + "\n" for x in lines)),
        ("columns.conll", "我 B-PER\n爱 O\n北 B-LOC\n京 I-LOC\n\n" * 20),
        ("squad.json", json.dumps({"version": "1", "data": [{"title": "x", "paragraphs": [passage] * 5}]})),
    ):
        yield Subject(f"examples: {name}", _file(place, name, text.encode()), use_examples)
    parallel = "".join(f"{line}\t{line[::-1]}\n" for line in lines)
    yield Subject("parallel text", _file(place, "parallel.tsv", parallel.encode()), use_parallel)
    scores = "".join(f"词{n}\t词{n + 1}\t{n / 4}\n" for n in range(40))
    model = polyseme.load(world.home / "vectors")

    def use_similarity(path: Path) -> None:
        evaluate_file(model, path)

    yield Subject("similarity file", _file(place, "similarity.txt", scores.encode()), use_similarity)


def made_published(place: Path) -> Iterator[Subject]:
    """Published formats for which we have no file: written as their programs write them."""
    matrix = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    words = tuple(f"词{n}" for n in range(30))
    for protocol in (2, 4):
        name = f"Polyglot, pickle of protocol {protocol}"
        yield Subject(
            name, _file(place, f"polyglot-{protocol}.pkl", pickle.dumps((words, matrix), protocol)), use_model
        )


def _question(number: int) -> dict[str, object]:
    return {"id": str(number), "question": "谁打了电话？", "answers": [{"text": "他", "answer_start": 0}]}


def _file(place: Path, name: str, data: bytes) -> Path:
    file = place / name.replace(" ", "-")
    file.write_bytes(data)
    return file


# ---- how they are used


def use_text(path: Path) -> None:
    """Build a corpus and read from it."""
    corpus = Corpus.build(path, workers=1)
    for number in {0, len(corpus) - 1}:
        corpus.text(number)


def use_examples(path: Path) -> None:
    """Read all examples."""
    found = Examples.read(path)
    list(found)
    _ = found.facts, found.fingerprint


def use_parallel(path: Path) -> None:
    """Read all pairs."""
    list(Parallel.read(path))
