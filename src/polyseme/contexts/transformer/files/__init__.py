"""Published files of Transformers. 公开的 Transformer 文件

Read ``recognise.py`` first: which format a path holds, told by the names of its files and without torch.

huggingface   folders with config.json, weights and a tokenizer
word_bpe      the tokenizers that ``transformers`` has in Python only (XLM, FlauBERT, PhoBERT …), made equal ones of the
              library ``tokenizers``
tensorflow    the checkpoints of google-research/bert; ``tensor_bundle`` reads their format without TensorFlow

Out comes a network and its tokenizer; numbers are checked before memory is allocated, and code is never executed.
"""
