"""InferSent as its authors published it (已发布的 InferSent): infersent1.pkl with GloVe, infersent2.pkl with fastText.

    u = max_t BiLSTM(x_<s>, x_1 … x_n, x_</s>)

Words without a vector are omitted, and boundary words are added around the text if they have a vector: ``<s> </s>`` in
the first version, ``<p> </p>`` in the second. What differs from the authors' program: padding is never included in the
maximum (in their first version this made a vector depend on its batch), and raw text is tokenized by ``segment``, not
by NLTK, which has "do n't" (give lists of words for another tokenization).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from polyseme.interfaces import Progress, Sentence, WordVectors, silent
from polyseme.sentences.infersent import InferSent
from polyseme.sentences.inputs import PreparedTexts
from polyseme.sentences.options import InferSentFileOptions


class PublishedInferSent(InferSent):
    """A BiLSTM with max-pooling that omits unknown words and adds boundary words around a text."""

    method: ClassVar[str] = "infersent-file"
    Options: ClassVar[type] = InferSentFileOptions
    options: InferSentFileOptions

    @property
    def vectors(self) -> WordVectors:
        """The word vectors at its input."""
        found: WordVectors = self.inputs.encoders[0]
        return found

    def prepare(self, texts: Sequence[Sentence], progress: Progress = silent) -> PreparedTexts:
        first, last = self.options.boundaries.split()
        known = self.vectors
        lists = [
            [word for word in (first, *tokens, last) if word in known] for tokens in self.inputs.token_lists(texts)
        ]
        return self.inputs.prepare(lists, progress=progress)
