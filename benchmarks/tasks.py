"""Quality and speed of the tasks on known datasets: the tables of docs/results-tasks.md.

    python benchmarks/tasks.py --models MODELS --results tasks.jsonl [bars elmo sensitivity speed]

MODELS holds the models trained on the Wikipedia samples with defaults (enwiki.w2v, zhwiki.w2v, enwiki.elmo,
zhwiki.elmo). Every fit is a record in the results file and is not repeated if its record exists, so a run can be
stopped and started again. The first seed of everything is measured first, then the others. A table is written from the
existing records; a cell with fewer folds than the dataset has says how many. A dataset without any record keeps the row
that the document has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tasks_baseline import simple_rule
from tasks_sets import SETS, Encoders, fitted
from tasks_speed import measure_speed, speed_tables
from words_records import Results, table, write_section, written_rows

FILE = "results-tasks.md"


@dataclass(frozen=True)
class Cell:
    """The dataset, encoders and options of one cell of a table."""

    set: str
    encoders: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0  # of the training examples

    def key(self, seed: int, fold: int) -> dict[str, Any]:
        """The key of its record."""
        return {
            "set": self.set, "encoders": list(self.encoders), "options": self.options, "share": self.share,
            "seed": seed, "fold": fold,
        }  # fmt: skip

    def folds(self, most: int) -> range:
        """The folds to measure, at most ``most``."""
        return range(min(SETS[self.set].folds or 1, most))


TEXTCNN: dict[str, Any] = {"head": "textcnn"}
COLUMNS = ("from scratch", "static", "ELMo")
EN, ZH = ("glove", "enwiki.w2v"), ("zhwiki.w2v",)


def bar_cells(name: str) -> dict[str, Cell]:
    """The columns of a dataset in the first table."""
    task, english = SETS[name].task, SETS[name].language == "en"
    words, wiki = EN if english else ZH, "enwiki" if english else "zhwiki"
    if task == "classify":
        return {
            "from scratch": Cell(name, (), {"head": "fasttext"}),
            "static": Cell(name, words, TEXTCNN),
            "ELMo": Cell(name, (*words, f"{wiki}.elmo"), TEXTCNN),
        }
    learned = {"dim": 50}
    return {
        "from scratch": Cell(name),
        "static": Cell(name, words, learned),
        "ELMo": Cell(name, (*words, f"{wiki}.elmo"), learned),
    }


class Bench:
    """The records, the models, and what to measure."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.results, self.encoders = Results(given.results), Encoders(given.models)
        self.seeds, self.folds = given.seeds, given.folds
        self.only, self.columns, self.share = given.only, given.columns, given.share

    def measure(self, cells: Sequence[Cell]) -> None:
        """Fit what has no record yet, seed by seed."""
        for seed in range(1, self.seeds + 1):
            for cell in cells:
                if self.encoders.there(cell.encoders) and (not self.only or cell.set in self.only):
                    self._measure(cell, seed)

    def _measure(self, cell: Cell, seed: int) -> None:
        for fold in cell.folds(self.folds):

            def once(fold: int = fold) -> dict[str, Any]:
                models = self.encoders.open(cell.encoders)
                return fitted(SETS[cell.set], models, cell.options, seed=seed, fold=fold, share=cell.share)

            self.results.once(once, **cell.key(seed, fold))

    def values(self, cell: Cell) -> list[float]:
        """The mean over the measured folds, for each seed."""
        return [float(np.mean(folds)) for folds in self._by_seed(cell)]

    def _by_seed(self, cell: Cell) -> Iterator[list[float]]:
        for seed in range(1, 10):
            records = [self.results.find(**cell.key(seed, fold)) for fold in cell.folds(SETS[cell.set].folds or 1)]
            if there := [record["value"] for record in records if record]:
                yield there

    def bar(self, name: str) -> float:
        """The score to reach; for question answering, that of the simple rule."""
        one = SETS[name]
        if one.task != "span":
            return one.bar
        return float(self.results.once(lambda: simple_rule(one.parts()[0]), baseline=name)["value"])

    def shown(self, cell: Cell) -> str:
        """Mean and standard deviation over the seeds, and the number of folds if not all were measured."""
        values = self.values(cell)
        if not values:
            return "–"
        spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
        folds = [len(found) for found in self._by_seed(cell)]
        wanted = SETS[cell.set].folds or 1
        part = f" ({min(folds)} of {wanted} folds)" if min(folds) < wanted else ""
        return f"{np.mean(values):.1f}{spread}{part}"


# ---- the tables


def bars(bench: Bench) -> None:
    """Every dataset against its bar: from scratch, static vectors, ELMo."""
    every = {name: bar_cells(name) for name in SETS}
    for column in COLUMNS if not bench.columns else bench.columns:
        bench.measure([columns[column] for columns in every.values()])
    rows, written = [], written_rows("bars", FILE)
    for name, columns in every.items():
        means = [float(np.mean(values)) for cell in columns.values() if (values := bench.values(cell))]
        seeds = max(len(bench.values(cell)) for cell in columns.values())
        cells = [bench.shown(columns[column]) for column in COLUMNS]
        best = f"**{max(means):.1f}**" if means else "–"
        row = [name, SETS[name].metric, f"{bench.bar(name):g}", *cells, best, str(seeds)]
        rows.append(row if means else written.get(name, row))  # a row without records stays as it is
    write_section("bars", table(["set", "figure", "bar", *COLUMNS, "best", "seeds"], rows), FILE)


