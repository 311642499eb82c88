"""What one asks of a task's model: labels of texts and pairs, tags of sentences, answers to questions, choices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from polyseme.errors import OptionError
from polyseme.serve.batch import Batcher
from polyseme.serve.library import Library, task_of
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.routes.encode import BATCH_CHARACTERS, MOST_CHARACTERS, WAIT
from polyseme.serve.shapes import AskPredict, Predictions

if TYPE_CHECKING:
    from polyseme.tasks.model import TaskModel

TAKES = {"classify": "texts", "pair": "pairs", "tag": "sentences", "span": "passages", "choice": "choices"}


@dataclass(frozen=True)
class PredictRows:
    """What a model is to say something to."""

    rows: list[Any]
    attention: bool

    def characters(self) -> int:
        """How long they are together."""
        return _characters(self.rows)


def _characters(value: Any) -> int:
    return len(value) if isinstance(value, str) else sum(map(_characters, value))


class SharedTask:
    """One model of a task, used in its own thread alone."""

    def __init__(self, model: TaskModel) -> None:
        self.model = model
        self.batcher: Batcher[PredictRows, list[dict[str, Any]]] = Batcher(
            self._answer, most=16, waiting=128, wait=WAIT, weigh=PredictRows.characters, heaviest=BATCH_CHARACTERS
        )

    def _answer(self, questions: list[PredictRows]) -> list[list[dict[str, Any]]]:
        return [list(self.model.records(asked.rows, attention=asked.attention)) for asked in questions]


def predict_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["tasks"])
    tasks = {name: SharedTask(task_of(item.thing)) for name, item in library.items.items() if "task" in item.facts}

    @router.post("/predict", response_model=Predictions)
    async def predict(question: AskPredict) -> JsonAnswer:
        """What a model says, with probabilities; texts, pairs, sentences, passages or choices as its task takes."""
        library.find(question.model)
        if question.model not in tasks:
            raise OptionError(f"{question.model!r} makes no predictions: train a model with polyseme fit")
        task = tasks[question.model]
        rows = _rows(question, task.model.method)
        if rows.characters() > MOST_CHARACTERS:
            raise OptionError(f"one request takes at most {MOST_CHARACTERS:,} characters: send several")
        found = await task.batcher.ask(rows)
        return JsonAnswer({"model": question.model, "task": task.model.method, "predictions": found})

    return router


def _rows(question: AskPredict, task: str) -> PredictRows:
    wanted = TAKES[task]
    given = [name for name in TAKES.values() if getattr(question, name) is not None]
    if given != [wanted]:
        raise OptionError(f"{question.model!r} is a model of {task}: send {wanted}, and nothing else")
    rows: list[Any] = getattr(question, wanted)
    if task == "span":
        rows = [(row.passage, row.question) for row in rows]
    elif task == "choice":
        rows = [(row.context, row.alternatives) for row in rows]
    elif task == "pair":
        rows = [(first, second) for first, second in rows]
    return PredictRows(rows, question.attention)
