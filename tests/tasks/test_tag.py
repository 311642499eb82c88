"""Tag: names in sentences of characters and of words, from scratch and with an encoder."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.tasks.test_classify import CountingEncoder

import polyseme
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError

NAMES, PLACES = ["王小明", "李红", "张伟"], ["北京", "上海", "西安市"]


def tagged(seed: int, n: int = 60, scheme: str = "bmes") -> list[tuple[list[str], list[str]]]:
    """Sentences like 他叫王小明，住在北京。, tagged by character."""
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        parts = [
            ("他叫", None),
            (rng.choice(NAMES), "PER"),
            ("，住在", None),
            (rng.choice(PLACES), "LOC"),
            ("。", None),
        ]
        tokens, tags = [], []
        for text, kind in parts[rng.choice([0, 2]) :]:
            tokens += text
            inner = "M" if scheme == "bmes" else "I"
            marks = ["B", *[inner] * (len(text) - 2), "E"] if scheme == "bmes" else ["B", *"I" * (len(text) - 1)]
            tags += ["O"] * len(text) if kind is None else [f"{mark}-{kind}" for mark in marks]
        rows.append((tokens, tags))
    return rows


SMALL = {"threads": 1, "epochs": 12, "batch_size": 8, "lr": 0.02, "dim": 16}


@pytest.mark.parametrize("scheme", ["bmes", "bio"])
@pytest.mark.parametrize("head", ["bilstm-crf", "linear"])
def test_it_finds_names_and_answers_the_same_when_loaded(head, scheme, tmp_path):
    train, dev = Examples.of(tagged(0, scheme=scheme)), Examples.of(tagged(1, 20, scheme))
    model = polyseme.fit(
        "tag", train, dev, head=head, **SMALL, bigrams=8, **({"hidden": 8} if head != "linear" else {})
    )
    report = model.score(dev)
    assert report.metric == "entity_f1"
    assert report.figures["entity_f1"] > 0.9
    assert {row["label"] for row in report.rows} == {"PER", "LOC"}
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    rows = ["他叫李红，住在上海。", "", list("张伟")]
    assert again.predict(rows) == model.predict(rows)
    found = again.predict(["他叫李红，住在上海。"])[0]
    assert [(entity.type, entity.text, entity.start) for entity in found.entities] == [
        ("PER", "李红", 2),
        ("LOC", "上海", 7),
    ]
    assert all(0 < p <= 1.0001 for p in found.probabilities)
    assert again.predict([""])[0].tags == []


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        ([*"在北京", "2008", "年"], "北京"),
        ([*"在UF"], "UF"),
        (["在", "北京", "大学"], "北京大学"),
        (["in", "New", "York"], "New York"),
    ],
)
def test_an_entity_is_written_as_its_language_is(tokens, name):
    model = polyseme.fit("tag", Examples.of([(tokens, ["O", "B-X", "I-X", *["O"] * (len(tokens) - 3)])] * 20), **SMALL)
    assert [entity.text for entity in model.predict([tokens])[0].entities] == [name]


def test_decoding_never_breaks_the_scheme():
    model = polyseme.fit("tag", Examples.of(tagged(0, 12)), head="linear", threads=1, epochs=1, dim=4)
    for found in model.predict([list("王北小京明上海安西") * 3, list("他叫住在")]):
        for before, tag in itertools.pairwise(["O", *found.tags, "O"]):
            inside = tag[0] in "ME"
            assert inside == (before[0] in "BM")
            assert not inside or before[2:] == tag[2:]


def test_sentences_in_iob1_are_learned_as_they_are(tmp_path):
    rows = [(tokens, [tag.replace("B-", "I-") for tag in tags]) for tokens, tags in tagged(0, scheme="bio")]
    model = polyseme.fit("tag", Examples.of(rows), hidden=8, bigrams=8, **SMALL)
    assert model.score(Examples.of(rows)).figures["entity_f1"] > 0.9
    model.save(tmp_path / "m")
    assert polyseme.load(tmp_path / "m").predict([rows[0][0]]) == model.predict([rows[0][0]])


@pytest.mark.parametrize(("head", "at"), [("bilstm-crf", "both"), ("taglm", "hidden")])
def test_an_encoder_stands_beside_the_states_and_runs_once(head, at, vectors):
    encoder = CountingEncoder(vectors)
    train = Examples.of(tagged(0, 30))
    options = {**SMALL, "epochs": 2, "hidden": 8}
    model = polyseme.fit(
        "tag", train, encoder=encoder, head=head, **options, **({"elmo_at": at} if at == "both" else {})
    )
    assert encoder.tokens == sum(len(row.tokens) for row in train)
    widths = (model.net.below.dim, model.net.output.in_features, model.net.above and model.net.above.rnn.input_size)
    assert widths == ((16, 22, None) if head == "bilstm-crf" else (16, 16, 22))


def test_words_are_spelt_and_parts_of_speech_are_scored_by_accuracy():
    words = {
        "runs": "VERB",
        "walks": "VERB",
        "talks": "VERB",
        "dog": "NOUN",
        "cat": "NOUN",
        "bird": "NOUN",
        "the": "DET",
    }
    rng = random.Random(0)
    rows = []
    for _ in range(60):
        tokens = ["the", rng.choice(["dog", "cat", "bird"]), rng.choice(["runs", "walks", "talks"])]
        rows.append((tokens, [words[token] for token in tokens]))
    model = polyseme.fit("tag", Examples.of(rows), hidden=8, **SMALL)
    assert model.options.letters == 30
    report = model.score(Examples.of(rows))
    assert report.metric == "accuracy"
    assert report.figures == {"accuracy": 1.0}
    assert model.predict(["the cat talks"])[0].tags == ["DET", "NOUN", "VERB"]


def test_what_cannot_be_fitted_is_told(caplog):
    with pytest.raises(TrainingError, match="one tag"):
        polyseme.fit("tag", Examples.of([(["a", "b"], ["O", "O"])] * 3))
    with pytest.raises(OptionError, match="give an encoder"):
        polyseme.fit("tag", Examples.of(tagged(0, 12)), head="taglm")
    dev = Examples.of([(list("他叫"), ["O", "S-NEW"])])
    polyseme.fit("tag", Examples.of(tagged(0, 12)), dev, head="linear", epochs=1, threads=1)
    assert "the tag 'S-NEW' is not in the training sentences (first in sentence 1)" in caplog.text
