"""Words that are worth a look in an index. 示例词"""

from __future__ import annotations

import numpy as np

from polyseme.search.index import Index

_LOOKED_AT = 5_000_000  # tokens in which words with several tags are looked for


def example_words(index: Index, n: int = 12) -> list[str]:
    """Frequent words that likely have several senses: by their second tag, or else the short ones of middle rank."""
    corpus = index.corpus
    words = [word for word in index.words.words[:600] if any(c.isalpha() for c in word)]
    if corpus.tags is None:
        return sorted(words[20:300], key=len)[:n] or words[:n]
    ids, tags = np.asarray(corpus.ids[:_LOOKED_AT]), np.asarray(corpus.tags[:_LOOKED_AT])
    shape = (min(2000, len(corpus.vocabulary)), max(2, len(corpus.tag_names)))
    frequent = ids < shape[0]
    pairs = ids[frequent].astype(np.int64) * shape[1] + tags[frequent]
    second = np.sort(np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape), axis=1)[:, -2]
    places = corpus.vocabulary.index
    known = [word for word in words if places[word] < shape[0]]
    return sorted(known, key=lambda word: -int(second[places[word]]))[:n]
