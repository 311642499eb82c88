"""Training BERT on a corpus, from scratch or from any masked language model.

BERT (基于掩码语言模型的语境词向量): hidden states of a Transformer trained to predict masked subwords.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2018.

    max Σ over the masked subwords i of log p(x_i | x with 15 % masked)  [+ log p(does B follow A)],
    p = softmax(W_emb · norm(gelu(W h_i)) + b)

What differs from the paper: subwords are learned from the corpus; masks and pairs are drawn anew in every epoch; whole
words are masked, as the corpus segments them (Chinese words too); the head runs on masked positions only; there is no
dropout by default; the output bias starts at the log frequency of each subword; the epsilon of the norms, GELU and the
initial weights are those of ``transformers``. Any masked language model can be trained further, including published
ones.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar, TypeVar

import numpy as np
import torch
from transformers import BertForMaskedLM, BertForPreTraining

from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.options import BertOptions, with_shape, with_shape_of
from polyseme.contexts.transformer.pretrain.corpus_tokens import PieceCorpus, PieceTable, split
from polyseme.contexts.transformer.pretrain.objectives import MaskedTask
from polyseme.contexts.transformer.pretrain.start import (
    bert_config,
    fresh,
    further,
    given_pieces,
    look_at_neighbours,
)
from polyseme.contexts.transformer.pretrain.training_examples import (
    Masking,
    PairExamples,
    StreamExamples,
    TrainingExamples,
)
from polyseme.contexts.transformer.subwords import learn_wordpieces
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.contexts.transformer.trained import TrainedTransformer
from polyseme.errors import OptionError, TrainingError
from polyseme.neural.softmax import log_frequencies
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run


class Bert(TrainedTransformer):
    """A masked language model trained here."""

    method: ClassVar[str] = "bert"
    Options: ClassVar[type] = BertOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.bert:train_bert"
    options: BertOptions


log = logging.getLogger(__name__)

B = TypeVar("B", bound=Bert)


def train_bert(cls: type[B], corpus: Corpus, options: BertOptions, run: Run) -> B:
    """Train a BERT on ``corpus``, starting from ``run.start`` if it is given."""
    if not corpus.n_tokens or not len(corpus.vocabulary):
        raise TrainingError("the corpus has no words to train on")
    options.shares()
    started = further(run.start, "masked", options.seed)
    if started is None:
        options = with_shape(options)
        pieces = given_pieces(run.models, "cls", "sep", "mask") or _learned(corpus, options)
        network = _network(pieces, options)
    else:
        network, pieces = started
        options = _that_fit(network, options)
    task = make_task(network, pieces, corpus, options)
    if started is None:
        with torch.no_grad():
            network.whole.cls.predictions.bias.copy_(log_frequencies(_frequencies(task, network)))
    fit(task, options, run)
    about = About(segmentation=corpus.segmentation, corpus=corpus.facts, curve=run.curve)
    mix = run.start.mix if isinstance(run.start, Bert) else None
    return cls(options, network, pieces, mix=mix, about=about)


def make_task(network: Network, pieces: Pieces, corpus: Corpus, options: BertOptions) -> MaskedTask:
    """The training task, ready for the first step."""
    if options.pairs != "none" and not network.tells_pairs:
        raise OptionError(f"this {network.whole.config.model_type} has no head for pairs of sentences: use pairs=none")
    table = PieceTable(corpus, pieces)
    training, held_out = split(table, options.hold_out, options.seed)
    parts = [_examples(PieceCorpus(table, sentences), pieces, options) for sentences in (training, held_out)]
    if not parts[0].n_examples(0):
        raise TrainingError(
            "no document of the corpus has two sentences to pair: use pairs=none"
            if options.pairs != "none" else "the corpus has no pieces to train on"
        )  # fmt: skip
    mask = pieces.id_of("mask")
    if mask is None:
        raise OptionError("the tokenizer has no mask: this is not a masked language model")
    masked, kept = options.shares()
    return MaskedTask(
        network, parts[0], parts[1] if len(held_out) else None,
        Masking(options.masking, options.mask_share, masked, kept, mask, pieces.ordinary),
        batch_size=options.batch_size, length=options.length, padding=pieces.id_of("pad") or 0, seed=options.seed,
    )  # fmt: skip


def _examples(text: PieceCorpus, pieces: Pieces, options: BertOptions) -> TrainingExamples:
    if options.pairs == "none":
        room = options.length - len(pieces.before) - len(pieces.behind)
        return StreamExamples(text, room=room, before=pieces.before, behind=pieces.behind, seed=options.seed)
    cls, sep = pieces.before[0], pieces.behind[0]
    return PairExamples(text, kind=options.pairs, room=options.length - 3, cls=cls, sep=sep, seed=options.seed)


def _learned(corpus: Corpus, options: BertOptions) -> Pieces:
    return learn_wordpieces(corpus.vocabulary, options.max_size, corpus.segmentation, limit=options.length)


def _network(pieces: Pieces, options: BertOptions) -> Network:
    kind = BertForMaskedLM if options.pairs == "none" else BertForPreTraining
    network = fresh(kind, bert_config(pieces, options), options.seed)
    look_at_neighbours(network.body)
    return network


def _that_fit(network: Network, options: BertOptions) -> BertOptions:
    """The given options with the sizes of the model to train further; what it cannot do is told."""
    if options.pairs != "none" and not network.tells_pairs:
        log.warning("this %s has no head for pairs of sentences: pairs=none", network.whole.config.model_type)
        options = replace(options, pairs="none")
    return with_shape_of(network, options)


def _frequencies(task: MaskedTask, network: Network) -> np.ndarray:
    examples = task.examples
    assert isinstance(examples, (PairExamples, StreamExamples))
    return examples.text.table.frequencies(network.vocabulary_size)
