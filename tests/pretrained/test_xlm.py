"""Several languages in one Transformer: examples, objectives, and readers that know the language."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from tiny_transformers import SMALL

import polyseme
from polyseme.contexts.transformer.network import TokenBatch
from polyseme.contexts.transformer.options import XlmOptions, with_shape
from polyseme.contexts.transformer.pretrain.xlm import Mixture, Translations, _sources
from polyseme.contexts.transformer.subwords import learn_byte_pairs
from polyseme.contexts.transformer.tokenizer import Cut
from polyseme.data.parallel import Parallel
from polyseme.errors import OptionError
from polyseme.text.corpus import Corpus


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory) -> Parallel:
    """Parallel text in two languages, word for word: a masked word follows only from its translation."""
    random = np.random.default_rng(1)
    rows = random.integers(26, size=(600, 4))
    file = tmp_path_factory.mktemp("parallel") / "pairs.tsv"
    lines = [
        " ".join(chr(97 + n) for n in row) + "\t" + "".join(chr(0x4E00 + 7 * n) for n in row) + "\n"
        for row in rows.tolist()
    ]
    file.write_text("".join(lines), encoding="utf-8")
    return Parallel.read(file)


def test_a_translation_has_its_own_positions_and_every_piece_its_language(dictionary):
    text = Corpus.from_sentences([side for pair in dictionary for side in pair])
    specials = {"unk_token": "<unk>", "eos_token": "</s>"}
    pieces = learn_byte_pairs(text.vocabulary, 100, text.segmentation, specials, single="$A", pair="$A $B", limit=24)
    end = pieces.id_of("eos")
    found = Translations(dictionary, pieces, (0, 1), end=end, length=24, seed=1).example(-1, 0)
    first, second = ([pieces.names.index(sign) for sign in side if sign != " "] for side in dictionary[0])
    assert found.ids.tolist() == [end, *first, end, end, *second, end]
    assert found.positions.tolist() == [*range(6), *range(6)]
    assert found.languages.tolist() == [0] * 6 + [1] * 6
    assert found.words.tolist() == [-1, 0, 1, 2, 3, -1] * 2


def test_languages_are_drawn_by_their_share_to_a_power():
    class Source:
        def __init__(self, n: int) -> None:
            self.n = n

        def n_examples(self, epoch: int) -> int:
            return self.n

        def example(self, epoch: int, number: int) -> int:
            assert 0 <= number < self.n
            return self.n

    shares = [0.9**0.5, 0.1**0.5]  # of 9 : 1 with the exponent 0.5 become 3 : 1
    mixture = Mixture([Source(9000), Source(1000)], shares, batch_size=5, seed=1)
    drawn = Counter(mixture.example(0, number) for number in range(mixture.n_examples(0)))
    assert drawn[9000] / sum(drawn.values()) == pytest.approx(0.75, abs=0.03)
    assert all(len({mixture.example(0, 5 * step + row) for row in range(5)}) == 1 for step in range(50))


def test_a_masked_word_is_told_by_its_translation(dictionary):
    options = {**SMALL, "length": 16, "batch_size": 32, "lr": 1e-2, "translates": "letters-signs", "hold_out": 0.1}
    model = polyseme.train("xlm", {"parallel": dictionary}, objective="tlm", epochs=12, **options)
    assert model.about.curve[-1]["masked_perplexity"] < 9  # 26 where there is nothing to tell it by
    assert model.languages == ["letters", "signs"]
    assert [model.language_of(text) for text in dictionary[0]] == ["letters", "signs"]


def test_texts_are_compared_without_what_all_of_their_language_have_in_common(dictionary, tmp_path):
    options = {**SMALL, "length": 16, "batch_size": 32, "lr": 1e-2, "translates": "letters-signs"}
    model = polyseme.train("xlm", {"parallel": dictionary}, objective="tlm", epochs=4, **options)
    model.save(tmp_path / "m")
    reader = polyseme.lift(polyseme.load(tmp_path / "m"), "sentences")
    sides = [[pair[n] for pair in dictionary] for n in (0, 1)]
    for side, language in zip(sides, model.languages, strict=True):
        raw = np.array([one.layers.mean(axis=(0, 1)) for one in model.encode_tokens(side, language=language)])
        np.testing.assert_allclose(
            reader.encode(side), raw - model.centres[model.languages.index(language)].mean(axis=0), atol=1e-5
        )
        assert np.linalg.norm(reader.encode(side).mean(axis=0)) < 0.1 * np.linalg.norm(raw.mean(axis=0))
    further = polyseme.train(
        "xlm",
        {"letters": Corpus.from_sentences(["a b c", "d e f"] * 20)},
        start=model,
        objective="mlm",
        epochs=1,
        **SMALL,
    )
    np.testing.assert_array_equal(further.centres[1], model.centres[1])  # of signs there was no text
    assert not np.allclose(further.centres[0], model.centres[0])


def test_the_language_of_a_text_can_be_named(dictionary):
    options = {**SMALL, "length": 16, "translates": "letters-signs", "epochs": 1}
    model = polyseme.train("xlm", {"parallel": dictionary}, objective="mlm+tlm", **options)
    guessed, named, other = (
        next(model.encode_tokens(["a b c"], language=language)).layers for language in (None, "letters", "signs")
    )
    np.testing.assert_array_equal(guessed, named)
    assert not np.allclose(named, other)
    with pytest.raises(OptionError, match="there is no language"):
        model.encode_tokens(["a"], language="latin")


def test_xlm_predicts_the_next_piece_of_each_language(dictionary, corpus):
    options = {**SMALL, "epochs": 1, "objective": "clm"}
    model = polyseme.train(
        "xlm", {"zh": corpus, "en": Corpus.from_sentences(["It rains again today."] * 40)}, **options
    )
    assert model.language == "causal"
    assert model.about.curve[-1]["perplexity"] > 1
    with pytest.raises(OptionError, match="parallel"):
        polyseme.train("xlm", {"zh": corpus}, **{**options, "objective": "tlm"})


def test_pairs_that_are_held_out_are_in_no_text_to_learn_from(dictionary):
    options = with_shape(XlmOptions(objective="mlm+tlm", translates="en-zh", hold_out=0.2))
    (learned, kept), texts = _sources({"parallel": dictionary}, options)
    assert len(kept) == 120
    for number, name in enumerate(("en", "zh")):
        known = {"".join(sentence) for sentence in texts[name]}
        sides = [{pair[number].replace(" ", "") for pair in pairs} for pairs in (learned, kept)]
        assert known == sides[0]
        assert sides[1] - sides[0]
        assert known.isdisjoint(sides[1] - sides[0])


@pytest.fixture(scope="module")
def bilingual(corpus):
    english = Corpus.from_sentences(["It rains again today.", "The sun shines on us all."] * 20)
    return polyseme.train("xlm", {"zh": corpus, "en": english}, objective="mlm", epochs=1, **SMALL)


def test_every_reader_of_xlm_knows_the_language_of_a_text(bilingual):
    """Fine-tuning, pairs and predictions read a text in its language, as ``encode_tokens`` does."""
    sentences = [["It", "rains", "again"], ["The", "sun", "shines", "on", "us"]]
    tuned = bilingual.tuned()
    with torch.no_grad():
        layers = tuned.network.eval()(*tuned.read(sentences)).numpy()
    for row, encoded in enumerate(bilingual.encode_tokens(sentences, language="en")):
        np.testing.assert_allclose(
            layers[row, : len(sentences[row])], encoded.layers.transpose(1, 0, 2), atol=2e-5, rtol=1e-4
        )
    ids = torch.tensor([bilingual.pieces.ids(["It rains again today."])[0].tolist()])
    english = torch.ones_like(ids)  # its number
    found, given = (bilingual.network.top(TokenBatch(ids, languages=languages)) for languages in (None, english))
    torch.testing.assert_close(found, given)
    assert not torch.allclose(found, bilingual.network.top(TokenBatch(ids, languages=0 * ids)))


def test_a_piece_of_several_words_belongs_to_each_of_them(bilingual, monkeypatch):
    def overlapping(cut, spans, bare):  # every word shares a piece with the next one
        return np.array([[word, min(word + 2, len(cut.ids))] for word in range(len(spans))])

    monkeypatch.setattr(Cut, "words", overlapping)
    sentences = [["It", "rains", "again", "today", "."]]
    tuned = bilingual.tuned()
    *_, subwords, words, counts = tuned.read(sentences)
    assert len(set(subwords.tolist())) < len(subwords)
    assert torch.bincount(words, minlength=counts.numel()).tolist() == counts.flatten().tolist()
    with torch.no_grad():
        layers = tuned.network.eval()(*tuned.read(sentences)).numpy()
    encoded = next(bilingual.encode_tokens(sentences)).layers
    np.testing.assert_allclose(layers[0], encoded.transpose(1, 0, 2), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("method", "more"), [("xlm", {"objective": "mlm"}), ("gpt", {"norm": "post"})])
def test_a_width_that_the_network_cannot_have_is_refused(method, more, corpus):
    data = {"zh": corpus} if method == "xlm" else corpus
    with pytest.raises(OptionError, match="leave inner out"):
        polyseme.train(method, data, **{**SMALL, "inner": 17, **more})
