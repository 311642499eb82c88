"""Speed of Transformers against sentence-transformers and transformers, on one thread, in CPU-seconds.

    python benchmarks/transformers_speed.py --model MINILM --lines TEXT --texts stsb-en-dev.csv --labelled stsa.binary

encode    encode lines of text with a sentence-transformers folder: fp32 and int8, against its library and against
          transformers on batches of 32 in the file's order; differences of the vectors, and scores on STS-B
base      the same with a BERT of base size with random weights
pretrain  steps of masked-language-model training, against transformers' Trainer with the full head
tune      an epoch of fine-tuning on labelled texts, against transformers' Trainer, and the accuracy of both after it

Every round measures all of them in turn; a figure is the minimum over the rounds. Results are saved in ``--results``,
and the tables in docs/results-transformers.md are written from them.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer as Theirs
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

import polyseme
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.options import BertOptions
from polyseme.contexts.transformer.pretrain.bert import make_task
from polyseme.contexts.transformer.subwords import learn_wordpieces
from polyseme.data.examples import Examples
from polyseme.text.corpus import Corpus
from polyseme.training.optimisers import Optimiser
from polyseme.training.task import Part
from tables import write_table

Row = dict[str, Any]
BATCH = 16  # examples of a training step
LONGEST = 256  # maximum tokens of a line, as in MiniLM's folder; all four truncate longer lines


def cpu_seconds(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The minimum CPU-seconds of each work over several rounds, measured in turn."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.process_time()
            work()
            found[name].append(time.process_time() - start)
    return {name: min(times) for name, times in found.items()}


@cache
def opened(folder: Path) -> tuple[Any, Any]:
    """The model and its tokenizer as transformers opens them."""
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def by_hand(folder: Path, texts: list[str]) -> np.ndarray:
    """Usual code with transformers: padded batches of 32 in the file's order, and the mean of the top layer."""
    model, tokenizer = opened(folder)
    found = []
    with torch.inference_mode():
        for start in range(0, len(texts), 32):
            batch = tokenizer(
                texts[start : start + 32], padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"
            )
            states = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).float()
            mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
            found.append(torch.nn.functional.normalize(mean, dim=1).numpy())
    return np.concatenate(found)


def encode(folder: Path, lines: list[str], pairs: list[tuple[str, str, float]], rounds: int) -> Row:
    """CPU-seconds of every way to encode the lines, the difference of vectors, and Spearman's ρ of similarities."""
    ours, theirs = polyseme.load(folder), Theirs(str(folder), device="cpu")
    ours.options = dataclasses.replace(ours.options, long_texts="cut", max_pieces=LONGEST)
    theirs.max_seq_length = LONGEST
    quick = ours.at_precision("int8")
    by_hand(folder, lines[:2])
    row: Row = cpu_seconds({
        "ours": lambda: ours.encode(lines),
        "int8": lambda: quick.encode(lines),
        "sentence-transformers": lambda: theirs.encode(lines, batch_size=32, show_progress_bar=False),
        "transformers": lambda: by_hand(folder, lines),
    }, rounds)  # fmt: skip
    row["difference"] = float(np.abs(ours.encode(lines[:64]) - by_hand(folder, lines[:64])).max())
    texts = [text for first, second, _ in pairs for text in (first, second)]
    vectors = {"ours": ours.encode(texts), "int8": quick.encode(texts)}
    gold = [score for *_, score in pairs]
    for name in ("ours", "int8"):
        cosines = (vectors[name][::2] * vectors[name][1::2]).sum(axis=1)
        row[f"spearman {name}"] = 100 * float(spearmanr(cosines, gold)[0])
    return row


def random_base(like: Path, folder: Path) -> Path:
    """A BERT of base size with random weights and the tokenizer of ``like``, as a sentence-transformers folder."""
    torch.manual_seed(0)
    AutoTokenizer.from_pretrained(like).save_pretrained(folder / "plain")
    BertModel(BertConfig()).save_pretrained(folder / "plain")
    from sentence_transformers import models

    body = models.Transformer(str(folder / "plain"))
    pooling = models.Pooling(body.get_word_embedding_dimension())
    Theirs(modules=[body, pooling, models.Normalize()], device="cpu").save(str(folder / "base"))
    return folder / "base"


