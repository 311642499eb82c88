"""BLEU of CoVe's translation model against a Transformer of equal size and CPU time, both directions (翻译对比).

    python benchmarks/translation.py train.dedup.tsv.xz [--minutes 4] [--held-out 1000]

Both are trained on the same pairs with the same vocabulary in batches of the same size, for equal CPU time on one
thread. The Transformer is torch's own, with two layers on each side and a width that gives it CoVe's number of weights;
full softmax, label smoothing, Adam with warm-up and linear decay. It decodes greedily; CoVe does so too, and with a
beam of five. BLEU is sacrebleu's, for Chinese by characters. Results are saved in ``--results``; the table in
docs/results-contexts.md is made from them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cpu_clock import cpu_clock
from polyseme.contexts.cove.model import Cove
from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.target_vocabulary import BOUNDARY
from polyseme.contexts.cove.train import padded
from polyseme.data.parallel import Parallel
from polyseme.neural.batches import BudgetBatches
from polyseme.options import make_options
from polyseme.text.spacing import join_words
from words_records import Results, table, write_section

WARM_UP, RATE, LONGEST = 0.08, 1e-3, 60


class Plain(nn.Module):
    """torch's Transformer, with the output layer tied to the target embeddings."""

    def __init__(self, n_source: int, n_target: int, width: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(n_source, width), nn.Embedding(n_target, width)
        self.places = nn.Embedding(LONGEST * 2, width)
        self.inner = nn.Transformer(width, 4, 2, 2, 4 * width, 0.1, batch_first=True, norm_first=True)
        for one in (self.source, self.target, self.places):
            nn.init.normal_(one.weight, std=width**-0.5)

    def read(self, table: nn.Embedding, numbers: Tensor) -> Tensor:
        """``(B, T) -> (B, T, D)``"""
        return table(numbers) + self.places(torch.arange(numbers.shape[1]))

    def forward(self, source: Tensor, lengths: Tensor, written: Tensor) -> Tensor:
        """Scores of the next word after each target word, ``(B, T, V)``."""
        blank = torch.arange(source.shape[1]) >= lengths[:, None]
        future = torch.triu(torch.ones(written.shape[1], written.shape[1], dtype=torch.bool), 1)
        states = self.inner(
            self.read(self.source, source), self.read(self.target, written), tgt_mask=future,
            src_key_padding_mask=blank, memory_key_padding_mask=blank,
        )  # fmt: skip
        return F.linear(states, self.target.weight)

    @torch.inference_mode()
    def write(self, source: Tensor, lengths: Tensor) -> list[list[int]]:
        """Greedy decoding, until all translations have ended."""
        written = torch.full((len(source), 1), BOUNDARY)
        for _ in range(LONGEST):
            scores = self(source, lengths, written)[:, -1]
            scores[:, 1] = -torch.inf  # the unknown word
            ended = (written[:, 1:] == BOUNDARY).any(dim=1)
            written = torch.cat([written, scores.argmax(dim=1).masked_fill(ended, BOUNDARY)[:, None]], dim=1)
            if bool((written[:, 1:] == BOUNDARY).any(dim=1).all()):
                break
        return [row[: row.index(BOUNDARY)] if BOUNDARY in row else row for row in written[:, 1:].tolist()]


def n_weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def plain_transformer(cove: Cove, training: Parallel, minutes: float) -> Plain:
    """A Transformer with the vocabulary and number of weights of ``cove``, trained for this many CPU-minutes."""
    torch.manual_seed(1)
    sizes, wanted = (len(cove.source_words), len(cove.target_words)), n_weights(cove.network)
    width = min(range(64, 512, 16), key=lambda one: abs(n_weights(Plain(*sizes, one)) - wanted))
    model = Plain(*sizes, width)
    pairs = [(cove.source_words.numbers(a), cove.target_words.numbers(b)) for a, b in cut(cove, training)]
    pairs = [(a, b) for a, b in pairs if 0 < len(a) < LONGEST and 0 < len(b) < LONGEST]
    lengths_of = [len(a) + len(b) + 1 for a, b in pairs]
    batches = BudgetBatches(lengths_of, tokens=cove.options.batch_tokens, seed=1, padded=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    begun, epoch = time.process_time(), 0
    while True:
        for step in range(batches.n_steps(epoch)):
            done = (time.process_time() - begun) / (60 * minutes)
            if done >= 1:
                return model.eval()
            for group in optimiser.param_groups:
                group["lr"] = RATE * min(done / WARM_UP + 0.01, (1 - done) / (1 - WARM_UP))
            mine = [pairs[row] for row in batches.rows(epoch, step)]
            source, lengths = padded([a for a, _ in mine])
            read, sizes_read = padded([[BOUNDARY, *b] for _, b in mine])
            wanted_words, _ = padded([[*b, BOUNDARY] for _, b in mine])
            real = torch.arange(read.shape[1]) < sizes_read[:, None]
            scores = model(source, lengths, read)[real]
            optimiser.zero_grad()
            F.cross_entropy(scores, wanted_words[real], label_smoothing=0.1).backward()
            optimiser.step()
        epoch += 1


def cut(cove: Cove, pairs: Parallel) -> list[tuple[list[str], list[str]]]:
    """The words of the source, and the words or characters of the target."""
    chars = cove.options.target_units == "chars"
    first, second = pairs.segmentations
    return [(first.tokens(a), [c for c in b if c.strip()] if chars else second.tokens(b)) for a, b in pairs]


def bleu(written: list[str], held_out: Parallel, chinese: bool) -> float:
    found = sacrebleu.corpus_bleu(written, [[b for _, b in held_out]], tokenize="zh" if chinese else "13a")
    return round(found.score, 1)


def measured(training: Parallel, held_out: Parallel, minutes: float) -> dict[str, Any]:
    """BLEU of all three, and the sizes of the models."""
    with cpu_clock() as run:
        cove = Cove.train(training, make_options(CoveOptions, {"minutes": minutes, "threads": 1}), run)
    chinese = cove.options.target_units == "chars"
    found: dict[str, Any] = {"weights": n_weights(cove.network)}
    for beam in (1, 5):
        texts = [one.text for one in cove.translate([a for a, _ in held_out], beam=beam)]
        found[f"beam {beam}"] = bleu(texts, held_out, chinese)
    model = plain_transformer(cove, training, minutes)
    texts = []
    rows = cut(cove, held_out)
    for start in range(0, len(rows), 50):
        source, lengths = padded([cove.source_words.numbers(a)[: LONGEST - 1] for a, _ in rows[start : start + 50]])
        for numbers in model.write(source, lengths):
            words = [cove.target_words.known[number - 2] for number in numbers]
            texts.append("".join(words) if chinese else join_words(words))
    return {**found, "transformer weights": n_weights(model), "transformer": bleu(texts, held_out, chinese)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", help="English and Chinese, two columns")
    parser.add_argument("--minutes", type=float, default=4.0, help="CPU-minutes of each training")
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=Path("translation.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    pairs, results = Parallel.read(given.pairs), Results(given.results)
    training, held_out = pairs.split(given.held_out / len(pairs), 1)
    rows = []
    for name in ("en → zh", "zh → en"):
        sides = [training, held_out] if name.startswith("en") else [training.reversed(), held_out.reversed()]
        found = results.once(
            lambda sides=sides: measured(*sides, given.minutes), direction=name, minutes=given.minutes
        )  # fmt: skip
        sizes = [f"{found[key] / 1e6:.1f} M" for key in ("weights", "transformer weights")]
        rows.append([name, f"{given.minutes:g}", sizes[0], f"{found['beam 1']}", f"{found['beam 5']}", sizes[1],
                     f"{found['transformer']}"])  # fmt: skip
    header = ["direction", "CPU-minutes", "CoVe, weights", "BLEU, best word", "BLEU, beam 5", "Transformer, weights",
              "BLEU, best word"]  # fmt: skip
    write_section("bleu", table(header, rows), "results-contexts.md")


if __name__ == "__main__":
    main()
