"""A small library to serve: two sets of word vectors, an encoder, an index of planted senses and its corpus."""

from __future__ import annotations

import hashlib
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from tests.tasks.conftest import choices, reviews
from tests.tasks.test_span import questions

from polyseme.api import fit, load
from polyseme.arrays import FloatArray
from polyseme.data.examples import Examples
from polyseme.interfaces import ContextEncoder, EncodedSentence, Sentence
from polyseme.search import build_index
from polyseme.serve.app import create_app
from polyseme.serve.library import Library, corpus_item, index_item, model_item
from polyseme.serve.limits import Connections, server_of
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

DIM = 16
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


KINDS = {word: kind for kind in ("电话手机号码", "篮球排球网球") for word in (kind[:2], kind[2:4], kind[4:])}
KINDS |= {"给": "往", "去": "来"}


def direction(word: str) -> FloatArray:
    """A fixed random vector for each word; words of one kind are close together."""
    return _random(KINDS.get(word, word)) + 0.2 * _random(word)


def _random(word: str) -> FloatArray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
    return np.random.default_rng(seed).normal(size=DIM).astype(np.float32)


class Surroundings(ContextEncoder):
    """Layer 0: the word itself. Layer 1: the words next to it. Counts its calls."""

    dim = 2 * DIM
    n_layers = 2

    def __init__(self) -> None:
        self.calls = 0

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: str | int = "all") -> Iterator[EncodedSentence]:
        self.calls += 1
        for sentence in sentences:
            tokens = self.tokenize(sentence) if isinstance(sentence, str) else list(sentence)
            own = [direction(word) for word in ("<S>", *tokens, "</S>")]
            planes = [
                [np.tile(vector, 2) for vector in own[1:-1]],
                [np.concatenate([own[i], own[i + 2]]) for i in range(len(tokens))],
            ]
            both = np.array(planes, dtype=np.float32).reshape(2, len(tokens), self.dim)
            chosen = {"all": both, "top": both[1:], "mean": both.mean(axis=0, keepdims=True), "mix": both[:1]}
            yield EncodedSentence(tokens, chosen[layers] if isinstance(layers, str) else both[layers : layers + 1])


def planted_sentences(n: int = 240) -> list[list[str]]:
    """Sentences with 打: on telephones in two thirds of them, on balls in the others."""
    rng = np.random.default_rng(0)
    sentences = []
    for i in range(n):
        left, right = (["给", "往"], ["电话", "手机", "号码"]) if i % 3 else (["去", "来"], ["篮球", "排球", "网球"])
        filler = [f"词{k}" for k in rng.integers(0, 30, size=3)]
        sentences.append([*filler, str(rng.choice(left)), "打", str(rng.choice(right)), "，", f"尾{i % 40}", "。"])
    return sentences