def pretrain(texts: list[str], steps: int, rounds: int) -> Row:
    """CPU-seconds of steps on examples of 64 tokens: ours, and Trainer's with its own collator."""
    corpus = Corpus.from_sentences(texts * 4)
    options = BertOptions(
        n_layers=4, dim=256, n_heads=4, inner=1024, length=64, batch_size=BATCH, pairs="none", lr=1e-4
    )
    pieces = learn_wordpieces(corpus.vocabulary, 8000, corpus.segmentation, limit=64)
    config = BertConfig(
        vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    task = make_task(Network(BertForMaskedLM(config)), pieces, corpus, options)
    optimiser = Optimiser(dict(task.module.named_parameters()), "adamw", weight_decay=0.01)
    task.module.train()

    def ours() -> None:
        for index in range(steps):
            for parameter in optimiser.parameters.values():
                parameter.grad = None
            task.gradients(0, index, Part())
            optimiser.step(1e-4)

    examples = [{"input_ids": task.examples.example(0, n).ids.tolist()} for n in range(BATCH * steps)]
    with tempfile.TemporaryDirectory() as folder:
        for name, content in pieces.files().items():
            (Path(folder) / name).write_bytes(content)
        collator = DataCollatorForLanguageModeling(AutoTokenizer.from_pretrained(folder), mlm_probability=0.15)
        trainer = Trainer(
            BertForMaskedLM(config), arguments(folder, BATCH, steps), train_dataset=examples, data_collator=collator
        )
        return dict(cpu_seconds({"ours": ours, "Trainer": lambda: trainer.train()}, rounds))


def tune(folder: Path, train: Examples, dev: Examples) -> Row:
    """CPU-seconds of an epoch of fine-tuning and dev accuracy: ours with defaults, Trainer's with padding per batch."""
    model, labels = polyseme.load(folder), train.labels
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def cut(given: Examples) -> list[dict[str, Any]]:
        rows: Any = given
        targets = [labels.index(given.labels[int(target)]) for target in given.targets]
        return [{**tokenizer(row.text, truncation=True), "label": n} for row, n in zip(rows, targets, strict=True)]

    how: Row = {"encoder_mode": "finetune", "epochs": 1, "threads": 1, "held_out": 0.0}
    start = time.process_time()
    ours = polyseme.fit("classify", train, encoder=model, progress=lambda *_, **__: None, **how)
    row: Row = {"ours": time.process_time() - start, "accuracy ours": 100 * ours.score(dev).figures["accuracy"]}
    torch.manual_seed(1)
    theirs = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(labels))
    examples, held_out = cut(train), cut(dev)
    with tempfile.TemporaryDirectory() as place:
        trainer = Trainer(
            theirs, arguments(place, 32, -1), train_dataset=examples, data_collator=DataCollatorWithPadding(tokenizer)
        )
        start = time.process_time()
        trainer.train()
        row["Trainer"] = time.process_time() - start
        told = trainer.predict(held_out).predictions.argmax(axis=1)
    row["accuracy Trainer"] = 100 * float(np.mean(told == [one["label"] for one in held_out]))
    return row


def arguments(folder: str, batch: int, steps: int) -> TrainingArguments:
    """Arguments for Trainer, which neither saves nor reports."""
    return TrainingArguments(
        folder, per_device_train_batch_size=batch, max_steps=steps, num_train_epochs=1, learning_rate=1e-4,
        report_to=[], save_strategy="no", logging_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip


def table(known: dict[str, Row]) -> Iterable[list[str]]:
    """The rows of the table: ratios and bars."""
    yield ["what", "against", "times as fast", "bar"]
    for name, title in (("encode", "MiniLM"), ("base", "random base")):
        row = known.get(name)
        if row:
            theirs, plain = row["sentence-transformers"], row["transformers"]
            yield [f"{title}, fp32", "sentence-transformers", f"{theirs / row['ours']:.2f}", "1.3"]
            yield [f"{title}, fp32", "transformers, 32 in file order", f"{plain / row['ours']:.2f}", "2.5"]
            yield [f"{title}, int8", "sentence-transformers, fp32", f"{theirs / row['int8']:.2f}", "2"]
    if "pretrain" in known:
        yield ["masked LM", "Trainer", f"{known['pretrain']['Trainer'] / known['pretrain']['ours']:.2f}", "1.6"]


def tuning_table(row: Row) -> Iterable[list[str]]:
    """The rows of the table on an epoch of fine-tuning, ours and Trainer's."""
    yield ["", "CPU-seconds of an epoch", "times as fast", "bar", "accuracy after it"]
    times = row["Trainer"] / row["ours"]
    yield ["polyseme fit", f"{row['ours']:.1f}", f"{times:.2f}", "1.3", f"{row['accuracy ours']:.1f}"]
    yield ["Trainer", f"{row['Trainer']:.1f}", "1", "", f"{row['accuracy Trainer']:.1f}"]


def labelled(path: str, n: int) -> tuple[Examples, Examples]:
    """``n`` training examples with all labels, and the dev examples."""
    train, dev = (Examples.read(f"{path}.{part}") for part in ("train", "dev"))
    return train.split(n / len(train), 1)[1], dev


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="all-MiniLM-L6-v2 as a folder")
    parser.add_argument("--texts", type=Path, required=True, help="pairs with scores: stsb-en-dev.csv")
    parser.add_argument("--lines", type=Path, required=True, help="plain text, a sentence or a paragraph a line")
    parser.add_argument("--labelled", required=True, help="labelled texts: files of this name with .train and .dev")
    parser.add_argument("--examples", type=int, default=1000, help="labelled texts to learn from")
    parser.add_argument("--n-lines", type=int, default=200)
    parser.add_argument("--only", default="encode,base,pretrain,tune")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--results", type=Path, default=Path("transformers.json"))
    parser.add_argument("--page", type=Path, default=Path(__file__).parents[1] / "docs" / "results-transformers.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = list(csv.reader(options.texts.open(encoding="utf-8")))
    step = max(len(rows) // options.pairs, 1)
    pairs = [(first, second, float(score)) for first, second, score in rows[::step]]
    texts = [text for first, second, _ in pairs for text in (first, second)]
    found = (line.strip() for line in options.lines.open(encoding="utf-8"))
    lines = [line for line in found if len(line) > 10][: options.n_lines]
    known: dict[str, Row] = json.loads(options.results.read_text()) if options.results.exists() else {}
    for name in options.only.split(","):
        if name == "encode":
            known[name] = encode(options.model, lines, pairs, options.rounds)
        elif name == "base":
            with tempfile.TemporaryDirectory() as folder:
                known[name] = encode(random_base(options.model, Path(folder)), lines, pairs[:8], options.rounds)
        elif name == "pretrain":
            known[name] = pretrain(texts, options.steps, options.rounds)
        else:
            known[name] = tune(options.model, *labelled(options.labelled, options.examples))
        print(name, {key: round(value, 5) for key, value in known[name].items()}, flush=True)
        options.results.write_text(json.dumps(known, indent=1))
    if known.keys() - {"tune"}:
        write_table(options.page, "speed", list(table(known)))
    if "tune" in known:
        write_table(options.page, "tuning-speed", list(tuning_table(known["tune"])))


if __name__ == "__main__":
    main()
