"""Words and texts come from other people's files; a terminal must not obey what is in them."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.processes import run_command

from polyseme.search import build_index
from polyseme.sentences.lift import lift
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

# Escape (a title and red letters), the one-character CSI of Latin-1, a bell, a right-to-left override, a deletion.
EVIL = ["\x1b]0;owned\x07", "\x1b[31m红", "\x9b31m绿", "响\x07铃", "\u202egnp.exe", "a\x08\x7fb"]
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    vectors = np.random.default_rng(0).normal(size=(len(EVIL), 4)).astype(np.float32)
    about = About(Segmentation("space"))
    WordVectors(Vocabulary(EVIL, np.arange(len(EVIL), 0, -1)), vectors, about=about).save(folder / "vectors")
    corpus = Corpus.from_sentences([[*EVIL, "打"], ["打", *EVIL]] * 20, folder / "corpus")
    words = [*EVIL, "打"]
    table = WordVectors(Vocabulary(words, np.ones(len(words), dtype=np.int64)), np.eye(len(words), dtype=np.float32))
    lift(table, "contexts").save(folder / "static")
    build_index(folder / "static", corpus, folder / "index", skip="nothing")
    (folder / "pairs.csv").write_text("".join(f"{a}\t{b}\t{i}\n" for i, (a, b) in enumerate(pairwise(EVIL))))
    (folder / "lines.txt").write_text(" ".join(EVIL))
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ["neighbours", "{}/vectors", *EVIL], ["neighbours", "{}/vectors", EVIL[0], "--json"],
        ["neighbours", "{}/vectors", "\x1b[2J"], ["analogy", "{}/vectors", *EVIL[:3]],
        ["info", "{}/corpus"], ["info", "{}/corpus", "--json"], ["info", "{}/vectors"], ["info", "{}/lines.txt"],
        ["senses", "{}/index", "打"], ["senses", "{}/index", EVIL[1]], ["senses", "{}/index", "\x1b[2J"],
        ["senses", "{}/index", "打", "--json"], ["senses", "{}/index", "打", "--in", f"打 {EVIL[0]}"],
        ["evaluate", "{}/vectors", "{}/pairs.csv"], ["encode", "{}/vectors", "{}/lines.txt", "-o", "-"],
        ["info", "{}/\x1b[2Jno-such-file"], ["\x1b[2J"], ["train", "\x1b[2J", "{}/corpus", "-o", "x"],
    ],
)  # fmt: skip
def test_no_command_hands_an_escape_sequence_to_the_terminal(
    folder: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from polyseme.cli.main import main

    monkeypatch.setattr(sys, "argv", ["polyseme", *(part.replace("{}", str(folder)) for part in command)])
    with pytest.raises(SystemExit):
        main()
    printed = capfd.readouterr()
    assert printed.out + printed.err
    assert not OBEYED.findall(printed.out + printed.err)


def test_json_keeps_the_words_as_they_are(folder: Path) -> None:
    (answer,) = json.loads(run_command("neighbours", folder / "vectors", EVIL[0], "--json").stdout)
    assert {found["word"] for found in answer["neighbours"]} == set(EVIL[1:])
