"""BERT as saved by google-research/bert: bert_config.json, vocab.txt, and a TensorFlow checkpoint.

Weights are renamed and transposed as in ``transformers``:

    bert/encoder/layer_0/attention/self/query/kernel  →  bert.encoder.layer.0.attention.self.query.weight, transposed
    …/LayerNorm/gamma, beta                           →  ….LayerNorm.weight, bias
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
from tokenizers.implementations import BertWordPieceTokenizer
from torch import Tensor

from polyseme.contexts.transformer.files.recognise import indexes
from polyseme.contexts.transformer.files.tensor_bundle import TensorBundle
from polyseme.contexts.transformer.model import TransformerEncoder, check_vocabulary
from polyseme.contexts.transformer.network import build, configuration
from polyseme.contexts.transformer.offline import reason
from polyseme.contexts.transformer.options import TransformerOptions
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.disk.files import read_settings
from polyseme.errors import FormatError
from polyseme.store.model import About

_OF_TRAINING = re.compile(r"(.*/)?(adam_[mv]|Adam(_1)?|global_step|beta[12]_power|.*lamb_[mv])(/.*)?")
_NAMES = (
    ("/layer_", ".layer."),
    ("/gamma", ".weight"),
    ("/beta", ".bias"),
    ("/kernel", ".weight"),
    ("cls/predictions/output_bias", "cls.predictions.bias"),
    ("/output_weights", ".weight"),
    ("/output_bias", ".bias"),
    ("_embeddings", "_embeddings.weight"),
    ("/", "."),
)
_WORDS = "embeddings/word_embeddings"
_SPECIALS = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip
_LARGEST_VOCABULARY = 64 << 20


def open_tensorflow(path: str | Path) -> TransformerEncoder:
    """The BERT in a folder, or in the checkpoint that the given file belongs to."""
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    bundle = TensorBundle(_index(path, folder))
    described = _one_of(folder, ("bert_config.json", "config.json"), others="bert_config_*.json")
    settings = read_settings(described)
    tensors = _tensors(bundle)
    heads = "cls.predictions.bias" in tensors, "cls.seq_relationship.weight" in tensors
    name = "BertForPreTraining" if all(heads) else "BertForMaskedLM" if heads[0] else "BertModel"
    record = {**settings, "model_type": "bert", "architectures": [name]}
    network = build(configuration(record, where=described), tensors, where=bundle.index)
    pieces = read_wordpiece(_one_of(folder, ("vocab.txt",)), network.positions())
    check_vocabulary(network, pieces, where=folder)
    if len(pieces.names) < network.whole.config.vocab_size:
        wanted = network.whole.config.vocab_size
        raise FormatError(f"{folder / 'vocab.txt'} is truncated: {len(pieces.names):,} pieces of {wanted:,}")
    return TransformerEncoder(TransformerOptions(), network, pieces, about=About(corpus={"source": folder.name}))


def _one_of(folder: Path, names: tuple[str, ...], *, others: str = "") -> Path:
    """The first file of these names, or the only one that matches ``others``: RBT3 has bert_config_rbt3.json."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    fitting = [file for file in folder.glob(others) if file.is_file()] if others else []
    if len(fitting) == 1:
        return fitting[0]
    raise FormatError(f"{folder} has a TensorFlow checkpoint but no {names[0]} next to it")


def _index(path: Path, folder: Path) -> Path:
    """The .index file to read: that of ``path``, the only one, or the latest according to the file ``checkpoint``."""
    if path.is_file():
        stem = path.name.removesuffix(".index").partition(".data-")[0]
        return path.with_name(f"{stem}.index")
    checkpoints = indexes(folder)
    if len(checkpoints) == 1:
        return checkpoints[0]
    if not checkpoints:
        raise FormatError(f"{folder} has a bert_config.json and no checkpoint (.index and .data files)")
    latest = folder / "checkpoint"
    if latest.is_file() and latest.stat().st_size < 1 << 20:
        named = re.search(rb'^model_checkpoint_path:\s*"([^"]+)"', latest.read_bytes(), re.MULTILINE)
        if named:
            name = f"{Path(named[1].decode('utf-8', 'replace')).name}.index"
            if folder / name in checkpoints:
                return folder / name
    names = ", ".join(file.name for file in checkpoints)
    raise FormatError(f"{folder} has several checkpoints ({names}): give the path of one .index file")


def _tensors(bundle: TensorBundle) -> dict[str, Tensor]:
    names = [name for name in bundle.entries if not _OF_TRAINING.fullmatch(name)]
    scope = next((name.removesuffix(_WORDS) for name in names if f"/{name}".endswith(f"/{_WORDS}")), None)
    if scope is None:
        raise FormatError(f"{bundle.index} is a checkpoint of something else: it has no tensor bert/…")
    around = re.sub(r"(^|/)bert/$", r"\1", scope)  # the heads are beside the encoder
    tensors: dict[str, Tensor] = {}
    for name in names:
        if name.startswith(tuple(f"{scope}{part}/" for part in ("embeddings", "encoder", "pooler"))):
            ours = f"bert/{name.removeprefix(scope)}"
        elif name.startswith(f"{around}cls/"):
            ours = name.removeprefix(around)
        else:
            continue
        tensor = torch.from_numpy(bundle.read(name)).float()
        for theirs, renamed in _NAMES:
            ours = ours.replace(theirs, renamed)
        tensors[ours] = tensor.t().contiguous() if name.endswith("/kernel") else tensor
    return tensors


def read_wordpiece(vocabulary: Path, limit: int) -> Pieces:
    """Google's tokenizer. It lowercases if the settings say so or, without settings, if no word has capital letters."""
    try:
        if vocabulary.stat().st_size > _LARGEST_VOCABULARY:
            raise FormatError(f"{vocabulary} is too large to be a vocabulary")
        names = vocabulary.read_bytes().decode("utf-8").split("\n")
    except OSError as error:
        raise FormatError(f"{vocabulary} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{vocabulary} is not UTF-8 at byte {error.start:,}") from None
    names = [name.strip() for name in (names[:-1] if names[-1] == "" else names)]
    missing = [name for name in _SPECIALS.values() if name not in names]
    if missing:
        raise FormatError(f"{vocabulary} is not a BERT vocabulary: it has no {missing[0]}")
    capitals = any(re.fullmatch("(##)?[a-z]*[A-Z][A-Za-z]*", name) for name in names)  # <S> and [CLS] are no words
    said = vocabulary.with_name("tokenizer_config.json")
    lower = read_settings(said).get("do_lower_case", not capitals) if said.is_file() else not capitals
    numbers = {name: number for number, name in enumerate(names)}
    try:
        tokenizer = BertWordPieceTokenizer(numbers, lowercase=bool(lower))
        return Pieces(tokenizer._tokenizer, {**_SPECIALS, "model_max_length": limit})
    except Exception as error:  # the tokenizers library raises bare exceptions
        raise FormatError(f"{vocabulary} is not a readable vocabulary ({reason(error)})") from None
