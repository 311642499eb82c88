"""What one asks of a task's model (labels, tags, answers, choices), and of a Transformer: which words look at which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from polyseme.errors import OptionError
from polyseme.serve.batch import Batcher
from polyseme.serve.library import Library, task_of
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.routes.encode import BATCH_CHARACTERS, MOST_CHARACTERS, WAIT
from polyseme.serve.shapes import AskAttention, AskPredict, AttentionShape, Predictions

if TYPE_CHECKING:
    from polyseme.contexts.transformer.model import Attention
    from polyseme.tasks.model import TaskModel


MOST_WORDS = 200  # of a sentence: the answer has their square
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
        predictions = await task.batcher.ask(rows)
        return JsonAnswer({"model": question.model, "task": task.model.method, "predictions": predictions})

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


@dataclass(frozen=True)
class AttentionQuestion:
    """A sentence that is looked at."""

    tokens: Any

    def characters(self) -> int:
        """How long it is."""
        return sum(map(len, self.tokens))


class SharedAttention:
    """One model, used in its own thread alone."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.batcher: Batcher[AttentionQuestion, Attention] = Batcher(
            self._answer, most=4, waiting=64, wait=WAIT, weigh=AttentionQuestion.characters, heaviest=2000
        )

    def _answer(self, questions: list[AttentionQuestion]) -> list[Attention]:
        return [self.model.attention(asked.tokens) for asked in questions]


def attention_routes(library: Library) -> APIRouter:
    """Routes under /api."""
    router = APIRouter(prefix="/api", tags=["attention"])
    models = {name: SharedAttention(item.thing) for name, item in library.items.items() if item.facts.get("attention")}

    @router.post("/attention", response_model=AttentionShape)
    async def attention(question: AskAttention) -> JsonAnswer:
        """How much each word of a sentence looks at each other, in one layer and head of a Transformer."""
        library.find(question.model)
        if question.model not in models:
            raise OptionError(f"{question.model!r} is not a Transformer: it has no attention to show")
        shared = models[question.model]
        given = question.sentence
        tokens = shared.model.tokenize(given) if isinstance(given, str) else given
        if len(tokens) > MOST_WORDS:
            raise OptionError(f"the sentence has {len(tokens)} words: {MOST_WORDS} at most")
        answer = await shared.batcher.ask(AttentionQuestion(tokens))
        n_layers, n_heads = answer.weights.shape[:2]
        layer = n_layers if question.layer is None else question.layer
        if not 1 <= layer <= n_layers or not 1 <= question.head <= n_heads:
            raise OptionError(f"{question.model!r} has layers 1 to {n_layers}, each with heads 1 to {n_heads}")
        weights = answer.weights[layer - 1, question.head - 1].round(4).tolist()
        return JsonAnswer({
            "model": question.model, "tokens": answer.tokens, "layers": n_layers, "heads": n_heads, "layer": layer,
            "head": question.head, "weights": weights,
        })  # fmt: skip

    return router
