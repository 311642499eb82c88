"""Write the golden folders with the code at hand: ``python -m tests.golden.write [ROOM/NAME …]``.

One folder of every method, composed model, task and head, of corpora and of indexes, all tiny, with what they answer.
They stay as they are while the code changes, so that a release that no longer opens a folder of an older one, or
answers otherwise, is seen. Only folders that are missing are written, and those that are named: name one when its
answers are meant to change, and say so in the changelog.
"""

# ruff: noqa: E501, T201 - a folder is a line of the table

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tests.golden.data import (
    DOCUMENTS,
    LINES,
    ONE,
    TAGGED,
    choices,
    corpus,
    detailed,
    dialogues,
    pairs,
    parallel,
    scored,
    spans,
    tags,
    texts,
)
from tests.golden.published import (
    NETWORKS,
    Make,
    converted,
    network_folder,
    piece_table,
    published_infersent,
    published_words,
    sentence_transformer,
)
from tests.golden.questions import HERE, ROOMS, answers_of, layout_of, pack, unpack, write_answers

import polyseme
from polyseme.search import TextIndex, build_index

# ---- what is written: by room and name, how it is made

MADE: dict[str, Callable[[Make], Any]] = {}


def add(name: str, make: Callable[[Make], Any]) -> None:
    assert name not in MADE, name
    MADE[name] = make


def train(name: str, method: str, data: Callable[[], Any], **options: Any) -> None:
    add(name, lambda made: polyseme.train(method, data(), **options))


WORD = {"dim": 8, "epochs": 2, "min_count": 1, **ONE}
for name, method, more in (
    ("onehot", "onehot", {"min_count": 2}),
    ("counts", "counts", {"min_count": 1}),
    ("counts-log", "counts", {"min_count": 2, "cells": "log", "weights": "harmonic"}),
    ("svd", "svd", {"dim": 8, "min_count": 1, **ONE}),
    ("nnlm", "nnlm", {**WORD, "hidden": 6, "batch_size": 64}),
    ("nnlm-hierarchical", "nnlm", {**WORD, "hidden": 6, "batch_size": 64, "softmax": "hierarchical", "direct": True}),
    ("nnlm-full", "nnlm", {**WORD, "hidden": 6, "batch_size": 64, "softmax": "full", "order": 3, "min_count": 2}),
    ("word2vec", "word2vec", WORD),
    ("word2vec-cbow", "word2vec", {**WORD, "architecture": "cbow", "loss": "hierarchical"}),
    ("word2vec-concat", "word2vec", {**WORD, "vectors": "concat"}),
    ("glove", "glove", WORD),
    ("fasttext", "fasttext", {**WORD, "buckets": 100}),
    ("fasttext-cbow", "fasttext", {**WORD, "buckets": 50, "architecture": "cbow", "loss": "hierarchical", "minn": 2, "maxn": 3}),
    ("fasttext-whole", "fasttext", {**WORD, "maxn": 0}),
    ("wordrank", "wordrank", WORD),
    ("polyglot", "polyglot", {**WORD, "hidden": 6}),
    ("cw2vec", "cw2vec", {**WORD, "buckets": 200}),
    ("cw2vec-mean", "cw2vec", {**WORD, "buckets": 100, "compose": "mean", "vectors": "input", "min_count": 2}),
):  # fmt: skip
    train(f"words/{name}", method, corpus, **more)

