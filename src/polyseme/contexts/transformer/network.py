"""The network of a Transformer, of any architecture in ``transformers``, as a torch module.

It is built from a configuration and tensors that were read as data: no code from a model's author is executed, the hub
is never contacted, and the configuration is checked against the tensors before memory is allocated. ``transformers`` is
imported where a network is built, for it takes longer than torch, and every network that learns imports this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_module_registration_hook

from polyseme.contexts.fine_tuning import TunableNetwork
from polyseme.contexts.transformer.offline import offline, reason
from polyseme.errors import FormatError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# Settings that would make transformers execute, download or quantise something; attention and dtype are set here, and
# an encoder has no labels, for each of which transformers would make a name.
_REFUSED = {"auto_map": "custom code", "quantization_config": "quantised weights"}
_DROPPED = re.compile(
    r"_?attn_implementation.*|torch_dtype|dtype|_commit_hash|_name_or_path|fusion_config|_?num_labels"
)
_REPEATED = re.compile(r"(layers?|groups?|group_num|experts?|blocks?|labels)$")  # numbers of modules to construct
_MOST_REPEATED = 1000
_MOST_MODULES = 30_000  # Switch Transformers of 128 experts have half as many
_LARGEST = 10_000_000
_HEADS = re.compile(r"(cls\.predictions|lm_head|predictions|generator_|vocab_|pred_layer|mlm)\b|lm_head|_projector")
# Classes with a masked-LM head and a head for pairs of sentences.
_WITH_PAIRS = ("BertForPreTraining", "AlbertForPreTraining", "MobileBertForPreTraining", "MegatronBertForPreTraining")
_USUAL_LIMIT = 512

# Up to this dimension, the encoder's learning rate as a share of the new layers': Turc et al., "Well-read students
# learn better" (2019), fine-tune BERT of 256 dimensions at 3e-4.
TUNING_RATES = ((256, 0.3), (512, 0.1), (768, 0.05))
WIDE_RATE = 0.02  # for wider ones
LARGE_TABLE = 4096  # rows from which on a sparse gradient is faster than a dense one


class TokenBatch(NamedTuple):
    """The input of a network, ``(B, T)`` each; the mask is 0 at padding, and None if there is no padding."""

    ids: Tensor
    mask: Tensor | None = None
    types: Tensor | None = None  # 0 in the first text of a pair, 1 in the second
    languages: Tensor | None = None  # for a network with language embeddings
    positions: Tensor | None = None  # if they are not simply 0, 1, 2, …


class Network(TunableNetwork):
    """A Transformer with its language-model head, if it has one. ``forward`` returns all layers."""

    quantised = False  # whether its linear layers compute in int8
    knows_pooler = True  # whether the weights of its pooler, if it has one, are more than random numbers
    detect: Callable[[TokenBatch], Tensor] | None = None  # gives the languages of a batch that comes without them

    def __init__(self, whole: PreTrainedModel) -> None:
        from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

        super().__init__()
        self.whole = whole
        self.wants_mask = False
        self.n_layers, self.dim, self.causal = self._probed()
        self.wants_mask = not self._reads_padding()
        self.pads = self._leaves_out_padding()
        masked, causal = (
            type(whole) in _classes(mapping, whole.config)
            for mapping in (MODEL_FOR_MASKED_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING)
        )
        alone = not whole.config.is_encoder_decoder
        self.is_masked_lm = alone and not self.causal and (masked or _has_pairs(whole))
        self.is_causal_lm = alone and self.causal and causal
        self.reads_head = (self.is_masked_lm or self.is_causal_lm) and self._head_agrees()

    @property
    def body(self) -> nn.Module:
        """The encoder without its head."""
        from transformers import PreTrainedModel

        whole = self.whole
        encoder: nn.Module = whole.get_encoder() if whole.config.is_encoder_decoder else whole.base_model
        # Llama 4 does not tell where its encoder is.
        if encoder is whole and whole.get_output_embeddings() is not None:  # type: ignore[operator]
            encoder = next((module for module in whole.children() if isinstance(module, PreTrainedModel)), whole)
        return encoder

    def forward(self, batch: TokenBatch) -> tuple[Tensor, ...]:
        """The hidden states of every layer, lowest first, ``(B, T, D)`` each."""
        output = self.body(**self._given(batch), output_hidden_states=True, return_dict=True)
        layers: tuple[Tensor, ...] = output.hidden_states
        top: Tensor | None = getattr(output, "last_hidden_state", None)  # CLIP normalises it, but not the last of all
        return layers if top is None else (*layers[:-1], top)

    def top(self, batch: TokenBatch) -> Tensor:
        """The hidden states of the top layer, ``(B, T, D)``."""
        output = self.body(**self._given(batch), return_dict=True)
        states: Tensor | None = getattr(output, "last_hidden_state", None)
        return self(batch)[-1] if states is None else states

    def top_at(self, batch: TokenBatch, rows: Tensor, places: Tensor, real: Tensor | None = None) -> Tensor:
        """The states of the top layer, ``(B, T, D)``, that are right at these places only: faster, where it can be.

        For training, which has one thread: the feed-forward layer of the last block runs nowhere else. Places that are
        not ``real`` ``(N,)`` only fill up, and may be repeated: nothing is learned there.
        """
        block = self.last_block
        if block is None:
            top_states: Tensor = self(batch)[-1]
            return top_states

        def fed_forward(states: Tensor) -> Tensor:
            outputs = type(block).feed_forward_chunk(block, states[rows, places])  # (N, D)
            if real is not None:
                learned = real.unsqueeze(1)
                outputs = outputs * learned + outputs.detach() * (1 - learned)
            return states.index_put((rows, places), outputs)

        block.feed_forward_chunk = fed_forward
        try:
            return self.top(batch)
        finally:
            del block.feed_forward_chunk

    @cached_property
    def last_block(self) -> Any:
        """The last block of BERT and its kin, whose parts can run apart; None in other architectures."""
        blocks = getattr(getattr(self.body, "encoder", None), "layer", None)
        block = blocks[-1] if isinstance(blocks, nn.ModuleList) and len(blocks) else None
        return block if hasattr(type(block), "feed_forward_chunk") else None

    @cached_property
    def layer_names(self) -> list[tuple[str, ...]]:
        """What the names of each layer's weights begin with, lowest layer first; layers that share weights are one.

        The layers of every architecture are the modules in its longest list that is in no other list. XLM and FlauBERT
        have several of that length, each with a part of every layer.
        """
        body = {*self.body.modules()}
        lists: dict[str, int] = {}
        for name, module in self.named_modules():
            inner = any(name.startswith(f"{outer}.") for outer in lists)
            if isinstance(module, nn.ModuleList) and module in body and not inner:
                lists[name] = len(module)
        n = max(lists.values(), default=0)
        layers = [tuple(f"{name}.{number}." for name, size in lists.items() if size == n) for number in range(n)]
        if layers and self.pooler is not None:  # it is above the top layer
            layers[-1] += tuple(f"{name}." for name, module in self.named_modules() if module is self.pooler)
        return layers

    @property
    def pooler(self) -> nn.Linear | None:
        """The layer over the first state, under a tanh, that BERT and its kin learn to classify with; None: none."""
        pooler = getattr(self.body, "pooler", None) if self.knows_pooler else None
        layer = getattr(pooler, "dense", pooler)
        return layer if isinstance(layer, nn.Linear) and layer.weight.shape == (self.dim, self.dim) else None

    def pooled(self, first: Tensor) -> Tensor:
        """The states of first tokens through the pooler, ``(…, D) -> (…, D)``."""
        assert self.pooler is not None
        return torch.tanh(self.pooler(first))

    @property
    def tuning_rate(self) -> float:
        """The wider the network, the more slowly it learns."""
        return next((rate for most, rate in TUNING_RATES if self.dim <= most), WIDE_RATE)

    def begin_tuning(self, dropout: float, *, sparse: bool, lm_weight: float) -> None:
        """Set the dropout of all layers, and sparse gradients of large tables of embeddings.

        A batch contains few of the tokens in the vocabulary, and a dense update would spend most of its time on the
        others. A causal language model with its own loss (``lm_weight``) updates all rows: its gradients are dense.
        """
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
            elif isinstance(module, nn.Embedding) and module.num_embeddings >= LARGE_TABLE:
                module.sparse = sparse and not (lm_weight and self.is_causal_lm)

    def attentions(self, batch: TokenBatch) -> tuple[Tensor | None, ...]:
        """The attention weights of every layer, ``(B, heads, T, T)`` each; None where a layer does not return them."""
        weights: tuple[Tensor | None, ...] | None = self.body(
            **self._given(batch), output_attentions=True, return_dict=True
        ).attentions
        return weights or ()

    def logits(self, batch: TokenBatch) -> Tensor:
        """The logits of the language model at every position, ``(B, T, V)``."""
        output = self.whole(**self._given(batch), return_dict=True)
        scores: Tensor = output.prediction_logits if _has_pairs(self.whole) else output.logits
        return scores

    @property
    def tells_pairs(self) -> bool:
        """Whether it has a head for pairs of segments (NSP, SOP)."""
        return _has_pairs(self.whole)

    def pair_scores(self, states: Tensor) -> Tensor:
        """The logits of the pair head from the top layer, ``(B, T, D) -> (B, 2)``: B follows A, or it does not."""
        whole: Any = self.whole
        body: Any = self.body
        if hasattr(whole, "sop_classifier"):  # ALBERT, whose pooler is a plain layer
            scores: Tensor = whole.sop_classifier(body.pooler_activation(body.pooler(states[:, 0])))
        else:
            scores = whole.cls.seq_relationship(body.pooler(states))
        return scores

    @cached_property
    def n_types(self) -> int:
        """How many token types it tells apart; 0: it reads none. GPT-2 and its kin would add vectors of words."""
        if any(name.endswith("seg_embed") for name, _ in self.named_parameters()):  # XLNet: only whether two are equal
            return _LARGEST
        size = getattr(self.whole.config, "type_vocab_size", None)
        return size if isinstance(size, int) and size > 1 else 0

    @property
    def vocabulary_size(self) -> int:
        """The number of subwords in the softmax of the language model."""
        return int(self.whole.config.vocab_size)

    def head(self, states: Tensor) -> Tensor:
        """The logits of the language model from top hidden states, ``(N, D) -> (N, V)``."""
        scores: Tensor = _head(self.whole)(states)
        return scores

    def expected(self, batch: TokenBatch, rows: Tensor, places: Tensor) -> Tensor:
        """The logits at some positions only, ``(N, V)``: the head, most of the work, does not run on the others."""
        if self.reads_head:
            return self.head(self.top(batch)[rows, places])
        return self.logits(batch)[rows, places]

    @torch.inference_mode()
    def _head_agrees(self) -> bool:
        """Whether ``head`` gives the same logits as the whole network: some architectures do more in between."""
        batch = TokenBatch(torch.tensor([[0, min(1, self.vocabulary_size - 1)]]))
        try:
            return torch.allclose(self.head(self(batch)[-1]), self.logits(batch), atol=1e-4)
        except (AttributeError, TypeError, RuntimeError):
            return False

    def _given(self, batch: TokenBatch) -> dict[str, Tensor]:
        mask = torch.ones_like(batch.ids) if batch.mask is None and self.wants_mask else batch.mask
        languages = self.detect(batch) if batch.languages is None and self.detect else batch.languages
        given = {
            "input_ids": batch.ids, "attention_mask": mask, "token_type_ids": batch.types if self.n_types else None,
            "langs": languages, "position_ids": batch.positions,
        }  # fmt: skip
        return {name: tensor for name, tensor in given.items() if tensor is not None}

    def positions(self) -> int:
        """The maximum number of tokens it can read at once; 0: unknown."""
        limits = [
            len(module.weight) - (0 if module.padding_idx is None else module.padding_idx + 1)
            for name, module in self.body.named_modules()
            if name.rpartition(".")[2] in ("position_embeddings", "wpe") and hasattr(module, "padding_idx")
        ]
        names = ("max_position_embeddings", "max_seq_len")  # the second in MPT
        settings = [getattr(self.whole.config, name, None) for name in names]
        limits += [n for n in settings if isinstance(n, int) and n > 0]
        return max(min(limits), 1) if limits else 0

    @torch.inference_mode()
    def _probed(self) -> tuple[int, int, bool]:
        """The number of layers, the dimension of a state, and whether it is causal, found by a trial run."""
        if not hasattr(self.whole.config, "vocab_size"):  # CANINE
            raise FormatError("it has no vocabulary of subwords")
        most = self.whole.config.vocab_size - 1
        batch = TokenBatch(torch.tensor([[min(1, most), min(2, most)], [min(1, most), min(3, most)]]))
        with offline():
            layers = self.eval()(batch)
        sizes = {tuple(layer.shape) for layer in layers}
        if len(sizes) != 1 or not all(bool(torch.isfinite(layer).all()) for layer in layers):
            raise FormatError("its layers do not have one finite state per piece")
        apart = torch.equal(batch.ids[0], batch.ids[1])
        return len(layers), layers[0].shape[2], not apart and torch.allclose(layers[-1][0, 0], layers[-1][1, 0])

    def _reads_padding(self) -> bool:
        """Whether the padding token is read like any other if no mask is given (XLM ignores it)."""
        ids = self._pieces(1)
        return self._alike(TokenBatch(ids), TokenBatch(ids, torch.ones_like(ids)))

    def _leaves_out_padding(self) -> bool:
        """Whether padding leaves a row unchanged: masks do not affect convolutions and Fourier transforms."""
        ids = self._pieces(3)
        return self._alike(TokenBatch(ids[:, :1]), TokenBatch(ids, (torch.arange(ids.shape[1]) == 0).long()[None]))

    def _pieces(self, padding: int) -> Tensor:
        """A token followed by ``padding`` padding tokens, ``(1, 1 + padding)``, cut to the network's limit."""
        padding_id, most = getattr(self.whole.config, "pad_token_id", None), self.whole.config.vocab_size - 1
        pad = padding_id if isinstance(padding_id, int) and 0 <= padding_id <= most else 0
        first = min(1, most) if pad != 1 else 0
        return torch.tensor([[first, *[pad] * padding]])[:, : self.positions() or None]

    @torch.inference_mode()
    def _alike(self, first: TokenBatch, second: TokenBatch) -> bool:
        """Whether the positions of the first batch have the same states in both, found by a trial run."""
        n = first.ids.shape[1]
        with offline():
            layers = zip(self(first), self(second), strict=True)
            return all(_close(alone, beside[:, :n]) for alone, beside in layers)


