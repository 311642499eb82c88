"""Published files of sentence encoders. 句编码器的公开文件

``sentence_transformers`` has the folders of that library, ``static_embedding`` those that are a table of subwords or
pooled word vectors, ``published`` InferSent and the multilingual USE. How a file is recognised is a row in
``catalog/formats.py``.
"""
