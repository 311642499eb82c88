"""Training word vectors against gensim and fastText, per CPU-second, back to back; and their quality beside it.

    python benchmarks/words.py [--text FILE] [--tokens N]        a table of ratios, in a few minutes
    python benchmarks/words.py --quality en|zh [--seeds N]       analogies and similarity, mean of N seeds (slow)

Both sides get the same sentences, one thread and one pass; reading, segmenting and the vocabulary are not timed.
Without --text the English Wikipedia sample of the test data is taken. The reading of files is in benchmarks/files.py.
"""

from __future__ import annotations

import argparse
import lzma
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import fasttext
import numpy as np
from gensim.models import FastText as GensimFastText
from gensim.models import Word2Vec as GensimWord2Vec

import polyseme
from polyseme.evaluate.kinds import evaluate_file
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

DATA = Path(os.environ.get("POLYSEME_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RUNS = 3
SHARED: dict[str, Any] = {"window": 5, "negative": 5, "sample": 1e-3, "min_count": 5, "epochs": 1}


class Result(NamedTuple):
    """One row of the table; speeds in thousand words (GloVe: cells) per CPU-second."""

    name: str
    ours: float
    peer: str
    theirs: float
    bar: float

    def line(self) -> str:
        ratio = self.ours / self.theirs
        verdict = "" if ratio >= self.bar else " **below the bar**"
        peer = f"{self.peer} {self.theirs:,.0f}"
        return f"| {self.name} | {self.ours:,.0f} | {peer} | {ratio:.1f}× | {self.bar:g}×{verdict} |"


class Task(NamedTuple):
    """The same text for everybody."""

    corpus: Corpus
    sentences: list[list[str]]
    file: str

    @property
    def words(self) -> int:
        return self.corpus.n_tokens


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time of one call, all threads counted."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


class Clock:
    """A Progress that times what lies between the first and the last time training was heard of."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, float]] = []

    def __call__(self, what: str, done: float, total: float | None, /, **_: Any) -> None:
        if what == "training":
            self.heard.append((time.process_time(), done))

    def speed(self) -> float:
        """Thousands per CPU-second."""
        (begun, first), (ended, last) = self.heard[0], self.heard[-1]
        return (last - first) / 1000 / (ended - begun)


def ours(task: Task, method: str, **options: Any) -> float:
    """Thousand words per CPU-second, from the first chunk of text to the last."""
    clock = Clock()
    polyseme.train(method, task.corpus, threads=1, progress=clock, **{**SHARED, **options})
    return clock.speed()


def gensims(task: Task, cls: Any, dim: int, **options: Any) -> float:
    """The same for gensim, whose passes can be timed alone."""
    model = cls(vector_size=dim, workers=1, **{**SHARED, **options})
    model.build_vocab(task.sentences)
    call = cpu_seconds(lambda: model.train(task.sentences, total_examples=model.corpus_count, epochs=1))
    return task.words / 1000 / call


def fasttexts(task: Task) -> float:
    """The same for fastText, whose passes cannot be timed apart from its vocabulary: two passes less one."""
    options = {"model": "skipgram", "dim": 100, "ws": 5, "neg": 5, "t": 1e-3, "minCount": 5, "thread": 1, "verbose": 0}
    one, two = (
        cpu_seconds(lambda epochs=epochs: fasttext.train_unsupervised(task.file, epoch=epochs, **options))  # type: ignore[misc]
        for epochs in (1, 2)
    )
    return task.words / 1000 / (two - one)


def compared(name: str, bar: float, peer: str, mine: Callable[[], float], theirs: Callable[[], float]) -> Result:
    """The medians of a few runs in turn."""
    pairs = [(mine(), theirs()) for _ in range(RUNS)]
    result = Result(name, median(a for a, _ in pairs), peer, median(b for _, b in pairs), bar)
    print(result.line(), flush=True)
    return result


def skipgram(task: Task, dim: int, bar: float) -> Result:
    return compared(
        f"word2vec skip-gram, d={dim}", bar, "gensim",
        lambda: ours(task, "word2vec", dim=dim), lambda: gensims(task, GensimWord2Vec, dim, sg=1),
    )  # fmt: skip


def cbow(task: Task) -> Result:
    return compared(
        "word2vec CBOW, d=100", 2, "gensim",
        lambda: ours(task, "word2vec", dim=100, architecture="cbow"), lambda: gensims(task, GensimWord2Vec, 100, sg=0),
    )  # fmt: skip


def hierarchical(task: Task) -> Result:
    return compared(
        "word2vec hierarchical, d=100", 2, "gensim",
        lambda: ours(task, "word2vec", dim=100, loss="hierarchical"),
        lambda: gensims(task, GensimWord2Vec, 100, sg=1, hs=1, negative=0),
    )  # fmt: skip


def subwords(task: Task) -> list[Result]:
    mine = {"dim": 100, "minn": 3, "maxn": 6, "buckets": 2_000_000}
    name = "fastText, d=100, n-grams 3-6"
    return [
        compared(
            name,
            3,
            "gensim",
            lambda: ours(task, "fasttext", **mine),
            lambda: gensims(task, GensimFastText, 100, sg=1),
        ),
        compared(name, 4, "fasttext", lambda: ours(task, "fasttext", **mine), lambda: fasttexts(task)),
    ]


def glove(task: Task) -> Result:
    """Thousand updates of cells per CPU-second, against the bar itself."""

    def updates() -> float:
        clock = Clock()
        polyseme.train("glove", task.corpus, dim=100, epochs=3, threads=1, progress=clock)
        return 2 * clock.speed()  # each cell of the symmetric matrix is learned in both directions

    return compared("GloVe cell updates, d=100", 1, "bar", updates, lambda: 1600.0)


def speed_table(task: Task) -> None:
    """All rows."""
    small = Corpus.from_sentences(task.sentences[:300])
    for method in ("word2vec", "fasttext", "glove"):  # compiled before the clock starts
        polyseme.train(method, small, dim=8, epochs=1, min_count=1, threads=1)
    polyseme.train("word2vec", small, dim=8, epochs=1, min_count=1, threads=1, loss="hierarchical")
    print(f"{task.words:,} words, one thread, thousand words per CPU-second\n")
    print("| | polyseme | peer | ratio | bar |\n|---|---|---|---|---|", flush=True)
    skipgram(task, 100, 5)
    skipgram(task, 300, 4)
    cbow(task)
    hierarchical(task)
    subwords(task)
    glove(task)


def read_text(path: Path, most: int) -> str:
    opener: Any = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return str(file.read(most))


def english_task(text: Path, tokens: int, folder: Path) -> Task:
    """Lower-case words of about so many tokens."""
    (folder / "text").write_text(read_text(text, tokens * 6).lower(), encoding="utf-8")
    corpus = Corpus.build(folder / "text", folder / "corpus")
    sentences = list(corpus)
    (folder / "sentences").write_text("\n".join(" ".join(s) for s in sentences), encoding="utf-8")
    return Task(corpus, sentences, str(folder / "sentences"))


# Quality

# The text, the folder of evaluation sets, analogies, similarities.
FILES = {
    "en": (
        "enwiki.txt.xz",
        "words_en",
        ("questions-words.txt",),
        ("EN-WS-353-ALL.txt", "EN-SIMLEX-999.txt", "EN-MEN-TR-3k.txt"),
    ),
    "zh": (
        "zhwiki.txt.xz",
        "words_zh",
        ("ca_translated.txt", "ca8_morphological.txt"),
        ("wordsim-240.txt", "wordsim-297.txt"),
    ),
}


def scores(model: WordVectors, language: str) -> dict[str, float]:
    """Per cent: accuracy of analogies, Spearman's ρ of similarities."""
    _, folder, analogies, similarities = FILES[language]
    found = {file: evaluate_file(model, DATA / folder / file).whole["accuracy"] for file in analogies}
    found |= {file: evaluate_file(model, DATA / folder / file).whole["spearman"] for file in similarities}
    return {Path(file).stem: 100 * (value or 0.0) for file, value in found.items()}


def gensim_vectors(sentences: list[list[str]], options: dict[str, Any], seed: int) -> WordVectors:
    model = GensimWord2Vec(
        sentences, vector_size=100, workers=2, seed=seed, alpha=0.025, min_alpha=0.0001, sorted_vocab=1, **options
    )
    counts = [model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key]
    return WordVectors(Vocabulary(model.wv.index_to_key, np.array(counts)), model.wv.vectors)


def quality_table(language: str, seeds: int) -> None:
    """Skip-gram and CBOW with negatives, three passes, the same mean learning rate (0.0125)."""
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / "text"
        text.write_text(read_text(DATA / "corpora" / FILES[language][0], -1).lower(), encoding="utf-8")
        corpus = Corpus.build(text, Path(name) / "corpus")
        sentences = list(corpus)
        print(f"{language}: {corpus.n_tokens:,} words, 3 passes, mean of {seeds} seeds\n", flush=True)
        for architecture in ("skipgram", "cbow"):
            options = {**SHARED, "epochs": 3}
            mine, theirs = [], []
            for seed in range(1, seeds + 1):
                trained = polyseme.train("word2vec", corpus, seed=seed, architecture=architecture, lr=0.025, **options)
                mine.append(scores(trained, language))
                peer = gensim_vectors(sentences, {**options, "sg": int(architecture == "skipgram")}, seed)
                theirs.append(scores(peer, language))
            print(f"| {architecture} | polyseme | gensim | difference |\n|---|---|---|---|")
            for file in mine[0]:
                a, b = mean(m[file] for m in mine), mean(t[file] for t in theirs)
                print(f"| {file} | {a:.1f} | {b:.1f} | {a - b:+.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=DATA / "corpora" / "enwiki.txt.xz")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--quality", choices=("en", "zh"))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.quality:
        quality_table(arguments.quality, arguments.seeds)
    else:
        with tempfile.TemporaryDirectory() as name:
            speed_table(english_task(arguments.text, arguments.tokens, Path(name)))


if __name__ == "__main__":
    main()
