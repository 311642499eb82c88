"""The methods that can be trained: one row each, strings only.

Rows for what is not a trainable method: models of published files, composed models, and tasks.

The fields of a row of the catalog.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One method."""

    name: str
    chinese: str
    kind: str  # words | contexts | sentences | tasks
    learns_from: tuple[str, ...]  # kinds of data (data/training_data.py), any of them; "name=kind": several, by name
    where: str  # "module:Class"
    options: str  # the same of its options, found without importing what the method computes with
    year: int
    paper: str


class Format(NamedTuple):
    """One published format."""

    name: str
    tells: str  # "module:function", of a path and a file's first bytes: is it this?
    opens: str  # "module:function", of a path: the model
    inside: tuple[str, ...] = ()  # of STRANGERS, what its files may begin as
    needs_others: bool = False  # whether ``opens`` is also given ``load``, for models that are next to it


# fmt: off
METHODS: tuple[Row, ...] = (
    Row("onehot", "独热向量", "words", ("corpus",),
        "polyseme.words.counts:OneHot", "polyseme.words.counts:OneHotOptions",
        1975, "Salton et al., A Vector Space Model for Automatic Indexing"),
    Row("counts", "共现向量", "words", ("corpus",),
        "polyseme.words.counts:Counts", "polyseme.words.counts:CountsOptions",
        1990, "Church and Hanks, Word Association Norms, Mutual Information, and Lexicography"),
    Row("svd", "共现矩阵分解", "words", ("corpus",),
        "polyseme.words.svd:Svd", "polyseme.words.svd:SvdOptions",
        2015, "Levy et al., Improving Distributional Similarity with Lessons Learned from Word Embeddings"),
    Row("nnlm", "神经网络语言模型", "words", ("corpus",),
        "polyseme.words.nnlm:Nnlm", "polyseme.words.nnlm:NnlmOptions",
        2003, "Bengio et al., A Neural Probabilistic Language Model"),
    Row("word2vec", "词向量", "words", ("corpus",),
        "polyseme.words.word2vec:Word2Vec", "polyseme.words.word2vec:Word2VecOptions",
        2013, "Mikolov et al., Distributed Representations of Words and Phrases and their Compositionality"),
    Row("glove", "全局词向量", "words", ("corpus",),
        "polyseme.words.glove:Glove", "polyseme.words.glove:GloveOptions",
        2014, "Pennington et al., GloVe: Global Vectors for Word Representation"),
    Row("fasttext", "子词向量", "words", ("corpus",),
        "polyseme.words.fasttext:FastText", "polyseme.words.fasttext:FastTextOptions",
        2017, "Bojanowski et al., Enriching Word Vectors with Subword Information"),
    Row("wordrank", "排序词向量", "words", ("corpus",),
        "polyseme.words.wordrank:WordRank", "polyseme.words.wordrank:WordRankOptions",
        2016, "Ji et al., WordRank: Learning Word Embeddings via Robust Ranking"),
    Row("polyglot", "多语言词向量", "words", ("corpus",),
        "polyseme.words.polyglot:Polyglot", "polyseme.words.polyglot:PolyglotOptions",
        2013, "Al-Rfou et al., Polyglot: Distributed Word Representations for Multilingual NLP"),
    Row("cw2vec", "笔画词向量", "words", ("corpus",),
        "polyseme.words.cw2vec:Cw2Vec", "polyseme.words.cw2vec:Cw2VecOptions",
        2018, "Cao et al., cw2vec: Learning Chinese Word Embeddings with Stroke n-gram Information"),
    Row("elmo", "语境词向量", "contexts", ("corpus",),
        "polyseme.contexts.elmo.model:Elmo", "polyseme.contexts.elmo.options:ElmoOptions",
        2018, "Peters et al., Deep contextualized word representations"),
    Row("cove", "翻译所得的语境向量", "contexts", ("parallel",),
        "polyseme.contexts.cove.model:Cove", "polyseme.contexts.cove.options:CoveOptions",
        2017, "McCann et al., Learned in Translation: Contextualized Word Vectors"),
    Row("bert", "掩码语境词向量", "contexts", ("corpus",),
        "polyseme.contexts.transformer.pretrain.bert:Bert", "polyseme.contexts.transformer.options:BertOptions",
        2018, "Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding"),
    Row("gpt", "生成式语境词向量", "contexts", ("corpus",),
        "polyseme.contexts.transformer.pretrain.gpt:Gpt", "polyseme.contexts.transformer.options:GptOptions",
        2018, "Radford et al., Improving Language Understanding by Generative Pre-Training"),
    Row("mtdnn", "多任务深度神经网络", "contexts", ("*=texts|pairs",),
        "polyseme.tasks.multitask:MtDnn", "polyseme.contexts.transformer.options:MtDnnOptions",
        2019, "Liu et al., Multi-Task Deep Neural Networks for Natural Language Understanding"),
    Row("xlm", "跨语言语境词向量", "contexts", ("parallel=parallel", "*=corpus"),
        "polyseme.contexts.transformer.pretrain.xlm:Xlm", "polyseme.contexts.transformer.options:XlmOptions",
        2019, "Lample & Conneau, Cross-lingual Language Model Pretraining"),
    Row("ulmfit", "通用语言模型微调", "contexts", ("corpus",),
        "polyseme.contexts.ulmfit.model:Ulmfit", "polyseme.contexts.ulmfit.options:UlmfitOptions",
        2018, "Howard and Ruder, Universal Language Model Fine-tuning for Text Classification"),
    Row("bow", "词袋", "sentences", ("corpus",),
        "polyseme.sentences.bag_of_words:Bow", "polyseme.sentences.bag_of_words:BowOptions",
        1954, "Harris, Distributional Structure; the counts of a text's words, or their presence"),
    Row("tfidf", "词频-逆文档频率", "sentences", ("corpus",),
        "polyseme.sentences.bag_of_words:Tfidf", "polyseme.sentences.bag_of_words:TfidfOptions",
        1972, "Spärck Jones, A Statistical Interpretation of Term Specificity and its Application in Retrieval"),
    Row("lsa", "潜在语义分析", "sentences", ("corpus",),
        "polyseme.sentences.bag_of_words:Lsa", "polyseme.sentences.bag_of_words:LsaOptions",
        1990, "Deerwester et al., Indexing by Latent Semantic Analysis"),
    Row("dan", "深度平均网络", "sentences", ("texts",),
        "polyseme.sentences.encoders:Dan", "polyseme.sentences.options:DanOptions",
        2015, "Iyyer et al., Deep Unordered Composition Rivals Syntactic Methods for Text Classification"),
    Row("textcnn", "卷积句编码器", "sentences", ("texts",),
        "polyseme.sentences.encoders:TextCnn", "polyseme.sentences.options:TextCnnOptions",
        2014, "Kim, Convolutional Neural Networks for Sentence Classification"),
    Row("dcnn", "动态卷积网络", "sentences", ("texts",),
        "polyseme.sentences.encoders:Dcnn", "polyseme.sentences.options:DcnnOptions",
        2014, "Kalchbrenner et al., A Convolutional Neural Network for Modelling Sentences"),
    Row("rnn", "循环网络末态", "sentences", ("texts",),
        "polyseme.sentences.encoders:Rnn", "polyseme.sentences.options:RnnOptions",
        1997, "Hochreiter and Schmidhuber, Long Short-Term Memory; the last state as the text's vector"),
    Row("bilstm-max", "双向循环网络最大池化", "sentences", ("texts",),
        "polyseme.sentences.encoders:BiLstmMax", "polyseme.sentences.options:RnnOptions",
        2017, "Conneau et al., Supervised Learning of Universal Sentence Representations; its encoder, under any task"),
    Row("self-attention", "结构化自注意力", "sentences", ("texts",),
        "polyseme.sentences.encoders:SelfAttention", "polyseme.sentences.options:SelfAttentionOptions",
        2017, "Lin et al., A Structured Self-attentive Sentence Embedding"),
    Row("han", "层次注意力网络", "sentences", ("texts",),
        "polyseme.sentences.encoders:Han", "polyseme.sentences.options:HanOptions",
        2016, "Yang et al., Hierarchical Attention Networks for Document Classification"),
    Row("infersent", "自然语言推断句编码器", "sentences", ("pairs",),
        "polyseme.sentences.infersent:InferSent", "polyseme.sentences.options:InferSentOptions",
        2017, "Conneau et al., Supervised Learning of Universal Sentence Representations from NLI Data"),
    Row("skip-thought", "跳跃思维向量", "sentences", ("corpus",),
        "polyseme.sentences.sentence_order:SkipThought", "polyseme.sentences.options:SkipThoughtOptions",
        2015, "Kiros et al., Skip-Thought Vectors"),
    Row("rae", "递归自编码器", "sentences", ("corpus",),
        "polyseme.sentences.rae:Rae", "polyseme.sentences.options:RaeOptions",
        2011, "Socher et al., Dynamic Pooling and Unfolding Recursive Autoencoders for Paraphrase Detection"),
    Row("quick-thought", "快速思维向量", "sentences", ("corpus",),
        "polyseme.sentences.sentence_order:QuickThought", "polyseme.sentences.options:QuickThoughtOptions",
        2018, "Logeswaran and Lee, An efficient framework for learning sentence representations"),
    Row("gensen", "多任务通用句编码器", "sentences", ("corpus=corpus", "parallel=parallel", "nli=pairs", "texts=texts"),
        "polyseme.sentences.universal:GenSen", "polyseme.sentences.options:GenSenOptions",
        2018,
        "Subramanian et al., Learning General Purpose Sentence Representations via Large Scale Multi-task Learning"),
    Row("use", "通用句编码器", "sentences", ("corpus=corpus", "dialogues=corpus", "nli=pairs"),
        "polyseme.sentences.universal:UniversalEncoder", "polyseme.sentences.options:UseOptions",
        2018, "Cer et al., Universal Sentence Encoder"),
    Row("conversation", "对话句编码器", "sentences", ("dialogues=corpus", "nli=pairs"),
        "polyseme.sentences.conversation:Conversation", "polyseme.sentences.options:ConversationOptions",
        2018, "Yang et al., Learning Semantic Textual Similarity from Conversations"),
    Row("softbow", "软词袋", "sentences", ("corpus",),
        "polyseme.sentences.softbow:SoftBow", "polyseme.sentences.softbow:SoftBowOptions",
        2018, "Zhao and Mao, Fuzzy Bag-of-Words Model for Document Representation"),
    Row("doc2vec", "段落向量", "sentences", ("corpus",),
        "polyseme.sentences.doc2vec:Doc2Vec", "polyseme.sentences.doc2vec:Doc2VecOptions",
        2014, "Le and Mikolov, Distributed Representations of Sentences and Documents"),
)


