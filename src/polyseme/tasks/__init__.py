"""Tasks: any encoder, frozen or fine-tuned, under a head. 任务

in    labelled examples (texts, pairs, choices, tags, spans), no encoder, one, or several
out   a ``TaskModel``: ``predict``, ``score``; saved and served like any model

Read ``model.py`` first (how every task is fitted: a reader, a net, a goal), then ``classify.py``. The others are of
the same shape: ``pair``, ``choice``, ``tag``, ``span`` (with ``span_windows`` and ``span_networks``), ``ulmfit``, and
``multitask``, which is MT-DNN.

heads        from the name of a head to the reader that it needs
options      each task's own options with those of its heads; imports no torch
fit          once, over folds, or with several seeds

Everything that tasks share (readers, goals, the training task, metrics) is in ``learn``. May import ``sentences`` and
what is below.
"""
