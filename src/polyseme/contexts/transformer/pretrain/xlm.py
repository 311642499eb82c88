"""Training XLM on corpora of several languages and on parallel text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from transformers import XLMConfig, XLMWithLMHeadModel

from polyseme.contexts.transformer.causal_task import CausalTask
from polyseme.contexts.transformer.masking import Masking
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.pretrain.corpus_tokens import PieceCorpus, PieceTable, split
from polyseme.contexts.transformer.pretrain.objectives import MaskedTask
from polyseme.contexts.transformer.pretrain.start import expect_frequent, fresh, given_pieces, look_at_neighbours
from polyseme.contexts.transformer.pretrain.training_examples import Examples, StreamExamples
from polyseme.contexts.transformer.shape import check_inner, initial_deviation, with_shape, with_shape_of
from polyseme.contexts.transformer.subwords import learn_byte_pairs
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.contexts.xlm.examples import Mixture, OneAfterTheOther, OneLanguage, Translations
from polyseme.contexts.xlm.model import Xlm
from polyseme.contexts.xlm.options import XlmOptions
from polyseme.data.parallel import Parallel
from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import FloatArray
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.training.loop import fit
from polyseme.training.run import Run

X = TypeVar("X", bound=Xlm)

PARALLEL = "parallel"
END = "</s>"
SPECIALS = {
    "bos_token": "<s>", "eos_token": END, "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<special1>",
    "cls_token": END, "sep_token": END,
}  # fmt: skip


SplitPairs = tuple[Parallel | None, Parallel | None]  # to learn from, and held out


def train_xlm(cls: type[X], data: dict[str, Corpus | Parallel], options: XlmOptions, run: Run) -> X:
    """Train an XLM on ``data``, starting from ``run.start`` if it is given."""
    start = run.start
    if start is not None and not isinstance(start, Xlm):
        raise OptionError(f"xlm can only continue from an xlm model, not from {start.method}")
    pairs, texts = _sources(data, options)
    if not any(len(text) > 1 and len(text.vocabulary) for text in texts.values()):
        raise TrainingError("the texts have no two sentences to learn from")
    if start is None:
        options = with_shape(options)
        languages, vocabulary = list(texts), _shared_vocabulary(list(texts.values()), options.exponent)
        segmentation = next(iter(texts.values())).segmentation
        given = given_pieces(run.models, "bos", "eos", "pad", "unk", "mask")
        pieces = given or _learned(vocabulary, segmentation, options)
        network = _network(pieces, len(languages), options)
    else:
        languages, network, pieces, options = _taken_over(start, texts, options)
    tables = {name: PieceTable(text, pieces, texts="sentence") for name, text in texts.items()}
    frequencies = _frequencies(tables, languages, network.vocabulary_size, start)
    if start is None:
        expect_frequent(network.whole.pred_layer.proj.bias, (frequencies.mean(axis=0) * 1e9).astype(np.int64))
    task = make_task(network, pieces, tables, languages, pairs, options)
    fit(task, options, run)
    about = About(segmentation=_plain(texts), corpus=_facts(data), curve=run.curve)
    mix = start.mix if start else None
    return cls(options, network, pieces, languages, frequencies, mix=mix, about=about)


def make_task(
    network: Network, pieces: Pieces, tables: dict[str, PieceTable], languages: list[str], pairs: SplitPairs,
    options: XlmOptions,
) -> MaskedTask | CausalTask:  # fmt: skip
    """The training task, ready for the first step."""
    end, padding = pieces.id_of("eos"), pieces.id_of("pad") or 0
    assert end is not None
    training: list[Examples] = []
    held_out: list[Examples] = []
    sizes: list[float] = []
    extra = 1 if options.objective == "clm" else 0
    for name, table in tables.items() if options.objective != "tlm" else ():
        for parts, sentences in zip((training, held_out), split(table, options.hold_out, options.seed), strict=True):
            text = PieceCorpus(table, sentences, end=end, behind="sentence")
            room = options.length - 1 + extra
            stream = StreamExamples(text, room=room, before=[end], behind=[], seed=options.seed)
            if stream.n_examples(0):
                parts.append(OneLanguage(stream, languages.index(name)))
                if parts is training:
                    sizes.append(text.n_pieces)
    weights = [(size / sum(sizes)) ** options.exponent for size in sizes]
    weights = [weight / sum(weights) for weight in weights]
    if "tlm" in options.objective:
        source, target = (languages.index(name) for name in options.sides())
        for parts, some in zip((training, held_out), pairs, strict=True):
            if some is not None:
                parts.append(
                    Translations(some, pieces, (source, target), end=end, length=options.length, seed=options.seed)
                )
        weights.append(1.0)  # translations in every second step
    if not training:
        raise TrainingError(f"there is nothing to learn {options.objective} from")
    examples = Mixture(training, weights, batch_size=options.batch_size, seed=options.seed)
    rest = OneAfterTheOther(held_out) if held_out else None
    if options.objective == "clm":
        return CausalTask(
            network, examples, rest, batch_size=options.batch_size, length=options.length, padding=padding
        )
    mask = pieces.id_of("mask")
    if mask is None:
        raise OptionError("the tokenizer has no mask token: use another, or objective clm")
    return MaskedTask(
        network, examples, rest, Masking("token", options.mask_share, 0.8, 0.9, mask, pieces.ordinary),
        batch_size=options.batch_size, length=options.length, padding=padding, seed=options.seed,
    )  # fmt: skip


def _sources(data: dict[str, Corpus | Parallel], options: XlmOptions) -> tuple[SplitPairs, dict[str, Corpus]]:
    """The parallel text, and a corpus for every language; a language without one uses its side of the parallel text.

    Pairs that are held out for translations are not in that text either.
    """
    pairs = data.get(PARALLEL)
    texts = {name: text for name, text in data.items() if isinstance(text, Corpus)}
    if not isinstance(pairs, Parallel):
        if "tlm" in options.objective:
            raise OptionError(f"objective {options.objective} needs parallel text: give it as {PARALLEL}=…")
        return (None, None), texts
    kept = None
    if "tlm" in options.objective and options.hold_out and len(pairs) > 1:
        pairs, kept = pairs.split(options.hold_out, options.seed)
    for number, name in enumerate(options.sides()):
        if name not in texts:
            sentences = (pair[number] for pair in pairs)
            texts[name] = Corpus.from_sentences(sentences, segment=pairs.segmentations[number], documents="line")
    return (pairs, kept), texts


def _shared_vocabulary(texts: list[Corpus], exponent: float) -> Vocabulary:
    """The words of all languages; smaller languages get more weight, with the same exponent as in sampling."""
    totals = np.array([max(text.n_tokens, 1) for text in texts], dtype=np.float64)
    shares = totals / totals.sum()
    wanted = shares**exponent / (shares**exponent).sum()
    counts: dict[str, int] = {}
    for text, factor in zip(texts, wanted / shares, strict=True):
        for word, n in zip(text.vocabulary.words, text.vocabulary.counts.tolist(), strict=True):
            counts[word] = counts.get(word, 0) + max(round(n * factor), 1)
    return Vocabulary.from_counts(counts)


def _learned(vocabulary: Vocabulary, segmentation: Segmentation, options: XlmOptions) -> Pieces:
    return learn_byte_pairs(
        vocabulary, options.max_size, segmentation, SPECIALS,
        single=f"{END} $A {END}", pair=f"{END} $A {END} {END} $B {END}", limit=options.length,
    )  # fmt: skip


def _network(pieces: Pieces, n_languages: int, options: XlmOptions) -> Network:
    check_inner(options)
    config = XLMConfig(
        vocab_size=len(pieces.names), emb_dim=options.dim, n_layers=options.n_layers, n_heads=options.n_heads,
        max_position_embeddings=options.length, n_langs=max(n_languages, 2), use_lang_emb=True,
        dropout=options.dropout, attention_dropout=options.dropout, gelu_activation=True,
        causal=options.objective == "clm", sinusoidal_embeddings=False, layer_norm_eps=1e-12,
        embed_init_std=initial_deviation(options), init_std=initial_deviation(options),
        bos_token_id=pieces.id_of("bos"), eos_token_id=pieces.id_of("eos"), pad_token_id=pieces.id_of("pad"),
        bos_index=pieces.id_of("bos"), eos_index=pieces.id_of("eos"), pad_index=pieces.id_of("pad"),
        unk_index=pieces.id_of("unk"), mask_index=pieces.id_of("mask"), mask_token_id=pieces.id_of("mask"),
    )  # fmt: skip
    network = fresh(XLMWithLMHeadModel, config, options.seed)
    if not network.causal:  # a causal one cannot look ahead
        look_at_neighbours(network.body)
    return network


def _taken_over(
    start: Xlm, texts: dict[str, Corpus], options: XlmOptions
) -> tuple[list[str], Network, Pieces, XlmOptions]:
    """Copies of the parts of the model to train further, which must have the same languages and kind of objective."""
    for name in texts:
        if name not in start.languages:
            raise OptionError(f"the model knows the languages {', '.join(start.languages)}, and not {name}")
    if start.network.causal != (options.objective == "clm"):
        raise OptionError("a clm model can only be trained further with clm, a masked one with mlm or tlm")
    whole = start.network.whole
    network = fresh(type(whole), type(whole.config).from_dict(whole.config.to_dict()), options.seed)
    network.whole.load_state_dict(whole.state_dict())
    return start.languages, network, start.pieces, with_shape_of(network, options)


def _frequencies(tables: dict[str, PieceTable], languages: list[str], n_pieces: int, start: Xlm | None) -> FloatArray:
    """The smoothed frequency of each subword in each language, ``(languages, V)``."""
    rows = []
    for number, name in enumerate(languages):
        if name in tables:
            counts = tables[name].frequencies(n_pieces) + 0.1
            rows.append(counts / counts.sum())
        else:
            assert start is not None
            rows.append(start.frequencies[number])
    return np.asarray(rows, dtype=np.float32)


def _plain(texts: dict[str, Corpus]) -> Segmentation:
    """The segmentation for text of any language: that of the first, without its dictionary."""
    first = next(iter(texts.values())).segmentation
    return replace(first, method="auto", words=(), function=None)


def _facts(data: dict[str, Corpus | Parallel]) -> dict[str, Any]:
    return {name: text.facts for name, text in data.items()}