# What is read from published files and saved in model folders, but cannot be trained here.
PUBLISHED: tuple[Row, ...] = (
    Row("vectors", "词向量文件", "words", (),
        "polyseme.words.vectors:WordVectors", "polyseme.words.vectors:VectorsOptions",
        2013, "word vectors read from a published file"),
    Row("fasttext-file", "fastText 文件", "words", (),
        "polyseme.words.files.models:PublishedFastText", "polyseme.words.files.models:FastTextFileOptions",
        2017, "Bojanowski et al., Enriching Word Vectors with Subword Information; read from a fastText file"),
    Row("transformer", "Transformer 编码器", "contexts", (),
        "polyseme.contexts.transformer.model:TransformerEncoder",
        "polyseme.contexts.transformer.options:TransformerOptions",
        2017,
        "Vaswani et al., Attention Is All You Need; BERT, RoBERTa, ALBERT, ELECTRA, GPT-2 … read from published files"),
    Row("sentence-transformer", "Transformer 句编码器", "sentences", (),
        "polyseme.sentences.transformer:SentenceTransformer",
        "polyseme.sentences.transformer:SentenceTransformerOptions",
        2019,
        "Reimers & Gurevych, Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks; "
        "read from published files"),
    Row("piece-table", "子词向量表", "sentences", (),
        "polyseme.sentences.token_table:TokenTable", "polyseme.sentences.token_table:TokenTableOptions",
        2024, "a vector for each piece of a text and their mean: StaticEmbedding of sentence-transformers, model2vec"),
    Row("use-multilingual", "多语言通用句编码器", "sentences", (),
        "polyseme.sentences.use_multilingual:UseMultilingual",
        "polyseme.sentences.use_multilingual:UseMultilingualOptions",
        2020, "Yang et al., Multilingual Universal Sentence Encoder for Semantic Retrieval; read from published files"),
    Row("infersent-file", "InferSent 文件", "sentences", (),
        "polyseme.sentences.infersent:PublishedInferSent", "polyseme.sentences.options:InferSentFileOptions",
        2017,
        "Conneau et al., Supervised Learning of Universal Sentence Representations; the authors' published weights"),
)

