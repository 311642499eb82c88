"""The writing commands, with inputs small enough to be killed a thousand times, and what each must leave."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from faults_common import digest, in_this_process

WORDS = 60
LINES = 240
TIMED = ("training.jsonl", "model.json")  # the first contains speeds, the second its checksum


@dataclass(frozen=True)
class Job:
    """A command and its output; ``older`` creates an older output to replace."""

    name: str
    place: Path  # nothing else is in it
    arguments: tuple[object, ...]
    out: Path
    older: Callable[[Path], None]
    aside: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()  # further files that belong to the output
    resumes: bool = False

    def command(self, *more: str) -> tuple[object, ...]:
        """Its arguments, with ``more`` added."""
        return (*self.arguments, *more)

    def clear(self) -> None:
        """Empty the folder it writes to."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)

    def content(self) -> str:
        """A hash of everything it has written; "" if its output does not exist."""
        if not os.path.exists(self.out):
            return ""
        return " ".join([digest(self.out, self.aside), *(digest(self.out.with_name(name)) for name in self.beside)])

    def others(self) -> list[str]:
        """The names of files it left next to its output."""
        expected = {self.out.relative_to(self.place).parts[0], *self.beside}
        found = {*os.listdir(self.place), *(os.listdir(self.out.parent) if self.out.parent.exists() else ())}
        return sorted(found - expected - {self.out.name})


@dataclass(frozen=True)
class World:
    """A folder with the inputs of the commands; a ``short`` one has fewer commands, and no ELMo."""

    home: Path
    short: bool = False

    def make(self) -> None:
        """Create texts, a corpus, word vectors and encoders, and run every command once."""
        from polyseme.contexts.static import StaticEncoder
        from polyseme.text.corpus import Corpus
        from polyseme.words.vectors import WordVectors

        rng = np.random.default_rng(0)
        for name, seed in (("text.txt", 0), ("other.txt", 1)):
            words = [f"词{n}" for n in np.random.default_rng(seed).zipf(1.5, size=LINES * 8) % WORDS]
            lines = [" ".join(words[8 * n : 8 * n + 8]) for n in range(LINES)]
            (self.home / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        (self.home / "few.txt").write_text("词1 词2 词3\n\n词4\n" * 20, encoding="utf-8")
        in_this_process("corpus", self.home / "text.txt", "-o", self.home / "corpus", "--workers", 1, "--force")
        corpus = Corpus.open(self.home / "corpus")
        vectors = WordVectors(corpus.vocabulary, rng.normal(size=(len(corpus.vocabulary), 12)).astype(np.float32))
        vectors.save(self.home / "vectors", force=True)
        StaticEncoder(vectors).save(self.home / "static", force=True)
        WordVectors(corpus.vocabulary, vectors.vectors + 1).save(self.home / "older", force=True)
        if not self.short:
            in_this_process(
                *("train", "elmo", self.home / "few.txt", "-o", self.home / "elmo", "--size", "tiny", "--force"),
                *("--alphabet", "bytes", "--epochs", 1, "--threads", 1),
            )
        for job in self.jobs(self.home / "warm"):
            job.clear()
            in_this_process(*job.command())

    def jobs(self, place: Path) -> list[Job]:
        """All commands, writing into ``place``; in a short world, one of each kind."""
        kept = ("corpus", "train word2vec", "index", "convert to projector", "encode to .npy")
        return [job for job in self._all_jobs(place) if not self.short or job.name in kept]

    def _all_jobs(self, place: Path) -> list[Job]:
        home = self.home
        older = _older_model(home)
        train = (home / "corpus", "-o", place / "m", "--min-count", 1)
        index = ("index", home / "static", home / "corpus", "-o", place / "i", "--dim", 6, "--cells-from", 50)
        found = [
            Job("corpus", place, ("corpus", home / "text.txt", "-o", place / "c", "--workers", 1), place / "c", older),
            Job(
                "train word2vec", place, ("train", "word2vec", *train, "--dim", 16, "--epochs", 3, "--threads", 1),
                place / "m", older, TIMED, resumes=True,
            ),
            Job("train svd", place, ("train", "svd", *train, "--dim", 4), place / "m", older, TIMED, resumes=True),
            Job(
                "distil", place, ("distil", home / "static", home / "corpus", "-o", place / "m"),
                place / "m", older, TIMED, resumes=True,
            ),
            Job("index", place, index, place / "i", older, resumes=True),
            Job("convert to a folder", place, ("convert", home / "vectors", place / "m"), place / "m", older),
            Job(
                "convert to projector", place, ("convert", home / "vectors", place / "t", "--to", "projector"),
                place / "t" / "vectors.tsv", _older_files("metadata.tsv"), beside=("metadata.tsv",),
            ),
            Job(
                "convert to bilm-tf", place, ("convert", home / "elmo", place / "b", "--to", "bilm-tf"),
                place / "b" / "options.json", _older_files("weights.hdf5"), beside=("weights.hdf5",),
            ),
        ]  # fmt: skip
        for suffix, form in ((".vec", "word2vec-text"), (".vec.gz", "word2vec-text"), (".bin", "fasttext")):
            out = place / f"v{suffix}"
            job = ("convert", home / "vectors", out, "--to", form)
            found.append(Job(f"convert to {suffix}", place, job, out, _older_files()))
        for suffix in (".npy", ".h5", ".jsonl", ".parquet"):
            out = place / f"x{suffix}"
            beside = ("x.offsets.npy",) if suffix == ".npy" else ()
            job = ("encode", home / "static", home / "few.txt", "-o", out, "--segment", "space")
            found.append(Job(f"encode to {suffix}", place, job, out, _older_files(*beside), beside=beside))
        return found


def _older_model(home: Path) -> Callable[[Path], None]:
    def put(out: Path) -> None:
        shutil.copytree(home / "older", out)

    return put


def _older_files(*beside: str) -> Callable[[Path], None]:
    def put(out: Path) -> None:
        out.parent.mkdir(exist_ok=True)
        for name in (out.name, *beside):
            out.with_name(name).write_bytes(b"older " + name.encode())

    return put
