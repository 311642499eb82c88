"""What one asks of a Transformer: which words look at which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from polyseme.errors import OptionError
from polyseme.serve.batch import Batcher
from polyseme.serve.library import Library
from polyseme.serve.responses import JsonAnswer
from polyseme.serve.routes.encode import WAIT
from polyseme.serve.shapes import AskAttention, AttentionShape

if TYPE_CHECKING:
    from polyseme.contexts.transformer.model import Attention

MOST_WORDS = 200  # of a sentence: the answer has their square


@dataclass(frozen=True)
class Sentence:
    """A sentence that is looked at."""

    tokens: Any

    def characters(self) -> int:
        """How long it is."""
        return sum(map(len, self.tokens))


class SharedAttention:
    """One model, used in its own thread alone."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.batcher: Batcher[Sentence, Attention] = Batcher(
            self._answer, most=4, waiting=64, wait=WAIT, weigh=Sentence.characters, heaviest=2000
        )

    def _answer(self, questions: list[Sentence]) -> list[Attention]:
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
        found = await shared.batcher.ask(Sentence(tokens))
        n_layers, n_heads = found.weights.shape[:2]
        layer = n_layers if question.layer is None else question.layer
        if not 1 <= layer <= n_layers or not 1 <= question.head <= n_heads:
            raise OptionError(f"{question.model!r} has layers 1 to {n_layers}, each with heads 1 to {n_heads}")
        weights = found.weights[layer - 1, question.head - 1].round(4).tolist()
        return JsonAnswer({
            "model": question.model, "tokens": found.tokens, "layers": n_layers, "heads": n_heads, "layer": layer,
            "head": question.head, "weights": weights,
        })  # fmt: skip

    return router
