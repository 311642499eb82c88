"""What each kind of saved folder is asked, how the answers are kept, and when two answers are the same.

Only the public interface is used, since these answers must outlive any move of modules.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import lzma
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import polyseme
from polyseme.search import Index, TextIndex, concordance

HERE = Path(__file__).parent
ROOMS = ("words", "contexts", "sentences", "tasks", "corpora", "occurrences", "texts")
ANSWERS, ARRAYS, WEIGHTS, MARKER = "answers.json", "answers.safetensors", "weights.safetensors", "model.json"
TOLERANCE = 1e-5
TIE = 1e-4  # scores that are closer may be in any order

LINE = "小明打了电话给朋友，说明天去公园。"
LONG = "姐姐在商店打酱油，Anna 喜欢看书，"
TEXTS = [
    LINE,
    "Anna在家里打 the old room，then 看书。",
    "顯微鏡１２３ zyxwvut 𠮷😀",  # nothing of which was in the training text
    "",
    "。",
    LONG * 8,
]
WORDS = ["小明", "打", "Anna", "，", "顯微鏡", "reading", ""]
QUERIES = [
    ("text", "打"), ("text", "anna"), ("text", "顯微鏡"), ("regex", "[打看].書?"), ("words", "打 了"),
    ("words", "打 [] 电话"),
]  # fmt: skip
SPAN_LONG = "老王在北京。" * 12 + "小明住在上海。"
ROWS: dict[str, list[Any]] = {
    "texts": TEXTS,
    "pairs": [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[0]), (TEXTS[2], ""), ("", ""), (TEXTS[5], "姐姐看书。")],
    "tags": [TEXTS[0], TEXTS[1], TEXTS[2], ["Anna", "打", "电话", "zyx"], "", TEXTS[5]],
    "spans": [(LINE, "谁打电话？"), (TEXTS[1], "Anna在哪里？"), ("。", "谁？"), (SPAN_LONG, "小明在哪里？")],
    "choices": [(LINE, ["姐姐看书。", "小明去公园。"]), ("", ["", "Anna", "打"]), (TEXTS[5], ["好", "看书。"])],
}
LABELLED: dict[str, list[Any]] = {
    "texts": ["姐姐喜欢看书。", "小明打电话。", "弟弟在学校。"],
    "pairs": [("姐姐看书。", "弟弟看书。"), ("小明打电话。", "姐姐看书。"), ("小明。", "小明")],
    "tags": [["姐姐", "看", "书", "。"], ["看", "小明"]],
    "spans": [("姐姐在学校看书。", "姐姐"), ("小明打电话。", "小明")],
    "choices": [("姐姐看书。", ["弟弟看书。", "小明。"], 0), ("小明打电话。", ["姐姐。", "说明天去公园。"], 1)],
}


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Things with falling scores; those with nearly the same score may stand in any order."""

    names: list[str]
    scores: list[float]
    whole: bool  # nothing further was left out

    @classmethod
    def of(cls, pairs: Sequence[Sequence[Any]], *, whole: bool = False) -> Ranking:
        """From (…, score) with anything before the score."""
        return cls(
            [json.dumps(plain(pair[:-1]), ensure_ascii=False) for pair in pairs], [float(p[-1]) for p in pairs], whole
        )


def plain(value: Any) -> Any:
    """Dictionaries, lists, strings, numbers and arrays for any result."""
    if isinstance(value, (Ranking, np.ndarray, str, bool, int, float, type(None))):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "detach"):
        return value.detach().numpy()
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value]


def told(question: Callable[[], Any]) -> Any:
    """The answer, or the name of the error that there is instead."""
    try:
        return plain(question())
    except polyseme.PolysemeError as error:
        return {"error": type(error).__name__}


