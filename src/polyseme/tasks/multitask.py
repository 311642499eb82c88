"""MT-DNN (多任务深度神经网络): a Transformer trained on several tasks at once, each with its own head.

Liu et al., "Multi-Task Deep Neural Networks for Natural Language Understanding", ACL 2019. The network is a new BERT or
any given Transformer. Over its top hidden states, the head of

texts        softmax(W x)                      x: the hidden state of the first token
pairs        the stochastic answer network over the hidden states of both texts
scores       w·x, squared error; scores are scaled to 0 … 1
ranking      Rel = σ(w·x),  p(the right candidate | all candidates) = softmax(Rel)

Each batch is from one task; without shares an epoch has all batches of all tasks, shuffled. The heads are discarded
afterwards: the network is fine-tuned per task by ``fit --encoder-mode finetune``.

What differs from the paper: AdamW instead of Adamax; in ranking, the right answer is compared with a few candidates,
not with all sentences of its paragraph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertModel

from polyseme.arrays import FloatArray, Ints
from polyseme.contexts.fine_tuning import transformer_of
from polyseme.contexts.transformer.encode import Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.options import MtDnnOptions, with_shape, with_shape_of
from polyseme.contexts.transformer.pretrain.start import bert_config, copied, fresh, given_pieces
from polyseme.contexts.transformer.subwords import learn_wordpieces
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.contexts.transformer.tuning import PairReader, filled, padded_pieces
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.learn.goals import Classes, ClassLoss, Goal, mean_loss
from polyseme.learn.learning import Held, Learning
from polyseme.learn.metrics import Figures
from polyseme.learn.options import LabelOptions, TuningOptions
from polyseme.learn.pieces import PieceBatch, PieceNet
from polyseme.learn.prepared import PreparedInputs
from polyseme.neural.layers import StochasticAnswer
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.tasks.choice import Choices
from polyseme.tasks.pair import Scale
from polyseme.text.strings import well_formed
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.loop import fit
from polyseme.training.run import Run, Trainable
from polyseme.training.task import MixedTask, read_shares

if TYPE_CHECKING:
    from typing_extensions import Self

USUAL_RATE = 5e-5  # default learning rate for a pretrained network
REPORT_BATCHES = 500  # batches between two reports, if an epoch is longer
TOGETHER = TuningOptions(encoder_lr=1.0, layer_rates=1.0)  # network and heads learn at one rate
FIRST, SECOND, NEITHER = 0, 1, -1
Text = str | tuple[str, str]


# ---- inputs


class OwnedBatch(NamedTuple):
    """A batch of texts or pairs as input of the network."""

    tokens: PieceBatch
    owner: Tensor  # (B, P) FIRST or SECOND text; NEITHER at special tokens and padding


class PairInputs:
    """Turns texts, or pairs of them, into tokens; inputs too long for the network are truncated."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.pairs = runner, PairReader(runner)

    def __call__(self, texts: Sequence[Text]) -> OwnedBatch:
        inputs = [self._text(text) if isinstance(text, str) else self._pair(*text) for text in texts]
        ids, mask = padded_pieces([ids for ids, _, _ in inputs], self.runner.padding)
        types, owner = filled([types for _, types, _ in inputs], 0), filled([owner for *_, owner in inputs], NEITHER)
        return OwnedBatch(PieceBatch(ids, mask, types), owner)

    def _text(self, text: str) -> tuple[list[int], list[int], list[int]]:
        pieces = self.runner.pieces
        inside = pieces.ids([well_formed(text)])[0].tolist()[: self.runner.room]
        owner = [*[NEITHER] * len(pieces.before), *[FIRST] * len(inside), *[NEITHER] * len(pieces.behind)]
        return [*pieces.before, *inside, *pieces.behind], [0] * len(owner), owner

    def _pair(self, first: str, second: str) -> tuple[list[int], list[int], list[int]]:
        pair = self.pairs.fitted(first, second)
        return pair.ids, pair.type_ids, [NEITHER if n is None else n for n in pair.sequence_ids]