def word_table(n_words: int = 60, *, seed: int = 0) -> WordVectors:
    """Word vectors of three families, each around its own centre."""
    rng = np.random.default_rng(seed)
    families = ["北京", "苹果", "音乐"]
    centres = rng.normal(size=(3, DIM))
    words = [f"{families[i % 3]}{i // 3}" if i >= 3 else families[i] for i in range(n_words)]
    vectors = (centres[np.arange(n_words) % 3] + 0.4 * rng.normal(size=(n_words, DIM))).astype(np.float32)
    counts = np.arange(n_words, 0, -1) * 10
    curve = [{"epoch": i + 1, "loss": 3.0 / (i + 1), "note": "text"} for i in range(5)]
    about = About(Segmentation("space"), {"tokens": 12345}, curve)
    return WordVectors(Vocabulary(words, counts), vectors, about=about)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders on disk: words, others, corpus, index."""
    folder = tmp_path_factory.mktemp("shelf")
    word_table().save(folder / "words")
    word_table(seed=1).save(folder / "others")
    corpus = Corpus.from_sentences(planted_sentences(), folder / "corpus", segment="space")
    build_index(Surroundings(), corpus, folder / "index", layers="all")
    return folder


@pytest.fixture(scope="session")
def encoder() -> Surroundings:
    return Surroundings()


@pytest.fixture(scope="session")
def library(shelf: Path, encoder: Surroundings) -> Library:
    from polyseme.search import Index

    corpus = Corpus.open(shelf / "corpus")
    items = [model_item(name, str(shelf / name), load(shelf / name)) for name in ("words", "others")]
    items.append(model_item("context", str(shelf / "context"), encoder))
    items.append(index_item("index", str(shelf / "index"), Index.open(shelf / "index", model=encoder, corpus=corpus)))
    items.append(corpus_item("corpus", str(shelf / "corpus"), corpus))
    return Library(items)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("maps")


@pytest.fixture(scope="session")
def task_library() -> Library:
    """A small model of each task, and word vectors, which are not a task."""
    small = {"threads": 1, "batch_size": 8, "lr": 0.02, "dim": 16, "hidden": 8, "dropout": 0.0}
    rows = reviews(40)
    pairs = [(a, b, "same" if x == y else "other") for i, (a, x) in enumerate(rows) for b, y in [rows[i // 2]]]
    names = [([a, b, "来", "了"], ["B-人", "E-人", "O", "O"]) for a in "王李张陈" for b in "明红伟芳"]
    models = {
        "classify": fit("classify", Examples.of(rows), head="self-attention", epochs=8, **small),
        "linear": fit("classify", Examples.of(rows), head="linear", epochs=1, threads=1),
        "pair": fit("pair", Examples.of(pairs), head="dan", epochs=1, **small),
        "tag": fit("tag", Examples.of(names), epochs=15, patience=0, input_dropout=0.0, **small),
        "span": fit("span", questions(45), epochs=12, patience=0, **small),
        "choice": fit("choice", choices(30), head="dan", epochs=12, patience=0, **small),
        "words": word_table(),
    }
    return Library(model_item(name, name, model) for name, model in models.items())


@pytest.fixture(scope="session")
def task_address(task_library: Library) -> Iterator[str]:
    """The address of a server with the models of tasks."""
    with running(create_app(task_library)) as url:
        yield url


@contextmanager
def running(app: Any, connections: Connections | None = None) -> Iterator[str]:
    """Run a real server on a free port of this machine; yields its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    server = server_of(app, connections)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[str]]:
    """``with serving(app) as address``; the second argument, if given, counts the connections."""
    return running


@pytest.fixture(scope="session")
def address(library: Library, cache: Path) -> Iterator[str]:
    """The address of a server with the whole library."""
    with running(create_app(library, cache=cache)) as url:
        yield url


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """The sentences of the corpus."""
    return [" ".join(tokens) for tokens in planted_sentences()]


# ---- the page in a browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    reason = "playwright is not installed (pip install playwright)"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium on this machine (Debian's chromium-headless-shell; scripts/browser.py installs it)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """``open_page("view", word="…")``: a page on that view; errors and outside requests make the test fail."""
    contexts, wrong = [], []

    def watch(page: Any, own: str) -> None:
        page.on("console", lambda m: wrong.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
        page.on("request", lambda r: None if r.url.startswith((own, "data:")) else wrong.append(f"outside: {r.url}"))

    def opened(
        view: str = "",
        *,
        lang: str = "en",
        scheme: str = "light",
        width: int = 1200,
        base: str = address,
        until: str = "[data-ready]",
        touch: bool = False,
        **state: Any,
    ) -> Any:
        size = {"width": width, "height": 800}
        context = browser.new_context(
            viewport=size,
            color_scheme=scheme,
            locale="en-GB",
            reduced_motion="reduce",
            has_touch=touch,
            is_mobile=touch,
        )
        contexts.append(context)
        page = context.new_page()
        watch(page, base)
        page.goto(f"{base}/?lang={lang}#/{view}{'?' + urlencode(state) if state else ''}")
        page.wait_for_selector(until)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong
