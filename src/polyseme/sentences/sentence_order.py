"""Skip-thought 跳跃思维向量: sentence vectors from which the sentences before and after can be generated.

Kiros et al., "Skip-Thought Vectors", NeurIPS 2015. A GRU encodes the sentence, two others generate its neighbours:

    max  Σ_t log p(w_t of the next | w_<t, h) + Σ_t log p(w_t of the previous | w_<t, h),   h = the encoder's last state

``uni`` reads forward, ``bi`` in both directions with half as many units each, ``combined`` concatenates both. Word
vectors and the softmax are shared. With ``expand``, words that are not in the corpus but have a given vector are added:
a linear map from the given vectors to the learned ones, fitted by least squares on the words that have both, gives
their vectors.

What differs from the paper: for large vocabularies the softmax is sampled; the two encoders of ``combined`` are trained
together and share word vectors; a sentence with one neighbour generates only that one. ``condition`` first-state is
what the authors' program does; in the paper, the vector is given to every step.

Encoders trained on the order of sentences 相邻句编码器: quick-thought.

Logeswaran and Lee, "An efficient framework for learning sentence representations", ICLR 2018. Two encoders f and g,
each with its own word vectors, encode consecutive sentences of a text; for each sentence, the model picks its
neighbours among all sentences of the batch:

    p(s' | s) = exp(f(s)·g(s')) / Σ_{s'' ≠ s} exp(f(s)·g(s''))        vector of s = [f(s); g(s)]

A sentence with two neighbours has both as targets, each with weight ½. What differs from the authors' program: the
sentence itself is not a candidate (theirs gives it a score of 0), and neighbours must be in the same document.

Decoders that train an encoder by generating sentences 解码器: a GRU conditioned on a sentence vector at every word.

    h_t = GRU(h_t-1, x_t-1 + P c),   h_0 = c,   p(w_t) = softmax(W h_t + b);   c: the vector, x_0 = 0

The last token of every sentence is an end mark. For large vocabularies the softmax is sampled (``neural/softmax``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray, Ints
from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import WordVectorsInterface
from polyseme.learn.inputs import PreparedTexts
from polyseme.learn.modules import Encoding, TextModule, TextTokens
from polyseme.learn.prepared import on
from polyseme.learn.token_vectors import Flat, LearnedKeys, TokenLists, counted_keys, offsets_of, words
from polyseme.neural.batches import Packing, sized_batches
from polyseme.neural.gru import GruWeights, packed_gru
from polyseme.neural.recurrent import Recurrent
from polyseme.neural.softmax import ClassSampler, log_losses, sampled_softmax_loss
from polyseme.sentences.infersent import given_vectors
from polyseme.sentences.learned import EncoderNet, LearnedEncoder
from polyseme.sentences.options import QUICK_DIM, QuickThoughtOptions, SkipThoughtOptions
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import BatchTask, Part, Score

if TYPE_CHECKING:
    from typing_extensions import Self

HELD_OUT_BATCHES = 20  # at most
BATCHES_A_REPORT = 500  # between two reports, if an epoch is longer


class TwinModule(TextModule):
    """Two recurrent encoders, concatenated; if ``apart``, each reads its own half of every token vector."""

    def __init__(self, dim: int, options: QuickThoughtOptions, *, apart: bool) -> None:
        super().__init__()
        self.apart = apart
        if apart and dim % 2:
            raise OptionError(f"dim must be even, half of it for each encoder, not {dim}")
        size = dim // 2 if apart else dim
        make = {"kind": "gru", "bidirectional": options.bidirectional}
        self.of_sentence = Recurrent(size, options.hidden, **make)  # type: ignore[arg-type]
        self.of_candidate = Recurrent(size, options.hidden, **make)  # type: ignore[arg-type]
        self.dim = 2 * self.of_sentence.dim

    def forward(self, tokens: TextTokens) -> Encoding:
        halves = tokens.x.chunk(2, dim=2) if self.apart else (tokens.x, tokens.x)
        encoders = (self.of_sentence, self.of_candidate)
        found = [one.last_of(one(half, tokens.mask)[1]) for one, half in zip(encoders, halves, strict=True)]
        return Encoding(torch.cat(found, dim=1))


class QuickThought(LearnedEncoder):
    """Two encoders trained to pick the neighbours of sentences."""

    method: ClassVar[str] = "quick-thought"
    Options: ClassVar[type] = QuickThoughtOptions

    @classmethod
    def make_module(cls, options: QuickThoughtOptions, dim: int, beside: int) -> TwinModule:
        return TwinModule(dim, options, apart=options.word_vectors is None)

    @classmethod
    def train(cls, data: Corpus, options: QuickThoughtOptions, run: Run) -> Self:
        """Train on the order of the sentences of a corpus."""
        if options.dim is None and options.word_vectors is None:
            options = replace(options, dim=QUICK_DIM)
        stories = Stories.of(data, options.max_sentences, options.longest)
        about = About(data.segmentation, data.facts, run.curve)
        encoder = cls.of(stories.texts, given_vectors(run, options.word_vectors), about, options)
        task = NeighbourTask(encoder.net, encoder.prepare(stories.texts, run.progress), stories.documents, options)
        fit(task, options, run)
        encoder.net.eval()
        return encoder


class Stories:
    """Sentences in order, and the number of each one's document."""

    def __init__(self, texts: list[list[str]], documents: Ints) -> None:
        self.texts, self.documents = texts, documents

    @classmethod
    def of(cls, corpus: Corpus, most: int, longest: int) -> Stories:
        """The first ``most`` sentences of a corpus, cut to ``longest`` words."""
        chosen = np.flatnonzero(np.diff(corpus.sentence_offsets) > 0)[:most]  # those with words
        if len(chosen) < 2:
            raise TrainingError("the corpus has no two sentences to learn from")
        documents = corpus.sentence_documents[chosen]
        if not (documents[1:] == documents[:-1]).any():
            raise TrainingError("no document of the corpus has two consecutive sentences to learn from")
        return cls([corpus.sentence(int(number))[:longest] for number in chosen], documents)

    def neighbours(self, rows: Ints, step: int, end: int) -> Ints:
        """Which of ``rows`` have a sentence of the same document at ``row + step``, before ``end``."""
        there = rows + step
        inside = (there >= 0) & (there < end)
        found = np.zeros(len(rows), dtype=bool)
        found[inside] = self.documents[there[inside]] == self.documents[rows[inside]]
        return np.flatnonzero(found)


