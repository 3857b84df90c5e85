"""Checks of what users hand to the layer."""

import keras
import numpy as np
from keras import ops

from keras_crf.compilation import is_concrete

_NO_LABEL = -(2**31)


def check_arguments(lr_multiplier, ignore_index, constrain_loss, scheme):
    """Refuse arguments of the layer that cannot be meant."""
    if not lr_multiplier > 0:
        raise ValueError(
            "`lr_multiplier` must be positive. To freeze the transitions set `trainable=False`. "
            f"Received: lr_multiplier={lr_multiplier}"
        )
    if ignore_index is None or int(ignore_index) != ignore_index:
        raise ValueError(
            "`ignore_index` must be an integer, such as -100; choose one that is no label to "
            f"ignore nothing. Received: ignore_index={ignore_index!r}"
        )
    if constrain_loss and scheme is None:
        raise ValueError(
            "`constrain_loss=True` needs constraints: give `labels` and `scheme`, or boolean "
            "arrays as `scheme`. Received: scheme=None"
        )


def checked_weights(label_weights):
    """Label weights as a list of floats, or None."""
    if label_weights is None:
        return None
    weights = [float(weight) for weight in label_weights]
    if not all(0 < weight < float("inf") for weight in weights):
        raise ValueError(
            f"`label_weights` must be positive and finite, one a label. Received: {weights}"
        )
    return weights


def check_sample_weight(sample_weight):
    """A tensor of the shape `(b,)` or `()`, or None."""
    if sample_weight is None:
        return None
    sample_weight = ops.convert_to_tensor(sample_weight)
    shape = tuple(sample_weight.shape)
    if len(shape) > 1 and shape[1:] != (1,):
        raise ValueError(
            "`sample_weight` must have the shape (batch,): the loss of a CRF is one value per "
            f"sequence. Received: {shape}. To leave single positions out, give them the layer's "
            "`ignore_index` as label, or mask them."
        )
    return sample_weight


def integer_labels(labels):
    """Labels `(b, t)` int32 from `(b, t)` or `(b, t, 1)` of any numeric dtype.

    What is no whole number that int32 can hold becomes a value that is never a label.
    """
    labels = ops.convert_to_tensor(labels)
    if len(labels.shape) == 3 and labels.shape[-1] == 1:
        labels = labels[..., 0]
    if len(labels.shape) != 2:
        raise ValueError(
            "`sparse_loss`, and the metrics for it, take integer labels of the shape (batch, time) "
            f"or (batch, time, 1). Received: {tuple(labels.shape)}. For one-hot labels use "
            "`dense_loss` and `dense_accuracy`."
        )
    whole = ops.cast(labels, "int32")
    return ops.where(
        ops.cast(whole, labels.dtype) == labels, whole, ops.full_like(whole, _NO_LABEL)
    )


def label_weights(weights, num_labels, ignore_index):
    """Label weights `(b, t, k)` float32, and where there are any: `(b, t)`.

    A row of zeros (one-hot of a label that is none) and a row of `ignore_index` carry no label.
    """
    weights = ops.cast(ops.convert_to_tensor(weights), "float32")
    if len(weights.shape) != 3 or weights.shape[-1] != num_labels:
        raise ValueError(
            f"`dense_loss` takes labels of the shape (batch, time, {num_labels}). "
            f"Received: {tuple(weights.shape)}. For integer labels use `sparse_loss`."
        )
    none = ops.logical_or(
        ops.all(weights == 0, axis=-1), ops.all(weights == float(ignore_index), axis=-1)
    )
    return ops.where(none[..., None], ops.zeros_like(weights), weights), ops.logical_not(none)


def check_labels(given, tags, emissions, ignore_index):
    """Name the first label that is none. In a graph the likelihood turns NaN instead."""
    if not (is_concrete(tags) and is_concrete(emissions)):
        return
    tags, emissions = ops.convert_to_numpy(tags), ops.convert_to_numpy(emissions)
    k = emissions.shape[-1]
    kept = ~np.all(emissions == -np.inf, axis=-1) & (tags != ignore_index)
    wrong = np.argwhere(kept & ((tags < 0) | (tags >= k)))
    if len(wrong):
        row, position = wrong[0]
        label = np.reshape(ops.convert_to_numpy(given), tags.shape)[row, position]
        raise ValueError(
            f"Label {label:g} at sequence {row}, position {position} is not one of the "
            f"{k} labels 0..{k - 1}. Positions without a label must be masked, or labelled "
            f"{ignore_index} (`ignore_index`)."
        )


def check_sets(sets, emissions):
    """Name the first kept position without any possible label."""
    if not (is_concrete(sets) and is_concrete(emissions)):
        return
    kept = ~np.all(ops.convert_to_numpy(emissions) == -np.inf, axis=-1)
    empty = np.argwhere(kept & ~np.any(ops.convert_to_numpy(sets) != 0, axis=-1))
    if len(empty):
        row, position = empty[0]
        raise ValueError(
            f"No label is allowed at sequence {row}, position {position}. A position of which "
            "nothing is known allows all labels; one without a label must be masked."
        )


def made_by_softmax(emissions):
    """Whether a symbolic tensor comes out of a softmax."""
    operation = getattr(getattr(emissions, "_keras_history", None), "operation", None)
    if isinstance(operation, keras.layers.Softmax):
        return True
    return getattr(operation, "activation", None) is keras.activations.softmax


def are_probabilities(emissions):
    """Whether every kept row of an array is a probability vector."""
    rows = emissions[~np.all(emissions == -np.inf, axis=-1)]
    if rows.size == 0 or rows.shape[-1] < 2:
        return False
    return bool(np.all(rows >= 0) and np.allclose(rows.sum(axis=-1), 1.0, atol=1e-3))
