"""What the API answers, compared with NumPy and with the models themselves."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

import polyseme
from polyseme.arrays import unit_rows
from polyseme.search import TextIndex
from polyseme.serve.app import create_app
from polyseme.serve.library import Item, Library, model_item, texts_item
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors


def ok(response: Any) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


def cosines(library: Library, vector: Any) -> dict[str, float]:
    """The cosine of every word with a vector, in double precision."""
    wv = library.items["words"].thing
    matrix = wv.vectors.astype(np.float64)
    values = matrix @ vector / np.linalg.norm(matrix, axis=1) / np.linalg.norm(vector)
    return dict(zip(wv.index_to_key, values.tolist(), strict=True))


def test_the_page_answers_to_head(client: httpx.Client) -> None:
    assert client.head("/").status_code == 200


def test_the_library_says_what_is_loaded(client: httpx.Client) -> None:
    items = {item["name"]: item for item in ok(client.get("/api/library"))["items"]}
    assert {name: item["kind"] for name, item in items.items()} == {
        "words": "words", "others": "words", "context": "contexts", "index": "index", "corpus": "corpus",
    }  # fmt: skip
    assert (items["words"]["dim"], items["words"]["words"], items["context"]["layers"]) == (16, 60, 2)
    assert items["index"]["layers"] == [0, 1]


def test_neighbours_are_the_words_of_greatest_cosine(client: httpx.Client, library: Library) -> None:
    answer = ok(client.get("/api/neighbours", params={"model": "words", "word": "北京", "topn": 7}))
    all_cosines = cosines(library, library.items["words"].thing["北京"].astype(np.float64))
    all_cosines.pop("北京")
    expected = sorted(all_cosines, key=lambda word: -all_cosines[word])[:7]
    assert [entry["word"] for entry in answer["neighbours"]] == expected
    for entry in answer["neighbours"]:
        assert entry["score"] == pytest.approx(all_cosines[entry["word"]], abs=2e-6)


def test_an_analogy_leaves_out_what_was_asked(client: httpx.Client, library: Library) -> None:
    wv = library.items["words"].thing
    a, b, c = (unit_rows(wv[[word]])[0].astype(np.float64) for word in ("北京", "苹果", "音乐"))
    values = cosines(library, b + c - a)
    expected = sorted(set(values) - {"北京", "苹果", "音乐"}, key=lambda word: -values[word])[:5]
    question = {"model": "words", "a": "北京", "b": "苹果", "c": "音乐", "topn": 5}
    answer = ok(client.get("/api/analogy", params=question))
    assert [entry["word"] for entry in answer["answers"]] == expected
    by_product = ok(client.get("/api/analogy", params={**question, "method": "mul"}))
    assert [(e["word"], pytest.approx(e["score"], abs=1e-5)) for e in by_product["answers"]] == [
        (word, pytest.approx(score, abs=1e-5))
        for word, score in wv.analogy("北京", "苹果", "音乐", method="mul", topn=5)
    ]


def test_words_come_by_frequency_and_by_their_beginning(client: httpx.Client) -> None:
    first = ok(client.get("/api/words", params={"model": "words", "limit": 3}))
    assert first["total"] == 60
    assert first["words"] == [{"word": w, "count": c} for w, c in (("北京", 600), ("苹果", 590), ("音乐", 580))]
    begun = ok(client.get("/api/words", params={"model": "words", "prefix": "苹果1", "limit": 3}))
    assert [entry["word"] for entry in begun["words"]] == ["苹果1", "苹果10", "苹果11"]
    assert ok(client.get("/api/words", params={"model": "index", "prefix": "电"}))["words"][0]["word"] == "电话"
    assert ok(client.get("/api/words", params={"model": "words", "prefix": "没有"}))["words"] == []


def test_a_word_that_is_not_utf_8_in_its_file_is_shown_with_a_sign(serving: Any) -> None:
    words = Vocabulary(["北京", "\udce5\udc8c", "苹果"], np.array([3, 2, 1]))
    model = WordVectors(words, np.array([[1, 0], [1, 0.1], [0, 1]], dtype=np.float32))
    with serving(create_app(Library([model_item("words", "words", model)]))) as base:
        found = httpx.get(f"{base}/api/neighbours", params={"model": "words", "word": "北京"}, trust_env=False)
    assert [one["word"] for one in found.json()["neighbours"]] == ["??", "苹果"]


def test_the_graph_links_every_neighbour_to_the_word(client: httpx.Client) -> None:
    graph = ok(client.get("/api/graph", params={"model": "words", "word": "苹果", "topn": 6}))
    names = [node["word"] for node in graph["nodes"]]
    assert names[0] == "苹果"
    assert len(set(names)) == 7
    assert {link["target"] for link in graph["links"] if link["source"] == "苹果"} == set(names[1:])
    assert all(link["source"] in names and link["target"] in names for link in graph["links"])


def test_tokens_are_encoded_as_the_encoder_encodes_them(client: httpx.Client, library: Library) -> None:
    question = {"model": "context", "sentences": ["他 打 电话", ["打", "球"], ""], "layers": "all"}
    answer = ok(client.post("/api/encode/tokens", json=question))
    expected = list(library.items["context"].thing.encode_tokens(["他 打 电话", ["打", "球"], ""]))
    for given, wanted in zip(answer["sentences"], expected, strict=True):
        assert given["tokens"] == wanted.tokens
        np.testing.assert_array_equal(np.array(given["layers"], np.float32).reshape(wanted.layers.shape), wanted.layers)
    one = ok(client.post("/api/encode/tokens", json={**question, "layers": 0}))
    assert np.array(one["sentences"][0]["layers"]).shape == (1, 3, 32)


def test_a_word_table_encodes_tokens_and_texts(client: httpx.Client, library: Library) -> None:
    wv = library.items["words"].thing
    sentence = {"model": "words", "sentences": ["北京 不识 苹果"]}
    layers = np.array(ok(client.post("/api/encode/tokens", json=sentence))["sentences"][0]["layers"])
    np.testing.assert_array_equal(layers[0], [wv["北京"], np.zeros(16), wv["苹果"]])
    texts = {"model": "words", "texts": ["北京 不识 苹果", "不识"]}
    vectors = np.array(ok(client.post("/api/encode/texts", json=texts))["vectors"])
    np.testing.assert_allclose(vectors, [(wv["北京"] + wv["苹果"]) / 2, np.zeros(16)], atol=1e-6)


def test_embeddings_have_openais_shape_in_both_encodings(client: httpx.Client) -> None:
    question = {"model": "context", "input": ["他 打 电话", "打 球"], "user": "somebody"}
    plain = ok(client.post("/v1/embeddings", json=question))
    coded = ok(client.post("/v1/embeddings", json={**question, "encoding_format": "base64"}))
    assert plain["object"] == "list"
    assert [entry["index"] for entry in plain["data"]] == [0, 1]
    assert plain["usage"]["total_tokens"] > 0
    for one, other in zip(plain["data"], coded["data"], strict=True):
        unpacked = np.frombuffer(base64.b64decode(other["embedding"]), dtype="<f4")
        np.testing.assert_array_equal(np.array(one["embedding"], np.float32), unpacked)
    single = ok(client.post("/v1/embeddings", json={"model": "context", "input": "他 打 电话"}))
    assert single["data"][0]["embedding"] == plain["data"][0]["embedding"]
    assert [m["id"] for m in ok(client.get("/v1/models"))["data"]] == ["words", "others", "context"]


def test_planted_senses_are_found(client: httpx.Client) -> None:
    answer = ok(client.get("/api/senses", params={"index": "index", "word": "打"}))
    assert answer["count"] == 240
    telephone = 0.0
    for sense in answer["senses"]:
        balls = ["球" in hit["text"] for hit in sense["typical"]]
        assert all(balls) or not any(balls)
        telephone += 0.0 if any(balls) else sense["share"]
    assert telephone == pytest.approx(2 / 3, abs=0.01)
    assert len(answer["points"]) == 240
    for point in answer["points"]:
        assert max(abs(point["x"]), abs(point["y"])) <= 1
        hit = point["hit"]
        assert hit["text"][hit["start"] : hit["end"]] == "打"


def test_the_same_sense_is_found_elsewhere(client: httpx.Client) -> None:
    ball = {"index": "index", "sentence": ["去", "打", "排球", "。"], "position": 1, "topn": 20}
    hits = ok(client.post("/api/same-sense", json=ball))["hits"]
    assert len(hits) == 20
    assert all("球" in hit["text"] for hit in hits)
    others = ok(client.post("/api/same-sense", json={**ball, "any_word": True, "layer": 1}))["hits"]
    assert "打" not in {hit["word"] for hit in others}


def test_the_corpus_is_searched_by_words_in_a_row(client: httpx.Client, sentences: list[str]) -> None:
    everywhere = ok(client.get("/api/sentences", params={"corpus": "corpus", "word": "打", "limit": 5, "offset": 238}))
    assert everywhere["total"] == 240
    assert len(everywhere["hits"]) == 2
    expected = sum("打 排球" in text for text in sentences)
    row = ok(client.get("/api/sentences", params={"corpus": "index", "word": "打 排球", "limit": 200}))
    assert row["total"] == expected > 0
    assert all(hit["text"][hit["start"] : hit["end"]].replace(" ", "") == "打排球" for hit in row["hits"])
    across = {
        "corpus": "corpus",
        "word": f"。 {sentences[1].split()[0]}",
    }  # the end of one sentence, the start of the next
    assert ok(client.get("/api/sentences", params=across))["total"] == 0
    assert ok(client.get("/api/sentences", params={"corpus": "corpus", "word": "没有"})) == {"total": 0, "hits": []}
    old = client.get("/api/search", params={"corpus": "index", "word": "打 排球", "limit": 200})
    assert ok(old) == row


def test_a_sentence_of_the_corpus_is_given_as_it_was_cut(client: httpx.Client, sentences: list[str]) -> None:
    for name in ("corpus", "index"):
        answer = ok(client.get("/api/sentence", params={"corpus": name, "number": 17}))
        assert answer["tokens"] == sentences[17].split()
    assert client.get("/api/sentence", params={"corpus": "corpus", "number": 240}).status_code == 400


def test_text_is_cut_as_the_models_text_was(client: httpx.Client) -> None:
    question = {"model": "index", "text": "去 打排球 打不识"}  # the corpus has 打 and 排球, and no 不识
    assert ok(client.get("/api/tokens", params=question))["tokens"] == ["去", "打", "排球", "打不识"]
    for model in ("words", "context", "index", "corpus"):
        assert ok(client.get("/api/tokens", params={"model": model, "text": "他 打 球"}))["tokens"] == [
            "他",
            "打",
            "球",
        ]


def test_the_first_axis_of_the_map_spreads_most(client: httpx.Client, library: Library) -> None:
    answer = ok(client.get("/api/map", params={"model": "words", "size": 50}))
    assert answer["state"] == "ready"
    points = np.array([[p["x"], p["y"]] for p in answer["points"]])
    assert points.shape == (50, 2)
    assert np.abs(points).max() == pytest.approx(1, abs=1e-4)
    units = unit_rows(library.items["words"].thing.vectors[:50]).astype(np.float64)
    spread = np.linalg.svd(units - units.mean(axis=0), compute_uv=False)[:2]
    ratio = points[:, 0].std() / points[:, 1].std()
    assert ratio == pytest.approx(spread[0] / spread[1], rel=1e-3)


def test_tsne_is_computed_once_and_kept(client: httpx.Client, library: Library, cache: Path, serving: Any) -> None:
    question = {"model": "words", "method": "tsne", "size": 60}
    known = set(cache.glob("*.safetensors"))  # of other tests
    deadline = time.monotonic() + 60
    answer = ok(client.get("/api/map", params=question))
    while answer["state"] == "computing" and time.monotonic() < deadline:
        time.sleep(0.05)  # what the page does
        answer = ok(client.get("/api/map", params=question))
    assert answer["state"] == "ready"
    assert len(set(cache.glob("*.safetensors")) - known) == 1
    families = np.array([entry["word"][:2] for entry in answer["points"]])
    points = np.array([[p["x"], p["y"]] for p in answer["points"]])
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + np.eye(60) * 9
    assert np.mean(families[distances.argmin(axis=1)] == families) > 0.95
    with serving(create_app(library, cache=cache)) as other:
        assert ok(httpx.get(f"{other}/api/map", params=question, trust_env=False)) == answer


def test_tsne_that_fails_is_tried_once_and_says_why(
    library: Library, serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def no_memory(*arguments: Any, **options: Any) -> None:
        tried.append(options)
        raise MemoryError("cannot take 9 GB")

    monkeypatch.setattr("sklearn.manifold.TSNE", no_memory)
    question = {"model": "words", "method": "tsne", "size": 60}
    with serving(create_app(library, cache=tmp_path)) as base:
        states = []
        while states[-1:] != ["failed"] and len(states) < 500:
            answer = ok(httpx.get(f"{base}/api/map", params=question, trust_env=False))
            states.append(answer["state"])
        assert answer["reason"] == "not enough memory"
        assert ok(httpx.get(f"{base}/api/map", params=question, trust_env=False)) == answer
    assert len(tried) == 1


def test_cards_and_curves(client: httpx.Client) -> None:
    card = ok(client.get("/api/library/words"))
    assert card["corpus"] == {"tokens": 12345}
    assert {option["name"] for option in card["options"]} == {"source"}
    assert all(option["help"] for option in card["options"])
    curve = ok(client.get("/api/library/words/curve"))["records"]
    assert [record["epoch"] for record in curve] == [1, 2, 3, 4, 5]
    assert ok(client.get("/api/library/context/curve"))["records"] == []


REPLACING = {"/api/sentences": "get", "/api/texts/search": "post"}  # the two services that /api/search was


def test_openapi_describes_every_route_and_needs_no_other_site(client: httpx.Client) -> None:
    paths = ok(client.get("/openapi.json"))["paths"]
    for path in ("neighbours", "analogy", "words", "graph", "map", "senses", "sentences", "tokens", "library"):
        assert f"/api/{path}" in paths
    assert {"get", "post"} == {method for method, call in paths["/api/search"].items() if call["deprecated"]}
    assert not any("deprecated" in paths[path][method] for path, method in REPLACING.items())
    assert {"/api/encode/tokens", "/api/encode/texts", "/api/same-sense", "/v1/embeddings", "/v1/models"} <= set(paths)
    assert client.get("/docs").status_code == client.get("/redoc").status_code == 404


def test_a_concordance_has_lines_and_figures(client: httpx.Client, sentences: list[str]) -> None:
    question = {"corpus": "corpus", "query": "打电话", "limit": 5}
    found = ok(client.get("/api/concordance", params=question))
    wanted = [number for number, sentence in enumerate(sentences) if "打 电话" in sentence]
    assert found["count"] == sum(found["parts"]) == len(wanted)
    assert [line["sentence"] for line in found["lines"]] == wanted[:5]
    assert {line["text"][line["start"] : line["end"]] for line in found["lines"]} == {"打电话"}
    rest = ok(client.get("/api/concordance", params={**question, "corpus": "index", "offset": len(wanted) - 1}))
    assert [line["sentence"] for line in rest["lines"]] == wanted[-1:]
    sorted_right = ok(client.get("/api/concordance", params={**question, "query": "打", "sort": "right"}))
    assert {line["text"][line["end"] :][:2] for line in sorted_right["lines"]} == {"电话"}
    tagged = ok(client.get("/api/concordance", params={**question, "query": r"打\p{Han}{2}", "mode": "regex"}))
    assert tagged["count"] == len(sentences)


def test_collocates_stand_near(client: httpx.Client) -> None:
    found = ok(client.get("/api/collocates", params={"corpus": "corpus", "query": "打", "right": 1, "left": 0}))
    assert found["count"] == 240
    assert {one["word"] for one in found["collocates"]} == {"电话", "手机", "号码", "篮球", "排球", "网球"}
    assert sum(one["count"] for one in found["collocates"]) == 240


def test_an_expression_of_a_client_cannot_hold_the_server(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyseme.serve.routes.search.EXPRESSION_SECONDS", 0.2)
    corpus = Corpus.from_sentences([["a" * 60 + "b"]], segment="space")
    endless = {"corpus": "long", "query": r"^(\w|[a-z])*c|(a*)*(a*)*(\1)*$c", "mode": "regex"}
    with serving(create_app(Library([Item("long", "corpus", "long", corpus)]))) as base:
        refused = httpx.get(f"{base}/api/concordance", params=endless, trust_env=False, timeout=30)
    assert refused.status_code == 400
    assert "takes longer" in refused.json()["error"]["message"]


def test_texts_are_searched_in_a_corpus_and_in_an_index(library: Library, serving: Any, tmp_path: Path) -> None:
    words, sentences = library.items["words"].thing, ["北京 北京3 电话", "苹果 苹果3", "音乐 音乐6 北京"]
    (tmp_path / "t.txt").write_text("\n".join(sentences), encoding="utf-8")
    index = TextIndex.build(words, tmp_path / "t.txt", tmp_path / "t")
    corpus = library.items["corpus"]
    items = [model_item("words", "words", words), texts_item("t", str(tmp_path / "t"), TextIndex.open(tmp_path / "t"))]
    with serving(create_app(Library([*items, library.items["others"], corpus]))) as url:
        asked = {"model": "words", "texts": "t", "query": "苹果6 电话", "k": 2, "how": "both", "context": 2}
        found = httpx.post(f"{url}/api/texts/search", json=asked).json()["hits"]
        assert httpx.post(f"{url}/api/search", json=asked).json()["hits"] == found
        wanted = index.search("苹果6 电话", 2, how="both", context=2)
        assert [hit["text"] for hit in found] == [hit.text for hit in wanted]
        assert [hit["marks"] for hit in found] == [list(map(list, hit.marks)) for hit in wanted]
        assert found[0]["score"] == pytest.approx(wanted[0].score, abs=1e-6)
        by_words = httpx.post(f"{url}/api/texts/search", json={**asked, "texts": "corpus", "how": "words"}).json()[
            "hits"
        ]
        assert all("电话" in hit["text"] for hit in by_words)
        assert httpx.post(f"{url}/api/texts/search", json={**asked, "texts": "words"}).status_code == 400
        assert httpx.post(f"{url}/api/texts/search", json={**asked, "texts": "none"}).status_code == 404
        wrong = httpx.post(f"{url}/api/texts/search", json={**asked, "model": "others"})
        assert wrong.status_code == 400
        assert wrong.json()["error"]["message"] == "'t' was indexed with a different model or pooling than 'others'"


def test_large_answers_are_compressed_and_vectors_are_not(client: httpx.Client) -> None:
    uses = client.get("/api/senses", params={"index": "index", "word": "打"})
    assert uses.headers["content-encoding"] == "gzip"
    assert uses.json()["count"] == 240
    plain = client.get("/api/senses", params={"index": "index", "word": "打"}, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == uses.json()
    vectors = client.post(
        "/api/encode/tokens", json={"model": "context", "sentences": ["去 打 球 " * 50], "layers": "all"}
    )
    assert len(vectors.content) > 2000
    assert "content-encoding" not in vectors.headers


def test_all_occurrences_of_a_use_come_page_by_page(client: httpx.Client) -> None:
    asked = {"index": "index", "word": "打", "use": 1, "sort": "order"}
    whole = client.get("/api/uses", params={**asked, "limit": 1000}).json()
    pages = [client.get("/api/uses", params={**asked, "limit": 50, "offset": at}).json() for at in range(0, 300, 50)]
    assert [line for page in pages for line in page["occurrences"]] == whole["occurrences"]
    assert len(whole["occurrences"]) == whole["count"] == pages[0]["count"]
    sentences = [line["sentence"] for line in whole["occurrences"]]
    assert sentences == sorted(sentences)
    every = client.get("/api/uses", params={"index": "index", "word": "打", "limit": 1000}).json()
    assert every["count"] == 240
    assert client.get("/api/uses", params={**asked, "use": 20}).status_code == 400


def test_the_sentence_that_is_asked_about_is_no_answer(client: httpx.Client, sentences: list[str]) -> None:
    found = client.post(
        "/api/same-sense", json={"index": "index", "sentence": sentences[4], "word": "打", "topn": 100}
    ).json()
    assert sentences[4].replace(" ", "") not in {hit["text"].replace(" ", "") for hit in found["hits"]}
    assert found["expected"] == []  # this encoder is no language model
    assert found["cutoff"] is None or -1 <= found["cutoff"] <= 1


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"sentence": "打" * 20_001, "word": "打"}, "sentence"),
        ({"sentence": "打", "word": ""}, "word: is empty"),
        ({"word": "打"}, "sentence: is missing"),
        ({"sentence": "打", "word": "打", "topn": 0}, "topn: must be at least 1"),
        ({"sentence": "打", "word": "打", "colour": 1}, "colour: is unknown"),
    ],
)
def test_a_wrong_question_is_told_in_words_for_people(client: httpx.Client, question: dict, says: str) -> None:
    answer = client.post("/api/same-sense", json={"index": "index", **question})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 422
    assert says in message
    assert "String should" not in message
    assert "Input should" not in message


def test_the_map_has_clusters_of_words_that_lie_near(client: httpx.Client) -> None:
    points = client.get("/api/map", params={"model": "words", "size": 60}).json()["points"]
    family = {
        name: [point["cluster"] for point in points if point["word"].startswith(name)] for name in ("北京", "苹果")
    }
    assert not set(family["北京"]) & set(family["苹果"])  # each family has a centre of its own


def refused(response: Any, param: str) -> str:
    """The message of a refusal in the shape of OpenAI's API."""
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert error["code"]
    assert "\n" not in error["message"]
    return str(error["message"])


