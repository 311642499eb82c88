"""A reader gets one complete version of a folder, even if it is replaced meanwhile."""

from __future__ import annotations

import gc
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyseme
from polyseme.api import recognise
from polyseme.disk import atomic, files, folders
from polyseme.disk.files import first_bytes
from polyseme.encode_files import writer
from polyseme.errors import FormatError
from polyseme.search import Index, build_index
from polyseme.store.folder import MODEL
from polyseme.text.corpus import Corpus

from .conftest import SENTENCES, Counting, make_corpus, make_model, vectors

pytestmark = pytest.mark.usefixtures("every_core")


def read_model(path: Path) -> set[str]:
    """The version numbers found in all parts of a model."""
    model = polyseme.load(path)
    return {word.split(".")[0][1:] for word in model.index_to_key} | {f"{n:g}" for n in model.vectors.ravel()}


def read_corpus(path: Path) -> set[str]:
    corpus = Corpus.open(path)
    last = corpus.sentence(len(corpus) - 1)
    return {last[0][1:], "".join(corpus.text(len(corpus) - 1).split())[1:-1], corpus.all_words[int(corpus.ids[-2])][1:]}


READERS: dict[Callable[..., None], Callable[[Path], set[str]]] = {make_model: read_model, make_corpus: read_corpus}


@contextmanager
def replaced_meanwhile(make: Callable[..., None], path: Path) -> Iterator[list[int]]:
    """Replace the folder by versions 2, 3 … in another thread until the block ends."""
    stop, versions = threading.Event(), [1]

    def work() -> None:
        while not stop.is_set():
            make(path, versions[-1] + 1, force=True)
            versions.append(versions[-1] + 1)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield versions
    finally:
        stop.set()
        worker.join()


MOST_READS = 20_000


@pytest.mark.parametrize("exchange", [True, False], ids=["in one step", "in two steps"])
@pytest.mark.parametrize("make", READERS, ids=["model", "corpus"])
def test_a_load_beside_a_writer_is_of_one_version(tmp_path: Path, make, exchange: bool, monkeypatch) -> None:
    if not exchange:
        monkeypatch.setattr(atomic, "exchange", lambda *_: False)
    make(tmp_path / "m")
    seen: list[Any] = []
    with replaced_meanwhile(make, tmp_path / "m") as versions:
        while len(seen) < 150 or (len(versions) < 4 and len(seen) < MOST_READS):  # a slow disk writes fewer versions
            seen.append(READERS[make](tmp_path / "m"))
    assert all(len(version) == 1 for version in seen)
    assert len(versions) > 2
    assert len({version for (version,) in seen}) > 1


def test_a_version_that_comes_while_the_reader_looks_for_it_is_read(tmp_path: Path, monkeypatch) -> None:
    """Where two names cannot change places in one step, there is a moment with no folder at all."""
    make_model(tmp_path / "aside")
    lexists = os.path.lexists

    def comes_now(path) -> bool:
        if not lexists(tmp_path / "m"):
            os.rename(tmp_path / "aside", tmp_path / "m")
        return lexists(path)

    monkeypatch.setattr(os.path, "lexists", comes_now)
    assert read_model(tmp_path / "m") == {"1"}


def test_an_index_beside_a_writer_is_of_one_version(tmp_path: Path) -> None:
    corpus = Corpus.from_sentences(SENTENCES, tmp_path / "c", segment="space")

    def make(path: Path, number: int = 1, force: bool = False) -> None:
        build_index(Counting(), corpus, path, dim=1 + number % 3, layers="0", force=force)

    make(tmp_path / "i")
    with replaced_meanwhile(make, tmp_path / "i"):
        for _ in range(60):
            index = Index.open(tmp_path / "i", model=Counting(), corpus=corpus)
            assert index.vectors(slice(0, 9)).shape == (9, index.facts["dim"])
            assert index.same_sense([*SENTENCES[0], "吃"], word="鱼")  # a sentence that is not in the text


def test_a_composed_model_and_its_parts_are_of_one_version(tmp_path: Path) -> None:
    from polyseme.contexts.stack import Stack
    from polyseme.contexts.static import StaticEncoder

    def make(path: Path, number: int = 1, force: bool = False) -> None:
        Stack([StaticEncoder(vectors(float(number))), StaticEncoder(vectors(float(number), words=2))]).save(
            path, force=force
        )

    make(tmp_path / "m")
    with replaced_meanwhile(make, tmp_path / "m"):
        for _ in range(60):
            assert len(versions_in(polyseme.load(tmp_path / "m"))) == 1


