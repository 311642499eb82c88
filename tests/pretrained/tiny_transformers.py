"""Tiny random Transformers, made and saved by transformers itself, with tokenizers trained on a few lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from tokenizers.implementations import BertWordPieceTokenizer

# Options of a Transformer that is trained in a second.
SMALL = {
    "dim": 32, "n_layers": 2, "n_heads": 2, "max_size": 200, "length": 32, "batch_size": 16, "threads": 1, "seed": 1,
}  # fmt: skip

TEXTS = [
    "The history of word representations begins with counting.",
    "他打了个电话，说明天去公园。",
    "Deep learning works well for 中文 and English alike!",
]
SIZES = {
    "vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64,
}  # fmt: skip
GPT = {"vocab_size": 400, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}


def wordpiece() -> tuple[Tokenizer, dict[str, str]]:
    made = BertWordPieceTokenizer(lowercase=True)
    more = [chr(0x4E00 + n) for n in range(300)]  # so that nearly all rows of the networks stand for a piece
    made.train_from_iterator(TEXTS, vocab_size=390, initial_alphabet=more, show_progress=False)
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    made._tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return made._tokenizer, {f"{kind}_token": name for kind, name in names.items()}


def byte_bpe(*, around: bool) -> tuple[Tokenizer, dict[str, str]]:
    """The tokenizer of GPT-2, or of RoBERTa with <s> and </s> around a text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=390, special_tokens=special, initial_alphabet=alphabet)
    )
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    if around:
        made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    names = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
    return made, {f"{kind}_token": name for kind, name in {**names, **({"mask": "<mask>"} if around else {})}.items()}


# Architecture: configuration, class that is saved, tokenizer.
KINDS: dict[str, tuple[Any, type, Callable[[], tuple[Tokenizer, dict[str, str]]]]] = {
    "bert": (transformers.BertConfig(**SIZES), transformers.BertForMaskedLM, wordpiece),
    "roberta": (
        transformers.RobertaConfig(**SIZES, pad_token_id=1, bos_token_id=0, eos_token_id=2),
        transformers.RobertaForMaskedLM,
        lambda: byte_bpe(around=True),
    ),
    "albert": (transformers.AlbertConfig(**SIZES, embedding_size=16), transformers.AlbertForMaskedLM, wordpiece),
    "electra": (transformers.ElectraConfig(**SIZES, embedding_size=16), transformers.ElectraForPreTraining, wordpiece),
    "distilbert": (
        transformers.DistilBertConfig(
            vocab_size=400, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64
        ),
        transformers.DistilBertForMaskedLM,
        wordpiece,
    ),
    "xlm-roberta": (
        transformers.XLMRobertaConfig(**SIZES, pad_token_id=1, bos_token_id=0, eos_token_id=2),
        transformers.XLMRobertaForMaskedLM,  # whose head comes before the encoder that it shares weights with
        lambda: byte_bpe(around=True),
    ),
    "gpt2": (
        transformers.GPT2Config(**GPT, bos_token_id=0, eos_token_id=2),
        transformers.GPT2LMHeadModel,
        lambda: byte_bpe(around=False),
    ),
    "mobilebert": (  # whose words see the embeddings beside them, padding's too
        transformers.MobileBertConfig(**SIZES, embedding_size=16, intra_bottleneck_size=16, num_feedforward_networks=2),
        transformers.MobileBertForMaskedLM,
        wordpiece,
    ),
    "xlm": (  # whose padding, number 2, is [CLS] in this vocabulary
        transformers.XLMConfig(vocab_size=400, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64),
        transformers.XLMModel,
        wordpiece,
    ),
    "openai-gpt": (
        transformers.OpenAIGPTConfig(**GPT),
        transformers.OpenAIGPTLMHeadModel,
        lambda: byte_bpe(around=False),
    ),
    "llama4": (  # whose encoder is not where its base_model_prefix says
        transformers.Llama4TextConfig(
            **SIZES, intermediate_size_mlp=48, num_key_value_heads=2, head_dim=8, num_local_experts=2,
            bos_token_id=0, eos_token_id=2, pad_token_id=1,
        ),
        transformers.Llama4ForCausalLM,
        lambda: byte_bpe(around=False),
    ),
}  # fmt: skip

DECODERS = {  # with a decoder beside the encoder
    "bart": (
        transformers.BartConfig(
            vocab_size=400, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
        ),
        transformers.BartModel,
        lambda: byte_bpe(around=True),
    ),
    "t5": (
        transformers.T5Config(
            vocab_size=400, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, pad_token_id=1, eos_token_id=2
        ),
        transformers.T5Model,
        lambda: byte_bpe(around=True),
    ),
}  # fmt: skip


def save_tokenizer(folder: Path, made: tuple[Tokenizer, dict[str, str]]) -> None:
    tokenizer, names = made
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def save_tiny(name: str, folder: Path) -> Path:
    """Save a tiny model of an architecture with transformers."""
    config, cls, tokenizer = {**KINDS, **DECODERS}[name]
    torch.manual_seed(3)
    whole = cls(config)
    for parameter in whole.parameters():  # far from the small weights at the start, so that errors show
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    whole.save_pretrained(folder)
    save_tokenizer(folder, tokenizer())
    return folder


def theirs(folder: Path, text: str) -> tuple[np.ndarray, list[str], list[tuple[int, int]]]:
    """The hidden states ``(L, T, D)`` that transformers computes for a text, its tokens and their offsets."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network = transformers.AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32).eval()
    found = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    spans = found.pop("offset_mapping")[0].tolist()
    found = {name: tensor for name, tensor in found.items() if name != "token_type_ids"}
    with torch.inference_mode():
        states = network(**found, output_hidden_states=True).hidden_states
    pieces = tokenizer.convert_ids_to_tokens(found["input_ids"][0])
    return torch.stack(states)[:, 0].numpy(), pieces, spans
