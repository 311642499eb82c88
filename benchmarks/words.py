"""Training of word vectors: speed against gensim and fastText, per CPU-second, measured in turn; and quality.

    python benchmarks/words.py [--text FILE] [--tokens N] [--runs N]    a table of ratios, in a few minutes
    python benchmarks/words.py --defaults [--sizes N …]      word2vec, fastText and GloVe against gensim's defaults
    python benchmarks/words.py --methods [--size N] [--seconds S]    all methods on the same text for the same time
    python benchmarks/words.py --strokes [--size N] [--seeds N]      cw2vec against word2vec, with their spread
    python benchmarks/words.py --rare [--size N] [--parts N]         rare words
    python benchmarks/words.py --language [--size N] [--orders N …]     perplexity of NNLM and of Kneser-Ney
    python benchmarks/words.py --dimension [--size N]        the dimension chosen by the PIP loss

Both sides get the same sentences, one thread and one pass; reading, segmenting and the vocabulary are not timed.
Without --text the Wikipedia samples of the test data are used. Reading of files is measured in benchmarks/files.py.
Tables are written into docs; all parts but the first save their measurements (--results), so that a second run
continues.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import fasttext
import numpy as np
import torch
from gensim.models import FastText as GensimFastText
from gensim.models import Word2Vec as GensimWord2Vec

import polyseme
import words_quality
import words_special
from polyseme.text.corpus import Corpus
from polyseme.words.cw2vec import Cw2VecOptions, Strokes, stroke_inputs
from polyseme.words.vocabulary_plan import plan_words
from words_plain import plain_nnlm, plain_polyglot
from words_records import DATA, Results, wiki, write_section

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
    """The text, in the forms that the programs need."""

    corpus: Corpus
    sentences: list[list[str]]
    file: str
    runs: int = 3

    @property
    def words(self) -> int:
        return self.corpus.n_tokens


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time of one call, including all threads."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


class Clock:
    """A Progress that measures the speed between the first and the last report of training."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, float]] = []

    def __call__(self, what: str, done: float, total: float | None, /, **_: Any) -> None:
        if what == "training":
            self.heard.append((time.process_time(), done))

    def speed(self) -> float:
        """Thousands of units per CPU-second."""
        (begun, first), (ended, last) = self.heard[0], self.heard[-1]
        return (last - first) / 1000 / (ended - begun)


def ours(task: Task, method: str, **options: Any) -> float:
    """Thousand words per CPU-second, from the first chunk of text to the last."""
    clock = Clock()
    polyseme.train(method, task.corpus, threads=1, progress=clock, **{**SHARED, **options})
    return clock.speed()


def gensims(task: Task, cls: Any, dim: int, **options: Any) -> float:
    """The same for gensim, whose training can be timed separately."""
    model = cls(vector_size=dim, workers=1, **{**SHARED, **options})
    model.build_vocab(task.sentences)
    call = cpu_seconds(lambda: model.train(task.sentences, total_examples=model.corpus_count, epochs=1))
    return task.words / 1000 / call


def fasttexts(file: str, words: int, **options: Any) -> float:
    """The same for fastText: two passes minus one, since training cannot be timed separately from its vocabulary."""
    shared = {"model": "skipgram", "dim": 100, "ws": 5, "neg": 5, "t": 1e-3, "minCount": 5, "thread": 1, "verbose": 0}
    one, two = (
        cpu_seconds(lambda epochs=epochs: fasttext.train_unsupervised(file, epoch=epochs, **shared, **options))  # type: ignore[misc]
        for epochs in (1, 2)
    )
    return words / 1000 / (two - one)


def compared(
    runs: int, name: str, bar: float, peer: str, mine: Callable[[], float], theirs: Callable[[], float]
) -> Result:
    """The medians of a few runs, measured in turn."""
    pairs = [(mine(), theirs()) for _ in range(runs)]
    result = Result(name, median(a for a, _ in pairs), peer, median(b for _, b in pairs), bar)
    print(result.line(), flush=True)
    return result


