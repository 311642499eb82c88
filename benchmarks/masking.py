"""How much to mask, and how: BERT pre-trained with different masking rates for equal CPU time (掩码比例).

    python benchmarks/masking.py TEXT VALID [--minutes 2] [--size tiny]

Rates of 5, 15, 30, 50 and 80 %, and at 15 % the chosen tokens as 100/0/0, 80/10/10 and 80/0/20 (masked, unchanged,
replaced). All models are compared on the same task: accuracy and perplexity on VALID with 15 % masked, 100/0/0. Too few
masks give few targets, too many leave too little context. Results are saved in ``--results`` one by one; the table in
docs/results-transformers.md and the figure are made from all of them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import torch

import polyseme
from cpu_clock import cpu_clock
from polyseme.contexts.transformer.options import BertOptions
from polyseme.contexts.transformer.pretrain.bert import Bert, make_task
from polyseme.options import make_options
from polyseme.text.corpus import Corpus
from tables import write_table

DOCS = Path(__file__).parents[1] / "docs"
TRIALS = [(share, "80/10/10") for share in (0.05, 0.15, 0.3, 0.5, 0.8)] + [(0.15, "100/0/0"), (0.15, "80/0/20")]


def judged(model: Bert, valid: Corpus) -> dict[str, float]:
    """Scores on held-out text, masked in the same way for all models."""
    options = dataclasses.replace(model.options, mask_share=0.15, mask_as="100/0/0", pairs="none", hold_out=0.5)
    score = make_task(model.network, model.pieces, valid, options).evaluate(model.network)
    return score.facts if score else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("valid")
    parser.add_argument("--minutes", type=float, default=2.0, help="CPU-minutes of each training")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--results", type=Path, default=Path("masking.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    text, valid = Corpus.build(options.text), Corpus.build(options.valid)
    known = json.loads(options.results.read_text()) if options.results.exists() else {}
    how = {"size": options.size, "epochs": 0, "pairs": "none", "length": 64, "threads": 1}
    pieces = polyseme.train("bert", text, **how)  # untrained: provides the tokenizer for all trials
    for share, mask_as in TRIALS:
        name = f"{share:.0%} {mask_as}"
        if name in known:
            continue
        given = make_options(BertOptions, {**how, "mask_share": share, "mask_as": mask_as, "minutes": options.minutes})
        with cpu_clock() as run:
            run.models["tokenizer"] = pieces
            model = Bert.train(text, given, run)
        known[name] = judged(model, valid)
        print(name, known[name], flush=True)
        options.results.write_text(json.dumps(known, indent=1))
        report(known)


def report(known: dict[str, dict[str, float]]) -> None:
    """Write the table, and the figure if there are several masking rates."""
    header = ["masked", "as", "accuracy", "perplexity"]
    rows = [
        [*name.split(), f"{100 * found['masked_accuracy']:.1f}", f"{found['masked_perplexity']:.1f}"]
        for name, found in known.items()
    ]
    write_table(DOCS / "results-transformers.md", "masking", [header, *rows])
    shares = [(float(name.split("%")[0]), found) for name, found in known.items() if name.endswith("80/10/10")]
    if len(shares) > 1:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 3), layout="constrained")
        axes = figure.subplots()
        axes.plot([share for share, _ in shares], [100 * found["masked_accuracy"] for _, found in shares], "o-")
        axes.set(xlabel="tokens masked in training, %", ylabel="accuracy with 15 % masked, %")
        figure.savefig(DOCS / "images" / "masking.png", dpi=120)


if __name__ == "__main__":
    main()