class NeighbourTask(BatchTask):
    """Training: in batches of consecutive sentences, pick the neighbours of each among the batch."""

    module: EncoderNet
    unit = "sentences"

    def __init__(self, net: EncoderNet, texts: PreparedTexts, documents: Ints, options: QuickThoughtOptions) -> None:
        self.module, self.texts, self.documents, self.options = net, texts, documents, options
        n_batches = -(-len(documents) // options.batch_size)
        self.n_held_out = min(round(options.hold_out * n_batches), HELD_OUT_BATCHES)
        self.last = len(documents) - self.n_held_out * options.batch_size  # what follows is held out
        self.reports = max(1, round(n_batches / BATCHES_A_REPORT))
        self._starts = lru_cache(maxsize=2)(self._make_starts)

    def _make_starts(self, epoch: int) -> Ints:
        """Where batches begin, with another shift and order in each epoch."""
        random = np.random.default_rng((self.options.seed, epoch))
        size = self.options.batch_size
        first = int(random.integers(min(size, max(self.last - 1, 1)))) if epoch and self.last > size else 0
        return random.permutation(np.arange(first, max(self.last - 1, 1), size))

    def n_steps(self, epoch: int) -> int:
        return len(self._starts(epoch))

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        start = int(self._starts(epoch)[index])
        rows = np.arange(start, min(start + self.options.batch_size, self.last))
        if part.rank:  # a batch cannot be divided: all its sentences are candidates for each of them
            return torch.zeros(()), 0
        total, n, _ = self._choices(self.module, rows)
        return total, n

    def _choices(self, net: nn.Module, rows: Ints) -> tuple[Tensor, int, int]:
        """The sum of losses, the number of sentences with neighbours, and how many have one ranked first."""
        vectors = net(on(self.device, self.texts.batch(rows))).vectors
        f, g = vectors.chunk(2, dim=1)
        logits = (f @ g.t()).fill_diagonal_(-torch.inf)
        targets = torch.from_numpy(neighbour_targets(self.documents[rows])).to(self.device)
        some = targets.sum(dim=1) > 0
        if not bool(some.any()):
            return vectors.sum() * 0, 0, 0
        chances = torch.log_softmax(logits[some], dim=1)
        wanted = targets[some]
        total = -(wanted * chances.masked_fill(wanted == 0, 0)).sum()
        right = int((wanted.gather(1, chances.argmax(dim=1, keepdim=True)) > 0).sum())
        return total, int(some.sum()), right

    def evaluate(self, module: nn.Module) -> Score | None:
        total, n, right = 0.0, 0, 0
        with torch.inference_mode():
            for start in range(self.last, len(self.documents), self.options.batch_size):
                rows = np.arange(start, min(start + self.options.batch_size, len(self.documents)))
                loss, some, hits = self._choices(module, rows)
                total, n, right = total + float(loss), n + some, right + hits
        return Score(total / n, {"held_out_loss": total / n, "neighbours_found": right / n}) if n else None


def neighbour_targets(documents: Ints) -> FloatArray:
    """The target distribution ``(B, B)`` over the neighbours of each of some consecutive sentences."""
    n = len(documents)
    near = np.zeros((n, n), dtype=np.float32)
    together = np.flatnonzero(documents[1:] == documents[:-1])
    near[together, together + 1] = near[together + 1, together] = 1
    return np.asarray(near / np.maximum(near.sum(axis=1, keepdims=True), 1), dtype=np.float32)


MOST_HELD_OUT = 2000  # sentences
REPORT_BATCHES = 1000  # between two reports, if an epoch is longer
END, UNKNOWN, FIRST = 0, 1, 2  # classes of the softmax; words start at FIRST


class TargetWords:
    """The output vocabulary of a decoder."""

    def __init__(self, keys: Sequence[str], counts: Ints) -> None:
        self.index = {key: FIRST + number for number, key in enumerate(keys)}
        self.counts = counts  # of every class

    @classmethod
    def of(cls, lists: TokenLists, min_count: int) -> TargetWords:
        """The words that occur at least ``min_count`` times in these sentences."""
        keys = counted_keys(words, lists, min_count)[0]
        found = cls(keys, np.zeros(FIRST + len(keys), dtype=np.int64))
        found.counts = np.bincount(found.ids(lists).values, minlength=len(found.counts))
        return found

    def __len__(self) -> int:
        return len(self.counts)

    def ids(self, lists: TokenLists) -> Flat:
        """The class of every word, with an end mark after each sentence."""
        known = self.index.get
        ids = [number for tokens in lists for number in (*(known(token, UNKNOWN) for token in tokens), END)]
        return Flat(np.array(ids, dtype=np.int64), offsets_of(lists) + np.arange(len(lists) + 1))


class WordDecoder(nn.Module):
    """The GRU that generates sentences; its hidden size is the dimension of the sentence vectors."""

    def __init__(self, dim: int, hidden: int, *, every_step: bool = True) -> None:
        super().__init__()
        self.rnn = nn.GRU(dim, hidden)
        self.condition = nn.Linear(hidden, 3 * hidden, bias=False) if every_step else None

    def forward(self, x: Tensor, lengths: Ints, vectors: Tensor, written: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states ``(N, H)`` and the classes to predict from them ``(N,)``.

        ``x (B, T, D)`` are the word vectors of the sentences, ``written (B, T + 1)`` their classes and the end mark,
        ``vectors (B, H)`` the vectors they are generated from.
        """
        packing = Packing.of(lengths + 1)
        device = x.device
        order = torch.from_numpy(packing.order).to(device)
        places = torch.from_numpy(packing.row * written.shape[1] + packing.time[0]).to(device)
        before = F.pad(x, (0, 0, 1, 0)).flatten(0, 1)  # the input of a step is the previous word; zeros at first
        read = before.index_select(0, places)[None]
        ordered = vectors[order]
        context = None if self.condition is None else self.condition(ordered)[None]
        rnn = self.rnn
        weights = GruWeights(*(getattr(rnn, f"{name}_l0")[None] for name in
                               ("weight_ih", "weight_hh", "bias_ih", "bias_hh")))  # fmt: skip
        states = packed_gru(read, packing.sizes, weights, ordered[None], context)[0]
        return states[0], written.flatten().index_select(0, places)


class WordOutput(nn.Module):
    """The softmax over words, which decoders may share."""

    def __init__(self, hidden: int, counts: Ints, negative: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(len(counts), hidden).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(len(counts)))
        self.sampler = ClassSampler(counts, negative)

    def loss(self, states: Tensor, targets: Tensor, random: np.random.Generator, scale: float = 1.0) -> Tensor:
        """``scale`` times the sum of the losses, with a softmax over a sample of the words."""
        candidates = self.sampler.draw(targets.cpu().numpy(), random).to(states.device)
        return sampled_softmax_loss(states, targets, self.weight, self.bias, candidates, scale)

    def score(self, states: Tensor, targets: Tensor) -> float:
        """The sum of the losses with a softmax over all words, for reports."""
        return float(log_losses(states, targets, self.weight, self.bias, self.sampler.reported).sum())


class WritingNet(nn.Module):
    """An encoder's network, and the softmax for the text generated from its vectors."""

    def __init__(self, net: EncoderNet, output: WordOutput) -> None:
        super().__init__()
        self.net, self.output = net, output


class WritingTask(BatchTask):
    """Training by generating texts from the vectors of others; batches have similar lengths; the last are held out."""

    unit = "sentences"
    module: WritingNet

    def __init__(self, module: WritingNet, texts: PreparedTexts, n_held_out: int, options: SkipThoughtOptions) -> None:
        self.module, self.texts, self.options = module, texts, options
        self.last = len(texts.sizes) - n_held_out  # what follows is held out
        self.batches = sized_batches(texts.sizes[: self.last], options.batch_size, options.seed)
        self.reports = max(1, round(self.last / options.batch_size / REPORT_BATCHES))

    @abstractmethod
    def written(self, module: nn.Module, rows: Ints, end: int) -> list[tuple[Tensor, Tensor]]:
        """Hidden states ``(N, H)`` and target words ``(N,)`` of each decoder, for texts before ``end`` only."""

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        rows = self.batches.rows(epoch, index)[part.rank :: part.of]
        random = np.random.default_rng((self.options.seed, epoch, index, part.rank))
        written = self.written(self.module, rows, self.last) if len(rows) else []
        n_words = sum(len(targets) for _, targets in written)
        if not n_words:
            return torch.zeros(()), 0
        # The loss is a mean over words, but sentences are counted, so that speeds can be compared.
        losses = [self.module.output.loss(*one, random, len(rows) / n_words) for one in written]
        return torch.stack(losses).sum(), len(rows)

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, WritingNet)
        total, n, size = 0.0, 0, self.options.batch_size
        n_texts = len(self.texts.sizes)
        with torch.inference_mode():
            for start in range(self.last, n_texts, size):
                rows = np.arange(start, min(start + size, n_texts))
                for states, targets in self.written(module, rows, n_texts):
                    total, n = total + module.output.score(states, targets), n + len(targets)
        return Score(total / n, {"held_out_loss": total / n}) if n else None


BESIDE = (-1, 1)  # the sentence before, the sentence after


class SkipThoughtModule(TextModule):
    """The last states of a unidirectional GRU, of a bidirectional one, or of both."""

    def __init__(self, dim: int, hidden: int, directions: str) -> None:
        super().__init__()
        made = {"uni": [False], "bi": [True], "combined": [False, True]}[directions]
        if hidden % 2 and True in made:
            raise OptionError(f"hidden must be even if sentences are read in both directions, not {hidden}")
        self.encoders = nn.ModuleList(
            Recurrent(dim, hidden // 2 if both else hidden, kind="gru", bidirectional=both) for both in made
        )
        self.dim = hidden * len(made)

    def forward(self, tokens: TextTokens) -> Encoding:
        last = [one(tokens.x, tokens.mask)[1][-1].h for one in self.encoders]  # each (D, B, H)
        return Encoding(torch.cat([h.transpose(0, 1).flatten(1) for h in last], dim=1))


class SkipThought(LearnedEncoder):
    """GRU encoders trained to generate the neighbours of a sentence from their last states."""

    method: ClassVar[str] = "skip-thought"
    Options: ClassVar[type] = SkipThoughtOptions

    @classmethod
    def make_module(cls, options: SkipThoughtOptions, dim: int, beside: int) -> SkipThoughtModule:
        return SkipThoughtModule(dim, options.hidden, options.directions)

    @classmethod
    def train(cls, data: Corpus, options: SkipThoughtOptions, run: Run) -> Self:
        """Train on the order of the sentences of a corpus."""
        given = vectors_to_expand(run, options)
        stories = Stories.of(data, options.max_sentences, options.longest)
        encoder = cls.of(stories.texts, [], About(data.segmentation, data.facts, run.curve), options)
        if given is not None:
            words_in_both(encoder, given)  # checked before a long training, not after it
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            written = TargetWords.of(stories.texts, options.min_count)
            module = SkipNet(encoder.net, written, options)
        fit(SkipTask(module, encoder.prepare(stories.texts, run.progress), stories, written, options), options, run)
        encoder.net.eval()
        if given is not None:
            expand(encoder, given, options.most_expanded)
        return encoder


class SkipNet(WritingNet):
    """The encoder, two decoders (before, after) for each of its parts, and the softmax they share."""

    def __init__(self, net: EncoderNet, written: TargetWords, options: SkipThoughtOptions) -> None:
        super().__init__(net, WordOutput(options.hidden, written.counts, options.negative))
        self.hidden = options.hidden
        n_parts = net.encoder.dim // options.hidden
        every = options.condition == "every-step"
        made = (WordDecoder(net.inputs.dim, options.hidden, every_step=every) for _ in range(n_parts * len(BESIDE)))
        self.decoders = nn.ModuleList(made)  # those of the sentences before, then those of the sentences after


class SkipTask(WritingTask):
    """Training: generate the neighbours of each sentence."""

    def __init__(
        self, module: SkipNet, texts: PreparedTexts, stories: Stories, words: TargetWords, options: SkipThoughtOptions
    ) -> None:
        self.stories, self.words = stories, words.ids(stories.texts)
        super().__init__(module, texts, min(round(options.hold_out * len(stories.texts)), MOST_HELD_OUT), options)

    def written(self, module: nn.Module, rows: Ints, end: int) -> list[tuple[Tensor, Tensor]]:
        assert isinstance(module, SkipNet)
        vectors = module.net(on(self.device, self.texts.batch(rows))).vectors
        parts = torch.split(vectors, module.hidden, dim=1)
        found = []
        for side, step in enumerate(BESIDE):
            which = self.stories.neighbours(rows, step, end)
            if not len(which):
                continue
            there = rows[which] + step
            batch = on(self.device, self.texts.batch(there))
            words = torch.from_numpy(self.words.padded(there, batch.mask.shape[1] + 1)).to(self.device)
            x, of = module.net.inputs(batch).x, torch.from_numpy(which).to(self.device)
            decoders = module.decoders[side * len(parts) : (side + 1) * len(parts)]
            for decoder, vector in zip(decoders, parts, strict=True):
                found.append(decoder(x, self.texts.sizes[there], vector[of], words))
        return found


# ---- vocabulary expansion


def vectors_to_expand(run: Run, options: SkipThoughtOptions) -> WordVectorsInterface | None:
    """The word vectors that the option ``expand`` names, if any."""
    given = run.models.get("expand")
    if given is not None and not isinstance(given, WordVectorsInterface):
        raise OptionError(f"option 'expand' must name word vectors, but {options.expand} has method {given.method}")
    return given


def linear_map(x: FloatArray, y: FloatArray) -> FloatArray:
    """``(n, I), (n, D) -> (I + 1, D)``: the M with [x; 1] M ≈ y, by least squares."""
    ones = np.ones((len(x), 1))
    found = np.linalg.lstsq(np.hstack([x, ones]).astype(np.float64), y.astype(np.float64), rcond=None)[0]
    return np.asarray(found, dtype=np.float32)


def words_in_both(encoder: LearnedEncoder, vectors: WordVectorsInterface) -> tuple[LearnedKeys, list[str]]:
    """The encoder's table of words, and those that have a vector too; refused if they are too few to map one by."""
    table = next(s for s in encoder.inputs.sources if isinstance(s, LearnedKeys) and s.name == "words")
    shared = [word for word in table.keys if word in vectors]
    if len(shared) <= vectors.vector_size:
        raise TrainingError(
            f"only {len(shared)} words of the corpus have a vector to expand from: too few to fit a mapping"
        )
    return table, shared


def expand(encoder: LearnedEncoder, vectors: WordVectorsInterface, most: int) -> None:
    """Map the words of ``vectors`` that the encoder does not know into its vector space, and add them to it."""
    table, shared = words_in_both(encoder, vectors)
    own = table.module.weight.detach().numpy()
    learned = own[[table.index[word] for word in shared]]
    mapping = linear_map(vectors.lookup(shared), learned)
    new = [word for word in vectors.index_to_key[:most] if word not in table.index]
    made = vectors.lookup(new) @ mapping[:-1] + mapping[-1]
    wider = LearnedKeys("words", [*table.keys, *new], table.module.dim)
    wider.module.weight.data = torch.from_numpy(np.concatenate([own, made]).astype(np.float32))
    place = encoder.inputs.sources.index(table)
    encoder.inputs.sources[place] = wider
    encoder.inputs.module.sources[place] = wider.module.eval()
