"""Parts of benchmarks/words.py: scores of the methods on the dev sets, with their defaults and in the same time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.text.corpus import Corpus
from words_antonyms import antonym_figures, write_antonyms
from words_records import SETS, Results, gensim_vectors, names, scores, shown, table, timed, train, wiki, write_section

# Defaults

TRIALS: tuple[tuple[str, str, dict[str, Any]], ...] = (  # name, method or class of gensim, options
    ("gensim Word2Vec (CBOW)", "Word2Vec", {}),
    ("gensim Word2Vec (sg=1)", "Word2Vec", {"sg": 1}),
    ("gensim FastText (CBOW)", "FastText", {}),
    ("word2vec, lr 0.025", "word2vec", {"lr": 0.025}),
    ("**word2vec**", "word2vec", {}),
    ("**fastText**", "fasttext", {}),
    ("GloVe, x_max 100", "glove", {"x_max": 100.0}),
    ("**GloVe**", "glove", {}),
)


def defaults(results: Results, folder: Path, sizes: Iterable[int]) -> None:
    """The defaults of word2vec, fastText and GloVe against gensim's, one thread, one seed."""
    sections = []
    for size, language in product(sizes, SETS):
        rows = []
        for name, method, options in TRIALS:
            measure = partial(_trial, language, size, folder, method, options)
            found = results.once(measure, part="defaults", method=name, language=language, words=size)
            rows.append([name, str(found["cpu"]), *shown(found["scores"], language)])
        sections.append(f"{size / 1e6:g} M words, {language}\n\n{table(['', 'CPU s', *names(language)], rows)}")
    write_section("defaults", "\n".join(sections))


def _trial(language: str, size: int, folder: Path, method: str, options: dict[str, Any]) -> dict[str, Any]:
    corpus = wiki(language, size, folder)
    if method[0].isupper():
        model, cpu = timed(lambda: gensim_vectors(method, corpus, 1, **options))
    else:
        model, cpu = timed(lambda: train(method, corpus, **options))
    return {"cpu": round(cpu), "scores": scores(model, language)}


# Methods at equal time


def epochs_within(method: str, corpus: Corpus, seconds: float, options: dict[str, Any]) -> int:
    """The number of epochs that take about this many CPU seconds, estimated on a tenth of the text."""
    lengths = np.diff(corpus.sentence_offsets)
    n = int(np.searchsorted(np.cumsum(lengths), corpus.n_tokens / 10))
    part = Corpus.from_sentences([corpus.sentence(i) for i in range(n)])
    _, one, three = (  # the first run compiles
        timed(lambda epochs=epochs: train(method, part, epochs=epochs, **options))[1]  # type: ignore[misc]
        for epochs in (1, 1, 3)
    )
    return max(1, round(seconds / (10 * (three - one) / 2)))


EQUAL: dict[str, dict[str, Any]] = {
    "onehot": {}, "counts": {}, "svd": {}, "nnlm": {"patience": 0}, "word2vec": {}, "glove": {}, "fasttext": {},
    "wordrank": {}, "polyglot": {}, "cw2vec": {},
}  # fmt: skip
WITHOUT_PASSES = ("onehot", "counts", "svd")


def methods(results: Results, folder: Path, size: int, seconds: float) -> None:
    """Every word method of the catalog on the same text for the same time, on all dev sets, and on antonyms."""
    sections, antonyms = [], {}
    for language in SETS:
        rows = []
        for method, options in EQUAL.items():
            measure = partial(_equal, language, size, folder, method, seconds, options)
            found = results.once(measure, part="methods", method=method, language=language, words=size, seconds=seconds)
            passes = str(found.get("epochs", "–"))
            rows.append([f"`{method}`", str(found["cpu"]), passes, *shown(found["scores"], language)])
            antonyms[method, language] = found["antonyms"]
        heading = f"{size / 1e6:g} M words, {language}, about {seconds:g} CPU seconds each"
        sections.append(f"{heading}\n\n{table(['', 'CPU s', 'passes', *names(language)], rows)}")
    write_section("methods", "\n".join(sections))
    write_antonyms(antonyms, size, seconds)


def _equal(
    language: str, size: int, folder: Path, method: str, seconds: float, options: dict[str, Any]
) -> dict[str, Any]:
    corpus = wiki(language, size, folder)
    passes = {} if method in WITHOUT_PASSES else {"epochs": epochs_within(method, corpus, seconds, options)}
    model, cpu = timed(lambda: train(method, corpus, **passes, **options))
    figures = antonym_figures(model, language)
    return {"cpu": round(cpu), **passes, "scores": scores(model, language), "antonyms": figures}


# cw2vec against word2vec


def strokes(results: Results, folder: Path, size: int, seeds: int, passes: int | None) -> None:
    """cw2vec against word2vec with the same number of epochs, and with the same time; a few seeds."""
    found: dict[str, list[dict[str, Any]]] = {}
    given = {} if passes is None else {"epochs": passes}
    for seed in range(1, seeds + 1):

        def record(name: str, method: str, seed: int = seed, **options: Any) -> dict[str, Any]:
            measure = partial(_with_seed, size, folder, method, seed, options)
            one = results.once(measure, part="strokes", name=name, words=size, seed=seed, **given)
            found.setdefault(name, []).append(one)
            return one

        same = record("`word2vec`, the same passes", "word2vec", **given)
        strokes = record("`cw2vec`", "cw2vec", **given)
        epochs = max(1, round(same["epochs"] * strokes["cpu"] / max(same["cpu"], 1)))
        record("`word2vec`, the same time", "word2vec", epochs=epochs)
    rows = [
        [name, *(f"{np.mean([one[key] for one in of_seeds]):.0f}" for key in ("cpu", "epochs")), *_spread(of_seeds)]
        for name, of_seeds in found.items()
    ]
    runs = "one seed" if seeds == 1 else f"mean of {seeds} seeds and their standard deviation"
    heading = f"{size / 1e6:g} M words, zh, {runs}"
    write_section(f"strokes-{size // 10**6}M", f"{heading}\n\n{table(['', 'CPU s', 'passes', *names('zh')], rows)}")


def _with_seed(size: int, folder: Path, method: str, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    corpus = wiki("zh", size, folder)
    model, cpu = timed(lambda: train(method, corpus, seed=seed, **options))
    return {"cpu": round(cpu), "epochs": model.options.epochs, "scores": scores(model, "zh")}


def _spread(of_seeds: list[dict[str, Any]]) -> list[str]:
    values = [[one["scores"][name] for one in of_seeds] for name in SETS["zh"]]
    return [f"{np.mean(some):.1f}" + (f" ± {np.std(some, ddof=1):.1f}" if len(some) > 1 else "") for some in values]
