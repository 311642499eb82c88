"""An index that was killed goes on and ends in the same bytes, and its memory does not grow with the corpus."""

from __future__ import annotations

import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from polyseme.errors import TrainingError
from polyseme.search import build, build_index, cells, scan
from polyseme.search.layout import MARKER
from polyseme.text.corpus import Corpus

from .conftest import Neighbours, two_sense_sentences

KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from conftest import Neighbours
from polyseme.search import build
build._BLOCK_TOKENS, build._CHECKPOINT_TOKENS = 200, 400
def progress(what, done, total, /, **facts):
    if what.startswith("encode") and done > 0.6 * total:
        os.kill(os.getpid(), signal.SIGKILL)
build.build_index(Neighbours(), {corpus!r}, {out!r}, dim=16, layers="all", progress=progress)
"""


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != MARKER}


def test_a_killed_index_goes_on_where_it_was(tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "i"
    script = KILLED.format(here=str(Path(__file__).parent), corpus=str(corpus.path), out=str(out))
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL
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


def test_unfinished_work_with_other_options_is_not_mixed(tmp_path: Path, corpus: Corpus) -> None:
    script = KILLED.format(here=str(Path(__file__).parent), corpus=str(corpus.path), out=str(tmp_path / "i"))
    subprocess.run([sys.executable, "-c", script], check=False)
    with pytest.raises(TrainingError, match="delete it to start anew"):
        build_index(Neighbours(), corpus, tmp_path / "i", resume=True, dim=8, layers="all")
    again = build_index(Neighbours(), corpus, tmp_path / "i", dim=8)  # without resume it starts over
    assert again.facts["dim"] == 8


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_BLOCK_TOKENS", 500)
    monkeypatch.setattr(build, "_WORDS_TO_LEARN_FROM", 0)
    for module in (scan, cells):
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
