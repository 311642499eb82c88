"""Similarity and analogy files: recognised by content, and scored as gensim scores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyseme
from polyseme.errors import FormatError, OptionError
from polyseme.evaluate.kinds import evaluate_file, recognise_kind
from polyseme.evaluate.report import EvaluationSettings, read_lines
from polyseme.evaluate.word_pairs import read_pairs
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors


@pytest.fixture(scope="module")
def glove(shared_data: Path) -> WordVectors:
    model: WordVectors = polyseme.load(shared_data / "models" / "glove" / "glove.6B.50d.top20k.txt")
    return model


def gensim_of(model: WordVectors) -> Any:
    models = pytest.importorskip("gensim.models", reason="gensim is not installed (extra: bench)")
    peer = models.KeyedVectors(model.vector_size)
    peer.add_vectors(model.index_to_key, model.vectors)
    return peer


def cased(model: WordVectors, n: int) -> WordVectors:
    """A vocabulary in which many words have two spellings with nearly equal vectors."""
    words, rows = [], []
    noise = np.random.default_rng(0).normal(scale=0.05, size=(n, model.vector_size))
    for i, word in enumerate(model.index_to_key[:n]):
        variants = [word, word.capitalize()] if word.capitalize() != word and i % 2 else [word.capitalize()]
        words += variants
        rows += [model.vectors[i] + (k * noise[i]) for k in range(len(variants))]
    return WordVectors(Vocabulary(words, np.zeros(len(words))), np.array(rows, dtype=np.float32))


SIMILARITY = ["EN-MC-30", "EN-MEN-TR-3k", "EN-RG-65", "EN-SIMLEX-999", "EN-WS-353-ALL"]


@pytest.mark.parametrize("name", SIMILARITY)
@pytest.mark.parametrize("restrict", [300_000, 5000])
@pytest.mark.parametrize("case", ["ignore", "keep"])
def test_similarity_is_gensims(name: str, restrict: int, case: str, glove: WordVectors, shared_data: Path) -> None:
    path = shared_data / "words_en" / f"{name}.txt"
    row = evaluate_file(glove, path, EvaluationSettings(restrict, case)).whole
    pearson, spearman, missing = gensim_of(glove).evaluate_word_pairs(
        str(path), restrict_vocab=restrict, case_insensitive=case == "ignore"
    )
    assert row["spearman"] == pytest.approx(spearman[0], abs=1e-6)
    assert row["pearson"] == pytest.approx(pearson[0], abs=1e-6)
    assert 100 * (1 - row["used"] / row["total"]) == pytest.approx(missing)


def test_chinese_similarity_is_gensims_on_clean_lines(shared_data: Path, tmp_path: Path) -> None:
    model = polyseme.load(shared_data / "models" / "zh_word2vec" / "synonyms_top20k.bin")
    for name in ("wordsim-240.txt", "wordsim-297.txt"):
        path = shared_data / "words_zh" / name
        # gensim takes a stray blank for a part of the word; people did not mean it so
        lines = ["\t".join(cell.strip() for cell in line.split("\t")) for line in read_lines(path)]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        pearson, spearman, _ = gensim_of(model).evaluate_word_pairs(str(tmp_path / name))
        row = evaluate_file(model, path).whole
        assert row["total"] == len(lines)
        assert row["pearson"] == pytest.approx(pearson[0], abs=1e-6)
        # wordsim-297 pairs some words with themselves: their cosines are all 1; gensim ranks them by rounding errors
        assert row["spearman"] == pytest.approx(spearman[0], abs=1e-4)


def analogies_by_gensim(model: WordVectors, path: Path, **options: Any) -> dict[str, tuple[int, int]]:
    _, sections = gensim_of(model).evaluate_word_analogies(str(path), **options)
    return {s["section"]: (len(s["correct"]), len(s["correct"]) + len(s["incorrect"])) for s in sections}


def analogies_by_us(model: WordVectors, path: Path, settings: EvaluationSettings) -> dict[str, tuple[int, int]]:
    rows = evaluate_file(model, path, settings).rows
    return {row["section"].replace("total", "Total accuracy"): (row["correct"], row["used"]) for row in rows}


def some_questions(source: Path, target: Path, every: int) -> Path:
    lines = read_lines(source)
    target.write_text(
        "\n".join(x for i, x in enumerate(lines) if x.startswith(":") or i % every == 0), encoding="utf-8"
    )
    return target


@pytest.mark.parametrize(("restrict", "case"), [(300_000, "ignore"), (3000, "ignore"), (300_000, "keep")])
def test_analogies_are_gensims(restrict: int, case: str, glove: WordVectors, shared_data: Path, tmp_path: Path) -> None:
    path = some_questions(shared_data / "words_en" / "questions-words.txt", tmp_path / "q.txt", 60)
    ours = analogies_by_us(glove, path, EvaluationSettings(restrict, case))
    peers = analogies_by_gensim(glove, path, restrict_vocab=restrict, case_insensitive=case == "ignore")
    assert ours == peers
    assert case == "keep" or ours["Total accuracy"][0] > 10


def test_an_answer_that_differs_in_case_only_is_passed_over(
    glove: WordVectors, shared_data: Path, tmp_path: Path
) -> None:
    model = cased(glove, 6000)
    path = some_questions(shared_data / "words_en" / "questions-words.txt", tmp_path / "q.txt", 40)
    for case in ("ignore", "keep"):
        peers = analogies_by_gensim(model, path, case_insensitive=case == "ignore")
        assert analogies_by_us(model, path, EvaluationSettings(case=case)) == peers
        assert peers["Total accuracy"][0] > 10


@pytest.mark.parametrize("name", ["ca_translated.txt", "ca8_morphological.txt"])
def test_chinese_analogies_are_gensims(name: str, shared_data: Path, tmp_path: Path) -> None:
    model = polyseme.load(shared_data / "models" / "zh_word2vec" / "synonyms_top20k.bin")
    path = some_questions(shared_data / "words_zh" / name, tmp_path / "q.txt", 5)
    assert analogies_by_us(model, path, EvaluationSettings()) == analogies_by_gensim(model, path)


def test_3cosmul_answers_as_the_single_question_does(glove: WordVectors, shared_data: Path, tmp_path: Path) -> None:
    path = some_questions(shared_data / "words_en" / "questions-words.txt", tmp_path / "q.txt", 300)
    questions = [line.lower().split() for line in read_lines(path) if not line.startswith(":")]
    known = [q for q in questions if all(word in glove for word in q)]
    right = sum(glove.analogy(a, b, c, "mul", topn=1)[0][0] == d for a, b, c, d in known)
    row = evaluate_file(glove, path, EvaluationSettings(method="mul")).whole
    assert (row["correct"], row["used"], row["total"]) == (right, len(known), len(questions))
    assert right > 2


PAIRS = [("tiger", "cat", 7.35), ("老虎", "猫", 6.0), ("train", "car", 6.31), ("love", "sex", 6.77)]


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(f"{a}\t{b}\t{s}" for a, b, s in PAIRS),
        "\r\n".join(f"{a} {b} {s}" for a, b, s in PAIRS),
        "# a comment\nWord 1,Word 2,Human (mean)\n" + "\n".join(f"{a},{b},{s}" for a, b, s in PAIRS),
        "word1\tword2\tPOS\tSimLex\tconc\n" + "\n".join(f"{a}\t{b}\tN\t{s}\t3.5" for a, b, s in PAIRS),
        "\n".join(f"{i}\t{a}\t{b}\t{s}" for i, (a, b, s) in enumerate(PAIRS)),
        "\ufeff" + "\n".join(f"{a};  {b};{s}" for a, b, s in PAIRS) + "\n\n",
        "\n".join(f"{a}\t {b}\t{s}\t{s}\t1\t2" for a, b, s in PAIRS),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_the_columns_of_similarity_files_are_found(content: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_bytes(content.encode(encoding))
    assert recognise_kind(path).name == "similarity"
    assert read_pairs(read_lines(path)) == PAIRS


@pytest.mark.parametrize(
    "content",
    [
        "",
        "今天天气很好，我们去公园玩。\n明天也许会下雨。\n",
        "A man is playing a guitar.\tA man plays the guitar.\t4.8\nTwo dogs run.\tA cat sleeps on it.\t0.2\n",
        "一个男人在弹吉他给大家听\t有个男人正在弹奏吉他\t5\n两条狗在草地上奔跑嬉戏着\t一只猫在睡觉\t0\n",
        "1 2 3\n4 5 6\n",
        "just some words of text here that go on\nand on and on\n",
    ],
)
def test_other_files_are_no_word_evaluation(content: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(content, encoding="utf-8")
    with pytest.raises(FormatError, match="not an evaluation file"):
        recognise_kind(tmp_path / "f")


def test_the_shared_files_are_recognised(shared_data: Path) -> None:
    for folder, names, kind in (
        ("words_en", SIMILARITY, "similarity"),
        ("words_zh", ["wordsim-240", "wordsim-297"], "similarity"),
        ("words_en", ["questions-words"], "analogy"),
        ("words_zh", ["ca8_morphological", "ca_translated"], "analogy"),
    ):
        assert {recognise_kind(shared_data / folder / f"{name}.txt").name for name in names} == {kind}


def test_nothing_known_is_said_and_not_scored(tmp_path: Path) -> None:
    model = WordVectors(Vocabulary(["猫"], np.zeros(1)), np.ones((1, 2), np.float32))
    (tmp_path / "s").write_text("a\tb\t1\nc\td\t2\n")
    (tmp_path / "q").write_text(": family\na b c d\n")
    assert evaluate_file(model, tmp_path / "s").whole == {
        "section": "total", "spearman": None, "pearson": None, "used": 0, "total": 2,
    }  # fmt: skip
    rows = evaluate_file(model, tmp_path / "q").rows
    assert [(row["section"], row["accuracy"], row["used"]) for row in rows] == [("family", None, 0), ("total", None, 0)]


def test_a_model_without_words_and_wrong_settings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "q").write_text(": family\na b c d\n")
    with pytest.raises(OptionError, match="needs word vectors"):
        evaluate_file(object(), tmp_path / "q")
    model = WordVectors(Vocabulary(["a"], np.zeros(1)), np.ones((1, 2), np.float32))
    (tmp_path / "s").write_text("a\tb\t1\nc\td\t2\n")
    for name, settings in (
        ("q", EvaluationSettings(case="upper")),
        ("q", EvaluationSettings(method="div")),
        ("s", EvaluationSettings(unseen="no")),
    ):
        with pytest.raises(OptionError):
            evaluate_file(model, tmp_path / name, settings)


def test_correlations_reckoned_by_hand(tmp_path: Path) -> None:
    """Cosines 1, .8, .6, 0 against 9, 5, 7, 1: one swap of neighbours, so Spearman's ρ = 1 - 6 · 2 / (4 · 15) = .8."""
    rows = np.array([[1, 0], [4, 3], [3, 4], [0, 2]], dtype=np.float32)
    model = WordVectors(Vocabulary(["东", "east", "West", "北"], np.zeros(4)), rows)
    (tmp_path / "s").write_text("东\t东\t9\n东\tEAST\t5\n东\twest\t7\n东\t北\t1\n东\t南\t8\n", encoding="utf-8")
    row = evaluate_file(model, tmp_path / "s").whole
    assert row["spearman"] == pytest.approx(0.8)
    assert row["pearson"] == pytest.approx(np.corrcoef([1, 0.8, 0.6, 0], [9, 5, 7, 1])[0, 1], abs=1e-6)
    assert (row["used"], row["total"]) == (4, 5)
    assert evaluate_file(model, tmp_path / "s", EvaluationSettings(case="keep")).whole["used"] == 2