# What is made of other models; but for distilled vectors, they are in folders below it.
COMPOSED: tuple[Row, ...] = (
    Row("distilled", "蒸馏词向量", "words", (),
        "polyseme.words.distil:Distilled", "polyseme.words.distil:DistilOptions",
        2020,
        "Bommasani et al., Interpreting Pretrained Contextualized Representations via Reductions to Static Embeddings"),
    Row("static", "静态词向量编码", "contexts", (),
        "polyseme.contexts.static:StaticEncoder", "polyseme.contexts.static:StaticOptions",
        2013, "word vectors as a context encoder: a word has the same vector everywhere"),
    Row("stack", "编码器拼接", "contexts", (),
        "polyseme.contexts.stack:Stack", "polyseme.contexts.stack:StackOptions",
        2018, "encoders side by side, their vectors concatenated word by word: [GloVe; CoVe], [x; ELMo]"),
    Row("pooled", "池化句向量", "sentences", (),
        "polyseme.sentences.pooled:Pooled", "polyseme.sentences.options:PooledOptions",
        2016, "a context encoder as a sentence encoder: the vectors of the words pooled into one"),
)


# What is fitted to labelled examples, with an encoder below it: polyseme fit TASK.
TASKS: tuple[Row, ...] = (
    Row("classify", "文本分类", "tasks", ("texts",),
        "polyseme.tasks.classify:Classify", "polyseme.tasks.options:ClassifyOptions",
        2014, "one label per text, from any encoder"),
    Row("pair", "文本对匹配", "tasks", ("pairs",),
        "polyseme.tasks.pair:PairModel", "polyseme.tasks.options:PairOptions",
        2014, "a class or score for two texts: paraphrase, similarity"),
    Row("tag", "序列标注", "tasks", ("tags",),
        "polyseme.tasks.tag:Tag", "polyseme.tasks.options:TagOptions",
        2015, "one tag per word: names, parts of speech; BIO, BIOES, BMES"),
    Row("span", "阅读理解", "tasks", ("spans",),
        "polyseme.tasks.span:Span", "polyseme.tasks.options:SpanOptions",
        2017, "the answer to a question, as a span of a passage"),
    Row("choice", "多项选择", "tasks", ("choices",),
        "polyseme.tasks.choice:ChoiceModel", "polyseme.tasks.options:ChoiceOptions",
        2018, "the alternative that goes on from a text, or answers it"),
)