def configuration(record: Mapping[str, Any], *, where: object) -> PreTrainedConfig:
    """The configuration object of ``transformers`` for the settings of a config.json."""
    from transformers import CONFIG_MAPPING

    for name, what in _REFUSED.items():
        if record.get(name):
            raise FormatError(f"{where} asks for {what} ({name}), which is not executed")
    kind = record.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise FormatError(f"{where} names no architecture that transformers knows: model_type is {kind!r}")
    kept = {name: value for name, value in record.items() if not _DROPPED.fullmatch(name)}
    _check_numbers(kept, where)
    try:
        with offline():
            return CONFIG_MAPPING[kind].from_dict(kept)
    except Exception as error:  # configuration classes raise errors of many kinds
        raise FormatError(f"{where} does not describe a valid {kind} ({reason(error)})") from None


def build(config: PreTrainedConfig, tensors: Mapping[str, Tensor], *, where: object) -> Network:
    """The network with these weights; raises FormatError if any is missing or misshapen."""
    for name, tensor in tensors.items():
        wide = tensor.float() if tensor.element_size() == 1 else tensor  # torch cannot ask this of numbers of 8 bits
        if tensor.is_floating_point() and not bool(torch.isfinite(wide).all()):
            raise FormatError(f"{where}: {name!r} holds numbers that are not finite")
    problem = f"has no weights for {config.model_type}"
    for cls in _candidates(config, tensors):
        _check_size(cls, config, tensors, where)
        try:
            with offline(), torch.random.fork_rng(devices=[]):
                whole, report = cls.from_pretrained(
                    None, config=config, state_dict=dict(tensors), output_loading_info=True, dtype=torch.float32,
                    attn_implementation=_attention(cls), ignore_mismatched_sizes=True, local_files_only=True,
                    trust_remote_code=False, use_safetensors=True,
                )  # fmt: skip
                lacking = _lacking(report, whole)
                if not lacking:
                    keep_pooler(whole, tensors)
                    network = Network(whole.eval())
                    network.knows_pooler = not any("pooler" in name for name in report["missing_keys"])
                    return network
                problem = f"does not contain the weights its configuration describes: {lacking}"
        except FormatError as error:
            problem = f"cannot be opened as {config.model_type}: {error}"
        except Exception as error:  # architectures raise errors of many kinds
            problem = f"cannot be opened as {config.model_type} ({reason(error)})"
    raise FormatError(f"{where} {problem}")


