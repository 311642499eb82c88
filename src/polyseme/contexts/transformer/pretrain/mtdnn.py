"""Training MT-DNN: batches from several sources through one network.

The heads of MT-DNN 任务头: the output layers over the top hidden states, one for each kind of task.

texts        softmax(W x)                      x: the hidden state of the first token
pairs        the stochastic answer network over the hidden states of both texts
scores       w·x, squared error; scores are scaled to 0 … 1
ranking      Rel = σ(w·x),  p(the right candidate | all candidates) = softmax(Rel)

MT-DNN (多任务深度神经网络): a Transformer trained on several tasks at once, each with its own head.

Liu et al., "Multi-Task Deep Neural Networks for Natural Language Understanding", ACL 2019. The network is a new BERT or
any given Transformer; the heads (heads.py) are for labelled texts, labelled pairs (the stochastic answer network),
scored pairs, and ranking. Each batch is from one task; without shares an epoch has all batches of all tasks, shuffled.
The heads are discarded afterwards: the network is fine-tuned per task by ``fit --encoder-mode finetune``.

What differs from the paper: AdamW instead of Adamax; in ranking, the right answer is compared with a few candidates,
not with all sentences of its paragraph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertModel

from polyseme.contexts.transformer.encode import Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.options import MtDnnOptions, with_shape, with_shape_of
from polyseme.contexts.transformer.pretrain.start import bert_config, copied, fresh, given_pieces
from polyseme.contexts.transformer.subwords import learn_wordpieces
from polyseme.contexts.transformer.tokenizer import Ints, Pieces
from polyseme.contexts.transformer.trained import TrainedTransformer
from polyseme.contexts.transformer.tuning import PairReader, filled, padded_pieces
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.neural.batches import sized_batches
from polyseme.neural.layers import StochasticAnswer
from polyseme.store.model import About
from polyseme.text.strings import well_formed
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import BatchTask, MixedTask, Part, Score, read_shares

FIRST, SECOND, NEITHER = 0, 1, -1
Text = str | tuple[str, str]


class TextBatch(NamedTuple):
    """A batch of texts or pairs as input of the network, ``(B, T)`` each."""

    ids: Tensor
    mask: Tensor
    types: Tensor
    owner: Tensor  # FIRST or SECOND text; NEITHER at special tokens and padding

    def to(self, device: torch.device) -> TextBatch:
        """A copy on the device."""
        return TextBatch(*(tensor.to(device) for tensor in self))


class PairInputs:
    """Turns texts, or pairs of them, into subwords; inputs too long for the network are truncated."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.pairs = runner, PairReader(runner)

    def __call__(self, texts: Sequence[Text]) -> TextBatch:
        found = [self._one(text) if isinstance(text, str) else self._two(*text) for text in texts]
        ids, mask = padded_pieces([one[0] for one in found], self.runner.padding)
        return TextBatch(ids, mask, filled([one[1] for one in found], 0), filled([one[2] for one in found], NEITHER))

    def _one(self, text: str) -> tuple[list[int], list[int], list[int]]:
        pieces = self.runner.pieces
        inside = pieces.ids([well_formed(text)])[0].tolist()[: self.runner.room]
        owner = [*[NEITHER] * len(pieces.before), *[FIRST] * len(inside), *[NEITHER] * len(pieces.behind)]
        return [*pieces.before, *inside, *pieces.behind], [0] * len(owner), owner

    def _two(self, first: str, second: str) -> tuple[list[int], list[int], list[int]]:
        found = self.pairs.fitted(first, second)
        return found.ids, found.type_ids, [NEITHER if n is None else n for n in found.sequence_ids]


class Head(nn.Module, ABC):
    """The output layer, loss and score of one kind of task."""

    figure: str  # the name of its held-out score; higher is better

    @abstractmethod
    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        """Outputs ``(B, K)`` from hidden states ``(B, T, D)``, that of the first token ``(B, D)``, and ``owner``."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of the losses."""

    @abstractmethod
    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        """The held-out score of the outputs."""


class ClassHead(Head):
    """Classifies texts."""

    figure = "accuracy"

    def __init__(self, dim: int, n_classes: int) -> None:
        super().__init__()
        self.output = nn.Linear(dim, n_classes)

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        return torch.log_softmax(self.output(first), dim=1)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.nll_loss(outputs, targets, reduction="sum")

    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        return float((outputs.argmax(axis=1) == targets).mean())


class PairClasses(ClassHead):
    """Classifies pairs of texts."""

    def __init__(self, dim: int, n_classes: int, *, n_steps: int, dropout: float) -> None:
        nn.Module.__init__(self)
        self.answer = StochasticAnswer(dim, n_classes, n_steps=n_steps, dropout=dropout)

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        found: Tensor = self.answer(states, owner == FIRST, owner == SECOND)
        return found


