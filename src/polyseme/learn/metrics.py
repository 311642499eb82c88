"""How good predictions are (评价指标): each function gives named figures between -1 and 1.

``accuracy macro_f1 micro_f1 matthews f1`` of classes, ``pearson spearman`` of scores, ``entity_f1`` of tags (equal to
seqeval's), ``exact_match f1`` of answers: English as SQuAD counts them, Chinese by character as CMRC 2018 does.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.data.schemes import TaggedStretch, stretches
from polyseme.errors import OptionError
from polyseme.text.segment import has_han

Figures = dict[str, float]

_CMRC_HAN = re.compile("[\u4e00-\u9fa5]")  # as CMRC's own program has it
# The marks that CMRC's own program omits, and that end a run of Latin letters there.
_CMRC_MARKS = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_LATIN = re.compile(r"\w+|[^\w\s]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def check_metric(metric: str, figures: Collection[str]) -> None:
    """Refuse a metric that is not among the figures of a task."""
    if metric not in figures:
        raise OptionError(f"there is no metric {metric!r} here: there are {', '.join(figures)}")


# ---- classes


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> NDArray[np.int64]:
    """How often each label (row) was called each label (column)."""
    place = {label: i for i, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(table, ([place[label] for label in gold], [place[label] for label in predicted]), 1)
    return table


def classification(gold: Sequence[str], predicted: Sequence[str], known: Sequence[str] = ()) -> Figures:
    """Figures over the labels that occur. Of two labels ``f1`` is that of the later one in the alphabet (1, yes).

    ``known`` are labels that might have occurred: the two of ``f1`` are among these too.
    """
    labels = sorted({*gold, *predicted})
    table = confusion(gold, predicted, labels).astype(np.float64)
    hits, of_gold, of_predicted = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    f1 = _ratio(2 * hits, of_gold + of_predicted)
    n = table.sum()
    spread = np.sqrt((n**2 - (of_gold**2).sum()) * (n**2 - (of_predicted**2).sum()))
    accuracy = float(_ratio(hits.sum(), n))
    figures = {
        "accuracy": accuracy,
        "macro_f1": float(f1.mean()) if labels else 0.0,
        "micro_f1": accuracy,  # every text has one label
        "matthews": float(_ratio(hits.sum() * n - of_gold @ of_predicted, spread)),
    }
    both = sorted({*labels, *known})
    if len(both) == 2:
        figures["f1"] = float(f1[-1]) if both[1] in labels else 0.0
    return figures


def per_label(gold: Sequence[str], predicted: Sequence[str]) -> list[dict[str, str | float | int]]:
    """Precision, recall, F1 and number of every label."""
    labels = sorted({*gold, *predicted})
    table = confusion(gold, predicted, labels)
    rows: list[dict[str, str | float | int]] = []
    for i, label in enumerate(labels):
        hits, of_gold, of_predicted = int(table[i, i]), int(table[i].sum()), int(table[:, i].sum())
        rows.append({"label": label, **precision_recall_f1(hits, of_predicted, of_gold), "n": of_gold})
    return rows


def precision_recall_f1(hits: int, predicted: int, gold: int) -> Figures:
    """The three figures; 0 if nothing was there to be counted."""
    return {
        "precision": float(_ratio(hits, predicted)),
        "recall": float(_ratio(hits, gold)),
        "f1": float(_ratio(2 * hits, predicted + gold)),
    }


def _ratio(above: NDArray[np.float64] | float, below: NDArray[np.float64] | float) -> NDArray[np.float64]:
    above, below = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    return np.divide(above, below, out=np.zeros(below.shape), where=below > 0)


# ---- scores


def scores(gold: Sequence[float], predicted: Sequence[float]) -> Figures:
    """Correlations and the mean squared error; a constant correlates with nothing."""
    a, b = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    error = float(((a - b) ** 2).mean()) if len(a) else 0.0
    return {"pearson": _correlation(a, b), "spearman": _correlation(_ranks(a), _ranks(b)), "mse": error}


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]  # ties share the mean of their ranks


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if len(a) < 2:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    return float(_ratio(a @ b, np.sqrt((a @ a) * (b @ b))))


# ---- tags


def tagging(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Figures:
    """F1 of the marked stretches, type and both ends right, over all sentences; and the accuracy of the tags."""
    marked, guessed = _stretches_of_all(gold), _stretches_of_all(predicted)
    counted = precision_recall_f1(len(marked & guessed), len(guessed), len(marked))
    right = sum(a == b for pair in zip(gold, predicted, strict=True) for a, b in zip(*pair, strict=True))
    return {
        **{f"entity_{name}": value for name, value in counted.items()},
        "accuracy": float(_ratio(right, sum(map(len, gold)))),
    }


def per_type(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[dict[str, str | float | int]]:
    """The same for each type of stretch."""
    marked, guessed = _stretches_of_all(gold), _stretches_of_all(predicted)
    rows: list[dict[str, str | float | int]] = []
    for kind in sorted({stretch.type for _, stretch in marked | guessed}):
        n_marked, n_guessed, n_right = (
            sum(stretch.type == kind for _, stretch in counted) for counted in (marked, guessed, marked & guessed)
        )
        rows.append({"label": kind, **precision_recall_f1(n_right, n_guessed, n_marked), "n": n_marked})
    return rows


def _stretches_of_all(sentences: Sequence[Sequence[str]]) -> set[tuple[int, TaggedStretch]]:
    return {(number, stretch) for number, tags in enumerate(sentences) for stretch in stretches(tags)}


# ---- answers


def answers(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> Figures:
    """Exact match and F1 of answers, each against the best of its right ones; none means that "" is right.

    One Chinese answer makes the whole set Chinese: "2011" and "2011年" are then a word and a character apart.
    """
    chinese = any(has_han(answer) for some in gold for answer in some)
    same, overlap = (_same_cmrc, _overlap_cmrc) if chinese else (_same_squad, _overlap_squad)
    pairs = list(zip(predicted, gold, strict=True))
    exact = [max((same(answer, right) for right in some or [""]), default=0.0) for answer, some in pairs]
    partly = [max((overlap(answer, right) for right in some or [""]), default=0.0) for answer, some in pairs]
    n = max(len(pairs), 1)
    return {"exact_match": sum(exact) / n, "f1": sum(partly) / n}


def _same_squad(answer: str, right: str) -> float:
    return float(_squad_words(answer) == _squad_words(right))


def _overlap_squad(answer: str, right: str) -> float:
    a, b = _squad_words(answer), _squad_words(right)
    return _f1((Counter(a) & Counter(b)).total(), a, b)


def _squad_words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def _same_cmrc(answer: str, right: str) -> float:
    a, b = ("".join(c for c in text.lower().strip() if c not in _CMRC_MARKS) for text in (answer, right))
    return float(a == b)


def _overlap_cmrc(answer: str, right: str) -> float:
    a, b = _cmrc_pieces(answer), _cmrc_pieces(right)
    return _f1(_longest_common_run(a, b), a, b)


def _cmrc_pieces(text: str) -> list[str]:
    """Chinese character by character, anything else by words; marks omitted."""
    pieces, run = [], ""
    for character in text.lower().strip():
        if character in _CMRC_MARKS:
            continue
        if _CMRC_HAN.match(character):
            pieces += [*_LATIN.findall(run), character]
            run = ""
        else:
            run += character
    return [*pieces, *_LATIN.findall(run)]


def _longest_common_run(a: list[str], b: list[str]) -> int:
    best, before = 0, [0] * (len(b) + 1)
    for piece in a:
        now = [0] * (len(b) + 1)
        for j, other in enumerate(b):
            if piece == other:
                now[j + 1] = before[j] + 1
        best, before = max(best, *now), now
    return best


def _f1(common: int, a: list[str], b: list[str]) -> float:
    if not a or not b:
        return float(a == b)
    return 2 * common / (len(a) + len(b))


# What a task is judged by unless asked otherwise, and GLUE's choice for its own sets.
PRIMARY = {
    "texts": "accuracy", "pairs": "accuracy", "scores": "pearson", "tags": "entity_f1", "spans": "f1",
    "choices": "accuracy",
}  # fmt: skip
GLUE = {
    "cola": "matthews",
    "sst-2": "accuracy",
    "mrpc": "f1",
    "sts-b": "pearson",
    "qqp": "f1",
    "mnli": "accuracy",
    "qnli": "accuracy",
    "rte": "accuracy",
    "wnli": "accuracy",
}
