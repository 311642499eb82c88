"""Quality of ULMFiT, TagLM, CoVe, the readers of the biLM, and BERT beside ELMo: tables of docs/results-contexts.md.

    python benchmarks/contexts_quality.py ulmfit|taglm|cove|readers|bert --models MODELS [--seeds 1] [--only NAME ...]

MODELS holds the models trained on the Wikipedia samples with defaults (enwiki.elmo, zhwiki.elmo …). Every figure is a
record in a JSON-lines file (--results) and is not measured again if its record exists; the models that a table needs
are kept in --folder. One thread. Minutes are CPU minutes, so they do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import lzma
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import polyseme
from encoders_data import TASKS, glove
from polyseme.api import plan_fit
from polyseme.arrays import unit_rows
from polyseme.data.examples import Examples
from polyseme.data.parallel import Parallel
from polyseme.demo import peoples_daily
from polyseme.evaluate.tag_agreement import neighbour_scores
from polyseme.evaluate.transfer import Scaling, fit_logistic
from polyseme.text.corpus import Corpus
from polyseme.training.loop import Loop
from polyseme.training.run import Run
from words_records import DATA, TEXTS, Results, table, write_section

PAGE = "results-contexts.md"


@dataclass(frozen=True)
class Bench:
    """The records, where models are stored, and what to measure."""

    results: Results
    folder: Path
    models: Path
    seeds: int
    only: tuple[str, ...]

    def wanted(self, name: str) -> bool:
        """Whether rows of this name are to be measured."""
        return not self.only or name in self.only

    def model(self, name: str, make: Callable[[Path], Any]) -> Any:
        """A model of the folder, trained if it does not exist."""
        path = self.folder / name
        if not path.exists():
            make(path)
        return polyseme.load(path)

    def rows(self, bench: str, names: Iterable[str], measure: Callable[[str, int], dict[str, Any]]) -> dict[str, Any]:
        """The records of every name, one per seed; missing ones are measured."""
        found: dict[str, list[dict[str, Any]]] = {}
        for seed in range(1, self.seeds + 1):
            for name in filter(self.wanted, names):
                self.results.once(lambda name=name, seed=seed: measure(name, seed), bench=bench, row=name, seed=seed)
        for record in self.results.records:
            if record["key"].get("bench") == bench:
                found.setdefault(record["key"]["row"], []).append(record)
        return found


def fitted(task: str, train: Examples, test: Examples, encoders: list[Any], figure: str, **options: Any) -> Any:
    """The score of a head trained on these encoders, in per cent, and the CPU seconds of its training."""
    begun = time.process_time()
    model = plan_fit(task, train, None, encoders or None, threads=1, **options).fit(Run())
    seconds = time.process_time() - begun
    return {"value": round(100 * model.score(test).figures[figure], 1), "cpu": round(seconds, 1)}


def mean(records: list[dict[str, Any]], key: str = "value") -> str:
    """The mean over seeds."""
    return f"{statistics.mean(record[key] for record in records):.1f}"


def cpu_clock(loop: Loop) -> float:
    """The CPU seconds of a training run, against which the option ``minutes`` is counted here."""
    found = vars(loop).setdefault("begun", time.process_time() - loop.seconds)
    return float(time.process_time() - found)


# ---- ULMFiT

SMALL = {"dim": 128, "hidden": 256, "n_layers": 2, "max_size": 15_000}
ULMFIT = {  # labels used, and how
    "all three stages": (1.0, "three"),
    "without the LM's fine-tuning": (1.0, "two"),
    "from scratch": (1.0, "scratch"),
    "from scratch, half of the labels": (0.5, "scratch"),
    "all three stages, a tenth of the labels": (0.1, "three"),
    "without the LM's fine-tuning, a tenth of the labels": (0.1, "two"),
    "from scratch, a tenth of the labels": (0.1, "scratch"),
}
GENERAL = {"TREC": ("en", "words", 20), "ChnSentiCorp": ("zh", "chars", 12)}  # language, units, CPU minutes
LONGEST, REVIEWS = 100, 0.25  # characters of a review that are used, and the share of the reviews


def general(folder: Path, language: str) -> Corpus:
    """A Wikipedia sample in lower case."""
    path = folder / f"{language}.corpus"
    if not path.exists():
        with lzma.open(DATA / "corpora" / TEXTS[language], "rt", encoding="utf-8") as file:
            (folder / "text").write_text(file.read(), encoding="utf-8")
        Corpus.build(folder / "text", path, case="lower")
    return Corpus.open(path)


def ulmfit(bench: Bench, name: str) -> None:
    """ULMFiT with all three stages, and without some of them."""
    language, units, minutes = GENERAL[name]

    def pretrain(path: Path) -> None:
        polyseme.train(
            "ulmfit", general(bench.folder, language), out=path, minutes=minutes, units=units, threads=1, **SMALL
        )

    general_model = bench.model(f"{language}.ulmfit", pretrain)

    def measure(row: str, seed: int) -> dict[str, Any]:
        train, test = _fold(name, seed, REVIEWS)
        share, stages = ULMFIT[row]
        labelled = train if share == 1 else train.split(share, seed)[1]
        words = general_model.about.segmentation
        options: dict[str, Any] = {"head": "ulmfit", "lm_epochs": 0, "seed": seed}
        text = Corpus.from_sentences([r.text for r in train], segment=words, documents="line")  # type: ignore[union-attr]
        if stages == "scratch":
            given = polyseme.train("ulmfit", text, epochs=0, units=units, seed=seed, **SMALL)
        elif stages == "three":  # the language model reads all texts, whether their labels are used or not
            given = polyseme.train("ulmfit", text, start=general_model, epochs=5, threads=1, seed=seed)
        else:
            given = general_model
        return fitted("classify", labelled, test, [given], "accuracy", **options)

    found = bench.rows(f"ulmfit {name}", ULMFIT, measure)
    rows = [[row, mean(found[row], "cpu"), str(len(found[row])), mean(found[row])] for row in ULMFIT if row in found]
    if rows:
        write_section(f"ulmfit-{name}", table(["stages", "CPU s", "seeds", "accuracy"], rows), PAGE)


def _fold(name: str, seed: int, share: float = 0.5) -> tuple[Examples, Examples]:
    """Training and test examples: one of five folds of TREC, or ChnSentiCorp with its dev set, reviews cut short."""
    if name == "TREC":
        return list(Examples.read(TASKS / "trec" / "TREC.train", label_parts=1).folds(5, 1))[seed - 1]
    parts = (Examples.read(TASKS / "chnsenticorp" / f"{part}.tsv") for part in ("train", "dev"))
    train, dev = (Examples.of([(row.text[:LONGEST], str(row.label)) for row in part]) for part in parts)  # type: ignore[union-attr]
    return train.split(share, 1)[1], dev


# ---- TagLM

TAGS = {
    "resume_ner": ("zhwiki", "train.char.bmes", "dev.char.bmes", 1500),
    "wikiann_en": ("enwiki", "train", "dev", 3000),
}
TAGGERS = {
    "BiLSTM-CRF, two layers": {"head": "bilstm-crf", "n_layers": 2},
    "TagLM, forward and backward LM": {"head": "taglm"},
}


def taglm(bench: Bench) -> None:
    """A tagger with and without the top layer of a biLM between its two recurrent layers."""
    rows = []
    for name in TAGS:
        found = bench.rows(f"taglm {name}", TAGGERS, lambda row, seed, name=name: _tagged(bench, name, row, seed))  # type: ignore[misc]
        rows += [[name, row, mean(records, "cpu"), str(len(records)), mean(records)] for row, records in found.items()]
    write_section("taglm", table(["set", "tagger", "CPU s", "seeds", "entity F1"], rows), PAGE)


def _tagged(bench: Bench, name: str, row: str, seed: int) -> dict[str, Any]:
    wikipedia, train, dev, most = TAGS[name]
    parts = (Examples.read(TASKS / name / file, kind="tags") for file in (train, dev))
    some, test = (part.subset(np.random.default_rng(0).permutation(len(part))[:most]) for part in parts)
    encoders = [polyseme.load(bench.models / f"{wikipedia}.w2v")]
    if row.startswith("TagLM"):
        encoders.append(polyseme.load(bench.models / f"{wikipedia}.elmo"))
    return fitted("tag", some, test, encoders, "entity_f1", epochs=10, seed=seed, **TAGGERS[row])


# ---- CoVe

CLASSIFIED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "TREC": ("trec/TREC.train", "", {"label_parts": 1}),
    "SST-2": ("sst2/stsa.binary.train", "sst2/stsa.binary.dev", {}),
}
COVE_MINUTES = 4


def cove(bench: Bench) -> None:
    """The encoder of a translation model against the word vectors at its input."""
    train = Parallel.read(DATA / "parallel" / "train.dedup.tsv.xz")

    def learn(path: Path) -> None:
        polyseme.train("cove", train, out=path, word_vectors=str(glove(bench.folder)), minutes=COVE_MINUTES, threads=1)

    model = bench.model("en.cove", learn)
    words, rows = polyseme.load(glove(bench.folder)), []
    for name in CLASSIFIED:

        def measure(row: str, seed: int, name: str = name) -> dict[str, Any]:
            return _classified(name, [words, model] if "CoVe" in row else [words], seed)

        found = bench.rows(f"cove {name}", ("GloVe", "[GloVe; CoVe]"), measure)
        rows += [[name, row, mean(records, "cpu"), str(len(records)), mean(records)] for row, records in found.items()]
    write_section("cove", table(["set", "vectors", "CPU s", "seeds", "accuracy"], rows), PAGE)


def _classified(name: str, encoders: list[Any], seed: int) -> dict[str, Any]:
    file, dev, reading = CLASSIFIED[name]
    whole = Examples.read(TASKS / file, **reading)
    train, test = (whole, Examples.read(TASKS / dev)) if dev else list(whole.folds(5, 1))[seed - 1]
    options = {"head": "bilstm-max", "encoder_mode": "frozen", "layers": "all", "epochs": 8, "seed": seed}
    return fitted("classify", train, test, encoders, "accuracy", **options)


# ---- the readers of the biLM

READERS = ("lstm", "cnn", "transformer")
READING = 1.0  # CPU minutes of training
SENTENCES = 5000  # sentences whose words are encoded
PROBED, PENALTY = 6_000, 1e-4  # words for training and testing the probe, and its weight decay
FEWEST, SECOND = 40, 12  # occurrences of a homograph, and those with its second tag


def readers(bench: Bench) -> None:
    """Perplexity, and homographs and tags by layer, after the same training time for each reader."""

    def measure(row: str, seed: int) -> dict[str, Any]:
        def learn(path: Path) -> None:
            polyseme.train(
                "elmo", tagged_news(bench), out=path, reader=row, minutes=READING, dropout=0.1, threads=1, seed=seed
            )

        model = bench.model(f"{row}.{seed}.elmo", learn)
        last = model.about.curve[-1]
        perplexity = [round(last[f"{way}_perplexity"], 1) for way in ("forward", "backward")]
        return {"perplexity": perplexity, **by_layer(model, tagged_news(bench))}

    found = bench.rows("readers", READERS, measure)
    rows = []
    for row, records in found.items():
        both = " / ".join(f"{statistics.mean(r['perplexity'][n] for r in records):.0f}" for n in (0, 1))
        rows.append([row, str(len(records)), both, *layer_means(records)])
    header = ["reader", "seeds", "perplexity, forward / backward", "homographs, by layer", "tags, by layer"]
    write_section("readers", table(header, rows), PAGE)


def tagged_news(bench: Bench) -> Corpus:
    """The demo's corpus, a month of the People's Daily with tags."""
    path = bench.folder / "peoples-daily"
    return Corpus.open(path) if path.exists() else Corpus.build(peoples_daily(), path)


def layer_means(records: list[dict[str, Any]]) -> list[str]:
    """The means over seeds of the homograph and tag figures, layer by layer."""
    return [
        " ".join(f"{statistics.mean(values):.1f}" for values in zip(*(r[key] for r in records), strict=True))
        for key in ("homographs", "tags")
    ]


def by_layer(model: Any, corpus: Corpus) -> dict[str, list[float]]:
    """For every layer, in per cent: how often ten neighbours vote for a homograph's tag, and a probe's accuracy."""
    assert corpus.tags is not None
    chosen = np.sort(np.random.default_rng(0).permutation(corpus.n_sentences)[:SENTENCES])
    vectors, words, tags, probed = [], [], [], []
    for number, encoded in zip(
        chosen.tolist(), model.encode_tokens((corpus.sentence(int(n)) for n in chosen), layers="all"), strict=True
    ):
        start, end = corpus.sentence_offsets[number : number + 2]
        vectors.append(encoded.layers)
        words.append(np.asarray(corpus.ids[start:end]))
        tags.append(np.asarray(corpus.tags[start:end], dtype=np.int64))
        probed.append(np.full(end - start, number % 5 == 0))
    word, tag, held_out = np.concatenate(words), np.concatenate(tags), np.concatenate(probed)
    layers = range(model.n_layers)
    return {
        key: [round(100 * measure(np.concatenate([v[layer] for v in vectors])), 1) for layer in layers]
        for key, measure in (
            ("homographs", lambda x: _votes(x, word, tag)),
            ("tags", lambda x: _probe(x, tag, held_out)),
        )
    }


def _votes(x: Any, word: Any, tag: Any) -> float:
    """The mean neighbour score over words with two frequent tags."""
    votes = []
    for one in np.flatnonzero(np.bincount(word) >= FEWEST):
        rows = np.flatnonzero(word == one)
        counts = np.sort(np.bincount(tag[rows]))[::-1]
        if len(counts) > 1 and counts[1] >= SECOND:
            of_word = x[rows] - x[rows].mean(axis=0)
            votes.append(neighbour_scores(unit_rows(of_word), tag[rows], 10)[1])
    return float(np.mean(votes))


def _probe(x: Any, tag: Any, held_out: Any) -> float:
    """The accuracy of a logistic regression trained on some words and tested on words of other sentences."""
    learned, asked = (np.flatnonzero(some)[:PROBED] for some in (~held_out, held_out))
    scaled = Scaling.of(x[learned])
    told = fit_logistic(scaled(x[learned]), np.eye(int(tag.max()) + 1, dtype=np.float32)[tag[learned]], PENALTY)
    return float((told.chances(scaled(x[asked])).argmax(axis=1) == tag[asked]).mean())


# ---- BERT beside ELMo

BESIDE: dict[str, dict[str, Any]] = {"elmo": {}, "bert": {"size": "mini", "pairs": "none"}}
BESIDE_MINUTES = {"ChnSentiCorp": 40, "TREC": 8}  # CPU minutes: 40 are as long as twenty minutes on two cores


def bert(bench: Bench, name: str) -> None:
    """BERT mini and ELMo after the same CPU time on the Wikipedia sample in the language of a dataset."""
    wikipedia = f"{GENERAL[name][0]}wiki"

    def measure(row: str, seed: int) -> dict[str, Any]:
        method, _, mode = row.partition(", ")

        def learn(path: Path) -> None:
            corpus = Corpus.open(bench.models / f"{wikipedia}.corpus")
            polyseme.train(method, corpus, out=path, minutes=BESIDE_MINUTES[name], threads=1, **BESIDE[method])

        model = bench.model(f"{wikipedia}.{method}", learn)
        train, test = _fold(name, seed)
        if mode == "fine-tuned":
            return fitted("classify", train, test, [model], "accuracy", encoder_mode="finetune", seed=seed)
        options = {"head": "bilstm-max", "encoder_mode": "frozen", "layers": "all", "epochs": 8, "seed": seed}
        chinese = name == "ChnSentiCorp"
        figures = by_layer(model, tagged_news(bench)) if chinese and seed == 1 else {}
        return {**fitted("classify", train, test, [model], "accuracy", **options), **figures}

    found = bench.rows(f"bert {name}", ("elmo, frozen", "bert, frozen", "bert, fine-tuned"), measure)
    rows = []
    for row, records in found.items():
        layers = layer_means(records[:1]) if "tags" in records[0] else ["", ""]
        rows.append([row, mean(records, "cpu"), str(len(records)), mean(records), *layers])
    header = ["encoder", "CPU s", "seeds", name, "homographs, by layer", "tags, by layer"]
    if not any(row[4] for row in rows):
        header, rows = header[:4], [row[:4] for row in rows]
    write_section(f"bert-{name}", table(header, rows), PAGE)


def main() -> None:
    """Run one benchmark and write its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ulmfit", "taglm", "cove", "readers", "bert"))
    parser.add_argument("--results", type=Path, default=Path("contexts-results.jsonl"))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "polyseme-contexts")
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--set", choices=tuple(GENERAL), default="TREC", help="of ulmfit and bert")
    parser.add_argument("--seeds", type=int, default=3, help="0: only write the tables of what was measured")
    parser.add_argument("--only", nargs="+", default=(), help="rows that are measured; unless given, all")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True, parents=True)
    Loop.clock = cpu_clock  # type: ignore[method-assign]
    bench = Bench(Results(given.results), given.folder, given.models, given.seeds, tuple(given.only))
    if given.what in ("ulmfit", "bert"):
        globals()[given.what](bench, given.set)
    else:
        globals()[given.what](bench)


if __name__ == "__main__":
    main()
