"""Multiple choice: a context, its alternatives and the right one. 选择题

One rule by the names of fields reads COPA, SWAG, HellaSwag, StoryCloze, RACE, C³, DREAM, CommonsenseQA, ARC,
WinoGrande, PIQA, ReClor, C-Eval and files like them: JSON lines, a JSON array, or a TSV or CSV with a header.

    context        a passage (one field, or several with numbers), a question, or both, joined by a blank
    alternatives   a list, or fields with numbers or letters: ending0 … ending3, A … D
    answer         the number of an alternative from 0 or 1, its letter, its own label, or its text
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from polyseme.data.columns import plain_name
from polyseme.data.labels import number
from polyseme.data.tables import (
    Lines,
    Table,
    detect_table,
    json_sample,
    json_values,
    plain_label,
    plain_text,
    read_rows,
)
from polyseme.errors import OptionError, close_matches

# Known names of fields, as ``plain_name`` spells them; the first one that a file has is used.
PASSAGES = (
    "article", "passage", "context", "ctx", "startphrase", "premise", "goal", "story", "dialogue", "sentence",
    "文章", "材料", "上下文",
)  # fmt: skip
PASSAGE_STEMS = ("inputsentence", "sent", "obs", "observation")  # before numbers
QUESTIONS = ("stem", "question", "questions", "query", "题目", "问题", "题干")
# The first that are lists; "answers" come last, which are those of RACE to its questions.
LISTS = ("choices", "endings", "options", "alternatives", "choice", "candidates", "选项", "answers")
STEMS = (
    "ending", "choice", "option", "alternative", "answer", "sol", "solution", "hyp", "hypothesis", "op",
    "randomfifthsentencequiz", "sentencequiz", "选项",
)  # fmt: skip
ANSWERS = ("label", "answerkey", "answer", "answers", "answerrightending", "goldlabel", "gold", "cop", "答案")
ROLES = ("context", "question", "alternatives", "answer")
_SUFFIXES = ([str(n) for n in range(26)], [str(n) for n in range(1, 27)], list(string.ascii_lowercase))
FORMS = ("letter", "text", "from 0", "from 1")  # of answers
_SHARE = 0.5  # of the first rows that must have a context and alternatives
_NO_ANSWER = ("", "-1")

Names = tuple[str, ...]
Record = Mapping[str, Any]


class Question(NamedTuple):
    """A row as it is read: passage and question are its context."""

    passage: str
    question: str
    alternatives: list[str]
    right: int


@dataclass(frozen=True)
class ChoiceLayout:
    """Which fields of a file are what, and how its answers are written."""

    format: str  # jsonl | json | tsv | csv
    passage: Names
    question: Names
    alternatives: Names  # one list, or several fields
    answer: str | None
    answers: str = "letter"  # one of FORMS
    table: Table | None = None  # of a TSV or CSV

    def facts(self) -> dict[str, Any]:
        """The fields that are used, for ``facts``."""
        used = {"context": self.passage, "question": self.question, "alternatives": self.alternatives}
        answer = {"answer": [self.answer]} if self.answer else {}
        columns = {role: list(names) for role, names in used.items() if names} | answer
        return {"columns": columns, **({"answers": self.answers} if answer else {})}


# ---- telling


def detect_choices(
    lines: Lines,
    *,
    format: str | None = None,
    columns: Mapping[str, Any] | None = None,
    trusted: bool = False,
    like: Mapping[str, Any] | None = None,
) -> ChoiceLayout | None:
    """The layout of a file of choices; None if it is not one. A ``trusted`` file may have bad rows at its beginning.

    ``like`` holds the facts of earlier choices: the same fields are used, and answers in the same form.
    """
    formats = (format,) if format else ("json", "jsonl") if lines.head.lstrip()[:1] in ("[", "{") else ("tsv", "csv")
    for one in formats:
        detected = _detected_before(lines, one, like) if like and not columns else None
        detected = detected or _detected(lines, one, columns)
        if detected is not None:
            layout, records = detected
            read = [_context_and_alternatives(record, layout) for record in records]
            if trusted or sum(isinstance(row, tuple) for row in read) >= max(_SHARE * len(read), 1):
                return layout
    return None


def _detected_before(
    lines: Lines, format: str, like: Mapping[str, Any]
) -> tuple[ChoiceLayout, Sequence[Record]] | None:
    """The layout of earlier choices, if this file has their fields; those of a file to predict may have no answer."""
    columns = like.get("columns")
    if like.get("kind") != "choices" or not isinstance(columns, dict):
        return None
    for wanted in (columns, {role: names for role, names in columns.items() if role != "answer"}):
        try:
            detected = _detected(lines, format, wanted)
        except OptionError:
            continue
        if detected and detected[0].answer and like.get("answers") in FORMS:
            return replace(detected[0], answers=like["answers"]), detected[1]
        return detected
    return None


def _detected(
    lines: Lines, format: str, columns: Mapping[str, Any] | None
) -> tuple[ChoiceLayout, Sequence[Record]] | None:
    head, table = lines.head_lines(), None
    if format in ("json", "jsonl"):
        if lines.head.lstrip()[:1] != {"json": "[", "jsonl": "{"}[format]:
            return None
        records = [record for item in json_sample(format, head, lines) for record in _flat(item)]
    elif format in ("tsv", "csv"):
        first = next((line for line in head if line.strip()), "")
        if _fields([name.strip(' "') for name in first.split("\t" if format == "tsv" else ",")], (), columns) is None:
            return None
        detected = detect_table(lines, format)
        if detected is None or not detected[1]:
            return None
        table = detected[0].with_header(detected[1][0])
        records = [dict(zip(table.names, row, strict=True)) for row in detected[1][1:] if len(row) == table.width]
    else:
        return None
    names = list(dict.fromkeys(name for record in records for name in record))
    lists = {name for record in records for name, value in record.items() if _listed(value)[0]}
    chosen = _fields(table.names if table else names, lists, columns, lines.name if columns else None)
    if chosen is None:
        return None
    layout = ChoiceLayout(format, *chosen, table=table)
    return replace(layout, answers=_written(records, layout)), records


def _fields(
    names: Sequence[str], lists: set[str] | tuple[()], wanted: Mapping[str, Any] | None, file: str | None = None
) -> tuple[Names, Names, Names, str | None] | None:
    """The fields of passage, question, alternatives and answer; None if there are no alternatives or no context."""
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault(plain_name(name), name)
    if wanted and file:
        return _asked(plain, wanted, file)
    if wanted:
        return (), (), (), None  # said later whether they are there
    passage = _named(plain, PASSAGES) or next((f for stem in PASSAGE_STEMS if (f := _numbered(plain, stem))), ())
    question = _named(plain, QUESTIONS)
    listed = next((plain[name] for name in LISTS if plain.get(name) in lists), None)
    alternatives = (listed,) if listed else next((f for stem in STEMS if (f := _numbered(plain, stem))), ())
    if not alternatives and question:
        alternatives = _numbered(plain, "")
    if not alternatives or not (passage or question):
        return None
    answer = next((plain[name] for name in ANSWERS if name in plain and plain[name] not in alternatives), None)
    if answer is None and listed and plain_name(listed) == "answers":  # all of them may be right
        return None
    return passage, question, alternatives, answer


def _named(plain: Mapping[str, str], known: Sequence[str]) -> Names:
    return next(((plain[name],) for name in known if name in plain), ())


def _numbered(plain: Mapping[str, str], stem: str) -> Names:
    """The fields called ``stem`` and a number or a letter, from the first on; () if there are not two."""
    for suffixes in _SUFFIXES if stem else _SUFFIXES[-1:]:
        last = next(n for n, suffix in enumerate([*suffixes, " "]) if stem + suffix not in plain)
        if last > (1 if stem else 2):
            return tuple(plain[stem + suffix] for suffix in suffixes[:last])
    return ()


def _asked(plain: Mapping[str, str], wanted: Mapping[str, Any], file: str) -> tuple[Names, Names, Names, str | None]:
    if not set(wanted) <= set(ROLES) or "alternatives" not in wanted or not {"context", "question"} & set(wanted):
        raise OptionError(f"columns of choices are {', '.join(ROLES)}; not {', '.join(wanted)}")
    found: dict[str, Names] = {}
    for role, given in wanted.items():
        fields: Names = ()
        for name in given if isinstance(given, list) else [given]:
            names = _named(plain, [plain_name(str(name))]) or _numbered(plain, plain_name(str(name)))
            if not names:
                hint = close_matches(str(name), plain.values())
                raise OptionError(f"{file} has no field {name!r}{hint}; its fields are {', '.join(plain.values())}")
            fields += names
        found[role] = fields
    answer = found.get("answer", (None,))[0]
    return found.get("context", ()), found.get("question", ()), found["alternatives"], answer


def _written(records: Sequence[Record], layout: ChoiceLayout) -> str:
    """How most of the first answers are written; numbers from 1 where one is the number of alternatives."""
    counts, numbers, past = {"text": 0, "letter": 0, "number": 0}, set(), False
    for record in records:
        row, answer = _context_and_alternatives(record, layout), _answer(record, layout)
        if answer in _NO_ANSWER or not isinstance(row, tuple) or answer in row[3]:
            continue
        value = number(answer)
        counts["text"] += answer in map(str.strip, row[2])
        counts["letter"] += _letter(answer) is not None
        counts["number"] += value is not None
        if value is not None:
            numbers.add(value)
            past = past or value == len(row[2])
    best = max(counts, key=lambda form: counts[form])
    if best != "number":
        return best if counts[best] else "letter"
    from_one = past or plain_name(layout.answer or "") != "label"
    return "from 1" if from_one and 0 not in numbers else "from 0"


# ---- reading


def read_choices(lines: Lines, layout: ChoiceLayout, *, unlabelled: bool) -> Iterator[tuple[int, Question | None, str]]:
    """Every row as (line, question, ""), or (line, None, what is wrong); ``unlabelled`` rows need no answer."""
    for line, records, fault in _records(lines, layout):
        if fault:
            yield line, None, fault
        for record in records:
            row = _context_and_alternatives(record, layout)
            if isinstance(row, str):
                yield line, None, row
                continue
            passage, question, alternatives, marks = row
            right = _right(_answer(record, layout), alternatives, marks, layout.answers)
            if isinstance(right, str) and not unlabelled:
                yield line, None, right
            else:
                yield line, Question(passage, question, alternatives, -1 if isinstance(right, str) else right), ""


def _records(lines: Lines, layout: ChoiceLayout) -> Iterator[tuple[int, list[Record], str]]:
    if layout.table is not None:
        for line, cells, fault in read_rows(lines, layout.table):
            yield line, [] if fault else [dict(zip(layout.table.names, cells, strict=True))], fault
        return
    for line, value, fault in json_values(lines, layout.format):
        records = [] if fault else _flat(value)
        yield line, records, fault or ("" if records else "has no questions")


def _flat(item: Any) -> list[Record]:
    """One record per question: of RACE's parallel lists, C³'s arrays [lines, questions, id], and questions within."""
    if isinstance(item, list) and len(item) > 1 and isinstance(item[1], list):
        return [{"context": item[0], **one} for one in item[1] if isinstance(one, dict)]
    if not isinstance(item, dict):
        return []
    asked = item.get("questions")
    if isinstance(asked, list) and all(isinstance(one, dict) for one in asked):
        return [{**item, **one} for one in asked]
    if isinstance(asked, list):
        parallel = {
            name: values for name, values in item.items() if isinstance(values, list) and len(values) == len(asked)
        }
        return [{**item, **{name: values[n] for name, values in parallel.items()}} for n in range(len(asked))]
    within = item.get("question")
    return [{**item, **within}] if isinstance(within, dict) else [item]


def _context_and_alternatives(record: Record, layout: ChoiceLayout) -> tuple[str, str, list[str], list[str]] | str:
    """Passage, question, alternatives and the labels that these have; or what is wrong."""
    passage, question = (
        " ".join(text for name in names if (text := _text(record.get(name))))
        for names in (layout.passage, layout.question)
    )
    if not passage.strip() and not question.strip():
        return "has no context"
    if len(layout.alternatives) == 1:
        given, marks = _listed(record.get(layout.alternatives[0]))
    else:
        given, marks = [record.get(name) for name in layout.alternatives], []
        while given and given[-1] in (None, ""):
            given.pop()
    alternatives = [None if isinstance(one, list) else _text(one) for one in given]
    if len(alternatives) < 2:
        return "has fewer than two alternatives"
    if None in alternatives:
        return "has an alternative that is not text"
    return passage, question, [one or "" for one in alternatives], marks


def _listed(value: Any) -> tuple[list[Any], list[str]]:
    """Alternatives and their labels: of a list, of {label, text}s, of {label: […], text: […]} or of {A: …, B: …}."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return [one.get("text") for one in value], [plain_label(one.get("label")) or "" for one in value]
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        labels = value.get("label")
        return value["text"], [plain_label(one) or "" for one in labels] if isinstance(labels, list) else []
    if isinstance(value, dict):
        return list(value.values()), list(value)
    return (value, []) if isinstance(value, list) else ([], [])


