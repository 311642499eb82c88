"""A GPT that is fine-tuned goes on learning to expect the next piece, beside the labels."""

from __future__ import annotations

import itertools

import numpy as np
import torch
import transformers
from tiny_transformers import TEXTS

import polyseme
from polyseme.contexts.fine_tuning import begin_tuning, transformer_of
from polyseme.contexts.transformer.encode import Runner
from polyseme.contexts.transformer.tuning import PairReader
from polyseme.data.examples import Examples
from polyseme.learn.pieces import FirstState, PieceBatch
from polyseme.sentences.transformer import TunedTexts, to_tune
from polyseme.store.model import About
from polyseme.tasks.options import LinearOptions


def test_its_own_loss_is_that_of_transformers_text_by_text(folders):
    folder = folders("gpt2")
    tuned = TunedTexts(to_tune(polyseme.load(folder), LinearOptions(max_pieces=64), About()), lm_weight=0.5)
    prepared = tuned.prepare(TEXTS)
    whole = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        for module in tuned.net.modules():
            module.training = module is tuned.net  # no dropout, so that values can be compared
        found = tuned.net(prepared.batch(np.arange(len(TEXTS)))).penalty
        for loss, ids in zip(found, prepared.sequences, strict=True):
            pieces = torch.from_numpy(np.asarray(ids)).unsqueeze(0)
            expected = 0.5 * whole(pieces, labels=pieces).loss if len(ids) > 1 else torch.tensor(0.0)
            torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-4)


def test_a_text_stands_between_the_pieces_of_start_and_end(folders):
    folder = folders("gpt2")
    tuned = TunedTexts(to_tune(polyseme.load(folder), LinearOptions(max_pieces=16), About()))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for text, ids in zip(TEXTS, tuned.prepare(TEXTS).sequences, strict=True):
        inside = tokenizer(text, add_special_tokens=False)["input_ids"]
        inside = inside if len(inside) <= 14 else [*inside[:7], *inside[-7:]]
        assert ids.tolist() == [tokenizer.bos_token_id, *inside, tokenizer.eos_token_id]


def test_a_pair_is_one_input_with_a_delimiter_and_has_the_loss_of_transformers(folders):
    folder = folders("gpt2")
    gpt = polyseme.load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    whole = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    reader = PairReader(Runner(gpt.network, gpt.pieces, limit=40))
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2])]
    cut = reader.cut(pairs)
    state = FirstState(gpt.network, lm_weight=0.5)
    state.training, gpt.network.training = True, False
    with torch.no_grad():
        states, _, losses = state(PieceBatch(*reader.together(cut)))
        for (first, second), (ids, _), found, loss in zip(pairs, cut, states, losses, strict=True):
            a, b = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (first, second))
            end = tokenizer.eos_token_id
            assert ids == [tokenizer.bos_token_id, *a, end, *b, end]
            pieces = torch.tensor([ids])
            expected = whole(pieces, labels=pieces, output_hidden_states=True)
            torch.testing.assert_close(loss, 0.5 * expected.loss, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(found, expected.hidden_states[-1][0, -1], atol=1e-4, rtol=1e-4)


def test_the_first_state_of_a_pair_and_its_gradients_in_training_are_those_of_transformers(folders):
    folder = folders("bert")
    bert = polyseme.load(folder)
    reader = PairReader(Runner(bert.network, bert.pieces, limit=40))
    ids, mask, types = reader.together(reader.cut([(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2])]))
    begin_tuning(bert.network, 0.0, sparse=False)
    found = FirstState(bert.network).train()(PieceBatch(ids, mask, types)).vectors
    whole = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    expected = whole(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state[:, 0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for states in (found, expected):
        states.pow(2).sum().backward()
    own = dict(bert.network.body.named_parameters())
    for name, weights in whole.named_parameters():
        if weights.grad is not None:
            torch.testing.assert_close(own[name].grad, weights.grad, atol=1e-5, rtol=1e-3, msg=name)


def test_the_score_of_a_pair_does_not_depend_on_its_order(folders):
    rows = [(first, second, k % 5) for k, (first, second) in enumerate(itertools.pairwise(TEXTS * 3))]
    more = {"head": "cross", "epochs": 1, "threads": 1, "held_out": 0.2}
    for name, alike in (("gpt2", True), ("bert", False)):
        model = polyseme.fit("pair", Examples.of(rows), encoder=polyseme.load(folders(name)), **more)
        one, other = (model.outputs([pair])[0, 0] for pair in ((TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[0])))
        assert (abs(one - other) < 1e-5) == alike


def test_it_is_asked_for_by_its_weight_and_other_encoders_have_none(folders):
    texts = Examples.of([(text, k % 2) for k, text in enumerate(TEXTS * 4)])
    more = {"encoder_mode": "finetune", "epochs": 2, "threads": 1, "held_out": 0.2, "seed": 1}
    gpt, bert = polyseme.load(folders("gpt2")), polyseme.load(folders("bert"))
    with_it, without = (polyseme.fit("classify", texts, encoder=gpt, lm_weight=w, **more) for w in (0.5, 0.0))
    ids = torch.tensor([[5, 6, 7]])
    head = [model.encoder.encoder.network.whole(ids).logits for model in (with_it, without)]
    assert not torch.allclose(*head)
    rows = Examples.of([(TEXTS[k % 3], TEXTS[k % 2], float(k % 5)) for k in range(8)], scored=True)
    for head_name in ("cosine", "cross"):
        learned = [polyseme.fit("pair", rows, encoder=gpt, head=head_name, lm_weight=w, **more) for w in (0.5, 0.0)]
        inner = [transformer_of(next(iter(model.reader.parts().models.values()))) for model in learned]
        assert not torch.allclose(*(encoder.network.whole(ids).logits for encoder in inner), atol=1e-4)
    same = [polyseme.fit("classify", texts, encoder=bert, lm_weight=w, **more).probabilities(TEXTS) for w in (0.5, 0.0)]
    np.testing.assert_array_equal(*same)
