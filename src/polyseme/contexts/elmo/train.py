"""Training a biLM on a corpus: distinct words are encoded once per batch, both directions together, sampled softmax.

A step is ``BiLMTask.gradients`` here, ``BiLM.run`` in bilm.py, and ``packed_lstm`` with the other blocks in neural/.

What differs from the paper's program: it needs no vocabulary file and no token count; every report has the forward and
backward perplexity of held-out text (estimated from a fixed sample of a large softmax, accurate to a few thousandths,
so that reports take at most a twentieth of the time); the best weights are kept; the softmax is saved. A word outside
the softmax is still read by its characters; it is the class "unknown" only as a target.

Training a biLM further on other text: its shape stays, and its tables grow by the new words and characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.elmo.alphabet import CHARACTER_SPECIALS, WORD_SPECIALS, make_alphabet
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.model import Elmo
from polyseme.contexts.elmo.options import ElmoOptions, with_sizes
from polyseme.contexts.elmo.perplexity import BATCH_TOKENS, losses_of
from polyseme.contexts.elmo.training_batches import (
    Ints,
    PackedBatch,
    SentenceBatches,
    Sentences,
    StreamBatches,
    WordTable,
    split,
    word_counts,
)
from polyseme.errors import OptionError, TrainingError, as_given
from polyseme.interfaces import perplexity_of
from polyseme.machine import cores
from polyseme.neural.convolution import lay_out_by_offset
from polyseme.neural.lstm import State, rows_of_states, states_of_rows
from polyseme.neural.softmax import ClassSampler, log_frequencies, sampled_softmax_loss
from polyseme.options import keeping_shape
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run
from polyseme.training.task import Loss, Part, Score, Task


def joined(known: list[str], added: list[str]) -> list[str]:
    """The known items in their order, followed by the new ones."""
    seen = set(known)
    return [*known, *(item for item in added if item not in seen)]


@torch.no_grad()
def take_over(bilm: BiLM, start: BiLM) -> None:
    """Copy the weights of ``start``; rows of its tables keep their indices, and special entries stay at the end."""
    known = start.state_dict()
    for name, tensor in bilm.state_dict().items():
        if name not in known:  # the softmax, if the model came without one
            continue
        if name == "encoder.characters":
            _take_rows(tensor, known[name], CHARACTER_SPECIALS)
        elif name in ("encoder.words", "softmax_weight"):
            _take_rows(tensor, known[name], WORD_SPECIALS)
        elif name == "softmax_bias":
            _take_biases(tensor, known[name])
        else:
            tensor.copy_(known[name])


def _take_rows(to: Tensor, known: Tensor, n_special: int) -> None:
    """Copy the known rows; new ones start from the row of the unknown entry."""
    if to.shape == known.shape:
        to.copy_(known)
        return
    n = len(known) - n_special
    to[:n] = known[:n]
    to[n : len(to) - n_special] = known[n]
    to[len(to) - n_special :] = known[n:]


def _take_biases(to: Tensor, known: Tensor) -> None:
    """Copy the known biases; new words share the probability of "unknown" in proportion to their frequency."""
    n, end = len(known) - WORD_SPECIALS, len(to) - WORD_SPECIALS
    if end > n:
        fresh = to[n : end + 1]  # log frequencies of the new words and of the words that stay unknown
        to[n : end + 1] = known[n] + fresh - torch.logsumexp(fresh, dim=0)
    to[:n] = known[:n]
    to[end + 1 :] = known[n + 1 :]


E = TypeVar("E", bound=Elmo)

HELD_OUT_WORDS = 20_000
REPORT_TOKENS = 500_000  # tokens between two reports, if an epoch is longer
RARE_CHARACTER = 2  # rarer characters are read as unknown, so that the unknown character has a trained vector
SMALL_CORPUS = 100_000  # words up to which one process is as fast as several
MASK_SHIFTS = 1 << 20  # offsets into the dropout mask at which the mask of a layer may start


class BiLMTask(Task):
    """Learns to predict the next word in both directions."""

    module: BiLM

    def __init__(
        self, bilm: BiLM, words: WordTable, training: Sentences, held_out: Sentences, options: ElmoOptions
    ) -> None:
        self.module, self.words, self.options = bilm, words, options
        if words.alphabet.spells:
            lay_out_by_offset(bilm.encoder.convolutions)
        self.batches: SentenceBatches | StreamBatches
        self.shareable = options.sequences == "sentences"
        if self.shareable:
            self.batches = SentenceBatches(
                training, tokens=options.batch_tokens, longest=options.unroll, seed=options.seed
            )
        else:
            rows = max(options.batch_tokens // options.unroll, 1)
            self.batches = StreamBatches(training, rows=rows, unroll=options.unroll, seed=options.seed)
        self.held_out = SentenceBatches(held_out, tokens=BATCH_TOKENS, longest=1 << 30, seed=0)
        self.reports = max(1, round(int(training.lengths().sum()) / REPORT_TOKENS))
        self.sampler = ClassSampler(class_counts(words, training), options.negative or bilm.config.n_classes)
        self.states: list[State] = []  # last states of a stream
        self._mask = torch.empty(0)

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        whole = self.batches.batch(epoch, index)
        batch, places = whole.share(*part) if part.of > 1 else (whole, None)
        # All processes draw the same candidates and the same mask for the whole batch, and each takes its rows.
        random = np.random.default_rng((self.options.seed, epoch, index))
        candidates = self.sampler.draw(self.words.class_of[whole.targets].reshape(-1), random)
        if index == 0 or self.shareable or not self.states:
            self.states = self.module.zero_states(len(batch.packing.order), like=self.module.softmax_bias.detach())
        if not batch.n_predictions:  # more processes than rows
            return Loss(0.0, 0)
        states = self._top_states(batch, self._dropout(whole, places, random))
        loss = sampled_softmax_loss(
            states.view(-1, states.shape[2]),
            torch.from_numpy(self.words.class_of[batch.targets].reshape(-1)).to(self.device),
            self.module.softmax_weight,
            self.module.softmax_bias,
            candidates.to(self.device),
            1 / batch.n_predictions,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        return Loss(float(loss.detach()) * batch.n_predictions / 2, batch.n_predictions // 2)

    def _top_states(self, batch: PackedBatch, dropped: Callable[[Tensor], Tensor]) -> Tensor:
        """Packed states ``(2, N, P)`` of the top layer, with dropout on the input of each layer and on the result."""
        x = self._read(self.module, batch, sparse=True)
        planes, last = self.module.run(x, batch.packing.sizes, self.states, dropped=dropped)
        self.states = [State(h.detach(), c.detach()) for h, c in last]  # truncated backpropagation through time
        return dropped(planes[-1])

    def _read(self, bilm: BiLM, batch: PackedBatch, *, sparse: bool) -> Tensor:
        """The vectors of the words of a batch, ``(2, N, P)``, each distinct word encoded once."""
        distinct, place = np.unique(batch.inputs, return_inverse=True)
        vectors = bilm.encoder(self.words.tokens.at(distinct, self.device), sparse=sparse)
        return F.embedding(torch.from_numpy(place.reshape(batch.inputs.shape)).to(self.device), vectors)

    def _dropout(
        self, whole: PackedBatch, places: Ints | None, random: np.random.Generator
    ) -> Callable[[Tensor], Tensor]:
        """Dropout with slices of one large mask, since drawing new masks would take a tenth of the training time.

        A slice is for the whole batch; ``places`` are the tokens of it that this process works on.
        """
        if not self.options.dropout:
            return lambda x: x
        n = whole.n_predictions * self.module.config.projection
        if len(self._mask) < n + MASK_SHIFTS:
            self._mask = _drawn_mask(n + MASK_SHIFTS, self.options).to(self.device)
        rows = None if places is None else torch.from_numpy(places).to(self.device)

        def dropped(x: Tensor) -> Tensor:
            start = int(random.integers(MASK_SHIFTS))
            mask = self._mask[start : start + n].view(2, -1, x.shape[2])
            return x * (mask if rows is None else mask[:, rows])

        return dropped

    @torch.inference_mode()
    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, BiLM)
        sums, n = np.zeros(2), 0
        for batch in self.held_out.in_order():
            inputs, targets = self._read(module, batch, sparse=False), self.words.class_of[batch.targets]
            sums += losses_of(module, inputs, batch.packing, targets, self.sampler.reported).sum(axis=1)
            n += batch.n_predictions // 2
        if not n:
            return None
        forward, backward = map(perplexity_of, (sums / n).tolist())
        return Score(float(sums.sum() / n), {"forward_perplexity": forward, "backward_perplexity": backward})

    def carried(self) -> dict[str, Tensor]:
        return {} if self.shareable else rows_of_states(self.states)

    def carry(self, tensors: dict[str, Tensor]) -> None:
        self.states = states_of_rows(tensors)


def _drawn_mask(n: int, options: ElmoOptions) -> Tensor:
    keep = 1 - options.dropout
    random = torch.Generator().manual_seed(options.seed)
    return torch.empty(n).bernoulli_(keep, generator=random).div_(keep)


# ---- from a corpus to a model


def train_elmo(cls: type[E], corpus: Corpus, options: ElmoOptions, run: Run) -> E:
    """Train a biLM on ``corpus``, starting from ``run.start`` if it is given."""
    start = run.start
    if start is not None and not isinstance(start, Elmo):
        raise OptionError(f"elmo can only continue from an elmo model, not from {start.method}")
    task = make_task(corpus, options, start)
    threads = options.threads or (cores() if corpus.n_tokens > SMALL_CORPUS else 1)
    fit(task, replace(options, threads=threads), run)
    about = About(segmentation=corpus.segmentation, corpus=corpus.facts, curve=run.curve)
    words, mix = task.words, start.mix if start else None
    return cls(task.options, words.alphabet, task.module, classes=words.classes, mix=mix, about=about)


def make_task(corpus: Corpus, options: ElmoOptions, start: Elmo | None = None) -> BiLMTask:
    """The training task, ready for the first step."""
    if options.reader != "lstm" and options.sequences == "stream":
        raise OptionError(f"the {options.reader} reader has no states to carry over: train on sequences=sentences")
    if not corpus.n_tokens:
        raise TrainingError("the corpus has no words to train on")
    training, held_out = split(corpus, options.hold_out, HELD_OUT_WORDS)
    classes = corpus.vocabulary.cut(min_count=options.min_count, max_size=options.max_size).words
    characters, project = _characters(corpus), None
    if start is not None:
        options, project = keeping_shape(options, with_sizes(start.options)), start.bilm.config.project
        classes = joined(start.classes or start.alphabet.words, classes)
        characters = joined(start.alphabet.characters, characters)
    if not classes:
        raise TrainingError(
            f"no word occurs {options.min_count} times or more: give more text, or {as_given('min_count', 1)}"
        )
    options = with_sizes(options)
    alphabet = make_alphabet(options, characters=characters, words=classes)
    words = WordTable(corpus.all_words, alphabet, classes)
    bilm = BiLM(BiLMConfig.of(options, alphabet, n_classes=len(classes) + WORD_SPECIALS, project=project))
    bilm.reset_parameters(torch.Generator().manual_seed(options.seed))
    with torch.no_grad():
        bilm.softmax_bias.copy_(log_frequencies(class_counts(words, training)))
    if start is not None:
        take_over(bilm, start.bilm)
    task = BiLMTask(bilm, words, training, held_out, options)
    if not task.n_steps(0):
        raise TrainingError("the corpus is shorter than one batch of a stream: lower batch_tokens or unroll")
    return task


def class_counts(words: WordTable, training: Sentences) -> Ints:
    """How often each softmax class is a target."""
    return np.bincount(words.class_of, weights=training.id_counts(), minlength=len(words.classes) + WORD_SPECIALS)


def _characters(corpus: Corpus) -> list[str]:
    """The characters of the text without rare ones, the most frequent first."""
    counts: Counter[str] = Counter()
    numbers = word_counts(corpus.ids, len(corpus.all_words))
    for word, n in zip(corpus.all_words, numbers.tolist(), strict=True):
        for character in word:
            counts[character] += n
    kept = [(-n, character) for character, n in counts.items() if n >= RARE_CHARACTER]
    return [character for _, character in sorted(kept)]
