"""What test_core.py asks in a process where the packages of the extra ``neural`` cannot be found."""

from __future__ import annotations

import contextlib
import io
import json
import pkgutil
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

HIDDEN = ("torch", "transformers", "tokenizers", "huggingface_hub", "h5py", "faiss", "pyarrow", "sacrebleu")


class FewerPackages(PathFinder):
    """Finds what is on the path, but for the hidden packages."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        hidden = fullname.partition(".")[0] in HIDDEN
        return None if hidden else super().find_spec(fullname, path, target)


def command(*arguments: str) -> tuple[int, str, str]:
    """Run a command as the terminal does: its exit code, what it printed, and its messages."""
    from polyseme.cli.main import main

    printed, messages = io.StringIO(), io.StringIO()
    sys.argv = ["polyseme", *arguments]
    code = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(messages):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, printed.getvalue(), messages.getvalue()


def golden_answers(golden: Path, names: list[str]) -> dict[str, str]:
    """What is not as it was in each golden folder, or why it does not open."""
    from tests.golden.questions import answers_of, differences, read_answers

    import polyseme

    results = {}
    for name in names:
        room = name.split("/")[0]
        try:
            model = polyseme.load(golden / name / "folder") if room in ("words", "contexts", "sentences") else None
            now = answers_of(room, golden / name, model)
            results[name] = "; ".join(map(str, differences(read_answers(golden / name)["answers"], now)))
        except polyseme.PolysemeError as error:
            results[name] = f"{type(error).__name__}: {error}"
    return results


def served(paths: list[str], requests: list[tuple[str, str, dict[str, Any]]]) -> list[tuple[int, str]]:
    """What a server of these paths answers: status and body."""
    from starlette.testclient import TestClient

    from polyseme.serve.app import create_app
    from polyseme.serve.library import Library

    client = TestClient(create_app(Library.open(paths)), base_url="http://127.0.0.1")
    answers = []
    for method, path, question in requests:
        response = client.get(path, params=question) if method == "get" else client.post(path, json=question)
        answers.append((response.status_code, response.text))
    return answers


def index_of_words(model: str, corpus: str, out: str) -> tuple[int, str]:
    """An index with cells, made of word vectors: its size, and the word that is used most like 打 in a sentence."""
    import polyseme
    from polyseme.search import build_index

    encoder = polyseme.lift(polyseme.load(model), "contexts")
    index = build_index(encoder, polyseme.Corpus.open(corpus), out, cells_from=100)
    (hit,) = index.same_sense(["小明", "打", "了"], 1, any_word=True, topn=1)
    return len(index), hit.word


def import_errors() -> dict[str, str]:
    """The error of each module of polyseme that cannot be imported, "" of the others."""
    import polyseme

    errors = {}
    for module in pkgutil.walk_packages(polyseme.__path__, "polyseme.", onerror=lambda _: None):
        if module.name != "polyseme.__main__":
            try:
                import_module(module.name)
                errors[module.name] = ""
            except ImportError as error:
                errors[module.name] = f"{type(error).__name__}: {error}"
    return errors


if __name__ == "__main__":
    sys.meta_path[sys.meta_path.index(PathFinder)] = FewerPackages
    asked = json.loads(sys.stdin.read())
    answers = {
        "commands": [command(*arguments) for arguments in asked["commands"]],
        "golden": golden_answers(Path(asked["golden"]), asked["names"]),
        "index": index_of_words(*asked["index"]),
        "modules": import_errors(),
        "served": served(asked["paths"], asked["requests"]),
        "imported": sorted(set(HIDDEN) & set(sys.modules)),
    }
    sys.stdout.write(json.dumps(answers))
