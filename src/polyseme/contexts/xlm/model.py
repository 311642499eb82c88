"""XLM (跨语言语境词向量): one Transformer for several languages, with a shared subword vocabulary.

Lample & Conneau, "Cross-lingual Language Model Pretraining", 2019.

    CLM   max Σ log p(x_i | x_<i)                        on streams of one language
    MLM   max Σ over masked log p(x_i | masked x)         on streams of one language
    TLM   the same on  </s> x </s> </s> y </s>,  y a translation of x: positions restart at y, and every subword has
          the language of its side, so that a masked word can be predicted from the other language
    input = subword + position + language

What differs from the paper: when encoding, the language of a text is detected from its subwords unless it is given;
what all texts of a language have in common is subtracted where word vectors are pooled into one vector per text, so
that translations are near; there is no dropout by default; weights are initialised with standard deviation 1/√dim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from polyseme.contexts.transformer.encode import Runner
from polyseme.contexts.transformer.model import TransformerEncoder
from polyseme.contexts.transformer.network import Batch, Network
from polyseme.contexts.transformer.packed import packed
from polyseme.contexts.transformer.tokenizer import Ints, Pieces
from polyseme.contexts.transformer.trained import TrainedTransformer
from polyseme.contexts.transformer.windows import Window
from polyseme.contexts.xlm.options import XlmOptions
from polyseme.data.parallel import Parallel
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import EncodedSentence, FloatArray, LayerChoice, Layers, Sentence
from polyseme.neural.mix import ScalarMix
from polyseme.store.folder import Parts
from polyseme.store.model import About, Model
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run

if TYPE_CHECKING:
    from typing_extensions import Self

SAMPLE = 300  # texts of a language to find its centre from


class Languages:
    """Detects the languages of sequences: argmax over languages of Σ log p(subword | language)."""

    def __init__(self, frequencies: FloatArray) -> None:
        self.log_frequencies = torch.log(torch.from_numpy(frequencies))  # (languages, V)

    def __call__(self, batch: Batch) -> Tensor:
        """The language of each row, at every position, ``(B, T)``."""
        scores = self.log_frequencies.to(batch.ids.device)[:, batch.ids]  # (languages, B, T)
        if batch.mask is not None:
            scores = scores * batch.mask
        return scores.sum(dim=2).argmax(dim=0)[:, None].expand_as(batch.ids)

    def of_sequence(self, ids: Ints) -> int:
        """The language of one sequence."""
        return int(self.log_frequencies[:, ids].sum(dim=1).argmax())


class LanguageRunner(Runner):
    """A runner that adds the language of every sequence: the given one, or the one detected from its subwords."""

    def __init__(self, network: Network, pieces: Pieces, languages: Languages) -> None:
        super().__init__(network, pieces)
        self.languages = languages
        self.language: int | None = None

    def language_of(self, ids: Ints) -> int:
        """The given language, or the detected one."""
        return self.languages.of_sequence(ids) if self.language is None else self.language

    def _batch(self, sequences: Sequence[Ints], rows: list[tuple[int, Window]]) -> Batch:
        batch = super()._batch(sequences, rows)
        languages = torch.tensor([self.language_of(sequences[number]) for number, _ in rows])
        return batch._replace(languages=languages[:, None].expand_as(batch.ids))


class Xlm(TrainedTransformer):
    """A network for several languages, and the frequency of each subword in each language."""

    method: ClassVar[str] = "xlm"
    Options: ClassVar[type] = XlmOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.xlm:train_xlm"
    options: XlmOptions

    def __init__(
        self,
        options: XlmOptions,
        network: Network,
        pieces: Pieces,
        languages: list[str],
        frequencies: FloatArray,
        *,
        centres: FloatArray | None = None,
        mix: ScalarMix | None = None,
        about: About | None = None,
    ) -> None:
        """``centres`` is the mean of the texts of each language, ``(languages, layers, dim)``."""
        super().__init__(options, network, pieces, mix=mix, about=about)
        self.languages, self.frequencies, self.centres = languages, frequencies, centres
        network.detect = self._detect = Languages(frequencies)  # for readers that do not pass languages themselves

    @classmethod
    def train(cls, data: Any, options: XlmOptions, run: Run) -> Self:
        """Train, then find the centre of each language."""
        trained = super().train(data, options, run)
        trained.centres = trained._found_centres(_samples(data, options), run.start)
        return trained

    def _found_centres(self, samples: Mapping[str, list[Sentence]], start: Model | None) -> FloatArray | None:
        """The mean of the texts of each language; of one without texts here, that of the model trained further."""
        known = start.centres if isinstance(start, Xlm) else None
        centres = []
        for number, name in enumerate(self.languages):
            encoded = self.encode_tokens(samples.get(name, []), language=name)
            means = [one.layers.mean(axis=1) for one in encoded if one.tokens]
            if not means and known is None:
                return None
            centres.append(np.mean(means, axis=0) if means or known is None else known[number])
        return np.asarray(centres, dtype=np.float32)

    def common(self, tokens: Sequence[str], layers: LayerChoice) -> FloatArray | None:
        """The centre of the language of this text, of one layer, ``(D,)``."""
        if self.centres is None:
            return None
        centre = self.centres[self.languages.index(self.language_of(" ".join(tokens)))][:, None]  # (L, 1, D)
        return np.asarray(Layers.read(layers, self.n_layers).planes(centre, self._mix_weights())[0, 0])

    @cached_property
    def runner(self) -> LanguageRunner:
        """Encodes sequences of subwords."""
        return LanguageRunner(packed(self.reading), self.pieces, self._detect)

    def encode_tokens(
        self, sentences: Iterable[Sentence], *, layers: LayerChoice = "all", language: str | None = None
    ) -> Iterator[EncodedSentence]:
        """The vectors of the words of each sentence; ``language`` is that of all sentences (default: detected)."""
        if language is None:
            return super().encode_tokens(sentences, layers=layers)
        if language not in self.languages:
            raise OptionError(f"there is no language {language!r}; there are {', '.join(self.languages)}")
        return self._of_language(sentences, layers, self.languages.index(language))

    def _of_language(
        self, sentences: Iterable[Sentence], layers: LayerChoice, language: int
    ) -> Iterator[EncodedSentence]:
        self.runner.language = language
        try:
            yield from super().encode_tokens(sentences, layers=layers)
        finally:
            self.runner.language = None

    def language_of(self, text: str) -> str:
        """The most likely language of a text, by the frequencies of its subwords."""
        return self.languages[self.runner.language_of(self.pieces.ids([self.segmentation.normalised(text)])[0])]

    def generate(self, text: str = "", length: int = 50, **_: Any) -> str:
        """Not supported: XLM in ``transformers`` generates by filling masks, which a causal model has not learned."""
        raise OptionError("xlm models give vectors and probabilities: train gpt to continue a text")

    def parts(self) -> Parts:
        """The parts of every Transformer, and the languages."""
        parts = super().parts()
        centres = {} if self.centres is None else {"centres": self.centres}
        return Parts(
            {**parts.tensors, "languages": self.frequencies, **centres},
            {**parts.tables, "languages": self.languages},
            parts.files,
        )

    @classmethod
    def from_parts(cls, options: Any, parts: Parts, about: About) -> Self:
        """The model that was saved as ``parts``."""
        tensors = dict(parts.tensors)
        frequencies, languages = tensors.pop("languages", None), parts.tables.get("languages", [])
        centres = tensors.pop("centres", None)
        plain = TransformerEncoder.from_parts(options, Parts(tensors, {}, parts.files), about)
        wanted = (len(languages), plain.network.vocabulary_size)
        if frequencies is None or frequencies.shape != wanted or not languages or not (frequencies > 0).all():
            raise FormatError("the model folder was altered: the table of its languages is missing or misshapen")
        shape = (len(languages), plain.n_layers, plain.dim)
        if centres is not None and not (centres.shape == shape and np.isfinite(centres).all()):
            raise FormatError("the model folder was altered: the centres of its languages are misshapen or not finite")
        found = np.array(frequencies, dtype=np.float32)
        return cls(
            options, plain.network, plain.pieces, list(languages), found,
            centres=centres, mix=plain.mix, about=about,
        )  # fmt: skip


def _samples(data: Mapping[str, Corpus | Parallel], options: XlmOptions) -> dict[str, list[Sentence]]:
    """Some texts of each language; of translations if there are any, whose centres differ by the language alone."""
    found: dict[str, list[Sentence]] = {}
    for name, text in data.items():
        places = np.unique(np.linspace(0, len(text) - 1, min(SAMPLE, len(text)), dtype=int)).tolist()
        if isinstance(text, Corpus):
            found.setdefault(name, [text.sentence(place) for place in places])
        else:
            pairs = [text[place] for place in places]
            found.update({side: [pair[n] for pair in pairs] for n, side in enumerate(options.sides())})
    return found
