"""Published files as other programs write them, tiny, and opened as ours."""

# ruff: noqa: E501 - a network is a line of the table

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.golden.data import (
    LINES,
)

import polyseme

Make = Callable[[str], Any]  # a model that was written, by room and name


def published_words(made: Make) -> Any:
    rows = np.random.default_rng(1).normal(size=(6, 4)).round(3)
    lines = [
        f"{word} {' '.join(map(str, row))}\n"
        for word, row in zip(["打", "小明", "Anna", "看书", "姐姐", "，"], rows, strict=True)
    ]
    Path("published.txt").write_text(f"6 4\n{''.join(lines)}", encoding="utf-8")
    return polyseme.load("published.txt")


def halved(network: Any) -> Any:
    """The network with weights of half the bits, which pack better, some way from those at the start."""
    torch.manual_seed(3)
    for parameter in network.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
        parameter.data.copy_(parameter.data.bfloat16().float())
    return network


def wordpieces(folder: Path) -> Any:
    from tokenizers import processors
    from tokenizers.implementations import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(LINES, vocab_size=150, show_progress=False)
    tokenizer._tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )  # fmt: skip
    names = {f"{kind.lower()}_token": f"[{kind}]" for kind in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    return saved_tokenizer(folder, tokenizer._tokenizer, names)


def byte_pairs(folder: Path) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special, alphabet = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    return saved_tokenizer(folder, tokenizer, names)


def saved_tokenizer(folder: Path, tokenizer: Any, names: dict[str, str]) -> Any:
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return tokenizer


BERT_SIZES = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
    "max_position_embeddings": 40, "vocab_size": 320,
}  # fmt: skip


ENDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}


NETWORKS: dict[str, tuple[str, str, dict[str, Any], Callable[[Path], Any]]] = {
    "bert": ("BertConfig", "BertForMaskedLM", BERT_SIZES, wordpieces),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", {**BERT_SIZES, **ENDS}, byte_pairs),
    "albert": ("AlbertConfig", "AlbertForMaskedLM", {**BERT_SIZES, "embedding_size": 4}, wordpieces),
    "electra": ("ElectraConfig", "ElectraForPreTraining", {**BERT_SIZES, "embedding_size": 4}, wordpieces),
    "distilbert": ("DistilBertConfig", "DistilBertForMaskedLM", {
        "vocab_size": 320, "dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 40
    }, wordpieces),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {
        "vocab_size": 320, "n_positions": 40, "n_embd": 8, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 2
    }, byte_pairs),
    "t5": ("T5Config", "T5Model", {
        "vocab_size": 320, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2, "pad_token_id": 1, "eos_token_id": 2
    }, byte_pairs),
}  # fmt: skip


def network_folder(kind: str) -> Path:
    import transformers

    folder = Path("published") / kind
    if not folder.exists():
        config, network, sizes, tokenizer = NETWORKS[kind]
        tokenizer(folder)
        halved(getattr(transformers, network)(getattr(transformers, config)(**sizes))).save_pretrained(folder)
    return folder


def sentence_transformer(name: str, kind: str, pooling: str, *, dense: bool = False) -> Any:
    import sentence_transformers
    from sentence_transformers.sentence_transformer import modules
    from torch import nn

    torch.manual_seed(3)  # for a layer that is not in the folder
    reads = modules.Transformer(str(network_folder(kind)), max_seq_length=24)
    steps = [reads, modules.Pooling(8, pooling)]
    if dense:
        steps += [halved(modules.Dense(8, 5, activation_function=nn.Tanh())), modules.Normalize()]
    folder = f"published/{name}"
    whole = sentence_transformers.SentenceTransformer(modules=steps, device="cpu", prompts={"query": "问："})
    whole.save(folder, create_model_card=False)
    return polyseme.load(folder)


def piece_table(made: Make) -> Any:
    """A table as model2vec keeps it: fewer rows than pieces, and a weight for each piece."""
    from safetensors.numpy import save_file

    folder, random = Path("published/model2vec"), np.random.default_rng(1)
    size = wordpieces(folder).get_vocab_size()
    (folder / "tokenizer_config.json").unlink()
    tensors = {"mapping": random.integers(0, 9, size), "weights": random.random(size)}
    save_file({"embeddings": random.normal(size=(9, 4)).astype(np.float32), **tensors}, folder / "model.safetensors")
    entry = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}
    (folder / "modules.json").write_text(json.dumps([entry]), encoding="utf-8")
    return polyseme.load(folder)


def published_infersent(made: Make) -> Any:
    """InferSent in the form that its authors published: a state dict beside a file of word vectors."""
    folder = Path("published/infersent")
    folder.mkdir(parents=True)
    words = ["<s>", "</s>", "打", "小明", "Anna", "看书", "the"]
    rows = np.random.default_rng(0).normal(size=(len(words), 6)).round(3)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True)]
    (folder / "glove.txt").write_text("".join(lines), encoding="utf-8")
    whole = torch.nn.Module()
    whole.enc_lstm = halved(torch.nn.LSTM(6, 5, 1, bidirectional=True))
    torch.save(whole.state_dict(), folder / "infersent1.pkl")
    return polyseme.load(folder)


def converted(source: str, target: str, *how: str) -> Any:
    """A model written in a published format, and opened."""
    subprocess.run([sys.executable, "-m", "polyseme", "convert", source, target, *how], check=True)
    return polyseme.load(target)