def versions_in(model: Any) -> set[str]:
    parts = model.parts()
    own = {f"{n:g}" for n in parts.tensors.get("vectors", np.empty(0)).ravel()}
    return own.union(*(versions_in(inner) for inner in parts.models.values()))


def test_files_are_opened_once_and_through_the_folder(tmp_path: Path, monkeypatch) -> None:
    """What was checked is what is read: the name may lead elsewhere by then."""
    make_model(tmp_path / "m", 1)
    make_model(tmp_path / "other", 2)
    verify = folders.OpenFolder.verify

    def verified(self, **how) -> None:
        verify(self, **how)
        if os.path.exists(tmp_path / "other"):
            os.rename(tmp_path / "m", tmp_path / "gone")
            os.rename(tmp_path / "other", tmp_path / "m")

    monkeypatch.setattr(folders.OpenFolder, "verify", verified)
    assert read_model(tmp_path / "m") == {"1"}
    assert read_model(tmp_path / "m") == {"2"}


def test_an_inner_model_that_was_put_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    from polyseme.contexts.static import StaticEncoder

    StaticEncoder(vectors(1.0)).save(tmp_path / "a")
    StaticEncoder(vectors(2.0)).save(tmp_path / "b")
    (inner,) = json.loads((tmp_path / "a" / "model.json").read_text())["models"]
    os.rename(tmp_path / "a" / inner, tmp_path / "gone")
    os.rename(tmp_path / "b" / inner, tmp_path / "a" / inner)
    with pytest.raises(FormatError, match="is not the model it was built from"):
        polyseme.load(tmp_path / "a")


def test_nothing_stays_open_but_what_is_mapped(tmp_path: Path) -> None:
    make_model(tmp_path / "m")
    make_corpus(tmp_path / "c")
    (tmp_path / "c" / "ids.i32").unlink()
    polyseme.load(tmp_path / "m")
    gc.collect()
    before = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
    for _ in range(3):
        polyseme.load(tmp_path / "m")
        with pytest.raises(FormatError):
            Corpus.open(tmp_path / "c")
    gc.collect()
    assert not before or len(os.listdir("/proc/self/fd")) == len(before)


needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


@needs_pipes
@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "vocab.txt"])
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    make_model(tmp_path / "m")
    (tmp_path / "m" / name).unlink()
    os.mkfifo(tmp_path / "m" / name)
    with pytest.raises(FormatError, match=f"{name} is not a regular file"):
        polyseme.load(tmp_path / "m")


@needs_pipes
def test_pipes_and_devices_are_no_models(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        for call in (polyseme.load, recognise, lambda path: first_bytes(Path(path), 10)):
            with pytest.raises(FormatError, match="is not a regular file"):
                call(path)
    for name in ("options.json", "weights.hdf5", "config.json", "char.dic", "encoder.pkl", "x.th"):
        folder = tmp_path / f"folder of {name}"
        folder.mkdir()
        os.mkfifo(folder / name)
        with pytest.raises(FormatError):
            polyseme.load(folder)


def test_a_description_of_any_size_is_not_read(tmp_path: Path, monkeypatch) -> None:
    make_model(tmp_path / "m")
    with open(tmp_path / "m" / "model.json", "ab") as file:
        file.truncate(files.LONGEST_JSON + 1)  # a hole: it takes no room
    with pytest.raises(FormatError, match="too large"), MODEL.open(tmp_path / "m"):
        pass
    with pytest.raises(FormatError, match="too large"):
        polyseme.load(tmp_path / "m")


def test_arrays_and_where_lines_begin_in_them_come_together(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), writer("npy", tmp_path / "x.npy") as write:
        write("a b", ["a", "b"], np.zeros((2, 3), np.float32))
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with writer("npy", tmp_path / "x.npy") as write:
        write("a b", ["a", "b"], np.zeros((2, 3), np.float32))
    assert np.load(tmp_path / "x.npy").shape == (2, 3)
    assert np.load(tmp_path / "x.offsets.npy").tolist() == [0, 2]
    with pytest.raises(FormatError, match="is a file"), writer("npy", tmp_path / "x.npy") as write:
        raise AssertionError("it is told before the work")


def test_a_text_given_for_a_corpus_is_told_what_makes_one(tmp_path):
    (tmp_path / "text.txt").write_text("他来了。\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"text\.txt is a file, not a corpus \(polyseme corpus makes one\)"):
        Corpus.open(tmp_path / "text.txt")
