"""The ELMo inside a saved AllenNLP model (``best.th``, ``weights.th``), with the layer mix its task learned.

Such a file has no options: the sizes are taken from the weights, and clipping (3) and skip connections are those of
every released biLM.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from polyseme.contexts.elmo.alphabet import BYTE_ROWS, make_alphabet
from polyseme.contexts.elmo.bilm import BiLMConfig
from polyseme.contexts.elmo.files.lstm_names import highway_tensors, lstm_tensors
from polyseme.contexts.elmo.model import Elmo, filled
from polyseme.contexts.elmo.options import ElmoOptions, filters_text
from polyseme.errors import FormatError, OptionError
from polyseme.neural.mix import ScalarMix
from polyseme.neural.weights import Tensors
from polyseme.options import make_options

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
