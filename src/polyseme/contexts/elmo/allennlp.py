"""ELMo as AllenNLP offered it: code written for ``allennlp.modules.elmo`` runs by changing the import.

>>> from polyseme.contexts.elmo.allennlp import Elmo, batch_to_ids
>>> elmo = Elmo("options.json", "weights.hdf5", num_output_representations=1, dropout=0)
>>> elmo(batch_to_ids([["First", "sentence", "."], ["Another", "."]]))["elmo_representations"][0].shape
torch.Size([2, 3, 1024])

What differs: each sentence starts from a zero state, so that it has the same vectors in every call, also in training.
``stateful=True`` carries the states of the rows from call to call as AllenNLP does. The character CNN runs once for
each distinct word of a batch, whether or not a vocabulary is cached. Nothing is downloaded: give the paths of the
files. ``ElmoTokenEmbedder`` and ``ElmoEmbedder`` are here too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import Tensor, nn

from polyseme.arrays import FloatArray
from polyseme.contexts.elmo.alphabet import BYTE_ROWS, Alphabet
from polyseme.contexts.elmo.bilm import WordInputs
from polyseme.contexts.elmo.files.bilm import read_bilm
from polyseme.disk.atomic import new_file
from polyseme.disk.disk_space import written_hdf5
from polyseme.neural.batches import Packing, mask_of
from polyseme.neural.layers import ScalarMix
from polyseme.neural.lstm import State

log = logging.getLogger(__name__)

_LETTERS = 50
_ALPHABET = Alphabet("bytes", _LETTERS, bos="<S>", eos="</S>")
_FORMATS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "all": lambda layers: layers,
    "top": lambda layers: layers[-1],
    "average": lambda layers: layers.mean(axis=0),
}


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Character ids ``(sentences, longest, 50)`` of tokenised sentences, shifted by one so that 0 is padding."""
    longest = max((len(sentence) for sentence in batch), default=0)
    ids = torch.zeros(len(batch), longest, _LETTERS, dtype=torch.long)
    for row, sentence in enumerate(batch):
        if sentence:
            table, _ = _ALPHABET.spell_all(sentence)
            ids[row, : len(sentence)] = _ALPHABET.padding + 1
            ids[row, : len(sentence), : table.shape[1]] = torch.from_numpy(table) + 1
    return ids


