"""Models of tasks over HTTP: each takes what its task takes, and says what it says in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from polyseme.serve.library import Library


@pytest.fixture(scope="module")
def asked(task_address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=task_address, timeout=30, trust_env=False) as client:
        yield client


def test_labels_come_with_probabilities_and_what_counted(asked: httpx.Client, task_library: Library) -> None:
    texts = ["房间很干净。", ["服务", "很", "冷淡"], ""]
    answer = asked.post("/api/predict", json={"model": "classify", "texts": texts, "attention": True}).json()
    assert answer["task"] == "classify"
    model = task_library.items["classify"].thing
    assert [found["label"] for found in answer["predictions"]] == [found.label for found in model.predict(texts)]
    first = answer["predictions"][0]
    assert sum(first["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert "".join(token for token, _ in first["attention"]) == "房间很干净。"
    assert sum(weight for _, weight in first["attention"]) == pytest.approx(1, abs=1e-4)


def test_pairs_sentences_and_passages_are_answered(asked: httpx.Client) -> None:
    pair = asked.post("/api/predict", json={"model": "pair", "pairs": [["很干净", "很干净"]]}).json()
    assert set(pair["predictions"][0]["probabilities"]) == {"same", "other"}
    tagged = asked.post("/api/predict", json={"model": "tag", "sentences": ["王明来了", ["李", "红"]]}).json()
    assert [len(found["tokens"]) for found in tagged["predictions"]] == [4, 2]
    question = {"passage": "他叫李红，住在上海。", "question": "他叫什么？"}
    found = asked.post("/api/predict", json={"model": "span", "passages": [question]}).json()["predictions"][0]
    assert question["passage"][found["start"] :].startswith(found["text"])


def test_a_choice_is_the_likeliest_alternative(asked: httpx.Client, task_library: Library) -> None:
    question = {"context": "房间很干净。", "alternatives": ["服务很冷淡。", "位置很方便。", "前台很吵闹。"]}
    (found,) = asked.post("/api/predict", json={"model": "choice", "choices": [question]}).json()["predictions"]
    (expected,) = task_library.items["choice"].thing.predict([tuple(question.values())])
    assert found["alternatives"] == question["alternatives"]
    assert found["text"] == question["alternatives"][found["choice"]] == expected.text
    assert found["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)


@pytest.mark.parametrize(
    ("question", "status", "words"),
    [
        ({"model": "classify", "pairs": [["a", "b"]]}, 400, "send texts"),
        ({"model": "classify", "texts": ["a"], "sentences": ["b"]}, 400, "and nothing else"),
        ({"model": "classify"}, 400, "send texts"),
        ({"model": "pair", "pairs": [["a"]]}, 422, "pairs"),
        ({"model": "choice", "choices": [{"context": "a", "alternatives": ["b"]}]}, 422, "alternatives"),
        ({"model": "choice", "texts": ["a"]}, 400, "send choices"),
        ({"model": "words", "texts": ["a"]}, 400, "makes no predictions"),
        ({"model": "nobody", "texts": ["a"]}, 404, "nobody"),
        ({"model": "classify", "texts": []}, 422, "texts"),
        ({"model": "linear", "texts": ["a"], "attention": True}, 400, "has no word weights"),
        ({"model": "classify", "texts": ["很" * 20_000] * 11}, 400, "characters"),
    ],
)
def test_what_cannot_be_answered_is_one_line(asked: httpx.Client, question: dict, status: int, words: str) -> None:
    answer = asked.post("/api/predict", json=question)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_cards_say_what_a_model_predicts(asked: httpx.Client) -> None:
    items = {item["name"]: item for item in asked.get("/api/library").json()["items"]}
    assert items["classify"]["kind"] == "task"
    assert items["classify"]["labels"] == ["bad", "good"]
    assert (items["classify"]["attends"], items["linear"]["attends"]) == (True, False)
    assert asked.get("/api/library/tag").json()["chinese"] == "序列标注"


def test_a_published_classifier_is_words_and_labels(shared_data: Path) -> None:
    library = Library.open([shared_data / "models" / "fasttext" / "lid.176.ftz"])
    (item,) = library.items.values()
    assert (item.kind, item.facts["task"], len(item.facts["labels"])) == ("words", "classify", 176)
