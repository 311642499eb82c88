"""What parallel text adds to XLM (平行语料的作用): finding translations among held-out pairs, both directions.

    python benchmarks/xlm.py train.dedup.tsv.xz [--minutes 3] [--size tiny] [--held-out 1000]

Three models with equal CPU time on the same pairs: MLM on the sentences of both languages, without knowing which belong
together; MLM and TLM alternating; TLM alone. A text's vector is the mean of its words' vectors over all layers but the
input's; its translation is found if it is the nearest of all held-out ones. Results are saved in ``--results`` one by
one; the table in docs/results-transformers.md is made from all of them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from cpu_clock import cpu_clock
from polyseme.arrays import FloatArray
from polyseme.contexts.transformer.options import XlmOptions
from polyseme.contexts.transformer.pretrain.xlm import Xlm
from polyseme.data.parallel import Parallel
from polyseme.options import make_options
from polyseme.training.run import Run
from tables import write_table

PAGE = Path(__file__).parents[1] / "docs" / "results-transformers.md"
LANGUAGES = ("en", "zh")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", help="English and Chinese, two columns")
    parser.add_argument("--minutes", type=float, default=3.0, help="CPU-minutes of each training")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=Path("xlm.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = Parallel.read(options.pairs)
    training, held_out = pairs.split(options.held_out / len(pairs), 1)
    known = json.loads(options.results.read_text()) if options.results.exists() else {}
    how = {"size": options.size, "epochs": 0, "length": 64, "threads": 1, "translates": "-".join(LANGUAGES)}
    pieces = Xlm.train({"parallel": training}, make_options(XlmOptions, how), Run())
    for objective in ("mlm", "mlm+tlm", "tlm"):
        if objective in known:
            continue
        with cpu_clock() as run:
            run.models["tokenizer"] = pieces
            given = make_options(XlmOptions, {**how, "objective": objective, "minutes": options.minutes})
            model = Xlm.train({"parallel": training}, given, run)
        known[objective] = found_both_ways(model, held_out)
        print(objective, known[objective], flush=True)
        options.results.write_text(json.dumps(known, indent=1))
        report(known)


def found_both_ways(model: Xlm, pairs: Parallel) -> dict[str, float]:
    """The fraction of texts whose translation is the nearest of all, from each language to the other."""
    first, second = (vectors(model, [pair[side] for pair in pairs], LANGUAGES[side]) for side in (0, 1))
    cosines, own = first @ second.T, np.arange(len(first))
    forward, backward = (float((found.argmax(axis=1) == own).mean()) for found in (cosines, cosines.T))
    return {"forward": forward, "backward": backward, "pairs": len(own)}


def vectors(model: Xlm, texts: list[str], language: str) -> FloatArray:
    """Mean word vectors over all layers but the input's, centred and scaled to length one, ``(n, dim)``."""
    encoded = model.encode_tokens(texts, language=language)
    means = np.stack([one.layers[1:].mean(axis=(0, 1)) for one in encoded])
    means -= means.mean(axis=0)  # remove what all texts of a language have in common
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True).clip(1e-9), dtype=np.float32)


def report(known: dict[str, dict[str, float]]) -> None:
    """Write the table."""
    rows = [
        [name, *(f"{100 * found[way]:.1f}" for way in ("forward", "backward")), f"{found['pairs']:.0f}"]
        for name, found in known.items()
    ]
    write_table(PAGE, "xlm", [["learned by", "en → zh", "zh → en", "pairs"], *rows])


if __name__ == "__main__":
    main()