ELMO = {
    "char_dim": 4, "max_characters": 20, "filters": "1x4 2x6", "n_highway": 1, "hidden": 8, "projection": 4,
    "epochs": 2, "min_count": 1, **ONE,
}  # fmt: skip
SHAPE = {
    "dim": 8, "n_layers": 2, "n_heads": 2, "inner": 16, "max_size": 160, "epochs": 1, "length": 24, "batch_size": 16, **ONE
}  # fmt: skip
AWD = {"dim": 8, "hidden": 12, "n_layers": 2, "min_count": 1, "epochs": 2, "batch_size": 4, "unroll": 10, **ONE}
COVE = {"dim": 6, "hidden": 5, "n_layers": 2, "min_count": 1, "epochs": 2, **ONE}
for name, method, data, more in (
    ("elmo", "elmo", corpus, ELMO),
    ("elmo-bytes", "elmo", corpus, {**ELMO, "alphabet": "bytes", "n_highway": 2}),
    ("elmo-chars", "elmo", corpus, {**ELMO, "alphabet": "chars", "activation": "tanh", "skip": False}),
    ("elmo-one-layer", "elmo", corpus, {**ELMO, "word_dim": 4, "n_layers": 1, "n_highway": 0}),
    ("elmo-words", "elmo", corpus, {**ELMO, "alphabet": "words", "word_dim": 4, "min_count": 2}),
    ("elmo-cnn", "elmo", corpus, {**ELMO, "reader": "cnn", "width": 3}),
    ("elmo-transformer", "elmo", corpus, {**ELMO, "reader": "transformer", "n_heads": 2}),
    ("elmo-manylangs", "elmo", corpus, {**ELMO, "alphabet": "chars+words", "word_dim": 4, "conventions": "manylangs"}),
    ("cove", "cove", parallel, COVE),
    ("cove-chars", "cove", parallel, {**COVE, "target_units": "chars", "n_layers": 1}),
    ("bert", "bert", corpus, SHAPE),
    ("bert-sop", "bert", corpus, {**SHAPE, "pairs": "sop", "pieces": "first", "n_layers": 1}),
    ("bert-alone", "bert", corpus, {**SHAPE, "pairs": "none", "masking": "ngram", "pieces": "last", "n_layers": 1}),
    ("gpt", "gpt", corpus, SHAPE),
    ("gpt-post", "gpt", corpus, {**SHAPE, "norm": "post", "n_layers": 1, "inner": None}),
    ("mtdnn", "mtdnn", lambda: {"topics": texts(), "alike": pairs(), "degree": scored()}, SHAPE),
    ("xlm", "xlm", lambda: {"parallel": parallel(), "zh": corpus(), "en": corpus(["Anna likes the old room."] * 20)}, {**SHAPE, "inner": None}),
    ("xlm-causal", "xlm", lambda: {"zh": corpus(), "en": corpus(["Anna likes the old room."] * 20)}, {**SHAPE, "objective": "clm", "n_layers": 1, "inner": None}),
    ("ulmfit", "ulmfit", corpus, AWD),
    ("ulmfit-backward", "ulmfit", corpus, {**AWD, "direction": "backward"}),
    ("ulmfit-chars", "ulmfit", corpus, {**AWD, "units": "chars"}),
    ("ulmfit-bpe", "ulmfit", corpus, {**AWD, "units": "bpe", "max_size": 120}),
):  # fmt: skip
    train(f"contexts/{name}", method, data, **more)
add(
    "contexts/cove-vectors",
    lambda made: polyseme.train("cove", parallel(), word_vectors="words/word2vec/folder", **{**COVE, "dim": 8}),
)