def keep_pooler(whole: PreTrainedModel, tensors: Mapping[str, Tensor]) -> None:
    """Give a BERT or ALBERT the pooler among these weights, which its class leaves out if it is a masked LM."""
    body, prefix = whole.base_model, f"{whole.base_model_prefix}.pooler."
    weights = {
        name.removeprefix(prefix): tensor.to(torch.float32, copy=True)
        for name, tensor in tensors.items() if name.startswith(prefix)
    }  # fmt: skip
    if not weights or not _paired_classes(whole.config) or getattr(body, "pooler", body) is not None:
        return
    with torch.device("meta"):
        complete = type(body)(whole.config)
    shapes = {name: tensor.shape for name, tensor in complete.pooler.state_dict().items()}
    if {name: tensor.shape for name, tensor in weights.items()} != shapes:
        return
    complete.pooler.load_state_dict(weights, assign=True)
    for name in ("pooler", "pooler_activation"):  # ALBERT has the second
        if hasattr(complete, name):
            setattr(body, name, getattr(complete, name))


def state(network: Network) -> dict[str, Tensor]:
    """The weights by their names in ``transformers``; shared weights appear only once, under the encoder's name."""
    tensors: dict[str, Tensor] = {}
    seen: set[tuple[int, tuple[int, ...]]] = set()
    encoder = f"{network.whole.base_model_prefix}."  # a bare encoder is written without its head's name for them
    for name, tensor in sorted(network.whole.state_dict().items(), key=lambda item: not item[0].startswith(encoder)):
        place = (tensor.data_ptr(), tuple(tensor.shape))
        if (place not in seen or not tensor.numel()) and (network.knows_pooler or "pooler" not in name):
            tensors[name] = tensor.detach()
        seen.add(place)
    return tensors