class WholeTexts(PreparedInputs):
    """Texts or pairs, which become tokens only when they are read."""

    def __init__(self, read: PairInputs, texts: Sequence[Text], most: int) -> None:
        self.read, self.texts, self.most = read, texts, most
        # Lengths in characters, to batch texts of similar length.
        lengths = [len(text) if isinstance(text, str) else len(text[0]) + len(text[1]) for text in texts]
        self.sizes: Ints = np.array(lengths, dtype=np.int64)

    def batch(self, rows: Ints, *, learning: bool = False) -> OwnedBatch:
        return self.read([self.texts[row] for row in rows.tolist()])


class RankedTexts(WholeTexts):
    """First texts, each with its right second text and wrong candidates.

    The candidates are the wrong second texts of the same first text and, if there are too few, random second texts.
    """

    def __init__(
        self, read: PairInputs, pairs: Sequence[tuple[str, str]], right: NDArray[np.bool_], n_candidates: int, most: int
    ) -> None:
        self.n_candidates, self.all_seconds = n_candidates, [second for _, second in pairs]
        self.right: dict[str, set[str]] = {}
        self.wrong: dict[str, list[str]] = {}
        for (first, second), fits in zip(pairs, right.tolist(), strict=True):
            self.right.setdefault(first, set()).update([second] if fits else [])
            self.wrong.setdefault(first, []).extend([] if fits else [second])
        super().__init__(read, [pair for pair, fits in zip(pairs, right.tolist(), strict=True) if fits], most)

    def batch(self, rows: Ints, *, learning: bool = False) -> OwnedBatch:
        seed = int(torch.randint(1 << 62, ())) if learning else int(rows[0])
        return self.read(self.candidates(rows, np.random.default_rng(seed)))

    def candidates(self, rows: Ints, random: np.random.Generator) -> list[Text]:
        """Each first text with its right second text, and then with its other candidates."""
        pairs: list[Text] = []
        for row in rows.tolist():
            first, second = self.texts[row]
            wrong = self.wrong[first]
            others = [wrong[i] for i in random.permutation(len(wrong))[: self.n_candidates - 1]]
            while len(others) < self.n_candidates - 1:
                others.append(self._random_second(first, random))
            pairs += [(first, candidate) for candidate in (second, *others)]
        return pairs

    def _random_second(self, first: str, random: np.random.Generator) -> str:
        """The second text of a random pair, not a right one for ``first`` if there are others."""
        start, n = int(random.integers(len(self.all_seconds))), len(self.all_seconds)
        candidates = (self.all_seconds[(start + step) % n] for step in range(n))
        return next((text for text in candidates if text not in self.right[first]), self.all_seconds[start])


# ---- heads and goals


class SharedNet(PieceNet):
    """A Transformer that other tasks share."""

    def __init__(self, network: Network, dropout: float) -> None:
        super().__init__(network)
        self.dropout = nn.Dropout(dropout)

    def read(self, batch: OwnedBatch) -> tuple[Tensor, Tensor]:
        """The top states ``(B, P, D)`` after dropout, and that of the first token; of a causal network, the last."""
        top, lengths, *_ = self.states(batch.tokens)
        top, rows = self.dropout(top), torch.arange(len(top), device=top.device)
        return top, top[rows, lengths - 1 if self.network.causal else 0]


class HeadedNet(SharedNet):
    """A linear head over the state of the first token."""

    def __init__(self, network: Network, n_outputs: int, dropout: float) -> None:
        super().__init__(network, dropout)
        self.output = nn.Linear(network.dim, n_outputs)

    def forward(self, batch: OwnedBatch) -> tuple[Tensor, None]:
        return self.output(self.read(batch)[1]), None


class StochasticAnswerNet(SharedNet):
    """The stochastic answer network over both texts of a pair."""

    def __init__(self, network: Network, n_classes: int, options: MtDnnOptions) -> None:
        super().__init__(network, options.head_dropout)
        self.answer = StochasticAnswer(
            network.dim, n_classes, n_steps=options.answer_steps, dropout=options.step_dropout
        )

    def forward(self, batch: OwnedBatch) -> tuple[Tensor, None]:
        return self.answer(self.read(batch)[0], batch.owner == FIRST, batch.owner == SECOND), None


class RankingNet(HeadedNet):
    """The bounded relevance of each candidate, ``(queries, candidates)``, the right one first."""

    def __init__(self, network: Network, options: MtDnnOptions) -> None:
        super().__init__(network, 1, options.head_dropout)
        self.n_candidates = options.candidates

    def forward(self, batch: OwnedBatch) -> tuple[Tensor, None]:
        scores, _ = super().forward(batch)
        return torch.sigmoid(scores).view(-1, self.n_candidates), None


class PlainScale(Scale):
    """Scores by the squared error of w·x on a scale from 0 to 1."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__(low, high, "mse")

    def loss(self, outputs: Tensor, wanted: NDArray[Any]) -> Tensor:
        shares = torch.from_numpy(((wanted - self.low) / (self.high - self.low)).astype(np.float32))
        return F.mse_loss(outputs[:, 0], shares.to(outputs.device), reduction="sum")

    def values(self, answers: FloatArray) -> FloatArray:
        return np.asarray(self.low + (self.high - self.low) * answers[:, 0], dtype=np.float32)


class Ranking(Choices):
    """The right candidate, which is the first, among all."""

    primary = "found"

    def wanted(self, examples: Any) -> Ints:
        return np.zeros(len(examples), dtype=np.int64)

    def figures(self, answers: FloatArray, examples: Any) -> Figures:
        return {"found": float((answers.argmax(axis=1) == 0).mean())}

    def dev_loss(self, answers: FloatArray, examples: Any) -> float:
        return mean_loss(answers, self.wanted(answers))


# ---- training


class MtDnn(TransformerEncoder, Trainable):
    """A Transformer trained on several tasks."""

    method: ClassVar[str] = "mtdnn"
    Options: ClassVar[type] = MtDnnOptions
    options: MtDnnOptions
    trains_further: ClassVar[bool] = False

    def __init__(self, options: Any, network: Network, pieces: Pieces, **given: Any) -> None:
        super().__init__(options, network, pieces, **given)
        network.knows_pooler = False  # its heads are over the states themselves, so no pooler has learned with them

    def parts(self) -> Parts:
        """The parts of every Transformer, and the weights of the pooler, which its folder keeps."""
        parts, weights = super().parts(), self.network.whole.state_dict()
        pooler = {name: tensor.cpu().numpy() for name, tensor in weights.items() if "pooler" in name}
        return Parts({**parts.tensors, **pooler}, parts.tables, parts.files)

    @classmethod
    def train(cls, data: dict[str, Examples], options: MtDnnOptions, run: Run) -> Self:
        """Train a Transformer on all these sources."""
        ranked = options.ranked()
        for name, examples in data.items():
            _check(name, examples, ranked)
        for name in ranked:
            if name not in data or data[name].kind != "pairs":
                raise OptionError(f"option 'ranking' names {name!r}, which is not a source of pairs")
        shares = read_shares(options.shares, data, {}) if options.shares else None
        first = next(iter(data.values()))
        network, pieces, options = _network_to_train(data, options, run)
        runner = Runner(network, pieces, limit=options.length)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            tasks = {name: _task(name, examples, runner, options) for name, examples in data.items()}
        fit(MixedTask(tasks, shares, options.seed), options, run)
        return cls(options, network.eval(), pieces, about=About(first.segmentation, first.facts, run.curve))


def _check(name: str, data: Examples, ranked: dict[str, str]) -> None:
    if len(data) < 2 or len(np.unique(np.asarray(data.targets))) < 2:
        raise TrainingError(f"the source {name} has only one label: there is nothing to learn")
    if name in ranked and ranked[name] not in data.labels:
        raise OptionError(f"no pair of {name} has the label {ranked[name]!r}: there are {', '.join(data.labels)}")


def _network_to_train(
    data: dict[str, Examples], options: MtDnnOptions, run: Run
) -> tuple[Network, Pieces, MtDnnOptions]:
    """The given network, or a new one for these texts."""
    given = run.models.get("transformer")
    if given is None:
        options = with_shape(options)
        pieces = given_pieces(run.models) or _learned(data, options)
        return _network(pieces, options), pieces, options
    transformer = transformer_of(given)
    if transformer is None:
        raise OptionError(
            f"option 'transformer' must name a Transformer, but {options.transformer} has method {given.method}"
        )
    network, tokenizer = copied(transformer, options.seed)
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = options.dropout
    return network, tokenizer, with_shape_of(network, replace(options, lr=options.lr or USUAL_RATE))


def _learned(data: dict[str, Examples], options: MtDnnOptions) -> Pieces:
    counts: Counter[str] = Counter()
    for examples in data.values():
        texts = [side for text in _texts(examples) for side in ((text,) if isinstance(text, str) else text)]
        for tokens in examples.segmentation.token_lists(texts):
            counts.update(tokens)
    segmentation = next(iter(data.values())).segmentation
    return learn_wordpieces(Vocabulary.from_counts(counts), options.max_size, segmentation, limit=options.length)


def _network(pieces: Pieces, options: MtDnnOptions) -> Network:
    return fresh(BertModel, bert_config(pieces, options), options.seed)


def _texts(examples: Examples) -> list[Text]:
    rows: list[Any] = list(examples)
    return [(row.first, row.second) for row in rows] if examples.kind == "pairs" else [row.text for row in rows]


def _task(name: str, data: Examples, runner: Runner, options: MtDnnOptions) -> Learning:
    """The training on one source: the network, which all share, under the source's own head."""
    training, held = data.split(options.hold_out, options.seed) if options.hold_out else (data, data.subset([]))
    label, read, size = options.ranked().get(name), PairInputs(runner), options.batch_size
    if label is not None:
        size = max(size // options.candidates, 1)  # so that a batch has as many inputs as those of other tasks
        ranked = [_ranked(read, part, label, options.candidates, size) for part in (training, held)]
        if not len(ranked[0].sizes):
            raise TrainingError(f"the source {name} has no pair with the label {label!r} to learn to rank from")
        ranking = Ranking()
        net = RankingNet(runner.network, options)
        return _learning(net, ranking, ranking.wanted(ranked[0].sizes), ranked, held, options)
    goal = _goal(data)
    headed = (
        StochasticAnswerNet(runner.network, goal.n_outputs, options)
        if isinstance(goal, Classes) and data.kind == "pairs"
        else HeadedNet(runner.network, goal.n_outputs, options.head_dropout)
    )
    texts = [WholeTexts(read, _texts(part), size) for part in (training, held)]
    return _learning(headed, goal, goal.wanted(training), texts, held, options)


def _learning(
    net: nn.Module, goal: Goal, wanted: Any, prepared: Sequence[WholeTexts], held: Examples, options: MtDnnOptions
) -> Learning:
    """The task; ``prepared`` are the texts to learn from and those of the examples that are held out."""
    learned, asked = prepared
    task = Learning(
        net, goal, learned, wanted, replace(options, batch_size=learned.most),
        held=Held(held, asked) if len(asked.sizes) else None, tuning=TOGETHER,
    )  # fmt: skip
    task.reports = max(1, round(len(learned.sizes) / learned.most / REPORT_BATCHES))
    return task


def _goal(data: Examples) -> Goal:
    if not data.scored:
        return Classes(data.labels, ClassLoss(np.asarray(data.targets), len(data.labels), LabelOptions()))
    whole = np.asarray(data.targets)
    return PlainScale(float(whole.min()), float(whole.max()))


def _ranked(read: PairInputs, part: Examples, label: str, n_candidates: int, most: int) -> RankedTexts:
    right = np.array([part.labels[int(target)] == label for target in part.targets], dtype=bool)
    pairs: list[Any] = _texts(part)
    return RankedTexts(read, pairs, right, n_candidates, most)
