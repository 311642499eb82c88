"""The published weights of InferSent: the encoder's state dict, with the word vectors it uses in a file next to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyseme.errors import FormatError
from polyseme.sentences.options import InferSentFileOptions
from polyseme.store.model import About
from polyseme.store.torch_names import files_with_keys, has_keys, vectors_beside

_MODULE, _KEY, _STATE = b"enc_lstm", b"weight_ih_l0_reverse", b"enc_lstm.weight_ih_l0_reverse"
BOUNDARIES = {1: "<s> </s>", 2: "<p> </p>"}  # by version


def tells(path: Path, head: bytes) -> bool:
    """Whether this is the state dict of InferSent's BiLSTM, a pickle of the whole model, or a folder with one."""
    if path.is_dir():
        return len(files_with_keys(path, _MODULE, _KEY)) == 1
    return has_keys(path, _MODULE, _KEY)


def open_infersent(path: str | Path, load: Callable[[str | Path], Any]) -> Any:
    """Read the encoder, with the word vectors from the one other file of its folder that ``load`` can open as such."""
    path = Path(path)
    file = files_with_keys(path, _MODULE, _KEY)[0] if path.is_dir() else path
    if not has_keys(file, _STATE):
        raise FormatError(
            f"{file} is a pickled object, which could run code: open it with the authors' program "
            "and save model.state_dict()"
        )
    from polyseme.neural.weights import Tensors
    from polyseme.sentences.inputs import Inputs
    from polyseme.sentences.published import PublishedInferSent

    found = Tensors(file)
    if any(name.startswith("encoder.") for name in found.names):  # saved together with its classifier
        found = found.under("encoder.")
    state = found.under("enc_lstm.")
    rows, dim = state.get("weight_ih_l0", (None, None)).shape
    hidden = rows // 4
    shapes = {"weight_ih": (4 * hidden, dim), "weight_hh": (4 * hidden, hidden), "bias_ih": (4 * hidden,),
              "bias_hh": (4 * hidden,)}  # fmt: skip
    wanted = {f"{name}_l0{end}": shape for name, shape in shapes.items() for end in ("", "_reverse")}
    if set(state.names) != set(wanted):
        raise FormatError(f"{file} does not have the weights of a one-layer BiLSTM")
    vectors = vectors_beside(file, load, "GloVe 840B 300d, or fastText crawl-300d-2M for version 2,")
    if vectors.vector_size != dim:
        raise FormatError(
            f"{file} needs word vectors of dimension {dim}, but those next to it have {vectors.vector_size}"
        )
    version = 2 if file.stem.endswith("2") else 1
    options = InferSentFileOptions(hidden=hidden, boundaries=BOUNDARIES[version])
    inputs = Inputs.of([], [vectors], vectors.segmentation, options)
    module = PublishedInferSent.made(options, inputs)
    tensors = {f"states.rnn.{name}": state.get(name, shape) for name, shape in wanted.items()}
    module.load_state_dict(tensors)
    return PublishedInferSent(options, inputs, module, About.of(vectors))
