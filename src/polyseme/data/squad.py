"""Passages with questions and answers: SQuAD 1.1 and 2.0, CMRC 2018 in both its forms, XQuAD, DRCD. 阅读理解

If an answer is not at the offset given in the file, its nearest occurrence in the passage is used instead: in CMRC's
trial file, five of a thousand offsets are off by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from polyseme.data.rows import Answer, Passage
from polyseme.data.tables import Lines, items, plain_text
from polyseme.errors import TextError

_DATA = re.compile(r'\s*\{(?s:.*?)"data"\s*:\s*\[|\s*\[\s*\{')
_PASSAGES = re.compile(r'"(paragraphs|qas|context|context_text)"\s*:')
_CONTEXT = ("context", "context_text")
_QUESTION = ("question", "query_text")
_ID = ("id", "query_id")


def is_squad(lines: Lines) -> bool:
    """Whether the file is SQuAD-style JSON: an object or array of passages."""
    return bool(_DATA.match(lines.head) and _PASSAGES.search(lines.head[: 1 << 17]))


class SquadReader:
    """Reads the questions of a file.

    ``moved`` counts the answers that were not at the given offset, ``unanswered`` the questions without any field for
    answers, not even an empty one.
    """

    def __init__(self) -> None:
        self.moved = self.unanswered = 0

    def read(self, lines: Lines) -> Iterator[tuple[int, Passage | None, str]]:
        """Every question as (line of its article, passage, ""), or (line, None, what is wrong)."""
        for line, article in items(lines.chunks(), lines.name):
            for paragraph in _listed(article, "paragraphs") or [article]:
                passage = _text(paragraph, _CONTEXT)
                questions = _listed(paragraph, "qas")
                if passage is None or questions is None:
                    yield line, None, "has an article without passages and questions"
                    continue
                for question in questions:
                    yield line, *self._checked(passage, question)

    def _checked(self, passage: str, record: Any) -> tuple[Passage | None, str]:
        try:
            return self._question(passage, record), ""
        except TextError as error:
            return None, str(error)

    def _question(self, passage: str, record: Any) -> Passage:
        question = _text(record, _QUESTION)
        if question is None:
            raise TextError("has a passage with a question that is not text")
        name = str(next((record[key] for key in _ID if key in record), ""))
        self.unanswered += "answers" not in record and "is_impossible" not in record
        given = [] if record.get("is_impossible") else record.get("answers") or []
        answers = [self._answer(passage, answer, name or question[:20]) for answer in given]
        return Passage(passage, question, answers, name)

    def _answer(self, passage: str, record: Any, name: str) -> Answer:
        text = plain_text(record if isinstance(record, str) else _field(record, "text"))
        start = _field(record, "answer_start")
        if not text:
            raise TextError(f"has a question {name} with an answer that is not text")
        if isinstance(start, int) and start >= 0 and passage.startswith(text, start):
            return Answer(text, start)
        places = [match.start() for match in re.finditer(re.escape(text), passage)]
        if not places:
            raise TextError(f"has a question {name} whose answer {text[:20]!r} is not in the passage")
        if not isinstance(start, int):
            return Answer(text, places[0])
        self.moved += 1
        return Answer(text, min(places, key=lambda place: abs(place - start)))


def _field(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, dict) else None


def _listed(record: Any, name: str) -> list[Any] | None:
    value = _field(record, name)
    return value if isinstance(value, list) else None


def _text(record: Any, names: tuple[str, ...]) -> str | None:
    return next((text for name in names if (text := plain_text(_field(record, name))) is not None), None)
