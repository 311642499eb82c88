"""Training a biLM: what it learns, that a kill changes nothing, and that it goes on from a saved model."""

from __future__ import annotations

import signal
import socket
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.processes import run_program

import polyseme
from polyseme.contexts.elmo.alphabet import make_alphabet
from polyseme.contexts.elmo.model import Elmo
from polyseme.contexts.elmo.options import SIZES, ElmoOptions
from polyseme.contexts.elmo.train import make_task
from polyseme.contexts.elmo.training_batches import SentenceBatches, Sentences, StreamBatches, split, word_counts
from polyseme.errors import FormatError, OptionError, TrainingError
from polyseme.evaluate.kinds import recognise_kind
from polyseme.neural import softmax
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run
from polyseme.training.task import Part

TINY = {"size": "tiny", "min_count": 1, "batch_tokens": 64, "threads": 1, "lr": 0.01, "hold_out": 0.1}


@pytest.fixture(scope="module")
def corpus(fifty_lines):
    return Corpus.from_sentences(fifty_lines)


@pytest.fixture(scope="module")
def trained(corpus):
    return Elmo.train(corpus, ElmoOptions(**{**TINY, "lr": 0.03}, epochs=20), Run())


# ---- batches


def test_words_are_counted_without_a_second_copy_of_the_text():
    ids = np.tile(np.array([0, 2, 2], np.int32), 1_000_000)
    tracemalloc.start()
    counts = word_counts(ids, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts.tolist() == [1_000_000, 0, 2_000_000, 0]
    assert peak < ids.nbytes


@pytest.mark.parametrize("longest", [1000, 5])
def test_an_epoch_predicts_every_word_and_boundary_once_each_way(corpus, longest):
    everything = Sentences(corpus, np.arange(len(corpus)))
    batches = SentenceBatches(everything, tokens=40, longest=longest, seed=3)
    begin, end = everything.begin, everything.end
    wanted_forward, wanted_backward = [], []
    for i in range(len(corpus)):
        ids = corpus.ids[corpus.sentence_offsets[i] : corpus.sentence_offsets[i + 1]].tolist()
        whole = [begin, *ids, end]
        wanted_forward += list(pairwise(whole))
        wanted_backward += [(b, a) for a, b in pairwise(whole)]
    for epoch in (0, 1):
        found = [batches.batch(epoch, i) for i in range(batches.n_steps(epoch))]
        for direction, wanted in enumerate([wanted_forward, wanted_backward]):
            pairs = [pair for b in found for pair in zip(b.inputs[direction], b.targets[direction], strict=True)]
            assert sorted(pairs) == sorted(wanted)
        assert max(len(b.packing.sizes) for b in found) <= longest
    order = [batches.batch(epoch, 0).inputs.tolist() for epoch in (0, 1)]
    assert order[0] != order[1]


def test_packed_rows_are_sentences_read_in_both_directions(corpus):
    batches = SentenceBatches(Sentences(corpus, np.arange(len(corpus))), tokens=30, longest=1000, seed=0)
    batch = batches.batch(0, 2)
    starts = np.cumsum([0, *batch.packing.sizes])[:-1]
    for row in range(batch.packing.sizes[0]):
        places = [s + row for s, size in zip(starts, batch.packing.sizes, strict=True) if row < size]
        forward = [*batch.inputs[0, places], batch.targets[0, places[-1]]]
        backward = [*batch.inputs[1, places], batch.targets[1, places[-1]]]
        assert forward == backward[::-1]
        assert batch.targets[0, places].tolist() == forward[1:]


def test_a_stream_s_rows_are_whole_sentences_end_to_end(corpus):
    everything = Sentences(corpus, np.arange(len(corpus)))
    stream = StreamBatches(everything, rows=3, unroll=7, seed=1)
    rows = [[], [], []]
    for index in range(stream.n_steps(0)):
        batch = stream.batch(0, index)
        for row in range(3):
            rows[row] += list(zip(batch.inputs[0, row::3], batch.targets[0, row::3], strict=True))
    begin, end = everything.begin, everything.end
    for row in rows:
        for (_, target), (following, _) in pairwise(row):
            assert following == (begin if target == end else target)
    ends = [i for row in rows for i in row if i[1] == end]
    assert len(corpus) * 0.7 < len(ends) <= len(corpus)  # no sentence twice; the last few fill no batch
    batch = stream.batch(1, 0)
    for row in range(3):  # backward, the row begins at its first sentence's end
        assert batch.inputs[1, row] == end


def test_what_is_held_out_depends_on_the_corpus_alone_and_is_bounded(corpus):
    training, held_out = split(corpus, 0.2, 10_000)
    assert sorted([*training.which, *held_out.which]) == list(range(len(corpus)))
    assert 0.1 * corpus.n_tokens < held_out.lengths().sum() <= 0.2 * corpus.n_tokens
    assert np.array_equal(split(corpus, 0.2, 10_000)[1].which, held_out.which)
    assert split(corpus, 0.2, 30)[1].lengths().sum() <= 30
    assert len(split(corpus, 0.001, 10_000)[1].which) == 1
    assert len(split(corpus, 0.0, 10_000)[1].which) == 0


# ---- training


def test_it_learns_and_reports_both_directions(trained):
    curve = trained.about.curve
    uniform = len(trained.classes) + 3
    for direction in ("forward_perplexity", "backward_perplexity"):
        assert curve[-1][direction] < curve[0][direction] < uniform
        assert curve[-1][direction] < 0.2 * uniform
    assert {"loss", "tokens_per_second", "seconds", "epoch"} <= set(curve[-1])


@pytest.mark.parametrize("sequences", ["sentences", "stream"])
def test_one_thread_and_a_seed_give_the_same_bits(corpus, sequences):
    options = ElmoOptions(**TINY, epochs=2, sequences=sequences, unroll=8)
    a, b = (Elmo.train(corpus, options, Run()).parts().tensors for _ in range(2))
    other = Elmo.train(corpus, ElmoOptions(**TINY, epochs=2, sequences=sequences, unroll=8, seed=9), Run())
    for name, tensor in a.items():
        assert np.array_equal(tensor, b[name]), name
    assert not np.array_equal(a["softmax_weight"], other.parts().tensors["softmax_weight"])


KILLED = """
import os, signal, sys
from polyseme.training import loop
from polyseme.contexts.elmo import train as elmo_train
import polyseme

loop.CHECKPOINT_SECONDS = -1  # after every step
steps = 0
whole = elmo_train.BiLMTask.gradients

def gradients(self, *args):
    global steps
    steps += 1
    if steps == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, *args)

elmo_train.BiLMTask.gradients = gradients
options = eval(sys.argv[3])
polyseme.train("elmo", sys.argv[1], out=sys.argv[2], **options)
"""


@pytest.mark.parametrize("sequences", ["sentences", "stream"])
def test_after_kill_9_resume_ends_in_the_bits_of_an_unbroken_run(fifty_lines, tmp_path, sequences):
    folder, out = tmp_path / "corpus", tmp_path / "model"
    corpus = Corpus.from_sentences(fifty_lines, folder)
    options = {**TINY, "epochs": 4, "sequences": sequences, "unroll": 8}
    ended = run_program(KILLED, folder, out, repr(options), imports=["polyseme.contexts.elmo.train"])
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert Path(f"{out}.checkpoint").exists()
    resumed = polyseme.train("elmo", corpus, out=out, resume=True, **options)
    unbroken = Elmo.train(corpus, ElmoOptions(**options), Run())
    for name, tensor in unbroken.parts().tensors.items():
        assert np.array_equal(tensor, resumed.parts().tensors[name]), name
    assert not Path(f"{out}.checkpoint").exists()


def test_shares_of_a_batch_are_its_rows_dealt_out(corpus):
    for batches in (
        SentenceBatches(Sentences(corpus, np.arange(len(corpus))), tokens=60, longest=1000, seed=0),
        StreamBatches(Sentences(corpus, np.arange(len(corpus))), rows=5, unroll=7, seed=1),
    ):
        whole = batches.batch(0, 1)
        rows = _rows_of(whole)
        for of in (2, 3, len(rows) + 1):
            shares = [whole.share(rank, of) for rank in range(of)]
            for rank, (share, places) in enumerate(shares):
                assert _rows_of(share) == rows[rank::of]
                assert np.array_equal(share.targets, whole.targets[:, places])
            assert sorted(np.concatenate([places for _, places in shares])) == list(range(whole.inputs.shape[1]))


def _rows_of(batch):
    """The words in each row of a batch, forward and backward."""
    if not batch.packing.sizes:
        return []
    starts = np.cumsum([0, *batch.packing.sizes])[:-1]
    places = [[s + row for s, size in zip(starts, batch.packing.sizes, strict=True) if row < size]
              for row in range(batch.packing.sizes[0])]  # fmt: skip
    return [batch.inputs[:, place].tolist() for place in places]


@pytest.mark.parametrize("sequences", ["sentences", "stream"])
@pytest.mark.parametrize("of", [2, 3, 40])  # 40: more than there are rows
def test_gradients_of_the_shares_weighed_by_their_sizes_are_those_of_the_batch(corpus, sequences, of):
    options = ElmoOptions(**TINY, sequences=sequences, unroll=10, negative=20, dropout=0.5)
    alone, several = make_task(corpus, options), [make_task(corpus, options) for _ in range(of)]
    for index in range(2):
        whole, loss = _gradients(alone, index, Part())
        shares = [_gradients(task, index, Part(rank, of)) for rank, task in enumerate(several)]
        assert sum(part.total for _, part in shares) == pytest.approx(loss.total, rel=1e-5)
        assert sum(part.n for _, part in shares) == loss.n
        for name, gradient in whole.items():
            found = sum(share[name] * part.n / loss.n for share, part in shares)
            torch.testing.assert_close(found, gradient, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: name + text)
    for name, states in alone.carried().items():
        for rank, task in enumerate(several):
            torch.testing.assert_close(task.carried()[name], Part(rank, of).rows(states), rtol=1e-4, atol=1e-6)


def _gradients(task, index, part):
    for parameter in task.module.parameters():
        parameter.grad = None
    loss = task.gradients(0, index, part)
    found = {n: torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for n, p in task.module.named_parameters()}
    return found, loss


REPLICA = """
import os, signal, sys
import numpy as np
import polyseme
from polyseme.contexts.elmo.train import BiLMTask

rank, stop_at, taken = os.environ["RANK"], int(sys.argv[4]), BiLMTask.gradients

def gradients(self, epoch, index, part):
    if rank == "0" and epoch * self.n_steps(0) + index + 1 == stop_at:
        os.kill(os.getpid(), signal.SIGINT)
    return taken(self, epoch, index, part)

BiLMTask.gradients = gradients
model = polyseme.train("elmo", sys.argv[1], out=f"{sys.argv[2]}/{rank}", **eval(sys.argv[3]))
np.savez(f"{sys.argv[2]}/{rank}.npz", **model.parts().tensors)
"""


def _by_two_processes(corpus, folder, options, *, stop_at=0):
    """Train in two processes with the variables that torchrun sets, which tests/training runs itself; return how they
    ended and what they said. The first process gets Ctrl-C at step ``stop_at``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}

    def replica(rank):
        environment = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        given = (corpus.path, folder, repr(options), stop_at)
        imports = ["polyseme.contexts.elmo.train"]
        return run_program(REPLICA, *given, text=True, environment=environment, imports=imports)

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(replica, range(2)))
    return max(done.returncode for done in ended), "".join(done.stderr for done in ended)[-3000:]


@pytest.mark.parametrize("sequences", ["sentences", "stream"])
def test_two_processes_do_what_one_does_with_the_joint_batch(fifty_lines, tmp_path, sequences):
    corpus = Corpus.from_sentences(fifty_lines, tmp_path / "corpus")
    options = {**TINY, "epochs": 2, "negative": 20, "sequences": sequences, "unroll": 20}  # and the usual dropout
    code, said = _by_two_processes(corpus, tmp_path, options)
    assert code == 0, said
    together = polyseme.load(tmp_path / "0").parts().tensors
    assert not (tmp_path / "1").exists()  # the first process writes the model
    second = np.load(tmp_path / "1.npz")
    alone = Elmo.train(corpus, ElmoOptions(**options), Run()).parts().tensors
    for name, tensor in alone.items():
        assert np.array_equal(together[name], second[name]), name
        np.testing.assert_allclose(together[name], tensor, rtol=1e-3, atol=2e-4, err_msg=name)


def test_a_stream_that_two_processes_began_goes_on_in_one(fifty_lines, tmp_path):
    corpus = Corpus.from_sentences(fifty_lines, tmp_path / "corpus")
    options = {**TINY, "epochs": 2, "negative": 20, "sequences": "stream", "unroll": 20}  # three rows: two and one
    code, said = _by_two_processes(corpus, tmp_path, options, stop_at=4)
    assert code, said
    assert (tmp_path / "0.checkpoint").exists(), said
    resumed = polyseme.train("elmo", corpus, out=tmp_path / "0", resume=True, **options).parts().tensors
    alone = Elmo.train(corpus, ElmoOptions(**options), Run()).parts().tensors
    for name, tensor in alone.items():
        np.testing.assert_allclose(resumed[name], tensor, rtol=1e-3, atol=2e-4, err_msg=name)


def test_processes_that_share_the_weights_learn(corpus):
    model = Elmo.train(corpus, ElmoOptions(**{**TINY, "threads": 2, "lr": 0.03}, epochs=20), Run())
    assert model.about.curve[-1]["forward_perplexity"] < 0.3 * (len(model.classes) + 3)


def test_rare_words_are_read_by_their_letters_and_predicted_as_unknown(fifty_lines):
    corpus = Corpus.from_sentences([*fifty_lines, "熊猫看书。", "狗熊看书。"], segment="jieba")
    model = Elmo.train(corpus, ElmoOptions(**{**TINY, "min_count": 3}, epochs=1), Run())
    assert "熊猫" not in model.classes
    assert "看书" in model.classes
    a, b = (next(iter(model.encode_tokens([[word]], layers=0))).layers for word in ("熊猫", "狗熊"))
    assert np.abs(a - b).max() > 1e-3


def test_a_stream_shorter_than_one_batch_is_a_clear_error(corpus):
    with pytest.raises(TrainingError, match="shorter than one batch"):
        Elmo.train(corpus, ElmoOptions(**{**TINY, "batch_tokens": 100_000}, sequences="stream"), Run())


def test_a_learning_rate_far_too_high_is_said_to_be_so(corpus):
    with pytest.raises(TrainingError, match=r"lower lr than 1000"):
        Elmo.train(corpus, ElmoOptions(**{**TINY, "lr": 1000.0}, epochs=3, clip_norm=0.0), Run())


# ---- perplexity


def test_a_report_estimates_the_whole_softmax_from_some_of_its_classes(trained, corpus, monkeypatch):
    options = ElmoOptions(**TINY)
    task = make_task(corpus, options)
    whole = task.evaluate(trained.bilm)
    monkeypatch.setattr(softmax, "REPORT_CLASSES", len(trained.classes) // 2)
    sampled = make_task(corpus, options)
    assert len(sampled.sampler.reported.classes) == len(trained.classes) // 2
    estimate = sampled.evaluate(trained.bilm)
    for direction in ("forward_perplexity", "backward_perplexity"):
        assert estimate.facts[direction] != whole.facts[direction]
        assert estimate.facts[direction] == pytest.approx(whole.facts[direction], rel=0.05)


def test_plain_text_is_for_language_models_only(trained, fifty_lines, tmp_path):
    text, words = tmp_path / "text.txt", tmp_path / "pairs.txt"
    text.write_text("\n".join(fifty_lines[:6]), encoding="utf-8")
    words.write_text("电话\t朋友\t3.5\n公园\t学校\t5\n", encoding="utf-8")
    assert recognise_kind(text, trained).name == "perplexity"
    assert recognise_kind(words, trained).name == "similarity"
    with pytest.raises(FormatError, match="not an evaluation file"):
        recognise_kind(text)


# ---- going on from a saved model


def test_fine_tuning_grows_the_tables_and_keeps_what_was_known(trained, tmp_path):
    trained.save(tmp_path / "model")
    more = Corpus.from_sentences(["量子计算机很快。", "量子计算机很贵。", "小明喜欢量子计算机。"] * 8, segment="jieba")
    options = {key: value for key, value in TINY.items() if key != "size"}
    tuned = polyseme.train("elmo", more, start=tmp_path / "model", epochs=0, **options)
    known = len(trained.classes)
    assert tuned.classes[:known] == trained.classes
    assert "量子" in "".join(tuned.classes[known:])
    assert "量" in tuned.alphabet.characters
    assert "量" not in trained.alphabet.characters
    assert tuned.options.size == "tiny"
    sentence = ["小明", "喜欢", "看书", "。"]
    before, after = (next(iter(m.encode_tokens([sentence]))).layers for m in (trained, tuned))
    assert np.abs(before - after).max() < 1e-6  # no step was taken yet: known words read as before

    learned = polyseme.train("elmo", more, start=tmp_path / "model", epochs=8, **options)
    texts = [more.sentence(0), more.sentence(2)]
    assert learned.perplexity(texts).forward < 0.5 * tuned.perplexity(texts).forward


def test_a_saved_model_keeps_its_sizes_when_a_preset_changes(trained, tmp_path, monkeypatch):
    trained.save(tmp_path / "m")
    for sizes in SIZES.values():
        monkeypatch.setitem(sizes, "hidden", sizes["hidden"] + 1)
    again = polyseme.load(tmp_path / "m")
    assert again.bilm.config.hidden == trained.bilm.config.hidden


def test_another_shape_than_the_start_s_is_refused(trained, corpus):
    with pytest.raises(OptionError, match="hidden is 24 in the model to start from, not 99"):
        Elmo.train(corpus, ElmoOptions(hidden=99), Run(start=trained))


def test_the_conventions_that_training_follows_are_what_their_help_says() -> None:
    usual, tensorflow, manylangs = (
        make_alphabet(ElmoOptions(conventions=name), characters=[], words=[])
        for name in ("polyseme", "bilm-tf", "manylangs")
    )
    assert (usual.bos, tensorflow.bos) == ("<bos>", "<S>")
    assert (usual.look_up_cut, manylangs.look_up_cut) == (False, True)
    text = ElmoOptions.__dataclass_fields__["conventions"].metadata["help"]
    assert "bilm-tf has other marks" in text
    assert "manylangs cuts words" in text
