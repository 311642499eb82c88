"""Training GPT on a corpus, from scratch or from any causal language model.

GPT (生成式语言模型的语境词向量): hidden states of a Transformer trained to predict the next subword.

Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018.

    max Σ_i log p(x_i | x_1 … x_{i-1}),   p = softmax(W_emb · h)

What differs from the paper: subwords are learned from the corpus, and each Chinese character is one; norms come before
the layers unless ``norm="post"`` (``post`` is that of GPT, ``pre`` that of GPT-2); documents end with a special token,
so that the model learns to stop; there is no dropout by default. Any causal language model can be trained further,
including published ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, TypeVar

from transformers import GPT2Config, GPT2LMHeadModel, OpenAIGPTConfig, OpenAIGPTLMHeadModel

from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.options import GptOptions, check_inner, initial_deviation, with_shape, with_shape_of
from polyseme.contexts.transformer.pretrain.corpus_tokens import PieceCorpus, PieceTable, split
from polyseme.contexts.transformer.pretrain.objectives import CausalTask
from polyseme.contexts.transformer.pretrain.start import fresh, further, given_pieces
from polyseme.contexts.transformer.pretrain.training_examples import StreamExamples
from polyseme.contexts.transformer.subwords import learn_byte_pairs
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.contexts.transformer.trained import TrainedTransformer
from polyseme.errors import TrainingError
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run


class Gpt(TrainedTransformer):
    """A causal language model trained here."""

    method: ClassVar[str] = "gpt"
    Options: ClassVar[type] = GptOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.gpt:train_gpt"
    options: GptOptions


G = TypeVar("G", bound=Gpt)

# The start, delimiter and end tokens of the paper's task inputs; the end also follows each document.
SPECIALS = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "sep_token": "<$>", "eos_token": "</s>"}


def train_gpt(cls: type[G], corpus: Corpus, options: GptOptions, run: Run) -> G:
    """Train a GPT on ``corpus``, starting from ``run.start`` if it is given."""
    if not corpus.n_tokens or not len(corpus.vocabulary):
        raise TrainingError("the corpus has no words to train on")
    started = further(run.start, "causal", options.seed)
    if started is None:
        options = with_shape(options)
        pieces = given_pieces(run.models, "eos") or _learned(corpus, options)
        network = _network(pieces, options)
    else:
        network, pieces = started
        norm = "post" if network.whole.config.model_type == "openai-gpt" else "pre"
        options = replace(with_shape_of(network, options), norm=norm)
    fit(make_task(network, pieces, corpus, options), options, run)
    about = About(segmentation=corpus.segmentation, corpus=corpus.facts, curve=run.curve)
    return cls(options, network, pieces, about=about)


def make_task(network: Network, pieces: Pieces, corpus: Corpus, options: GptOptions) -> CausalTask:
    """The training task, ready for the first step."""
    table = PieceTable(corpus, pieces)
    training, held_out = split(table, options.hold_out, options.seed)
    parts = [
        StreamExamples(
            PieceCorpus(table, sentences, end=pieces.id_of("eos")), room=options.length + 1, before=[], behind=[],
            seed=options.seed,
        )
        for sentences in (training, held_out)
    ]  # fmt: skip
    if parts[0].text.n_pieces < 2:
        raise TrainingError("the corpus has no pieces to train on")
    return CausalTask(
        network, parts[0], parts[1] if len(held_out) else None,
        batch_size=options.batch_size, length=options.length, padding=pieces.id_of("pad") or 0,
    )  # fmt: skip


def _learned(corpus: Corpus, options: GptOptions) -> Pieces:
    return learn_byte_pairs(
        corpus.vocabulary, options.max_size, corpus.segmentation, SPECIALS,
        single="$A", pair="<s> $A <$> $B </s>", limit=options.length,
    )  # fmt: skip


def _network(pieces: Pieces, options: GptOptions) -> Network:
    shape = {
        "vocab_size": len(pieces.names), "n_positions": options.length, "n_embd": options.dim,
        "n_layer": options.n_layers, "n_head": options.n_heads, "initializer_range": initial_deviation(options),
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), options.dropout),
        **{f"{name}_token_id": pieces.id_of(name) for name in ("bos", "eos", "pad")},
    }  # fmt: skip
    if options.norm == "pre":
        return fresh(GPT2LMHeadModel, GPT2Config(**shape, n_inner=options.inner), options.seed)
    check_inner(options)
    return fresh(OpenAIGPTLMHeadModel, OpenAIGPTConfig(**shape), options.seed)