def _head(whole: PreTrainedModel) -> Any:
    """The layers between the top hidden states and the logits, by the names in each family of architectures."""
    if hasattr(whole, "cls"):  # BERT
        return getattr(whole.cls, "predictions", whole.cls)
    if hasattr(whole, "generator_lm_head"):  # ELECTRA
        return nn.Sequential(whole.generator_predictions, whole.generator_lm_head)
    if hasattr(whole, "vocab_projector"):  # DistilBERT
        return lambda x: whole.vocab_projector(whole.vocab_layer_norm(whole.activation(whole.vocab_transform(x))))
    if hasattr(whole, "pred_layer"):  # XLM
        return whole.pred_layer.proj
    if hasattr(whole, "decoder") and hasattr(whole, "head"):  # ModernBERT
        return nn.Sequential(whole.head, whole.decoder)
    return getattr(whole, "predictions", None) or whole.lm_head  # ALBERT; RoBERTa, GPT


def _check_numbers(record: Mapping[str, Any], where: object) -> None:
    for name, value in record.items():
        if isinstance(value, dict):
            _check_numbers(value, where)
        most = _MOST_REPEATED if _REPEATED.search(name) else _LARGEST
        if isinstance(value, int) and not -_MOST_REPEATED <= value <= most:
            raise FormatError(f"{where}: {name} is {value:,}, which is too large for an encoder")


