"""Figures against scikit-learn, SciPy and seqeval, and against answers worked out by hand."""

from __future__ import annotations

import itertools
import random
import warnings

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
from sklearn import metrics as sk

from polyseme.data.schemes import allowed, scheme_of, stretches
from polyseme.learn.metrics import answers, classification, confusion, per_label, per_type, scores, tagging

SCHEMES = {"bio": "BI", "bioes": "BIES", "bmes": "BMES"}


def random_labels(seed: int, names: str, n: int = 200) -> list[str]:
    return random.Random(seed).choices(names, k=n)


@pytest.mark.parametrize("names", ["ab", "abc", "abcdefg"])
def test_figures_of_classes_are_scikit_learns(names):
    gold, predicted = random_labels(1, names), random_labels(2, names[1:] + names)
    found = classification(gold, predicted)
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(gold, predicted))
    assert found["macro_f1"] == pytest.approx(sk.f1_score(gold, predicted, average="macro"))
    assert found["micro_f1"] == pytest.approx(sk.f1_score(gold, predicted, average="micro"))
    assert found["matthews"] == pytest.approx(sk.matthews_corrcoef(gold, predicted))
    if names == "ab":
        assert found["f1"] == pytest.approx(sk.f1_score(gold, predicted, pos_label="b"))
    np.testing.assert_array_equal(confusion(gold, predicted, names), sk.confusion_matrix(gold, predicted))
    report = sk.classification_report(gold, predicted, output_dict=True)
    for row in per_label(gold, predicted):
        expected = report[row["label"]]
        assert [row["precision"], row["recall"], row["f1"], row["n"]] == pytest.approx(
            [expected["precision"], expected["recall"], expected["f1-score"], expected["support"]]
        )


def test_one_label_only_or_nothing_at_all_has_defined_figures():
    assert classification(["a", "a"], ["a", "a"])["matthews"] == 0
    assert classification(["a", "a"], ["b", "b"])["macro_f1"] == 0
    assert set(classification([], []).values()) == {0.0}
    assert classification(["b", "b"], ["b", "b"], ["a", "b"])["f1"] == 1
    assert classification(["a", "a"], ["a", "a"], ["a", "b"])["f1"] == 0
    assert "f1" not in classification(["a", "b"], ["a", "b"], ["a", "b", "c"])
    assert scores([1.0], [2.0])["pearson"] == 0
    assert scores([1.0, 2.0], [3.0, 3.0])["spearman"] == 0


def test_correlations_are_scipys_ties_included():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 6, 300).astype(float)
    predicted = np.round(gold + rng.normal(0, 2, 300))
    found = scores(gold, predicted)
    assert found["pearson"] == pytest.approx(stats.pearsonr(gold, predicted)[0])
    assert found["spearman"] == pytest.approx(stats.spearmanr(gold, predicted)[0])
    assert found["mse"] == pytest.approx(sk.mean_squared_error(gold, predicted))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(5))
def test_entity_f1_is_seqevals_on_any_tags_however_broken(scheme, seed):
    rng = random.Random(seed)
    tags = ["O", "O", *(f"{prefix}-{kind}" for prefix in SCHEMES[scheme] for kind in ("PER", "LOC", "A-B"))]
    lengths = [rng.randint(1, 12) for _ in range(60)]
    gold, predicted = ([rng.choices(tags, k=n) for n in lengths] for _ in range(2))
    predicted = [[g if rng.random() < 0.7 else p for g, p in zip(*pair, strict=True)]
                 for pair in zip(gold, predicted, strict=True)]  # fmt: skip
    found = tagging(gold, predicted)
    # seqeval knows the middle of an entity as I.
    known = [[[tag.replace("M-", "I-") for tag in sentence] for sentence in some] for some in (gold, predicted)]
    assert found["entity_f1"] == pytest.approx(f1_score(*known))
    assert found["entity_precision"] == pytest.approx(precision_score(*known))
    assert found["entity_recall"] == pytest.approx(recall_score(*known))
    assert found["accuracy"] == pytest.approx(accuracy_score(*known))
    each = f1_score(*known, average=None)
    assert [row["f1"] for row in per_type(gold, predicted)] == pytest.approx(list(each))


def test_no_entities_at_all_is_an_f1_of_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tagging([["O", "O"]], [["O", "O"]])["entity_f1"] == f1_score([["O", "O"]], [["O", "O"]])


def test_schemes_are_told_by_their_tags():
    assert scheme_of(["O", "B-X", "I-X"]) == "bio"
    assert scheme_of(["O", "B-X", "I-X", "E-X", "S-X"]) == "bioes"
    assert scheme_of(["O", "B-X", "M-X", "E-X"]) == "bmes"
    for tags in (["NN", "VB"], ["O"], ["B-X", "M-X", "I-X"], ["B-"]):
        assert scheme_of(tags) is None
    assert stretches(["B-A-B", "I-A-B", "O"]) == [("A-B", 0, 2)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_allowed_sequences_are_those_that_mark_what_they_were_made_of(scheme):
    tags = ["O", *(f"{prefix}-{kind}" for prefix in SCHEMES[scheme] for kind in "XY")]
    first, follow, last = allowed(tags)
    middle = "M" if scheme == "bmes" else "I"

    def written(marked: list[tuple[str, int, int]], n: int) -> list[str]:
        names = ["O"] * n
        for kind, start, end in marked:
            names[start:end] = [f"B-{kind}", *[f"{middle}-{kind}"] * (end - start - 1)]
            if scheme != "bio":
                names[end - 1] = f"E-{kind}" if end - start > 1 else f"S-{kind}"
        return names

    place = {tag: i for i, tag in enumerate(tags)}
    rng = random.Random(0)
    for _ in range(2000):
        sequence = rng.choices(tags, k=4)
        ids = [place[tag] for tag in sequence]
        is_allowed = first[ids[0]] and all(follow[a, b] for a, b in itertools.pairwise(ids)) and last[ids[-1]]
        assert is_allowed == (written(stretches(sequence), 4) == sequence), sequence


def test_english_answers_are_counted_as_squad_does():
    assert answers([["the Norman conquest"]], ["Norman Conquest!"]) == {"exact_match": 1.0, "f1": 1.0}
    found = answers([["in 1066", "year 1066 of our lord"]], ["1066"])
    assert found["exact_match"] == 0
    assert found["f1"] == pytest.approx(2 / 3)


def test_chinese_answers_are_counted_by_character_as_cmrc_does():
    # The longest run in common is 大学 of 2, of 4 and 3 characters: F1 = 2·2/7.
    assert answers([["北京大学"]], ["大学生"])["f1"] == pytest.approx(4 / 7)
    assert answers([["《红楼梦》"]], ["红楼梦"]) == {"exact_match": 1.0, "f1": 1.0}
    # Latin words and numbers are one piece each: [韩, 国, nexon] and [nexon].
    assert answers([["韩国Nexon"]], ["Nexon"])["f1"] == pytest.approx(2 / 4)
    assert answers([["2011年"]], ["2011"])["f1"] == pytest.approx(2 / 3)


def test_no_answer_is_right_where_there_is_none():
    assert answers([[], []], ["", "something"]) == {"exact_match": 0.5, "f1": 0.5}
