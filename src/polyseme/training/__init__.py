"""One training loop for every torch model. 训练

in    a ``Task``: the network, how many steps an epoch has, the loss of a batch, the held-out score
out   the network with the weights that scored best, the curve (``training.jsonl``), and checkpoints on the way

Read ``task.py`` first: what a method gives to the loop. Most give a ``BatchTask``, which needs a ``loss``; a
``MixedTask`` takes turns between several. Then ``loop.py``: steps, reports, checkpoints, early stopping, Ctrl-C.

run                what a training has besides options: checkpoint, resume, a model to start from, the locked output
options            epochs, minutes, learning rate, schedule: what all torch methods share
optimisers         AdamW, Adagrad, SGD, which update only the rows that a sparse gradient touches
checkpoint         unfinished work: one file, replaced whole
torchrun, hogwild  several processes: a part of each batch for each, or one copy of the weights for all

Random numbers depend on the seed and the position only, so that a resumed run gives the same bits. ``run`` and
``checkpoint`` also serve the methods whose loop is compiled (``words/epochs.py``), and import no torch. May import
``store`` and what is below.
"""
