"""Without the extra ``neural``: text, word vectors and indexes work, and networks say what to install.

Everything is asked in one process (without_torch.py), in which none of the packages of the extra can be found.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from tests.golden.questions import HERE, unpack

from polyseme.catalog import METHODS
from polyseme.errors import MissingExtra
from polyseme.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[1]
INSTALL = "pip install 'polyseme[neural]'"
CORE = (
    "onehot", "counts", "svd", "word2vec", "glove", "fasttext", "wordrank", "cw2vec", "bow", "tfidf", "lsa", "doc2vec",
    "softbow",
)  # fmt: skip
GOLDEN_CORE = re.compile(
    r"words/(?!nnlm|polyglot)|corpora/|contexts/static$|occurrences/(static|elmo|elmo-half|cells)$"
    r"|sentences/(bow|tfidf|lsa|doc2vec|softbow|pooled-(powers|pos|surprisal|.+-words)$)|texts/(word2vec|tfidf|sif)"
)
SIMILAR = ["小明\t老王\t5", "姐姐\t弟弟\t7", "学校\t小明\t2", "学校\t姐姐\t3"]

SERVED = ("words/word2vec", "corpora/words", "occurrences/elmo", "texts/word2vec", "occurrences/bert")
WORDS, CORPUS, INDEX, TEXTS, OTHER = "folder", "folder-2", "folder-3", "folder-4", "folder-5"
REQUESTS = [
    ("get", "/", {}),
    ("get", "/api/library", {}),
    ("get", "/api/neighbours", {"model": WORDS, "word": "小明"}),
    ("get", "/api/concordance", {"corpus": CORPUS, "query": "打"}),
    ("get", "/api/concordance", {"corpus": OTHER, "query": "打"}),  # whose index needs torch
    ("get", "/api/senses", {"index": INDEX, "word": "打"}),
    ("post", "/api/same-sense", {"index": INDEX, "sentence": "小明打了电话。", "word": "打"}),
    ("post", "/api/texts/search", {"texts": TEXTS, "model": WORDS, "query": "小明看书"}),
    ("post", "/api/encode/texts", {"model": WORDS, "texts": ["小明看书"]}),
    ("get", "/api/senses", {"index": OTHER, "word": "打"}),
]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden folders of all rooms but the tasks, and one of those."""
    folder = tmp_path_factory.mktemp("golden")
    for room in ("words", "contexts", "sentences", "corpora", "occurrences", "texts"):
        unpack(HERE / f"{room}.tar.xz", folder / room)
    return folder


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [name for name in (HERE / "folders.txt").read_text().split() if not name.startswith("tasks/")]


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory, fifty_lines: list[str], golden: Path) -> dict[str, list[str]]:
    """Commands that need no network, by what they show."""
    place = tmp_path_factory.mktemp("core")
    text, similar, labelled = place / "t.txt", place / "similar.tsv", place / "labelled.tsv"
    text.write_text("\n".join(fifty_lines * 4) + "\n")
    similar.write_text("\n".join(SIMILAR) + "\n")
    labelled.write_text("".join(f"{'play' if '打' in line else 'other'}\t{line}\n" for line in fifty_lines))
    corpus, model = str(place / "c"), str(place / "word2vec")
    few = {"svd": ["--dim", "5"], "lsa": ["--dim", "5"]}
    index, static = str(golden / "occurrences/elmo/folder"), str(golden / "occurrences/static/folder")
    commands = [
        ["corpus", str(text), "-o", corpus],
        *(["train", name, corpus, "-o", str(place / name), "--min-count", "1", *few.get(name, [])]
          for name in ("counts", "svd", "tfidf", "lsa")),
        ["train", "word2vec", corpus, "-o", model, "--min-count", "1", "--dim", "8", "--epochs", "1"],
        ["info", str(text)], ["info", model], ["info", str(golden / "contexts/bert/folder")], ["methods"],
        ["neighbours", model, "打"], ["similarity", model, "姐姐", "弟弟"], ["analogy", model, "姐姐", "弟弟", "学校"],
        ["similarity", str(place / "lsa"), "姐姐看书", "弟弟看书"],
        ["encode", model, str(text), "-o", str(place / "e.npy"), "--pool", "sif"],
        ["evaluate", model, str(similar)], ["evaluate", str(place / "tfidf"), str(labelled)],
        ["compare", model, str(place / "svd"), "--on", str(similar)],
        ["dimension", corpus],
        ["convert", model, str(place / "v.txt")], ["neighbours", str(place / "v.txt"), "打"],
        ["concordance", corpus, "打"], ["search", model, str(text), "打电话"],
        ["plot", "map", model, "-o", str(place / "map.svg")],
        ["plot", "uses", index, "打", "-o", str(place / "uses.svg")],
        ["uses", static, "打"], ["uses", index, "打"], ["uses", index, "打", "--in", "小明打了电话。"],
    ]  # fmt: skip
    return {" ".join(Path(word).name for word in command): command for command in commands}


