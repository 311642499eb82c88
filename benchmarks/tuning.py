"""Quality of fine-tuned Transformers on dev data, with the defaults of ``polyseme fit --encoder-mode finetune``.

    python benchmarks/tuning.py --data ../shared/data --english FOLDER --chinese FOLDER [--only sst2,trec] [--seeds 3]

Results are saved in ``--results`` one by one, and the tables in docs/results-transformers.md are written from all of
them; a fit whose result is there is not repeated. ``--folds 1`` fits only the first of five folds. ``--first sick``
fine-tunes the encoder on those pairs before the trial (Phang et al., "Sentence Encoders on STILTs", 2018). ``--only
labels`` fits on few examples of TREC, ``--only layers`` fine-tunes parts of the encoder.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import polyseme
from polyseme.api import plan_fit
from polyseme.data.examples import Examples
from polyseme.data.labels import cut_label
from polyseme.tasks.fit import FitPlan
from polyseme.training.run import Run
from tables import read_table, write_table

log = logging.getLogger("tuning")


class Trial(NamedTuple):
    """A dataset and how it is fitted."""

    task: str
    train: str
    dev: str | None  # None: the first of five folds, or as many as --folds says
    language: str
    figure: str
    bar: float
    options: Mapping[str, Any] = MappingProxyType({})
    parts: int | None = None  # labels are scored in so many parts, in however many they were learned


TRIALS = {
    "trec": Trial("classify", "trec/TREC.train", None, "english", "accuracy", 95, {"label_parts": 1}, 1),
    "sst2": Trial("classify", "sst2/stsa.binary.train", "sst2/stsa.binary.dev", "english", "accuracy", 87),
    "mrpc": Trial("pair", "mrpc/msr_paraphrase_train.txt", None, "english", "f1", 86),
    "stsb": Trial("pair", "stsb/stsb-en-train.csv", "stsb/stsb-en-dev.csv", "english", "spearman", 86),
    "weibo_ner": Trial(
        "tag", "weibo_ner/weiboNER_2nd_conll.train", "weibo_ner/weiboNER_2nd_conll.dev", "chinese", "entity_f1", 50
    ),
    "resume_ner": Trial("tag", "resume_ner/train.char.bmes", "resume_ner/dev.char.bmes", "chinese", "entity_f1", 94),
    "ocnli": Trial("pair", "ocnli/train.10k.json", None, "chinese", "accuracy", 58),
    "chnsenticorp": Trial("classify", "chnsenticorp/train.tsv", "chnsenticorp/dev.tsv", "chinese", "accuracy", 92),
}
# Pairs on which an encoder can be fine-tuned before the trial itself: training file, columns and language.
FIRST: dict[str, tuple[str, dict[str, str], str]] = {
    "sick": (
        "sick/SICK_train.txt",
        {"first": "sentence_A", "second": "sentence_B", "label": "relatedness_score"},
        "english",
    ),
    "stsb": ("stsb/stsb-en-train.csv", {}, "english"),
    "stsb_zh": ("stsb_zh_cnsd/cnsd-sts-train.txt", {}, "chinese"),
    "lcqmc": ("lcqmc/dev.tsv", {}, "chinese"),
}
LABELS = (100, 300, 1000)  # examples of the curve of few labels
ALL = 4_362  # training examples of a fold of TREC
PARTS: dict[str, dict[str, Any]] = {
    "all layers": {}, "the top two layers": {"top_layers": 2}, "the added layer alone": {"top_layers": 0}
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--english", required=True, help="a Transformer for English tasks")
    parser.add_argument("--chinese", required=True, help="a Transformer for Chinese tasks")
    parser.add_argument("--only", default=",".join(TRIALS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--examples", type=int, default=0, help="examples to learn from; 0: all")
    parser.add_argument("--first", choices=("", *FIRST), default="", help="pairs to fine-tune the encoder on first")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "records" / "tuning.json")
    parser.add_argument("--page", type=Path, default=Path(__file__).parents[1] / "docs" / "results-transformers.md")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of all trials")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    known = json.loads(options.results.read_text()) if options.results.exists() else {}
    encoders = {"english": polyseme.load(options.english), "chinese": polyseme.load(options.chinese)}
    more = {name: json.loads(value) for name, value in (given.split("=", 1) for given in options.set)}
    if options.first:
        language = FIRST[options.first][2]
        encoders[language] = fitted_first(options.first, encoders[language], options)
        more["first"] = options.first
    for name in options.only.split(","):
        for seed in range(1, options.seeds + 1):
            if name == "labels":
                for n in LABELS:
                    run(Fit("trec", seed, more, n), encoders, options, known)
            elif name == "layers":
                for part in PARTS.values():
                    run(Fit("trec", seed, {**more, **part}), encoders, options, known)
            else:
                run(Fit(name, seed, more, options.examples), encoders, options, known)


def fitted_first(name: str, encoder: Any, options: argparse.Namespace) -> Any:
    """The encoder after fine-tuning on other pairs, both texts as one input; kept next to the results."""
    path, (file, columns, _) = options.results.parent / f"first-{name}", FIRST[name]
    if not path.exists():
        data = options.data / "tasks"
        pairs = Examples.read(data / file, kind="pairs", **({"columns": columns} if columns else {}))
        trials = [Examples.read(data / TRIALS[one].train, kind="pairs") for one in options.only.split(",")]
        known = {bare(text) for trial in trials for row in trial for text in row[:2]}
        fitted = pairs.subset(n for n, row in enumerate(pairs) if known.isdisjoint(map(bare, row[:2])))
        log.info("%s: %d of %d pairs have no text of the trial", name, len(fitted), len(pairs))
        plan_fit("pair", fitted, None, encoder, head="cross", threads=1).fit(Run()).save(path)
    return polyseme.load(path / "encoder")


def bare(text: str) -> str:
    """A text without case, blanks and punctuation: STS-B has texts of MRPC, written a little differently."""
    return "".join(filter(str.isalnum, text.lower()))


class Fit(NamedTuple):
    """A trial with a seed and further options, on all or some of the examples."""

    trial: str
    seed: int
    options: dict[str, Any]
    examples: int = 0  # 0: all

    @property
    def key(self) -> str:
        """Its key in the results."""
        return f"{self.trial} {self.seed} {json.dumps(self.options)}" + (f" {self.examples}" if self.examples else "")


def run(fit: Fit, encoders: dict[str, Any], options: argparse.Namespace, known: Any) -> None:
    """Fit and score on the dev data or the folds, unless that was done before."""
    trial, data = TRIALS[fit.trial], options.data / "tasks"
    given = {name: value for name, value in fit.options.items() if name != "first"}
    plan = plan_fit(
        trial.task, data / trial.train, None if trial.dev is None else data / trial.dev, encoders[trial.language],
        threads=1, seed=fit.seed, encoder_mode="finetune", **{**trial.options, **given},
    )  # fmt: skip
    found = known.setdefault(fit.key, {**fit._asdict(), "scores": [], "cpu": 0.0})
    for number in range(len(found["scores"]), 1 if trial.dev else options.folds):
        begun = time.process_time()
        score, curve = scored(plan, number, fit.examples, trial.parts)
        found["scores"].append(score.figures)
        found["cpu"] += time.process_time() - begun
        found["curve"] = curve
        log.info("%s: %s", fit.key, score.figures)
        options.results.write_text(json.dumps(known, indent=1))
        report(options.page, known)


def scored(plan: FitPlan, number: int, examples: int, parts: int | None) -> tuple[Any, list[Any]]:
    """The score of a fit on the dev data or on one of five folds, and its learning curve."""
    run = Run()
    train, test = (plan.train, plan.dev) if plan.dev is not None else list(plan.train.folds(5, 1))[number]
    if examples:
        train = train.split(examples / len(train), 1)[1]
    model = plan.cls.fit(train, plan.dev, plan.encoders, plan.options, run)
    if parts is not None:
        rows: Any = test
        test = Examples.of([(row.text, cut_label(row.label, parts)) for row in rows])
    return model.with_label_parts(parts).score(test), run.curve


def report(page: Path, known: dict[str, Any]) -> None:
    """Write the tables from all results; a row without any keeps what the page says."""
    header, *rows = rows_of(known)
    measured = {tuple(row[:3]): row for row in rows}
    before = {tuple(row[:3]): row for row in read_table(page, "fine-tuning")}
    order = [*TRIALS]
    told = sorted({**before, **measured}.values(), key=lambda row: (order.index(row[0]), row[2] != "none", row[1:3]))
    write_table(page, "fine-tuning", [header, *told])
    for name, rows in (("few-labels", rows_of_labels(known)), ("layers", rows_of_parts(known))):
        if len(rows) > 2:  # more than the header and the fit with all examples and layers
            write_table(page, name, rows)
    draw_labels(page.parent / "images" / "few-labels.png", known)


def draw_labels(path: Path, known: dict[str, Any]) -> None:
    """The curve of few labels, with the first seed."""
    found = [(n or ALL, mean_of(known, 1, trial="trec", seed=1, options={}, examples=n)[0]) for n in (*LABELS, 0)]
    points = [(n, np.mean(scores), np.std(scores)) for n, scores in found if scores]
    if len(points) < 2:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    axes.errorbar(*zip(*points, strict=True), fmt="o-", capsize=3)
    axes.set(xlabel="labelled questions of TREC", ylabel="accuracy, %", xscale="log")
    axes.set_xticks([n for n, _, _ in points], [f"{n:,}" for n, _, _ in points], minor=False)
    axes.minorticks_off()
    figure.savefig(path, dpi=120)


def mean_of(known: dict[str, Any], folds: int | None = None, **wanted: Any) -> tuple[list[float], float]:
    """The scores of all fits with these values, of the first ``folds`` or all, and the mean CPU-minutes of a fit."""
    own = [found for found in known.values() if all(found[name] == value for name, value in wanted.items())]
    scores = [100 * score[TRIALS[found["trial"]].figure] for found in own for score in found["scores"][:folds]]
    fits = sum(len(found["scores"]) for found in own)
    return scores, sum(found["cpu"] for found in own) / max(fits, 1) / 60


def rows_of_labels(known: dict[str, Any]) -> list[list[str]]:
    """The rows of the table on few labels, all with the first seed."""
    rows = [["examples", "accuracy", "CPU-minutes a fit"]]
    for n in (*LABELS, 0):
        scores, minutes = mean_of(known, 1, trial="trec", seed=1, options={}, examples=n)
        if scores:
            rows.append([f"{n or f'all ({ALL:,})'}", f"{np.mean(scores):.1f}", f"{minutes:.1f}"])
    return rows


def rows_of_parts(known: dict[str, Any]) -> list[list[str]]:
    """The rows of the table on fine-tuning parts of the encoder, all with the first seed."""
    rows = [["what learns", "accuracy", "CPU-minutes a fit"]]
    for name, part in PARTS.items():
        scores, minutes = mean_of(known, 1, trial="trec", seed=1, options=part, examples=0)
        if scores:
            rows.append([name, f"{np.mean(scores):.1f}", f"{minutes:.1f}"])
    return rows


def in_own_table(found: dict[str, Any]) -> bool:
    """Whether a fit belongs only to the table on few labels or on layers."""
    return found["examples"] in LABELS or (bool(found["options"]) and found["options"] in PARTS.values())


def rows_of(known: dict[str, Any]) -> list[list[str]]:
    """The rows of the main table, header first: for each task the defaults, then other options."""
    rows = [["task", "examples", "options given", "figure", "bar", "mean", "fits", "CPU-minutes a fit"]]
    for name, trial in TRIALS.items():
        own = [found for found in known.values() if found["trial"] == name and not in_own_table(found)]
        tried = {(json.dumps(found["options"]), found["examples"]) for found in own}
        for given, n in sorted(tried, key=lambda one: (one[0] != "{}", one)):
            scores, minutes = mean_of(known, trial=name, options=json.loads(given), examples=n)
            told = " ".join(f"{key}={value}" for key, value in json.loads(given).items()) or "none"
            figures = [trial.figure, f"{trial.bar:g}", f"{np.mean(scores):.1f}", f"{len(scores)}", f"{minutes:.1f}"]
            rows.append([name, f"{n or 'all'}", told, *figures])
    return rows


if __name__ == "__main__":
    main()
