"""ULMFiT's classifier: its three stages, its pooling, how its layers thaw, forward and backward together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tasks.conftest import reviews

import polyseme
from polyseme.contexts.ulmfit.model import STRETCH
from polyseme.contexts.ulmfit.units import UNKNOWN
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import silent
from polyseme.sentences.pooled import Pooled
from polyseme.tasks.classify import Classify
from polyseme.tasks.options import ClassifyOptions, head_options
from polyseme.tasks.ulmfit import SteadyNorm
from polyseme.text.corpus import Corpus
from polyseme.training.optimisers import Optimiser
from polyseme.training.run import Run

SHAPE = {"dim": 10, "hidden": 14, "n_layers": 2, "min_count": 1, "batch_size": 4, "unroll": 12, "threads": 1}
SMALL = {"head": "ulmfit", "threads": 1, "batch_size": 8, "lr": 0.02, "epochs": 5, "lm_epochs": 1}
SENTENCES = [["房间", "很", "干净", "。"], ["好"], [], ["服务", "unbelievable", "的", "酒店"] * 50]


def language_model(direction: str = "forward", units: str = "words"):
    corpus = Corpus.from_sentences([text for text, _ in reviews(40)])
    return polyseme.train("ulmfit", corpus, direction=direction, units=units, epochs=2, max_size=200, **SHAPE)


def stage_3(encoder, texts, **options):
    """The training of a classifier over a language model, which has not read the texts first, and the classifier."""
    given = ClassifyOptions(head="ulmfit", lm_epochs=0, **options)
    settings = head_options("classify", given)
    model = Classify.new(texts, [encoder], given, settings, Classify.goal_of(texts, settings), encoder.about, Run())
    return model.learning(texts, None, settings, silent), model


@pytest.fixture(scope="module")
def forward():
    return language_model()


@pytest.fixture(scope="module")
def backward():
    return language_model("backward", "chars")


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_layers_in_training_are_those_of_encoding(name, request):
    encoder = request.getfixturevalue(name)
    tuned = encoder.tuned()
    assert max(map(len, SENTENCES)) > 2 * STRETCH
    with torch.no_grad():
        layers = tuned.network.eval()(*tuned.read(SENTENCES)).numpy()  # (B, T, L, D)
    for row, encoded in enumerate(encoder.encode_tokens(SENTENCES)):
        np.testing.assert_allclose(
            layers[row, : len(SENTENCES[row])], encoded.layers.transpose(1, 0, 2), atol=1e-5, rtol=1e-4
        )


def test_gradients_stay_within_their_stretch(forward):
    tuned = forward.tuned()
    words = [*["房间"] * STRETCH, *["好"] * (STRETCH + 20)]  # units from STRETCH on are in another stretch
    tuned.network.zero_grad()
    tuned.network.eval()(*tuned.read([words]))[0, -1, -1].sum().backward()
    gradient = tuned.network.awd.table.grad.to_dense()
    tuned.network.zero_grad()
    number = forward.units.index
    assert not gradient[number["房间"]].any()
    assert gradient[number.get("好", UNKNOWN)].any()


@pytest.mark.parametrize(("name", "end"), [("forward", -1), ("backward", 0)])
def test_a_text_is_its_last_state_the_maxima_and_the_means(name, end, request):
    encoder = request.getfixturevalue(name)
    model = polyseme.fit("classify", Examples.of(reviews(24)), encoder=encoder, **{**SMALL, "epochs": 1})
    pooled = model.encoder
    assert isinstance(pooled, Pooled)
    top = next(iter(pooled.encoder.encode_tokens(["房间很干净。"], layers="top"))).layers[0]
    expected = np.concatenate([top[end], top.max(axis=0), top.mean(axis=0)])
    np.testing.assert_allclose(pooled.encode(["房间很干净。"])[0], expected, atol=1e-6)


def test_what_is_learned_is_what_is_answered(forward):
    """The classifier that learns and the one that is kept agree."""
    texts = Examples.of(reviews(20))
    task, model = stage_3(forward, texts)
    with torch.no_grad():
        in_training, _ = task.module.eval()(task.prepared.batch(np.arange(20)))
        vectors = torch.from_numpy(Pooled(forward, "last-max-mean", layers="top").encode(row.text for row in texts))
        np.testing.assert_allclose(in_training.numpy(), model.output(vectors).numpy(), atol=1e-5)


def test_layers_thaw_from_the_top_at_rates_that_fall_by_two_point_six(forward):
    task, model = stage_3(forward, Examples.of(reviews(8)), unfreezing="gradual", layer_rates=2.6)
    awd = {id(weight): f"awd.{name}" for name, weight in model.encoder.encoder.module.named_parameters()}
    optimiser = Optimiser(dict(task.module.named_parameters()))
    thawed = []
    for epoch in range(5):
        optimiser.arrange(task.groups(epoch))
        learning = {awd.get(id(p), name) for name, p in task.module.named_parameters() if p.requires_grad}
        thawed.append(
            [any(n.startswith(f"awd.{part}") for n in learning) for part in ("table", "layers.0", "layers.1")]
        )
        assert any(name.startswith("output.") for name in learning)
    assert thawed == [[False] * 3, [False, False, True], [False, True, True], [True] * 3, [True] * 3]
    rates = {name.partition("network.")[2]: group.lr_factor for name, group in task.groups(4).items()}
    assert rates == {
        "awd.layers.1.": pytest.approx(1 / 2.6), "awd.layers.0.": pytest.approx(1 / 2.6**2),
        "": pytest.approx(1 / 2.6**3),
    }  # fmt: skip


def test_one_command_does_what_two_do_and_the_given_model_stays(forward, tmp_path):
    texts = Examples.of(reviews(60))
    before = forward.module.table.detach().clone()
    model = polyseme.fit("classify", texts, encoder=forward, **{**SMALL, "epochs": 25, "patience": 0, "lr": 0.05})
    torch.testing.assert_close(forward.module.table.detach(), before)
    gentle = polyseme.fit("classify", texts, encoder=forward, **{**SMALL, "lm_epochs": 0, "epochs": 1})
    assert (model.probabilities(["房间很干净。"]) != gentle.probabilities(["房间很干净。"])).any()
    lines = [text for text, _ in reviews(20, seed=1)]
    assert model.score(Examples.of(reviews(20, seed=1))).figures["accuracy"] >= 0.9
    model.save(tmp_path / "m")
    np.testing.assert_allclose(
        polyseme.load(tmp_path / "m").probabilities(lines), model.probabilities(lines), atol=1e-6
    )


def test_two_directions_are_averaged(forward, backward, tmp_path):
    texts, lines = Examples.of(reviews(24)), [text for text, _ in reviews(6, seed=2)]
    both = polyseme.fit("classify", texts, encoder=[forward, backward], **{**SMALL, "lm_epochs": 0, "epochs": 1})
    first, second = (
        polyseme.fit("classify", texts, encoder=one, **{**SMALL, "lm_epochs": 0, "epochs": 1}).probabilities(lines)
        for one in (forward, backward)
    )
    np.testing.assert_allclose(both.probabilities(lines), (first + second) / 2, atol=1e-6)
    both.save(tmp_path / "m")
    np.testing.assert_allclose(polyseme.load(tmp_path / "m").probabilities(lines), both.probabilities(lines), atol=1e-6)


def test_without_a_language_model_it_learns_from_the_texts_alone():
    model = polyseme.fit("classify", Examples.of(reviews(12)), units="chars", **{**SMALL, "epochs": 1, "lm_epochs": 0})
    assert model.probabilities(["", "房间"]).shape == (2, 2)


def test_another_encoder_is_refused_in_one_line(vectors):
    with pytest.raises(OptionError, match="needs an ulmfit model"):
        polyseme.fit("classify", Examples.of(reviews(12)), encoder=vectors, **SMALL)


def test_a_batch_of_one_is_normalised_by_what_was_seen_before():
    norm = SteadyNorm(3).train()
    norm.running_mean.fill_(2.0)
    torch.testing.assert_close(norm(torch.full((1, 3), 2.0)), torch.zeros(1, 3))


def test_a_metric_that_there_is_not_is_told_before_the_language_model_reads_the_texts(forward):
    reported: list[str] = []
    with pytest.raises(OptionError, match="there is no metric 'pearson' here"):
        polyseme.fit(
            "classify", Examples.of(reviews(20)), encoder=forward, metric="pearson",
            progress=lambda what, *_, **__: reported.append(what), **SMALL,
        )  # fmt: skip
    assert not reported
