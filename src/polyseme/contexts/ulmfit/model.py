"""ULMFiT (通用语言模型微调): a language model whose hidden states are contextual word vectors.

Howard and Ruder, "Universal Language Model Fine-tuning for Text Classification", ACL 2018. Three stages:

    1  ``train ulmfit GENERAL_TEXT``                a language model (``network.py``) of general text
    2  ``train ulmfit TASK_TEXT --from MODEL``      the same, trained further on the text of the task
    3  ``fit classify --head ulmfit --encoder …``   the classifier over it

A model reads in one direction; the paper's ensemble is the average of a forward and a backward classifier. What differs
from the paper: units can be characters or byte-pair subwords, so that Chinese needs no large vocabulary; for training
see ``train.py``. As a context encoder, the vector of a word is the state at its last unit (at its first, if read
backward). Layers narrower than the widest are padded with zeros.

Fine-tuning an AWD-LSTM with a task: long texts are read in stretches, with the state carried over (BPT3C).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import FloatArray
from polyseme.contexts.fine_tuning import TunableEncoder
from polyseme.contexts.ulmfit.network import AwdLstm
from polyseme.contexts.ulmfit.options import UlmfitOptions
from polyseme.contexts.ulmfit.units import BOUNDARY, SPECIALS, UNKNOWN, Units
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
from polyseme.neural.batches import BudgetBatches, Packing
from polyseme.neural.lstm import State, stretches
from polyseme.neural.softmax import Sampling, log_losses
from polyseme.neural.weights import arrays_of, with_weights
from polyseme.store.folder import Parts
from polyseme.store.model import About
from polyseme.text.byte_pairs import BytePairs
from polyseme.text.corpus import Corpus
from polyseme.text.spacing import continued
from polyseme.training.run import Run, Trainable

if TYPE_CHECKING:
    from typing_extensions import Self

STRETCH = 70  # units of backpropagation through time
LEARNING = 20  # stretches at the end of a text that get gradients, so that memory is bounded


class UnitReader:
    """Turns sentences of words into units, with the unit whose state is the vector of each word."""

    def __init__(self, units: Units, direction: str) -> None:
        self.units, self.backward = units, direction == "backward"

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        """Units ``(B, U)`` after a boundary, in reading order; their lengths; the position of each word ``(B, T)``."""
        numbered = [self.units.numbers(list(words)) for words in sentences]
        lengths = [len(units) + 1 for units, _ in numbered]
        index = np.full((len(sentences), max(lengths)), BOUNDARY, dtype=np.int64)
        places = np.zeros((len(sentences), max(max(map(len, sentences)), 1)), dtype=np.int64)
        for row, (units, sizes) in enumerate(numbered):
            ends = np.cumsum(np.array(sizes, dtype=np.int64))
            index[row, 1 : lengths[row]] = units[::-1] if self.backward else units
            places[row, : len(ends)] = len(units) - (ends - sizes) if self.backward else ends
        return torch.from_numpy(index), torch.tensor(lengths), torch.from_numpy(places)


class UlmfitLayers(nn.Module):
    """The chosen layers of an AWD-LSTM as word vectors."""

    def __init__(self, awd: AwdLstm, dim: int, wanted: Sequence[int]) -> None:
        super().__init__()
        self.awd, self.dim, self.wanted = awd, dim, list(wanted)

    def forward(self, index: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """The layers ``(B, T, L, D)``; those narrower than D are padded with zeros."""
        packing = Packing.of(lengths.tolist())
        rows, times = (torch.from_numpy(array).to(index.device) for array in (packing.row, packing.time[0]))
        packed = torch.zeros_like(index)
        packed[rows, times] = torch.arange(len(rows), device=index.device)
        wanted = packed.gather(1, places)  # (B, T) among the packed units
        planes = self._planes(index[rows, times], packing.sizes)
        return torch.stack([F.pad(planes[n], (0, self.dim - planes[n].shape[1]))[wanted] for n in self.wanted], dim=2)

    def _planes(self, units: Tensor, sizes: list[int]) -> list[Tensor]:
        """For each layer, the states at all packed units, ``(N, width)``."""
        starts = list(range(0, len(sizes), STRETCH))
        stretch_planes, states, done = [], None, 0
        for number, start in enumerate(starts):
            steps = sizes[start : start + STRETCH]
            n = sum(steps)
            with torch.set_grad_enabled(torch.is_grad_enabled() and number >= len(starts) - LEARNING):
                read = self.awd(units[done : done + n], steps, states)
            states = [State(state.h.detach(), state.c.detach()) for state in read.states]
            stretch_planes.append(read.planes)
            done += n
        return [torch.cat(parts) for parts in zip(*stretch_planes, strict=True)]


SENTENCES_AT_ONCE = 512
UNITS_AT_ONCE = 4096
LEAST_ROWS = 4  # rows at every step: with fewer, matrix products add in another order


class Ulmfit(Trainable, ContextEncoder, LanguageModel):
    """An AWD-LSTM and its units."""

    method: ClassVar[str] = "ulmfit"
    Options: ClassVar[type] = UlmfitOptions
    options: UlmfitOptions

    def __init__(self, options: UlmfitOptions, units: Units, module: AwdLstm, *, about: About | None = None) -> None:
        self.options, self.units, self.module = options, units, module.eval()
        self.about = about or About()
        self.dim = max(options.dim, options.hidden if options.n_layers > 1 else 0)
        self.n_layers = options.n_layers + 1

    @classmethod
    def train(cls, data: Corpus, options: UlmfitOptions, run: Run) -> Self:
        """Train on a corpus; with ``run.start``, train that model further (stage 2)."""
        from polyseme.training.loop import fit

        start = run.start
        if start is not None and not isinstance(start, Ulmfit):
            raise OptionError(f"ulmfit can only continue from an ulmfit model, not from {start.method}")
        task, units = import_module("polyseme.contexts.ulmfit.train").make_task(data, options, start)
        fit(task, task.options, run)
        about = About(segmentation=data.segmentation, corpus=data.facts, curve=run.curve)
        return cls(task.options, units, task.module, about=about)

    @classmethod
    def untrained(cls, data: Corpus, options: UlmfitOptions) -> Self:
        """A model with the units of a corpus and random weights."""
        task, units = import_module("polyseme.contexts.ulmfit.train").make_task(data, options, None)
        return cls(task.options, units, task.module, about=About(data.segmentation, data.facts))

    def tuned(self, layers: Sequence[int] | None = None) -> TunableEncoder:
        """The reader and the network, to fine-tune with a task."""
        wanted = range(self.n_layers) if layers is None else layers
        names = [(f"awd.layers.{number}.",) for number in range(self.n_layers - 1)]
        return TunableEncoder(
            UnitReader(self.units, self.options.direction), UlmfitLayers(self.module, self.dim, wanted), names
        )

    # ---- reading sentences

    def encode_tokens(self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all") -> Iterator[EncodedSentence]:
        """The vectors of the words of each sentence, in order, as a stream."""
        wanted = Layers.read(layers, self.n_layers)
        lists = self.token_lists(sentences)
        return (
            sentence
            for batch in iter(lambda: list(islice(lists, SENTENCES_AT_ONCE)), [])
            for sentence in self._encoded(batch, wanted)
        )

    def _encoded(self, batch: list[list[str]], wanted: Layers) -> list[EncodedSentence]:
        numbered = [self.units.numbers(words) for words in batch]
        planes_of: list[FloatArray] = [np.zeros((self.n_layers, 0, self.dim), dtype=np.float32)] * len(batch)
        order = sorted(range(len(batch)), key=lambda place: len(numbered[place][0]))
        batch_places: list[int] = []
        for place in order:
            if batch_places and (len(batch_places) + 1) * len(numbered[place][0]) > UNITS_AT_ONCE:
                self._read_batch(batch_places, numbered, planes_of)
                batch_places = []
            batch_places.append(place)
        self._read_batch(batch_places, numbered, planes_of)
        return [EncodedSentence(words, wanted.planes(planes)) for words, planes in zip(batch, planes_of, strict=True)]

    def _read_batch(self, places: list[int], numbered: list[Any], planes_of: list[FloatArray]) -> None:
        planes = self._states([numbered[place][0] for place in places])
        for place, plane in zip(places, planes, strict=True):
            ends = np.cumsum(numbered[place][1])
            at = ends - 1 if self.options.direction == "forward" else ends - np.array(numbered[place][1])
            planes_of[place] = plane[:, at.astype(np.int64)] if len(ends) else plane[:, :0]

    @torch.inference_mode()
    def _states(self, texts: list[list[int]]) -> list[FloatArray]:
        """For each text, the states at its units in text order, ``(layers, units, dim)``."""
        rows = [[BOUNDARY, *self._turned(text)] for text in texts]
        packing = Packing.of([len(row) for row in rows], least=LEAST_ROWS)
        index = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        for number, row in enumerate(rows):
            index[number, : len(row)] = row
        units = torch.from_numpy(index[packing.row, packing.time[0]])
        planes = self.module(units, packing.sizes).planes
        whole = np.zeros((self.n_layers, *index.shape, self.dim), dtype=np.float32)
        real = packing.real
        for number, plane in enumerate(planes):
            whole[number, packing.row[real], packing.time[0][real], : plane.shape[1]] = plane.numpy()[real]
        states = [whole[:, number, 1 : len(row)] for number, row in enumerate(rows)]
        return [plane[:, ::-1] if self.options.direction == "backward" else plane for plane in states]

    def _turned(self, units: list[int]) -> list[int]:
        return units[::-1] if self.options.direction == "backward" else units

    # ---- predictions of the language model

    @property
    def language(self) -> str:
        """``causal``: it predicts units from those of one side."""
        return "causal"

    @property
    def continues(self) -> bool:
        """Whether it has ``generate``: a model that reads backward cannot continue a text."""
        return self.options.direction == "forward"

    def word_losses(self, sentences: Sequence[Sentence]) -> Iterator[WordLosses]:
        """-log p of every unit and of the boundary after each sentence (before it, if it reads backward)."""
        lists = self.tokenize_all(sentences)
        numbered = [self.units.numbers(words) for words in lists]
        losses: dict[int, NDArray[np.float64]] = {}
        sizes = [len(units) + 1 for units, _ in numbered]
        for rows in BudgetBatches(sizes, tokens=UNITS_AT_ONCE, seed=0).in_order():
            losses.update(zip(rows.tolist(), self._unit_losses([numbered[row][0] for row in rows]), strict=True))
        for number, (words, (units, counts)) in enumerate(zip(lists, numbered, strict=True)):
            ends = np.cumsum(np.array(counts, dtype=np.int64))
            spans = np.stack([ends - np.array(counts, dtype=np.int64), ends], axis=1)
            yield WordLosses(losses[number][None], spans, sum(map(len, words)), units.count(UNKNOWN))

    @torch.inference_mode()
    def _unit_losses(self, texts: list[list[int]]) -> list[NDArray[np.float64]]:
        """For each text -log p of its units in text order, then of the boundary that ends it, ``(units + 1,)``."""
        rows = [[BOUNDARY, *self._turned(text), BOUNDARY] for text in texts]
        packing = Packing.of([len(row) - 1 for row in rows])
        index = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        for number, row in enumerate(rows):
            index[number, : len(row)] = row
        reading, predicted = (index[packing.row, packing.time[0] + later] for later in (0, 1))
        packed, start, states = [], 0, None
        for sizes in stretches(packing.sizes, UNITS_AT_ONCE):
            end = start + sum(sizes)
            states = states and [State(h[:, : sizes[0]], c[:, : sizes[0]]) for h, c in states]
            read = self.module(torch.from_numpy(reading[start:end]), sizes, states)
            targets = torch.from_numpy(predicted[start:end])
            packed.append(log_losses(read.dropped, targets, self.module.table, self.module.bias).numpy())
            start, states = end, read.states
        whole = np.zeros(index.shape)
        whole[packing.row, packing.time[0]] = np.concatenate(packed)
        read_losses = [whole[number, : len(row) - 1] for number, row in enumerate(rows)]
        if self.options.direction == "forward":
            return read_losses
        return [np.append(losses[:-1][::-1], losses[-1]) for losses in read_losses]

    @torch.inference_mode()
    def expected(self, sentence: Sentence, position: int, topn: int) -> list[tuple[str, float]]:
        """The units that the model predicts in place of a word, with their probabilities, best first."""
        words = self.tokens_of(sentence)
        seen = words[:position] if self.options.direction == "forward" else words[position + 1 :]
        chances = torch.exp(self._next(self._turned(self.units.numbers(seen)[0]))[0])
        chances[:SPECIALS] = 0
        best = torch.topk(chances / chances.sum(), min(topn, len(self.units.known)))
        return [
            (self.units.known[number - SPECIALS], p)
            for number, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _next(self, units: list[int], states: Any = None) -> tuple[Tensor, Any]:
        """Log probabilities of the unit after ``units``, and the states; without ``states`` a boundary comes first."""
        given = units if states is not None else [BOUNDARY, *units]
        read = self.module(torch.tensor(given), [1] * len(given), states)
        return self.module.log_probabilities(read.dropped[-1:])[0], read.states

    @torch.inference_mode()
    def generate(
        self,
        prompt: str = "",
        *,
        length: int = 100,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 1,
    ) -> str:
        """``prompt`` as given, continued by ``length`` sampled units; a sentence boundary becomes a new line."""
        if not self.continues:
            raise OptionError("a model that reads backward cannot continue a text: train one with direction=forward")
        sampling = Sampling(temperature, top_k, top_p, seed)
        given = self.units.numbers(self.tokenize(prompt))[0]
        units = list(given)
        chances, states = self._next(units)
        for _ in range(length):
            chances[UNKNOWN] = -torch.inf
            units.append(sampling.draw(chances))
            chances, states = self._next(units[-1:], states)
        return continued(prompt, self.units.text(given), self.units.text(units))

    # ---- on disk

    def parts(self) -> Parts:
        """The weights by their names in the module, the units, and the merges of the byte pairs."""
        files = {"tokenizer.json": self.units.pieces.to_json()} if self.units.pieces else {}
        return Parts(arrays_of(self.module), {"vocab": self.units.known}, files)

    @classmethod
    def from_parts(cls, options: UlmfitOptions, parts: Parts, about: About) -> Self:
        merges = parts.files.get("tokenizer.json")
        units = Units(options.units, parts.tables.get("vocab", []), BytePairs.from_json(merges) if merges else None)
        module = with_weights(lambda: AwdLstm(len(units), options), parts.tensors)
        return cls(options, units, module, about=about)
