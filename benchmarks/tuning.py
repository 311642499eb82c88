"""Quality of fine-tuned Transformers on dev data, by the defaults of ``polyseme fit``.

    python benchmarks/tuning.py --data ../shared/data --english FOLDER --chinese FOLDER [--only sst2,trec] [--seeds 3]

Every result is kept in ``--results`` as soon as it is there, and the table between the marks of
docs/results-transformers.md is written from all that are. ``--folds 1`` fits the first of five folds alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import polyseme
from polyseme.api import plan_fit
from polyseme.tasks.fit import FitPlan
from polyseme.training.run import Run
from tables import write_table

log = logging.getLogger("tuning")


class Trial(NamedTuple):
    """A set of examples and how it is learned."""

    task: str
    train: str
    dev: str | None  # None: the first of five folds, or as many as are asked for
    language: str
    figure: str
    bar: float
    options: dict[str, Any]


CLASSIFY = {"head": "linear", "encoder_mode": "finetune"}
TRIALS = {
    "trec": Trial("classify", "trec/TREC.train", None, "english", "accuracy", 95, CLASSIFY),
    "sst2": Trial(
        "classify", "sst2/stsa.binary.train", "sst2/stsa.binary.dev", "english", "accuracy", 87,
        {**CLASSIFY, "epochs": 3},
    ),
    "mrpc": Trial("pair", "mrpc/msr_paraphrase_train.txt", None, "english", "f1", 86, {"head": "cross"}),
    "stsb": Trial(
        "pair", "stsb/stsb-en-train.csv", "stsb/stsb-en-dev.csv", "english", "spearman", 86, {"head": "cross"}
    ),
    "weibo_ner": Trial(
        "tag", "weibo_ner/weiboNER_2nd_conll.train", "weibo_ner/weiboNER_2nd_conll.dev", "chinese", "f1", 50, CLASSIFY
    ),
    "resume_ner": Trial(
        "tag", "resume_ner/train.char.bmes", "resume_ner/dev.char.bmes", "chinese", "f1", 94, CLASSIFY
    ),
    "ocnli": Trial("pair", "ocnli/train.10k.json", None, "chinese", "accuracy", 58, {"head": "cross", "epochs": 3}),
    "chnsenticorp": Trial(
        "classify", "chnsenticorp/train.tsv", "chnsenticorp/dev.tsv", "chinese", "accuracy", 92,
        {**CLASSIFY, "epochs": 2},
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--english", required=True, help="a Transformer for English tasks")
    parser.add_argument("--chinese", required=True, help="a Transformer for Chinese tasks")
    parser.add_argument("--only", default=",".join(TRIALS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("tuning.json"))
    parser.add_argument("--page", type=Path, default=Path(__file__).parents[1] / "docs" / "results-transformers.md")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of all trials")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    known = json.loads(options.results.read_text()) if options.results.exists() else {}
    encoders = {"english": polyseme.load(options.english), "chinese": polyseme.load(options.chinese)}
    more = {name: json.loads(value) for name, value in (given.split("=", 1) for given in options.set)}
    for name in options.only.split(","):
        for seed in range(1, options.seeds + 1):
            run(name, seed, encoders, options, more, known)
            options.results.write_text(json.dumps(known, indent=1))
            write_table(options.page, "fine-tuning", rows_of(known))


def run(
    name: str, seed: int, encoders: dict[str, Any], options: argparse.Namespace, more: dict[str, Any], known: Any
) -> None:
    """Fit one trial with one seed, over its dev data or its folds, where that was not done before."""
    trial = TRIALS[name]
    begun = time.process_time()
    data = options.data / "tasks"
    plan = plan_fit(
        trial.task, data / trial.train, None if trial.dev is None else data / trial.dev, encoders[trial.language],
        threads=1, seed=seed, **{**trial.options, **more},
    )  # fmt: skip
    key = f"{name} {seed} {json.dumps(more)}"
    found = known.setdefault(key, {"trial": name, "seed": seed, "options": more, "scores": []})
    for number in range(len(found["scores"]), 1 if trial.dev else options.folds):
        score = scored(plan, number)
        found["scores"].append(score.figures)
        found["cpu"] = found.get("cpu", 0.0) + time.process_time() - begun
        log.info("%s seed %d: %s", name, seed, score.figures)


def scored(plan: FitPlan, number: int) -> Any:
    """The report of a fit on the dev data, or on a fold of five."""
    if plan.dev is not None:
        return plan.fit(Run()).score(plan.dev)
    train, test = list(plan.train.folds(5, 1))[number]
    return plan.cls.fit(train, None, plan.encoders, plan.options, Run()).score(test)


def rows_of(known: dict[str, Any]) -> list[list[str]]:
    """The table's rows, the header first."""
    rows = [["task", "figure", "bar", "mean", "deviation", "fits", "CPU-minutes a fit"]]
    for name, trial in TRIALS.items():
        own = [found for found in known.values() if found["trial"] == name and not found["options"]]
        scores = [100 * score[trial.figure] for found in own for score in found["scores"]]
        if scores:
            spread = f"{np.std(scores, ddof=1):.1f}" if len(scores) > 1 else "–"
            cpu = sum(found["cpu"] for found in own) / len(scores) / 60
            rows.append(
                [name, trial.figure, f"{trial.bar:g}", f"{np.mean(scores):.1f}", spread, f"{len(scores)}", f"{cpu:.1f}"]
            )
    return rows


if __name__ == "__main__":
    main()
