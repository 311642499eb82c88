"""Readers during writes, and two writers of one output, for every kind of folder.

A writer replaces a folder by other versions as fast as it can. A reader must get one complete version: every part of it
contains the same number. If two commands write the same output at once, one or both succeed, one after the other, and
the result is complete; a command that is rejected must say so in one line.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import polyseme
from faults_common import Tally, command, digest, in_child
from faults_jobs import Job, World
from polyseme.contexts.static import StaticEncoder
from polyseme.disk.atomic import new_files, of_one_version
from polyseme.errors import PolysemeError
from polyseme.search import Index, build_index
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

VERSIONS = 7


def campaign(world: World, *, reads: int, rounds: int) -> list[Tally]:
    """Try ``reads`` reads in total, and ``rounds`` rounds of two writers for each command."""
    place = world.home / "read"
    place.mkdir(exist_ok=True)
    tallies = [_beside_a_writer(name, place, world, -(-reads // len(KINDS))) for name in KINDS]
    return [*tallies, _two_writers(world, rounds)]


# ---- readers


def _vectors(number: int) -> WordVectors:
    words = Vocabulary([f"{number}.{place}" for place in range(50)], np.arange(50, 0, -1))
    return WordVectors(words, np.full((50, 8), number, np.float32))


def _numbers_in(model: Any) -> set[int]:
    """Every version number found in a model and its parts."""
    parts = model.parts()
    found = {int(word.split(".")[0]) for words in parts.tables.values() for word in words}
    found |= {int(n) for n in np.unique(parts.tensors.get("vectors", np.empty(0)))}
    return found.union(*(_numbers_in(inner) for inner in parts.models.values()))


def _write_corpus(path: Path, number: int, world: World) -> None:
    sentences = [[f"{number}.{place % 40}", f"{number}."] for place in range(300)]
    Corpus.from_sentences(sentences, path, segment="space", force=True)


def _numbers_in_corpus(path: Path, world: World) -> set[int]:
    corpus = Corpus.open(path)
    found = {int(word.split(".")[0]) for word in corpus.all_words}
    found |= {int(corpus.text(place).split(".")[0]) for place in (0, len(corpus) // 2, len(corpus) - 1)}
    return found | {int(word.split(".")[0]) for place in (0, 150, 299) for word in corpus.sentence(place)}


def _write_index(path: Path, number: int, world: World) -> None:
    options = {
        "dim": 2 + number,
        "cells_from": 50 if number % 2 else 10**9,
        "precision": ("int8", "float16")[number % 2],
    }
    build_index(world.home / "static", world.home / "corpus", path, force=True, **options)


def _numbers_in_index(path: Path, world: World) -> set[int]:
    index = Index.open(path)
    word = index.words.words[0]
    index.same_sense([word], word=word)
    index.same_sense([word], word=word, any_word=True)
    return {index.facts["dim"] - 2, index.vectors(slice(0, 5)).shape[1] - 2}


def _numbers_served(path: Path) -> set[int]:
    """The version numbers in the answers of a server started now."""
    from starlette.testclient import TestClient

    from polyseme.serve.app import create_app
    from polyseme.serve.library import Library

    library = Library.open([path])
    name, model = path.name, library.items[path.name].thing
    client = TestClient(create_app(library), base_url="http://127.0.0.1")
    words = client.get("/api/words", params={"model": name, "limit": 50}).json()["words"]
    vectors = client.post("/api/encode/texts", json={"model": name, "texts": [model.index_to_key[0]]}).json()["vectors"]
    return {int(word["word"].split(".")[0]) for word in words} | {round(number) for number in vectors[0]}


def _write_pair(path: Path, number: int, world: World) -> None:
    with new_files(path, path.with_name(f"{path.name}.more"), force=True) as parts:
        for part in parts:
            part.write_text(str(number))


def _numbers_in_pair(path: Path, world: World) -> set[int]:
    both = [path, path.with_name(f"{path.name}.more")]
    return of_one_version(both, lambda: {int(each.read_text()) for each in both})


Write = Callable[[Path, int, World], None]
Read = Callable[[Path, World], set[int]]
KINDS: dict[str, tuple[Write, Read]] = {
    "model": (
        lambda path, number, _: _vectors(number).save(path, force=True),
        lambda path, _: _numbers_in(polyseme.load(path)),
    ),
    "composed model": (
        lambda path, number, _: StaticEncoder(_vectors(number)).save(path, force=True),
        lambda path, _: _numbers_in(polyseme.load(path)),
    ),
    "corpus": (_write_corpus, _numbers_in_corpus),
    "index": (_write_index, _numbers_in_index),
    "served model": (
        lambda path, number, _: _vectors(number).save(path, force=True),
        lambda path, _: _numbers_served(path),
    ),
    "pair of files": (_write_pair, _numbers_in_pair),
}


def _beside_a_writer(kind: str, place: Path, world: World, reads: int) -> Tally:
    write, read = KINDS[kind]
    tally = Tally(f"reads beside a writer: {kind}")
    path = place / kind.replace(" ", "-")
    write(path, 1, world)
    writer = os.fork()
    if not writer:
        _write_for_ever(write, path, world)
    seen: set[int] = set()
    try:
        end = time.monotonic() + 60  # wait for the writer's first write
        while tally.tried < reads or (len(seen) < 2 and time.monotonic() < end):
            tally.tried += 1
            try:
                found = read(path, world)
            except PolysemeError as error:
                tally.check(False, str(error))
                continue
            tally.check(len(found) == 1, f"mixed: {found}")
            seen |= found
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    tally.facts["versions seen"] = len(seen)
    tally.check(len(seen) > 1, "the writer never came to write")
    return tally


def _write_for_ever(write: Write, path: Path, world: World) -> None:
    number = 1
    try:
        while True:
            number = number % VERSIONS + 1
            write(path, number, world)
    finally:
        os._exit(70)


# ---- writers


def _two_writers(world: World, rounds: int) -> Tally:
    tally = Tally("two writers of one output")
    rng = random.Random(0)
    for job in world.jobs(world.home / "two"):
        job.clear()
        in_child(command(*job.command()))
        wanted = job.content()
        for _ in range(rounds):
            _round(job, wanted, tally, rng)
    return tally


def _round(job: Job, wanted: str, tally: Tally, rng: random.Random) -> None:
    job.clear()
    more = () if rng.random() < 0.5 else ("--force",)
    if more:
        job.older(job.out)
    first = os.fork()
    if not first:
        ended = in_child(command(*job.command(*more)))
        os._exit(0 if ended.code in (0, 1) and not ended.failure else 70)
    second = in_child(command(*job.command(*more)))
    code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    tally.tried += 1
    tally.count("refused" if second.code else "went through")
    tally.check(code == 0, f"{job.name}: the first writer broke")
    known = ("is being written by another command", "is a file of", "holds ")
    good = second.code == 0 or (second.code == 1 and any(text in second.said for text in known))
    tally.check(good and not second.failure, f"{job.name}: {second.failure or second.said!r}")
    tally.check(job.content() == wanted, f"{job.name}: what is there in the end is not whole: {digest(job.out)[:8]}")
    tally.check(not job.others(), f"{job.name}: left {job.others()}")
