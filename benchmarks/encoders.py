"""Trained sentence encoders: speed of training, and quality of the vectors.

    python benchmarks/encoders.py speed               against the same models in a plain torch loop
    python benchmarks/encoders.py discourse           quick-thought, skip-thought and others on transfer tasks
    python benchmarks/encoders.py conversation        finding answers, and similarity, against mean pooling
    python benchmarks/encoders.py inference           InferSent against the mean of its word vectors
    python benchmarks/encoders.py mtdnn               fine-tuning with and without multi-task training before

Every measurement is one record in a JSON-lines file (--results) and is not repeated if its record exists; the tables in
docs/results-encoders.md are written from the records. One thread. Speed is measured in CPU seconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import encoders_plain as plain
import polyseme
from encoders_data import TASKS, books, dialogues, glove, inference_pairs, minilm
from polyseme.data.examples import Examples
from polyseme.evaluate import transfer
from polyseme.evaluate.kinds import evaluate_file
from polyseme.evaluate.report import EvaluationSettings
from polyseme.sentences.conversation import turns_of
from polyseme.sentences.lift import lift
from polyseme.sentences.sentence_order import Stories
from polyseme.text.corpus import Corpus
from words_records import Results, novel, table, write_section

PAGE = "results-encoders.md"
FOLDS = 5
WORDS = 600_000  # of 红楼梦: all of it
EVERY = 3  # every third row of MR and SUBJ is used


class Some(Results):
    """Records of which only those of the encoders ``only`` are measured; all if it is empty."""

    def __init__(self, path: Path, only: list[str]) -> None:
        super().__init__(path)
        self.only = only

    def once(self, measure: Callable[[], dict[str, Any]], **key: Any) -> dict[str, Any]:
        if self.only and key["encoder"] not in self.only:
            return self.find(**key) or {}
        return super().once(measure, **key)


# ---- speed


def cpu_of_training(method: str, data: Any, **options: Any) -> float:
    """CPU seconds of one epoch: a training of one epoch minus one of none. Kernels are compiled before."""
    polyseme.train(
        "rnn", Examples.of([("a b", "x"), ("b a", "y")] * 9), cell="gru", dim=4, hidden=4, epochs=1, threads=1
    )
    polyseme.train("rnn", Examples.of([("a b", "x"), ("b a", "y")] * 9), dim=4, hidden=4, epochs=1, threads=1)
    seconds = []
    for epochs in (0, 1):
        begun = time.process_time()
        polyseme.train(method, data, epochs=epochs, threads=1, seed=1, **options)
        seconds.append(time.process_time() - begun)
    return seconds[1] - seconds[0]


def speed(results: Results, folder: Path) -> None:
    """Sentences, pairs or turns per CPU-second, ours and a plain loop."""
    rows = [
        results.once(lambda name=name, measure=measure: measure(folder), bench="speed", encoder=name)
        for name, measure in (("quick-thought", quick_speed), ("skip-thought", skip_speed),
                              ("infersent", pair_speed), ("conversation", answer_speed))
    ]  # fmt: skip
    shown = [[r["key"]["encoder"], r["what"], f"{r['ours']:.0f}", f"{r['plain']:.0f}", f"{r['ours'] / r['plain']:.1f}×"]
             for r in rows]  # fmt: skip
    by_name = {r["key"]["encoder"]: r["ours"] for r in rows}
    ratio = by_name["quick-thought"] / by_name["skip-thought"]
    text = table(["encoder", "model", "ours, a CPU-second", "plain torch", "ratio"], shown)
    write_section("speed", f"{text}\nquick-thought / skip-thought: {ratio:.1f}×\n", PAGE)


def quick_speed(folder: Path) -> dict[str, Any]:
    n, sizes = 4000, {"dim": 200, "hidden": 256, "batch_size": 40, "min_count": 3}
    texts = Stories.of(novel(WORDS, folder), n, 40).texts
    ours = cpu_of_training("quick-thought", novel(WORDS, folder), max_sentences=n, hold_out=0.0, **sizes)
    loop = plain.quick_thought(texts, **sizes)
    return {"what": "2 × GRU 256, vectors of 512; 红楼梦", "ours": n / ours, "plain": n / loop}


def skip_speed(folder: Path) -> dict[str, Any]:
    n, sizes = 1000, {"dim": 200, "hidden": 512, "batch_size": 64, "min_count": 3}
    texts = Stories.of(
        novel(WORDS, folder), 40_000, 40
    ).texts  # all words, so that the softmax has its usual number of classes
    ours, some = _skip_seconds(novel(WORDS, folder), 40_000, n, sizes), texts[: 6 * sizes["batch_size"] + 2]
    loop = plain.skip_thought(some, texts, **sizes)
    return {"what": "GRU 512, two decoders; 红楼梦", "ours": n / ours, "plain": len(some) / loop}


def _skip_seconds(corpus: Corpus, whole: int, n: int, sizes: dict[str, int]) -> float:
    """CPU seconds for ``n`` sentences, measured on the first batches of a training on many sentences."""
    from polyseme.sentences.options import SkipThoughtOptions
    from polyseme.sentences.sentence_order import SkipNet, SkipTask, SkipThought, TargetWords
    from polyseme.store.model import About
    from polyseme.training.loop import Loop
    from polyseme.training.run import Run

    options = SkipThoughtOptions(hold_out=0.0, threads=1, **sizes)  # type: ignore[arg-type]
    stories = Stories.of(corpus, whole, options.longest)
    encoder = SkipThought.of(stories.texts, [], About(corpus.segmentation), options)
    words = TargetWords.of(stories.texts, options.min_count)
    task = SkipTask(SkipNet(encoder.net, words, options), encoder.prepare(stories.texts), stories, words, options)
    loop = Loop(task, options, Run())
    done, begun = 0, 0.0
    for step in range(1 + n // options.batch_size):
        if step == 1:  # the first one compiles
            done, begun = 0, time.process_time()
        done += loop.stepper.step(loop.position, 0.0, 0).n
        loop.position.advance(task.n_steps(0))
    return (time.process_time() - begun) * n / done


def pair_speed(folder: Path) -> dict[str, Any]:
    pairs = inference_pairs()
    vectors = polyseme.load(glove(folder))
    some = pairs.subset(range(0, len(pairs), 8))
    ours = cpu_of_training("infersent", some, word_vectors=str(glove(folder)), hidden=256, batch_size=64)
    rows: list[Any] = list(some)
    sides = tuple([pairs.segmentation.tokens(text) for text in side]
                  for side in ([r.first for r in rows], [r.second for r in rows]))  # fmt: skip
    targets = [int(target) for target in some.targets]
    loop = plain.pairs(sides, targets, vectors, 256, 64)  # type: ignore[arg-type]
    return {"what": "BiLSTM 2 × 256, maximum; SICK-E, RTE", "ours": 0.9 * len(some) / ours, "plain": len(some) / loop}


def answer_speed(folder: Path) -> dict[str, Any]:
    turns = turns_of(Corpus.build(dialogues(folder)[1]))
    sides = [turns.texts[row] for row in turns.answered], [turns.texts[row + 1] for row in turns.answered]
    options = {"encoder": "bilstm-max", "hidden": 256, "batch_size": 256, "dim": 100, "hold_out": 0.0}
    ours = cpu_of_training("conversation", {"dialogues": str(dialogues(folder)[1])}, **options)
    n = len(turns.answered)
    return {
        "what": "BiLSTM 2 × 128, maximum; dialogues",
        "ours": n / ours,
        "plain": n / plain.answers(sides, 100, 256, 256),
    }


# ---- discourse and composition


def figures(encoder: Any, *, names: tuple[str, ...] = ("mr", "subj", "trec", "mrpc", "sick-r")) -> dict[str, float]:
    """Transfer scores in per cent: cross-validated accuracy; for SICK-R, Pearson on its trial part."""
    found: dict[str, float] = {}
    for name in names:
        settings, file, key = EvaluationSettings(folds=FOLDS), TASKS / "mr" / "rt-polarity.all", "accuracy"
        if name == "subj":
            file = TASKS / "subj" / "subj.all"
        elif name == "trec":
            settings, file = EvaluationSettings(folds=FOLDS, label_parts=1), TASKS / "trec" / "TREC.train"
        elif name == "mrpc":
            file = TASKS / "mrpc" / "msr_paraphrase_train.txt"
        elif name == "sick-r":
            columns = {"first": "sentence_A", "second": "sentence_B", "label": "relatedness_score"}
            settings = EvaluationSettings(columns=columns, test=TASKS / "sick" / "SICK_trial.txt")
            file, key = TASKS / "sick" / "SICK_train.txt", "pearson"
        examples = transfer.read_examples(file, settings)
        if name in ("mr", "subj"):
            examples = examples.subset(range(0, len(examples), EVERY))
        found[name] = round(100 * transfer.measure(encoder, examples, settings)[key], 1)
    return found


def timed_training(method: str, data: Any, **options: Any) -> tuple[Any, float]:
    begun = time.process_time()
    model = polyseme.train(method, data, threads=1, **options)
    return model, round(time.process_time() - begun, 1)


# The two that are trained on the order of sentences get about equal CPU time: one reads all, the other what fits.
SIGNALS: dict[str, tuple[str, Callable[[Path, int], tuple[Any, float]]]] = {
    "word2vec, mean": ("words", lambda folder, seed: _mean_of(books(folder), seed)),
    "quick-thought": ("order", lambda folder, seed: timed_training(
        "quick-thought", books(folder), hidden=128, seed=seed)),
    "skip-thought": ("order", lambda folder, seed: timed_training(
        "skip-thought", books(folder), hidden=256, dim=100, seed=seed, max_sentences=20_000)),
    "infersent": ("labels", lambda folder, seed: timed_training(
        "infersent", inference_pairs(), hidden=128, dim=100, seed=seed, epochs=2)),
    "gensen": ("order, labels", lambda folder, seed: timed_training(
        "gensen", {"corpus": books(folder), "nli": inference_pairs()}, hidden=256, dim=100, seed=seed,
        max_sentences=3000)),
    "use": ("order, labels", lambda folder, seed: timed_training(
        "use", {"corpus": books(folder), "nli": inference_pairs()}, hidden=256, dim=100, seed=seed, epochs=2,
        max_sentences=20_000)),
}  # fmt: skip


def _mean_of(corpus: Corpus, seed: int) -> tuple[Any, float]:
    begun = time.process_time()
    vectors = polyseme.train("word2vec", corpus, dim=256, min_count=3, threads=1, seed=seed)
    return lift(vectors, "sentences"), round(time.process_time() - begun, 1)


def records_of(results: Results, bench: str, name: str) -> list[dict[str, Any]]:
    """The records of an encoder, one per seed."""
    return [r for r in results.records if r["key"]["bench"] == bench and r["key"]["encoder"] == name]


def mean_of(records: list[dict[str, Any]], *keys: str) -> str:
    """The mean over seeds of the figure at a path of keys."""
    found = []
    for record in records:
        value: Any = record
        for key in keys:
            value = value[key]
        found.append(value)
    return f"{statistics.mean(found):.0f}" if keys[-1] == "cpu" else f"{statistics.mean(found):.1f}"


def discourse(results: Results, folder: Path, seeds: int) -> None:
    """The same transfer tasks for encoders trained on different signals."""
    for seed in range(1, seeds + 1):
        for name, (_, make) in SIGNALS.items():
            results.once(lambda make=make, seed=seed: _discourse(make(folder, seed)), bench="discourse", encoder=name,
                         seed=seed)  # fmt: skip
    rows = []
    for name, (signal, _) in SIGNALS.items():
        found = records_of(results, "discourse", name)
        if found:
            tasks = [mean_of(found, "figures", task) for task in found[0]["figures"]]
            rows.append([signal, name, str(found[0]["dim"]), mean_of(found, "cpu"), str(len(found)), *tasks])
    header = ["learns from", "encoder", "vector", "CPU s", "seeds", "MR", "SUBJ", "TREC", "MRPC", "SICK-R"]
    write_section("discourse", table(header, rows), PAGE)


def _discourse(made: tuple[Any, float]) -> dict[str, Any]:
    encoder, cpu = made
    return {"cpu": cpu, "dim": int(encoder.dim), "figures": figures(encoder)}


# ---- conversation


TALK: dict[str, dict[str, Any]] = {
    "word2vec, mean": {},
    "conversation": {},
    "zhwiki.w2v, mean": {},
    "conversation over zhwiki.w2v": {},
    "conversation, encoder=dan": {"encoder": "dan", "dim": 256},
    "conversation over zhwiki.w2v, with ocnli": {"nli": True},
}


def conversation(results: Results, folder: Path, seeds: int) -> None:
    """Recall of the true answer among 10 and 100, and Spearman on the Chinese STS-B dev."""
    rows = []
    for seed in range(1, seeds + 1):
        for name in TALK:
            if name.startswith("zhwiki") and seed > 1:  # nothing is random
                continue
            results.once(lambda name=name, seed=seed: _conversation(name, folder, seed), bench="conversation",
                         encoder=name, seed=seed)  # fmt: skip
    for name in TALK:
        if found := records_of(results, "conversation", name):
            figures = [mean_of(found, key) for key in ("of 10", "of 100", "stsb")]
            rows.append([name, mean_of(found, "cpu"), str(len(found)), *figures])
    header = ["encoder", "CPU s", "seeds", "recall@1 of 10", "recall@1 of 100", "STS-B zh dev, ρ"]
    write_section("conversation", table(header, rows), PAGE)


def _conversation(name: str, folder: Path, seed: int) -> dict[str, Any]:
    train, held_out = dialogues(folder)
    given, options = str(folder / "zhwiki.w2v"), dict(TALK[name])
    begun = time.process_time()
    encoder: Any
    if name == "word2vec, mean":
        vectors = polyseme.train("word2vec", str(train), dim=256, min_count=1, epochs=20, threads=1, seed=seed)
        encoder = lift(vectors, "sentences")
    elif name == "zhwiki.w2v, mean":
        encoder = lift(polyseme.load(given), "sentences")
    else:
        data = {"dialogues": str(train)}
        if options.pop("nli", False):
            data["nli"] = str(TASKS / "ocnli" / "train.10k.json")
        if "zhwiki" in name:
            options["word_vectors"] = given
        encoder = polyseme.train("conversation", data, threads=1, seed=seed, **options)
    cpu = round(time.process_time() - begun, 1)
    plain_mean = name.endswith("mean")
    turns = turns_of(Corpus.build(held_out, segment=encoder.about.segmentation or "auto"))
    rows = np.random.default_rng(0).permutation(turns.answered)
    u = encoder.encode([turns.texts[row] for row in rows])
    answers = [turns.texts[row + 1] for row in rows]
    v = encoder.encode(answers) if plain_mean else encoder.encode_answers(answers)
    if plain_mean:
        u, v = (x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9) for x in (u, v))
    recalls = {f"of {n}": round(100 * _recall(u, v, turns.same[rows + 1], n), 1) for n in (10, 100)}
    sts = evaluate_file(encoder, TASKS / "stsb_zh_cnsd" / "cnsd-sts-dev.txt").whole
    return {"cpu": cpu, **recalls, "stsb": round(100 * sts["spearman"], 1)}


def _recall(u: Any, v: Any, same: Any, n: int) -> float:
    """How often the true answer is the nearest of ``n``; duplicates of it are not candidates."""
    right = []
    for start in range(0, len(u) - n + 1, n):
        scores = u[start : start + n] @ v[start : start + n].T
        twins = same[start : start + n, None] == same[None, start : start + n]
        scores[twins & ~np.eye(n, dtype=bool)] = -np.inf
        right += (scores.argmax(axis=1) == np.arange(n)).tolist()
    return float(np.mean(right))


# ---- inference


def inference(results: Results, folder: Path, seeds: int) -> None:
    """InferSent on GloVe, trained on SICK-E and RTE, against the mean of the same GloVe vectors."""
    rows = []
    for name in ("glove, mean", "infersent"):
        for seed in range(1, 1 + (min(seeds, 1) if name.endswith("mean") else seeds)):
            results.once(lambda name=name, seed=seed: _inference(name, folder, seed), bench="inference", encoder=name,
                         seed=seed)  # fmt: skip
        if found := records_of(results, "inference", name):
            figures = [mean_of(found, "figures", task) for task in found[0]["figures"]]
            rows.append([name, str(found[0]["dim"]), mean_of(found, "cpu"), str(len(found)), *figures])
    write_section("inference", table(["encoder", "vector", "CPU s", "seeds", "MRPC", "SICK-R"], rows), PAGE)


def _inference(name: str, folder: Path, seed: int) -> dict[str, Any]:
    cpu, encoder = 0.0, lift(polyseme.load(glove(folder)), "sentences")
    if name == "infersent":
        encoder, cpu = timed_training("infersent", inference_pairs(), word_vectors=str(glove(folder)), seed=seed)
    return {"cpu": cpu, "dim": int(encoder.dim), "figures": figures(encoder, names=("mrpc", "sick-r"))}


# ---- MT-DNN


def mtdnn(results: Results, folder: Path, seeds: int) -> None:
    """A published Transformer fine-tuned on RTE, directly and after training on RTE, MRPC and SICK-E together."""
    rows = []
    for name in ("MiniLM", "mtdnn over MiniLM"):
        for seed in range(1, seeds + 1):
            results.once(lambda name=name, seed=seed: _tuned(name, seed), bench="mtdnn", encoder=name, seed=seed)
        if found := records_of(results, "mtdnn", name):
            each = ", ".join(f"{r['accuracy']:.1f}" for r in found)
            rows.append([name, mean_of(found, "cpu"), str(len(found)), mean_of(found, "accuracy"), each])
    write_section("mtdnn", table(["fine-tuned from", "CPU s", "seeds", "RTE, held out", "each seed"], rows), PAGE)


def _tuned(name: str, seed: int) -> dict[str, Any]:
    """Fine-tune and test on RTE; every fifth pair is held out, also from the multi-task training."""
    rte = Examples.read(TASKS / "rte" / "train.tsv", kind="pairs")
    kept = np.arange(len(rte)) % 5 == 0
    train, held_out = rte.subset(np.flatnonzero(~kept)), rte.subset(np.flatnonzero(kept))
    encoder, begun = minilm(), time.process_time()
    if name.startswith("mtdnn"):
        columns = {"first": "sentence_A", "second": "sentence_B", "label": "entailment_judgment"}
        sick = Examples.read(TASKS / "sick" / "SICK_train.txt", kind="pairs", columns=columns)
        mrpc = Examples.read(TASKS / "mrpc" / "msr_paraphrase_train.txt", kind="pairs")
        data = {"rte": train, "mrpc": mrpc, "sick": sick}
        given: Any = polyseme.train("mtdnn", data, transformer=str(encoder), epochs=2, threads=1, seed=seed)
    else:
        given = polyseme.load(encoder)
    model = polyseme.fit("pair", train, encoder=given, head="cross", encoder_mode="finetune", epochs=3, threads=1,
                         seed=seed)  # fmt: skip
    found = model.score(held_out).figures["accuracy"]
    return {"cpu": round(time.process_time() - begun, 1), "accuracy": round(100 * found, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "discourse", "conversation", "inference", "mtdnn"))
    parser.add_argument("--results", type=Path, default=Path("encoders-results.jsonl"))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "polyseme-encoders")
    parser.add_argument("--seeds", type=int, default=3, help="0: only write the tables of what was measured")
    parser.add_argument("--only", nargs="+", default=[], help="encoders that are measured; unless given, all")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True, parents=True)
    results = Some(given.results, given.only)
    if given.what == "speed":
        speed(results, given.folder)
    else:
        globals()[given.what](results, given.folder, given.seeds)


if __name__ == "__main__":
    main()