def skipgram(task: Task, dim: int, bar: float) -> Result:
    return compared(
        task.runs, f"word2vec skip-gram, d={dim}", bar, "gensim",
        lambda: ours(task, "word2vec", dim=dim), lambda: gensims(task, GensimWord2Vec, dim, sg=1),
    )  # fmt: skip


def cbow(task: Task) -> Result:
    return compared(
        task.runs, "word2vec CBOW, d=100", 2, "gensim",
        lambda: ours(task, "word2vec", dim=100, architecture="cbow"), lambda: gensims(task, GensimWord2Vec, 100, sg=0),
    )  # fmt: skip


def hierarchical(task: Task) -> Result:
    return compared(
        task.runs, "word2vec hierarchical, d=100", 2, "gensim",
        lambda: ours(task, "word2vec", dim=100, loss="hierarchical"),
        lambda: gensims(task, GensimWord2Vec, 100, sg=1, hs=1, negative=0),
    )  # fmt: skip


def subwords(task: Task) -> list[Result]:
    mine = {"dim": 100, "minn": 3, "maxn": 6, "buckets": 2_000_000}
    name = "fastText, d=100, n-grams 3-6"
    return [
        compared(
            task.runs,
            name,
            3,
            "gensim",
            lambda: ours(task, "fasttext", **mine),
            lambda: gensims(task, GensimFastText, 100, sg=1),
        ),
        compared(
            task.runs,
            name,
            4,
            "fasttext",
            lambda: ours(task, "fasttext", **mine),
            lambda: fasttexts(task.file, task.words),
        ),
    ]


def glove(task: Task) -> Result:
    """Thousand cell updates per CPU-second, against the bar itself."""

    def updates() -> float:
        clock = Clock()
        polyseme.train("glove", task.corpus, dim=100, epochs=3, threads=1, progress=clock)
        return 2 * clock.speed()  # each cell of the symmetric matrix is trained in both directions

    return compared(task.runs, "GloVe cell updates, d=100", 1, "bar", updates, lambda: 1600.0)


def wordrank(task: Task) -> Result:
    """The same for WordRank, whose update scores five negative contexts, against our GloVe."""

    def updates(method: str, **options: Any) -> float:
        clock = Clock()
        polyseme.train(method, task.corpus, dim=100, epochs=2, threads=1, progress=clock, **options)
        return 2 * clock.speed()

    ours_, glove_ = (lambda: updates("wordrank", window=10, period=5)), (lambda: updates("glove"))
    return compared(task.runs, "WordRank cell updates, d=100", 0, "GloVe here", ours_, glove_)


def strokes(corpus: Corpus, folder: Path, runs: int) -> Result:
    """cw2vec against fastText's program on words spelt in strokes, which gets no more n-grams per word."""
    plan, table = plan_words(corpus, 5, None, None), Strokes.read()
    counts, words = plan.vocabulary.counts, plan.vocabulary.words
    inputs, _ = stroke_inputs(words, table, Cw2VecOptions())
    mine = float((np.diff(inputs.offsets) * counts).sum() / counts.sum())
    lengths = np.array([len(table.digits(word)) + 2 for word in words])  # fastText adds two marks

    def grams(maxn: int) -> float:
        of_word = sum(np.maximum(lengths - n + 1, 0) for n in range(3, maxn + 1))
        return float((of_word * counts).sum() / counts.sum())

    maxn = max(n for n in range(3, 13) if grams(n) <= mine or n == 3)
    spelt = folder / "strokes"
    spelt.write_text("\n".join(" ".join(map(table.digits, sentence)) for sentence in corpus), encoding="utf-8")
    name = f"cw2vec, d=100, {mine:.0f} n-grams a word (fasttext {grams(maxn):.0f})"
    task = Task(corpus, [], str(spelt))
    theirs = {"minn": 3, "maxn": maxn, "bucket": 500_000}
    return compared(
        runs,
        name,
        2,
        "fasttext",
        lambda: ours(task, "cw2vec", dim=100),
        lambda: fasttexts(task.file, task.words, **theirs),
    )