LEARNED = {"dim": 6, "epochs": 2, **ONE}
NLI = {"dim": 6, "hidden": 4, "classifier": 6, "epochs": 1, **ONE}
SAID = {"dim": 6, "hidden": 6, "min_count": 1, "epochs": 1, "batch_size": 10, **ONE}
MANY = {**SAID, "classifier": 6}
VECTORS = {"word_vectors": "words/word2vec/folder", "dim": None}
for name, method, data, more in (
    ("bow", "bow", corpus, {}),
    ("bow-log", "bow", corpus, {"entries": "log", "min_count": 2, "max_share": 0.5}),
    ("tfidf", "tfidf", corpus, {}),
    ("tfidf-plain", "tfidf", corpus, {"idf": "plain", "norm": "none", "entries": "presence"}),
    ("lsa", "lsa", corpus, {"dim": 6, "seed": 1}),
    ("dan", "dan", texts, {**LEARNED, "hidden": 6}),
    ("dan-letters", "dan", texts, {**LEARNED, "hidden": 6, "bigrams": 4, "letters": 3}),
    ("textcnn", "textcnn", texts, {**LEARNED, "filters": "2x3 3x3"}),
    ("textcnn-k-max", "textcnn", texts, {**LEARNED, "filters": "2x3", "pooling": "k-max", "k": 2, "activation": "tanh"}),
    ("dcnn", "dcnn", texts, {**LEARNED, "filters": "3x2 2x3", "k_top": 2}),
    ("rnn", "rnn", texts, {**LEARNED, "hidden": 4}),
    ("rnn-gru", "rnn", texts, {**LEARNED, "hidden": 4, "cell": "gru", "n_layers": 2, "bidirectional": False}),
    ("bilstm-max", "bilstm-max", texts, {**LEARNED, "hidden": 4}),
    ("self-attention", "self-attention", texts, {**LEARNED, "hidden": 4, "rows": 2, "attention_units": 5}),
    ("han", "han", texts, {**LEARNED, "hidden": 4, "attention_units": 5}),
    *((f"infersent-{kind}", "infersent", pairs, {**NLI, "encoder": kind}) for kind in (
        "bilstm-max", "bilstm-mean", "bigru-last", "lstm", "gru", "self-attentive", "hierarchical-conv"
    )),
    ("infersent-vectors", "infersent", pairs, {**NLI, **VECTORS, "nonlinear": True}),
    ("infersent-finetune", "infersent", pairs, {**NLI, **VECTORS, "encoder_mode": "finetune"}),
    ("skip-thought", "skip-thought", corpus, SAID),
    ("skip-thought-bi", "skip-thought", corpus, {**SAID, "directions": "bi", "condition": "first-state"}),
    ("skip-thought-combined", "skip-thought", corpus, {**SAID, "directions": "combined"}),
    ("skip-thought-expanded", "skip-thought", corpus, {**SAID, "expand": "words/word2vec/folder", "min_count": 3}),
    ("rae", "rae", corpus, {"word_dim": 6, "epochs": 1, "batch_size": 10, **ONE}),
    ("rae-root", "rae", corpus, {**VECTORS, "vector": "root", "epochs": 1, "batch_size": 10, **ONE}),
    ("quick-thought", "quick-thought", corpus, SAID),
    ("quick-thought-bi", "quick-thought", corpus, {**SAID, **VECTORS, "bidirectional": True}),
    ("gensen", "gensen", lambda: {"corpus": corpus(), "parallel": parallel(), "nli": pairs(), "texts": texts()}, MANY),
    ("gensen-uni", "gensen", lambda: {"nli": pairs(), "corpus": corpus()}, {**MANY, "directions": "uni", "condition": "first-state"}),
    ("use", "use", lambda: {"corpus": corpus(), "dialogues": dialogues(), "nli": pairs()}, {**MANY, "bigrams": 4}),
    ("use-transformer", "use", lambda: {"corpus": corpus(), "nli": pairs()}, {**MANY, "encoder": "transformer", "hidden": 8, "n_heads": 2, "inner": 8, "depth": 1}),
    ("conversation", "conversation", lambda: {"dialogues": dialogues(), "nli": pairs()}, {**NLI, "hidden": 6, "batch_size": 8}),
    ("conversation-dan", "conversation", lambda: {"dialogues": dialogues()}, {**NLI, "encoder": "dan", "batch_size": 8}),
    ("conversation-bilstm", "conversation", lambda: {"dialogues": dialogues()}, {**NLI, **VECTORS, "encoder": "bilstm-max", "batch_size": 8}),
    ("softbow", "softbow", corpus, {"dim": 6, "min_count": 1, "seed": 1}),
    ("softbow-vectors", "softbow", corpus, {"word_vectors": "words/word2vec/folder", "min_count": 1, "neighbours": 4}),
    *((f"doc2vec-{kind}", "doc2vec", corpus, {**WORD, "window": 2, "architecture": kind}) for kind in (
        "dbow", "dbow-words", "dm", "dm-concat"
    )),
):  # fmt: skip
    train(f"sentences/{name}", method, data, **more)

# ---- composed models


def composed(parts: list[Any], **how: Any) -> Any:
    from polyseme.contexts.stack import Stack

    return Stack(parts, **how)


def pooled(name: str, encoder: str, pool: str, data: Callable[[Make], Any] = lambda made: None, **how: Any) -> None:
    add(
        f"sentences/pooled-{name}",
        lambda made: polyseme.lift(made(encoder), "sentences", pool=pool, data=data(made), **how),
    )


def tagged_corpus(made: Make) -> polyseme.Corpus:
    Path("tagged.txt").write_text("\n".join(TAGGED), encoding="utf-8")
    return polyseme.Corpus.build("tagged.txt", format="tagged", workers=1)