def test_the_dimensions_of_openais_call_are_those_of_the_model_or_an_error(client: httpx.Client) -> None:
    question = {"model": "words", "input": ["北京"]}
    whole = ok(client.post("/v1/embeddings", json={**question, "dimensions": 16}))["data"]
    assert whole == ok(client.post("/v1/embeddings", json={**question, "dimensions": None}))["data"]
    for n in (15, 17, 1536):
        assert "gives 16" in refused(client.post("/v1/embeddings", json={**question, "dimensions": n}), "dimensions")
    for n in (0, -1, "x", "16", 1.5, True):
        refused(client.post("/v1/embeddings", json={**question, "dimensions": n}), "dimensions")


def test_openais_own_client_is_told_what_it_asked_wrongly(address: str) -> None:
    openai = pytest.importorskip("openai")
    asked = openai.OpenAI(base_url=f"{address}/v1", api_key="none").embeddings.create
    given = asked(model="words", input=["北京", "Zyxwvut"], dimensions=16)
    assert [getattr(entry, "unknown", False) for entry in given.data] == [False, True]
    for wrong, param in (
        ({"dimensions": 64}, "dimensions"),
        ({"dimensions": 0}, "dimensions"),
        ({"input": ""}, "input"),
    ):
        with pytest.raises(openai.BadRequestError) as error:
            asked(**{"model": "words", "input": "北京", **wrong})
        assert error.value.param == param


