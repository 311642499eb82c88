"""Options of poolings, and of the sentence encoders that are learned with a task. Nothing here loads torch."""

from __future__ import annotations

from dataclasses import dataclass

from polyseme.options import option
from polyseme.training.options import TrainingOptions

CONCATENATED = {"last-max-mean": "last", "first-max-mean": "first"}
ATTENDING = ("surprisal", "pos")  # by how much a reader would attend to a word
POOLS = ("mean", "max", "first", "last", "tfidf", "sif", "usif", "pmean", *CONCATENATED, *ATTENDING)
PLACES = ("input", "hidden", "both")
MODES = ("auto", "frozen", "finetune", "multichannel")
ACTIVATIONS = ("relu", "tanh", "identity")
POOLINGS = ("max", "k-max", "mean")
CELLS = ("lstm", "gru")
BIGRAMS, LETTERS = 50, 30  # of tagged sentences: of characters, of words
DIM = 100  # of vectors that are learned with the task where nothing else is at the input


@dataclass(frozen=True)
class PooledOptions:
    """How the vectors of words become one."""

    pool: str = option("mean", "how the vectors of the words become one", choices=POOLS)
    layers: str = option("mean", "the layer that is pooled: top, mean, mix or a number")
    smoothing: float = option(1e-3, "sif: a of a/(a + p(w)); the greater, the more frequent words count", minimum=1e-9)
    components: int | None = option(
        None, "sif, usif: main directions that are taken off; unless given, one and five", minimum=0
    )
    powers: str = option("-inf,1,inf", "pmean: its powers; -inf is the minimum, inf the maximum")
    language_model: str | None = option(
        None, "surprisal: the model that words surprise; unless given, their frequency does", names="model"
    )
    residual: float = option(0.0, "surprisal, pos: added to every word's attention; 0: attention alone", minimum=0)