def _text(value: Any) -> str | None:
    """A value as text; lines are joined, numbers written out."""
    if isinstance(value, list):
        return " ".join(text for one in value if (text := plain_text(one)))
    return plain_text(value) if isinstance(value, str) else plain_label(value)


def _answer(record: Record, layout: ChoiceLayout) -> str:
    return plain_label(record.get(layout.answer)) or "" if layout.answer else ""


def _letter(answer: str) -> int | None:
    """The place of a letter in the alphabet; None if the answer is not A, (B), c. …"""
    bare = answer.strip("().、（） ").casefold()
    return string.ascii_lowercase.index(bare) if len(bare) == 1 and bare in string.ascii_lowercase else None


def _right(answer: str, alternatives: Sequence[str], marks: Sequence[str], written: str) -> int | str:
    """The number of the right alternative; or what is wrong."""
    if answer in _NO_ANSWER and answer not in marks:
        return "has no answer"
    place: float | None = None
    if answer in marks:
        place = marks.index(answer)
    elif written == "text":
        place = next((n for n, text in enumerate(alternatives) if text.strip() == answer), None)
    elif written == "letter":
        place = _letter(answer)
    elif (value := number(answer)) is not None:
        place = value - (written == "from 1")
    if place is None or place not in range(len(alternatives)):
        return f"has the answer {answer[:20]!r}, which is none of its {len(alternatives)} alternatives"
    return int(place)
