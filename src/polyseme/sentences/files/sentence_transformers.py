"""Folders of sentence-transformers: modules.json, a Transformer with pooling or a table of subwords, further modules.

A module is identified by the last part of its class name and implemented here: the class itself is never imported, and
only the listed activations are accepted.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from polyseme.contexts.transformer.files.huggingface import open_huggingface, read_weights, write_into
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.disk.files import parse_json, read_settings, read_small
from polyseme.disk.folders import new_export
from polyseme.errors import FormatError, OptionError
from polyseme.neural.weights import arrays_of
from polyseme.options import make_options
from polyseme.sentences.files.static_embedding import read_static_embedding
from polyseme.sentences.token_table import TokenTable, TokenTableOptions
from polyseme.sentences.transformer import POOLER, POOLINGS, SentenceTransformer, SentenceTransformerOptions
from polyseme.sentences.vector_layers import (
    STEP_ACTIVATIONS,
    Dense,
    Norm,
    Normalise,
    Step,
    Truncate,
    describe,
    make_step,
)
from polyseme.store import safetensors_file as tensor_file

log = logging.getLogger(__name__)

# The older configuration of a pooling has one boolean for each mode.
_OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
# Where a Transformer's limit and case are; older versions named the file after the architecture.
_READING = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
# Encoder-decoders that sentence-transformers runs to the end: it pools the states of their decoders.
_DECODED = ("bart", "bigbird_pegasus", "led", "mbart", "mvp", "plbart")
_MOST_MODULES = 64
_TYPE = "sentence_transformers.models."
_SETTINGS = "config_sentence_transformers.json"


def open_sentence_transformers(path: str | Path) -> SentenceTransformer | TokenTable:
    """Read the sentence encoder in a folder."""
    folder = Path(path)
    modules = _modules(folder)
    (kind, first), *rest = modules
    if kind == "StaticEmbedding":
        pieces, rows = read_static_embedding(first)
        steps = [*_steps(rest, rows.shape[1]), *_truncated(folder, rows.shape[1])]
        return TokenTable(pieces, rows, steps, options=TokenTableOptions(prompt=_prompt(folder)))
    if kind != "Transformer":
        raise FormatError(f"{folder}: its first module is {kind}: only Transformer and StaticEmbedding are supported")
    encoder = open_huggingface(first)
    if (decoded := _decoded(encoder)) is not None:
        raise FormatError(f"{folder} pools the states of a decoder ({decoded}), and only encoders are read here")
    if not rest or rest[0][0] != "Pooling":
        raise FormatError(f"{folder / 'modules.json'}: no pooling follows the Transformer")
    modes = _modes(rest[0][1], encoder.dim)
    steps = _steps(rest[1:], encoder.dim * len(modes))
    steps += _truncated(folder, steps[-1].out if steps else encoder.dim * len(modes))
    return SentenceTransformer(encoder, modes, steps, options=_options(folder, first, rest[0][1]))


def write_sentence_transformers(
    model: SentenceTransformer | TransformerEncoder, path: str | Path, *, force: bool = False
) -> None:
    """Write a folder that sentence-transformers can read; a Transformer without pooling gets mean pooling."""
    if isinstance(model, TransformerEncoder):
        model = SentenceTransformer(model)
    if (decoded := _decoded(model.encoder)) is not None:
        raise OptionError(f"sentence-transformers would pool the decoder of a {decoded}, not its encoder as here")
    config = model.encoder.network.whole.config
    if model.encoder.network.detect is not None and config.use_lang_emb and config.n_langs > 1:
        log.warning("sentence-transformers cannot tell the network the language of a text: its vectors will differ")
    with new_export(path, "sentence-transformers", force=force) as folder:
        write_into(model.encoder, folder, pads=True)
        options = {"max_seq_length": model.runner.limit, "do_lower_case": model.options.lower}
        _write(folder / "sentence_bert_config.json", options)
        truncated = next((step.out for step in model.steps if isinstance(step, Truncate)), None)
        said: dict[str, Any] = {} if truncated is None else {"truncate_dim": truncated}
        if model.options.prompt:
            said |= {"prompts": {"default": model.options.prompt}, "default_prompt_name": "default"}
        if said:
            _write(folder / _SETTINGS, said)
        modules = [{"idx": 0, "name": "0", "path": "", "type": f"{_TYPE}Transformer"}]
        modes, steps = [*model.pooling.modes], [step for step in model.steps if not isinstance(step, Truncate)]
        if modes == [POOLER]:  # which it knows as two modules
            modes, steps = ["cls"], [_pooler(model), *steps]
        pooling: dict[str, Any] = {key: mode in modes for key, mode in _OLD_MODES.items()}
        if [mode for mode in _OLD_MODES.values() if mode in modes] != modes:
            pooling = {"pooling_mode": modes}  # another order, which only newer versions can read
        modules.append(_write_module(folder, 1, "Pooling", {"word_embedding_dimension": model.encoder.dim, **pooling}))
        for number, step in enumerate(steps, start=2):
            modules.append(_write_step(folder, number, step))
        (folder / "modules.json").write_text(json.dumps(modules, indent=2), encoding="utf-8")


def _pooler(model: SentenceTransformer) -> Dense:
    """The pooler of the network as a layer of its own."""
    layer = model.encoder.network.pooler
    assert layer is not None
    dense = Dense(layer.in_features, layer.out_features, "Tanh")
    dense.linear.load_state_dict(layer.state_dict())
    return dense


def _decoded(encoder: TransformerEncoder) -> str | None:
    """The architecture of an encoder whose decoder sentence-transformers would pool instead."""
    config = encoder.network.whole.config
    return config.model_type if config.is_encoder_decoder and config.model_type in _DECODED else None


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each module, in order."""
    file = folder / "modules.json"
    try:
        listed = parse_json(read_small(file, 1 << 20))
        found = [(str(entry["type"]).rpartition(".")[2], str(entry.get("path", ""))) for entry in listed]
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise FormatError(f"{file} is not a list of modules") from None
    if not 0 < len(found) <= _MOST_MODULES:
        raise FormatError(f"{file} lists {len(found)} modules")
    for _, name in found:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise FormatError(f"{file} points outside its folder: {name!r}")
    return [(kind, folder / name) for kind, name in found]


