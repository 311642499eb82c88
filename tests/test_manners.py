"""The Python API in interactive use: public names, repr of objects, and errors that say what to give instead."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest

import polyseme
from polyseme.api import ContextMethod, SentenceMethod, WordMethod
from polyseme.catalog import METHODS
from polyseme.display import points_picture, shown
from polyseme.errors import FormatError, TextError, as_given, used_as
from polyseme.interfaces import EncodedSentence
from polyseme.search.kwic.concordance import Line
from polyseme.search.occurrences.hits import Hit, Sense, WordSenses
from polyseme.search.occurrences.uses import UseOccurrence

SENTENCE = "昨天晚上老王在家里坐着没事情做，他打了个电话给他的老朋友，说了一个小时。"


def hit(score: float = 0.5) -> Hit:
    place = SENTENCE.index("打")
    return Hit(0, 0, 0, "打", score, SENTENCE, place, place + 1, None)


def test_dir_shows_the_names_that_are_imported_at_first_use() -> None:
    code = "import polyseme, sys; print(*dir(polyseme)); assert 'numpy' not in sys.modules"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"Corpus", "Examples", "Parallel", "distil", "fit", "lift", "load", "train"} <= set(found)
    assert all(getattr(polyseme, name) is not None for name in found)


def test_sentence_encoders_that_learn_their_own_words_need_torch_and_not_transformers() -> None:
    heavy = "'transformers', 'huggingface_hub', 'numba', 'scipy', 'sklearn', 'h5py', 'faiss'"
    code = f"import polyseme.sentences.encoders, sys; print([m for m in ({heavy}) if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_public_name_is_hidden_by_a_package_of_the_same_name() -> None:
    for room in (polyseme, polyseme.search):
        assert not [name for name in room.__all__ if isinstance(getattr(room, name), ModuleType)]


def test_a_hit_shows_its_word_in_brackets_with_what_stands_around_it() -> None:
    assert repr(hit()) == "Hit(0.500: '…王在家里坐着没事情做，他[打]了个电话给他的老朋友，说…')"
    assert "他<b>打</b>了个电话" in hit()._repr_html_()
    assert "&lt;i&gt;<b>打</b>" in Hit(0, 0, 0, "打", 0.5, "<i>打", 3, 4, "v")._repr_html_()
    place = SENTENCE.index("打")
    line = Line(0, "信.txt", 3, 9, place, place + 2, SENTENCE, None, "前一句。", "后一句。")
    assert repr(line) == "Line(信.txt: '…王在家里坐着没事情做，他[打了]个电话给他的老朋友，说了…')"
    used = UseOccurrence(2, 0.5, 0.1, 0, "信.txt", 3, 9, None, "前一句。", SENTENCE, place, place + 1, "后一句。")
    assert repr(used) == "UseOccurrence(2, 0.500: '…王在家里坐着没事情做，他[打]了个电话给他的老朋友，说…')"


def test_senses_are_told_in_one_line_and_as_a_table_and_a_picture() -> None:
    senses = [Sense(0.75, 30, 0.5, ["拨", "<通>"], [hit()]), Sense(0.25, 10, 0.1, [], [])]
    none, ones = np.zeros(40, np.int64), np.ones(40, np.float32)
    points = np.zeros((40, 2), np.float32)
    found = WordSenses("打", 40, 0, senses, points, none, none, ones, ones, lambda rows, scores: [hit()] * len(rows))
    assert repr(found) == "WordSenses('打', 40 occurrences: 2 uses, 75%, 25%)"
    assert repr(senses[0]) == "Sense(75%, 30 occurrences: 拨, <通>)"
    assert "拨 &lt;通&gt;" in found._repr_html_()
    assert "[打]" in found._repr_html_()
    assert found._repr_html_().count("<circle") == 40


def test_a_picture_of_points_keeps_them_inside_and_their_groups_apart() -> None:
    picture = points_picture([(-2.0, 0.0), (2.0, 1.0)], [0, 1], width=300)
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', picture)]
    assert places == [(7.5, 100.0), (292.5, 52.5)]
    assert len(set(re.findall(r'r="2" fill="(.*?)"', picture))) == 2


def test_an_encoded_sentence_tells_its_words_and_the_shape_of_its_vectors() -> None:
    assert repr(EncodedSentence(["打", "电话"], np.zeros((3, 2, 4), np.float32))) == (
        "EncodedSentence('打 电话', layers (3, 2, 4))"
    )


def test_a_corpus_shows_its_numbers_in_a_notebook(fifty_lines: list[str]) -> None:
    shown = polyseme.Corpus.from_sentences(fifty_lines)._repr_html_()
    assert "<td>sentences</td><td>50</td>" in shown
    assert "朋友" in shown


@pytest.mark.parametrize("sentences", [[["小明", "打", "电话"]], ["小明打电话。", "小明看书。"]])
def test_sentences_given_for_paths_are_told_where_they_belong(sentences: list) -> None:
    with pytest.raises(TextError, match=r"Corpus\.from_sentences"):
        polyseme.Corpus.build(sentences)
    with pytest.raises(TextError, match=r"Corpus\.from_sentences"):
        polyseme.train("word2vec", sentences)


def test_advice_speaks_of_flags_to_those_who_use_the_command() -> None:
    assert as_given("errors", "skip") == "errors='skip'"
    with used_as("command"):
        assert as_given("force") == "--force"
        assert as_given("min_count", 2) == "--min-count 2"
        with pytest.raises(TextError) as caught:
            polyseme.Corpus.build(("a b", "c d"))
    assert "Corpus" not in str(caught.value)
    assert as_given("force") == "force=True"


@pytest.mark.parametrize(
    ("kind", "names"), [("words", WordMethod), ("contexts", ContextMethod), ("sentences", SentenceMethod)]
)
def test_type_checkers_are_told_the_right_kind_of_the_methods_they_know(kind: str, names: Any) -> None:
    assert set(get_args(names)) <= {row.name for row in METHODS if row.kind == kind}


def test_load_can_be_told_which_kind_of_model_is_wanted(tmp_path: Path, fifty_lines: list[str]) -> None:
    model = polyseme.train("onehot", polyseme.Corpus.from_sentences(fifty_lines), out=tmp_path / "m")
    assert polyseme.load(tmp_path / "m", "words").index_to_key == model.index_to_key
    with pytest.raises(FormatError, match="is a model of words, not of contexts"):
        polyseme.load(tmp_path / "m", "contexts")


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        monkeypatch.setattr(sys, "stderr", stream)
        for done in range(11):
            shown("reading", done, 10, loss=0.5)
        shown("reading", 10, 10)
    assert pipe.getvalue() == ""
    assert terminal.getvalue().endswith("\n")
    assert terminal.getvalue().count("\n") == 1
    assert "reading 100%" in terminal.getvalue()
    assert all(len(line) <= 80 for line in terminal.getvalue().split("\r"))