PLACES = {
    "none": ((), {}),
    "static": (("w2v",), {}),
    "ELMo, last layer": (("elmo",), {"layers": "top"}),
    "ELMo, all layers, λ = 1": (("elmo",), {"mix_penalty": 1.0}),
    "ELMo, all layers, λ = 0.001": (("elmo",), {"mix_penalty": 0.001}),
    "static and ELMo, at the input": (("w2v", "elmo"), {}),
    "static and ELMo, at the hidden layer": (("w2v", "elmo"), {"elmo_at": "hidden"}),
    "static and ELMo, at both": (("w2v", "elmo"), {"elmo_at": "both"}),
}


def place_cell(name: str, row: str, share: float = 1.0) -> Cell:
    """A cell of the table on where ELMo is added, for one dataset."""
    kinds, options = PLACES[row]
    wiki = {"en": "enwiki", "zh": "zhwiki"}[SETS[name].language]
    head = {"head": "bilstm-max"} if SETS[name].task == "classify" else {}
    return Cell(name, tuple(f"{wiki}.{kind}" for kind in kinds), {**head, **options}, share)


def elmo(bench: Bench) -> None:
    """Where ELMo is added and which layers are used; how much training data it saves."""
    names = ("TREC", "ChnSentiCorp", "resume_ner")
    some = bench.share
    bench.measure([place_cell(name, row, some) for row in PLACES for name in names])
    rows = [[row, *(bench.shown(place_cell(name, row, some)) for name in names)] for row in PLACES]
    text = table([f"{some:.0%} of the training examples", *names], rows)
    shares = [("none", 0.1), ("none", 0.3), ("ELMo, all layers, λ = 0.001", 0.1)]
    bench.measure([place_cell(name, row, share) for row, share in shares for name in names])
    rows = [
        [f"{row}, {share:.0%}", *(bench.shown(place_cell(name, row, share)) for name in names)] for row, share in shares
    ]
    write_section("elmo", text + "\n" + table(["share of the training examples", *names], rows), FILE)


VARIED: dict[str, dict[str, Any]] = {
    "default": {},
    **{f"filters {f}": {"filters": f} for f in ("1x300", "3x300", "5x300", "7x300", "1x100 2x100 3x100")},
    "filters 3x100 4x100 5x100": {"filters": "3x100 4x100 5x100"},
    **{f"{n} filters of each width": {"filters": f"2x{n} 3x{n} 4x{n}"} for n in (10, 50, 200)},
    **{f"dropout {d}": {"dropout": d} for d in (0.0, 0.3, 0.7)},
    **{f"activation {a}": {"activation": a} for a in ("tanh", "identity")},
    "pooling k-max, k = 3": {"pooling": "k-max"},
    "pooling mean": {"pooling": "mean"},
    "static (frozen)": {"encoder_mode": "frozen"},
    "multichannel": {"encoder_mode": "multichannel"},
}  # fmt: skip


def sensitivity(bench: Bench) -> None:
    """TextCNN after Zhang and Wallace: one option varied at a time, on SST-2; and random initial vectors."""
    cells = {name: Cell("SST-2", EN, {**TEXTCNN, **options}) for name, options in VARIED.items()}
    cells["random vectors (rand)"] = Cell("SST-2", (), {"head": "textcnn"})
    bench.measure(list(cells.values()))
    write_section("sensitivity", table(["", "SST-2"], [[name, bench.shown(c)] for name, c in cells.items()]), FILE)


def speed(bench: Bench) -> None:
    """An epoch of TextCNN, and fastText's words per CPU-second against the original program."""
    if bench.seeds:
        measure_speed(bench.results)
    write_section("speed", speed_tables(bench.results), FILE)


SECTIONS = {"bars": bars, "elmo": elmo, "sensitivity": sensitivity, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "sections", nargs="*", choices=[*SECTIONS, []], help="tables to measure and write; all unless given"
    )
    parser.add_argument("--models", type=Path, required=True, help="folder of the encoders")
    parser.add_argument("--results", type=Path, default=Path("tasks.jsonl"), help="file of the records")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of every fitting; 0: only write the tables")
    parser.add_argument("--folds", type=int, default=10, help="most folds that are measured")
    parser.add_argument("--only", nargs="*", default=[], help="sets to measure; all unless given")
    parser.add_argument(
        "--columns", nargs="*", default=[], choices=[*COLUMNS, []], help="of the bars; all unless given"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the training examples, where ELMo enters")
    given = parser.parse_args()
    bench = Bench(given)
    for name in given.sections or SECTIONS:
        SECTIONS[name](bench)


if __name__ == "__main__":
    main()
