"""Options of poolings and of sentence encoders that are trained with a task. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.learn.options import MODES, LabelOptions, LearnedOptions, TextOptions
from polyseme.options import option
from polyseme.training.options import schedule_option

CONCATENATED = {"last-max-mean": "last", "first-max-mean": "first"}
ATTENDING = ("surprisal", "pos")  # weighted by how much attention a reader would give a word
POOLS = ("mean", "max", "first", "last", "tfidf", "sif", "usif", "pmean", *CONCATENATED, *ATTENDING)
ACTIVATIONS = ("relu", "tanh", "identity")
POOLINGS = ("max", "k-max", "mean")
CELLS = ("lstm", "gru")


@dataclass(frozen=True)
class PooledOptions:
    """Options of poolings."""

    pool: str = option("mean", "pooling of word vectors into one", choices=POOLS)
    layers: str = option("mean", "layer to pool: top, mean, mix or a number")
    smoothing: float = option(
        1e-3, "sif: a in a/(a + p(w)); larger values give frequent words more weight", minimum=1e-9
    )
    components: int | None = option(None, "sif, usif: principal components to remove; default: one and five", minimum=0)
    powers: str = option("-inf,1,inf", "pmean: its powers; -inf is the minimum, inf the maximum")
    language_model: str | None = option(
        None, "surprisal: language model that measures it; default: word frequency", names="model"
    )
    residual: float = option(
        0.0, "surprisal, pos: constant added to every word's attention; 0: attention alone", minimum=0
    )


@dataclass(frozen=True)
class DanOptions(LearnedOptions):
    """Options of DAN."""

    n_layers: int = option(2, "hidden or recurrent layers", minimum=0, maximum=100)
    hidden: int = option(300, "units of a hidden layer, or of a recurrent layer per direction", minimum=1)
    word_dropout: float = option(0.3, "word dropout: fraction of words dropped at random", minimum=0, maximum=0.99)
    dropout: float = option(0.2, "dropout in the encoder", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class TextCnnOptions(LearnedOptions):
    """Options of TextCNN."""

    filters: str = option("2x100 3x100 4x100", "convolution filters, as WIDTHxNUMBER")
    epochs: int = option(10, "maximum number of passes over the examples", minimum=0)
    lr: float = option(4e-3, "learning rate", minimum=0)
    schedule: str = schedule_option("linear")
    input_dropout: float = option(0.1, "dropout on the token vectors", minimum=0, maximum=0.95)
    activation: str = option("relu", "activation of the filters", choices=ACTIVATIONS)
    pooling: str = option("max", "pooling of a filter over the text", choices=POOLINGS)
    k: int = option(3, "values kept per filter by k-max pooling", minimum=1)


@dataclass(frozen=True)
class DcnnOptions(LearnedOptions):
    """Options of DCNN."""

    filters: str = option("7x6 5x14", "convolutions by layer, as WIDTHxNUMBER of feature maps")
    k_top: int = option(4, "values kept per row by k-max pooling in the last layer", minimum=1)


@dataclass(frozen=True)
class RnnOptions(LearnedOptions):
    """Options of recurrent encoders."""

    cell: str = option("lstm", "recurrent cells", choices=CELLS)
    hidden: int = option(128, "units of a hidden layer, or of a recurrent layer per direction", minimum=1)
    n_layers: int = option(1, "hidden or recurrent layers", minimum=1, maximum=20)
    bidirectional: bool = option(True, "read texts in both directions")


@dataclass(frozen=True)
class SelfAttentionOptions(RnnOptions):
    """Options of structured self-attention."""

    rows: int = option(8, "rows of the attention matrix", minimum=1)
    attention_units: int = option(100, "units of the attention's hidden layer", minimum=1)
    penalty: float = option(0.3, "weight of the penalty ‖AAᵀ - I‖², which keeps the rows different", minimum=0)


@dataclass(frozen=True)
class HanOptions(RnnOptions):
    """Options of HAN."""

    cell: str = option("gru", "recurrent cells", choices=CELLS)
    hidden: int = option(50, "units of a hidden layer, or of a recurrent layer per direction", minimum=1)
    attention_units: int = option(100, "units of the attention's hidden layer", minimum=1)


INFERSENT_ENCODERS = ("bilstm-max", "bilstm-mean", "bigru-last", "lstm", "gru", "self-attentive", "hierarchical-conv")
VECTORS = "pretrained word vectors as input, a model or a published file; default: learned"


FROZEN = "keep pretrained word vectors frozen, or fine-tune them"


@dataclass(frozen=True)
class PairClassifierOptions(TextOptions):
    """Options of the classifier for pairs of texts."""

    classifier: int = option(512, "units of the classifier's layers", minimum=1)
    nonlinear: bool = option(False, "tanh and dropout between the classifier's layers")
    dropout: float = option(0.1, "dropout in a nonlinear classifier", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class InferSentOptions(PairClassifierOptions):
    """Options of InferSent."""

    encoder_mode: str = option("frozen", FROZEN, choices=("frozen", "finetune"))
    word_vectors: str | None = option(None, VECTORS, names="model")
    encoder: str = option("bilstm-max", "encoder architecture of the paper", choices=INFERSENT_ENCODERS)
    hidden: int = option(256, "units per direction, or filters of a convolution", minimum=1)
    batch_size: int = option(64, "batch size: pairs per step", minimum=1)
    epochs: int = option(6, "maximum number of passes over the pairs", minimum=0)
    schedule: str = schedule_option("linear")


@dataclass(frozen=True)
class InferSentFileOptions(InferSentOptions):
    """Options of published InferSent weights."""

    boundaries: str = option("<s> </s>", "start and end words added around a text, if they have vectors")


@dataclass(frozen=True)
class RaeOptions(TextOptions):
    """Options of the recursive autoencoder."""

    encoder_mode: str = option("frozen", FROZEN, choices=MODES)
    word_vectors: str | None = option(
        None, "pretrained word vectors as input, a model or a published file; default: word2vec "
              "trained on the text",
        names="model",
    )  # fmt: skip
    word_dim: int = option(50, "dimension of word vectors trained on the text", minimum=1)
    vector: str = option(
        "mean", "vector of a text: over all its words and phrases, or the top phrase", choices=("mean", "root")
    )
    grid: int = option(
        15, "dynamic pooling: rows and columns of the similarity matrix of two texts", minimum=1, maximum=100
    )
    longest: int = option(40, "maximum words of a training sentence", minimum=2)
    max_sentences: int = option(100_000, "maximum number of training sentences", minimum=2)
    batch_size: int = option(64, "batch size: sentences per step", minimum=1)
    hold_out: float = option(0.02, "fraction of the sentences held out for the reports", minimum=0, maximum=0.5)
    epochs: int = option(3, "passes over the sentences", minimum=0)
    input_dropout: float = option(0.0, "dropout on the token vectors", minimum=0, maximum=0.95)


QUICK_DIM = 200  # of word vectors learned by quick-thought if none are given


@dataclass(frozen=True)
class QuickThoughtOptions(TextOptions):
    """Options of quick-thought. ``dim`` is the dimension of the word vectors of both encoders together."""

    encoder_mode: str = option("frozen", FROZEN, choices=("frozen", "finetune"))
    word_vectors: str | None = option(None, VECTORS, names="model")
    hidden: int = option(256, "units per encoder and direction", minimum=1)
    bidirectional: bool = option(False, "read sentences in both directions")
    dim: int | None = option(
        None,
        f"dimension of learned word vectors, half of it for each encoder; default: {QUICK_DIM} without word_vectors, "
        "0 with them; both encoders read given vectors and those learned beside them",
        minimum=0,
    )
    min_count: int = option(3, "minimum word count; rarer words are unknown", minimum=1)
    longest: int = option(40, "maximum words of a sentence", minimum=1)
    max_sentences: int = option(500_000, "maximum number of training sentences", minimum=2)
    batch_size: int = option(40, "batch size: consecutive sentences among which the neighbour is chosen", minimum=2)
    hold_out: float = option(0.02, "fraction of the batches held out for the reports", minimum=0, maximum=0.5)
    epochs: int = option(3, "passes over the sentences", minimum=0)
    lr: float = option(2e-3, "learning rate", minimum=0)
    schedule: str = schedule_option("linear")
    input_dropout: float = option(0.0, "dropout on the token vectors", minimum=0, maximum=0.95)


DIRECTIONS = ("uni", "bi", "combined")
CONDITIONS = ("every-step", "first-state")


@dataclass(frozen=True)
class SkipThoughtOptions(TextOptions):
    """Options of skip-thought."""

    directions: str = option("uni", "unidirectional, bidirectional, or two encoders concatenated", choices=DIRECTIONS)
    hidden: int = option(512, "dimension of an encoder's vector, and units of its decoders", minimum=1)
    condition: str = option("every-step", "where the decoder receives the sentence vector", choices=CONDITIONS)
    dim: int | None = option(200, "dimension of learned word vectors", minimum=1)
    min_count: int = option(3, "minimum word count; rarer words are unknown", minimum=1)
    negative: int = option(
        2000, "sampled softmax: approximate number of words per batch; a smaller vocabulary is used whole", minimum=1
    )
    expand: str | None = option(None, "vocabulary expansion: word vectors for words not in the corpus", names="model")
    most_expanded: int = option(200_000, "number of (most frequent) words to use from these vectors", minimum=0)
    longest: int = option(40, "maximum words of a sentence", minimum=1)
    max_sentences: int = option(500_000, "maximum number of training sentences", minimum=2)
    batch_size: int = option(64, "batch size: sentences per step", minimum=1)
    hold_out: float = option(0.02, "fraction of the sentences held out for the reports", minimum=0, maximum=0.5)
    epochs: int = option(1, "passes over the sentences", minimum=0)
    lr: float = option(2e-3, "learning rate", minimum=0)
    input_dropout: float = option(0.0, "dropout on the token vectors", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class ConversationOptions(InferSentOptions):
    """Options of the conversation encoder."""

    encoder_mode: str = option("finetune", FROZEN, choices=("frozen", "finetune"))
    encoder: str = option("mean", "encoder of a turn", choices=("mean", "dan", "bilstm-max"))
    hidden: int = option(256, "dimension of a vector; mean: only if neither dim nor word vectors are given", minimum=2)
    n_layers: int = option(2, "extra layers for responses only", minimum=0, maximum=10)
    batch_size: int = option(256, "batch size: turns per step, each choosing among all answers of the batch", minimum=2)
    hold_out: float = option(0.05, "fraction of the answers held out for the reports", minimum=0, maximum=0.5)
    epochs: int = option(10, "passes over the turns", minimum=0)


SHARES = "sampling weights of the sources, such as nli=1 corpus=5"


@dataclass(frozen=True)
class GenSenOptions(LabelOptions, SkipThoughtOptions, PairClassifierOptions):
    """Options of GenSen."""

    directions: str = option("bi", "unidirectional or bidirectional", choices=("uni", "bi"))
    shares: str | None = option(None, f"{SHARES}; default: nli and texts 1, the others 4.5")
    nonlinear: bool = option(True, "tanh and dropout between the classifier's layers")
    dropout: float = option(0.3, "dropout in the classifiers", minimum=0, maximum=0.95)
    batch_size: int = option(48, "batch size: texts per step", minimum=1)
    lr: float = option(1e-3, "learning rate", minimum=0)


@dataclass(frozen=True)
class UseOptions(LabelOptions, ConversationOptions):
    """Options of the universal sentence encoder."""

    hidden: int = option(256, "dimension of a vector", minimum=2)
    encoder_mode: str = option("frozen", FROZEN, choices=("frozen", "finetune"))
    encoder: str = option("dan", "encoder of a text", choices=("dan", "transformer"))
    depth: int = option(2, "layers of the encoder", minimum=1, maximum=24)
    n_heads: int = option(4, "attention heads of a Transformer", minimum=1)
    inner: int = option(512, "feed-forward dimension of a Transformer", minimum=1)
    bigrams: int | None = option(None, "dimension of embeddings of token bigrams; default: dim for dan", minimum=0)
    min_count: int = option(3, "minimum word count; rarer words are unknown", minimum=1)
    shares: str | None = option(None, f"{SHARES}; default: all equal")
    longest: int = option(60, "maximum words of a sentence from a corpus", minimum=1)
    max_sentences: int = option(500_000, "maximum number of training sentences from a corpus", minimum=2)
    dropout: float = option(0.1, "dropout in the encoder", minimum=0, maximum=0.95)
    epochs: int = option(3, "passes over all sources", minimum=0)
    schedule: str = schedule_option("constant")
