"""Padded batches with a handful of static shapes.

A compiled step (XLA, `tf.function`, `jax.jit`) is compiled once per shape. Batches padded to their
own longest text have a shape for every length; here texts are sorted into a few *buckets*, and
every batch has the shape `(batch_size, bucket length)`, the last one too.

What remains of a bucket (less than a batch) moves up to the next longer bucket, so that only ONE
batch of an epoch is not full of texts. It is filled up with rows without labels: their loss and
gradient are zero, so that each text weighs `1 / batch_size` in whichever batch it falls, and no
further shape has to be compiled.
"""

import itertools
from collections.abc import Sequence

import keras
import numpy as np

from keras_crf.spans import IGNORE
from keras_crf.tokenized_text import TokenizedText

FEATURES = ("token_ids", "segment_ids", "padding_mask", "label_mask")


def bucket_lengths(lengths: Sequence[int], count: int = 5, multiple: int = 8) -> list[int]:
    """Choose the lengths of buckets from the lengths of a corpus.

    The lengths are cut into `count` parts of equal numbers of texts; the longest text of each
    part, rounded up to a multiple, is a bucket.

    Args:
        lengths: number of tokens of each text.
        count: largest number of buckets, and so of compiled shapes.
        multiple: lengths are rounded up to it; 8 suits the matrix units of accelerators.

    Returns:
        Ascending list of at most `count` lengths, the last of which holds the longest text.
    """
    if not len(lengths) or count < 1 or multiple < 1:
        raise ValueError(
            "Expected one length or more, count >= 1 and multiple >= 1. "
            f"Received: {len(lengths)} lengths, count={count}, multiple={multiple}"
        )
    shares = np.arange(1, count + 1) / count
    longest = np.maximum(np.quantile(lengths, shares, method="inverted_cdf"), 1)
    return sorted({int(-(-length // multiple) * multiple) for length in longest})


def pad(rows: Sequence[Sequence], shape: tuple[int, ...], value: float = 0, dtype="int32"):
    """Write rows of different length into one array.

    Args:
        rows: up to `shape[0]` sequences of up to `shape[1]` items.
        shape: `(b, t)`, or `(b, t, ...)` for items with axes of their own.
        value: what fills the rest.
        dtype: dtype of the array.

    Returns:
        NumPy array of this shape.
    """
    longest = max(map(len, rows), default=0)
    if len(rows) > shape[0] or longest > shape[1]:
        raise ValueError(
            f"Expected at most {shape[0]} rows of at most {shape[1]} items. "
            f"Received: {len(rows)} rows, the longest of {longest} items"
        )
    padded = np.full(shape, value, dtype)
    for target, row in zip(padded, rows, strict=False):
        target[: len(row)] = row
    return padded


class BucketedBatches(keras.utils.PyDataset):
    """Batches of tokenized texts for `fit` and `evaluate`, on every backend.

    To predict use `predict_tokens`: `model.predict` would return rows in the order of the buckets.

    Batch i is `(features, labels)`, or `(features,)` without labels. `features` is a dict of arrays
    of shape `(batch_size, bucket length)`:

    - `"token_ids"`, int32, padded with `pad_id`;
    - `"segment_ids"`, int32, all zero;
    - `"padding_mask"`, int32, 1 at the tokens of a text, special tokens included;
    - `"label_mask"`, int32, 1 at the tokens that carry a label: the mask for the CRF.

    `labels` are int32 of the same shape, -100 where no label belongs, which the CRF's losses leave
    out. In the rows that fill up the last batch one padding token is visible (attention over
    nothing is NaN in some kernels), without a label. As they count in the mean over the batch, a
    loss reported by Keras is to be multiplied by `len(batches) * batch_size / number of texts`.

    The order is fixed by `seed` alone if `fit` is called with `shuffle=False`; otherwise Keras
    shuffles the batches once more with Python's random numbers.

    Args:
        texts: list of `TokenizedText`.
        labels: list of label ids, one sequence per text with an id per label position, or None. Of
            windows: `Window.labels`.
        batch_size: rows in every batch.
        lengths: lengths of the buckets, ascending; by default `bucket_lengths` chooses up to five.
        shuffle: whether texts and batches are shuffled, anew after each epoch; by default only
            with labels.
        seed: integer that fixes the order of every epoch.
        features: names of the features to return, all by default.
        pad_id: id of `[PAD]`; by default the one that the texts carry.
        **kwargs: arguments of `keras.utils.PyDataset`, such as `workers`.

    Example:
        ```python
        align = CharacterAligner(tokenizer)
        texts = [align(text, add_special=True) for text in raw_texts]
        model.fit(BucketedBatches(texts, labels, batch_size=32), epochs=3)
        ```
    """

    def __init__(
        self,
        texts: Sequence[TokenizedText],
        labels: Sequence[Sequence[int]] | None = None,
        batch_size: int = 32,
        lengths: Sequence[int] | None = None,
        shuffle: bool | None = None,
        seed: int = 0,
        features: Sequence[str] = FEATURES,
        pad_id: int | None = None,
        **kwargs,
    ):
        """Sort the texts into buckets; see the class for the arguments."""
        super().__init__(**kwargs)
        if not len(texts) or batch_size < 1:
            raise ValueError(
                "Expected one text or more and batch_size >= 1. "
                f"Received: {len(texts)} texts, batch_size={batch_size}"
            )
        sizes = [len(text.ids) for text in texts]
        self.texts, self.batch_size = texts, batch_size
        self.pad_id = texts[0].pad_id if pad_id is None else pad_id
        self.labels = None if labels is None else _placed(texts, labels)
        self.features = list(features)
        self.shuffle = labels is not None if shuffle is None else shuffle
        self.seed, self.epoch = seed, 0
        self._buckets = _buckets(sizes, bucket_lengths(sizes) if lengths is None else lengths)
        self._plan = self._planned()

    def __len__(self):
        """Number of batches, the same in every epoch."""
        return len(self._plan)

    def __getitem__(self, index):
        """The batch of this index: `(features, labels)` or `(features,)`."""
        length, rows = self._plan[index]
        shape = (self.batch_size, length)
        texts = [self.texts[row] for row in rows]
        padding_mask = pad([np.ones(len(text.ids)) for text in texts], shape)
        padding_mask[len(rows) :, 0] = 1  # rows that only fill up
        arrays = {
            "token_ids": pad([text.ids for text in texts], shape, self.pad_id),
            "segment_ids": np.zeros(shape, "int32"),
            "padding_mask": padding_mask,
            "label_mask": pad([text.mask for text in texts], shape),
        }
        features = {name: arrays[name] for name in self.features}
        if self.labels is None:
            return (features,)
        return features, pad([self.labels[row] for row in rows], shape, IGNORE)

    def rows(self, index: int) -> np.ndarray:
        """Which texts are in a batch: their indices, `(batch_size,)` or fewer in the last one."""
        return self._plan[index][1]

    def on_epoch_end(self):
        """Draw the order of the next epoch; Keras calls this after each one."""
        self.epoch += 1
        self._plan = self._planned()

    def _planned(self):
        """The batches of an epoch as a list of `(bucket length, indices of texts)`."""
        random = np.random.default_rng((self.seed, self.epoch))
        plan, rest = [], np.zeros(0, int)
        for length, members in self._buckets:
            members = random.permutation(members) if self.shuffle else members
            rest = np.concatenate([rest, members])
            full = len(rest) - len(rest) % self.batch_size
            plan += [(length, batch) for batch in rest[:full].reshape(-1, self.batch_size)]
            rest = rest[full:]
        if len(rest):
            plan.append((length, rest))
        plan = [plan[i] for i in random.permutation(len(plan))] if self.shuffle else plan
        return _two_lengths_first(plan)


def _two_lengths_first(plan):
    """Bring a batch of another length to the second place, if there is one.

    Keras reads the first two batches to learn which axes vary (TensorFlow backend); two of one
    length would fix the time axis and make every other length an error.
    """
    other = next((i for i, (length, _) in enumerate(plan) if length != plan[0][0]), None)
    if other is not None:
        plan.insert(1, plan.pop(other))
    return plan


def predict_tokens(
    model: keras.Model,
    texts: Sequence[TokenizedText],
    batch_size: int = 32,
    lengths: Sequence[int] | None = None,
    features: Sequence[str] = FEATURES,
    pad_id: int | None = None,
) -> list[np.ndarray]:
    """Predict texts (or the tokens of windows), in batches of a few shapes, in their own order.

    Args:
        model: model with one output of shape `(b, t, ...)`, such as emissions.
        texts: list of `TokenizedText`; it may be empty.
        batch_size: rows in a batch.
        lengths: as in `BucketedBatches`.
        features: names of the features that the model takes, likewise.
        pad_id: likewise.

    Returns:
        One array `(n, ...)` for the n tokens of each text, special tokens included, padding not:
        ready for `stitch` or `TokenizedText.pick`.
    """
    if not texts:
        return []
    batches = BucketedBatches(
        texts, batch_size=batch_size, lengths=lengths, features=features, pad_id=pad_id
    )
    predicted = [None] * len(texts)
    for i in range(len(batches)):
        values = model.predict_on_batch(*batches[i])
        for row, array in zip(batches.rows(i), values, strict=False):
            predicted[row] = array[: len(texts[row].ids)]
    return predicted


def as_tf_dataset(batches: BucketedBatches):
    """Make a `tf.data.Dataset` of the batches; TensorFlow is imported here only.

    Each pass over it is an epoch, with the order of that epoch. The time axis is unknown in the
    signature and one of the bucket lengths in each element.

    Args:
        batches: `BucketedBatches`.

    Returns:
        A `tf.data.Dataset` with as many elements as there are batches, prefetching.
    """
    import tensorflow as tf

    passes = itertools.count()

    def generate():
        if next(passes):  # not after the last batch: whoever knows the length stops there
            batches.on_epoch_end()
        for i in range(len(batches)):
            yield batches[i]

    signature = tf.nest.map_structure(
        lambda array: tf.TensorSpec((batches.batch_size, None), array.dtype), batches[0]
    )
    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))
    return dataset.prefetch(tf.data.AUTOTUNE)


def _placed(texts, labels):
    if len(texts) != len(labels):
        raise ValueError(
            "Expected one sequence of labels per text. "
            f"Received: {len(texts)} texts and {len(labels)} sequences of labels"
        )
    return [text.place(row, IGNORE) for text, row in zip(texts, labels, strict=True)]


def _buckets(sizes, lengths):
    """List of `(length, indices of the texts)`: each text in the shortest bucket that holds it."""
    sizes, lengths = np.asarray(sizes), sorted(lengths)
    if not lengths:
        raise ValueError("Expected the length of one bucket or more. Received: lengths=[]")
    if sizes.max() > lengths[-1]:
        raise ValueError(
            f"Expected texts of at most {lengths[-1]} tokens, the longest bucket. Received: "
            f"{sizes.max()} tokens in text {sizes.argmax()}. Cut it with `windows` "
            "(labels: `Window.labels`) or `split_at_punctuation`, or give a longer bucket"
        )
    bucket = np.searchsorted(lengths, sizes)
    return [(lengths[i], np.flatnonzero(bucket == i)) for i in np.unique(bucket)]