def sampled(layers: np.ndarray) -> np.ndarray:
    """Layers (L, T, D), of long texts at a few places only."""
    return layers if layers.shape[1] <= 20 else layers[:, :: layers.shape[1] // 5]


# ---- questions to models


def of_model(model: Any) -> dict[str, Any]:
    """The answers of a model of any kind."""
    asked: dict[str, Any] = {"method": model.method, "text": model.tokenize(TEXTS[1])}
    for attribute, ask in (
        ("index_to_key", _of_words), ("encode_tokens", _of_contexts), ("encode", _of_sentences), ("predict", _of_task)
    ):  # fmt: skip
        if hasattr(model, attribute):
            asked.update(ask(model))
    if getattr(model, "language", None) or model.method == "nnlm":
        asked.update(_of_language_model(model))
    return asked


def _of_words(vectors: Any) -> dict[str, Any]:
    words = vectors.index_to_key
    return {
        "size": vectors.vector_size,
        "words": words,
        "vectors": {word: told(lambda w=word: vectors[w]) for word in (*WORDS, words[len(words) // 2], words[-1])},
        "known": [word in vectors for word in WORDS],
        "lookup": vectors.lookup(WORDS[:5]),
        "similar": {word: told(lambda w=word: _nearest(vectors, w)) for word in WORDS[:5]},
        "to several": told(lambda: Ranking.of(vectors.most_similar(["打", "小明"], ["Anna"], topn=5))),
        "analogy": told(lambda: Ranking.of(vectors.analogy("小明", "打", "姐姐", method="mul", topn=5))),
        "similarity": told(lambda: vectors.similarity("打", "，")),
    }


def _nearest(vectors: Any, word: str) -> Ranking:
    return Ranking.of(vectors.most_similar(word, topn=12))


def _of_contexts(encoder: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"dim": encoder.dim, "layers": encoder.n_layers, "language": encoder.language}
    for layers in ("all", "top", "mean", "mix", 0):
        texts = TEXTS if layers == "all" else TEXTS[:1]
        found = list(encoder.encode_tokens(texts, layers=layers))
        asked[f"layers {layers}"] = [sampled(sentence.layers) for sentence in found]
        asked[f"tokens {layers}"] = [sentence.tokens for sentence in found]
    given = next(iter(encoder.encode_tokens([["Anna", "打", "电话", "顯微鏡", ""]])))
    asked["words given"] = [given.tokens, given.layers]
    if hasattr(encoder, "attention"):
        asked["attention"] = told(lambda: encoder.attention(TEXTS[0][:6]))
    if getattr(encoder, "translates", False):
        asked["translations"] = plain(encoder.translate(["Anna likes 书", "line 3"], beam=2, longest=6))
    if hasattr(encoder, "language_of"):
        asked["languages"] = [encoder.language_of("Anna likes the old room"), encoder.language_of(LINE)]
    return asked


def _of_language_model(model: Any) -> dict[str, Any]:
    tokens = ["小明", "打", "电话", "。"]
    asked: dict[str, Any] = {
        "substitutes": [told(lambda p=p: Ranking.of(model.substitutes(tokens, p, topn=8))) for p in range(3)],
        "substitutes in text": told(lambda: Ranking.of(model.substitutes(LINE, 1, topn=8))),
        "perplexity": told(lambda: _perplexities(model.perplexity([LINE, TEXTS[1]]))),
    }
    if hasattr(model, "surprisals"):
        asked["surprisals"] = told(lambda: model.surprisals([tokens, ["Anna", "顯微鏡"], []]))
    if getattr(model, "language", None) == "masked":
        asked["fill"] = told(lambda: [Ranking.of(one) for one in model.fill("小明打了[MASK]话。", topn=8)])
    if getattr(model, "language", None) == "causal" and hasattr(model, "generate"):
        asked["continued"] = told(lambda: model.generate("小明打", length=8, temperature=0.0))
    return asked


def _perplexities(found: Any) -> dict[str, float]:
    """The perplexities alone: how tokens and characters are counted may change."""
    return {name: value for name, value in plain(found).items() if name in ("perplexity", "forward", "backward")}


def _of_sentences(encoder: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "dim": encoder.dim,
        "vectors": encoder.encode(TEXTS),
        "of words": encoder.encode([["Anna", "打", "电话"], []]),
        "units": encoder.encode(TEXTS[:2], normalize_embeddings=True),
        "similarity": encoder.similarity(TEXTS[:2], TEXTS[:3]),
    }
    if hasattr(encoder, "encode_answers"):
        asked["answers"] = encoder.encode_answers(TEXTS[:3])
    if hasattr(encoder, "documents"):
        asked["documents"] = [
            Ranking.of(encoder.most_similar(0, topn=5)),
            Ranking.of(encoder.most_similar(LINE, topn=5)),
        ]
    if hasattr(encoder, "attention"):
        asked["attention"] = told(lambda: encoder.attention(TEXTS[:2]))
    return asked


def _of_task(model: Any) -> dict[str, Any]:
    rows = ROWS[model.kind]
    asked: dict[str, Any] = {"labels": model.labels, "records": plain(model.records(rows))}
    if hasattr(model, "probabilities"):
        asked["probabilities"] = told(lambda: model.probabilities(rows))
    if hasattr(model, "outputs"):
        asked["outputs"] = told(lambda: model.outputs(rows))
    if getattr(model, "attends", False):
        asked["attention"] = told(lambda: model.attention(rows))
    report = plain(model.score(labelled(model)).to_json())
    asked["score"] = {name: value for name, value in report.items() if name != "file"}
    return asked


def labelled(model: Any) -> polyseme.Examples:
    """A few examples to score a model on, with its own labels one after the other."""
    rows: list[Any] = LABELLED[model.kind]
    scored = model.kind == "pairs" and not model.labels
    if model.kind == "texts":
        rows = [(text, model.labels[n % len(model.labels)]) for n, text in enumerate(rows)]
    elif model.kind == "pairs":
        rows = [(*pair, n + 1.5 if scored else model.labels[n % len(model.labels)]) for n, pair in enumerate(rows)]
    elif model.kind == "tags":
        rows = [(tokens, [model.labels[-1]] * len(tokens)) for tokens in rows]
    elif model.kind == "spans":
        rows = [(passage, "谁？", [(answer, 0)]) for passage, answer in rows]
    return polyseme.Examples.of(rows, kind=model.kind, scored=scored or None)


# ---- questions to corpora and indexes


def of_corpus(corpus: polyseme.Corpus) -> dict[str, Any]:
    """What is in a corpus, how it cuts a text, and what a concordance of it shows."""
    places = range(corpus.n_sentences)
    return {
        "sizes": [corpus.n_tokens, corpus.n_sentences, corpus.n_documents, len(corpus.vocabulary)],
        "facts": plain(corpus.facts),
        "fingerprint": corpus.fingerprint,
        "words": corpus.all_words,
        "counts": [corpus.count(word) for word in corpus.all_words],
        "sentences": [corpus.sentence(i) for i in places],
        "texts": [corpus.text(i) for i in places],
        "spans": [plain(corpus.token_spans(i)) for i in places],
        "documents": corpus.sentence_documents,
        "tags": plain([corpus.tag_names, corpus.tags]),
        "cut": [corpus.tokenize(text) for text in TEXTS],
        "concordances": {
            f"{mode} {query}": told(lambda m=mode, q=query: _concordance(corpus, q, m)) for mode, query in QUERIES
        },
        "tagged": told(lambda: len(concordance(corpus, "打", tag="v*"))),
    }  # fmt: skip


def _concordance(corpus: polyseme.Corpus, query: str, mode: str) -> dict[str, Any]:
    found = concordance(corpus, query, mode)
    near = found.collocates(min_count=1, topn=200)
    return {
        "count": found.count,
        "dispersion": found.dispersion,
        "documents": plain(found.documents()),
        "lines": plain(found.lines(stop=4)),
        "orders": {sort: found.order(sort).tolist() for sort in ("left", "right", "match")},
        "collocates": Ranking.of([(one.word, one.count, one.loglik) for one in near], whole=len(near) < 200),
    }


def of_index(index: Index) -> dict[str, Any]:
    """What is in an index of occurrences, and where words are used alike."""
    known = [word for word in ("打", "看书", "小明") if index.count(word)]
    return {
        "size": len(index),
        "words": index.words.words,
        "counts": [index.count(word) for word in index.words.words],
        "layers": list(index.layers),
        "uses": {word: index.uses(word)[:4] for word in known},
        "hits": plain(index.hits(index.occurrences("打")[:3], [1.0, 1.0, 1.0])),
        "cutoffs": [index.cutoff(), index.cutoff(any_word=True)],
        "same sense": [_hits(index.same_sense(LINE, word="打", topn=8)), _hits(index.same_sense(["Anna", "打"], 1))],
        "any word": _hits(index.same_sense(LINE, word="打", topn=8, any_word=True)),
        "like": _hits(index.like(index.occurrences("打")[2], topn=8)),
        "expected": index.expected(LINE, word="打", topn=5),
        "senses": {word: _senses(index.senses(word)) for word in known},
    }


def _hits(hits: Sequence[Any]) -> Ranking:
    return Ranking.of([(hit.occurrence, hit.sentence, hit.token, hit.word, hit.text, hit.score) for hit in hits])


def _senses(found: Any) -> dict[str, Any]:
    return {
        "count": found.count,
        "labels": found.labels,
        "rows": found.rows,
        "scores": found.scores,
        "shares": [sense.share for sense in found.senses],
        "substitutes": [sense.substitutes for sense in found.senses],
    }


def of_texts(index: TextIndex, *, by_vectors: bool = True) -> dict[str, Any]:
    """What a text index holds and finds."""
    asked: dict[str, Any] = {
        "size": len(index),
        "facts": plain(index.facts),
        "texts": [index.text(i) for i in range(3)],
    }
    for how in ("vectors", "words", "both") if by_vectors else ("words",):
        for query in ("打电话", "Anna 看书", "顯微鏡", "去商店打酱油，也看见朋友"):
            hits = index.search(query, 6, how=how)
            asked[f"{how} {query}"] = Ranking.of(
                [(h.number, h.text, h.line, h.marks, h.before, h.after, h.score) for h in hits]
            )
    return asked


# ---- folders and their files


def answers_of(room: str, place: Path, model: Any = None) -> dict[str, Any]:
    """All answers of the folder at ``place``; ``model``, if it is opened already."""
    if room == "corpora":
        return of_corpus(polyseme.Corpus.open(place / "folder"))
    if room == "occurrences":
        return of_index(Index.open(place / "folder"))
    if room == "texts":
        encoder = polyseme.load(place / "model")
        alone = of_texts(TextIndex.open(place / "folder"), by_vectors=False)
        return {**of_texts(TextIndex.open(place / "folder", encoder)), "without its model": alone}
    return of_model(polyseme.load(place / "folder") if model is None else model)


def layout_of(folder: Path) -> dict[str, Any]:
    """The names of the files below a folder, the names and shapes of arrays, and the keys of descriptions."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    described = {}
    for name in files:
        if name.endswith(".safetensors"):
            with safe_open(folder / name, "numpy") as arrays:
                slices = {key: arrays.get_slice(key) for key in sorted(arrays.keys())}
                described[name] = {key: f"{one.get_dtype()} {one.get_shape()}" for key, one in slices.items()}
        elif Path(name).name in (MARKER, "corpus.json", "index.json", "texts.json"):
            described[name] = _keys(json.loads((folder / name).read_text(encoding="utf-8")))
    return {"files": files, "inside": described}


def _keys(record: dict[str, Any]) -> dict[str, Any]:
    """The keys of a description, those of its options and facts, and the values of options that stay."""
    known = {
        name: sorted(record[name]) for name in ("facts", "segmentation", "corpus") if isinstance(record.get(name), dict)
    }
    return {"keys": sorted(record), **known, "options": record.get("options"), "tables": record.get("tables")}


def write_answers(place: Path, answers: dict[str, Any]) -> None:
    """Keep answers next to their folder: what is not an array as JSON."""
    arrays: dict[str, np.ndarray] = {}

    def kept(value: Any) -> Any:
        if isinstance(value, Ranking):
            return {"ranking": [value.names, value.scores, value.whole]}
        if isinstance(value, np.ndarray):
            arrays[f"{len(arrays):03}"] = np.ascontiguousarray(value)
            return {"array": f"{len(arrays) - 1:03}"}
        if isinstance(value, dict):
            return {name: kept(inner) for name, inner in value.items()}
        return [kept(inner) for inner in value] if isinstance(value, list) else value

    text = json.dumps(kept(plain(answers)), ensure_ascii=False, indent=0)
    (place / ANSWERS).write_text(text, encoding="utf-8")
    save_file(arrays, place / ARRAYS)


def read_answers(place: Path) -> dict[str, Any]:
    """The answers that were kept."""
    arrays = load_file(place / ARRAYS)

    def restored(record: dict[str, Any]) -> Any:
        if set(record) == {"array"}:
            return arrays[record["array"]]
        return Ranking(*record["ranking"]) if set(record) == {"ranking"} else record

    text = (place / ANSWERS).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text, object_hook=restored)
    return found


def differences(golden: Any, now: Any, where: str = "") -> Iterator[str]:
    """Where answers differ from the golden ones; a dictionary may have gained keys."""
    if isinstance(golden, Ranking):
        yield from _ranked_otherwise(golden, now, where)
    elif isinstance(golden, np.ndarray):
        if not isinstance(now, np.ndarray) or golden.shape != now.shape:
            yield f"{where}: the shape was {golden.shape}, not {getattr(now, 'shape', now)}"
        elif golden.dtype.kind != now.dtype.kind or not np.allclose(now, golden, TOLERANCE, TOLERANCE, equal_nan=True):
            yield f"{where}: numbers differ, by up to {np.abs(golden.astype(float) - now.astype(float)).max():.2g}"
    elif isinstance(golden, dict):
        if not isinstance(now, dict) or golden.keys() - now.keys():
            yield f"{where}: {sorted(golden)} became {sorted(now) if isinstance(now, dict) else now!r:.80}"
        else:
            for name, inner in golden.items():
                yield from differences(inner, now[name], f"{where}/{name}")
    elif isinstance(golden, list):
        if not isinstance(now, list) or len(golden) != len(now):
            yield f"{where}: {golden!r:.80} became {now!r:.80}"
        else:
            for number, (one, other) in enumerate(zip(golden, now, strict=True)):
                yield from differences(one, other, f"{where}/{number}")
    elif isinstance(golden, float) and isinstance(now, float):
        if not np.isclose(now, golden, TOLERANCE, TOLERANCE, equal_nan=True):
            yield f"{where}: {golden} became {now}"
    elif type(golden) is not type(now) or golden != now:
        yield f"{where}: {golden!r:.80} became {now!r:.80}"


def _ranked_otherwise(golden: Ranking, now: Any, where: str) -> Iterator[str]:
    if not isinstance(now, Ranking) or len(golden.names) != len(now.names):
        yield f"{where}: {golden.names} became {getattr(now, 'names', now)}"
    elif not np.allclose(now.scores, golden.scores, TOLERANCE, TOLERANCE):
        yield f"{where}: scores {golden.scores} became {now.scores}"
    else:
        ends = [n for n in range(1, len(golden.scores)) if golden.scores[n - 1] - golden.scores[n] > TIE]
        bounds = [0, *ends, *([len(golden.scores)] if golden.whole else [])]
        for start, end in itertools.pairwise(bounds):
            if sorted(golden.names[start:end]) != sorted(now.names[start:end]):
                yield f"{where}: {golden.names[start:end]} became {now.names[start:end]}"


# ---- archives


def pack(folder: Path, archive: Path) -> None:
    """All files below a folder in one archive, the same bytes whenever they are packed."""
    with (
        lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size = path.stat().st_size
                with path.open("rb") as file:
                    tar.addfile(entry, file)


def unpack(archive: Path, folder: Path) -> None:
    """Write the regular files of an archive below a folder."""
    with tarfile.open(archive, "r:xz") as tar:
        for entry in tar:
            path = (folder / entry.name).resolve()
            content = tar.extractfile(entry) if entry.isreg() else None
            if content is None or not path.is_relative_to(folder.resolve()):
                raise ValueError(f"{archive} holds more than regular files: {entry.name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
