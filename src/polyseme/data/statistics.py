"""Statistics of labelled examples, and stratified splits. 统计与划分"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints
from polyseme.data.labels import Labels
from polyseme.data.rows import Answer, ChoiceRows, LabelledRows, Passage, PassageRows, Rows, TaggedRows, sorted_labels
from polyseme.data.tables import BadRows
from polyseme.errors import OptionError, TextError
from polyseme.text.segment import Segmentation, has_han
from polyseme.text.strings import well_formed


def facts_of(rows: Rows, order: Ints) -> dict[str, Any]:
    """Labels with their counts, or the range of scores; mean lengths in characters or words."""
    if isinstance(rows, LabelledRows):
        return _facts_of_labelled(rows, order)
    if isinstance(rows, TaggedRows):
        return _facts_of_tagged(rows, order)
    if isinstance(rows, ChoiceRows):
        return _facts_of_choices(rows, order)
    assert isinstance(rows, PassageRows)
    return _facts_of_passages(rows, order)


def _facts_of_labelled(rows: LabelledRows, order: Ints) -> dict[str, Any]:
    targets = rows.targets[order]
    if rows.names is None:
        scores = {"min": targets.min(), "mean": targets.mean(), "max": targets.max()} if len(order) else {}
        facts: dict[str, Any] = {"scores": {name: round(float(value), 4) for name, value in scores.items()}}
    else:
        counts = np.bincount(targets.astype(np.int64), minlength=len(rows.names)).tolist() if rows.names else []
        facts = {"labels": {name: n for name, n in zip(rows.names, counts, strict=True) if n}}
    roles = ("text",) if rows.kind == "texts" else ("first", "second")
    lengths, empty = [0] * len(roles), 0
    for i in order.tolist():
        parts = rows.parts(i)
        lengths = [length + len(part) for length, part in zip(lengths, parts, strict=True)]
        empty += not all(map(str.strip, parts))
    facts["mean_characters"] = {role: _mean(n, len(order)) for role, n in zip(roles, lengths, strict=True)}
    return {**facts, **({"with_an_empty_text": empty} if empty else {})}


def _facts_of_tagged(rows: TaggedRows, order: Ints) -> dict[str, Any]:
    counts: Counter[int] = Counter()
    for i in order.tolist():
        counts.update(rows.tag_numbers(i))
    names = {rows.names[number]: count for number, count in counts.items()}
    tokens = sum(names.values())
    labels = {name: names[name] for name in sorted_labels(names)}
    return {"labels": labels, "tokens": tokens, "mean_tokens": _mean(tokens, len(order))}


def _facts_of_passages(rows: PassageRows, order: Ints) -> dict[str, Any]:
    answered = asked = read = 0
    groups = rows.groups()
    passages: set[int] = set()
    for i in order.tolist():
        row = rows.row(i)
        answered += bool(row.answers)
        asked += len(row.question)
        read += 0 if groups[i] in passages else len(row.passage)
        passages.add(groups[i])
    means = {"passage": _mean(read, len(passages)), "question": _mean(asked, len(order))}
    return {"passages": len(passages), "answered": answered, "mean_characters": means}


def _facts_of_choices(rows: ChoiceRows, order: Ints) -> dict[str, Any]:
    numbers: Counter[int] = Counter()
    rights: Counter[int] = Counter()
    read = offered = 0
    for i in order.tolist():
        row = rows.row(i)
        numbers[len(row.alternatives)] += 1
        rights[row.right] += 1
        read += len(row.context)
        offered += sum(map(len, row.alternatives))
    means = {"context": _mean(read, len(order)), "alternative": _mean(offered, sum(n * k for n, k in numbers.items()))}
    places = {str(place + 1): count for place, count in sorted(rights.items()) if place >= 0}
    counts = {str(number): count for number, count in sorted(numbers.items())}
    return {"alternatives": counts, "right_at": places, "mean_characters": means}


def _mean(total: float, number: int) -> float:
    return round(total / max(number, 1), 1)


def segmentation_for_tokens(rows: TaggedRows, usual: Segmentation) -> Segmentation:
    """The segmentation that fits the words of tagged sentences: by character if the Chinese words are characters."""
    sample = [token for i in range(min(len(rows), 200)) for token in rows.parts(i)]
    chinese = [token for token in sample if has_han(token)]
    characters = chinese and sum(len(token) == 1 for token in chinese) >= 0.99 * len(chinese)
    if not characters or usual.words:
        return usual
    return Segmentation("char", normalise=usual.normalise, script=usual.script, case=usual.case)


# ---- rows in memory


def kind_of_row(row: Sequence[Any]) -> str:
    """The kind of example that a tuple is, by its length and content."""
    if len(row) == 2 and isinstance(row[0], str):
        return "texts"
    if len(row) == 2:
        return "tags"
    if len(row) >= 3 and isinstance(row[2], (list, tuple)):
        return "spans"
    if len(row) == 3:
        return "pairs" if isinstance(row[1], str) else "choices"
    raise TextError(
        f"a row must be (text, label), (first, second, label), (tokens, tags), (context, alternatives, right) or a "
        f"Passage, not {row!r:.60}"
    )


def filled_rows(given: Sequence[Sequence[Any]], kind: str, scored: bool | None) -> tuple[Rows, bool]:
    """Store rows given in memory; also returns whether their labels are scores."""
    if kind == "tags":
        tagged = TaggedRows()
        for number, (tokens, tags) in enumerate(given):
            if len(tokens) != len(tags) or not tokens:
                raise TextError(f"row {number}: {len(tokens)} words and {len(tags)} tags")
            tagged.append([_clean(token) for token in tokens], [str(tag) for tag in tags])
        return tagged, False
    if kind == "spans":
        passages = PassageRows()
        for row in given:
            answers = [Answer(_clean(text), int(start)) for text, start in row[2]]
            passages.append(Passage(_clean(row[0]), _clean(row[1]), answers, str(row[3]) if len(row) > 3 else ""))
        return passages, False
    if kind == "choices":
        return _filled_choices(given), False
    return _filled_labelled(given, kind, scored)


def _filled_choices(given: Sequence[Sequence[Any]]) -> ChoiceRows:
    rows = ChoiceRows()
    for number, row in enumerate(given):
        if len(row) not in (2, 3) or not isinstance(row[0], str) or not isinstance(row[1], (list, tuple)):
            raise TextError(f"row {number} is not (context, alternatives, number of the right one): {row!r:.60}")
        right = int(row[2]) if len(row) > 2 else -1
        if len(row[1]) < 2 or not -1 <= right < len(row[1]):
            raise TextError(f"row {number} has {len(row[1])} alternatives, and number {right} is the right one")
        rows.append(_clean(row[0]), "", [_clean(text) for text in row[1]], right)
    return rows


def _filled_labelled(given: Sequence[Sequence[Any]], kind: str, scored: bool | None) -> tuple[LabelledRows, bool]:
    rows, labels, bad = LabelledRows(kind), Labels(), BadRows("the rows", "strict")
    width = {"texts": 2, "pairs": 3}[kind]
    if scored is None and all(isinstance(row[-1], float) for row in given):
        scored = True
    for number, row in enumerate(given):
        if len(row) != width or not all(isinstance(text, str) for text in row[:-1]):
            raise TextError(f"row {number} is not {width - 1} text{'s' * (width > 2)} and a label: {row!r:.60}")
        rows.append([_clean(text) for text in row[:-1]])
        labels.add(str(row[-1]), f"row {number}")
    keep = labels.finish(rows, bad, scored=scored, called_score=False)
    if not keep.all() and not bad.number:
        raise TextError("the label '-' means no label: remove those rows")
    bad.finish(int(keep.sum()))
    return rows, labels.scored


def _clean(text: str) -> str:
    return well_formed(str(text).replace("\0", "\ufffd"))


# ---- parts


def held_out_rows(strata: Ints, groups: Ints, share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows to hold out: this share of every class, but no class with only one row; groups stay together."""
    first, of_row = _units(groups)
    order = _by_class(strata[first], seed)
    sizes = np.bincount(strata[first])
    order = order[sizes[strata[first][order]] > 1] if sizes.max() > 1 else order
    steps = np.floor(np.arange(len(order) + 1) * share + 0.5)
    held_out = np.zeros(len(first), dtype=bool)
    held_out[order[np.diff(steps) > 0]] = True
    if not held_out.any() and len(order) > 1:
        held_out[order[-1]] = True
    chosen: NDArray[np.bool_] = held_out[of_row]
    return chosen


def fold_of_rows(strata: Ints, groups: Ints, n: int, seed: int) -> Ints:
    """The fold of each row, with every class spread over all folds."""
    first, of_row = _units(groups)
    if not 2 <= n <= len(first):
        raise OptionError(f"folds must be between 2 and {len(first):,}, the number of distinct rows, not {n}")
    fold = np.empty(len(first), dtype=np.int64)
    fold[_by_class(strata[first], seed)] = np.arange(len(first)) % n
    places: Ints = fold[of_row]
    return places


def _units(groups: Ints) -> tuple[Ints, Ints]:
    """The first row of each group, and the group number of each row."""
    _, first, of_row = np.unique(groups, return_index=True, return_inverse=True)
    return first, of_row


def _by_class(strata: Ints, seed: int) -> Ints:
    """All row indices, class by class, in random order within a class."""
    shuffled = np.random.default_rng(seed).permutation(len(strata))
    return shuffled[np.argsort(strata[shuffled], kind="stable")]
