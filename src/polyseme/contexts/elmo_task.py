"""The biLM as a task of the training loop: distinct words once, both directions together, a sampled softmax."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.bilm import BiLM, LstmLayer, State
from polyseme.contexts.elmo_batches import Batch, SentenceBatches, Sentences, StreamBatches
from polyseme.contexts.elmo_options import ElmoOptions
from polyseme.contexts.elmo_reader import Reader
from polyseme.contexts.lstm_gradient import lstm_with_gradient
from polyseme.contexts.perplexity import BATCH_TOKENS, exponentials, full_softmax_losses
from polyseme.contexts.sampled_softmax import ClassSampler, sampled_softmax_loss
from polyseme.contexts.spelling_gradient import lay_out_by_offset
from polyseme.errors import TrainingError
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
            lay_out_by_offset(bilm.encoder)
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
        batch, whole = self._batch(epoch, index, part)
        random = np.random.default_rng((self.options.seed, epoch, index))
        candidates = self.sampler.draw(self.reader.class_of[whole.targets].reshape(-1), random)
        if not batch.n_predictions:  # more processes than sentences
            return Loss(0.0, 0)
        states = self._top_states(batch, random, fresh=index == 0)
        loss = sampled_softmax_loss(
            states.view(-1, states.shape[2]),
            torch.from_numpy(self.reader.class_of[batch.targets].reshape(-1)),
            self.module.softmax_weight,
            self.module.softmax_bias,
            candidates,
            1 / whole.n_predictions,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        return Loss(float(loss.detach()) * whole.n_predictions / 2, batch.n_predictions // 2)

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
        return {f"{n}/{name}": value for n, state in enumerate(self.states) for name, value in state._asdict().items()}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        n_layers = len({name.split("/")[0] for name in tensors})
        self.states = [State(tensors[f"{n}/h"], tensors[f"{n}/c"]) for n in range(n_layers)]

    def _batch(self, epoch: int, index: int, part: Part) -> tuple[Batch, Batch]:
        """The part of a batch to work on, and the whole."""
        whole = self.batches.batch(epoch, index)
        if part.of == 1:
            return whole, whole
        if not isinstance(self.batches, SentenceBatches):
            raise TrainingError(
                "a stream carries its states from step to step and is not shared out over torchrun's processes: "
                "set sequences to 'sentences', or train without torchrun"
            )
        return self.batches.batch(epoch, index, *part), whole

    def _top_states(self, batch: Batch, random: np.random.Generator, *, fresh: bool) -> Tensor:
        """Packed states ``(2, N, P)`` of the highest layer; dropout falls on each layer and the result."""
        bilm = self.module
        distinct, place = np.unique(batch.inputs, return_inverse=True)
        vectors = self.reader.vectors(bilm.encoder, distinct)
        x = F.embedding(torch.from_numpy(place.reshape(batch.inputs.shape)), vectors)  # (W, P) -> (2, N, P)
        sizes = batch.packing.sizes
        if fresh or self.shareable or not self.states:
            self.states = bilm.zero_states(sizes[0], like=x)
        for number, (layer, state) in enumerate(zip(bilm.layers, self.states, strict=True)):
            assert isinstance(layer, LstmLayer)
            x = self._dropped(x, random)
            weights = (layer.w_input, layer.w_recurrent, layer.bias, layer.w_projection)
            out, h, c = lstm_with_gradient(x, sizes, state, weights, layer.cell_clip, layer.projection_clip)
            x = out + x if number and bilm.config.skip else out
            self.states[number] = State(h, c)
        return self._dropped(x, random)

    def _dropped(self, x: Tensor, random: np.random.Generator) -> Tensor:
        """Dropout by a piece of a mask drawn before: drawing anew would cost a tenth of the training."""
        if not self.options.dropout:
            return x
        if len(self._mask) < x.numel() + MASK_SHIFTS:
            self._mask = _drawn_mask(x.numel() + MASK_SHIFTS, self.options)
        start = int(random.integers(MASK_SHIFTS))
        return x * self._mask[start : start + x.numel()].view(x.shape)


def _drawn_mask(n: int, options: ElmoOptions) -> Tensor:
    keep = 1 - options.dropout
    random = torch.Generator().manual_seed(options.seed)
    return torch.empty(n).bernoulli_(keep, generator=random).div_(keep)
