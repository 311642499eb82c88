"""BPE over words (XLM, FlauBERT, BioGPT, PhoBERT, CTRL): the pieces that transformers gives with sacremoses.

The expected values were computed by the Python tokenizers of transformers 5.22 with sacremoses 0.2.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import polyseme
from polyseme.contexts.transformer.files.huggingface import read_tokenizer, write_huggingface
from polyseme.errors import FormatError

SPECIALS = ["<s>", "</s>", "<pad>", "<unk>", *(f"<special{n}>" for n in range(10))]
LETTERS = [*map(chr, [*range(0x21, 0x7F), *range(0xA1, 0x180)]), "€", "她", "说", "你", "好"]
SINGLE = [form for letter in LETTERS for form in (letter, f"{letter}</w>")]
MERGES = ["t h", "th e</w>", "e n", "en d</w>", "q u"]
MADE = ["the</w>", "end</w>", "en"]  # th and qu are not in the vocabulary


def word_bpe(folder: Path, name: str, **settings: object) -> Path:
    """The files of XLM, FlauBERT and BioGPT."""
    folder.mkdir(exist_ok=True)
    numbers = {piece: number for number, piece in enumerate([*SPECIALS, *SINGLE, *MADE])}
    (folder / "vocab.json").write_text(json.dumps(numbers), encoding="utf-8")
    (folder / "merges.txt").write_text("".join(f"{merge} 7\n" for merge in MERGES), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name, **settings}))
    return folder


def dictionary(folder: Path, name: str) -> Path:
    """The files of PhoBERT and BERTweet, whose pieces inside of words end with @@."""
    folder.mkdir(exist_ok=True)
    pieces = ["xin", "ch@@", "ào", "c@@", "h@@", "à@@", "o", "x@@", "i@@", "n", "Việt_Nam", "a", "@@", "."]
    (folder / "vocab.txt").write_text("".join(f"{piece} 9\n" for piece in pieces), encoding="utf-8")
    merges = ["c h", "à o</w>", "i n</w>", "x in</w>", "V i", "Vi ệ", "Việ t", "Việt _", "N a", "Na m</w>"]
    merges += ["Việt_ Nam</w>", "@ @</w>"]
    (folder / "bpe.codes").write_text("".join(f"{merge} 5\n" for merge in merges), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    return folder


def words(folder: Path, text: str) -> str:
    """The words that the pieces of a text make."""
    pieces = read_tokenizer(folder)
    return "".join(pieces.names[n] for n in pieces.ids([text])[0]).replace("</w>", " ").replace("<unk>", "? ").strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "I don't know: Mr. Smith's 5,300 friends (in the U.S. and E.U.) paid $3.50 each.",
            "i don 't know : mr. smith 's 5,300 friends ( in the u.s. and e.u. ) paid $ 3.50 each .",
        ),
        ("He said \"no\", then 'yes', and left.", "he said \" no , \" ? en ' yes ' , and left ."),
        (
            "In 1990's slang, 'tis rock'n'roll -- well-known, and/or so!",
            "in 1990 's slang , ' tis rock 'n'roll -- well-known , and / or so !",
        ),
        (
            "Wait... what? No. 5 of Gen. Lee's men, vs. two; etc. It's more.",
            "wait ... what ? no. 5 of gen. lee 's men , vs. two ; etc . it 's more .",
        ),
        ("A boys' team won 3,5,7.", "a boys ' team won 3,5,7 ."),
        ("Café naïveté — “so”… 1990–2000 «it».", 'cafe naivete - " so ... " 1990-2000 " it . "'),
        ("It ended. and went on at 5 p.m. sharp.", "it ended. and went on at 5 p.m. sharp ."),
        ("她说：“你好，world。”", '她 说 : " 你 好 , world . "'),
        ("e-mail: a_b@c.org #tag 50% x=y*2", "e-mail : a _ b @ c.org # tag 50 % x = y * 2"),
        ("He said 'no.'", "he said ' no . '"),
        ("qi \u200bx\u00a05\u00a0000", "qi x 5.000"),
    ],
)
def test_english_is_cut_as_moses_does(text, expected, tmp_path):
    assert words(word_bpe(tmp_path, "XLMTokenizer"), text) == expected


def test_case_and_accents_stay_if_the_settings_say_so(tmp_path):
    folder = word_bpe(tmp_path, "XLMTokenizer", do_lowercase_and_remove_accent=False)
    assert words(folder, "Ça va? She's Zoë; the END.") == "Ça va ? She 's Zoë ; the END ."


def test_tabs_and_line_breaks_separate_words(tmp_path):
    # transformers removes them, so that a and b would be one word.
    assert words(word_bpe(tmp_path, "XLMTokenizer"), "a\tb\r\nc") == "a b c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "L'homme qu'elle aimait s'est arrêté aujourd'hui devant l'église.",
            "L' homme ? ' elle aimait s' est arrêté aujourd' hui devant l' église .",
        ),
        ("« Où vas-tu ? » demanda-t-il à M. Dupont.", '" Où vas-tu ? " demanda-t-il à M. Dupont .'),
        (
            'Elle m\'a dit : "Je ne reviendrai pas." Puis, "non," elle est partie.',
            'Elle m\' a dit : " Je ne reviendrai pas " . Puis , " non " , elle est partie .',
        ),
        ("Il a payé 1\u00a0000 €, soit 35,7 % de plus…", "Il a payé 1,000 € , soit 35,7 % de plus ..."),
        (
            "Voir p. 12, chap. 3 et fig. 4, etc. D'après l'O.N.U., c'est ``vrai''.",
            "Voir p. 12 , chap. 3 et fig. 4 , etc. D' après l' O.N.U. , c' est \" vrai \" .",
        ),
    ],
)
def test_french_is_cut_as_moses_does(text, expected, tmp_path):
    assert words(word_bpe(tmp_path, "FlaubertTokenizer"), text) == expected


def test_french_is_lowered_if_the_settings_say_so(tmp_path):
    folder = word_bpe(tmp_path, "FlaubertTokenizer", do_lowercase=True)
    assert words(folder, "L'État, c'est Moi.") == "l' état , c' est moi ."


def test_biogpt_splits_at_hyphens_and_writes_entities(tmp_path):
    folder = word_bpe(tmp_path, "BioGptTokenizer")
    text = "A TNF-alpha level (p<0.05) didn't change in wild-type mice [3]."
    expected = "A TNF @-@ alpha level ( p &lt; 0.05 ) didn &apos;t change in wild @-@ type mice &#91; 3 &#93; ."
    assert words(folder, text) == expected
    pieces = read_tokenizer(folder)
    assert pieces.pair("a b", "c")[0].tolist() == [1, 143, 145, 1, 147]
    assert pieces.spelt(pieces.ids(["wild-type & it's"])[0]) == "wild-type & it 's"


def test_pieces_that_are_only_merged_further_are_unknown_where_one_remains(tmp_path):
    pieces = read_tokenizer(word_bpe(tmp_path, "XLMTokenizer"))
    assert pieces.tokenizer.encode("the end").ids == [0, 658, 659, 1]
    ids, types = pieces.pair("the end", "quite")
    assert ids.tolist() == [0, 658, 659, 1, 3, 158, 180, 151, 1]  # qu, i, t, e
    assert not types.any()
    assert pieces.ids(["then <special1> qu"])[0].tolist() == [3, 150, 169, 5, 174, 183]
    assert pieces.encoded_pair("the", "then").ids == [0, 658, 1, 3, 150, 169, 1]
    assert len(pieces.names) == 661
    assert {name: pieces.id_of(name) for name in ("unk", "pad", "mask", "cls")} == {
        "unk": 3, "pad": 2, "mask": 5, "cls": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["PhobertTokenizer", "BertweetTokenizer"])
def test_pieces_marked_as_inside_of_words_are_read(name, tmp_path):
    pieces = read_tokenizer(dictionary(tmp_path, name))
    assert pieces.tokenizer.encode("xin chào Việt_Nam .").ids == [0, 4, 5, 6, 14, 17, 2]
    assert pieces.pair("xin", "chào")[0].tolist() == [0, 4, 2, 2, 5, 6, 2]
    odd = pieces.ids(["xinh a ch <mask> @@ nam chcho"])[0].tolist()
    assert odd == [11, 12, 3, 3, 15, 7, 3, 18, 16, 3, 3, 3, 5, 5, 10]
    assert pieces.spelt([4, 5, 6, 14]) == "xin chào Việt_Nam"


def test_a_table_of_pieces_marked_as_inside_of_words_is_read(tmp_path):
    names = ["<unk>", "the", "t@@", "h@@", "e", "en@@", "n", "end", "b@@", "a"]
    (tmp_path / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e</w>\ne n\nen d</w>\n")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CTRLTokenizer"}')
    pieces = read_tokenizer(tmp_path)
    assert pieces.tokenizer.encode("the", "end").ids == [1, 7]
    assert pieces.ids(["the end then ba en th"])[0].tolist() == [1, 7, 0, 0, 6, 8, 9, 0, 6, 2, 0]


def test_tokens_that_were_added_later_have_their_numbers(tmp_path):
    folder = dictionary(tmp_path, "PhobertTokenizer")
    (folder / "added_tokens.json").write_text('{"<mask>": 18, "<e1>": 19}')
    pieces = read_tokenizer(folder)
    assert pieces.ids(["xin<e1> <mask>"])[0].tolist() == [4, 19, 18]
    assert pieces.id_of("mask") == 18


# ---- folders of models


@pytest.fixture
def xlm(tmp_path) -> Path:
    torch.manual_seed(3)
    config = transformers.XLMConfig(vocab_size=661, emb_dim=32, n_layers=2, n_heads=4, max_position_embeddings=64)
    whole = transformers.XLMWithLMHeadModel(config)
    for parameter in whole.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    whole.save_pretrained(tmp_path / "xlm")
    return word_bpe(tmp_path / "xlm", "XLMTokenizer")


def states(folder: Path, ids: list[int]) -> np.ndarray:
    network = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    with torch.inference_mode():
        return torch.stack(network(torch.tensor([ids]), output_hidden_states=True).hidden_states)[:, 0].numpy()


TEXT, IDS = "then the <unk> end", [0, 3, 150, 169, 658, 3, 659, 1]


def test_its_pieces_have_the_states_that_transformers_gives(xlm):
    found = next(polyseme.load(xlm).encode_pieces([TEXT]))
    assert found.tokens == ["<s>", "<unk>", "e", "n</w>", "the</w>", "<unk>", "end</w>", "</s>"]
    np.testing.assert_allclose(found.layers, states(xlm, IDS), atol=1e-5)


def test_it_is_known_by_the_architecture_without_settings_of_the_tokenizer(xlm):
    expected = next(polyseme.load(xlm).encode_pieces([TEXT])).layers
    (xlm / "tokenizer_config.json").unlink()
    np.testing.assert_array_equal(next(polyseme.load(xlm).encode_pieces([TEXT])).layers, expected)


def test_every_word_has_a_vector_wherever_its_marks_go(xlm):
    text = 'He said "no", it\'s… “so” — and left.'
    found = next(polyseme.load(xlm).encode_tokens([text]))
    assert "".join(found.tokens) == text.replace(" ", "")
    assert (found.layers != 0).any(axis=2).all()


def test_it_is_saved_to_equal_vectors(xlm, tmp_path):
    encoder = polyseme.load(xlm)
    encoder.save(tmp_path / "ours")
    again = polyseme.load(tmp_path / "ours")
    for text in (TEXT, "the end. Don't!"):
        expected = next(encoder.encode_pieces([text]))
        found = next(again.encode_pieces([text]))
        assert found.tokens == expected.tokens
        np.testing.assert_array_equal(found.layers, expected.layers)


def test_its_language_model_fills_the_mask_and_has_a_perplexity(xlm):
    encoder = polyseme.load(xlm)
    best = encoder.fill("the [MASK] end", topn=3)[0]
    whole = transformers.XLMWithLMHeadModel.from_pretrained(xlm).eval()
    with torch.inference_mode():
        scores = torch.softmax(whole(torch.tensor([[0, 658, 5, 659, 1]])).logits[0, 2], dim=0)
    assert best[0][1] == pytest.approx(float(scores[14:].max()), rel=1e-4)  # of all but special tokens
    assert len(encoder.substitutes(["the", "end"], 1, topn=3)) == 3
    assert np.isfinite(encoder.perplexity(["then the end"]).perplexity)


def test_a_folder_written_for_transformers_gives_the_same_states_there(xlm, tmp_path):
    encoder = polyseme.load(xlm)
    write_huggingface(encoder, tmp_path / "theirs")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs", local_files_only=True)
    expected = next(encoder.encode_pieces([TEXT])).layers
    np.testing.assert_allclose(states(tmp_path / "theirs", tokenizer(TEXT)["input_ids"]), expected, atol=1e-5)
    again = polyseme.load(tmp_path / "theirs")
    np.testing.assert_allclose(next(again.encode_pieces([TEXT])).layers, expected, atol=1e-6)
    assert again.fill("the [MASK] end") == [
        [(word, pytest.approx(share, rel=1e-3)) for word, share in encoder.fill("the [MASK] end")[0]]
    ]


def test_a_roberta_with_the_tokenizer_of_phobert_opens(tmp_path):
    torch.manual_seed(3)
    config = transformers.RobertaConfig(
        vocab_size=19, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=66, pad_token_id=1, bos_token_id=0, eos_token_id=2, tokenizer_class="PhobertTokenizer",
    )  # fmt: skip
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path)
    dictionary(tmp_path, "PhobertTokenizer")
    (tmp_path / "tokenizer_config.json").unlink()
    encoder = polyseme.load(tmp_path)
    expected = next(encoder.encode_pieces(["xin chào"]))
    assert expected.tokens == ["<s>", "xin</w>", "ch", "ào</w>", "</s>"]
    np.testing.assert_allclose(expected.layers, states(tmp_path, [0, 4, 5, 6, 2]), atol=1e-5)
    write_huggingface(encoder, tmp_path / "theirs")
    found = next(polyseme.load(tmp_path / "theirs").encode_pieces(["xin chào"])).layers
    np.testing.assert_allclose(found, expected.layers, atol=1e-6)
    assert len(encoder.fill("xin [MASK]", topn=2)[0]) == 2


# ---- files that are cut or altered


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("vocab.json", b"", "not JSON"),
        ("vocab.json", b'{"<unk>": 0, "a"', "not JSON"),
        ("vocab.json", b"[1, 2]", "not a table"),
        ("vocab.json", b'{"<unk>": "0"}', "not numbers of pieces"),
        ("vocab.json", b'{"<unk>": -1}', "not numbers of pieces"),
        ("vocab.json", b'{"<unk>": 99999999999}', "not numbers of pieces"),
        ("vocab.json", b'{"\\ud800": 0}', "truncated: .* pieces of 661"),
        ("merges.txt", b"t h 7\nth", "line 2 is not two pieces"),
        ("merges.txt", b"\xff\xfe", "not UTF-8"),
        ("merges.txt", None, "merges.txt cannot be read"),
        ("vocab.json", None, "vocab.json cannot be read"),
        ("added_tokens.json", b'{"<e>": 999999999}', "does not work|truncated"),
        ("special_tokens_map.json", b"[]", "not a table"),
        ("tokenizer_config.json", b'{"tokenizer_class": "XLMTokenizer", "unk_token": "none"}', "pieces and a network"),
        ("tokenizer_config.json", b'{"tokenizer_class": "BertweetTokenizer", "normalization": true}', "tweets"),
    ],
)
def test_files_that_cannot_be_are_refused(name, content, said, xlm):
    if content is None:
        (xlm / name).unlink()
    else:
        (xlm / name).write_bytes(content)
    with pytest.raises(FormatError, match=said) as error:
        polyseme.load(xlm)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "said"), [("vocab.txt", "a piece and its count"), ("bpe.codes", "two pieces")])
def test_lines_that_are_cut_are_refused(name, said, tmp_path):
    folder = dictionary(tmp_path, "PhobertTokenizer")
    content = (folder / name).read_text(encoding="utf-8")
    (folder / name).write_text(content + "cut", encoding="utf-8")
    with pytest.raises(FormatError, match=f"truncated or altered: line .* is not {said}"):
        read_tokenizer(folder)


def test_a_network_without_subwords_is_refused_in_one_line(tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    transformers.CanineModel(transformers.CanineConfig(**sizes, num_hash_buckets=50)).save_pretrained(tmp_path)
    with pytest.raises(FormatError, match="cannot be opened as canine: it has no vocabulary of subwords"):
        polyseme.load(tmp_path)