add("words/distilled", lambda made: polyseme.distil(made("contexts/elmo"), corpus(), min_count=1))
add(
    "words/distilled-pca",
    lambda made: polyseme.distil(made("contexts/bert"), corpus(), min_count=2, pca=4, layers="top", weight="document"),
)
add("contexts/static", lambda made: polyseme.lift(made("words/fasttext"), "contexts"))
add("contexts/stack", lambda made: composed([polyseme.lift(made("words/word2vec"), "contexts"), made("contexts/elmo")]))
add("contexts/stack-layers", lambda made: composed([made("contexts/elmo"), made("contexts/bert")], layers=["mix", 1]))
for pool in ("mean", "max", "first", "last", "last-max-mean", "first-max-mean", "pmean"):
    pooled(pool, "contexts/elmo", pool, layers="top" if pool in ("first", "last") else "mean")
pooled("mix", "contexts/bert", "mean", layers="mix")
pooled("powers", "words/word2vec", "pmean", powers="1,3")
for pool in ("tfidf", "sif", "usif"):
    pooled(pool, "contexts/elmo", pool, lambda made: LINES, layers="top")
    pooled(f"{pool}-words", "words/word2vec", pool)
pooled("surprisal", "words/word2vec", "surprisal", lambda made: LINES)
add(
    "sentences/pooled-surprisal-elmo",
    lambda made: polyseme.lift(made("words/word2vec"), "sentences", pool="surprisal", reader=made("contexts/elmo")),
)
pooled("pos", "words/word2vec", "pos", tagged_corpus, residual=0.5)

# ---- published files, opened and saved as ours


for kind in NETWORKS:
    add(f"contexts/transformer-{kind}", lambda made, kind=kind: polyseme.load(network_folder(kind)))

for name, kind, pooling, dense in (
    ("mean", "bert", "mean", True), ("cls", "bert", "cls", False), ("last", "gpt2", "lasttoken", False), ("t5", "t5", "mean", False)
):  # fmt: skip
    add(
        f"sentences/sentence-transformer-{name}",
        lambda made, a=name, b=kind, c=pooling, d=dense: sentence_transformer(a, b, c, dense=d),
    )

add("words/vectors", published_words)

add("sentences/piece-table", piece_table)

add("sentences/infersent-file", published_infersent)

add("words/fasttext-file", lambda made: converted("words/fasttext/folder", "published.bin"))

add("contexts/elmo-bilm", lambda made: converted("contexts/elmo-bytes/folder", "published/bilm", "--to", "bilm-tf"))


# ---- tasks

FIT = {"epochs": 2, "batch_size": 8, "held_out": 0.2, **ONE}
TUNE = {"epochs": 1, "batch_size": 8, "held_out": 0.0, "encoder_mode": "finetune", **ONE}
STATIC, ELMO_AT, BERT, GPT = "words/word2vec", "contexts/elmo", "contexts/bert", "contexts/gpt"
SENTENCE = "sentences/sentence-transformer-mean"


def fit(name: str, data: Callable[[], Any], encoder: str | list[str] | None = None, **options: Any) -> None:
    task = name.split("-")[0]

    def fitted(made: Make) -> Any:
        given = (
            None if encoder is None else made(encoder) if isinstance(encoder, str) else [made(one) for one in encoder]
        )
        return polyseme.fit(task, data(), encoder=given, **options)

    add(f"tasks/{name}", fitted)


HEADS: dict[str, dict[str, Any]] = {
    "textcnn": {"filters": "2x3"}, "dan": {"hidden": 6}, "dcnn": {"filters": "3x2 2x3", "k_top": 2}, "rnn": {"hidden": 4},
    "bilstm-max": {"hidden": 4}, "self-attention": {"hidden": 4, "rows": 2, "attention_units": 5},
    "han": {"hidden": 4, "attention_units": 5}, "linear": {}, "mlp": {"hidden": 6},
}  # fmt: skip
OVER_PAIRS = {
    **{head: HEADS[head] for head in ("textcnn", "dan", "rnn", "self-attention", "bilstm-max") if head in HEADS},
    "linear": {}, "mlp": {}, "arc1": {"filters": "3x4"}, "arc2": {"filters": "3x4"}, "cnn-sm": {"filters": "2x2 2x2", "k_top": 2},
    "bi-cnn": {"filters": "2x2 2x2", "k_top": 2, "classifier_units": 8}, "mpcnn": {"filters": "2x4", "dimension_maps": 2, "classifier_units": 8},
}  # fmt: skip

