"""The initial network of a training run: a new one of a given shape, or a copy of a model to train further."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    BertConfig,
    PreTrainedConfig,
    PreTrainedModel,
    XLMModel,
)

from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Network, keep_pooler
from polyseme.contexts.transformer.offline import offline
from polyseme.contexts.transformer.options import ShapeOptions, initial_deviation
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.errors import OptionError
from polyseme.store.model import Model

LOWEST, HIGHEST = 0.05, 2.8  # angles by which the waves of a position turn from one position to the next
SHARPNESS = 3.0  # how much the score of a head's own position is above the mean of those next to it
RANDOM_SHARE = 0.3  # of a head's random weights that stay


def fresh(cls: type[PreTrainedModel], config: PreTrainedConfig, seed: int) -> Network:
    """A network with random weights."""
    with offline(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config._attn_implementation = "sdpa" if getattr(cls, "_supports_sdpa", False) else "eager"
        whole = cls(config)
        config.architectures = [cls.__name__]
        return Network(whole)


class PositionWeights(NamedTuple):
    """The weights by which the attention of a network tells positions apart."""

    words: Tensor  # (V, D)
    positions: Tensor  # (T, D)
    others: Tensor  # of segments or languages
    attention: list[tuple[nn.Linear, nn.Linear]]  # queries and keys of each layer
    n_heads: int

    @classmethod
    def of(cls, body: Any) -> PositionWeights:
        """Those of BERT or XLM."""
        if isinstance(body, XLMModel):
            words, positions, others = body.embeddings, body.position_embeddings, body.lang_embeddings
            attention = [(layer.q_lin, layer.k_lin) for layer in body.attentions]
        else:
            table = body.embeddings
            words, positions, others = table.word_embeddings, table.position_embeddings, table.token_type_embeddings
            attention = [(layer.attention.self.query, layer.attention.self.key) for layer in body.encoder.layer]
        return cls(words.weight, positions.weight, others.weight, attention, body.config.num_attention_heads)


@torch.no_grad()
def look_at_neighbours(body: PreTrainedModel) -> None:
    """Let the attention heads of a new BERT or XLM begin at the words before and after, instead of everywhere alike.

    The mean over all words of a text tells little of a masked one: with random heads the loss stays at that of the
    frequencies alone for thousands of steps. Positions begin as sines and cosines, ``p(t)``, in the first dimensions.
    The one of another position is a rotation of it, ``p(t + k) = R_k p(t)`` (Vaswani et al., 2017), so a head with
    ``W_K = s I`` and ``W_Q = s R_k`` there looks at the word k places on: k = -1, 1, -2, 2, … in each layer. All of it
    is learned further, and the network keeps its architecture. The heads of translations, whose positions begin again,
    look at the words there in the translation too.
    """
    words, positions, others, attention, heads = PositionWeights.of(body)
    length, dim = positions.shape
    width = dim // heads
    n = width // 2
    if not n:  # a plane needs two dimensions
        return
    angles = torch.linspace(LOWEST, HIGHEST, n)
    size = dim * float(words.var())  # of a word's vector, squared; a position has the same
    waves = torch.arange(length)[:, None] * angles
    others *= RANDOM_SHARE**2  # else a third of the sum, the same in all places
    positions.zero_()
    positions[:, : 2 * n] = math.sqrt(size / n) * torch.stack([waves.cos(), waves.sin()], dim=2).flatten(1)
    # Layer norm makes a sum of word and position dim long, squared, so p(t)·p(t) is dim / 2.
    scale = math.sqrt(SHARPNESS * math.sqrt(width) / (dim / 2 * max(1 - float(angles.cos().mean()), 0.5)))
    for number in range(heads):
        rotation = _rotation(angles * (number // 2 + 1) * (-1 if number % 2 == 0 else 1))
        first, last = number * width, number * width + 2 * n
        for queries, keys in attention:
            for part, began in ((keys, torch.eye(2 * n)), (queries, rotation)):
                part.weight[first:last] *= RANDOM_SHARE
                part.weight[first:last, : 2 * n] += scale * began


def _rotation(angles: Tensor) -> Tensor:
    """The matrix that turns each plane of two neighbouring dimensions by its angle."""
    x = torch.arange(0, 2 * len(angles), 2)
    matrix = torch.zeros(2 * len(angles), 2 * len(angles))
    matrix[x, x] = matrix[x + 1, x + 1] = angles.cos()
    matrix[x + 1, x] = angles.sin()
    matrix[x, x + 1] = -angles.sin()
    return matrix


def bert_config(pieces: Pieces, options: ShapeOptions) -> BertConfig:
    """The configuration of a BERT of the given shape for this tokenizer."""
    return BertConfig(
        vocab_size=len(pieces.names), hidden_size=options.dim, num_hidden_layers=options.n_layers,
        num_attention_heads=options.n_heads, intermediate_size=options.inner, max_position_embeddings=options.length,
        hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=options.dropout,
        pad_token_id=pieces.id_of("pad") or 0, type_vocab_size=2, initializer_range=initial_deviation(options),
    )  # fmt: skip


def further(start: Model | None, kind: str, seed: int) -> tuple[Network, Pieces] | None:
    """Copies of the network and tokenizer of ``start``, with a new LM head if it has none; None without ``start``."""
    if start is None:
        return None
    if not isinstance(start, TransformerEncoder):
        raise OptionError(f"a {kind} model can only continue from a Transformer, not from {start.method}")
    whole = start.network.whole
    config = type(whole.config).from_dict(whole.config.to_dict())
    if (start.network.is_masked_lm, start.network.is_causal_lm)[kind == "causal"]:
        return copied(start, seed)
    mapping = MODEL_FOR_MASKED_LM_MAPPING if kind == "masked" else MODEL_FOR_CAUSAL_LM_MAPPING
    if type(config) not in mapping or start.network.causal != (kind == "causal"):
        raise OptionError(f"{config.model_type} is not a {kind} language model and cannot be trained further as one")
    network = fresh(mapping[type(config)], config, seed)
    network.whole.base_model.load_state_dict(whole.base_model.state_dict(), strict=False)
    return network, _own_pieces(start)


def copied(start: TransformerEncoder, seed: int) -> tuple[Network, Pieces]:
    """Copies of a model's network and tokenizer."""
    whole = start.network.whole
    network = fresh(type(whole), type(whole.config).from_dict(whole.config.to_dict()), seed)
    keep_pooler(network.whole, whole.state_dict())
    network.whole.load_state_dict(whole.state_dict())
    network.knows_pooler = start.network.knows_pooler
    return network, _own_pieces(start)


def _own_pieces(start: TransformerEncoder) -> Pieces:
    files = start.pieces.files()
    return Pieces.read(files["tokenizer.json"], files["tokenizer_config.json"], where="the model's tokenizer")


def given_pieces(models: Mapping[str, Any], *needed: str) -> Pieces | None:
    """The tokenizer that the option ``tokenizer`` names, with all special tokens ``needed``."""
    given = models.get("tokenizer")
    if given is None:
        return None
    if not isinstance(given, (TransformerEncoder, Pieces)):
        raise OptionError(f"option 'tokenizer' must name a Transformer, but this has method {given.method}")
    pieces: Pieces = given if isinstance(given, Pieces) else given.pieces
    for name in needed:
        if pieces.id_of(name) is None:
            raise OptionError(f"the given tokenizer has no {name} token, which this method needs: use another, or none")
    return pieces