@dataclass(frozen=True)
class TextOptions(TrainingOptions):
    """What every encoder of texts has that learns. Defaults suit thousands of short texts."""

    dim: int | None = option(
        None,
        f"length of word vectors learned with the task, 0: none; unless given, {DIM} where no encoder is at the input",
        minimum=0,
    )
    min_count: int = option(1, "words seen fewer times in training are unknown", minimum=1)
    encoder_mode: str = option(
        "auto",
        "encoders and vectors stay as they are, or learn with the task; auto: word vectors learn, unless dim is given, "
        "and encoders stay; multichannel: word vectors as both, added",
        choices=MODES,
    )
    input_dropout: float = option(
        0.2, "share of the token vectors' numbers dropped in training", minimum=0, maximum=0.95
    )
    epochs: int = option(20, "most passes over the examples", minimum=0)
    schedule: str = option("constant", "how the learning rate falls towards the end")
    warmup: int = option(0, "steps over which the learning rate rises", minimum=0)
    clip_norm: float = option(5.0, "bound of the gradient's norm; 0: none", minimum=0)
    batch_size: int = option(32, "examples of a batch", minimum=1)
    dropout: float = option(0.5, "share of the encoder's numbers dropped in training", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class InputOptions(TextOptions):
    """What else the vectors of tokens are made of, where encoders may be given."""

    bigrams: int | None = option(
        None,
        f"length of vectors learned for each token with the next one; unless given, {BIGRAMS} for tags of characters",
        minimum=0,
    )
    letters: int | None = option(
        None,
        f"filters of a convolution over the letters of each token; unless given, {LETTERS} for tags of words",
        minimum=0,
    )
    layers: str = option("mix", "of an encoder its learned sum of layers (mix), or top, mean or a number")
    mix_penalty: float = option(0.001, "λ of the sum's weights: λ Σ w²", minimum=0)
    elmo_at: str = option("input", "where encoders enter: [x; ELMo], [h; ELMo] or both", choices=PLACES)


@dataclass(frozen=True)
class TuningOptions:
    """How encoders that are given learn with the task."""

    encoder_lr: float | None = option(
        None,
        "factor of the learning rate for fine-tuned encoders; unless given 0.1, of Transformers wider than 512 0.05, "
        "wider than 768 0.02; twice as much for tags",
        minimum=0,
    )
    layer_rates: float = option(
        1.1, "fine-tuning: how many times faster a layer learns than the one below it", minimum=1
    )
    encoder_dropout: float = option(
        0.0, "fine-tuning: share of a Transformer's own numbers dropped in training", minimum=0, maximum=0.95
    )
    lm_weight: float = option(
        0.5, "fine-tuning a GPT: weight of its own loss, the next piece's, beside the task's", minimum=0
    )
    max_pieces: int = option(
        256, "fine-tuning: pieces of a text, or of a pair, that a Transformer reads; of more, not the middle", minimum=8
    )
    top_layers: int | None = option(
        None, "fine-tuning: layers of the encoder that learn, from the top; unless given, all", minimum=0
    )


@dataclass(frozen=True)
class LabelOptions:
    """How labels count."""

    class_weights: str = option("none", "balanced: rare classes count more in the loss", choices=("none", "balanced"))


@dataclass(frozen=True)
class LearnedOptions(LabelOptions, TuningOptions, InputOptions):
    """What every training on labelled examples has."""


@dataclass(frozen=True)
class DanOptions(LearnedOptions):
    """Options of DAN."""

    n_layers: int = option(2, "hidden or recurrent layers", minimum=0, maximum=100)
    hidden: int = option(300, "units of a hidden layer, or of a recurrent one in each direction", minimum=1)
    word_dropout: float = option(0.3, "share of words left out at random in training", minimum=0, maximum=0.99)
    dropout: float = option(0.2, "share of the encoder's numbers dropped in training", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class TextCnnOptions(LearnedOptions):
    """Options of TextCNN."""

    filters: str = option("2x100 3x100 4x100", "convolutions, as WIDTHxNUMBER of each width")
    epochs: int = option(10, "most passes over the examples", minimum=0)
    lr: float = option(4e-3, "learning rate", minimum=0)
    schedule: str = option("linear", "how the learning rate falls towards the end")
    input_dropout: float = option(
        0.1, "share of the token vectors' numbers dropped in training", minimum=0, maximum=0.95
    )
    activation: str = option("relu", "nonlinearity of the filters", choices=ACTIVATIONS)
    pooling: str = option("max", "what is kept of a filter over the text", choices=POOLINGS)
    k: int = option(3, "values kept of a filter by k-max", minimum=1)


@dataclass(frozen=True)
class DcnnOptions(LearnedOptions):
    """Options of DCNN."""

    filters: str = option("7x6 5x14", "convolutions layer by layer, as WIDTHxNUMBER of feature maps")
    k_top: int = option(4, "values kept of each row by the last layer", minimum=1)


@dataclass(frozen=True)
class RnnOptions(LearnedOptions):
    """Options of recurrent encoders."""

    cell: str = option("lstm", "recurrent cells", choices=CELLS)
    hidden: int = option(128, "units of a hidden layer, or of a recurrent one in each direction", minimum=1)
    n_layers: int = option(1, "hidden or recurrent layers", minimum=1, maximum=20)
    bidirectional: bool = option(True, "whether texts are read in both directions")


@dataclass(frozen=True)
class SelfAttentionOptions(RnnOptions):
    """Options of structured self-attention."""

    rows: int = option(8, "rows of the attention matrix, each a view of its own", minimum=1)
    attention_units: int = option(100, "units of the attention's hidden layer", minimum=1)
    penalty: float = option(0.3, "weight of ‖AAᵀ - I‖², which keeps the rows apart", minimum=0)


@dataclass(frozen=True)
class HanOptions(RnnOptions):
    """Options of HAN."""

    cell: str = option("gru", "recurrent cells", choices=CELLS)
    hidden: int = option(50, "units of a hidden layer, or of a recurrent one in each direction", minimum=1)
    attention_units: int = option(100, "units of the attention's hidden layer", minimum=1)


INFERSENT_ENCODERS = ("bilstm-max", "bilstm-mean", "bigru-last", "lstm", "gru", "self-attentive", "hierarchical-conv")
VECTORS = "word vectors that are read, a model or a published file; unless given, they are learned"


FROZEN = "given word vectors stay as they are, or learn too"


@dataclass(frozen=True)
class PairOptions(TextOptions):
    """Options of the classifier over the vectors of two texts."""

    classifier: int = option(512, "units of the classifier's layers", minimum=1)
    nonlinear: bool = option(False, "tanh and dropout between the classifier's layers")


@dataclass(frozen=True)
class InferSentOptions(PairOptions):
    """Options of InferSent."""

    encoder_mode: str = option("frozen", FROZEN, choices=("frozen", "finetune"))
    word_vectors: str | None = option(None, VECTORS, names="model")
    encoder: str = option("bilstm-max", "which of the paper's encoders", choices=INFERSENT_ENCODERS)
    hidden: int = option(256, "units in each direction, or filters of a convolution", minimum=1)
    batch_size: int = option(64, "pairs of a batch", minimum=1)
    epochs: int = option(6, "most passes over the pairs", minimum=0)
    schedule: str = option("linear", "how the learning rate falls towards the end")
    dropout: float = option(0.1, "share dropped in a nonlinear classifier", minimum=0, maximum=0.95)


@dataclass(frozen=True)
class InferSentFileOptions(InferSentOptions):
    """Options of published InferSent weights."""

    boundaries: str = option("<s> </s>", "the words that are put before and behind a text, where they have vectors")


@dataclass(frozen=True)
class RaeOptions(TextOptions):
    """Options of the recursive autoencoder."""

    word_vectors: str | None = option(
        None, "word vectors that are read, a model or a published file; unless given, word2vec makes some of the text",
        names="model",
    )  # fmt: skip
    word_dim: int = option(50, "length of word vectors that are made of the text", minimum=1)
    vector: str = option(
        "mean", "of a text: of all its words and phrases, or the phrase of all", choices=("mean", "root")
    )
    grid: int = option(15, "cells on each side, of what two texts are compared by", minimum=1, maximum=100)
    longest: int = option(40, "words of a sentence that are learned from", minimum=2)
    max_sentences: int = option(100_000, "most sentences that are learned from", minimum=2)
    batch_size: int = option(64, "sentences of a batch", minimum=1)
    hold_out: float = option(0.02, "share of the sentences kept for the reports", minimum=0, maximum=0.5)
    epochs: int = option(3, "passes over the sentences", minimum=0)
    input_dropout: float = option(
        0.0, "share of the token vectors' numbers dropped in training", minimum=0, maximum=0.95
    )


@dataclass(frozen=True)
class QuickThoughtOptions(TextOptions):
    """Options of quick-thought. ``dim`` is the length of a learned word vector for both encoders together."""

    encoder_mode: str = option("frozen", FROZEN, choices=("frozen", "finetune"))
    word_vectors: str | None = option(None, VECTORS, names="model")
    hidden: int = option(256, "units of each encoder in each direction", minimum=1)
    bidirectional: bool = option(False, "whether sentences are read in both directions")
    dim: int | None = option(200, "length of learned word vectors, half of it for each encoder", minimum=0)
    min_count: int = option(3, "words seen fewer times in training are unknown", minimum=1)
    longest: int = option(40, "words of a sentence that are read", minimum=1)
    max_sentences: int = option(500_000, "most sentences that are learned from", minimum=2)
    batch_size: int = option(40, "consecutive sentences among which neighbours are chosen", minimum=2)
    hold_out: float = option(0.02, "share of the batches kept for the reports", minimum=0, maximum=0.5)
    epochs: int = option(3, "passes over the sentences", minimum=0)
    lr: float = option(2e-3, "learning rate", minimum=0)
    schedule: str = option("linear", "how the learning rate falls towards the end")
    input_dropout: float = option(
        0.0, "share of the token vectors' numbers dropped in training", minimum=0, maximum=0.95
    )


DIRECTIONS = ("uni", "bi", "combined")
CONDITIONS = ("every-step", "first-state")


@dataclass(frozen=True)
class SkipThoughtOptions(TextOptions):
    """Options of skip-thought."""

    encoder_mode: str = option("frozen", FROZEN, choices=("frozen", "finetune"))
    directions: str = option("uni", "read forward, both ways, or two encoders side by side", choices=DIRECTIONS)
    hidden: int = option(512, "length of an encoder's vector, and units of its decoders", minimum=1)
    condition: str = option("every-step", "where a decoder is given the vector", choices=CONDITIONS)
    dim: int | None = option(200, "length of learned word vectors", minimum=1)
    min_count: int = option(3, "words seen fewer times in training are unknown", minimum=1)
    negative: int = option(2000, "words that a batch's softmax is computed on, about; fewer words: all", minimum=1)
    expand: str | None = option(None, "word vectors that give the words which the corpus does not have", names="model")
    most_expanded: int = option(200_000, "words of these vectors that are taken, the first ones", minimum=0)
    longest: int = option(40, "words of a sentence that are read", minimum=1)
    max_sentences: int = option(500_000, "most sentences that are learned from", minimum=2)
    batch_size: int = option(64, "sentences of a batch", minimum=1)
    hold_out: float = option(0.02, "share of the sentences kept for the reports", minimum=0, maximum=0.5)
    epochs: int = option(1, "passes over the sentences", minimum=0)
    lr: float = option(2e-3, "learning rate", minimum=0)
    input_dropout: float = option(
        0.0, "share of the token vectors' numbers dropped in training", minimum=0, maximum=0.95
    )


@dataclass(frozen=True)
class ConversationOptions(InferSentOptions):
    """Options of the conversation encoder."""

    encoder_mode: str = option("finetune", FROZEN, choices=("frozen", "finetune"))
    encoder: str = option("mean", "what reads a turn", choices=("mean", "dan", "bilstm-max"))
    hidden: int = option(256, "length of a vector", minimum=2)
    n_layers: int = option(2, "layers that only the answers go through", minimum=0, maximum=10)
    batch_size: int = option(256, "turns of a batch, each choosing among all its answers", minimum=2)
    hold_out: float = option(0.05, "share of the answers kept for the reports", minimum=0, maximum=0.5)
    epochs: int = option(10, "passes over the turns", minimum=0)


SHARES = "how often each source is drawn, such as nli=1 corpus=5"


@dataclass(frozen=True)
class GenSenOptions(LabelOptions, SkipThoughtOptions, PairOptions):
    """Options of GenSen."""

    directions: str = option("bi", "read forward or both ways", choices=("uni", "bi"))
    shares: str | None = option(None, f"{SHARES}; unless given, nli and texts 1 where the others are 4.5")
    nonlinear: bool = option(True, "tanh and dropout between the classifier's layers")
    dropout: float = option(0.3, "share dropped in the classifiers", minimum=0, maximum=0.95)
    batch_size: int = option(48, "texts of a batch", minimum=1)
    lr: float = option(1e-3, "learning rate", minimum=0)


@dataclass(frozen=True)
class UseOptions(LabelOptions, ConversationOptions):
    """Options of the universal sentence encoder."""

    encoder_mode: str = option("frozen", FROZEN, choices=("frozen", "finetune"))
    encoder: str = option("dan", "what reads a text", choices=("dan", "transformer"))
    depth: int = option(2, "layers of the encoder", minimum=1, maximum=24)
    n_heads: int = option(4, "heads of a Transformer's attention", minimum=1)
    inner: int = option(512, "units of a Transformer's inner layers", minimum=1)
    bigrams: int | None = option(
        None, "length of vectors learned for each token with the next one; unless given, dim for dan", minimum=0
    )
    min_count: int = option(3, "words seen fewer times in training are unknown", minimum=1)
    shares: str | None = option(None, f"{SHARES}; unless given, all as often")
    longest: int = option(60, "words of a sentence of a corpus that are read", minimum=1)
    max_sentences: int = option(500_000, "most sentences of a corpus that are learned from", minimum=2)
    dropout: float = option(0.1, "share of the encoder's numbers dropped in training", minimum=0, maximum=0.95)
    epochs: int = option(3, "passes over all sources", minimum=0)
    schedule: str = option("constant", "how the learning rate falls towards the end")
