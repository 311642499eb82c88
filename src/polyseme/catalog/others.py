"""Rows for what is not a trainable method: models of published files, composed models, and tasks."""

from __future__ import annotations

from polyseme.catalog.rows import Row

# What is read from published files and saved in model folders, but cannot be trained here.
PUBLISHED: tuple[Row, ...] = (
    Row(
        "vectors",
        "词向量文件",
        "words",
        (),
        "polyseme.words.vectors:WordVectors",
        "polyseme.words.vectors:VectorsOptions",
        2013,
        "word vectors read from a published file",
    ),
    Row(
        "fasttext-file",
        "fastText 文件",
        "words",
        (),
        "polyseme.words.files.published:PublishedFastText",
        "polyseme.words.files.published:FastTextFileOptions",
        2017,
        "Bojanowski et al., Enriching Word Vectors with Subword Information; read from a fastText file",
    ),
    Row(
        "transformer",
        "Transformer 编码器",
        "contexts",
        (),
        "polyseme.contexts.transformer.model:TransformerEncoder",
        "polyseme.contexts.transformer.options:TransformerOptions",
        2017,
        "Vaswani et al., Attention Is All You Need; BERT, RoBERTa, ALBERT, ELECTRA, GPT-2 … read from published files",
    ),
    Row(
        "sentence-transformer",
        "Transformer 句编码器",
        "sentences",
        (),
        "polyseme.sentences.transformer:SentenceTransformer",
        "polyseme.sentences.transformer:SentenceTransformerOptions",
        2019,
        "Reimers & Gurevych, Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks; read from published files",
    ),
    Row(
        "piece-table",
        "子词向量表",
        "sentences",
        (),
        "polyseme.sentences.piece_table:PieceTable",
        "polyseme.sentences.piece_table:PieceTableOptions",
        2024,
        "a vector for each piece of a text and their mean: StaticEmbedding of sentence-transformers, model2vec",
    ),
    Row(
        "use-multilingual",
        "多语言通用句编码器",
        "sentences",
        (),
        "polyseme.sentences.multilingual:UseMultilingual",
        "polyseme.sentences.multilingual:UseMultilingualOptions",
        2020,
        "Yang et al., Multilingual Universal Sentence Encoder for Semantic Retrieval; read from published files",
    ),
    Row(
        "infersent-file",
        "InferSent 文件",
        "sentences",
        (),
        "polyseme.sentences.published:PublishedInferSent",
        "polyseme.sentences.options:InferSentFileOptions",
        2017,
        "Conneau et al., Supervised Learning of Universal Sentence Representations; the authors' published weights",
    ),
)

# What is made of other models; but for distilled vectors, they are in folders below it.
COMPOSED: tuple[Row, ...] = (
    Row(
        "distilled",
        "蒸馏词向量",
        "words",
        (),
        "polyseme.words.distil:Distilled",
        "polyseme.words.distil:DistilOptions",
        2020,
        "Bommasani et al., Interpreting Pretrained Contextualized Representations via Reductions to Static Embeddings",
    ),
    Row(
        "static",
        "静态词向量编码",
        "contexts",
        (),
        "polyseme.contexts.static:StaticEncoder",
        "polyseme.contexts.static:StaticOptions",
        2013,
        "word vectors as a context encoder: a word has the same vector everywhere",
    ),
    Row(
        "stack",
        "编码器拼接",
        "contexts",
        (),
        "polyseme.contexts.stack:Stack",
        "polyseme.contexts.stack:StackOptions",
        2018,
        "encoders side by side, their vectors concatenated word by word: [GloVe; CoVe], [x; ELMo]",
    ),
    Row(
        "pooled",
        "池化句向量",
        "sentences",
        (),
        "polyseme.sentences.pooled:Pooled",
        "polyseme.sentences.options:PooledOptions",
        2016,
        "a context encoder as a sentence encoder: the vectors of the words pooled into one",
    ),
)


# What is fitted to labelled examples, with an encoder below it: polyseme fit TASK.
TASKS: tuple[Row, ...] = (
    Row(
        "classify",
        "文本分类",
        "tasks",
        ("texts",),
        "polyseme.tasks.classify:Classify",
        "polyseme.tasks.options:ClassifyOptions",
        2014,
        "one label per text, from any encoder",
    ),
    Row(
        "pair",
        "文本对匹配",
        "tasks",
        ("pairs",),
        "polyseme.tasks.pair:Pair",
        "polyseme.tasks.options:PairOptions",
        2014,
        "a class or score for two texts: paraphrase, similarity",
    ),
    Row(
        "tag",
        "序列标注",
        "tasks",
        ("tags",),
        "polyseme.tasks.tag:Tag",
        "polyseme.tasks.options:TagOptions",
        2015,
        "one tag per word: names, parts of speech; BIO, BIOES, BMES",
    ),
    Row(
        "span",
        "阅读理解",
        "tasks",
        ("spans",),
        "polyseme.tasks.span:Span",
        "polyseme.tasks.options:SpanOptions",
        2017,
        "the answer to a question, as a span of a passage",
    ),
)