for head, shape in HEADS.items():
    fit(f"classify-{head}-learned", texts, head=head, dim=6, **shape, **FIT)
    fit(f"classify-{head}-frozen", texts, STATIC, head=head, **shape, **FIT)
# A folder holds no value of an option that was left at its head's default, which therefore must not change.
for head in ("textcnn", "mlp", "dcnn"):
    fit(f"classify-{head}-defaults", texts, STATIC, head=head, **FIT)
for head in ("cnn-sm", "arc1", "linear"):
    fit(f"pair-{head}-defaults", pairs, STATIC, head=head, **FIT)
fit("pair-mlp-defaults", scored, STATIC, head="mlp", **FIT)
fit("choice-mlp-defaults", choices, STATIC, head="mlp", **FIT)
for head in ("textcnn", "linear", "bilstm-max"):
    for encoder in (ELMO_AT, BERT, "contexts/ulmfit"):
        fit(f"classify-{head}-finetune-{encoder.split('/')[1]}", texts, encoder, head=head, **HEADS[head], **TUNE)
fit("classify-textcnn-mix", texts, ELMO_AT, head="textcnn", filters="2x3", layers="mix", **FIT)
fit("classify-textcnn-multichannel", texts, STATIC, head="textcnn", filters="2x3", encoder_mode="multichannel", **FIT)
fit("classify-textcnn-vectors-learn", texts, STATIC, head="textcnn", filters="2x3", **TUNE)
fit(
    "classify-self-attention-both",
    texts,
    ELMO_AT,
    head="self-attention",
    rows=2,
    attention_units=5,
    hidden=4,
    dim=6,
    elmo_at="both",
    **FIT,
)
fit("classify-dan-three", texts, [STATIC, ELMO_AT], head="dan", hidden=6, dim=4, bigrams=3, letters=2, **FIT)
fit("classify-linear-mix", texts, ELMO_AT, head="linear", **FIT)
fit("classify-linear-top", texts, ELMO_AT, head="linear", layers="top", pool="max", **FIT)
fit("classify-mlp-tfidf", texts, "sentences/tfidf", head="mlp", hidden=4, **FIT)
fit("classify-linear-sentence", texts, SENTENCE, head="linear", **FIT)
fit("classify-linear-finetune-sentence", texts, SENTENCE, head="linear", **TUNE)
fit("classify-linear-finetune-gpt", texts, GPT, head="linear", **TUNE)
fit("classify-label-parts", detailed, head="dan", dim=4, hidden=4, class_weights="balanced", **FIT)
FAST = {"dim": 6, "epochs": 3, "buckets": 60, **ONE}
for loss in ("softmax", "negative", "hierarchical", "one-vs-all"):
    fit(f"classify-fasttext-{loss}", texts, head="fasttext", loss=loss, **FAST)
ULM = {"head": "ulmfit", "hidden": 5, "epochs": 1, "lm_epochs": 1, "held_out": 0.0, "batch_size": 8, **ONE}
fit("classify-ulmfit", texts, "contexts/ulmfit", **ULM)
fit("classify-ulmfit-both", texts, ["contexts/ulmfit", "contexts/ulmfit-backward"], **{**ULM, "lm_epochs": 0})
fit("classify-ulmfit-bpe", texts, "contexts/ulmfit-bpe", **ULM)

for head, shape in OVER_PAIRS.items():
    fit(f"pair-{head}", pairs, STATIC, head=head, **shape, **FIT)
    fit(f"choice-{head}", choices, STATIC, head=head, **{"classifier_units": 8, **shape}, **FIT)
for head in ("linear", "mlp", "bilstm-max", "arc1", "mpcnn"):
    fit(f"pair-{head}-scored", scored, STATIC, head=head, **{"classifier_units": 8, **OVER_PAIRS[head]}, **FIT)
