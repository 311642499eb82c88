"""Sentence vectors from conversations 对话句编码器: sentences with similar answers get similar vectors.

Yang et al., "Learning Semantic Textual Similarity from Conversations", RepL4NLP 2018. For each turn of a dialogue, the
model picks the turn that follows it among all answers of the batch:

    u = encoder(turn),   v = layers(encoder(answer)),   p(answer | turn) = exp(u·v) / Σ_batch exp(u·v')

``encode`` returns u, for comparing turns; ``encode_answers`` returns v, for finding answers. Identical answers within a
batch ("好的") are not used as negatives of each other. If labelled pairs are given too (``nli=``), the same encoder is
also trained like InferSent, with batches of both mixed.

What differs from the paper: by default, the encoder is a mean of trained word vectors. On few dialogues, layers above
it find answers better but represent the meaning of sentences worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray, Ints
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import Sentence, several
from polyseme.learn.goals import check_classes
from polyseme.learn.inputs import Inputs, PreparedTexts
from polyseme.learn.learning import HELD_OUT
from polyseme.learn.modules import TextModule, fill, weights
from polyseme.learn.prepared import in_order, on
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.encoders import BiLstmMaxModule, DanModule
from polyseme.sentences.infersent import given_vectors, inference_task, texts_of_pairs
from polyseme.sentences.learned import EncoderNet, LearnedEncoder
from polyseme.sentences.options import ConversationOptions
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import BatchTask, MixedTask, Part, Score

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_HELD_OUT = 2000  # answers
REPORT_BATCHES = 200  # between two reports, if an epoch is longer


class Conversation(LearnedEncoder):
    """A sentence encoder trained to pick the answers to turns of dialogues."""

    method: ClassVar[str] = "conversation"
    Options: ClassVar[type] = ConversationOptions

    @classmethod
    def make_module(cls, options: ConversationOptions, dim: int, beside: int) -> TextModule:
        if options.encoder in ("dan", "mean"):
            return DanModule(dim, 2 if options.encoder == "dan" else 0, options.hidden, 0.1, options.dropout)
        return BiLstmMaxModule(Recurrent(dim, options.hidden // 2))

    def __init__(self, options: ConversationOptions, inputs: Inputs, module: TextModule, about: About) -> None:
        super().__init__(options, inputs, module, about)
        self.answers = AnswerNet(self.net, self.dim, options.n_layers).eval()

    def encode_answers(self, texts: Sequence[Sentence]) -> FloatArray:
        """Vectors of answers ``(n, dim)``; their dot product with the vector of a turn is the score of the answer."""
        prepared = self.prepare(list(several(texts)))
        with torch.inference_mode():
            vectors = ((rows, self.answers.layers(encoding.vectors)) for rows, encoding in self.encodings(prepared))
            return in_order(vectors, len(prepared.sizes)).reshape(-1, self.dim)

    def answer_scores(self, turns: Sequence[Sentence], answers: Sequence[Sentence]) -> FloatArray:
        """How well each answer fits each turn, ``(turns, answers)``."""
        return self.encode(turns) @ self.encode_answers(answers).T

    @classmethod
    def train(cls, data: Mapping[str, Any], options: ConversationOptions, run: Run) -> Self:
        """Train on ``dialogues`` (documents whose lines are turns) and, if given, labelled pairs (``nli``)."""
        if "dialogues" not in data:
            raise TrainingError(
                "conversation is trained on dialogues: give dialogues=PATH, one document per "
                "dialogue, one line per turn"
            )
        if options.encoder == "bilstm-max" and options.hidden % 2:
            raise OptionError(f"hidden must be even, half of it for each direction, not {options.hidden}")
        if options.encoder == "mean" and options.dim is None and options.word_vectors is None:
            options = replace(options, dim=options.hidden)
        dialogues: Corpus = data["dialogues"]
        turns = turns_of(dialogues)
        pairs: Examples | None = data.get("nli")
        texts: list[Any] = [*turns.texts]
        if pairs is not None:
            check_classes(pairs)
            texts += texts_of_pairs(pairs)
        about = About(dialogues.segmentation, dialogues.facts, run.curve)
        encoder = cls.of(texts, given_vectors(run, options.word_vectors), about, options)
        prepared = encoder.prepare(turns.texts, run.progress)
        task: BatchTask = AnswerTask(encoder.answers, prepared, turns, options)
        if pairs is not None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(options.seed)
                inference = inference_task(encoder, *pairs.split(HELD_OUT, options.seed), options, run.progress)
            task = MixedTask({"answers": task, "nli": inference}, None, options.seed)
        fit(task, options, run)
        encoder.answers.eval()
        return encoder

    # ---- on disk

    def parts(self) -> Parts:
        below = super().parts()
        return Parts({**below.tensors, **weights(self.answers.layers, "answers.")}, below.tables, {}, below.models)

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        encoder = super().from_parts(options, parts, about)
        fill(encoder.answers.layers, parts, "answers.")
        return encoder


class Turns:
    """Turns of dialogues, and the indices of those that are answered by the next one."""

    def __init__(self, texts: list[list[str]], answered: Ints) -> None:
        self.texts, self.answered = texts, answered
        numbers: dict[str, int] = {}
        self.same = np.array([numbers.setdefault("\0".join(words), len(numbers)) for words in texts], dtype=np.int64)


def turns_of(corpus: Corpus) -> Turns:
    """The turns of a corpus of dialogues; a turn is a line, with all its sentences."""
    lines = np.append(corpus.paragraph_offsets, corpus.n_sentences)
    lines = np.unique(lines)
    texts: list[list[str]] = []
    documents: list[int] = []
    for first, end in zip(lines[:-1].tolist(), lines[1:].tolist(), strict=True):
        start, stop = corpus.sentence_offsets[first], corpus.sentence_offsets[end]
        if stop > start:
            texts.append([corpus.all_words[word] for word in corpus.ids[start:stop].tolist()])
            documents.append(int(corpus.sentence_documents[first]))
    of = np.array(documents)
    answered = np.flatnonzero(of[1:] == of[:-1])
    if not len(answered):
        raise TrainingError(
            "no turn of the dialogues has a response: a dialogue is a document, its turns are its lines"
        )
    return Turns(texts, answered)


class AnswerNet(nn.Module):
    """The encoder, and the layers that are applied to answers only."""

    def __init__(self, net: EncoderNet, dim: int, n_layers: int) -> None:
        super().__init__()
        self.net = net
        self.layers = nn.Sequential(*(part for _ in range(n_layers) for part in (nn.Linear(dim, dim), nn.Tanh())))

    def forward(self, batches: tuple[Any, Any]) -> Tensor:
        """Scores ``(B, B)`` of every answer for every turn."""
        u, v = (self.net(batch).vectors for batch in batches)
        scores: Tensor = u @ self.layers(v).t()
        return scores


class AnswerTask(BatchTask):
    """Training: for each turn, pick its answer among those of the batch."""

    unit = "turns"
    module: AnswerNet

    def __init__(self, module: AnswerNet, texts: PreparedTexts, turns: Turns, options: ConversationOptions) -> None:
        self.module, self.texts, self.turns, self.options = module, texts, turns, options
        order = np.random.default_rng(20180420).permutation(turns.answered)
        n = min(round(options.hold_out * len(order)), MOST_HELD_OUT)
        self.training, self.held_out = np.sort(order[n:]), order[:n]
        self.reports = max(1, round(len(self.training) / options.batch_size / REPORT_BATCHES))
        self._order = lru_cache(maxsize=2)(self._make_order)

    def _make_order(self, epoch: int) -> Ints:
        return np.random.default_rng((self.options.seed, epoch)).permutation(self.training)

    def n_steps(self, epoch: int) -> int:
        return -(-len(self.training) // self.options.batch_size)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        if part.rank:  # a batch cannot be divided: all its answers are candidates for every turn
            return torch.zeros(()), 0
        size = self.options.batch_size
        rows = self._order(epoch)[index * size : (index + 1) * size]
        scores = self._scores(self.module, rows)
        return F.cross_entropy(scores, torch.arange(len(rows), device=self.device), reduction="sum"), len(rows)

    def _scores(self, net: nn.Module, rows: Ints) -> Tensor:
        batches = tuple(on(self.device, self.texts.batch(turns)) for turns in (rows, rows + 1))
        scores: Tensor = net(batches)
        same = torch.from_numpy(self.turns.same[rows + 1]).to(self.device)
        twins = (same[:, None] == same[None]).fill_diagonal_(False)
        return scores.masked_fill(twins, -torch.inf)

    def evaluate(self, module: nn.Module) -> Score | None:
        total, right, n = 0.0, 0, 0
        with torch.inference_mode():
            for start in range(0, len(self.held_out), 100):
                rows = self.held_out[start : start + 100]
                scores = self._scores(module, rows)
                wanted = torch.arange(len(rows), device=self.device)
                total += float(F.cross_entropy(scores, wanted, reduction="sum"))
                right, n = right + int((scores.argmax(dim=1) == wanted).sum()), n + len(rows)
        return Score(total / n, {"held_out_loss": total / n, "answers_found": right / n}) if n else None