def _classes(mapping: Any, config: PreTrainedConfig) -> tuple[type, ...]:
    try:
        classes = mapping[type(config)]
    except KeyError:
        return ()
    return classes if isinstance(classes, tuple) else (classes,)


def _paired_classes(config: PreTrainedConfig) -> list[type]:
    from transformers import MODEL_FOR_PRETRAINING_MAPPING

    return [cls for cls in _classes(MODEL_FOR_PRETRAINING_MAPPING, config) if cls.__name__ in _WITH_PAIRS]


def _has_pairs(whole: PreTrainedModel) -> bool:
    return type(whole).__name__ in _WITH_PAIRS


def _candidates(config: PreTrainedConfig, tensors: Mapping[str, Tensor]) -> list[type[PreTrainedModel]]:
    """The classes to try: the one named in the configuration if it is a language model, then the bare encoder."""
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
        MODEL_FOR_TEXT_ENCODING_MAPPING,
        MODEL_MAPPING,
    )

    listed: Any = config.architectures
    named = str(listed[0]) if isinstance(listed, (list, tuple)) and listed else ""
    masked, causal = (_classes(m, config) for m in (MODEL_FOR_MASKED_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING))
    paired = _paired_classes(config)
    heads = [c for c in (*paired, *masked, *causal) if c.__name__ == named]
    if not named and any(_HEADS.match(name) for name in tensors):
        heads = [*paired, *(masked or causal)]
    if named in _WITH_PAIRS:
        heads += masked
    alone = [c for c in _classes(MODEL_FOR_TEXT_ENCODING_MAPPING, config) if c.__name__ == named]  # without a decoder
    return [*heads, *alone, *_classes(MODEL_MAPPING, config)]


