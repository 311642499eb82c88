"""Parts of benchmarks/words.py: rare words, language models, and the choice of a dimension."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from kneser_ney import KneserNey
from polyseme.evaluate.dimension import TRIED, choose_dimension, scores_by_dimension
from polyseme.evaluate.report import read_lines
from polyseme.evaluate.word_pairs import read_pairs
from polyseme.text.corpus import Corpus
from polyseme.words.neural import WordStream, split_sentences
from polyseme.words.vocabulary_plan import plan_words
from words_records import DATA, SETS, Results, names, novel, table, timed, train, wiki, write_section

KEPT = 10  # occurrences that are kept of a word made rare
FEW = ("EN-RG-65",)  # datasets of which a short text has too few words
RARE = 20  # words seen fewer times are rare


# Rare words


def judged_pairs() -> list[tuple[str, str, float, str]]:
    """The pairs of wordsim-240 and wordsim-297, with their scores and the name of the file."""
    files = ("wordsim-240", "wordsim-297")
    return [(*pair, f) for f in files for pair in read_pairs(read_lines(DATA / "words_zh" / f"{f}.txt"))]


def made_rare(corpus: Corpus, seed: int = 1) -> tuple[Corpus, set[str]]:
    """The text with only ``KEPT`` occurrences of the rarer word of each pair, and these words."""
    counts = dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist(), strict=True))
    chosen = {min((a, b), key=lambda w: counts.get(w, 0)) for a, b, _, _ in judged_pairs()}
    chosen = {word for word in chosen if counts.get(word, 0) >= KEPT}
    random = np.random.default_rng(seed)
    left = {word: set(random.choice(counts[word], KEPT, replace=False).tolist()) for word in sorted(chosen)}
    seen = dict.fromkeys(chosen, 0)
    sentences = []
    for sentence in corpus:
        kept = []
        for word in sentence:
            if word in chosen:
                seen[word] += 1
                if seen[word] - 1 not in left[word]:
                    continue
            kept.append(word)
        sentences.append(kept)
    return Corpus.from_sentences(sentences), chosen


def correlation(model: Any, wanted: set[str], file: str) -> tuple[float, int]:
    """Spearman's ρ over the pairs of a file that contain a word of ``wanted``, and the number of these pairs."""
    found = [
        (model.similarity(a, b), score)
        for a, b, score, name in judged_pairs()
        if name == file
        and (a in wanted or b in wanted)
        and a in model.key_to_index
        and b in model.key_to_index
        and a != b
    ]
    cosines, judged = zip(*found, strict=True)
    return 100 * float(spearmanr(cosines, judged).statistic), len(found)


def rare(results: Results, folder: Path, size: int, parts: int) -> None:
    """word2vec, fastText and cw2vec on pairs with a naturally rare word, and with a word made rare.

    A text of this size has few such pairs, so several parts of the sample are used, each with its own seed.
    """
    rows, header = [], [""]
    for method in ("word2vec", "fasttext", "cw2vec"):
        found = [
            results.once(
                partial(_rare, folder, size, part, method), part="rare", method=method, words=size, number=part
            )
            for part in range(parts)
        ]
        by_set = [[one["found"][name] for one in found] for name in found[0]["found"]]
        cells = [f"{np.mean(values):.1f}" + (f" ± {_error(values):.1f}" if parts > 1 else "") for values in by_set]
        rows.append([f"`{method}`", *cells, f"{np.mean(by_set):.1f}"])
        numbers = {name: sum(one["pairs"][name] for one in found) for name in found[0]["pairs"]}
        header = ["", *(f"{name} ({n} pairs)" for name, n in numbers.items()), "mean"]
    heading = f"{parts} parts of {size / 1e6:g} M words each, zh, mean of the parts and its standard error"
    write_section("rare", f"{heading}\n\n{table(header, rows)}")


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _rare(folder: Path, size: int, part: int, method: str) -> dict[str, Any]:
    corpus = wiki("zh", size, folder, part)
    thinned, words = made_rare(corpus)
    seldom = {w for w, n in zip(corpus.vocabulary.words, corpus.vocabulary.counts, strict=True) if n < RARE}
    found: dict[str, float] = {}
    numbers: dict[str, int] = {}
    for kind, text, wanted in (("as it is", corpus, seldom), ("made rare", thinned, words)):
        model = train(method, text, seed=part + 1)
        for file in ("wordsim-240", "wordsim-297"):
            rho, numbers[f"{kind}, {file}"] = correlation(model, wanted, file)
            found[f"{kind}, {file}"] = round(rho, 1)
    return {"found": found, "pairs": numbers}


