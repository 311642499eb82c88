"""One vector per occurrence of a word. 语境词向量

in    a ``Corpus`` (CoVe: parallel text), or published files
out   a ``ContextEncoder``: for each sentence its tokens, and their vectors in every layer, ``(layers, tokens, dim)``

Read ``interfaces.py`` first (``ContextEncoder``, ``Layers``, ``LanguageModel``), then ``elmo/model.py`` for what an
encoder looks like; each package has its own page.

elmo          a language model in both directions, over characters
ulmfit        a language model of words, characters or subwords (AWD-LSTM)
cove          the encoder of a translation model
transformer   BERT, GPT, XLM and their kin: published ones, and those trained here

stack         several encoders side by side, [x; ELMo]
static        word vectors as an encoder whose vectors depend on no context
fine_tuning   what an encoder hands to a task that trains it further

The vectors of a sentence depend on this sentence alone, whatever its batch; there is one vector per given word, and a
sentence of any length is read to its end. A language model also says how probable words are; perplexity, surprisals
and substitutes are written once, in ``LanguageModel``. May import ``neural``, ``training``, ``store`` and what is
below, but not ``words``; torch is imported by the packages, never by this page.
"""
