"""Bad input of every kind is the client's fault: 4xx, one line of JSON, and the server lives on."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

POSTS = ["/api/encode/tokens", "/api/encode/texts", "/api/same-sense", "/v1/embeddings"]
GETS = {
    "/api/neighbours": {"model": "words", "word": "北京"},
    "/api/analogy": {"model": "words", "a": "北京", "b": "苹果", "c": "音乐"},
    "/api/words": {"model": "words"},
    "/api/graph": {"model": "words", "word": "北京"},
    "/api/map": {"model": "words"},
    "/api/senses": {"index": "index", "word": "打"},
    "/api/search": {"corpus": "corpus", "word": "打"},
    "/api/sentences": {"corpus": "corpus", "word": "打"},
    "/api/tokens": {"model": "words", "text": "他 打"},
}


def refused(response: httpx.Response) -> None:
    assert 400 <= response.status_code < 500, (response.status_code, response.text)
    error = response.json()["error"]
    assert error["type"]
    assert error["message"]
    assert "\n" not in error["message"]


REST = b'"texts": ["a"], "sentences": ["a"], "input": "a", "sentence": "a"}'
BODIES = {
    "nothing": b"",
    "no JSON": b"hello",
    "truncated": b'{"model": "context", "texts": ["a"',
    "not UTF-8": b'{"model": "\xff\xfe"}',
    "a number": b"5",
    "a list": b"[]",
    "null": b"null",
    "NaN": b'{"model": "context", "texts": NaN, "topn": NaN}',
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"model":' * 50_000 + b"1" + b"}" * 50_000,
    "wrong types": b'{"model": 5, "texts": "x", "sentences": {"a": 1}, "input": 3, "index": [], "sentence": 1}',
    "huge number": b'{"model": "context", "index": "index", "sentence": "x", "topn": 1' + b"0" * 400 + b"}",
    "half a surrogate": b'{"model": "context", "texts": ["\\ud800"], "sentences": ["\\ud800"], "input": "\\ud800"}',
    "a surrogate name": b'{"model": "\\ud800", "index": "\\ud800", ' + REST,
    "unknown names": b'{"model": "../words", "index": "x", ' + REST,
    "empty lists": b'{"model": "context", "texts": [], "sentences": [], "input": []}',
}  # fmt: skip


ENCODE = "/api/encode/tokens"
SAID = {
    "too long": (ENCODE, {"sentences": ["字" * 20_001]}, "sentences.0: at most 20,000 characters; this has 20,001"),
    "a number for a text": ("/api/encode/texts", {"texts": [5]}, "texts.0: must be text"),
    "a number for a word": ("/api/encode/texts", {"texts": [["a", 5]]}, "texts.0.1: must be text"),
    "a text for a list": ("/api/encode/texts", {"texts": "x"}, "texts: must be a list"),
    "no such layer": (ENCODE, {"sentences": ["a"], "layers": 99}, "layers: must be at most 64"),
    "no such choice": (
        ENCODE, {"sentences": ["a"], "layers": "x"}, "layers: must be one of 'all', 'top', 'mean' or 'mix'"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("path", "body", "message"), SAID.values(), ids=SAID.keys())
def test_the_message_names_the_field_without_the_validator_s_words(
    client: httpx.Client, path: str, body: dict[str, Any], message: str
) -> None:
    response = client.post(path, json={"model": "context", **body})
    refused(response)
    assert response.json()["error"]["message"] == message


def test_a_body_cut_short_and_a_number_that_is_none_are_told_in_plain_words(client: httpx.Client) -> None:
    cut = client.post(ENCODE, content=b'{"model": "context"', headers={"Content-Type": "application/json"})
    assert cut.json()["error"]["message"] == "body: is not valid JSON (character 19)"
    number = client.get("/api/neighbours", params={"model": "words", "word": "北京", "topn": "x"})
    assert number.json()["error"]["message"] == "topn: must be a whole number"


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_bad_body_is_refused(client: httpx.Client, path: str, body: bytes) -> None:
    refused(client.post(path, content=body, headers={"Content-Type": "application/json"}))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/encode/tokens", {"model": "context", "sentences": ["a"], "layers": -1}),
        ("/api/encode/tokens", {"model": "context", "sentences": ["a"], "layers": True}),
        ("/api/encode/tokens", {"model": "context", "sentences": ["a"], "layers": "some"}),
        ("/api/encode/tokens", {"model": "context", "sentences": ["a"] * 300}),
        ("/api/encode/tokens", {"model": "context", "sentences": ["a" * 30_000]}),
        ("/api/encode/tokens", {"model": "context", "sentences": ["a"], "path": "/etc/passwd"}),
        ("/api/encode/texts", {"model": "index", "texts": ["a"]}),
        ("/api/encode/texts", {"model": "context", "texts": ["字" * 19_000] * 12}),
        ("/v1/embeddings", {"model": "context", "input": [[1, 2, 3]]}),
        ("/v1/embeddings", {"model": "context", "input": "a", "encoding_format": "int8"}),
        ("/api/same-sense", {"index": "index", "sentence": "他 打 球", "position": 99}),
        ("/api/same-sense", {"index": "index", "sentence": "他 打 球", "position": -1}),
        ("/api/same-sense", {"index": "index", "sentence": "他 打 球", "word": "没有"}),
        ("/api/same-sense", {"index": "index", "sentence": "", "word": "打"}),
        ("/api/same-sense", {"index": "index", "sentence": ["不识"], "position": 0}),
        ("/api/same-sense", {"index": "index", "sentence": "他 打 球", "word": "打", "layer": 7}),
        ("/api/same-sense", {"index": "index", "sentence": "他 打 球", "word": "打", "topn": 0}),
        ("/api/same-sense", {"index": "words", "sentence": "他 打 球", "word": "打"}),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    refused(client.post(path, json=body))


@pytest.mark.parametrize("path", GETS)
@pytest.mark.parametrize(
    "change",
    [
        {"model": "nobody", "index": "nobody", "corpus": "nobody"},
        {"model": "../../etc/passwd", "index": "/etc/passwd", "corpus": "C:\\"},
        {"model": "", "index": "", "corpus": ""},
        {"model": "x" * 5000, "index": "x" * 5000, "corpus": "x" * 5000},
        {"model": None, "index": None, "corpus": None},
    ],
)
def test_names_of_nothing_are_refused(client: httpx.Client, path: str, change: dict[str, Any]) -> None:
    question = {**GETS[path], **{key: value for key, value in change.items() if key in GETS[path]}}
    refused(client.get(path, params={key: value for key, value in question.items() if value is not None}))


@pytest.mark.parametrize("topn", ["-1", "0", "1e9", "999999999999999999999", "NaN", "ten", "", "1.5", "٣٣٣٣"])
@pytest.mark.parametrize("path", ["/api/neighbours", "/api/analogy", "/api/graph"])
def test_a_bad_number_is_refused(client: httpx.Client, path: str, topn: str) -> None:
    refused(client.get(path, params={**GETS[path], "topn": topn}))


def test_other_bad_questions(client: httpx.Client) -> None:
    refused(client.get("/api/neighbours", params={"model": "words", "word": "不识"}))
    refused(client.get("/api/neighbours", params={"model": "index", "word": "打"}))
    refused(client.get("/api/neighbours?model=words&word=%ff%fe"))
    refused(client.get("/api/neighbours?model=words&word=" + "x" * 5000))
    refused(client.get("/api/senses", params={"index": "index", "word": "不识"}))
    refused(client.get("/api/senses", params={"index": "index", "word": "打", "max_senses": 0}))
    refused(client.get("/api/map", params={"model": "words", "method": "magic"}))
    refused(client.get("/api/map", params={"model": "words", "size": 10**9}))
    refused(client.get("/api/search", params={"corpus": "corpus", "word": "打", "offset": -1}))
    refused(client.get("/api/library/nobody"))
    refused(client.get("/api/library/nobody/curve"))
    refused(client.delete("/api/library"))
    refused(client.post("/api/neighbours"))


def test_an_unknown_word_gets_help(client: httpx.Client) -> None:
    response = client.get("/api/neighbours", params={"model": "words", "word": "北京市"})
    assert response.status_code == 404
    assert "北京" in response.json()["error"]["message"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(
    ["model", "texts", "sentences", "layers", "input", "index", "sentence", "position", "word", "topn"]
)
bodies = st.dictionaries(
    names, values | st.sampled_from(["context", "index", "words", ["打", "球"], "他 打 球"]), max_size=7
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies, path=st.sampled_from(POSTS))
def test_no_body_makes_the_server_fail(client: httpx.Client, body: dict[str, Any], path: str) -> None:
    text = json.dumps(body).encode("utf-8", "surrogatepass")
    response = client.post(path, content=text, headers={"Content-Type": "application/json"})
    assert response.status_code < 500, response.text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(word=st.text(max_size=20), path=st.sampled_from(sorted(GETS)), number=st.text(max_size=4))
def test_no_query_makes_the_server_fail(client: httpx.Client, word: str, path: str, number: str) -> None:
    question = {
        **GETS[path],
        "word": word.encode("utf-8", "replace").decode(),
        "topn": number.encode("utf-8", "replace").decode(),
    }
    assert client.get(path, params=question).status_code < 500