def neural(task: Task) -> list[Result]:
    """NNLM and Polyglot against the same networks in plain torch, with dense gradients and the full softmax."""
    torch.set_num_threads(1)

    def passes(method: str, n: int) -> float:
        one, more = (
            cpu_seconds(
                lambda epochs=epochs: polyseme.train(  # type: ignore[misc]
                    method, task.corpus, epochs=epochs, threads=1, hold_out=0.0
                )
            )
            for epochs in (1, 1 + n)
        )
        return n * task.words / 1000 / (more - one)

    n = len(task.corpus.vocabulary.cut(min_count=5))
    return [
        compared(
            task.runs, f"NNLM, n=5, {n:,} words", 3, "plain torch", lambda: passes("nnlm", 1), lambda: plain_nnlm(n)
        ),
        compared(
            task.runs,
            f"Polyglot, {n:,} words",
            3,
            "plain torch",
            lambda: passes("polyglot", 5),
            lambda: plain_polyglot(n),
        ),
    ]


def speed_table(task: Task, chinese: Corpus, folder: Path) -> None:
    """Measure all rows and write the table."""
    small = Corpus.from_sentences(task.sentences[:300])
    for method in (
        "word2vec",
        "fasttext",
        "glove",
        "wordrank",
        "cw2vec",
        "polyglot",
    ):  # compiles before the measurement
        polyseme.train(method, small, dim=8, epochs=1, min_count=1, threads=1)
    polyseme.train("word2vec", small, dim=8, epochs=1, min_count=1, threads=1, loss="hierarchical")
    rows = [
        skipgram(task, 100, 5),
        skipgram(task, 300, 4),
        cbow(task),
        hierarchical(task),
        *subwords(task),
        glove(task),
        wordrank(task),
        strokes(chinese, folder, task.runs),
        *neural(task),
    ]
    heading = f"{task.words:,} words, one thread, thousand words (or cells) per CPU-second"
    header = "| | polyseme | peer | ratio | bar |\n|---|---|---|---|---|\n"
    write_section("speed", f"{heading}\n\n{header}" + "".join(f"{row.line()}\n" for row in rows))


def read_text(path: Path, most: int) -> str:
    opener: Any = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return str(file.read(most))


def english_task(text: Path, tokens: int, folder: Path, runs: int) -> Task:
    """About this many tokens of lower-case English text."""
    (folder / "text").write_text(read_text(text, tokens * 6).lower(), encoding="utf-8")
    corpus = Corpus.build(folder / "text", folder / "corpus")
    sentences = list(corpus)
    (folder / "sentences").write_text("\n".join(" ".join(s) for s in sentences), encoding="utf-8")
    return Task(corpus, sentences, str(folder / "sentences"), runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=DATA / "corpora" / "enwiki.txt.xz")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    for part in ("defaults", "methods", "strokes", "rare", "language", "dimension"):
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000_000, 10_000_000], help="words (--defaults)")
    parser.add_argument("--size", type=int, default=2_500_000, help="words (the other parts)")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for each method (--methods)")
    parser.add_argument("--runs", type=int, default=3, help="of each, of which the median counts")
    parser.add_argument("--orders", type=int, nargs="*", default=[5, 3], help="of NNLM (--language)")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--passes", type=int, help="epochs of cw2vec (--strokes); default: its own")
    parser.add_argument("--parts", type=int, default=5, help="texts of that size (--rare)")
    parser.add_argument("--results", type=Path, default=Path("words-results.jsonl"))
    asked = parser.parse_args()
    results = Results(asked.results)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.defaults:
            words_quality.defaults(results, folder, asked.sizes)
        elif asked.methods:
            words_quality.methods(results, folder, asked.size, asked.seconds)
        elif asked.strokes:
            words_quality.strokes(results, folder, asked.size, asked.seeds, asked.passes)
        elif asked.rare:
            words_special.rare(results, folder, asked.size, asked.parts)
        elif asked.language:
            words_special.language_models(results, folder, asked.size, asked.orders)
        elif asked.dimension:
            words_special.dimension(results, folder, asked.size)
        else:
            speed_table(
                english_task(asked.text, asked.tokens, folder, asked.runs), wiki("zh", asked.tokens, folder), folder
            )


if __name__ == "__main__":
    main()