def test_a_model_whose_first_dimensions_are_a_smaller_model_gives_fewer(fifty_lines: list[str]) -> None:
    lsa = polyseme.train("lsa", Corpus.from_sentences(fifty_lines), dim=12)
    app = create_app(Library([model_item("lsa", "lsa", lsa)]))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        question = {"model": "lsa", "input": fifty_lines[:3], "dimensions": 5}
        short = [entry["embedding"] for entry in ok(client.post("/v1/embeddings", json=question))["data"]]
        np.testing.assert_allclose(short, lsa.encode(fifty_lines[:3])[:, :5], atol=1e-6)
        assert "1 to 12" in refused(client.post("/v1/embeddings", json={**question, "dimensions": 13}), "dimensions")


def test_an_empty_text_is_refused_as_by_openai(client: httpx.Client) -> None:
    for given in ("", ["北京", ""]):
        refused(client.post("/v1/embeddings", json={"model": "words", "input": given}), "input")


def test_texts_without_a_known_word_are_told_one_by_one(client: httpx.Client) -> None:
    texts = ["北京", "Zyxwvut", "。"]
    answer = ok(client.post("/api/encode/texts", json={"model": "words", "texts": texts}))
    assert answer["unknown"] == [i for i, vector in enumerate(answer["vectors"]) if not any(vector)]
    assert 1 in answer["unknown"]
    marked = ok(client.post("/api/encode/texts", json={"model": "words", "texts": texts, "unknown": "nan"}))
    assert [vector is None for vector in marked["vectors"]] == [i in answer["unknown"] for i in range(3)]
    failed = client.post("/api/encode/texts", json={"model": "words", "texts": texts, "unknown": "error"})
    assert failed.status_code == 400
    assert "Zyxwvut" in failed.json()["error"]["message"]
    data = ok(client.post("/v1/embeddings", json={"model": "words", "input": texts}))["data"]
    assert [entry.get("unknown", False) for entry in data] == [i in answer["unknown"] for i in range(3)]
    coded = {"model": "words", "input": texts, "encoding_format": "base64", "unknown": "nan"}
    numbers = np.frombuffer(
        base64.b64decode(ok(client.post("/v1/embeddings", json=coded))["data"][1]["embedding"]), "<f4"
    )
    assert np.isnan(numbers).all()


def test_parameters_that_a_route_does_not_know_or_that_come_twice_are_refused(
    client: httpx.Client, library: Library
) -> None:
    names = {"name": "words"}
    paths = [
        path.format(**names)
        for path, methods in ok(client.get("/openapi.json"))["paths"].items()
        if "get" in methods and path not in ("/api/search",)
    ]
    assert {"/api/neighbours", "/api/graph", "/api/library", "/v1/models"} <= set(paths)
    for path in paths:
        answer = client.get(path, params={"nosuch": "1"})
        assert answer.status_code == (400 if path.startswith("/v1/") else 422), (path, answer.text)
        assert "nosuch: is unknown" in answer.json()["error"]["message"]
    question = [("model", "words"), ("word", "北京")]
    twice = client.get("/api/neighbours", params=[*question, ("word", "上海")])
    assert (twice.status_code, twice.json()["error"]["message"]) == (422, "word: is given more than once")
    wrong = client.get("/api/neighbours", params=[*question, ("topm", "3")])
    assert "did you mean 'topn'" in wrong.json()["error"]["message"]
    assert client.get("/api/words", params=[("model", "words"), ("model", "others")]).status_code == 422
