"""Training Transformers: pieces, masks, pairs and streams as the papers say, and what is learned runs elsewhere."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers

import polyseme
from polyseme.contexts.bert.options import BertOptions
from polyseme.contexts.bert.train import make_task
from polyseme.contexts.transformer.examples import PairExamples, StreamExamples, truncated
from polyseme.contexts.transformer.files.huggingface import write_huggingface
from polyseme.contexts.transformer.learn import learn_byte_pairs, learn_wordpieces
from polyseme.contexts.transformer.masking import Masking
from polyseme.contexts.transformer.network import Batch
from polyseme.contexts.transformer.pieces import Cut
from polyseme.contexts.transformer.shape import with_shape
from polyseme.contexts.transformer.start import bert_config, fresh, look_at_neighbours
from polyseme.contexts.transformer.streams import PieceCorpus, PieceTable, Stretch, split
from polyseme.contexts.xlm.examples import Mixture, Translations
from polyseme.errors import OptionError, PolysemeError
from polyseme.text.corpus import Corpus
from polyseme.text.parallel import Parallel
from polyseme.training.task import Part

SMALL = {
    "dim": 32, "n_layers": 2, "n_heads": 2, "max_size": 200, "length": 32, "batch_size": 16, "threads": 1, "seed": 1,
}  # fmt: skip
GPT_SPECIALS = {"unk_token": "<unk>", "eos_token": "</s>"}


@pytest.fixture(scope="module")
def corpus(fifty_lines) -> Corpus:
    return Corpus.from_sentences(fifty_lines)


@pytest.fixture(scope="module")
def table(corpus) -> PieceTable:
    return PieceTable(corpus, learn_wordpieces(corpus.vocabulary, 200, corpus.segmentation, limit=32))


# ---- pieces


def test_the_pieces_of_a_word_are_those_it_has_in_running_text(corpus):
    words = Corpus.from_sentences(["The learner learns, learning 学习 3.14 don't U.S.A. 天气！"] * 3)
    for pieces in (
        learn_wordpieces(words.vocabulary, 80, words.segmentation, limit=32),
        learn_byte_pairs(words.vocabulary, 80, words.segmentation, GPT_SPECIALS, single="$A", pair="$A $B", limit=32),
    ):
        text = pieces.ids([words.text(0)])[0].tolist()
        alone = [number for ids in pieces.ids(words.sentence(0)) for number in ids.tolist()]
        assert text == alone
        assert pieces.id_of("unk") not in text


def test_byte_pairs_join_the_most_frequent_pair_first():
    # Sennrich et al. 2016: low ×5, lowest ×2, newer ×6, wider ×3: "e r" (9) first, then "n e" … among (6).
    words = Corpus.from_sentences([["low"] * 5 + ["lowest"] * 2 + ["newer"] * 6 + ["wider"] * 3])
    pieces = learn_byte_pairs(
        words.vocabulary, 100, words.segmentation, GPT_SPECIALS, single="$A", pair="$A $B", limit=9
    )
    counts = Counter()
    for word, n in (("low", 5), ("lowest", 2), ("newer", 6), ("wider", 3)):
        signs = [word[0], *("##" + c for c in word[1:])]
        for pair in pairwise(signs):
            counts[pair] += n
    assert max(counts.values()) == counts["##e", "##r"] == 9
    single = len({sign for pair in counts for sign in pair}) + len(GPT_SPECIALS)
    assert pieces.names[single] == "##er"
    assert "newer" in pieces.names


# ---- masks


def masking(unit: str, share: float = 0.15) -> Masking:
    return Masking(unit, share, 0.8, 0.9, mask=4, ordinary=np.arange(5, 1005))


def test_eighty_per_cent_are_masked_ten_stay_and_ten_become_any_piece():
    random = np.random.default_rng(0)
    ids = np.full(100_000, 7)
    shown = masking("token").replaced(ids, random)
    assert (shown == 4).mean() == pytest.approx(0.8, abs=0.01)
    assert (shown == 7).mean() == pytest.approx(0.1, abs=0.005)
    others = shown[(shown != 4) & (shown != 7)]
    assert len(others) / len(ids) == pytest.approx(0.1, abs=0.005)
    assert set(others) <= set(range(5, 1005))
    assert len(set(others.tolist())) > 990


@pytest.mark.parametrize("unit", ["token", "word", "ngram"])
def test_fifteen_per_cent_of_the_pieces_are_chosen_and_no_special_one(unit):
    words = np.array([-1, *np.repeat(np.arange(40), [1, 2, 3, 1] * 10), -1])  # 72 pieces with both special ones
    chosen = [masking(unit).choose(words, len(words), np.random.default_rng(seed)) for seed in range(300)]
    assert all((words[places] >= 0).all() for places in chosen)
    assert max(map(len, chosen)) == 11  # round(0.15 · 72)
    assert np.mean([len(places) for places in chosen]) > 10.5
    assert len({tuple(places) for places in chosen}) > 250


def test_whole_words_are_masked_or_left_whole():
    words = np.array([-1, *np.repeat(np.arange(40), [1, 2, 3, 1] * 10), -1])
    sizes = Counter(words.tolist())
    for seed in range(200):
        found = Counter(words[masking("word").choose(words, len(words), np.random.default_rng(seed))].tolist())
        assert all(n == sizes[word] for word, n in found.items())


def test_a_word_longer_than_what_may_be_masked_is_masked_in_part():
    places = masking("word").choose(np.array([-1, *[0] * 20, -1]), 22, np.random.default_rng(1))
    assert len(places) == 3


def test_ngrams_have_one_to_three_words_by_their_inverse():
    words = np.arange(600)
    runs: Counter[int] = Counter()
    for seed in range(100):
        places = masking("ngram", 0.02).choose(words, 600, np.random.default_rng(seed))
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            runs[min(len(run), 4)] += 1
    total = sum(runs.values())
    assert runs[1] / total == pytest.approx(6 / 11, abs=0.06)  # 1 : 1/2 : 1/3
    assert runs[2] / total == pytest.approx(3 / 11, abs=0.06)


def test_chinese_words_are_masked_as_the_corpus_cuts_them(corpus, table):
    stretch = PieceCorpus(table, np.arange(len(corpus))).sentences_between(0, 1)
    names = learn_wordpieces(corpus.vocabulary, 200, corpus.segmentation, limit=32).names
    spelt = ["".join(names[n] for n in stretch.ids[stretch.words == word]) for word in range(stretch.words.max() + 1)]
    assert spelt == corpus.sentence(0)


@pytest.mark.parametrize("mask_as", ["80/10", "80/10/20", "a/b/c", "-10/100/10"])
def test_shares_that_are_none_are_refused(mask_as, corpus):
    with pytest.raises(OptionError, match="mask_as"):
        polyseme.train("bert", corpus, mask_as=mask_as, **SMALL)


# ---- examples


def test_streams_cover_the_text_once_in_every_epoch(corpus, table):
    text = PieceCorpus(table, np.arange(len(corpus)))
    examples = StreamExamples(text, room=30, before=[2], behind=[3], seed=1)
    whole = Counter(text.stretch(0, text.n_pieces).ids.tolist())
    for epoch in range(3):
        found = [examples.example(epoch, n) for n in range(examples.n_examples(epoch))]
        seen = Counter(number for example in found for number in example.ids[1:-1].tolist())
        assert seen == whole or sum(seen.values()) - sum(whole.values()) == examples.n_examples(epoch) * 30 - sum(
            whole.values()
        )
        assert all(seen[number] >= n for number, n in whole.items())
        assert all(example.ids[0] == 2 and example.ids[-1] == 3 for example in found)
    starts = [tuple(examples.example(epoch, 0).ids) for epoch in range(3)]
    assert len(set(starts)) == 3


def test_pairs_are_of_one_document_or_of_two(fifty_lines):
    documents = Corpus.from_sentences([f"{line}" for line in fifty_lines * 4])
    documents.document_offsets = np.arange(0, 201, 10)  # twenty documents of ten sentences
    documents.__dict__.pop("sentence_documents", None)
    pieces = learn_wordpieces(documents.vocabulary, 200, documents.segmentation, limit=64)
    text = PieceCorpus(PieceTable(documents, pieces), np.arange(200))
    labels = []
    for epoch in range(3):
        examples = PairExamples(text, kind="nsp", room=60, cls=2, sep=3, seed=1)
        for n in range(examples.n_examples(epoch)):
            (a_first, a_last), (b_first, b_last), label = examples._plan(epoch)[n]
            same = documents.sentence_documents[a_first] == documents.sentence_documents[b_first]
            assert a_first < a_last
            assert b_first < b_last
            assert (b_first == a_last and same) if label == 0 else not same
            example = examples.example(epoch, n)
            assert len(example.ids) <= 63
            assert example.ids[0] == 2
            assert (example.ids == 3).sum() == 2
            assert example.types.tolist() == sorted(example.types.tolist())
            labels.append(label)
    assert 0.4 < np.mean(labels) < 0.75


def test_of_pairs_in_order_half_are_swapped(table, corpus):
    examples = PairExamples(PieceCorpus(table, np.arange(len(corpus))), kind="sop", room=40, cls=2, sep=3, seed=1)
    swapped = [n for n in range(examples.n_examples(0)) if examples._plan(0)[n][2] == 1]
    assert 0.25 < len(swapped) / examples.n_examples(0) < 0.75
    (a_first, a_last), (_, b_last), _ = examples._plan(0)[swapped[0]]
    example = examples.example(0, swapped[0])
    size = examples.text.offsets[b_last] - examples.text.offsets[a_first]
    if size <= 40:
        behind = examples.text.sentences_between(a_first, a_last).ids
        assert example.ids[example.types == 1][:-1].tolist() == behind.tolist()


@pytest.mark.parametrize(("n_a", "n_b", "room"), [(10, 5, 20), (30, 5, 20), (5, 30, 20), (30, 28, 21), (1, 40, 7)])
def test_the_longer_side_is_cut_as_bert_cuts_it(n_a, n_b, room):
    a, b = n_a, n_b
    while a + b > room:  # truncate_seq_pair of google-research/bert
        a, b = (a - 1, b) if a > b else (a, b - 1)
    rows = [Stretch(np.arange(n), np.arange(n)) for n in (n_a, n_b)]
    found = truncated(*rows, room, np.random.default_rng(1))
    assert sorted(len(part.ids) for part in found) == sorted([a, b])
    assert all((np.diff(part.ids) == 1).all() for part in found)


def test_held_out_sentences_are_whole_documents_and_not_trained_on(table, corpus):
    training, held_out = split(table, 0.1, seed=1)
    assert sorted([*training, *held_out]) == list(range(len(corpus)))
    assert 0 < table.sentence_sizes[held_out].sum() <= 0.1 * table.sentence_sizes.sum() + table.sentence_sizes.max()


def test_long_documents_leave_room_for_others_among_the_held_out():
    """A document of a quarter of what is held out, or more, would be nearly all of it."""
    lines = [["a b c d"] * (400 if n % 2 else 4) for n in range(40)]
    corpus = Corpus.from_sentences(["\n".join(document) for document in lines], documents="line")
    table = PieceTable(corpus, learn_wordpieces(corpus.vocabulary, 50, corpus.segmentation, limit=32))
    for seed in range(5):
        _, held_out = split(table, 0.02, seed=seed)
        assert len(set(corpus.sentence_documents[held_out].tolist())) > 4


# ---- what is learned


@pytest.fixture(scope="module")
def shuffled(fifty_lines) -> Corpus:
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(50), 4))
    return Corpus.from_sentences([fifty_lines[n] for n in order])


@pytest.fixture(scope="module")
def bert():
    """A BERT trained on lines that repeat one character: a masked character follows from its context."""
    signs = "春夏秋冬东南西北金木水火土天地人"
    order = np.random.default_rng(1).integers(len(signs), size=200)
    text = Corpus.from_sentences([[signs[n]] * 40 for n in order])
    return polyseme.train("bert", text, epochs=4, pairs="none", hold_out=0.1, **{**SMALL, "lr": 1e-2})


@pytest.fixture(scope="module")
def gpt(shuffled):
    return polyseme.train("gpt", shuffled, epochs=12, lr=5e-3, hold_out=0.1, **SMALL)


def test_bert_learns_to_tell_masked_pieces(bert):
    last = bert.about.curve[-1]
    assert last["masked_perplexity"] < 4  # by the frequencies of the signs alone it is 16
    assert last["masked_accuracy"] > 0.7
    (found,) = bert.fill("水水水水水[MASK]水水水水", topn=3)
    assert found[0][0] == "水"


def test_positions_that_fill_up_a_batch_change_nothing(corpus):
    """The loss is that of transformers, whatever the number of masked pieces; the head sees few different sizes."""
    options = with_shape(BertOptions(size="tiny", n_layers=1, max_size=200, length=32, batch_size=8, pairs="none"))
    pieces = learn_wordpieces(corpus.vocabulary, 200, corpus.segmentation, limit=32)
    network = fresh(transformers.BertForMaskedLM, bert_config(pieces, options), 1)
    task = make_task(network, pieces, corpus, options)
    sizes = set()
    network.whole.cls.register_forward_hook(lambda module, given, told: sizes.add(told.shape[-2]))
    for index in range(task.n_steps(0)):
        loss, n = task.loss(0, index, Part(0, 1))
        last = min((index + 1) * 8, task.examples.n_examples(0))
        masked = task._masked(task.examples, 0, range(index * 8, last))
        labels = torch.full(masked.batch.ids.shape, -100)
        labels[masked.rows[:n], masked.places[:n]] = masked.targets[:n]
        assert int((labels >= 0).sum()) == n
        wanted = network.whole(input_ids=masked.batch.ids, attention_mask=masked.batch.mask, labels=labels).loss
        assert loss.item() / n == pytest.approx(wanted.item(), rel=1e-5)
    assert {size for size in sizes if size != masked.batch.ids.shape[1]} <= {64, 128}


@pytest.mark.parametrize(("dim", "heads"), [(256, 4), (96, 3)])
def test_the_heads_of_a_new_bert_begin_at_the_words_next_to_each(dim, heads):
    config = transformers.BertConfig(
        vocab_size=500, hidden_size=dim, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=64,
        max_position_embeddings=64, initializer_range=dim**-0.5, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(1)
    bert = transformers.BertModel(config).eval()
    look_at_neighbours(bert)
    with torch.no_grad():
        weights = bert(torch.randint(500, (4, 64)), output_attentions=True).attentions[0]
    for head, offset in zip(range(heads), (-1, 1, -2, 2), strict=False):
        told = weights[:, head].mean(dim=0)
        assert told.diagonal(offset).mean() > 8 / 64  # a random head gives every place 1 / 64
        places = [t for t in range(64) if 0 <= t + offset < 64]
        assert np.mean([int(told[t].argmax()) == t + offset for t in places]) > 0.9


def test_gpt_learns_to_go_on(gpt):
    first, last = gpt.about.curve[0], gpt.about.curve[-1]
    assert last["perplexity"] < first["perplexity"] / 3
    assert gpt.language == "causal"
    assert "公园" in gpt.generate("小明打电话给朋友，说明天", 6, temperature=0)


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_what_is_trained_here_gives_the_same_in_transformers(name, request, tmp_path):
    model = request.getfixturevalue(name)
    write_huggingface(model, tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf", local_files_only=True)
    network = transformers.AutoModel.from_pretrained(tmp_path / "hf", local_files_only=True).eval()
    text = "小明在学校打篮球，打得很高兴。"
    found = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        states = network(found["input_ids"], output_hidden_states=True).hidden_states
    expected = next(model.encode_pieces([text]))
    assert tokenizer.convert_ids_to_tokens(found["input_ids"][0]) == expected.tokens
    np.testing.assert_allclose(torch.stack(states)[:, 0], expected.layers, atol=1e-5)


@pytest.mark.parametrize("pairs", ["nsp", "sop"])
def test_pairs_are_judged_beside_the_masks(pairs, corpus):
    model = polyseme.train("bert", corpus, epochs=1, pairs=pairs, hold_out=0.3, **SMALL)
    assert 0 <= model.about.curve[-1]["pair_accuracy"] <= 1
    assert type(model.network.whole).__name__ == "BertForPreTraining"


@pytest.mark.parametrize("name", ["roberta", "electra", "gpt2"])
def test_published_models_are_trained_further_with_a_fresh_head_where_they_have_none(name, folders, corpus):
    method = "gpt" if name == "gpt2" else "bert"
    start = polyseme.load(folders(name))
    before = next(start.encode_tokens(["打电话"])).layers
    options = {"pairs": "none"} if method == "bert" else {}
    model = polyseme.train(method, corpus, start=start, epochs=1, **{**SMALL, **options})
    assert model.network.whole.config.model_type == start.network.whole.config.model_type
    assert model.pieces.names == start.pieces.names
    assert model.language == ("causal" if method == "gpt" else "masked")
    assert not np.allclose(next(model.encode_tokens(["打电话"])).layers, before)
    np.testing.assert_array_equal(next(start.encode_tokens(["打电话"])).layers, before)


def test_a_causal_model_is_not_trained_further_as_a_masked_one(gpt, corpus, folders):
    for start in (gpt, polyseme.load(folders("gpt2"))):
        with pytest.raises(PolysemeError) as error:
            polyseme.train("bert", corpus, start=start, **SMALL)
        assert "\n" not in str(error.value)


def test_pieces_of_another_model_may_be_taken(corpus, folders):
    model = polyseme.train("bert", corpus, tokenizer=str(folders("bert")), epochs=1, pairs="none", **SMALL)
    assert model.pieces.names == polyseme.load(folders("bert")).pieces.names


def test_the_sizes_are_those_that_are_published():
    base = with_shape(BertOptions(size="base"))
    assert (base.n_layers, base.dim, base.n_heads, base.inner) == (12, 768, 12, 3072)
    mini = with_shape(BertOptions(size="mini", n_heads=8))
    assert (mini.n_layers, mini.dim, mini.n_heads, mini.inner) == (4, 256, 8, 1024)
    with pytest.raises(OptionError, match="do not divide"):
        with_shape(BertOptions(dim=30, n_heads=4))


# ---- several languages


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
    found, given = (bilingual.network.top(Batch(ids, languages=languages)) for languages in (None, english))
    torch.testing.assert_close(found, given)
    assert not torch.allclose(found, bilingual.network.top(Batch(ids, languages=0 * ids)))


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