# Language models


def language_models(results: Results, folder: Path, size: int, orders: list[int]) -> None:
    """Held-out perplexity of NNLM and of an interpolated Kneser-Ney model of the same order, over the same classes."""
    rows = []
    for name, order in product(("红楼梦", "enwiki"), orders):
        measure = partial(_language_model, folder, size, name, order)
        found = results.once(measure, part="language", text=name, order=order, words=size)
        ratio = f"{100 * (found['nnlm'] / found['kn'] - 1):+.0f} %"
        sizes = [f"{found['words']:,}", f"{found['classes']:,}", str(order)]
        rows.append([name, *sizes, f"{found['nnlm']:.1f}", f"{found['kn']:.1f}", ratio, str(found["cpu"])])
    header = ["text", "words", "classes", "order", "nnlm", "Kneser-Ney", "difference", "CPU s"]
    write_section("language", table(header, rows))


def _language_model(folder: Path, size: int, name: str, order: int) -> dict[str, Any]:
    corpus = novel(size, folder) if name == "红楼梦" else wiki("en", size, folder)
    model, cpu = timed(lambda: train("nnlm", corpus, order=order))
    plan = plan_words(corpus, model.options.min_count, None, None)
    streams = split_sentences(corpus, model.options.hold_out)
    training, held_out = (WordStream.of_corpus(corpus, plan, some).numbers.tolist() for some in streams)
    n = len(plan.vocabulary)
    peer = KneserNey(training, order, boundary=n + 1, n_classes=n + 2).perplexity(held_out)
    ours = min(row["perplexity"] for row in model.about.curve)
    return {"words": len(training), "classes": n + 2, "nnlm": ours, "kn": round(peer, 2), "cpu": round(cpu)}


# Dimension


def dimension(results: Results, folder: Path, size: int) -> None:
    """The dimension that the PIP loss chooses for svd, and the scores of svd at others."""
    sections = []
    for language, sets in SETS.items():
        chosen = {
            method: results.once(
                partial(_chosen, folder, size, language, method),
                part="chosen dimension", method=method, language=language, words=size,
            )
            for method in ("svd", "word2vec", "glove")
        }  # fmt: skip
        best = chosen["svd"]["best"]
        measure = partial(_by_dimension, folder, size, language, best)
        rows = results.once(measure, part="svd by dimension", language=language, words=size, chosen=best)["rows"]
        values = [[100 * (row[f"{name}.txt"] or 0.0) for name in sets] for row in rows]
        means = [np.mean([v for v, name in zip(line, sets, strict=True) if name not in FEW]) for line in values]
        lines = [
            [f"**{row['dim']}**" if row["dim"] == best else str(row["dim"]), *(f"{v:.1f}" for v in (*line, mean)),
             f"{100 * (mean / max(means) - 1):.1f} %"]
            for row, line, mean in zip(rows, values, means, strict=True)
        ]  # fmt: skip
        told = [f"{m} {r['best']} (within 5 %: {'–'.join(map(str, r['within']))})" for m, r in chosen.items()]
        header = ["svd, dimension", *names(language), "mean", "to the best"]
        sections.append(f"{size / 1e6:g} M words, {language}: {'; '.join(told)}\n\n{table(header, lines)}")
    write_section("dimension", "\n".join(sections))


def _chosen(folder: Path, size: int, language: str, method: str) -> dict[str, Any]:
    report = choose_dimension(wiki(language, size, folder), method)
    return {"best": report.best, "within": report.ranges[5]}


def _by_dimension(folder: Path, size: int, language: str, chosen: int) -> dict[str, Any]:
    files = [DATA / f"words_{language}" / f"{name}.txt" for name in SETS[language]]
    return {"rows": scores_by_dimension(wiki(language, size, folder), "svd", (*TRIED, chosen), files)}
