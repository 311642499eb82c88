"""Training a biLM on a corpus, from nothing or from a saved one.

What differs from the paper's program: no vocabulary file and no token count to give; forward and backward perplexity of
held-out text over the whole softmax in every report; the best weights are kept; the softmax is saved with the model.
A word outside the softmax is spelt out where it is read, and is the class "unknown" only where it is predicted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from polyseme.contexts.elmo.alphabet import CHARACTER_SPECIALS, WORD_SPECIALS
from polyseme.contexts.elmo.batches import Sentences, split, word_counts
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.model import Elmo, make_alphabet
from polyseme.contexts.elmo.options import ElmoOptions, with_sizes
from polyseme.contexts.elmo.reader import Reader
from polyseme.contexts.elmo.task import BiLMTask
from polyseme.errors import OptionError, TrainingError
from polyseme.machine import cores
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.options import TrainingOptions
from polyseme.training.run import Run

E = TypeVar("E", bound=Elmo)

HELD_OUT_WORDS = 20_000
RARE_CHARACTER = 2  # characters seen less often are read as unknown ones, so that those have a vector
SMALL_CORPUS = 100_000  # words up to which one process is as quick as several
LEARNING = {f.name for f in fields(TrainingOptions)} | {
    "min_count", "max_vocabulary", "sequences", "batch_tokens", "unroll", "negatives", "dropout", "hold_out"
}  # fmt: skip


def train_elmo(cls: type[E], corpus: Corpus, options: ElmoOptions, run: Run) -> E:
    """A biLM that learned from ``corpus``, starting from ``run.start`` where that is given."""
    start = run.start
    if start is not None and not isinstance(start, Elmo):
        raise OptionError(f"elmo goes on from an elmo model, not from {start.method}")
    task = make_task(corpus, options, start)
    threads = options.threads or (cores() if corpus.n_tokens > SMALL_CORPUS else 1)
    fit(task, replace(options, threads=threads), run)
    about = About(segmentation=corpus.segmentation, corpus=corpus.facts, curve=run.curve)
    reader, mix = task.reader, start.mix if start else None
    return cls(task.options, reader.alphabet, task.module, classes=reader.classes, mix=mix, about=about)


def make_task(corpus: Corpus, options: ElmoOptions, start: Elmo | None = None) -> BiLMTask:
    """Everything that is to be learned, before the first step."""
    if not corpus.n_tokens:
        raise TrainingError("the corpus has no words to train on")
    training, held_out = split(corpus, options.hold_out, HELD_OUT_WORDS)
    words, characters, project = _vocabulary(corpus, options), _characters(corpus), None
    if start is not None:
        options, project = _with_shape_of(start.options, options), start.bilm.config.project
        words = _joined(start.classes or start.alphabet.words, words)
        characters = _joined(start.alphabet.characters, characters)
    if not words:
        raise TrainingError(
            f"none of the {len(corpus.all_words):,} words is seen {options.min_count} times or more: give more text, "
            "or lower min_count"
        )
    options = with_sizes(options)
    alphabet = make_alphabet(options, characters=characters, words=words)
    reader = Reader(corpus.all_words, alphabet, words)
    bilm = BiLM(BiLMConfig.of(options, alphabet, n_classes=len(words) + WORD_SPECIALS, project=project))
    bilm.reset_parameters(torch.Generator().manual_seed(options.seed))
    _expect_frequent_classes(bilm, reader, training)
    if start is not None:
        _take_over(bilm, start.bilm)
    task = BiLMTask(bilm, reader, training, held_out, options)
    if not task.n_steps(0):
        raise TrainingError("the corpus is shorter than one batch of a stream: lower batch_tokens or unroll")
    return task


def _vocabulary(corpus: Corpus, options: ElmoOptions) -> list[str]:
    return corpus.vocabulary.cut(min_count=options.min_count, max_size=options.max_vocabulary or None).words


def _characters(corpus: Corpus) -> list[str]:
    """The characters of the text, most frequent first."""
    counts: Counter[str] = Counter()
    numbers = word_counts(corpus.ids, len(corpus.all_words))
    for word, n in zip(corpus.all_words, numbers.tolist(), strict=True):
        for character in word:
            counts[character] += n
    kept = [(-n, character) for character, n in counts.items() if n >= RARE_CHARACTER]
    return [character for _, character in sorted(kept)]


def _joined(known: list[str], more: list[str]) -> list[str]:
    """What is known in its order, then what is new."""
    seen = set(known)
    return [*known, *(item for item in more if item not in seen)]


def _with_shape_of(known: ElmoOptions, given: ElmoOptions) -> ElmoOptions:
    """The given options of learning; a shape that is given must be the model's own."""
    shape = {f.name: getattr(known, f.name) for f in fields(ElmoOptions) if f.name not in LEARNING}
    usual = ElmoOptions()
    for name in shape:
        if getattr(given, name) not in (getattr(usual, name), getattr(known, name), known.value(name)):
            raise OptionError(
                f"{name} is {known.value(name)!r} in the model to start from, not {getattr(given, name)!r}"
            )
    return replace(given, **shape)


@torch.no_grad()
def _expect_frequent_classes(bilm: BiLM, reader: Reader, training: Sentences) -> None:
    """Begin the softmax's bias at the log frequency of each class."""
    counts = np.bincount(reader.class_of, weights=training.id_counts(), minlength=bilm.config.n_classes) + 1
    bilm.softmax_bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))


@torch.no_grad()
def _take_over(bilm: BiLM, start: BiLM) -> None:
    """The weights of ``start``; its tables' rows keep their places, their special entries stay at the end."""
    known = start.state_dict()
    for name, tensor in bilm.state_dict().items():
        if name not in known:  # a softmax, where the model came without one
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
    """Known rows; new ones begin as the row of the unknown."""
    if to.shape == known.shape:
        to.copy_(known)
        return
    n = len(known) - n_special
    to[:n] = known[:n]
    to[n : len(to) - n_special] = known[n]
    to[len(to) - n_special :] = known[n:]


def _take_biases(to: Tensor, known: Tensor) -> None:
    """Known biases; the words that were unknown so far share the chance of "unknown" by their frequency."""
    n, end = len(known) - WORD_SPECIALS, len(to) - WORD_SPECIALS
    if end > n:
        fresh = to[n : end + 1]  # log frequencies of the new words and of what stays unknown
        to[n : end + 1] = known[n] + fresh - torch.logsumexp(fresh, dim=0)
    to[:n] = known[:n]
    to[end + 1 :] = known[n + 1 :]