def _modes(place: Path, dim: int) -> list[str]:
    settings = read_settings(place / "config.json")
    said = settings.get("embedding_dimension", settings.get("word_embedding_dimension", dim))
    if said != dim:
        raise FormatError(f"{place / 'config.json'} pools {said!r} dimensions, but the Transformer gives {dim}")
    if "pooling_mode" in settings:
        given = settings["pooling_mode"]
        modes = [given] if isinstance(given, str) else given
    else:
        modes = [mode for key, mode in _OLD_MODES.items() if settings.get(key)] or ["mean"]
    if not isinstance(modes, list) or not modes or not all(mode in POOLINGS for mode in modes):
        raise FormatError(f"{place / 'config.json'} uses an unknown pooling: {str(modes)[:80]}")
    return modes


def _steps(modules: list[tuple[str, Path]], size: int) -> list[Step]:
    steps: list[Step] = []
    for kind, place in modules:
        if kind != "Dropout":  # has no effect outside training
            steps.append(_step(kind, place, steps[-1].out if steps else size))
    return steps


def _truncated(folder: Path, size: int) -> list[Step]:
    """The final step that truncates the vectors, if the settings ask for one."""
    wanted = _said(folder).get("truncate_dim")
    if wanted is None:
        return []
    if not isinstance(wanted, int) or wanted < 1:
        raise FormatError(f"{folder / _SETTINGS}: truncate_dim is {str(wanted)[:40]!r}")
    return [Truncate(size, wanted)]


def _said(folder: Path) -> dict[str, Any]:
    more = folder / _SETTINGS
    return read_settings(more) if more.exists() else {}


def _prompt(folder: Path) -> str:
    """The default prompt that is put before every text; empty if there is none."""
    said = _said(folder)
    prompts, name = said.get("prompts"), said.get("default_prompt_name")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    return prompt if isinstance(prompt, str) else ""