def test_unseen_words_are_served_by_subwords_where_asked(shared_data: Path, tmp_path: Path) -> None:
    model = polyseme.load(shared_data / "models" / "gensim_test_data" / "lee_fasttext_new.bin")
    pairs = [("the", "nights", 1.0), ("the", "of", 2.0), ("nightly", "nights", 3.0)]
    (tmp_path / "s").write_text("".join(f"{a}\t{b}\t{s}\n" for a, b, s in pairs))
    assert evaluate_file(model, tmp_path / "s").whole["used"] == 1
    row = evaluate_file(model, tmp_path / "s", EvaluationSettings(unseen="subwords")).whole
    assert row["used"] == 3
    cosines = [model.similarity(a, b) for a, b, _ in pairs]
    assert row["pearson"] == pytest.approx(np.corrcoef(cosines, [1, 2, 3])[0, 1], abs=1e-6)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "big5", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("at_most", [None, 200])
def test_a_file_is_read_in_the_encoding_it_is_in(tmp_path: Path, encoding: str, at_most: int | None) -> None:
    lines = ["老師\t學生\t5.5", "時間\t世界\t1.0", "電話\t國家\t0.5", "東方\t西方\t7.25"] * 10
    (tmp_path / "pairs.txt").write_bytes("\n".join(lines).encode(encoding))
    found = read_lines(tmp_path / "pairs.txt", at_most)
    assert found == lines[: len(found)]
    assert len(found) == len(lines) if at_most is None else 3 <= len(found) < len(lines)
