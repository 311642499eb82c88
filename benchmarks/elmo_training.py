"""ELMo training: CPU-seconds per step against plain torch, and perplexity against a plain nn.LSTM language model.

    python benchmarks/elmo_training.py steps 红楼梦.txt            CPU-seconds per step, one thread
    python benchmarks/elmo_training.py perplexity 红楼梦.txt --minutes 10 --threads 2
    python benchmarks/elmo_training.py reports zhwiki.txt          cost and error of a report by number of classes

``steps`` uses the configuration of elmo-chinese-oversimplified: character dimension 128, 2,048 filters of widths 1 to
7, ten characters per word, two highway layers, two LSTM layers of 512 cells projected to 256, batch 16, unroll 20, 45
negative samples, Adagrad. The plain program has the same shapes, convolves every token and uses autograd for the loop.
``perplexity`` gives both programs the same classes, held-out sentences, hidden size, minutes and cores. The plain one
is word-level, with one nn.LSTM stack per direction; flags choose its dropout and softmax (full or sampled).
``reports`` takes a few steps of the default model with more and more classes, in turn, and evaluates each.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.elmo.bilm import BiLM
from polyseme.contexts.elmo.bilm_layers import LstmLayer
from polyseme.contexts.elmo.model import Elmo
from polyseme.contexts.elmo.options import PAPER_FILTERS, ElmoOptions
from polyseme.contexts.elmo.train import BiLMTask, make_task
from polyseme.contexts.elmo.training_batches import PackedBatch
from polyseme.machine import keep_freed_memory
from polyseme.neural.lstm import State
from polyseme.neural.softmax import sampled_softmax_loss
from polyseme.text.corpus import Corpus
from polyseme.training.loop import Loop, Position, Stepper, fit
from polyseme.training.optimisers import Optimiser
from polyseme.training.run import Run
from polyseme.training.task import Loss, Part, Score, Task
from polyseme.training.torchrun import Group

SMALL_CHINESE = ElmoOptions(
    alphabet="chars", char_dim=128, max_characters=10, filters=PAPER_FILTERS, n_highway=2, hidden=512, projection=256,
    sequences="stream", batch_tokens=320, unroll=20, negative=45, dropout=0.1, min_count=1,
    optimizer="adagrad", lr=0.2, accumulator=1.0, clip_norm=0.0, schedule="constant", warmup=0, threads=1,
)  # fmt: skip


# ---- CPU-seconds per step


class PlainSteps:
    """The same step in plain torch: every token convolved, autograd through the loop, torch's Adagrad."""

    def __init__(self, task: BiLMTask) -> None:
        self.task = task
        self.bilm = BiLM(task.module.config)
        self.bilm.reset_parameters(torch.Generator().manual_seed(1))
        self.optimiser = torch.optim.Adagrad(self.bilm.parameters(), lr=0.2, initial_accumulator_value=1.0)
        self.states = self.bilm.zero_states(task.options.batch_tokens // task.options.unroll, like=torch.zeros(1))

    def step(self, index: int) -> None:
        """Train on one batch."""
        batch, words, encoder = self.task.batches.batch(0, index), self.task.words, self.bilm.encoder
        every = words.tokens.characters[torch.from_numpy(batch.inputs.reshape(-1))]
        empty = self.bilm.config.max_characters - every.shape[1]
        letters = F.pad(every, (0, empty), value=words.alphabet.padding)
        x = F.embedding(letters, encoder.characters).transpose(1, 2)
        x = torch.relu(torch.cat([c(x).amax(dim=2) for c in encoder.convolutions], dim=1))
        for transform, gate in zip(encoder.transforms, encoder.gates, strict=True):
            opened = torch.sigmoid(gate(x))
            x = opened * torch.relu(transform(x)) + (1 - opened) * x
        x = encoder.projection(x).view(*batch.inputs.shape, -1)
        for number, layer in enumerate(self.bilm.layers):
            x = F.dropout(x, 0.1)
            out, self.states[number] = _plain_layer(layer, x, batch.packing.sizes, self.states[number])
            x = out + x if number else out
        targets = torch.from_numpy(words.class_of[batch.targets].reshape(-1))
        loss = self._sampled(F.dropout(x, 0.1).reshape(len(targets), -1), targets)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def _sampled(self, states: Tensor, targets: Tensor) -> Tensor:
        """TensorFlow's sampled softmax: log-uniform classes, without accidental hits of the target."""
        n = self.bilm.config.n_classes
        drawn = (torch.exp(torch.rand(45) * np.log(n + 1)) - 1).long().clamp_max(n - 1).unique()

        def log_expected(classes: Tensor) -> Tensor:
            return torch.log(torch.log((classes + 2.0) / (classes + 1.0)) / np.log(n + 1) * 45)

        weight, bias = self.bilm.softmax_weight, self.bilm.softmax_bias
        own = (states * F.embedding(targets, weight)).sum(dim=1) + bias[targets] - log_expected(targets)
        others = states @ weight[drawn].t() + bias[drawn] - log_expected(drawn)
        others = others.masked_fill(targets[:, None] == drawn, -1e9)
        return F.cross_entropy(torch.cat([own[:, None], others], dim=1), torch.zeros_like(targets))


def _plain_layer(layer: LstmLayer, x: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
    """A loop over the time steps of rows of equal length."""
    h, c = state
    outputs = []
    for step in x.split(sizes, dim=1):
        both = torch.bmm(step, layer.w_input.transpose(1, 2)) + torch.bmm(h, layer.w_recurrent.transpose(1, 2))
        i, f, g, o = (both + layer.bias.unsqueeze(1)).chunk(4, dim=2)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        c = c.clamp(-layer.clips.cell, layer.clips.cell)
        h = torch.bmm(torch.sigmoid(o) * torch.tanh(c), layer.w_projection.transpose(1, 2))
        h = h.clamp(-layer.clips.projection, layer.clips.projection)
        outputs.append(h)
    return torch.cat(outputs, dim=1), State(h.detach(), c.detach())


def steps(corpus: Corpus, n: int) -> None:
    """CPU-seconds per step, ours and plain, measured in turn in one process."""
    torch.set_num_threads(1)
    keep_freed_memory()
    task = make_task(corpus, SMALL_CHINESE)
    optimiser = Optimiser(dict(task.module.named_parameters()), "adagrad", accumulator=1.0)
    stepper, plain = Stepper(task, optimiser, SMALL_CHINESE, Group()), PlainSteps(task)
    position, ours, theirs, losses = Position(), [], [], []
    for number in range(n + 2):
        began = time.process_time()
        loss = stepper.step(position, 0.0, 0)
        position.advance(task.n_steps(0))
        ours.append(time.process_time() - began)
        losses.append(loss.total / loss.n)
        if number < 12:
            began = time.process_time()
            plain.step(number)
            theirs.append(time.process_time() - began)
    mine, other = float(np.mean(ours[2:])), float(np.mean(theirs[2:]))
    parameters = sum(p.numel() for p in task.module.parameters())
    print(f"{parameters:,} parameters, {task.module.config.n_classes:,} classes, {n} steps of 16 x 20, one thread")
    print(f"polyseme     {mine:.3f} CPU-s a step    sampled loss {np.mean(losses[-20:]):.2f}")
    print(f"plain torch  {other:.3f} CPU-s a step    ratio {other / mine:.2f}")


# ---- reports


def reports(corpus: Corpus, n: int) -> None:
    """CPU-seconds of a step and of a report (sampled and full), and the error of the sampled perplexity."""
    torch.set_num_threads(1)
    keep_freed_memory()
    caps = {f"{cap:,}": {"max_size": cap} for cap in (20_000, 50_000, 100_000)}
    loops = {}
    for name, options in {**caps, "min_count 3": {}, "min_count 1": {"min_count": 1, "max_size": None}}.items():
        given = ElmoOptions(threads=1, **options)
        loops[name] = Loop(make_task(corpus, given), given, Run())
    times = {name: [] for name in loops}
    for _ in range(n):
        for name, loop in loops.items():
            began = time.process_time()
            loop.stepper.step(loop.position, 0.0, 0)
            loop.position.advance(loop.task.n_steps(0))
            times[name].append(time.process_time() - began)
    print(
        "| | classes | a step, ms of CPU | a report, s of CPU | over the whole softmax | perplexity / the whole one's |"
    )
    print("|---|---|---|---|---|---|")
    for name, loop in loops.items():
        task, found = loop.task, []
        task.module.eval()
        for among in (task.sampler.reported, None):
            began, task.sampler.reported = time.process_time(), among
            score = task.evaluate(task.module)
            found.append((time.process_time() - began, score.value))
        (cost, value), (whole_cost, whole) = found
        print(f"| {name} | {task.module.config.n_classes:,} | {1000 * np.median(times[name][3:]):.0f} | {cost:.1f} | "
              f"{whole_cost:.0f} | {np.exp((value - whole) / 2):.4f} |", flush=True)  # fmt: skip


# ---- perplexity


class PlainLanguageModel(nn.Module):
    """A word-level nn.LSTM of two layers, one stack per direction, with shared embedding and softmax."""

    def __init__(self, n_classes: int, size: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(n_classes, size, sparse=True)
        self.stacks = nn.ModuleList(nn.LSTM(size, size, 2, dropout=dropout) for _ in range(2))
        self.softmax_weight = nn.Parameter(torch.randn(n_classes, size) / size**0.5)
        self.softmax_bias = nn.Parameter(torch.zeros(n_classes))
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.words.weight, 0, 0.1)

    def states(self, batch: PackedBatch, class_of: np.ndarray) -> Tensor:
        """Packed states ``(2, N, size)``."""
        sizes = torch.tensor(batch.packing.sizes)
        found = []
        for stack, ids in zip(self.stacks, class_of[batch.inputs], strict=True):
            x = self.dropout(self.words(torch.from_numpy(ids)))
            out, _ = stack(nn.utils.rnn.PackedSequence(x, sizes))
            found.append(self.dropout(out.data))
        return torch.stack(found)


class PlainTask(Task):
    """Training of the plain model on our batches."""

    shareable = True

    def __init__(self, ours: BiLMTask, dropout: float, softmax: str) -> None:
        self.ours, self.softmax = ours, softmax
        torch.manual_seed(1)
        self.module = PlainLanguageModel(ours.module.config.n_classes, ours.module.config.hidden, dropout)
        self.module.softmax_bias.data.copy_(ours.module.softmax_bias)
        self.reports = ours.reports

    def n_steps(self, epoch: int) -> int:
        return self.ours.n_steps(epoch)

    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        batch, class_of = self.ours.batches.batch(epoch, index), self.ours.words.class_of
        torch.manual_seed(1000003 * epoch + index)
        targets = class_of[batch.targets].reshape(-1)
        states = self.module.states(batch, class_of).flatten(0, 1)
        weight, bias = self.module.softmax_weight, self.module.softmax_bias
        if self.softmax == "full":
            loss = F.cross_entropy(states @ weight.t() + bias, torch.from_numpy(targets))
        else:
            candidates = self.ours.sampler.draw(targets, np.random.default_rng((1, epoch, index)))
            loss = sampled_softmax_loss(states, torch.from_numpy(targets), weight, bias, candidates, 1 / len(targets))
        loss.backward()
        return Loss(float(loss.detach()) * len(targets) / 2, len(targets) // 2)

    @torch.no_grad()
    def evaluate(self, module: nn.Module) -> Score:
        module.eval()
        sums, n, class_of = np.zeros(2), 0, self.ours.words.class_of
        for batch in self.ours.held_out.in_order():
            for direction, states in enumerate(module.states(batch, class_of)):
                targets = torch.from_numpy(class_of[batch.targets[direction]])
                for rows, wanted in zip(states.split(256), targets.split(256), strict=True):
                    scores = rows @ module.softmax_weight.t() + module.softmax_bias
                    sums[direction] += float(F.cross_entropy(scores, wanted, reduction="sum"))
            n += batch.n_predictions // 2
        forward, backward = np.exp(sums / n).tolist()
        return Score(float(sums.sum()), {"forward_perplexity": forward, "backward_perplexity": backward})


def perplexity(corpus: Corpus, options: ElmoOptions, dropout: float, softmax: str, only: str | None) -> None:
    """Print the held-out perplexity of both after the same training time."""
    rows = {}
    if only != "plain":
        run = Run(progress=_said("elmo"))
        began = time.monotonic()
        Elmo.train(corpus, options, run)
        rows["polyseme elmo"] = (_best(run), time.monotonic() - began)
    if only != "elmo":
        run = Run(progress=_said("plain"))
        task = PlainTask(make_task(corpus, options), dropout, softmax)
        began = time.monotonic()
        fit(task, options, run)
        rows[f"plain nn.LSTM ({softmax} softmax, dropout {dropout})"] = (_best(run), time.monotonic() - began)
    print(f"hidden {options.value('hidden')}, {options.threads} processes, {options.minutes:g} minutes")
    for name, (record, seconds) in rows.items():
        forward, backward = record["forward_perplexity"], record["backward_perplexity"]
        print(f"{name:45} forward {forward:7.1f}  backward {backward:7.1f}  best at epoch {record['epoch']:.1f}, "
              f"{record['tokens_per_second']:,} tokens/s, {seconds:.0f} s")  # fmt: skip


def _best(run: Run) -> dict[str, float]:
    return min(run.curve, key=lambda record: record["forward_perplexity"] * record["backward_perplexity"])


def _said(name: str):
    last = time.monotonic()

    def progress(what: str, done: float, total: float | None, /, **facts: float) -> None:
        nonlocal last
        if time.monotonic() - last > 60:
            last = time.monotonic()
            print(f"  {name} {done:.0%} " + " ".join(f"{k} {v:.4g}" for k, v in facts.items()), flush=True)

    return progress


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("steps", "perplexity", "reports"))
    parser.add_argument("text")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=0, help="instead of minutes")
    parser.add_argument("--only", choices=("elmo", "plain"))
    parser.add_argument("--plain-dropout", type=float, default=0.3)
    parser.add_argument("--plain-softmax", choices=("full", "sampled"), default="sampled")
    given = parser.parse_args()
    corpus = Corpus.build(given.text) if not os.path.isdir(given.text) else Corpus.open(given.text)
    print(corpus)
    if given.what == "steps":
        steps(corpus, given.steps)
        return
    if given.what == "reports":
        reports(corpus, given.steps)
        return
    length = {"epochs": given.epochs} if given.epochs else {"epochs": 0, "minutes": given.minutes}
    options = ElmoOptions(threads=given.threads, **length)
    perplexity(corpus, options, given.plain_dropout, given.plain_softmax, given.only)


if __name__ == "__main__":
    main()
