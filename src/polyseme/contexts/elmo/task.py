"""The biLM as a task of the training loop: distinct words once, both directions together, a sampled softmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.elmo.batches import Batch, Ints, SentenceBatches, Sentences, StreamBatches
from polyseme.contexts.elmo.bilm import BiLM, LstmLayer, State
from polyseme.contexts.elmo.options import ElmoOptions
from polyseme.contexts.elmo.perplexity import BATCH_TOKENS, exponentials, full_softmax_losses
from polyseme.contexts.elmo.reader import Reader
from polyseme.neural.cnn import lay_out_by_offset
from polyseme.neural.lstm import lstm_with_gradient
from polyseme.neural.softmax import ClassSampler, sampled_softmax_loss
from polyseme.training.task import Loss, Part, Score, Task

REPORT_TOKENS = 500_000  # between two reports, where an epoch is longer
MASK_SHIFTS = 1 << 20  # places in the mask of dropout where a layer's piece may begin


class BiLMTask(Task):
    """Learns both directions' next words."""

    module: BiLM

    def __init__(
        self, bilm: BiLM, reader: Reader, training: Sentences, held_out: Sentences, options: ElmoOptions
    ) -> None:
        self.module, self.reader, self.options = bilm, reader, options
        if reader.alphabet.spells:
            lay_out_by_offset(bilm.encoder.convolutions)
        self.batches: SentenceBatches | StreamBatches
        self.shareable = options.sequences == "sentences"
        if self.shareable:
            self.batches = SentenceBatches(
                training, tokens=options.batch_tokens, longest=options.unroll, seed=options.seed
            )
        else:
            rows = max(options.batch_tokens // options.unroll, 1)
            self.batches = StreamBatches(training, rows=rows, unroll=options.unroll, seed=options.seed)
        self.held_out = SentenceBatches(held_out, tokens=BATCH_TOKENS, longest=1 << 30, seed=0)
        self.reports = max(1, round(int(training.lengths().sum()) / REPORT_TOKENS))
        n_classes = bilm.config.n_classes
        counts = np.bincount(reader.class_of, weights=training.id_counts(), minlength=n_classes)
        self.sampler = ClassSampler(counts, options.negatives or n_classes)
        self.states: list[State] = []  # where a stream stopped
        self._mask = torch.empty(0)

    def n_steps(self, epoch: int) -> int:
        return self.batches.n_steps(epoch)

    def gradients(self, epoch: int, index: int, part: Part) -> Loss:
        whole = self.batches.batch(epoch, index)
        batch, places = whole.share(*part) if part.of > 1 else (whole, None)
        # Processes draw alike: one set of candidates and one mask for the whole batch, of which each takes its rows.
        random = np.random.default_rng((self.options.seed, epoch, index))
        candidates = self.sampler.draw(self.reader.class_of[whole.targets].reshape(-1), random)
        if index == 0 or self.shareable or not self.states:
            self.states = self.module.zero_states(len(batch.packing.order), like=self.module.softmax_bias)
        if not batch.n_predictions:  # more processes than rows
            return Loss(0.0, 0)
        states = self._top_states(batch, self._dropout(whole, places, random))
        loss = sampled_softmax_loss(
            states.view(-1, states.shape[2]),
            torch.from_numpy(self.reader.class_of[batch.targets].reshape(-1)),
            self.module.softmax_weight,
            self.module.softmax_bias,
            candidates,
            1 / batch.n_predictions,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        return Loss(float(loss.detach()) * batch.n_predictions / 2, batch.n_predictions // 2)

    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, BiLM)
        sums, n = np.zeros(2), 0
        for batch in self.held_out.in_order():
            sums += full_softmax_losses(module, self.reader, batch)
            n += batch.n_predictions // 2
        if not n:
            return None
        forward, backward = exponentials(sums / n)  # the loop says what to do about one without bounds
        return Score(float(sums.sum() / n), {"forward_perplexity": forward, "backward_perplexity": backward})

    def carried(self) -> dict[str, Tensor]:
        if self.shareable:
            return {}
        return {
            f"{n}/{name}": value.transpose(0, 1).contiguous()  # (B, 2, size)
            for n, state in enumerate(self.states)
            for name, value in state._asdict().items()
        }

    def carry(self, tensors: dict[str, Tensor]) -> None:
        n_layers = len({name.split("/")[0] for name in tensors})
        self.states = [State(*(tensors[f"{n}/{name}"].transpose(0, 1) for name in "hc")) for n in range(n_layers)]

    def _top_states(self, batch: Batch, dropped: Callable[[Tensor], Tensor]) -> Tensor:
        """Packed states ``(2, N, P)`` of the highest layer; dropout falls on each layer and the result."""
        bilm = self.module
        distinct, place = np.unique(batch.inputs, return_inverse=True)
        vectors = self.reader.vectors(bilm.encoder, distinct)
        x = F.embedding(torch.from_numpy(place.reshape(batch.inputs.shape)), vectors)  # (W, P) -> (2, N, P)
        sizes = batch.packing.sizes
        for number, (layer, state) in enumerate(zip(bilm.layers, self.states, strict=True)):
            assert isinstance(layer, LstmLayer)
            x = dropped(x)
            weights = (layer.w_input, layer.w_recurrent, layer.bias, layer.w_projection)
            out, h, c = lstm_with_gradient(x, sizes, state, weights, layer.cell_clip, layer.projection_clip)
            x = out + x if number and bilm.config.skip else out
            self.states[number] = State(h, c)
        return dropped(x)

    def _dropout(self, whole: Batch, places: Ints | None, random: np.random.Generator) -> Callable[[Tensor], Tensor]:
        """Dropout by pieces of a mask drawn before (drawing anew would cost a tenth of the training), one for the whole
        batch each time; ``places`` are the tokens of it that are worked on here."""
        if not self.options.dropout:
            return lambda x: x
        n = whole.n_predictions * self.module.config.projection
        if len(self._mask) < n + MASK_SHIFTS:
            self._mask = _drawn_mask(n + MASK_SHIFTS, self.options)
        rows = None if places is None else torch.from_numpy(places)

        def dropped(x: Tensor) -> Tensor:
            start = int(random.integers(MASK_SHIFTS))
            mask = self._mask[start : start + n].view(2, -1, x.shape[2])
            return x * (mask if rows is None else mask[:, rows])

        return dropped


def _drawn_mask(n: int, options: ElmoOptions) -> Tensor:
    keep = 1 - options.dropout
    random = torch.Generator().manual_seed(options.seed)
    return torch.empty(n).bernoulli_(keep, generator=random).div_(keep)
