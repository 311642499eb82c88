"""Skip-thought 跳跃思维向量: sentence vectors from which the sentences before and after can be generated.

Kiros et al., "Skip-Thought Vectors", NeurIPS 2015. A GRU encodes the sentence, two others generate its neighbours:

    max  Σ_t log p(w_t of the next | w_<t, h) + Σ_t log p(w_t of the previous | w_<t, h),   h = the encoder's last state

``uni`` reads forward, ``bi`` in both directions with half as many units each, ``combined`` concatenates both. Word
vectors and the softmax are shared. With ``expand``, words that are not in the corpus but have a given vector are added:
a linear map from the given vectors to the learned ones, fitted by least squares on the words that have both, gives
their vectors.

What differs from the paper: for large vocabularies the softmax is sampled; the two encoders of ``combined`` are trained
together and share word vectors; a sentence with one neighbour generates only that one. ``condition`` first-state is
what the authors' program does; in the paper, the vector is given to every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.errors import OptionError, TrainingError
from polyseme.interfaces import FloatArray, WordVectors
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.decoders import (
    MOST_HELD_OUT,
    TargetWords,
    WordDecoder,
    WordOutput,
    WritingNet,
    WritingTask,
)
from polyseme.sentences.inputs import PreparedTexts
from polyseme.sentences.learned import EncoderNet, LearnedEncoder
from polyseme.sentences.modules import Encoding, TextModule, Tokens
from polyseme.sentences.neighbours import Stories
from polyseme.sentences.options import SkipThoughtOptions
from polyseme.sentences.token_vectors import Ints, LearnedKeys
from polyseme.store.model import About
from polyseme.text.corpus import Corpus
from polyseme.training.loop import fit
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self

BESIDE = (-1, 1)  # the sentence before, the sentence after


class SkipThoughtModule(TextModule):
    """The last states of a unidirectional GRU, of a bidirectional one, or of both."""

    def __init__(self, dim: int, hidden: int, directions: str) -> None:
        super().__init__()
        made = {"uni": [False], "bi": [True], "combined": [False, True]}[directions]
        if hidden % 2 and True in made:
            raise OptionError(f"hidden must be even if sentences are read in both directions, not {hidden}")
        self.encoders = nn.ModuleList(
            Recurrent(dim, hidden // 2 if both else hidden, kind="gru", bidirectional=both) for both in made
        )
        self.dim = hidden * len(made)

    def forward(self, tokens: Tokens) -> Encoding:
        last = [one(tokens.x, tokens.mask)[1][-1].h for one in self.encoders]  # each (D, B, H)
        return Encoding(torch.cat([h.transpose(0, 1).flatten(1) for h in last], dim=1))


class SkipThought(LearnedEncoder):
    """GRU encoders trained to generate the neighbours of a sentence from their last states."""

    method: ClassVar[str] = "skip-thought"
    Options: ClassVar[type] = SkipThoughtOptions

    @classmethod
    def make_module(cls, options: SkipThoughtOptions, dim: int, beside: int) -> SkipThoughtModule:
        return SkipThoughtModule(dim, options.hidden, options.directions)

    @classmethod
    def train(cls, data: Corpus, options: SkipThoughtOptions, run: Run) -> Self:
        """Train on the order of the sentences of a corpus."""
        given = vectors_to_expand(run, options)
        stories = Stories.of(data, options.max_sentences, options.longest)
        encoder = cls.of(stories.texts, [], About(data.segmentation, data.facts, run.curve), options)
        if given is not None:
            words_in_both(encoder, given)  # checked before a long training, not after it
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            written = TargetWords.of(stories.texts, options.min_count)
            module = SkipNet(encoder.net, written, options)
        fit(SkipTask(module, encoder.prepare(stories.texts, run.progress), stories, written, options), options, run)
        encoder.net.eval()
        if given is not None:
            expand(encoder, given, options.most_expanded)
        return encoder


class SkipNet(WritingNet):
    """The encoder, two decoders (before, after) for each of its parts, and the softmax they share."""

    def __init__(self, net: EncoderNet, written: TargetWords, options: SkipThoughtOptions) -> None:
        super().__init__(net, WordOutput(options.hidden, written.counts, options.negative))
        self.hidden = options.hidden
        n_parts = net.encoder.dim // options.hidden
        every = options.condition == "every-step"
        made = (WordDecoder(net.inputs.dim, options.hidden, every_step=every) for _ in range(n_parts * len(BESIDE)))
        self.decoders = nn.ModuleList(made)  # those of the sentences before, then those of the sentences after


class SkipTask(WritingTask):
    """Training: generate the neighbours of each sentence."""

    def __init__(
        self, module: SkipNet, texts: PreparedTexts, stories: Stories, words: TargetWords, options: SkipThoughtOptions
    ) -> None:
        self.stories, self.words = stories, words.ids(stories.texts)
        super().__init__(module, texts, min(round(options.hold_out * len(stories.texts)), MOST_HELD_OUT), options)

    def written(self, module: nn.Module, rows: Ints, end: int) -> list[tuple[Tensor, Tensor]]:
        assert isinstance(module, SkipNet)
        vectors = module.net(self.texts.batch(rows).to(self.device)).vectors
        parts = torch.split(vectors, module.hidden, dim=1)
        found = []
        for side, step in enumerate(BESIDE):
            which = self.stories.neighbours(rows, step, end)
            if not len(which):
                continue
            there = rows[which] + step
            batch = self.texts.batch(there).to(self.device)
            words = torch.from_numpy(self.words.padded(there, batch.mask.shape[1] + 1)).to(self.device)
            x, of = module.net.inputs(batch).x, torch.from_numpy(which).to(self.device)
            decoders = module.decoders[side * len(parts) : (side + 1) * len(parts)]
            for decoder, vector in zip(decoders, parts, strict=True):
                found.append(decoder(x, self.texts.sizes[there], vector[of], words))
        return found


# ---- vocabulary expansion


def vectors_to_expand(run: Run, options: SkipThoughtOptions) -> WordVectors | None:
    """The word vectors that the option ``expand`` names, if any."""
    given = run.models.get("expand")
    if given is not None and not isinstance(given, WordVectors):
        raise OptionError(f"option 'expand' must name word vectors, but {options.expand} has method {given.method}")
    return given


def linear_map(x: FloatArray, y: FloatArray) -> FloatArray:
    """``(n, I), (n, D) -> (I + 1, D)``: the M with [x; 1] M ≈ y, by least squares."""
    ones = np.ones((len(x), 1))
    found = np.linalg.lstsq(np.hstack([x, ones]).astype(np.float64), y.astype(np.float64), rcond=None)[0]
    return np.asarray(found, dtype=np.float32)


def words_in_both(encoder: LearnedEncoder, vectors: WordVectors) -> tuple[LearnedKeys, list[str]]:
    """The encoder's table of words, and those that have a vector too; refused if they are too few to map one by."""
    table = next(s for s in encoder.inputs.sources if isinstance(s, LearnedKeys) and s.name == "words")
    shared = [word for word in table.keys if word in vectors]
    if len(shared) <= vectors.vector_size:
        raise TrainingError(
            f"only {len(shared)} words of the corpus have a vector to expand from: too few to fit a mapping"
        )
    return table, shared


def expand(encoder: LearnedEncoder, vectors: WordVectors, most: int) -> None:
    """Map the words of ``vectors`` that the encoder does not know into its vector space, and add them to it."""
    table, shared = words_in_both(encoder, vectors)
    own = table.module.weight.detach().numpy()
    learned = own[[table.index[word] for word in shared]]
    mapping = linear_map(vectors.lookup(shared), learned)
    new = [word for word in vectors.index_to_key[:most] if word not in table.index]
    made = vectors.lookup(new) @ mapping[:-1] + mapping[-1]
    wider = LearnedKeys("words", [*table.keys, *new], table.module.dim)
    wider.module.weight.data = torch.from_numpy(np.concatenate([own, made]).astype(np.float32))
    place = encoder.inputs.sources.index(table)
    encoder.inputs.sources[place] = wider
    encoder.inputs.module.sources[place] = wider.module.eval()
