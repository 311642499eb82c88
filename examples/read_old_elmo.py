"""Read ELMo files of AllenNLP and bilm-tf, `options.json` and `weights.hdf5`: `python examples/read_old_elmo.py`.

The files are made here, tiny: an ELMo that reads bytes, as the published ones do, is written in their format.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

import polyseme
from polyseme.contexts.elmo.allennlp import batch_to_ids
from polyseme.contexts.elmo.files.bilm import write_bilm

small = {"char_dim": 4, "filters": "1x4 2x8", "n_highway": 1, "hidden": 16, "projection": 8}
lines = [f"the {animal} runs in the {place}" for animal in ("cat", "dog") for place in ("park", "house")]
corpus = polyseme.Corpus.from_sentences(lines * 5, segment="space")

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    made = polyseme.train("elmo", corpus, alphabet="bytes", min_count=1, epochs=1, threads=1, seed=1, **small)
    write_bilm(made, folder / "options.json", folder / "weights.hdf5")
    print(json.loads((folder / "options.json").read_text())["lstm"])

    elmo = polyseme.load(folder)  # also the path of either file, or of the pair as it was downloaded
    for sentence in elmo.encode_tokens([["the", "cat", "runs"]]):
        print(sentence.tokens, sentence.layers.shape)  # (layers, tokens, dim)
    (ours,), (theirs,) = elmo.encode_tokens([["a", "cat"]]), made.encode_tokens([["a", "cat"]])
    print("the same vectors:", np.allclose(ours.layers, theirs.layers, atol=1e-5))

    print(batch_to_ids([["the", "cat"]]).shape)  # code that was written for allennlp.modules.elmo goes on working
