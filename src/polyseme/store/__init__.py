"""Models as folders. 模型的保存

A ``Model`` is its options and its ``Parts``: arrays, tables of words, files, and other models. ``parts()`` takes it
apart, ``from_parts()`` puts it together; everything else (saving, loading, copying, sending to another process, the
model card, the fingerprint) is written once, here.

Read ``model.py`` first, then ``folder.py``: the folder and its ``model.json``. ``safetensors_file`` reads and writes
the arrays, as memory maps; ``torch_names`` recognises published torch files by the names of their tensors.

No class path is saved: ``model.json`` names the method, and the catalog says which class that is. May import
``text``, ``disk``, ``catalog`` and what is below; the formats of other libraries are in ``words/files``,
``contexts/*/files`` and ``sentences/files``.
"""
