"""The ELMo inside a saved AllenNLP model (``best.th``, ``weights.th``), with the layer mix its task learned.

Such a file has no options: the sizes are taken from the weights, and clipping (3) and skip connections are those of
every released biLM.

LSTM and highway weights that AllenNLP and ELMoForManyLangs saved, under our names.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from polyseme.contexts.elmo.alphabet import BYTE_ROWS, make_alphabet
from polyseme.contexts.elmo.bilm import BiLMConfig
from polyseme.contexts.elmo.model import Elmo, filled
from polyseme.contexts.elmo.options import ElmoOptions, filters_text
from polyseme.errors import FormatError, OptionError
from polyseme.neural.layers import ScalarMix
from polyseme.neural.weights import Tensors
from polyseme.options import make_options


def lstm_tensors(tensors: Tensors, n_layers: int, hidden: int, size: int) -> dict[str, Tensor]:
    """LSTM weights of AllenNLP and ELMoForManyLangs under our names; gate order and forget bias are as in ours."""
    renamed: dict[str, Tensor] = {}
    for layer in range(n_layers):
        both: dict[str, list[Tensor]] = {"w_input": [], "w_recurrent": [], "bias": [], "w_projection": []}
        for name in (f"forward_layer_{layer}", f"backward_layer_{layer}"):
            both["w_input"].append(tensors.get(f"{name}.input_linearity.weight", (4 * hidden, size)))
            both["w_recurrent"].append(tensors.get(f"{name}.state_linearity.weight", (4 * hidden, size)))
            both["bias"].append(tensors.get(f"{name}.state_linearity.bias", (4 * hidden,)))
            both["w_projection"].append(tensors.get(f"{name}.state_projection.weight", (size, hidden)))
        renamed |= {f"layers.{layer}.{kind}": torch.stack(pair) for kind, pair in both.items()}
    return renamed


def highway_tensors(tensors: Tensors, prefix: str, n_highway: int, width: int) -> dict[str, Tensor]:
    """Our highway weights from theirs: one matrix [transform; gate] per layer, whose gate passes the *input*."""
    renamed = {}
    for number in range(n_highway):
        weight = tensors.get(f"{prefix}{number}.weight", (2 * width, width))
        bias = tensors.get(f"{prefix}{number}.bias", (2 * width,))
        for kind, half in (("transforms", slice(None, width)), ("gates", slice(width, None))):
            sign = -1 if kind == "gates" else 1  # 1 - σ(x) = σ(-x)
            renamed[f"encoder.{kind}.{number}.weight"] = sign * weight[half]
            renamed[f"encoder.{kind}.{number}.bias"] = sign * bias[half]
    return renamed


_KEY = re.compile(r"(?P<prefix>.*)_elmo_lstm\._token_embedder\._char_embedding_weights")


def open_allennlp(path: str | Path) -> Elmo:
    """The biLM of a saved AllenNLP model; ``layers="mix"`` gives the weighted sum that its task learned."""
    file = Tensors(path)
    prefix = next((m["prefix"] for name in file.names if (m := _KEY.fullmatch(name))), None)
    if prefix is None:
        raise FormatError(f"{path} holds no ELMo that reads characters")
    whole = file.under(prefix)
    token, lstm = whole.under("_elmo_lstm._token_embedder."), whole.under("_elmo_lstm._elmo_lstm.")
    options = _options(token, lstm, path)
    alphabet = make_alphabet(options, characters=[], words=[])
    try:
        config = BiLMConfig.of(options, alphabet, project=True)
    except OptionError as error:
        raise FormatError(f"{path} does not contain a valid biLM: {error}") from None
    tensors = highway_tensors(token, "_highways._layers.", config.n_highway, config.n_filters)
    # Row 0 is for padded words, which are never read here.
    tensors["encoder.characters"] = token.get("_char_embedding_weights", (BYTE_ROWS + 1, config.char_dim))[1:].clone()
    for number, (width, count) in enumerate(config.filters):
        weight = token.get(f"char_conv_{number}.weight", (count, config.char_dim, width))
        tensors[f"encoder.convolutions.{number}.weight"] = weight
        tensors[f"encoder.convolutions.{number}.bias"] = token.get(f"char_conv_{number}.bias", (count,))
    tensors["encoder.projection.weight"] = token.get("_projection.weight", (config.projection, config.n_filters))
    tensors["encoder.projection.bias"] = token.get("_projection.bias", (config.projection,))
    tensors |= lstm_tensors(lstm, config.n_layers, config.hidden, config.projection)
    mixes = whole.under("scalar_mix_0.")
    mix = _mix(mixes, config.n_layers + 1) if "gamma" in mixes.names else None
    return Elmo(options, alphabet, filled(config, tensors), mix=mix)


def _options(token: Tensors, lstm: Tensors, path: str | Path) -> ElmoOptions:
    filters: list[tuple[int, int]] = []
    while f"char_conv_{len(filters)}.weight" in token.names:
        count, _, width = token.get(f"char_conv_{len(filters)}.weight", (None, None, None)).shape
        filters.append((int(width), int(count)))
    size, hidden = lstm.get("forward_layer_0.state_projection.weight", (None, None)).shape
    values = {
        "alphabet": "bytes",
        "char_dim": int(token.get("_char_embedding_weights", (None, None)).shape[1]),
        "max_characters": 50,
        "filters": filters_text(tuple(filters)),
        "n_highway": sum(name.endswith(".weight") and name.startswith("_highways._layers.") for name in token.names),
        "hidden": int(hidden),
        "projection": int(size),
        "n_layers": sum(
            re.fullmatch(r"forward_layer_\d+\.state_projection\.weight", n) is not None for n in lstm.names
        ),
        "conventions": "bilm-tf",
    }
    try:
        return make_options(ElmoOptions, values)
    except OptionError as error:
        raise FormatError(f"{path} does not contain a valid biLM: {error}") from None


def _mix(tensors: Tensors, n_layers: int) -> ScalarMix:
    mix = ScalarMix(n_layers)
    scalars: list[Tensor] = [tensors.get(f"scalar_parameters.{number}", (1,)) for number in range(n_layers)]
    mix.scalars.data = torch.cat(scalars)
    mix.gamma.data = tensors.get("gamma", (1,))
    return mix
