"""A GPT that is fine-tuned goes on learning to expect the next piece, beside the labels."""

from __future__ import annotations

import numpy as np
import torch
import transformers
from tiny_transformers import TEXTS

import polyseme
from polyseme.sentences.tuned import TunedTexts, encoder_to_tune
from polyseme.store.model import About
from polyseme.text.examples import Examples


def test_its_own_loss_is_that_of_transformers_text_by_text(folders):
    folder = folders("gpt2")
    tuned = TunedTexts(encoder_to_tune(polyseme.load(folder), 64, About()), None, lm_weight=0.5)
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


def test_it_is_asked_for_by_its_weight_and_other_encoders_have_none(folders):
    texts = Examples.of([(text, k % 2) for k, text in enumerate(TEXTS * 4)])
    more = {"encoder_mode": "finetune", "epochs": 2, "threads": 1, "held_out": 0.2, "seed": 1}
    gpt, bert = polyseme.load(folders("gpt2")), polyseme.load(folders("bert"))
    with_it, without = (polyseme.fit("classify", texts, encoder=gpt, lm_weight=w, **more) for w in (0.5, 0.0))
    ids = torch.tensor([[5, 6, 7]])
    head = [model.encoder.encoder.network.whole(ids).logits for model in (with_it, without)]
    assert not torch.allclose(*head)
    same = [polyseme.fit("classify", texts, encoder=bert, lm_weight=w, **more).probabilities(TEXTS) for w in (0.5, 0.0)]
    np.testing.assert_array_equal(*same)
