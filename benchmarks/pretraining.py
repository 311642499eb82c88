"""BERT pre-trained here and by transformers' Trainer: same text, tokenizer, size and CPU time (预训练对比).

    python benchmarks/pretraining.py TEXT VALID [--minutes 3] [--size tiny] [--name zhwiki]

Trainer gets the same network with the initialisation of transformers, the text in blocks of the same length and its own
collator with 15 % masked; its learning rate (ours or its default) warms up and decays to zero over as many steps as fit
into the time, estimated from a few steps before. Both are scored by accuracy and perplexity on VALID with 15 % masked.
Results are saved in ``--results`` one by one; the table in docs/results-transformers.md is made from them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import polyseme
from cpu_clock import cpu_clock
from masking import judged
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.options import BertOptions
from polyseme.contexts.transformer.pretrain.bert import Bert, make_task
from polyseme.options import make_options
from polyseme.text.corpus import Corpus
from tables import write_table

PAGE = Path(__file__).parents[1] / "docs" / "results-transformers.md"
BATCH, LENGTH = 8, 128
PROBED = 6  # steps from which the number that fits is estimated
RATES = {"Trainer, our learning rate": 0.0, "Trainer, its default": 5e-5}  # 0: ours


class CpuLimit(TrainerCallback):
    """Stops training after this many CPU-seconds."""

    def __init__(self, seconds: float) -> None:
        self.until = time.process_time() + seconds

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        control.should_training_stop = time.process_time() >= self.until


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("valid")
    parser.add_argument("--minutes", type=float, default=3.0, help="CPU-minutes of each training")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--name", default="text", help="what the table calls the text")
    parser.add_argument("--results", type=Path, default=Path("pretraining.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    text, valid = Corpus.build(given.text), Corpus.build(given.valid)
    known = json.loads(given.results.read_text()) if given.results.exists() else {}
    how = {"size": given.size, "pairs": "none", "length": LENGTH, "batch_size": BATCH, "threads": 1}
    untrained = polyseme.train("bert", text, epochs=0, **how)
    for name in ("polyseme", *RATES):
        key = f"{given.name} {given.size} {given.minutes:g} {name}"
        if key in known:
            continue
        if name == "polyseme":
            with cpu_clock() as run:
                run.models["tokenizer"] = untrained
                model = Bert.train(text, make_options(BertOptions, {**how, "minutes": given.minutes}), run)
        else:
            model = by_trainer(untrained, text, given.minutes, RATES[name] or untrained.options.lr)
        known[key] = judged(model, valid)
        print(key, known[key], flush=True)
        given.results.write_text(json.dumps(known, indent=1))
        report(known)


def by_trainer(untrained: Bert, text: Corpus, minutes: float, lr: float) -> Bert:
    """A model of the same shape, trained by transformers."""
    torch.manual_seed(1)
    config = BertConfig.from_dict({**untrained.network.whole.config.to_dict(), "initializer_range": 0.02})
    task = make_task(untrained.network, untrained.pieces, text, untrained.options)
    blocks = [{"input_ids": task.examples.example(0, n).ids.tolist()} for n in range(task.examples.n_examples(0))]
    network = BertForMaskedLM(config)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in untrained.pieces.files().items():
            (Path(folder) / name).write_bytes(content)
        collator = DataCollatorForLanguageModeling(AutoTokenizer.from_pretrained(folder), mlm_probability=0.15)

        def train(one: BertForMaskedLM, steps: int, limit: CpuLimit | None) -> None:
            arguments = TrainingArguments(
                folder, per_device_train_batch_size=BATCH, max_steps=steps, learning_rate=lr, warmup_steps=steps // 10,
                weight_decay=0.01, report_to=[], save_strategy="no", logging_strategy="no", use_cpu=True,
                disable_tqdm=True, seed=1,
            )  # fmt: skip
            Trainer(
                one, arguments, train_dataset=blocks, data_collator=collator, callbacks=[limit] if limit else []
            ).train()

        begun = time.process_time()
        train(BertForMaskedLM(config), PROBED, None)
        a_step = (time.process_time() - begun) / PROBED
        train(network, max(int(60 * minutes / a_step), 10), CpuLimit(60 * minutes))
    return Bert(untrained.options, Network(network.eval()), untrained.pieces, about=untrained.about)


def report(known: dict[str, dict[str, float]]) -> None:
    """Write the table."""
    rows = []
    for key, found in known.items():
        text, size, minutes, name = key.split(maxsplit=3)
        figures = [f"{100 * found['masked_accuracy']:.1f}", f"{found['masked_perplexity']:.1f}"]
        rows.append([text, size, minutes, name, *figures])
    write_table(PAGE, "pretraining", [["text", "size", "CPU-minutes", "by", "accuracy", "perplexity"], *rows])


if __name__ == "__main__":
    main()
