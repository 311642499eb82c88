"""An ELMo that encodes a few sentences with NumPy alone (不用 torch 读几句话).

It serves commands that encode one sentence, where importing torch would take longer than the work itself. It gives the
same numbers as ``model.py`` up to rounding, one sentence at a time; the formulas are in ``bilm.py`` and
``neural/lstm.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, best_places
from polyseme.contexts.elmo.alphabet import WORD_SPECIALS, Alphabet, make_alphabet
from polyseme.contexts.elmo.options import ElmoOptions
from polyseme.disk.folders import OpenFolder, steady
from polyseme.disk.mapped import Watch, watching
from polyseme.errors import OptionError
from polyseme.interfaces import (
    ContextEncoder,
    EncodedSentence,
    LanguageModel,
    LayerChoice,
    Layers,
    Sentence,
    WordLosses,
)
from polyseme.old_folders import renamed
from polyseme.options import make_options
from polyseme.store.folder import MARKER, MODEL, folder_fingerprint, read_parts
from polyseme.store.model import About
from polyseme.text.segment import Segmentation

Tensors = Mapping[str, NDArray[Any]]
STATES_AT_ONCE = 64  # that go through the softmax together


class PlainElmo(ContextEncoder, LanguageModel):
    """A biLM with an LSTM reader, whose weights are memory-mapped."""

    watch = Watch()  # over the file of its weights

    def __init__(self, options: ElmoOptions, alphabet: Alphabet, tensors: Tensors, classes: list[str], about: About):
        self.options, self.alphabet, self.tensors, self.about = options, alphabet, tensors, about
        self.classes = classes  # the words of the softmax
        self.dim, self.n_layers = 2 * options.value("projection"), options.n_layers + 1

    @property
    def language(self) -> str | None:
        """``both-ways``, or None if the biLM has no softmax."""
        return "both-ways" if self.classes else None

    def tokenize(self, text: str) -> list[str]:
        """Segment raw text like the training text."""
        return (self.about.segmentation or Segmentation()).tokens(text)

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all") -> Iterator[EncodedSentence]:
        """The vectors of the tokens of each sentence."""
        choice = Layers.read(layers, self.n_layers)
        scalars = np.exp(self.tensors["mix.scalars"] - np.max(self.tensors["mix.scalars"]))
        mix = (scalars / scalars.sum() * self.tensors["mix.gamma"]).tolist()
        for tokens in self.token_lists(sentences):
            inner = self._states(tokens)[:, :, 1:-1]  # (L+1, 2, T, P)
            yield EncodedSentence(tokens, choice.planes(np.concatenate([inner[:, 0], inner[:, 1]], axis=2), mix))

    def encode_predicting(
        self, sentences: Iterable[Sentence], layers: Sequence[int] | None = None
    ) -> Iterator[EncodedSentence]:
        """The states from which each token is predicted: forward at t-1, backward at t+1."""
        wanted = list(range(self.n_layers) if layers is None else layers)
        for tokens in self.token_lists(sentences):
            states = self._states(tokens)[wanted]
            yield EncodedSentence(tokens, np.concatenate([states[:, 0, :-2], states[:, 1, 2:]], axis=2))

    def word_losses(self, sentences: Sequence[Sentence]) -> Iterator[WordLosses]:
        """-log p of every word and boundary in each sentence, forward and backward, with the full softmax."""
        unknown = len(self.classes)
        numbers = {word: number for number, word in enumerate(self.classes)}
        for tokens in self.tokenize_all(sentences):
            top = self._states(tokens)[-1]  # (2, T + 2, P)
            classes = np.array([numbers.get(token, unknown) for token in tokens], dtype=np.int64)
            # Backward, the states at t + 1 predict the words, and the one at the first word the begin boundary.
            forward = self._log_losses(top[0, :-1], np.append(classes, unknown + 2))
            backward = self._log_losses(np.roll(top[1, 1:], -1, axis=0), np.append(classes, unknown + 1))
            losses = np.stack([forward, backward]) if tokens else np.zeros((2, 0))
            yield WordLosses.of_words(tokens, losses, int((classes == unknown).sum()))

    def _log_losses(self, states: FloatArray, classes: NDArray[np.int64]) -> NDArray[np.float64]:
        """-log p of the classes given states ``(N, P)``, with the full softmax."""
        losses = [np.zeros(0)]
        for start in range(0, len(states), STATES_AT_ONCE):
            chosen = classes[start : start + STATES_AT_ONCE]
            scores = states[start : start + STATES_AT_ONCE] @ self.tensors["softmax_weight"].T
            scores += self.tensors["softmax_bias"]
            most = scores.max(axis=1)
            total = np.exp(scores - most[:, None]).sum(axis=1, dtype=np.float64)
            losses.append(np.log(total) + most - scores[np.arange(len(chosen)), chosen])
        return np.concatenate(losses)

    def expected(self, sentence: Sentence, position: int, topn: int) -> list[tuple[str, float]]:
        """The words that the biLM predicts at a position from both sides, with their probabilities, best first."""
        tokens = self.tokens_of(sentence)
        top = self._states(tokens)[-1]  # (2, T + 2, P)
        both = top[0, position] + top[1, position + 2]  # t - 1 and t + 1, with the boundary before the first token
        # log p→ + log p←, up to a constant for all words
        logits = (self.tensors["softmax_weight"] @ both + 2 * self.tensors["softmax_bias"])[: len(self.classes)]
        powers = np.exp(logits - logits.max())
        best = best_places(powers, topn)
        return [(self.classes[word], float(powers[word] / powers.sum())) for word in best]

    # ---- the biLM

    def _states(self, tokens: list[str]) -> FloatArray:
        """All layers of a sentence with its boundaries, both directions in text order: ``(L+1, 2, T+2, P)``."""
        self.watch.check()
        whole = [self.alphabet.bos, *tokens, self.alphabet.eos]
        distinct = list(dict.fromkeys(whole))
        number = {word: row for row, word in enumerate(distinct)}
        words = self._words(distinct)[[number[word] for word in whole]]
        x = np.stack([words, words[::-1]])  # (2, T+2, P), each direction in its reading order
        planes = [x]
        for layer in range(self.options.n_layers):
            out = self._lstm(x, layer)
            x = out + x if layer and self.options.skip else out
            planes.append(x)
        return np.stack([np.stack([plane[0], plane[1, ::-1]]) for plane in planes])

    def _words(self, words: list[str]) -> FloatArray:
        """Context-independent word vectors, ``(W, P)``."""
        tensors, parts = self.tensors, []
        if self.alphabet.names:
            parts.append(np.asarray(tensors["encoder.words"][self.alphabet.name_all(words)], dtype=np.float32))
        if self.alphabet.spells:
            parts.append(self._spelt(words))
        x = np.concatenate(parts, axis=1)
        return self._linear("encoder.projection", x) if "encoder.projection.weight" in tensors else x

    def _spelt(self, words: list[str]) -> FloatArray:
        tensors, longest = self.tensors, self.options.value("max_characters")
        letters, _ = self.alphabet.spell_all(words)
        padded = np.full((len(words), longest), self.alphabet.padding)
        padded[:, : letters.shape[1]] = letters
        table = np.asarray(tensors["encoder.characters"][padded], dtype=np.float32)  # (W, slots, d)
        by_width = []
        for place, (width, number) in enumerate(self.options.filter_list()):
            starts = longest - width + 1
            windows = np.concatenate([table[:, k : k + starts] for k in range(width)], axis=2)  # (W, starts, width·d)
            weight = tensors[f"encoder.convolutions.{place}.weight"].transpose(2, 1, 0).reshape(-1, number)
            by_width.append((windows @ weight).max(axis=1) + tensors[f"encoder.convolutions.{place}.bias"])
        x = np.concatenate(by_width, axis=1)
        x = np.maximum(x, 0) if self.options.activation == "relu" else np.tanh(x)
        for place in range(self.options.value("n_highway")):
            gate = _sigmoid(self._linear(f"encoder.gates.{place}", x))
            x = gate * np.maximum(self._linear(f"encoder.transforms.{place}", x), 0) + (1 - gate) * x
        return np.asarray(x, dtype=np.float32)

    def _linear(self, name: str, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"], dtype=np.float32)

    def _lstm(self, x: FloatArray, layer: int) -> FloatArray:
        """One layer of both directions, ``(2, T, P) -> (2, T, P)``."""
        tensors, options = self.tensors, self.options
        recurrent = tensors[f"layers.{layer}.w_recurrent"]  # (2, 4H, P)
        projection = tensors.get(f"layers.{layer}.w_projection")  # (2, P, H)
        inputs = x @ tensors[f"layers.{layer}.w_input"].transpose(0, 2, 1) + tensors[f"layers.{layer}.bias"][:, None]
        cell = np.zeros((2, options.value("hidden")), dtype=np.float32)
        state = np.zeros((2, x.shape[2]), dtype=np.float32)
        out = np.empty_like(x)
        for step in range(x.shape[1]):
            gates = inputs[:, step] + (recurrent @ state[:, :, None])[:, :, 0]
            i, f, g, o = np.split(gates, 4, axis=1)
            cell = _clipped(_sigmoid(f) * cell + _sigmoid(i) * np.tanh(g), options.cell_clip)
            state = _sigmoid(o) * np.tanh(cell)
            if projection is not None:
                state = _clipped((projection @ state[:, :, None])[:, :, 0], options.projection_clip)
            out[:, step] = state
        return out


def open_plain(path: str | Path) -> PlainElmo | None:
    """The model at ``path``; None if it is not a folder saved here with an ELMo that has the LSTM reader."""
    if not (Path(path) / MARKER).is_file():
        return None

    def once() -> PlainElmo | None:
        with MODEL.open(path) as folder, watching() as watch:
            model = _plain(folder)
        if model:
            model.watch = watch
        return model

    return steady(path, once)


def _plain(folder: OpenFolder) -> PlainElmo | None:
    manifest = folder.found
    if manifest["method"] != "elmo" or manifest["options"].get("reader", "lstm") != "lstm":
        return None
    folder.verify()
    try:
        options: ElmoOptions = make_options(ElmoOptions, renamed("elmo", manifest["options"]))
    except OptionError:
        return None  # the full loader reports why
    parts, segmentation_json = read_parts(folder), manifest.get("segmentation")
    words = parts.tables.get("vocab", [])
    alphabet = make_alphabet(options, characters=parts.tables.get("characters", []), words=words)
    if not _fits(options, alphabet, parts.tensors, len(words) + WORD_SPECIALS):
        return None
    segmentation = Segmentation.from_json(segmentation_json, where=folder.path / MARKER) if segmentation_json else None
    about = About(segmentation=segmentation, fingerprint=folder_fingerprint(folder))
    return PlainElmo(options, alphabet, parts.tensors, words if "softmax_weight" in parts.tensors else [], about)


def _fits(options: ElmoOptions, alphabet: Alphabet, tensors: Tensors, n_classes: int) -> bool:
    """Whether the weights are complete, float32, and of the shapes that the options describe."""
    hidden, size, spelt = options.value("hidden"), options.value("projection"), 0
    wanted: dict[str, tuple[int, ...]] = {"mix.scalars": (options.n_layers + 1,), "mix.gamma": (1,)}
    if alphabet.names:
        wanted["encoder.words"] = (alphabet.n_words, options.value("word_dim"))
    if alphabet.spells:
        wanted["encoder.characters"] = (alphabet.n_characters, options.value("char_dim"))
        spelt = sum(number for _, number in options.filter_list())
        for place, (width, number) in enumerate(options.filter_list()):
            wanted[f"encoder.convolutions.{place}.weight"] = (number, options.value("char_dim"), width)
            wanted[f"encoder.convolutions.{place}.bias"] = (number,)
        for place in range(options.value("n_highway")):
            for name in ("transforms", "gates"):
                wanted[f"encoder.{name}.{place}.weight"] = (spelt, spelt)
                wanted[f"encoder.{name}.{place}.bias"] = (spelt,)
    width = spelt + (options.value("word_dim") if alphabet.names else 0)
    if width != size or "encoder.projection.weight" in tensors:
        wanted |= {"encoder.projection.weight": (size, width), "encoder.projection.bias": (size,)}
    for layer in range(options.n_layers):
        for name in ("w_input", "w_recurrent"):
            wanted[f"layers.{layer}.{name}"] = (2, 4 * hidden, size)
        wanted[f"layers.{layer}.bias"] = (2, 4 * hidden)
        if size < hidden:
            wanted[f"layers.{layer}.w_projection"] = (2, size, hidden)
    if "softmax_weight" in tensors:
        wanted |= {"softmax_weight": (n_classes, size), "softmax_bias": (n_classes,)}
    shapes = {name: array.shape for name, array in tensors.items()}
    return shapes == wanted and all(array.dtype == np.float32 for array in tensors.values())


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)), dtype=np.float32)


def _clipped(x: FloatArray, bound: float) -> FloatArray:
    return np.clip(x, -bound, bound) if bound else x
