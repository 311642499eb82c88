"""An index that was killed goes on and ends in the same bytes, and its memory does not grow with the corpus."""

from __future__ import annotations

import signal
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.processes import run_program

from polyseme.contexts.static import StaticEncoder
from polyseme.errors import FormatError, TrainingError
from polyseme.search import build_index
from polyseme.search.occurrences import build, cells, index_folder, short_codes
from polyseme.search.occurrences.index_folder import INDEX_MANIFEST
from polyseme.text.corpus import Corpus
from polyseme.words.vectors import WordVectors

from .conftest import Neighbours, two_sense_sentences

KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from conftest import Neighbours
from polyseme.search.occurrences import build
build._BLOCK_TOKENS, build._CHECKPOINT_TOKENS = 200, 400
def progress(what, done, total, /, **facts):
    if what.startswith("encode") and done > 0.6 * total:
        os.kill(os.getpid(), signal.SIGKILL)
build.build_index(Neighbours(), {corpus!r}, {out!r}, dim=16, layers="all", progress=progress)
"""


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != INDEX_MANIFEST}


def test_a_killed_index_goes_on_where_it_was(tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "i"
    killed_at_work(corpus, out)
    assert not out.exists()
    resumed = Neighbours()
    monkeypatch.setattr(build, "_BLOCK_TOKENS", 200)
    build_index(resumed, corpus, out, resume=True, dim=16, layers="all")
    assert resumed.sentences_read < 0.6 * corpus.n_sentences
    unbroken = build_index(Neighbours(), corpus, tmp_path / "j", dim=16, layers="all")
    assert content(out) == content(unbroken.path)
    assert not Path(f"{out}.checkpoint").exists()


def test_a_kill_while_the_index_is_finished_does_not_cost_the_encoding(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "i"

    def killed(*_: object, **__: object) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
        broken.setattr(build, "learn_apart", killed)
        build_index(Neighbours(), corpus, out, dim=16)
    resumed = Neighbours()
    build_index(resumed, corpus, out, resume=True, dim=16)
    assert resumed.sentences_read == 0
    assert content(out) == content(build_index(Neighbours(), corpus, tmp_path / "j", dim=16).path)


def killed_at_work(corpus: Corpus, out: Path) -> None:
    script = KILLED.format(here=str(Path(__file__).parent), corpus=str(corpus.path), out=str(out))
    assert run_program(script, imports=["polyseme.search.occurrences.build"]).returncode == -signal.SIGKILL


def test_unfinished_work_that_was_damaged_is_refused(tmp_path: Path, corpus: Corpus) -> None:
    killed_at_work(corpus, tmp_path / "i")
    part = tmp_path / "i.checkpoint"
    for name in sorted(file.name for file in part.iterdir()):
        whole = (part / name).read_bytes()
        written = np.flatnonzero(np.frombuffer(whole, np.uint8))[200]  # not where nothing is written yet
        (part / name).write_bytes(whole[:written] + bytes([whole[written] ^ 1]) + whole[written + 1 :])
        with pytest.raises(FormatError, match=r"i\.checkpoint") as error:
            build_index(Neighbours(), corpus, tmp_path / "i", resume=True, dim=16, layers="all")
        assert "\n" not in str(error.value)
        (part / name).unlink()
        (part / name).symlink_to(tmp_path / "nothing")
        with pytest.raises(FormatError, match=r"i\.checkpoint"):
            build_index(Neighbours(), corpus, tmp_path / "i", resume=True, dim=16, layers="all")
        (part / name).unlink()
        (part / name).write_bytes(whole)
    (part / "notes.txt").write_text("mine")
    for resume in (True, False):
        with pytest.raises(FormatError, match="in the way"):
            build_index(Neighbours(), corpus, tmp_path / "i", resume=resume, dim=16, layers="all")
    (part / "notes.txt").unlink()
    build_index(Neighbours(), corpus, tmp_path / "i", resume=True, dim=16, layers="all")


def test_an_index_that_lacked_only_its_name_gets_it(tmp_path: Path, corpus: Corpus, monkeypatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    model = tmp_path / "model"
    StaticEncoder(WordVectors(corpus.vocabulary, np.eye(len(corpus.vocabulary), 8, dtype=np.float32))).save(model)
    with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
        broken.setattr(build, "publish_folder", killed)
        build_index(model, corpus, tmp_path / "i", dim=4)
    assert not (tmp_path / "i").exists()
    before = content(tmp_path / "i.checkpoint")
    monkeypatch.setattr(build._Builder, "encode", killed)
    build_index(model, corpus, tmp_path / "i", resume=True, dim=4)
    assert content(tmp_path / "i") == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["i", "model"]


def test_what_an_index_has_replaced_does_not_stand_in_its_way(tmp_path: Path, corpus: Corpus) -> None:
    model = tmp_path / "model"
    StaticEncoder(WordVectors(corpus.vocabulary, np.eye(len(corpus.vocabulary), 8, dtype=np.float32))).save(model)
    out, earlier = tmp_path / "i", Path(f"{tmp_path / 'i'}.checkpoint")
    build_index(model, corpus, out, dim=8)
    written = content(out)
    build_index(model, corpus, tmp_path / "j", dim=4)
    (tmp_path / "j").rename(earlier)  # a kill after the two had changed places
    build_index(model, corpus, out, dim=8, resume=True, force=True)
    assert content(out) == written
    assert not earlier.exists()


def test_room_on_the_disk_is_taken_before_it_is_written_to(tmp_path: Path) -> None:
    """A memory map of a file with holes dies of SIGBUS where the disk is full."""
    array = index_folder.create(tmp_path / "a.npy", (1000, 1000), np.dtype(np.int8))
    found = (tmp_path / "a.npy").stat()
    assert found.st_blocks * 512 >= array.nbytes
    array[999] = 7
    array.flush()  # type: ignore[attr-defined]
    assert np.load(tmp_path / "a.npy").sum() == 7000
    with open(tmp_path / "b.npy", "wb") as file:  # as a copy may have made it
        file.write((tmp_path / "a.npy").read_bytes()[:128])
        file.truncate(found.st_size)
    index_folder.reopen(tmp_path / "b.npy", (1000, 1000), np.dtype(np.int8))
    assert (tmp_path / "b.npy").stat().st_blocks * 512 >= array.nbytes


def test_unfinished_work_with_other_options_is_not_mixed(tmp_path: Path, corpus: Corpus) -> None:
    killed_at_work(corpus, tmp_path / "i")
    with pytest.raises(TrainingError, match="delete it to start again"):
        build_index(Neighbours(), corpus, tmp_path / "i", resume=True, dim=8, layers="all")
    again = build_index(Neighbours(), corpus, tmp_path / "i", dim=8)  # without resume it starts over
    assert again.facts["dim"] == 8


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_BLOCK_TOKENS", 500)
    monkeypatch.setattr(build, "_WORDS_TO_LEARN_FROM", 0)
    for module in (short_codes, cells):
        monkeypatch.setattr(module, "BLOCK", 500)
    peaks = []
    for n in (300, 2400):
        corpus = Corpus.from_sentences(two_sense_sentences(n), tmp_path / f"c{n}", segment="space")
        build_index(Neighbours(), corpus, tmp_path / f"warm{n}", dim=16, sample=100, cells_from=500)
        tracemalloc.start()
        build_index(Neighbours(), corpus, tmp_path / f"i{n}", dim=16, sample=100, cells_from=500)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]  # eight times the text