fit("pair-mlp-regression", scored, STATIC, head="mlp", regression="mse", **FIT)
fit("pair-linear-sentence", pairs, SENTENCE, head="linear", classifier_units=4, **FIT)
fit("pair-dan-learned", pairs, head="dan", hidden=6, dim=6, bigrams=3, **FIT)
fit("pair-bilstm-max-mix", pairs, ELMO_AT, head="bilstm-max", hidden=4, layers="mix", **FIT)
fit("pair-arc2-finetune", pairs, BERT, head="arc2", filters="3x4", **TUNE)
for head in ("linear", "mlp", "bilstm-max"):
    for encoder in (BERT, ELMO_AT, SENTENCE):
        if head != "bilstm-max" or encoder != SENTENCE:
            fit(f"pair-{head}-siamese-{encoder.split('/')[1]}", pairs, encoder, head=head, **OVER_PAIRS[head], **TUNE)
CROSS = {"head": "cross", "epochs": 1, "batch_size": 8, "held_out": 0.0, "max_pieces": 40, **ONE}
for encoder in (BERT, GPT, "contexts/transformer-roberta", "contexts/transformer-albert"):
    fit(f"pair-cross-{encoder.split('/')[1]}", pairs, encoder, **CROSS)
    fit(f"choice-cross-{encoder.split('/')[1]}", choices, encoder, **CROSS)
fit("pair-cross-scored-bert", scored, BERT, **CROSS, classifier_units=4)
fit("pair-cross-scored-gpt", scored, GPT, **CROSS)
fit("pair-cross-random", pairs, BERT, **CROSS, orders="random")
fit("pair-cross-regression", scored, BERT, **CROSS, orders="both", regression="mse")
fit("pair-cosine", scored, SENTENCE, **{**CROSS, "head": "cosine"})
fit("choice-bilstm-max-siamese", choices, BERT, head="bilstm-max", hidden=4, **TUNE)

fit("tag-bilstm-crf", tags, head="bilstm-crf", dim=6, hidden=4, bigrams=3, letters=2, **FIT)
fit("tag-bilstm-crf-words", lambda: tags("words"), head="bilstm-crf", dim=6, hidden=4, cell="gru", n_layers=2, **FIT)
fit("tag-bilstm-crf-frozen", tags, STATIC, head="bilstm-crf", hidden=4, **FIT)
fit("tag-bilstm-crf-mix", tags, ELMO_AT, head="bilstm-crf", hidden=4, dim=4, elmo_at="both", **FIT)
fit("tag-bilstm-crf-finetune", tags, BERT, head="bilstm-crf", hidden=4, **TUNE)
fit("tag-linear", tags, head="linear", dim=6, **FIT)
fit("tag-linear-words", lambda: tags("words"), STATIC, head="linear", **FIT)
fit("tag-linear-finetune-bert", tags, BERT, head="linear", **TUNE)
fit("tag-linear-finetune-elmo", tags, ELMO_AT, head="linear", **TUNE)
fit("tag-taglm", tags, ELMO_AT, head="taglm", hidden=4, dim=4, **FIT)
fit("span-reader", spans, head="reader", dim=6, hidden=4, **FIT)
fit("span-reader-frozen", lambda: spans(unanswered=True), STATIC, head="reader", hidden=4, **FIT)
fit("span-reader-mix", spans, ELMO_AT, head="reader", hidden=4, layers="mix", **FIT)
fit("span-reader-finetune", spans, BERT, head="reader", hidden=4, **TUNE)
for encoder in (BERT, GPT, "contexts/transformer-roberta"):
    fit(f"span-cross-{encoder.split('/')[1]}", spans, encoder, **CROSS | {"stride": 8})
fit("span-cross-unanswered", lambda: spans(unanswered=True), BERT, **CROSS | {"stride": 8})

# ---- corpora and indexes: their folders, and what they are made of beside them

PLACED: dict[str, Callable[[Path], None]] = {}


def build_corpus(name: str, content: str, **how: Any) -> None:
    def build(place: Path) -> None:
        (place / "source.txt").write_text(content, encoding="utf-8")
        (place / "how.json").write_text(json.dumps(how, ensure_ascii=False), encoding="utf-8")
        inside(place, lambda: polyseme.Corpus.build("source.txt", "folder", workers=1, **how))

    PLACED[f"corpora/{name}"] = build


def inside(place: Path, work: Callable[[], Any]) -> None:
    """Do the work in a folder, so that no path of this machine is kept."""
    before = Path.cwd()
    os.chdir(place)
    try:
        work()
    finally:
        os.chdir(before)


