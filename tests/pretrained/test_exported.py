"""Models that are trained here and written for other libraries give the same pieces and vectors there."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers
from tiny_transformers import SMALL, TEXTS, save_tiny
from tokenizers import Tokenizer, models

import polyseme
from polyseme.contexts.transformer.files.huggingface import write_huggingface
from polyseme.contexts.transformer.files.word_bpe import with_normalisation
from polyseme.sentences.files.sentence_transformers import write_sentence_transformers
from polyseme.text.corpus import Corpus
from polyseme.text.segment import Segmentation

ODD = ["２０１９年ＮＢＡ", "说：“打，打！”（ｶﾞ①…）", "ＢＩＧ\u3000Cat\u200b\tÅ e\u0301", "\ufeff打\xad开～"]


def lines(fifty_lines) -> list[str]:
    return [f"{line} 2019年 NBA big cat" for line in fifty_lines]


@pytest.fixture(scope="module", params=["bert", "gpt"])
def trained(request, fifty_lines):
    text = Corpus.from_sentences(lines(fifty_lines), segment=Segmentation(case="lower"))
    return polyseme.train(request.param, text, epochs=1, **SMALL)


def states_of(folder, text: str) -> tuple[list[str], np.ndarray]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    network = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        return tokenizer.convert_ids_to_tokens(ids[0]), network(ids).last_hidden_state[0].numpy()


def test_text_is_normalised_there_as_it_is_here(trained, tmp_path):
    write_huggingface(trained, tmp_path / "theirs")
    again = polyseme.load(tmp_path / "theirs")
    for text in ODD:
        found = next(trained.encode_pieces([text], layers="top"))
        pieces, states = states_of(tmp_path / "theirs", text)
        assert found.tokens == pieces
        np.testing.assert_allclose(found.layers[0], states, atol=1e-5)
        opened = next(again.encode_pieces([text], layers="top"))
        assert opened.tokens == pieces
        np.testing.assert_allclose(opened.layers[0], states, atol=1e-5)


def test_sentence_vectors_are_the_same_there(trained, tmp_path):
    write_sentence_transformers(trained, tmp_path / "st")
    found = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu", local_files_only=True)
    expected = [next(trained.encode_pieces([text], layers="top")).layers[0].mean(axis=0) for text in ODD]
    np.testing.assert_allclose(found.encode(ODD), expected, atol=1e-5)
    np.testing.assert_allclose(polyseme.load(tmp_path / "st").encode(ODD), expected, atol=1e-5)


def test_words_have_their_vectors_in_a_folder_that_is_opened_again(trained, tmp_path):
    write_huggingface(trained, tmp_path / "theirs")
    again = polyseme.load(tmp_path / "theirs")
    plain = next(trained.encode_tokens([["2019", "年", "nba"]], layers="top"))
    wide = next(again.encode_tokens([["２０１９", "年", "ＮＢＡ"]], layers="top"))
    np.testing.assert_allclose(wide.layers, plain.layers, atol=1e-5)


@pytest.mark.parametrize("case", ["keep", "lower"])
@pytest.mark.parametrize("form", ["nfkc", "none"])
def test_every_character_is_normalised_alike(form, case):
    segmentation = Segmentation(normalise=form, case=case)
    plain = Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).to_str().encode()
    normaliser = Tokenizer.from_buffer(with_normalisation(plain, segmentation)).normalizer
    points = [*range(0x1C80), *range(0x2000, 0x32FF), *range(0xF900, 0x10000)]  # older than both tables of Unicode
    texts = [f"a{chr(point)}か" for point in points] + ["ΟΔΟΣ ΣΟΦΙΑΣ. Σ", "，\u3099"]
    same = [text if normaliser is None else normaliser.normalize_str(text) for text in texts]
    assert same == [segmentation.normalised(text) for text in texts]


def test_a_script_that_cannot_be_written_is_told(fifty_lines, tmp_path, caplog):
    text = Corpus.from_sentences(fifty_lines, segment=Segmentation(script="simplified"))
    model = polyseme.train("bert", text, epochs=1, **SMALL)
    with caplog.at_level(logging.WARNING):
        write_huggingface(model, tmp_path / "theirs")
    assert [record.message for record in caplog.records] == [
        "the exported tokenizer does not convert text to simplified Chinese, as is done here: convert it first"
    ]


def test_a_tokenizer_without_padding_gets_it_for_sentence_transformers(tmp_path):
    folder = save_tiny("gpt2", tmp_path / "gpt2")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("pad_token")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    encoder = polyseme.load(folder)
    write_sentence_transformers(encoder, tmp_path / "st")
    found = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu", local_files_only=True)
    expected = [next(encoder.encode_pieces([text], layers="top")).layers[0].mean(axis=0) for text in TEXTS]
    np.testing.assert_allclose(found.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(polyseme.load(tmp_path / "st").encode(TEXTS), expected, atol=1e-5)


def test_languages_that_cannot_be_passed_are_told(fifty_lines, tmp_path, caplog):
    files = {"zh": fifty_lines, "en": ["big cats sleep", "small dogs run"] * 10}
    texts = {name: Corpus.from_sentences(text) for name, text in files.items()}
    model = polyseme.train("xlm", texts, objective="mlm", epochs=1, **SMALL)
    with caplog.at_level(logging.WARNING):
        write_huggingface(model, tmp_path / "theirs")
        assert not caplog.records
        write_sentence_transformers(model, tmp_path / "st")
    (told,) = (record.message for record in caplog.records)
    assert told == "sentence-transformers cannot tell the network the language of a text: its vectors will differ"