def _close(states: Tensor, others: Tensor) -> bool:
    """Whether states are equal up to rounding."""
    return float((states - others).abs().max()) <= 1e-5 * max(float(states.abs().max()), 1.0)


def _attention(cls: type[PreTrainedModel]) -> str:
    return "sdpa" if getattr(cls, "_supports_sdpa", False) else "eager"


def _check_size(
    cls: type[PreTrainedModel], config: PreTrainedConfig, tensors: Mapping[str, Tensor], where: object
) -> None:
    """Refuse a configuration with far more weights than the tensors have, before memory is allocated."""
    held = sum(tensor.numel() for tensor in tensors.values())
    positions = getattr(config, "max_position_embeddings", None)
    sizes = [n for n in (positions, getattr(config, "hidden_size", None)) if isinstance(n, int)]
    wanted = math.prod(sizes) if len(sizes) == 2 else 0
    if wanted <= 4 * held + _LARGEST:
        try:
            with offline(), torch.device("meta"), _few_modules():
                wanted = sum(parameter.numel() for parameter in cls(config).parameters())
        except Exception as error:  # constructors raise errors of many kinds
            raise FormatError(f"{where} does not describe a valid {config.model_type} ({reason(error)})") from None
    if wanted > 4 * held + _LARGEST:
        raise FormatError(f"{where} describes at least {wanted:,} weights, but there are {held:,}")


@contextmanager
def _few_modules() -> Iterator[None]:
    """Inside, constructing a network with too many modules fails: any number of a configuration can be that of some."""
    made = 0

    def count(*_: object) -> None:
        nonlocal made
        made += 1
        if made > _MOST_MODULES:
            raise ValueError(f"it has more than {_MOST_MODULES:,} modules")

    counting = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        counting.remove()


def _lacking(report: Mapping[str, Any], whole: PreTrainedModel) -> str:
    """What is missing or misshapen according to the loading report of ``transformers``; empty if nothing is.

    The pooler may be missing, since no vector depends on it, and sinusoidal embeddings, since they are computed.
    """
    for name, shape, described in sorted(report["mismatched_keys"]):
        return f"{name!r} has the shape {tuple(shape)}, not {tuple(described)}"
    computed = {name for name, module in whole.named_modules() if "Sinusoidal" in type(module).__name__}
    missing = sorted(n for n in report["missing_keys"] if "pooler" not in n and n.rpartition(".")[0] not in computed)
    return f"{missing[0]!r} is missing" if missing else ""
