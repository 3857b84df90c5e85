"""Small models that the tests of several modules share."""

import keras
import numpy as np

import keras_crf

VOCABULARY, LABELS = 20, 4


def data(rng, n=48, t=7):
    """Token ids padded with 0 on the right, and labels that follow from them."""
    x = rng.integers(1, VOCABULARY, (n, t))
    x[np.arange(t) >= rng.integers(1, t + 1, n)[:, None]] = 0
    return x, x % LABELS


def tagger(length=None, mask_zero=True, **kwargs):
    """Embedding, Dense and CRF; returns the model and its CRF layer."""
    inputs = keras.Input((length,), dtype="int32")
    features = keras.layers.Embedding(VOCABULARY, 8, mask_zero=mask_zero)(inputs)
    crf = keras_crf.ConditionalRandomField(**kwargs)
    return keras.Model(inputs, crf(keras.layers.Dense(LABELS)(features))), crf


def compiled_tagger(optimizer="adam", **kwargs):
    model, crf = tagger(**kwargs)
    metrics = [crf.sparse_accuracy, crf.viterbi_accuracy]
    model.compile(optimizer, loss=crf.sparse_loss, metrics=metrics)
    return model, crf