class ElmoBiLm(nn.Module):
    """The biLM: character ids ``(B, T, 50)`` → ``activations``, all layers with sentence boundaries, and their mask."""

    def __init__(
        self,
        options_file: str | Path,
        weight_file: str | Path,
        requires_grad: bool = False,
        vocab_to_cache: list[str] | None = None,
        *,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = read_bilm(*_files(options_file, weight_file))
        self.bilm = self.encoder.bilm.requires_grad_(requires_grad)
        self.requires_grad = requires_grad
        self.stateful = stateful
        self.num_layers = self.bilm.config.n_layers + 1
        self._states: list[State] = []
        # Vectors of the cached vocabulary by word id; row 0 is padding.
        self._cached: nn.Parameter | None = None
        if vocab_to_cache:
            if requires_grad:
                log.warning(
                    "requires_grad with vocab_to_cache: the %d cached words get their own "
                    "trainable vectors; other words are read by their characters",
                    len(vocab_to_cache),
                )
            with torch.no_grad():
                vectors = self._vectors(batch_to_ids([vocab_to_cache])[0])
            self._cached = nn.Parameter(vectors, requires_grad=requires_grad)

    def get_output_dim(self) -> int:
        """Dimension of a vector."""
        return 2 * self.bilm.config.projection

    def reset_state(self) -> None:
        """Reset the states of the rows to zero."""
        self._states = []

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """``activations``: L+1 of ``(B, T + 2, dim)``; ``mask (B, T + 2)``.

        With a cached vocabulary, ``word_inputs (B, T)`` are ids in it, 0 for padding; only words outside it are read
        from ``inputs`` by their characters.
        """
        with nullcontext() if self.requires_grad else torch.no_grad():
            vectors, index, lengths = self._looked_up(inputs, word_inputs)
            packing = Packing.of(lengths)
            order = torch.from_numpy(packing.order).to(index.device)
            states = self._taken(order, vectors) if self.stateful else None
            planes, last = self.bilm.run(self.bilm.packed(vectors, index, packing), packing.sizes, states)
            if self.stateful:
                for kept, new in zip(self._states, last, strict=True):
                    kept.h[:, order], kept.c[:, order] = new.h.detach(), new.c.detach()
            mask = mask_of(lengths, index.shape[1], index.device)
            return {"activations": [self.bilm.unpacked(plane, packing, index.shape) for plane in planes], "mask": mask}

    def _looked_up(self, inputs: Tensor | None, words: Tensor | None) -> tuple[Tensor, Tensor, np.ndarray[Any, Any]]:
        """Vectors of the distinct words ``(W, P)``, the row of each token in them (with boundaries), the lengths."""
        boundaries = batch_to_ids([["<S>", "</S>"]])[0]
        if words is not None and self._cached is not None:
            known = words < len(self._cached)
            if inputs is None and not bool(known.all()):
                raise ValueError("a word id lies outside the cached vocabulary, and no character ids were given")
            spelt = inputs[~known] if inputs is not None else boundaries[:0]
            ids, inverse = torch.unique(torch.cat([boundaries.to(words.device), spelt]), dim=0, return_inverse=True)
            vectors = torch.cat([self._cached, self._vectors(ids)])
            index = words.clone()
            index[~known] = inverse[2:] + len(self._cached)
            inverse = inverse + len(self._cached)
            real = words > 0
        elif inputs is not None:
            real = (inputs > 0).any(dim=-1)
            rows = torch.cat([boundaries.to(inputs.device), inputs.reshape(-1, inputs.shape[-1])])
            ids, inverse = torch.unique(rows, dim=0, return_inverse=True)
            vectors = self._vectors(ids)
            index = inverse[2:].reshape(real.shape)
        else:
            raise ValueError("character ids are needed, unless word ids are given and a vocabulary was cached")
        lengths = real.sum(dim=1)
        index = torch.cat([inverse[:1].expand(len(index), 1), index, index.new_zeros(len(index), 1)], dim=1)
        index[torch.arange(len(index), device=index.device), lengths + 1] = inverse[1]
        return vectors, index, lengths.cpu().numpy() + 2

    def _vectors(self, ids: Tensor) -> Tensor:
        """AllenNLP's ids of W words ``(W, 50)`` → ``(W, P)``."""
        padding = BYTE_ROWS - 1
        letters = torch.where(ids > 0, ids - 1, padding)
        place = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        lengths = ((letters != padding) * place).amax(dim=1).clamp(min=1).cpu().numpy()
        # A biLM with fewer characters per word reads a long word as in training: truncated, then the end-of-word mark.
        room = self.bilm.config.max_characters
        if room < letters.shape[1]:
            letters[torch.from_numpy(lengths > room).to(ids.device), room - 1] = padding - 1
            letters, lengths = letters[:, :room], np.minimum(lengths, room)
        vectors: Tensor = self.bilm.encoder(WordInputs(letters, lengths, None))
        return vectors

    def _taken(self, order: Tensor, like: Tensor) -> list[State]:
        held = self._states[0].h.shape[1] if self._states else 0
        if len(order) > held:
            fresh = self.bilm.zero_states(len(order), like=like)
            for new, old in zip(fresh, self._states, strict=False):
                new.h[:, :held], new.c[:, :held] = old.h, old.c
            self._states = fresh
        return [State(h[:, order], c[:, order]) for h, c in self._states]


class AllenNlpElmo(nn.Module):
    """Weighted sums (mixes) of the layers of the biLM, learned with the task that uses them."""

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        num_output_representations: int = 1,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: list[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: list[float] | None = None,
        module: nn.Module | None = None,
        *,
        stateful: bool = False,
    ) -> None:
        super().__init__()
        if module is not None:
            if options_file is not None or weight_file is not None:
                raise ValueError("give options_file and weight_file, or a module, not both")
            self._elmo_lstm: Any = module
        else:
            pair = _files(options_file, weight_file)
            self._elmo_lstm = ElmoBiLm(*pair, requires_grad, vocab_to_cache, stateful=stateful)
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._scalar_mixes: list[ScalarMix] = []
        for number in range(num_output_representations):
            mix = ScalarMix(
                self._elmo_lstm.num_layers,
                layer_norm=1e-13 if do_layer_norm else 0.0,
                initial=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{number}", mix)
            self._scalar_mixes.append(mix)

    def get_output_dim(self) -> int:
        """Dimension of a vector."""
        dim: int = self._elmo_lstm.get_output_dim()
        return dim

    def penalty(self, strength: float, toward: str = "zero") -> Tensor:
        """To add to a loss: λ Σ w² over the weights of all mixes, or λ ‖softmax(w) - 1/(L+1)‖² toward ``uniform``."""
        return torch.stack([mix.penalty(strength, toward) for mix in self._scalar_mixes]).sum()

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """``elmo_representations``, one ``(…, T, dim)`` for each mix, and ``mask (…, T)``.

        ``inputs`` are character ids ``(…, T, 50)``, or word ids ``(…, T)`` of a cached vocabulary.
        """
        if word_inputs is not None and not self._has_cached_vocab:
            log.warning(
                "word ids are ignored: no vocabulary was cached (vocab_to_cache), words are read by their characters"
            )
            word_inputs = None
        if self._has_cached_vocab and word_inputs is None and inputs.dim() == 2:
            word_inputs = inputs
            characters = None
        else:
            characters = inputs.reshape(-1, *inputs.shape[-2:])
        words = None if word_inputs is None else word_inputs.reshape(-1, word_inputs.shape[-1])
        leading = inputs.shape[:-2] if characters is not None else inputs.shape[:-1]
        output = self._elmo_lstm(characters, words)
        mask, layers = output["mask"], torch.stack(output["activations"])
        representations = []
        for mix in self._scalar_mixes:
            mixed = mix(layers, mask)
            if not self._keep_sentence_boundaries:
                mixed = _inner(mixed, mask)
            representations.append(self._dropout(mixed).reshape(*leading, *mixed.shape[1:]))
        kept = mask if self._keep_sentence_boundaries else mask[:, 2:]
        return {"elmo_representations": representations, "mask": kept.reshape(*leading, kept.shape[1])}


def _inner(plane: Tensor, mask: Tensor) -> Tensor:
    """Remove the sentence boundaries: ``(B, T + 2, D)`` → ``(B, T, D)``, zero at padding."""
    return plane[:, 1:-1] * mask[:, 2:, None].to(plane.dtype)


class ElmoTokenEmbedder(nn.Module):
    """One mix of the layers, projected if ``projection_dim`` is given."""

    def __init__(
        self,
        options_file: str | Path | None = None,
        weight_file: str | Path | None = None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: list[str] | None = None,
        scalar_mix_parameters: list[float] | None = None,
    ) -> None:
        super().__init__()
        self._elmo = AllenNlpElmo(
            options_file,
            weight_file,
            1,
            requires_grad=requires_grad,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
        )
        self._projection = nn.Linear(self._elmo.get_output_dim(), projection_dim) if projection_dim else None
        self.output_dim = projection_dim or self._elmo.get_output_dim()

    def get_output_dim(self) -> int:
        """Dimension of a vector."""
        return self.output_dim

    def forward(
        self, elmo_tokens: Tensor | None = None, word_inputs: Tensor | None = None, *, inputs: Tensor | None = None
    ) -> Tensor:
        """Character ids ``(…, T, 50)`` → ``(…, T, dim)``. AllenNLP 0.x calls them ``inputs``, 1.x ``elmo_tokens``."""
        given = inputs if elmo_tokens is None else elmo_tokens
        if given is None:
            raise ValueError("character ids are needed: elmo_tokens")
        vectors: Tensor = self._elmo(given, word_inputs)["elmo_representations"][0]
        return vectors if self._projection is None else self._projection(vectors)


class ElmoEmbedder:
    """The simplest interface of AllenNLP 0.x: sentences to arrays ``(3, tokens, dim)``."""

    def __init__(
        self, options_file: str | Path | None = None, weight_file: str | Path | None = None, cuda_device: int = -1
    ) -> None:
        if cuda_device >= torch.cuda.device_count():
            raise ValueError(f"cuda_device is {cuda_device}, but torch finds no such GPU here: -1 is the CPU")
        self.cuda_device = cuda_device
        self._device = torch.device("cuda", cuda_device) if cuda_device >= 0 else torch.device("cpu")
        self.elmo_bilm = ElmoBiLm(*_files(options_file, weight_file)).to(self._device)

    def batch_to_embeddings(self, batch: list[list[str]]) -> tuple[Tensor, Tensor]:
        """All layers ``(B, 3, T, dim)``, zero at padding, and the mask ``(B, T)``."""
        output = self.elmo_bilm(batch_to_ids(batch).to(self._device))
        mask = output["mask"]
        return torch.stack([_inner(plane, mask) for plane in output["activations"]], dim=1), mask[:, 2:]

    def embed_sentence(self, sentence: list[str]) -> FloatArray:
        """All layers of one tokenised sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: list[list[str]]) -> list[FloatArray]:
        """All layers of each sentence."""
        return list(self.embed_sentences(batch, max(len(batch), 1)))

    def embed_sentences(self, sentences: Iterable[list[str]], batch_size: int = 64) -> Iterator[FloatArray]:
        """All layers of each sentence, as a stream. ``batch_size`` applies to GPUs; on the CPU batches go by length."""
        if self.cuda_device < 0:
            yield from (sentence.layers for sentence in self.elmo_bilm.encoder.encode_tokens(sentences))
            return
        waiting = iter(sentences)
        while batch := list(islice(waiting, batch_size)):
            planes, _ = self.batch_to_embeddings(batch)
            for sentence, vectors in zip(batch, planes.cpu().numpy(), strict=True):
                yield vectors[:, : len(sentence)]

    def embed_file(
        self,
        input_file: Iterable[str],
        output_file_path: str | Path,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Encode lines of space-separated words into an HDF5 file, with one dataset per line, named by its number.

        ``output_format`` is all, top or average. The dataset ``sentence_to_index`` maps sentences to numbers, unless
        ``forget_sentences``; with ``use_sentence_keys`` the datasets are named by the sentences themselves.
        """
        if output_format not in _FORMATS:
            raise ValueError(f"output_format must be one of {', '.join(_FORMATS)}, not {output_format!r}")
        lines = [line.strip() for line in input_file]
        if "" in lines:
            raise ValueError(f"line {lines.index('') + 1} is empty: remove it, since vectors are found by line")
        names = lines if use_sentence_keys else [str(number) for number in range(len(lines))]
        if len(set(names)) < len(names):
            raise ValueError("a sentence occurs twice: use_sentence_keys must be False")
        vectors = self.embed_sentences((line.split() for line in lines), batch_size)
        with new_file(output_file_path) as part, written_hdf5(part) as file:
            for name, layers in zip(names, vectors, strict=True):
                file.create_dataset(name, data=_FORMATS[output_format](layers))
            if not (forget_sentences or use_sentence_keys):
                index = json.dumps(dict(zip(lines, names, strict=True)))
                file.create_dataset("sentence_to_index", data=[index], dtype=h5py.string_dtype())


def _files(options_file: str | Path | None, weight_file: str | Path | None) -> tuple[Path, Path]:
    """The paths of the two files. AllenNLP would download them if given a URL or nothing; here this is an error."""
    for name, file in (("options_file", options_file), ("weight_file", weight_file)):
        if file is None or "://" in str(file):
            what = "is not given" if file is None else f"is a URL ({file})"
            raise ValueError(f"{name} {what}: nothing is downloaded, so give the path of a file")
    return Path(str(options_file)), Path(str(weight_file))


_ElmoBiLm = ElmoBiLm  # its name in AllenNLP


Elmo = AllenNlpElmo  # the name that code written for AllenNLP imports
