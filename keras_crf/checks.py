"""Checks of what users hand to the layer."""

import numpy as np
from keras import ops

from keras_crf.compilation import is_concrete


def check_mask(mask, emissions):
    """Refuse a mask that is not `(b, t)`."""
    expected, received = tuple(emissions.shape)[:2], tuple(mask.shape)
    axes = zip(expected, received, strict=False)
    if len(received) != 2 or any(a != b for a, b in axes if None not in (a, b)):
        raise ValueError(
            f"`mask` must have the shape (batch, time) of the emissions, {expected}. "
            f"Received: {received}"
        )


def integer_labels(labels):
    """Labels `(b, t)` int32 from `(b, t)` or `(b, t, 1)` of any numeric dtype."""
    labels = ops.convert_to_tensor(labels)
    if len(labels.shape) == 3 and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if len(labels.shape) != 2:
        raise ValueError(
            "`sparse_loss` takes integer labels of the shape (batch, time) or (batch, time, 1). "
            f"Received: {tuple(labels.shape)}. For one-hot labels use `dense_loss`."
        )
    return ops.cast(labels, "int32")


def check_labels(tags, emissions, ignore_index):
    """Name the first label that is none. In a graph the likelihood turns NaN instead."""
    if not (is_concrete(tags) and is_concrete(emissions)):
        return
    tags, emissions = ops.convert_to_numpy(tags), ops.convert_to_numpy(emissions)
    k = emissions.shape[-1]
    kept = ~np.all(emissions == -np.inf, axis=-1)
    wrong = np.argwhere(kept & ((tags < 0) | (tags >= k)))
    if len(wrong):
        row, position = wrong[0]
        raise ValueError(
            f"Label {tags[row, position]} at sequence {row}, position {position} is not one of the "
            f"{k} labels 0..{k - 1}. Positions without a label must be masked, or labelled "
            f"{ignore_index} (`ignore_index`)."
        )


def are_probabilities(emissions):
    """Whether every kept row is a probability vector."""
    rows = emissions[~np.all(emissions == -np.inf, axis=-1)]
    if rows.size == 0 or rows.shape[-1] < 2:
        return False
    return bool(np.all(rows >= 0) and np.allclose(rows.sum(axis=-1), 1.0, atol=1e-3))