@pytest.fixture(scope="module")
def refused(working: dict[str, list[str]], golden: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Commands that need what is not there."""
    text = next(iter(working.values()))[1]
    corpus, model, labelled = (str(Path(text).with_name(name)) for name in ("c", "word2vec", "labelled.tsv"))
    bert, elmo, dan = (str(golden / name / "folder") for name in ("contexts/bert", "contexts/elmo", "sentences/dan"))
    nnlm, index = (str(golden / name / "folder") for name in ("words/nnlm", "occurrences/bert"))
    out = str(tmp_path_factory.mktemp("refused") / "out")
    first = {row.name: row.learns_from[0].split("=") for row in METHODS if row.name not in CORE}  # of several sources
    sources = {name: f"{kind[0]}={text}" if len(kind) > 1 else text for name, kind in first.items()}
    commands = [
        *(["train", name, source, "-o", out] for name, source in sources.items()),
        ["fit", "classify", "--train", labelled, "-o", out],
        ["fit", "tag", "--train", labelled, "--encoder", model, "-o", out],
        ["predict", elmo, text], ["score", dan, labelled],
        ["encode", bert, text, "-o", f"{out}.npy"], ["encode", model, text, "-o", f"{out}.hdf5"],
        ["fill", bert, "小明[]了电话"], ["fill", nnlm, "小明[]了电话"], ["generate", elmo, "小明"],
        ["translate", bert, text], ["neighbours", nnlm, "打"], ["similarity", dan, "小明", "姐姐"],
        ["evaluate", dan, labelled], ["distil", bert, text, "-o", out], ["index", elmo, corpus, "-o", out],
        ["convert", bert, out, "--to", "huggingface"], ["search", dan, text, "小明"], ["serve", dan],
        ["compare", model, corpus, "--on", labelled.replace("labelled", "similar"), "--methods", "svd,nnlm"],
        ["uses", index, "打", "--in", "小明打了电话。"],
    ]  # fmt: skip
    return {" ".join(Path(word).name for word in command): command for command in commands}


@pytest.fixture(scope="module")
def answers(working: dict[str, list[str]], refused: dict[str, list[str]], golden: Path, names: list[str]) -> Any:
    place = Path(next(iter(working.values()))[1]).parent
    asked = {
        "commands": [*working.values(), *refused.values()],
        "golden": str(golden),
        "names": names,
        "index": [str(place / "word2vec"), str(place / "c"), str(place / "index")],
        "paths": [str(golden / name / "folder") for name in SERVED],
        "requests": REQUESTS,
    }
    command = [sys.executable, "-m", "tests.without_torch"]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_needs_no_network_works(answers: Any, working: dict[str, list[str]]) -> None:
    outcomes = zip(working, answers["commands"], strict=False)
    assert "\n".join(f"{name}: {messages}" for name, (code, _, messages) in outcomes if code) == ""
    assert answers["imported"] == []


def test_what_needs_one_says_in_one_line_what_to_install(
    answers: Any, working: dict[str, list[str]], refused: dict[str, list[str]]
) -> None:
    outcomes = zip(refused, answers["commands"][len(working) :], strict=True)
    one_line = re.compile(rf"polyseme: .* needs \w+, which is not installed: {re.escape(INSTALL)}\n")
    wrong = [
        f"{name}: {messages}" for name, (code, _, messages) in outcomes if code != 1 or not one_line.fullmatch(messages)
    ]
    assert "\n".join(wrong) == ""


def test_folders_without_networks_answer_as_before(answers: Any, names: list[str]) -> None:
    core = [name for name in names if GOLDEN_CORE.match(name)]
    assert {name: answers["golden"][name] for name in core if answers["golden"][name]} == {}
    for name in set(names) - set(core):
        assert answers["golden"][name].startswith("MissingExtra: "), name
        assert answers["golden"][name].endswith(INSTALL), name


def test_a_server_answers_about_words_corpora_texts_and_an_index_of_elmo(answers: Any) -> None:
    *outcomes, (_, (status, body)) = zip(REQUESTS, answers["served"], strict=True)
    assert (status, json.loads(body)["error"]["message"]) == (
        503,
        f"this needs torch, which is not installed: {INSTALL}",
    )
    assert "\n".join(f"{request}: {body}" for request, (status, body) in outcomes if status != 200) == ""


def test_word_vectors_are_indexed_where_they_are_used(answers: Any) -> None:
    n, word = answers["index"]
    assert n > 500
    assert word != "打"


def test_only_rooms_of_networks_import_them_and_the_error_says_what_to_install(answers: Any) -> None:
    neural = re.compile(r"polyseme\.((neural|training|learn|contexts|sentences|tasks)\.|words\.networks$)")
    failed = {name: error for name, error in answers["modules"].items() if error}
    assert len(failed) > 50
    assert [name for name in failed if not neural.match(name)] == []
    assert [error for error in failed.values() if not (error.startswith("MissingExtra") and INSTALL in error)] == []


def test_every_extra_that_an_error_names_is_there(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    raised = re.compile(r'MissingExtra\([^)]*?, "(\w+)"')
    named = {extra for file in (ROOT / "src").rglob("*.py") for extra in raised.findall(file.read_text())}
    assert named
    assert named | set(EXTRAS.values()) <= set(extras)
    for package, extra in EXTRAS.items():
        if package != "huggingface_hub":  # which comes with transformers
            assert package in map(_package, extras[extra])


def test_the_core_needs_nothing_of_the_extras_and_every_version_is_pinned(project: dict[str, Any]) -> None:
    core = set(map(_package, project["dependencies"]))
    extras = {_package(needed) for extra in project["optional-dependencies"].values() for needed in extra}
    assert core & extras == set()
    pinned = {_package(line) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert (core | extras) - pinned == {"polyseme"}


def _package(requirement: str) -> str:
    return re.split(r"[<>=\[;!~ ]", requirement)[0].lower().replace("_", "-")


def test_a_missing_package_is_an_import_error_too() -> None:
    with pytest.raises(ImportError, match="ELMo needs torch"):
        raise MissingExtra("ELMo", "neural", "torch")


def test_a_checkout_that_is_not_installed_is_told_to_install_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", not_installed)
    assert "pip install '.[neural]'" in str(MissingExtra("ELMo", "neural", "torch"))