class ScoreHead(Head):
    """Predicts the scores of pairs, or of texts."""

    figure = "pearson"

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.output = nn.Linear(dim, 1)

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        found: Tensor = self.output(first)
        return found

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs[:, 0], targets, reduction="sum")

    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        spread = outputs[:, 0].std() * targets.std()
        return float(((outputs[:, 0] - outputs.mean()) * (targets - targets.mean())).mean() / spread) if spread else 0.0


class Ranks(Head):
    """Ranks the candidates for each first text: outputs are ``(queries, candidates)``, with the right one first."""

    figure = "found"

    def __init__(self, dim: int, n_candidates: int) -> None:
        super().__init__()
        self.output, self.n_candidates = nn.Linear(dim, 1), n_candidates

    def forward(self, states: Tensor, first: Tensor, owner: Tensor) -> Tensor:
        return torch.sigmoid(self.output(first)).view(-1, self.n_candidates)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -torch.log_softmax(outputs, dim=1)[:, 0].sum()

    def score(self, outputs: NDArray[Any], targets: NDArray[Any]) -> float:
        return float((outputs.argmax(axis=1) == 0).mean())


class HeadedNet(nn.Module):
    """A Transformer, shared with other tasks, and a head."""

    def __init__(self, network: Network, head: Head, dropout: float) -> None:
        super().__init__()
        self.network, self.head, self.dropout = network, head, nn.Dropout(dropout)

    def forward(self, pieces: TextBatch) -> Tensor:
        """The output of the head, ``(B, K)``."""
        types = pieces.types if bool(pieces.types.any()) else None
        top = self.dropout(self.network.top(TokenBatch(pieces.ids, pieces.mask, types)))
        rows = torch.arange(len(top), device=top.device)
        place = pieces.mask.sum(dim=1) - 1 if self.network.causal else torch.zeros_like(rows)
        found: Tensor = self.head(top, top[rows, place], pieces.owner)
        return found


class MtDnn(TrainedTransformer):
    """A Transformer trained on several tasks."""

    method: ClassVar[str] = "mtdnn"
    Options: ClassVar[type] = MtDnnOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.mtdnn:train_mtdnn"
    options: MtDnnOptions
    trains_further: ClassVar[bool] = False


M = TypeVar("M", bound=MtDnn)

USUAL_RATE = 5e-5  # default learning rate for a pretrained network
REPORT_BATCHES = 500  # batches between two reports, if an epoch is longer


def train_mtdnn(cls: type[M], data: dict[str, Examples], options: MtDnnOptions, run: Run) -> M:
    """Train a Transformer on all these sources."""
    ranked = options.ranked()
    for name, examples in data.items():
        _check(name, examples, ranked)
    for name in ranked:
        if name not in data or data[name].kind != "pairs":
            raise OptionError(f"option 'ranking' names {name!r}, which is not a source of pairs")
    shares = read_shares(options.shares, data, {}) if options.shares else None
    first = next(iter(data.values()))
    network, pieces, options = _begun(data, options, run)
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


def _begun(data: dict[str, Examples], options: MtDnnOptions, run: Run) -> tuple[Network, Pieces, MtDnnOptions]:
    """The given network, or a new one for these texts."""
    given = run.models.get("transformer")
    if given is None:
        options = with_shape(options)
        pieces = given_pieces(run.models) or _learned(data, options)
        return _network(pieces, options), pieces, options
    inner = getattr(given, "encoder", given)  # a sentence-transformers model has it as ``encoder``
    if not isinstance(inner, TransformerEncoder):
        raise OptionError(
            f"option 'transformer' must name a Transformer, but {options.transformer} has method {given.method}"
        )
    network, own = copied(inner, options.seed)
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = options.dropout
    return network, own, with_shape_of(network, replace(options, lr=options.lr or USUAL_RATE))


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


def _task(name: str, data: Examples, runner: Runner, options: MtDnnOptions) -> HeadTask:
    training, held_out = data.split(options.hold_out, options.seed) if options.hold_out else (data, data.subset([]))
    label, dim = options.ranked().get(name), runner.network.dim
    if label is not None:
        number = data.labels.index(label)
        head: Head = Ranks(dim, options.candidates)
        known, asked = (
            RankedRows(_texts(part), np.asarray(part.targets) == number, options) for part in (training, held_out)
        )
        if not len(known.sizes):
            raise TrainingError(f"the source {name} has no pair with the label {label!r} to learn to rank from")
        return HeadTask(HeadedNet(runner.network, head, options.head_dropout), runner, known, asked, options)
    n_classes = len(data.labels)
    if data.scored:
        head = ScoreHead(dim)
    elif data.kind == "pairs":
        head = PairClasses(dim, n_classes, n_steps=options.answer_steps, dropout=options.step_dropout)
    else:
        head = ClassHead(dim, n_classes)
    whole = np.asarray(data.targets)
    low, high = (float(whole.min()), float(whole.max())) if data.scored else (0.0, 1.0)
    learned, kept = (TaskRows(_texts(part), _targets(part, data, low, high)) for part in (training, held_out))
    return HeadTask(HeadedNet(runner.network, head, options.head_dropout), runner, learned, kept, options)


