"""Files that are changed in place while they are mapped: one line, never other numbers or a dead process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.processes import run_program

from polyseme.api import load
from polyseme.disk import mapped
from polyseme.disk.files import PlainFile
from polyseme.disk.mapped import watching
from polyseme.errors import FileChanged
from polyseme.search import TextIndex
from polyseme.search.kwic.concordance import concordance
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

WORDS = ["猫", "狗", "鸟"]


def save_vectors(path: Path, seed: int = 0, *, force: bool = False) -> Path:
    vectors = np.random.default_rng(seed).normal(size=(3, 3000)).astype(np.float32)
    WordVectors(Vocabulary(WORDS, np.array([3, 2, 1])), vectors).save(path, force=force)
    return path


def overwrite(file: Path) -> None:
    """Other bytes of the same number, later."""
    before = file.stat()
    file.write_bytes(b"\x3f" * before.st_size)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))


def cut_short(file: Path) -> None:
    os.truncate(file, 100)


@pytest.mark.parametrize("change", [overwrite, cut_short])
def test_vectors_whose_file_changed_are_not_used(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = save_vectors(tmp_path / "vectors")
    model = load(path)
    assert model.most_similar("猫")
    change(path / "weights.safetensors")
    asked: list[Callable[[], Any]] = [
        lambda: model["猫"],
        lambda: model.most_similar("猫"),
        lambda: model.similarity("猫", "狗"),
        lambda: model.lookup(["猫"]),
    ]
    for question in asked:
        with pytest.raises(FileChanged, match=r"weights\.safetensors was changed while it was in use: open it again"):
            question()


def test_a_process_whose_vectors_were_cut_short_says_so_and_lives(tmp_path: Path) -> None:
    path = save_vectors(tmp_path / "vectors")
    code = """
import os, sys, polyseme
model = polyseme.load(sys.argv[1])
os.truncate(sys.argv[1] + "/weights.safetensors", 100)
try:
    model.most_similar("猫")
except polyseme.PolysemeError as error:
    print(type(error).__name__)
"""
    done = run_program(code, path, text=True, imports=["polyseme.words.vectors"])
    assert (done.returncode, done.stdout) == (0, "FileChanged\n")


def test_a_folder_that_is_replaced_as_a_whole_is_read_on_in_its_old_version(tmp_path: Path) -> None:
    path = save_vectors(tmp_path / "vectors")
    model = load(path)
    before = model["猫"].copy()
    save_vectors(path, 1, force=True)
    assert np.array_equal(model["猫"], before)
    assert not np.array_equal(load(path)["猫"], before)


def test_a_corpus_whose_file_changed_is_not_read(tmp_path: Path) -> None:
    corpus = Corpus.from_sentences(["猫 吃 鱼", "狗 吃 肉"], tmp_path / "corpus", segment="space")
    assert concordance(corpus, "吃").count == 2
    overwrite(tmp_path / "corpus" / "ids.i32")
    with pytest.raises(FileChanged, match=r"ids\.i32"):
        list(corpus)
    with pytest.raises(FileChanged, match=r"ids\.i32"):
        concordance(corpus, "吃")


def test_a_text_index_whose_file_changed_is_not_searched(tmp_path: Path) -> None:
    model = load(save_vectors(tmp_path / "vectors"))
    TextIndex.of(model, ["猫", "狗"]).save(tmp_path / "texts")
    index = TextIndex.open(tmp_path / "texts", model)
    assert index.search("猫", 1)[0].text == "猫"
    cut_short(tmp_path / "texts" / "vectors.f32")
    with pytest.raises(FileChanged, match=r"vectors\.f32"):
        index.search("猫", 1)


@pytest.mark.parametrize("in_memory", [1 << 20, 0])
def test_a_private_copy_keeps_its_numbers_whatever_happens_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(mapped, "COPIED_INTO_MEMORY", in_memory)
    monkeypatch.setattr(mapped, "_cloned", lambda path, file: None)
    numbers = np.arange(5000, dtype=np.int64)
    file = tmp_path / "numbers"
    numbers.tofile(file)
    with watching(private=True) as watch, PlainFile(file) as opened:
        array = opened.mapped(np.int64, 8)
    cut_short(file)
    assert np.array_equal(array, numbers[1:])
    with pytest.raises(FileChanged):
        watch.check()


def test_a_file_that_changes_while_it_is_copied_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    np.arange(5000, dtype=np.int64).tofile(file)
    with watching(private=True), PlainFile(file) as opened:
        overwrite(file)
        with pytest.raises(FileChanged):
            opened.mapped(np.int64)
