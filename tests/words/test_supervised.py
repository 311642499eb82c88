"""fastText's classifier: published files give the same labels as in fastText, which can read files we train."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polyseme
from polyseme.errors import OptionError, TrainingError
from polyseme.training.run import Run
from polyseme.words.fasttext_classifier import LOSSES, FastTextClassifier, SupervisedOptions, train_supervised
from polyseme.words.files.models import save_vectors_as

fasttext = pytest.importorskip("fasttext", reason="fasttext is not installed (extra: bench)")

TEXTS = {
    "zh": "你好世界 今天 天气 很 好",
    "en": "how are you today my friend",
    "fr": "bonjour tout le monde mon ami",
    "de": "guten Tag meine lieben Freunde",
}
LISTS = [(text.split()[i : i + 3], label) for label, text in TEXTS.items() for i in range(3)] * 8
ODD = ["", "  ", "nothing known here", "guten\tTag \n", "__label__en hello", "friend " * 300, "今天"]
FAST_LOSSES = {"softmax": "softmax", "negative": "ns", "hierarchical": "hs", "one-vs-all": "ova"}


def assert_same_answers(ours: FastTextClassifier, peer: object, texts: list[str]) -> None:
    """The probabilities agree to 2e-4, since fastText adds 1e-5 to a probability before it takes the logarithm."""
    found = ours.probabilities(texts)
    for row, text in zip(found, texts, strict=True):
        labels, expected = peer.predict(text.replace("\n", " "), k=len(ours.labels))
        by_label = {label.removeprefix("__label__"): p for label, p in zip(labels, expected, strict=True)}
        for label, p in zip(ours.labels, row, strict=True):
            assert p == pytest.approx(by_label.get(label, p), abs=2e-4)


def test_the_published_language_identifier_answers_as_in_fasttext(shared_data: Path) -> None:
    path = shared_data / "models" / "fasttext" / "lid.176.ftz"
    texts = [*TEXTS.values(), *ODD, "これは日本語です", "Привет, мир!", "안녕하세요 여러분"]
    assert_same_answers(FastTextClassifier(polyseme.load(path)), fasttext.load_model(str(path)), texts)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("ngrams", "minn", "maxn"), [(1, 0, 0), (3, 0, 0), (2, 2, 3)])
def test_files_of_fasttext_tell_the_labels_they_tell_there(loss, ngrams, minn, maxn, tmp_path) -> None:
    file = tmp_path / "train.txt"
    file.write_text("".join(f"__label__{label} {' '.join(tokens)}\n" for tokens, label in LISTS), encoding="utf-8")
    peer = fasttext.train_supervised(
        str(file),
        loss=FAST_LOSSES[loss],
        wordNgrams=ngrams,
        minn=minn,
        maxn=maxn,
        bucket=500,
        dim=10,
        thread=1,
        verbose=0,
    )
    peer.save_model(str(tmp_path / "m.bin"))
    assert_same_answers(FastTextClassifier(polyseme.load(tmp_path / "m.bin")), peer, [*TEXTS.values(), *ODD])


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_trained_here_learns_and_is_read_by_fasttext(loss, tmp_path) -> None:
    options = SupervisedOptions(dim=10, epochs=40, loss=loss, word_ngrams=2, minn=2, maxn=3, negative=2)
    model = train_supervised([tokens for tokens, _ in LISTS], [label for _, label in LISTS], options, Run())
    ours = FastTextClassifier(model)
    found = ours.probabilities([tokens for tokens, _ in LISTS])
    assert [ours.labels[place] for place in found.argmax(axis=1)] == [label for _, label in LISTS]
    save_vectors_as(model, tmp_path / "m.bin", "fasttext")
    texts = [" ".join(tokens) for tokens, _ in LISTS[:12]] + ODD
    assert_same_answers(ours, fasttext.load_model(str(tmp_path / "m.bin")), texts)
    model.save(tmp_path / "folder")
    again = FastTextClassifier(polyseme.load(tmp_path / "folder"))
    np.testing.assert_array_equal(again.probabilities(texts), ours.probabilities(texts))


def test_one_step_moves_the_rows_as_the_formula_says() -> None:
    from polyseme.words.kernels.classify import SOFTMAX, train_texts
    from polyseme.words.kernels.huffman import no_tree
    from polyseme.words.kernels.rows import alias_table, logistic_table, random_state

    rng = np.random.default_rng(0)
    inputs, outputs = (rng.normal(size=(n, 8)).astype(np.float32) for n in (5, 3))
    before, labels_before = inputs.copy(), outputs.copy()
    rows, offsets = np.array([0, 2, 2], dtype=np.int32), np.array([0, 3], dtype=np.int64)
    result = np.zeros(2)
    train_texts(
        rows, offsets, np.array([0]), np.array([1], dtype=np.int32), SOFTMAX, 0, alias_table(np.ones(3)), no_tree(),
        inputs, outputs, 0.1, 0.1, random_state(1), logistic_table(), result,
    )  # fmt: skip
    h = before[[0, 2, 2]].mean(axis=0)
    p = np.exp(labels_before @ h)
    p /= p.sum()
    assert result[0] == pytest.approx(-np.log(p[1]), rel=1e-5)
    error = np.eye(3)[1] - p
    np.testing.assert_allclose(outputs, labels_before + 0.1 * error[:, None] * h, atol=1e-5)
    slope = 0.1 * error @ labels_before / 3
    np.testing.assert_allclose(inputs[0], before[0] + slope, atol=1e-5)
    np.testing.assert_allclose(inputs[2], before[2] + 2 * slope, atol=1e-5)
    np.testing.assert_array_equal(inputs[[1, 3, 4]], before[[1, 3, 4]])


def test_the_same_seed_gives_the_same_bits() -> None:
    options = SupervisedOptions(dim=8, epochs=3, word_ngrams=2)
    data = [tokens for tokens, _ in LISTS], [label for _, label in LISTS]
    one, other = (train_supervised(*data, options, Run()) for _ in range(2))
    np.testing.assert_array_equal(one.output, other.output)
    np.testing.assert_array_equal(one.vectors, other.vectors)


def test_models_without_labels_and_no_texts_are_told_in_one_line(shared_data: Path) -> None:
    vectors = polyseme.load(shared_data / "models" / "gensim_test_data" / "lee_fasttext.bin")
    with pytest.raises(OptionError, match="no classifier"):
        FastTextClassifier(vectors)
    with pytest.raises(TrainingError, match="no texts"):
        train_supervised([], [], SupervisedOptions(), Run())


@pytest.mark.parametrize(
    ("words", "given", "ngrams"),
    [
        (["干净", "舒服", "肮脏"], {}, (1, 2)),
        (["clean", "quiet", "dirty"], {}, (3, 5)),
        (["干净", "舒服", "肮脏"], {"minn": 0, "maxn": 0}, (0, 0)),
        (["clean", "quiet", "dirty"], {"maxn": 4}, (3, 4)),
        (["clean", "quiet", "dirty"], {"minn": 6}, (6, 6)),
    ],
)
def test_letters_are_read_as_the_script_asks(words, given, ngrams) -> None:
    model = train_supervised([[word] for word in words], ["a", "b", "a"], SupervisedOptions(epochs=1, **given), Run())
    assert (model.options.minn, model.options.maxn) == ngrams


def test_n_grams_that_cannot_exist_are_refused() -> None:
    with pytest.raises(OptionError, match="minn is 3 and maxn 2"):
        train_supervised([["clean"], ["dirty"]], ["a", "b"], SupervisedOptions(dim=4, maxn=2), Run())
