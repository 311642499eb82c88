"""What a language model expects: probabilities, perplexities and texts that transformers' own networks give."""

from __future__ import annotations

import json
import math
import shutil
import sys

import numpy as np
import pytest
import torch
import transformers

import polyseme
from polyseme.cli.main import main
from polyseme.errors import OptionError
from polyseme.search import build_index
from polyseme.text.corpus import Corpus

TEXT = "他打了个电话，说明天去公园。"


def theirs(folder, cls):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return tokenizer, cls.from_pretrained(folder, local_files_only=True).eval()


@pytest.mark.parametrize("name", ["bert", "roberta", "albert", "distilbert"])
def test_a_mask_is_filled_with_the_probabilities_of_the_network(name, folders):
    model = polyseme.load(folders(name))
    tokenizer, network = theirs(folders(name), transformers.AutoModelForMaskedLM)
    ids = tokenizer(f"他打了个{tokenizer.mask_token}话", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        expected = network(ids).logits[0, ids[0] == tokenizer.mask_token_id][0].softmax(-1)
    (found,) = model.fill("他打了个[MASK]话", topn=3)
    ranked = expected.argsort(descending=True).tolist()  # the network has rows that no piece belongs to
    kept = [n for n in ranked if n not in tokenizer.all_special_ids and n < len(tokenizer)][:3]
    assert model.language == "masked"
    np.testing.assert_allclose([p for _, p in found], expected[kept], rtol=1e-4)


@pytest.mark.parametrize("text", ["Deep {} works", "{} learning", "Deep {} {} well", "Deep{}", "电话 {}话"])
def test_a_mask_that_takes_the_space_before_it_is_read_as_transformers_does(text, folders, tmp_path):
    shutil.copytree(folders("roberta"), tmp_path / "m")
    record = json.loads((tmp_path / "m/tokenizer.json").read_text())
    for token in record["added_tokens"]:
        token["lstrip"] = token["content"] == "<mask>"  # as in RoBERTa and XLM-R
    (tmp_path / "m/tokenizer.json").write_text(json.dumps(record))
    tokenizer, network = theirs(tmp_path / "m", transformers.AutoModelForMaskedLM)
    ids = tokenizer(text.replace("{}", "<mask>"), return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        expected = network(ids).logits[0, ids[0] == tokenizer.mask_token_id].softmax(-1)
    kept = [n for n in range(len(tokenizer)) if n not in tokenizer.all_special_ids]
    expected = expected[:, kept].max(dim=1).values
    model = polyseme.load(tmp_path / "m")
    for mask in ("[MASK]", "<mask>"):
        found = [answers[0][1] for answers in model.fill(text.replace("{}", mask), topn=1)]
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_null_character_is_no_mask(folders):
    model = polyseme.load(folders("bert"))
    with pytest.raises(OptionError, match="mark the position"):
        model.fill("他\0打")
    assert len(model.fill("他\0打[MASK]")) == 1


def test_substitutes_have_the_pieces_of_the_word_and_do_not_look_at_it(folders):
    model = polyseme.load(folders("bert"))
    found = model.substitutes(["他", "打", "了", "个", "电话"], 4, topn=20)
    other = model.substitutes(["他", "打", "了", "个", "公园"], 4, topn=20)
    assert len(found) == 20
    assert dict(found) == pytest.approx(dict(other), rel=1e-4)
    assert found == sorted(found, key=lambda pair: -pair[1])
    # Two masks, the left one filled first: p(a | _, _) · p(b | a, _), by transformers.
    tokenizer, network = theirs(folders("bert"), transformers.AutoModelForMaskedLM)
    word, probability = next((word, p) for word, p in found if word == "".join(c for c in word if c > "\u2e80"))
    first, second = word
    ids = tokenizer("他打了个[MASK][MASK]", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        p = network(ids).logits[0, 5].softmax(-1)[tokenizer.convert_tokens_to_ids(first)]
        ids[0, 5] = tokenizer.convert_tokens_to_ids(first)
        p *= network(ids).logits[0, 6].softmax(-1)[tokenizer.convert_tokens_to_ids(second)]
    assert probability == pytest.approx(float(p), rel=1e-3)


def test_the_perplexity_of_a_masked_model_masks_every_piece_in_turn(folders):
    model = polyseme.load(folders("bert"))
    tokenizer, network = theirs(folders("bert"), transformers.AutoModelForMaskedLM)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"][0]
    losses = []
    with torch.inference_mode():
        for place in range(1, len(ids) - 1):
            masked = ids.clone()
            masked[place] = tokenizer.mask_token_id
            losses.append(-float(network(masked[None]).logits[0, place].log_softmax(-1)[ids[place]]))
    found = model.perplexity([TEXT])
    assert found.perplexity == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
    assert found.bits_per_character == pytest.approx(sum(losses) / math.log(2) / len(TEXT), rel=1e-4)
    assert (found.tokens, found.sentences) == (len(ids) - 2, 1)


@pytest.mark.parametrize("name", ["gpt2", "openai-gpt", "llama4"])
def test_the_perplexity_of_a_causal_model_is_that_of_its_loss(name, folders):
    model = polyseme.load(folders(name))
    tokenizer, network = theirs(folders(name), transformers.AutoModelForCausalLM)
    texts = [TEXT, "Deep learning works"]
    total = n = 0.0
    with torch.inference_mode():
        for text in texts:
            ids = tokenizer(text, return_tensors="pt")["input_ids"]
            total += float(network(ids, labels=ids).loss) * (ids.shape[1] - 1)
            n += ids.shape[1] - 1
    assert model.language == "causal"
    assert model.perplexity(texts).perplexity == pytest.approx(math.exp(total / n), rel=1e-4)


def test_a_long_text_has_a_perplexity_over_all_its_pieces(folders):
    model = polyseme.load(folders("gpt2"))
    long = "learning " * 100
    assert model.perplexity([long]).tokens == len(model.pieces.ids([long])[0]) - 1


def test_a_causal_model_goes_on_as_transformers_does(folders):
    model = polyseme.load(folders("gpt2"))
    tokenizer, network = theirs(folders("gpt2"), transformers.AutoModelForCausalLM)
    ids = tokenizer("Deep learning", return_tensors="pt")["input_ids"]
    made = network.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=1)[0]
    new = tokenizer.decode(made[ids.shape[1] :], skip_special_tokens=True)
    continued = model.generate("Deep learning", 12, temperature=0)  # the prompt stays as it was given
    assert continued.startswith("Deep learning")
    assert continued.removeprefix("Deep learning").replace(" ", "") == new.replace(" ", "")


def test_what_is_drawn_follows_from_the_seed_and_may_be_longer_than_the_network_reads(folders):
    model = polyseme.load(folders("gpt2"))
    settings = {"length": 150, "top_k": 20, "top_p": 0.9, "temperature": 0.8}
    first, again, other = (model.generate("Deep", **settings, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(model.pieces.ids([first])[0]) > 64  # it has 64 positions


def test_substitutes_of_a_causal_model_make_what_follows_likely(folders):
    model = polyseme.load(folders("gpt2"))
    words = ["Deep", "learning", "works", "well"]
    found = model.substitutes(words, 2, topn=64)
    tokenizer, network = theirs(folders("gpt2"), transformers.AutoModelForCausalLM)
    pieces = len(model.pieces.ids([" works"])[0])
    assert pieces == 1
    left, right = tokenizer("Deep learning")["input_ids"], tokenizer(" well")["input_ids"]
    with torch.inference_mode():
        before = network(torch.tensor([left])).logits[0, -1].log_softmax(-1)
        scores = {}
        for word, _ in found[:2]:
            scores[word] = -math.inf
            for number in (n for n in range(len(tokenizer)) if tokenizer.decode([n]).strip() == word):
                after = network(torch.tensor([[*left, number, *right]])).logits[0].log_softmax(-1)
                behind = sum(float(after[len(left) + k, piece]) for k, piece in enumerate(right))
                scores[word] = max(scores[word], float(before[number]) + behind)
    best, second = found[0], found[1]
    assert math.log(best[1] / second[1]) == pytest.approx(scores[best[0]] - scores[second[0]], abs=0.02)


@pytest.mark.parametrize("name", ["roberta", "gpt2"])
def test_a_word_longer_than_the_network_reads_has_substitutes_too(name, folders):
    found = polyseme.load(folders(name)).substitutes(["Deep", "x" * 2000, "works"], 1, topn=3)
    assert len(found) == 3
    assert all(0 <= p <= 1 for _, p in found)


def test_an_encoder_without_a_head_is_no_language_model(folders):
    model = polyseme.load(folders("electra"))
    assert model.language is None
    with pytest.raises(OptionError, match="not a language model"):
        model.fill("他[MASK]")


def test_wrong_questions_get_one_line(folders):
    masked, causal = polyseme.load(folders("bert")), polyseme.load(folders("gpt2"))
    for ask in (
        lambda: masked.fill("没有"),
        lambda: masked.fill("[MASK]", topn=0),
        lambda: masked.substitutes(["他"], 5),
        lambda: masked.generate("他"),
        lambda: causal.fill("[MASK] [MASK]"),
        lambda: causal.generate("Deep", top_p=0),
    ):
        with pytest.raises(OptionError) as error:
            ask()
        assert "\n" not in str(error.value)


def test_the_command_shows_what_is_expected_in_the_place(folders, capsys):
    folder = str(folders("bert"))
    (expected,) = polyseme.load(folder).fill("他打了个[MASK]。", topn=2)
    sys.argv = ["polyseme", "fill", folder, "他打了个[MASK]。", "-n", "2", "--json"]
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    shown = json.loads(capsys.readouterr().out)
    assert [[answer["word"] for answer in answers] for answers in shown] == [[word for word, _ in expected]]


def test_senses_are_labelled_by_what_a_masked_model_expects(folders, fifty_lines, tmp_path):
    corpus = Corpus.from_sentences(fifty_lines, tmp_path / "corpus")
    index = build_index(polyseme.load(folders("bert")), corpus, tmp_path / "index")
    senses = index.senses("打")
    assert senses.count == sum(line.count("打") for line in fifty_lines if "打" in corpus.segmentation.tokens(line))
    assert all(sense.substitutes for sense in senses.senses)


@pytest.mark.parametrize(("name", "text"), [("bert", TEXT), ("gpt2", "Deep learning works")])
def test_the_surprisals_of_words_make_up_that_of_their_text(name, text, folders):
    model = polyseme.load(folders(name))
    words = model.tokenize(text)
    (found,) = model.surprisals([words])
    whole = model.perplexity([words])
    assert len(found) == len(words)
    assert found.sum() == pytest.approx(math.log(whole.perplexity) * whole.tokens, rel=1e-4)