def _step(kind: str, place: Path, size: int) -> Step:
    if kind == "Normalize":
        _check_input(place)
        return Normalise(size)
    described: dict[str, Any] = {"kind": "norm"}
    if kind == "Dense":
        described = _dense(place)
    elif kind != "LayerNorm":
        raise FormatError(f"{place} is a module of an unsupported type: {kind}")
    try:
        return make_step(described, size, read_weights(place))
    except (ValueError, RuntimeError, TypeError) as error:
        raise FormatError(f"{place} does not fit the module before it: {error}") from None


def _check_input(place: Path) -> dict[str, Any]:
    """The settings of a module, which must read the vector of the text and replace it."""
    file = place / "config.json"
    settings = read_settings(file) if file.exists() else {}
    for key in ("module_input_name", "module_output_name"):
        if settings.get(key) not in (None, "sentence_embedding"):
            raise FormatError(f"{file}: a module of an unsupported type ({key} is {str(settings[key])[:40]!r})")
    return settings


def _dense(place: Path) -> dict[str, Any]:
    settings = _check_input(place)
    activation = str(settings.get("activation_function", "Tanh")).rpartition(".")[2]
    if activation not in STEP_ACTIVATIONS or settings.get("use_residual"):
        kind = activation if activation not in STEP_ACTIVATIONS else "use_residual"
        raise FormatError(f"{place / 'config.json'}: a dense layer of an unsupported type ({kind})")
    out = settings.get("out_features")
    if not isinstance(out, int) or out < 1:
        raise FormatError(f"{place / 'config.json'}: out_features is {out!r}")
    return {"kind": "dense", "out": out, "activation": activation, "bias": bool(settings.get("bias", True))}


def _options(folder: Path, first: Path, pooling: Path) -> SentenceTransformerOptions:
    read = next((first / name for name in _READING if (first / name).exists()), first / _READING[0])
    settings = read_settings(read) if read.exists() else {}
    _check_states(settings, read)
    prompt = _prompt(folder)
    if prompt and read_settings(pooling / "config.json").get("include_prompt") is False:
        raise FormatError(f"{folder} excludes its prompt from pooling, which is not supported")
    values = {
        "max_pieces": settings.get("max_seq_length") or 0,
        "lower": bool(settings.get("do_lower_case")),
        "prompt": prompt,
    }
    try:
        return make_options(SentenceTransformerOptions, values)
    except OptionError as error:
        raise FormatError(f"{read} is invalid: {error}") from None


def _check_states(settings: dict[str, Any], where: Path) -> None:
    """Refuse a Transformer of which something else than its top layer is pooled."""
    modalities = settings.get("modality_config")
    if modalities is None:
        return
    of_text = modalities.get("text") if isinstance(modalities, dict) else None
    taken = of_text.get("method_output_name") if isinstance(of_text, dict) else None
    if taken not in ("last_hidden_state", ["last_hidden_state"]):
        raise FormatError(f"{where}: only the top layer can be pooled (method_output_name is {str(taken)[:60]!r})")


def _write(file: Path, record: dict[str, Any]) -> None:
    file.write_text(json.dumps(record, ensure_ascii=False, indent=2), encoding="utf-8")


def _write_module(folder: Path, number: int, kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    name = f"{number}_{kind}"
    (folder / name).mkdir()
    _write(folder / name / "config.json", settings)
    return {"idx": number, "name": str(number), "path": name, "type": f"{_TYPE}{kind}"}


def _write_step(folder: Path, number: int, step: Step) -> dict[str, Any]:
    if isinstance(step, Normalise):
        return _write_module(folder, number, "Normalize", {})
    if isinstance(step, Norm):
        module = _write_module(folder, number, "LayerNorm", {"dimension": step.out})
    else:
        assert isinstance(step, Dense)
        where = "torch.nn.modules.linear" if step.activation == "Identity" else "torch.nn.modules.activation"
        settings = {
            "in_features": step.linear.in_features,
            "out_features": step.out,
            "bias": describe(step)["bias"],
            "activation_function": f"{where}.{step.activation}",
        }
        module = _write_module(folder, number, "Dense", settings)
    tensor_file.write(folder / module["path"] / "model.safetensors", arrays_of(step), {"format": "pt"})
    return module
