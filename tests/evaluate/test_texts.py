"""Sentence pairs, words in context and retrieval, beside scikit-learn's and SciPy's figures."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import ndcg_score, roc_auc_score

import polyseme
from polyseme.cli.main import main
from polyseme.contexts.static import StaticEncoder
from polyseme.errors import FormatError, TextError
from polyseme.evaluate.kinds import evaluate_file, recognise_kind
from polyseme.evaluate.report import EvaluationSettings
from polyseme.evaluate.sentence_pairs import best_threshold
from polyseme.interfaces import EncodedSentence
from polyseme.sentences.lift import lift
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

WORDS = ["the", "a", "cat", "dog", "man", "child", "plays", "runs", "eats", "sleeps", "music", "football"]
WORDS += ["food", "water", "boards", "Room"]
random = np.random.default_rng(3)
PAIRS = [
    (" ".join(random.choice(WORDS, 5)), " ".join(random.choice(WORDS, 6)), round(float(random.uniform(0, 5)), 2))
    for _ in range(40)
]


@pytest.fixture(scope="module")
def words():
    return WordVectors(Vocabulary(WORDS, np.arange(16, 0, -1)), random.normal(size=(16, 6)).astype(np.float32))


def cosines(model, pairs):
    encoder = lift(model, "sentences")
    return [float(encoder.similarity([a], [b])[0, 0]) for a, b, _ in pairs]


def written(path, rows, mark):
    path.write_text("".join(mark.join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["stsb.csv", "stsb.tsv", "stsb with licences.tsv", "cnsd", "sick", "sts2012"])
def test_sentence_pairs_of_every_published_format_are_ranked_by_cosine(words, tmp_path, form):
    rows = {
        "stsb.csv": ([(f'"{a}"', b, s) for a, b, s in PAIRS], ","),
        "stsb.tsv": ([("main", "msr", "2012", f"{i:04}", s, a, b) for i, (a, b, s) in enumerate(PAIRS)], "\t"),
        "stsb with licences.tsv": (
            [("main", "msr", "2012", i, s, a, b, *["CC-BY"] * (i % 7 == 2)) for i, (a, b, s) in enumerate(PAIRS)],
            "\t",
        ),
        "cnsd": ([(f"dev-{i}", a, b, s) for i, (a, b, s) in enumerate(PAIRS)], "||"),
        "sick": (
            [
                ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"),
                *((i, a, b, s, "NEUTRAL") for i, (a, b, s) in enumerate(PAIRS)),
            ],
            "\t",
        ),
        "sts2012": ([(s, a, b) for a, b, s in PAIRS], "\t"),
    }[form]
    file = written(tmp_path / form, *rows)
    assert recognise_kind(file).name == "sts"
    found = evaluate_file(words, file).whole
    people = [score for _, _, score in PAIRS]
    assert found["spearman"] == pytest.approx(spearmanr(people, cosines(words, PAIRS)).statistic, abs=1e-6)
    assert found["pearson"] == pytest.approx(pearsonr(people, cosines(words, PAIRS)).statistic, abs=1e-5)
    assert found["used"] == found["total"] == 40


def test_a_folder_of_sets_says_how_they_are_joined(words, tmp_path):
    parts = {"one.tsv": PAIRS[:10], "two.tsv": PAIRS[10:]}
    for name, pairs in parts.items():
        written(tmp_path / name, [(s, a, b) for a, b, s in pairs], "\t")
    (tmp_path / "readme.txt").write_text("Pairs of sentences.\n", encoding="utf-8")
    rows = {row["section"]: row["spearman"] for row in evaluate_file(words, tmp_path).rows}
    one, two, whole = (spearmanr([s for *_, s in p], cosines(words, p)).statistic for p in (*parts.values(), PAIRS))
    wanted = {
        "one.tsv": one,
        "two.tsv": two,
        "mean of the sets": (one + two) / 2,
        "mean weighted by pairs": (10 * one + 30 * two) / 40,
        "all pairs together": whole,
    }
    assert rows == pytest.approx(wanted, abs=1e-6)


def test_sparse_vectors_of_sentence_pairs_are_never_made_dense(tmp_path, monkeypatch):
    texts = [text for a, b, _ in PAIRS for text in (a, b)]
    model = polyseme.train("tfidf", Corpus.from_sentences(texts), min_count=1)
    file = written(tmp_path / "a.tsv", [(s, a, b) for a, b, s in PAIRS], "\t")
    people, expected = [s for *_, s in PAIRS], cosines(model, PAIRS)
    monkeypatch.setattr(type(model), "encode_batch", None)
    found = evaluate_file(model, file).whole
    assert found["pearson"] == pytest.approx(pearsonr(people, expected).statistic, abs=1e-5)
    assert found["used"] == len(PAIRS)


def test_bad_rows_of_one_file_are_named(words, tmp_path):
    file = written(tmp_path / "a.tsv", [(s, a, b) for a, b, s in PAIRS] + [(1.0, "a")], "\t")
    with pytest.raises(TextError, match="line 41 has 2 columns instead of 3"):
        evaluate_file(words, file)


class Neighbour(StaticEncoder):
    """A context encoder for tests: the vector of a word is that of the word before it."""

    def encode_tokens(self, sentences, *, layers="all"):
        for sentence in super().encode_tokens(sentences, layers=layers):
            yield EncodedSentence(sentence.tokens, np.roll(sentence.layers, 1, axis=1))


WIC = [
    ("board", "N", "2-2", "Room a boards", "the cat boards"),
    ("board", "N", "1-1", "the boards", "the boards , dog"),
    ("board", "N", "1-2", "dog boards", "a dog boards"),
    ("board", "N", "1-1", "food boards", "water boards"),
]


def test_words_in_context_are_compared_where_they_stand(words, tmp_path):
    written(tmp_path / "dev.data.txt", WIC, "\t")
    (tmp_path / "dev.gold.txt").write_text("F\nT\nT\nF\n", encoding="utf-8")
    found = evaluate_file(
        Neighbour(words), tmp_path / "dev.data.txt", EvaluationSettings(dev=tmp_path / "dev.data.txt")
    ).whole
    assert (found["accuracy"], found["auc"], found["used"]) == (1, 1, 4)  # the words before are equal where it is T
    records = [
        {"lemma": w, "sentence1": a, "sentence2": b, "start1": a.index("boards"), "end1": a.index("boards") + 6,
         "start2": b.index("boards"), "end2": b.index("boards") + 6} for w, _, _, a, b in WIC
    ]  # fmt: skip
    (tmp_path / "zh.data").write_text(json.dumps(records, indent=1), encoding="utf-8")
    (tmp_path / "zh.gold").write_text(json.dumps([{"tag": t} for t in "FTTF"]), encoding="utf-8")
    again = evaluate_file(
        Neighbour(words), tmp_path / "zh.data", EvaluationSettings(dev=tmp_path / "dev.data.txt")
    ).whole
    assert again == found
    static = evaluate_file(words, tmp_path / "zh.data").whole  # the same vector everywhere: nothing is told apart
    assert (static["auc"], static["accuracy"]) == (0.5, None)
    (tmp_path / "zh.gold").unlink()
    with pytest.raises(FormatError, match=r"zh.gold is missing"):
        evaluate_file(words, tmp_path / "zh.data")


def test_words_in_context_with_their_answers_in_the_file(words, tmp_path):
    """The table of XL-WiC and SuperGLUE's JSON lines are one file each."""
    answers = [False, True, True, False]
    places = [(a, b, a.index("boards"), b.index("boards")) for _, _, _, a, b in WIC]
    written(
        tmp_path / "en_valid.txt",
        [("board", "N", i, i + 6, j, j + 6, a, b, int(t)) for (a, b, i, j), t in zip(places, answers, strict=True)],
        "\t",
    )
    records = [
        {"word": "board", "sentence1": a, "sentence2": b, "idx": 0, "label": t, "start1": i, "start2": j, "end1": i + 6,
         "end2": j + 6, "version": 1.1} for (a, b, i, j), t in zip(places, answers, strict=True)
    ]  # fmt: skip
    (tmp_path / "val.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    for name in ("en_valid.txt", "val.jsonl"):
        path = tmp_path / name
        report = evaluate_file(Neighbour(words), path, EvaluationSettings(dev=path))
        assert (report.kind, report.whole["accuracy"], report.whole["used"]) == ("word-in-context", 1, 4)
    (tmp_path / "val.jsonl").write_text(json.dumps({**records[0], "label": "perhaps"}), encoding="utf-8")
    with pytest.raises(FormatError, match=r"val.jsonl is not a word-in-context file"):
        evaluate_file(words, tmp_path / "val.jsonl")


def test_the_same_vector_everywhere_tells_nothing_apart_for_any_words(words, tmp_path):
    uses = [(w, "N", "0-0", f"{w} a", f"{w} the") for w in WORDS]
    written(tmp_path / "all.data.txt", uses, "\t")
    (tmp_path / "all.gold.txt").write_text("T\nF\nF\nT\n" * 4, encoding="utf-8")
    assert evaluate_file(words, tmp_path / "all.data.txt").whole["auc"] == 0.5


def test_the_threshold_is_the_best_there_is():
    scores = np.round(random.uniform(size=60), 1).astype(np.float32)
    gold = random.uniform(size=60) < scores
    best = max(np.mean((scores > t) == gold) for t in np.linspace(-1, 2, 3001))
    assert np.mean((scores > best_threshold(scores, gold)) == gold) == best
    assert roc_auc_score(gold, scores) > 0.5


def test_retrieval_gives_recall_reciprocal_rank_and_ndcg(words, tmp_path, capsys, monkeypatch):
    texts = [" ".join(random.choice(WORDS, 4)) for _ in range(30)]
    queries = [" ".join(random.choice(WORDS, 4)) for _ in range(12)]
    gold = [sorted(random.choice(30, size=n, replace=False).tolist()) for n in (1, 2, 3) * 4]
    written(tmp_path / "texts", [[t] for t in texts], "")
    written(
        tmp_path / "queries",
        [(q, ",".join(str(n + 1) for n in own)) for q, own in zip(queries, gold, strict=True)],
        "\t",
    )
    words.save(tmp_path / "m")
    command = ["evaluate", tmp_path / "m", tmp_path / "queries", "--texts", tmp_path / "texts", "--json"]
    monkeypatch.setattr(sys, "argv", ["polyseme", *map(str, command)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    rows = {row["section"]: row for row in json.loads(capsys.readouterr().out)[0]["rows"]}
    scores = lift(words, "sentences").similarity(queries, texts)
    relevant = np.array([[n in own for n in range(30)] for own in gold])
    order = np.argsort(-scores, axis=1, kind="stable")
    hits = np.take_along_axis(relevant, order, axis=1)
    for depth in (1, 5, 10):
        row = rows[f"at {depth}"]
        assert row["ndcg"] == pytest.approx(ndcg_score(relevant, scores, k=depth), abs=1e-6)
        assert row["recall"] == pytest.approx(np.mean(hits[:, :depth].sum(axis=1) / relevant.sum(axis=1)))
        assert row["mrr"] == pytest.approx(np.mean(1 / (1 + hits.argmax(axis=1))))
    (tmp_path / "gold").write_text("31\n" * 12, encoding="utf-8")
    written(tmp_path / "plain", [[q] for q in queries], "")
    with pytest.raises(FormatError, match="beyond the 30 texts"):
        evaluate_file(words, tmp_path / "plain", EvaluationSettings(texts=tmp_path / "texts", gold=tmp_path / "gold"))


def test_texts_are_named_by_their_line_whatever_else_breaks_lines(words, tmp_path):
    queries, texts = tmp_path / "queries", tmp_path / "texts"
    lines = [f"{WORDS[0]} {WORDS[1]}", "", f"{WORDS[2]}\u2028{WORDS[3]}", f"{WORDS[4]} {WORDS[5]}"]
    texts.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
    queries.write_text(f"{WORDS[4]} {WORDS[5]}\t4\n{WORDS[0]} {WORDS[1]}\t1\n", encoding="utf-8")
    assert evaluate_file(words, queries, EvaluationSettings(texts=texts)).whole["mrr"] == 1
    queries.write_text(f"{WORDS[0]}\t2\n", encoding="utf-8")
    with pytest.raises(FormatError, match="empty line"):
        evaluate_file(words, queries, EvaluationSettings(texts=texts))


def test_a_long_word_in_context_file_may_be_one_line_of_json(words, tmp_path):
    uses = {"lemma": "x", "sentence1": f"{WORDS[0]} " * 40, "sentence2": f"{WORDS[1]} " * 40}
    places = {"start1": 0, "end1": 1, "start2": 0, "end2": 1}
    (tmp_path / "zh.data").write_text(json.dumps([uses | places] * 200), encoding="utf-8")
    (tmp_path / "zh.gold").write_text(json.dumps([{"tag": t} for t in "TF" * 100]), encoding="utf-8")
    assert evaluate_file(words, tmp_path / "zh.data").kind == "word-in-context"