def _targets(part: Examples, whole: Examples, low: float, high: float) -> NDArray[Any]:
    targets = np.asarray(part.targets)
    if whole.scored:
        return ((targets - low) / (high - low)).astype(np.float32)
    place = {label: number for number, label in enumerate(whole.labels)}
    return np.array([place[part.labels[int(target)]] for target in targets], dtype=np.int64)


class TaskRows:
    """Texts or pairs, and their targets."""

    def __init__(self, texts: list[Text], targets: NDArray[Any]) -> None:
        self.texts, self.targets = texts, targets
        # Lengths in characters, to batch texts of similar length: they are tokenised only when they are read.
        self.sizes: Ints = np.array(
            [len(t) if isinstance(t, str) else len(t[0]) + len(t[1]) for t in texts], dtype=np.int64
        )

    def of(self, rows: Ints, random: np.random.Generator) -> tuple[list[Text], NDArray[Any]]:
        """The texts and targets of these rows."""
        return [self.texts[row] for row in rows.tolist()], self.targets[rows]


class RankedRows(TaskRows):
    """First texts, each with its right second text and wrong candidates.

    The candidates are the wrong second texts of the same first text and, if there are too few, random second texts.
    """

    def __init__(self, texts: list[Text], right: NDArray[np.bool_], options: MtDnnOptions) -> None:
        self.n_candidates = options.candidates
        pairs: list[Any] = texts
        self.all_seconds: list[str] = [second for _, second in pairs]
        self.right: dict[str, set[str]] = {}
        self.wrong: dict[str, list[str]] = {}
        for (first, second), fits in zip(pairs, right.tolist(), strict=True):
            self.right.setdefault(first, set()).update([second] if fits else [])
            self.wrong.setdefault(first, []).extend([] if fits else [second])
        kept = [text for text, fits in zip(texts, right.tolist(), strict=True) if fits]
        super().__init__(kept, np.zeros(len(kept), dtype=np.int64))

    def of(self, rows: Ints, random: np.random.Generator) -> tuple[list[Text], NDArray[Any]]:
        found: list[Text] = []
        for row in rows.tolist():
            first, second = self.texts[row]
            own = self.wrong[first]
            others = [own[i] for i in random.permutation(len(own))[: self.n_candidates - 1]]
            while len(others) < self.n_candidates - 1:
                others.append(self._random_second(first, random))
            found += [(first, one) for one in (second, *others)]
        return found, self.targets[rows]

    def _random_second(self, first: str, random: np.random.Generator) -> str:
        """The second text of a random pair, not a right one for ``first`` if there are others."""
        start, n = int(random.integers(len(self.all_seconds))), len(self.all_seconds)
        candidates = (self.all_seconds[(start + step) % n] for step in range(n))
        return next((one for one in candidates if one not in self.right[first]), self.all_seconds[start])


class HeadTask(BatchTask):
    """Trains the shared network and one head on the examples of one source."""

    unit = "examples"
    module: HeadedNet

    def __init__(
        self, module: HeadedNet, runner: Runner, rows: TaskRows, held_out: TaskRows, options: MtDnnOptions
    ) -> None:
        self.module, self.read, self.rows, self.held_out, self.options = (
            module,
            PairInputs(runner),
            rows,
            held_out,
            options,
        )
        size = options.batch_size
        if isinstance(rows, RankedRows):  # so that a batch has as many inputs as those of other tasks
            size = max(size // options.candidates, 1)
        self.size, self.batches = size, sized_batches(rows.sizes, size, options.seed)
        self.reports = max(1, round(len(rows.sizes) / size / REPORT_BATCHES))

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        rows = self.batches.rows(epoch, index)[part.rank :: part.of]
        if not len(rows):
            return torch.zeros(()), 0
        random = np.random.default_rng((self.options.seed, epoch, index, part.rank))
        texts, targets = self.rows.of(rows, random)
        outputs = self.module(self.read(texts).to(self.device))
        return self.module.head.loss(outputs, torch.from_numpy(targets).to(self.device)), len(rows)

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, HeadedNet)
        n = len(self.held_out.sizes)
        if not n:
            return None
        found, wanted, loss = [], [], 0.0
        with torch.inference_mode():
            for start in range(0, n, self.size):
                rows = np.arange(start, min(start + self.size, n))
                texts, targets = self.held_out.of(rows, np.random.default_rng((0, start)))
                outputs = module(self.read(texts).to(self.device))
                loss += float(module.head.loss(outputs, torch.from_numpy(targets).to(self.device)))
                found.append(outputs.cpu().numpy())
                wanted.append(targets)
        figure = module.head.score(np.concatenate(found), np.concatenate(wanted))
        return Score(figure, {module.head.figure: figure, "held_out_loss": loss / n}, higher_is_better=True)
