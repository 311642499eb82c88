"""CoVe against plain torch, hand-made searches and its published layout."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from sacrebleu.metrics import BLEU
from torch import nn

import polyseme
from polyseme.cli.main import polyseme as commands
from polyseme.contexts.cove.network import Decoder, Translator, translated
from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.target_vocabulary import BOUNDARY, UNKNOWN
from polyseme.contexts.stack import Stack
from polyseme.contexts.static import StaticEncoder
from polyseme.data.parallel import Parallel
from polyseme.errors import FormatError, OptionError
from polyseme.evaluate.kinds import evaluate_file
from polyseme.neural.batches import Packing, mask_of
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

ENGLISH = ["i", "you", "she", "they"]
CHINESE = ["我", "你", "她", "伊"]
VERBS = [("see", "看"), ("love", "爱"), ("help", "帮")]
SMALL = {"dim": 24, "hidden": 32, "min_count": 1, "threads": 1, "batch_tokens": 120, "negative": 0}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Parallel:
    people = list(zip(ENGLISH, CHINESE, strict=True))
    rows = [
        (f"{a} {v} {b} .", f"{x}{w}{y}。") for (a, x), (b, y) in itertools.product(people, people) for v, w in VERBS
    ]
    file = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    return Parallel.read(file, segment=("space", "char"))


@pytest.fixture(scope="module")
def model(pairs):
    return polyseme.train("cove", pairs, epochs=50, lr=0.02, dropout=0.0, hold_out=0.0, patience=0, **SMALL)


def test_its_layers_are_those_of_torchs_bidirectional_lstm(model):
    (found,) = model.encode_tokens([["i", "see", "you", "."]])
    plain = nn.LSTM(24, 32, num_layers=2, bidirectional=True, batch_first=True)
    weights = {
        name.replace("_l0", f"_l{number}"): tensor
        for number, layer in enumerate(model.network.encoder.layers)
        for name, tensor in layer.rnn.state_dict().items()
    }
    plain.load_state_dict(weights)
    x = model.network.table[torch.tensor([model.source_words.numbers(["i", "see", "you", "."])])]
    np.testing.assert_allclose(found.layers[2], plain(x)[0][0].detach(), atol=1e-5)
    np.testing.assert_allclose(found.layers[0][:, :24], x[0].detach(), atol=1e-6)
    assert not found.layers[0][:, 24:].any()


def test_it_learns_to_translate_and_looks_where_the_word_stands(model):
    (found,) = model.translate(["they love you ."])
    assert found.text == "伊爱你。"
    assert found.source == ["they", "love", "you", "."]
    np.testing.assert_allclose(found.attention.sum(axis=1), 1, atol=1e-5)


def test_the_other_direction_writes_words_with_spaces(pairs):
    model = polyseme.train("cove", pairs.reversed(), epochs=50, lr=0.02, dropout=0.0, hold_out=0.0, patience=0, **SMALL)
    found = [one.text for one in model.translate([source for source, _ in pairs.reversed()])]
    right = sum(text == target.replace(" .", ".") for text, (_, target) in zip(found, pairs.reversed(), strict=True))
    assert right > 0.7 * len(pairs)


def test_the_context_changes_the_vectors_but_not_those_it_reads(model):
    (one,), (other,) = (list(model.encode_tokens([w])) for w in (["i", "see", "you"], ["they", "see", "i"]))
    np.testing.assert_array_equal(one.layers[0, 1], other.layers[0, 1])
    assert np.abs(one.layers[2, 1] - other.layers[2, 1]).max() > 1e-3


def test_given_vectors_are_read_as_they_are_and_unknown_words_as_zeros(pairs, tmp_path):
    corpus = polyseme.Corpus.from_sentences([["i", "see", "you", "."]] * 5)
    polyseme.train("word2vec", corpus, dim=8, min_count=1, sample=0.0, threads=1).save(tmp_path / "wv")
    model = polyseme.train("cove", pairs, word_vectors=str(tmp_path / "wv"), epochs=1, **SMALL)
    vectors = polyseme.load(tmp_path / "wv")
    (found,) = model.encode_tokens([["see", "unseen"]])
    np.testing.assert_allclose(found.layers[0, 0, :8], vectors["see"])
    assert not found.layers[0, 1].any()
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    np.testing.assert_array_equal(next(again.encode_tokens([["see", "unseen"]])).layers, found.layers)
    stack = Stack([StaticEncoder(vectors), model], layers=["top", "top"])
    assert next(stack.encode_tokens([["see"]])).layers.shape == (1, 1, 8 + model.dim)


def test_beam_search_finds_the_likeliest_of_all_translations():
    torch.manual_seed(3)
    options = CoveOptions(dim=5, hidden=4, n_layers=1)
    network = Translator(options, n_source=7, n_target=5, dim=5).eval()
    for parameter in network.parameters():
        parameter.data.mul_(4)
    x, lengths = network.table[torch.tensor([[2, 3]])], torch.tensor([2])

    def score(words: tuple[int, ...]) -> float:
        read, write = torch.tensor([[BOUNDARY, *words]]), [*words, BOUNDARY]
        chances = network.decoder.log_probabilities(outputs(network, x, lengths, read)[0])
        return float(sum(chances[t, w] for t, w in enumerate(write))) / len(write)

    with torch.inference_mode():
        every = [w for n in range(4) for w in itertools.product([2, 3, 4], repeat=n)]
        best = max(every, key=score)
        numbers, weights, found = translated(network, x, lengths, beam=200, longest=4)
        assert [n + 2 for n in numbers] == list(best)
        assert found == pytest.approx(score(best), abs=1e-5)
        assert weights.shape == (len(best), 2)


def test_teacher_forcing_reads_the_word_before():
    torch.manual_seed(0)
    decoder = Decoder(9, CoveOptions(dim=6, hidden=4, n_layers=2)).eval()
    network = Translator(CoveOptions(dim=6, hidden=4), n_source=5, n_target=9, dim=6).eval()
    network.decoder = decoder
    x, lengths = torch.randn(2, 3, 6), torch.tensor([3, 2])
    one, other = (outputs(network, x, lengths, torch.tensor([[0, 3, w], [0, 5, w]])) for w in (4, 7))
    torch.testing.assert_close(one[:, :2], other[:, :2])
    assert not torch.allclose(one[:, 2], other[:, 2])
    x[1, 2] = 99.0  # behind the end of the second sentence
    torch.testing.assert_close(outputs(network, x, lengths, torch.tensor([[0, 3, 4], [0, 5, 4]]))[1], one[1])


def test_training_computes_what_translation_does_word_by_word():
    torch.manual_seed(0)
    network = Translator(CoveOptions(dim=6, hidden=4, n_layers=2), n_source=5, n_target=9, dim=6).eval()
    x, lengths, read = torch.randn(3, 4, 6), torch.tensor([4, 1, 3]), torch.randint(0, 9, (3, 5))
    mask = mask_of(lengths, 4, x.device)
    planes, last = network.encoder(x, mask)
    memory, cursor = network.decoder.begin(planes[-1], mask, last)
    steps = []
    for words in read.t():
        fed, cursor, _ = network.decoder.step(words, memory, cursor)
        steps.append(fed)
    torch.testing.assert_close(outputs(network, x, lengths, read), torch.stack(steps, dim=1))


def outputs(network: Translator, x: torch.Tensor, lengths: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
    """h̃ ``(B, T, 2H)`` of target sentences of equal length."""
    packing = Packing.of([read.shape[1]] * len(read))
    return network.outputs(x, lengths, read.t().flatten(), packing).view(*read.t().shape, -1).transpose(0, 1)


def test_the_forget_gates_of_encoder_and_decoder_start_open():
    network = Translator(CoveOptions(dim=6, hidden=4, n_layers=2), n_source=5, n_target=9, dim=6)
    for module in network.modules():
        for end in ("", "_l0", "_l0_reverse"):
            if isinstance(module, (nn.LSTM, nn.LSTMCell)) and hasattr(module, f"bias_ih{end}"):
                total = getattr(module, f"bias_ih{end}") + getattr(module, f"bias_hh{end}")
                expected = torch.zeros(4, module.hidden_size)
                expected[1] = 1  # torch's order of the gates: i, f, g, o
                torch.testing.assert_close(total, expected.flatten())


def test_published_weights_open_with_the_word_vectors_beside_them(tmp_path):
    torch.manual_seed(0)
    plain = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
    torch.save(plain.state_dict(), tmp_path / "MT-LSTM.pth")
    with pytest.raises(FormatError, match="word vectors"):
        polyseme.load(tmp_path / "MT-LSTM.pth")
    words, rows = ["the", "cat"], np.random.default_rng(0).normal(size=(2, 6)).round(3)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, rows, strict=True)]
    (tmp_path / "glove.txt").write_text("".join(lines), encoding="utf-8")
    for path in (tmp_path, tmp_path / "MT-LSTM.pth"):
        encoder = polyseme.load(path)
        (found,) = encoder.encode_tokens([["the", "unseen", "cat"]])
        x = torch.tensor(np.stack([rows[0], np.zeros(6), rows[1]]), dtype=torch.float32)[None]
        np.testing.assert_allclose(found.layers[2], plain(x)[0][0].detach(), atol=1e-6)
        with pytest.raises(OptionError, match="decoder"):
            next(encoder.translate(["the cat"]))


def test_an_unknown_word_is_never_written(model):
    assert UNKNOWN not in [n + 2 for n in translated(
        model.network, *model.word_vectors([["zzz", "qqq"]]), beam=3, longest=5
    )[0]]  # fmt: skip


def test_lines_of_a_file_and_a_text_are_translated_by_command(model, tmp_path):
    model.save(tmp_path / "m")
    file = tmp_path / "lines.txt"
    file.write_text("i see you .\n\nthey help her\n", encoding="utf-8")
    done = CliRunner().invoke(commands, ["translate", str(tmp_path / "m"), str(file)])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [one.text for one in model.translate(["i see you .", "", "they help her"])]
    told = json.loads(CliRunner().invoke(commands, ["translate", str(tmp_path / "m"), "i see you .", "--json"]).stdout)
    assert told["translation"] == "我看你。"
    assert np.array(told["attention"]).shape == (len(told["words"]), len(told["source_words"]))


def test_a_translation_model_is_judged_by_bleu_and_any_other_by_finding_translations(model, pairs, tmp_path):
    rows = [*pairs][::5]
    wrong = [("i see you .", "伊爱她。"), *rows]
    for turned in (False, True):  # the column that the model can read is found
        file = tmp_path / f"{turned}.tsv"
        file.write_text("".join("\t".join(row[::-1] if turned else row) + "\n" for row in wrong), encoding="utf-8")
        report = evaluate_file(model, file)
        written = [one.text for one in model.translate([source for source, _ in wrong])]
        expected = BLEU(tokenize="zh").corpus_score(written, [[target for _, target in wrong]]).score
        assert report.kind == "translation"
        assert report.whole["bleu"] == pytest.approx(expected)
    encoder = StaticEncoder(model_vectors())
    whole = evaluate_file(encoder, tmp_path / "False.tsv").whole
    assert whole["total"] == len(wrong)
    assert 0 <= whole["forward"] < 1


def model_vectors() -> WordVectors:
    words = [*ENGLISH, *CHINESE, "see", "看", "love", "爱", "help", "帮"]
    matrix = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32)
    return WordVectors(Vocabulary(words, np.ones(len(words), dtype=np.int64)), matrix)
