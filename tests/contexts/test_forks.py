"""A process forked after a model was used answers like its parent: what multiprocessing and DataLoader workers need."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.pretrained.tiny_transformers import TEXTS, save_tiny
from tests.processes import run_program

from polyseme.contexts.elmo.encode import WordCache

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")

# The parent answers twice, so that its threads are there; the child is ended by a signal if it waits for ever.
FORKED = """
import os, signal, sys
import faiss, numpy as np, polyseme, torch
torch.set_num_threads(2)
kind, path, texts = sys.argv[1], sys.argv[2], sys.argv[3:]
if kind == "encode":
    model = polyseme.load(path)
    answer = lambda: np.concatenate([found.layers[-1] for found in model.encode_tokens(texts * 20)])
elif kind == "faiss":
    index = faiss.IndexFlatIP(32)
    index.add(np.random.default_rng(1).random((20_000, 32), dtype=np.float32))
    faiss.omp_set_num_threads(2)
    answer = lambda: index.search(np.ones((64, 32), dtype=np.float32), 3)[0]
wanted = answer()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if np.allclose(answer(), wanted, atol=1e-5) else 7)
print(os.waitpid(child, 0)[1])
assert np.allclose(answer(), wanted, atol=1e-5)
"""


def status_of_a_child(kind: str, path: Path, *texts: str) -> str:
    done = run_program(FORKED, kind, path, *texts, text=True, imports=["torch", "faiss"])
    assert done.returncode == 0, done.stderr
    assert "forked" not in done.stderr  # the warning of tokenizers
    return done.stdout.strip()


def test_elmo_encodes_in_a_process_forked_after_it_was_used(random_elmo, tmp_path):
    random_elmo(hidden=64, projection=64).save(tmp_path / "elmo")
    assert status_of_a_child("encode", tmp_path / "elmo", *TEXTS) == "0"


def test_a_transformer_encodes_in_a_process_forked_after_it_was_used(tmp_path):
    (tmp_path / "bert").mkdir()
    assert status_of_a_child("encode", save_tiny("bert", tmp_path / "bert"), *TEXTS) == "0"


def test_faiss_searches_in_a_process_forked_after_it_was_used(tmp_path):
    assert status_of_a_child("faiss", tmp_path) == "0"


def test_a_cache_of_words_that_another_thread_was_filling_can_be_used_in_a_forked_process():
    cache, begun, go_on = WordCache(8, 2), threading.Event(), threading.Event()

    def slowly(words: list[str]) -> torch.Tensor:
        begun.set()
        go_on.wait()
        return torch.ones(len(words), 2)

    filling = threading.Thread(target=cache.get, args=(["一"], slowly))
    filling.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        done = threading.Thread(target=cache.get, args=(["一"], lambda words: torch.ones(len(words), 2)), daemon=True)
        done.start()
        done.join(10)
        os._exit(int(done.is_alive()))
    status = os.waitpid(child, 0)[1]
    go_on.set()
    filling.join()
    assert status == 0
    assert np.array_equal(cache.get(["一"], slowly).numpy(), np.ones((1, 2)))
