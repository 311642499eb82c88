"""Learning over an encoder (在编码器之上学习): one way for every task and every trained sentence encoder.

    inputs → Reader.prepare → Prepared ──batch──► Reader.net + output layer ──outputs──► Goal: loss, answers, figures
                                        └───────────────── Learning ─────────────────┘

Read ``learning.py`` first: the one training task over labelled examples. What flows in: labelled examples, and encoders
that were trained before, frozen or fine-tuned. What flows out: trained networks; ``sentences`` keeps the encoder of a
network, ``tasks`` the whole of it.

- ``prepared.py``   inputs that were looked at once, what looks at them (``Reader``), and the one loop over all of them
- ``learning.py``   ``Learning``, the training task; learning rates of encoders that learn
- ``goals.py``      what is to be told: ``Goal``, with its loss, answers and figures; ``Classes``
- ``metrics.py``    how good predictions are
- ``frozen.py``     texts by an encoder that does not learn
- ``pieces.py``     a Transformer that learns on whole inputs
- ``pairs.py``      two texts: frozen, siamese, matching, or read as one input
- ``inputs.py``     token vectors of texts, from ``token_vectors.py`` and ``context_layers.py``
- ``modules.py``    the interface of networks from token vectors to one vector per text
- ``options.py``    options of all training on labelled examples; imports no torch

It imports ``words``, ``contexts`` and what is below them.
"""