MIXED = DOCUMENTS + "\n老王的ＡＢＣ１２３顯微鏡比姐姐的顯微鏡好：“真的嗎？”——Anna's reading the old-room 3.5 times!\n"
build_corpus("words", MIXED)
build_corpus("characters", MIXED, segment="char", min_count=2)
build_corpus(
    "spaces", "小明 打 电话 。\nAnna 喜欢 看 书 ， 也 打 篮球 。\n老王 看 書 。\n", segment="space", documents="line"
)
build_corpus(
    "english",
    "Anna isn't reading the old book.\n\nThe rooms were old; Anna 打 reads on.\n",
    segment="english",
    case="lower",
)
build_corpus("simplified", MIXED, script="simplified", case="lower", words=["比姐姐"], max_size=40)
build_corpus("tagged", "\n".join(TAGGED), format="tagged")
build_corpus("segmented", "小明 打 电话 。\n姐姐 打 篮球 ， Anna 看书 。\n", format="segmented")


def index_of(name: str, model: str, **how: Any) -> None:
    def build(place: Path) -> None:
        shutil.copytree(Path(model) / "folder", place / "model")
        (place / "source.txt").write_text(DOCUMENTS * 3, encoding="utf-8")
        whole = {"dim": 8, "seed": 1, **how}
        (place / "how.json").write_text(json.dumps(whole), encoding="utf-8")
        inside(place, lambda: _index(whole))

    PLACED[f"occurrences/{name}"] = build


def _index(how: dict[str, Any]) -> None:
    polyseme.Corpus.build("source.txt", "corpus", workers=1)
    build_index("model", "corpus", "folder", **how)


index_of("static", "contexts/static")
index_of("elmo", "contexts/elmo", layers="all")
index_of("elmo-half", "contexts/elmo", precision="float16", skip="nothing", min_count=2)
index_of("bert", "contexts/bert", precision="float16")
index_of("gpt-word", "contexts/gpt", states="word")
index_of("stack", "contexts/stack")
index_of("cells", "contexts/elmo", cells_from=100)


def texts_of(name: str, model: str, **how: Any) -> None:
    def build(place: Path) -> None:
        shutil.copytree(Path(model) / "folder", place / "model")
        (place / "source.txt").write_text(DOCUMENTS, encoding="utf-8")
        (place / "how.json").write_text(json.dumps(how), encoding="utf-8")
        inside(place, lambda: TextIndex.build(polyseme.load("model"), "source.txt", "folder", **how))

    PLACED[f"texts/{name}"] = build


texts_of("word2vec", "words/word2vec")
texts_of("word2vec-documents", "words/word2vec", unit="documents")
texts_of("tfidf", "sentences/tfidf")
texts_of("elmo", "contexts/elmo")
texts_of("bert", "contexts/bert")
texts_of("dan", "sentences/dan")
texts_of("sentence-transformer", SENTENCE)
texts_of("piece-table", "sentences/piece-table")
texts_of("sif", "sentences/pooled-sif-words")


# ---- writing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="ROOM/NAME of folders to be replaced")
    replaced = parser.parse_args().names
    logging.basicConfig(level=logging.ERROR)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        inside(Path(scratch), lambda: write_all(replaced))


def write_all(replaced: list[str]) -> None:
    """Write the folders that are not in the archives yet, and those to be replaced; all others stay as they are."""
    for room in ROOMS:
        if (HERE / f"{room}.tar.xz").exists():
            unpack(HERE / f"{room}.tar.xz", Path(room))
    for name in replaced:
        shutil.rmtree(name)
    for name in (*MADE, *PLACED):
        if not (Path(name) / "folder").exists():
            print(name, flush=True)
            write(name)
    for room in ROOMS:
        pack(Path(room), HERE / f"{room}.tar.xz")
    (HERE / "folders.txt").write_text("\n".join((*MADE, *PLACED)) + "\n", encoding="utf-8")


def write(name: str) -> None:
    """One folder with its answers, after those that it is made of."""
    place = Path(name)
    place.mkdir(parents=True)
    if name in MADE:
        MADE[name](opened).save(place / "folder")
    else:
        PLACED[name](place)
    write_answers(place, {"answers": answers_of(place.parent.name, place), "layout": layout_of(place / "folder")})


@cache
def opened(name: str) -> Any:
    """The model in a folder that was written before."""
    return polyseme.load(Path(name) / "folder")


if __name__ == "__main__":
    main()
