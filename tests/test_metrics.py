"""Metrics: exact over an epoch, blind to masked positions, on every backend."""

import keras
import models
import numpy as np
import pytest
from backend import BACKEND, numpy, tensor

from keras_crf import ConditionalRandomField


def accuracy(predicted, labels, kept):
    return ((predicted == labels) & kept).sum() / kept.sum()


@pytest.mark.parametrize("jit_compile", ["auto", True])
def test_evaluate_equals_a_count_by_hand(rng, jit_compile):
    """The batches hold different numbers of tokens, so a mean of batch means would differ."""
    if BACKEND == "torch" and jit_compile is True:
        pytest.skip("compiling the unrolled loop takes minutes there")
    x, y = models.data(rng, n=42)
    model, crf = models.compiled_tagger(length=7, lr_multiplier=30)
    model.compile(
        "adam",
        loss=crf.sparse_loss,
        metrics=[crf.sparse_accuracy, crf.viterbi_accuracy],
        jit_compile=jit_compile,
    )
    model.fit(x, y, epochs=2, batch_size=16, verbose=0)
    results = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
    emissions = model.predict(x, verbose=0)
    by_argmax = accuracy(emissions.argmax(-1), y, x > 0)
    by_viterbi = accuracy(numpy(crf.decode(emissions)), y, x > 0)
    assert results["sparse_accuracy"] == pytest.approx(by_argmax, abs=1e-6)
    assert results["viterbi_accuracy"] == pytest.approx(by_viterbi, abs=1e-6)


def test_the_two_accuracies_differ_where_transitions_decide():
    """Each emission by itself says label 0; the transitions make the path 0, 1 the best."""
    crf = ConditionalRandomField(use_boundary=False)
    crf.build((None, None, 2))
    crf._transitions.assign([[0.0, 9.0], [9.0, 0.0]])
    emissions, labels = tensor([[[1.0, 0.0], [0.5, 0.0]]]), np.array([[0, 1]])
    for metric, expected in ((crf.sparse_accuracy, 0.5), (crf.viterbi_accuracy, 1.0)):
        metric.update_state(labels, emissions)
        assert float(numpy(metric.result())) == expected


def test_ignored_labels_masks_and_weights_do_not_count():
    crf = ConditionalRandomField(ignore_index=-5)
    emissions = crf(np.array([[[2.0, 0], [2.0, 0], [2.0, 0]]] * 2), mask=[[1, 1, 1], [1, 1, 0]])
    labels = np.array([[0, 1, -5], [0, 0, 1]])
    metric = crf.sparse_accuracy
    metric.update_state(labels, emissions)
    assert float(numpy(metric.result())) == pytest.approx(3 / 4)
    metric.reset_state()
    metric.update_state(labels, emissions, sample_weight=[1.0, 0.0])
    assert float(numpy(metric.result())) == pytest.approx(1 / 2)


def test_labels_of_the_wrong_kind_are_refused(rng):
    crf = ConditionalRandomField()
    emissions, tags = crf(rng.normal(size=(3, 3, 3))), rng.integers(0, 3, (3, 3))
    for metric in (crf.sparse_accuracy, crf.viterbi_accuracy):
        with pytest.raises(ValueError, match="For one-hot labels use"):
            metric.update_state(np.eye(3)[tags], emissions)
    with pytest.raises(ValueError, match="For integer labels use `sparse_loss`"):
        crf.dense_accuracy.update_state(tags, emissions)


def test_nothing_counted_is_zero():
    crf = ConditionalRandomField()
    assert float(numpy(crf.sparse_accuracy.result())) == 0


def test_stock_metrics_work_beside_ours(rng):
    x, y = models.data(rng)
    model, crf = models.tagger()
    metrics = [crf.viterbi_accuracy, keras.metrics.SparseCategoricalAccuracy(name="stock")]
    model.compile("adam", loss=crf.sparse_loss, metrics=metrics)
    history = model.fit(x, y, epochs=1, verbose=0, validation_data=(x, y)).history
    assert {"viterbi_accuracy", "stock", "val_viterbi_accuracy", "val_stock"} <= set(history)


@pytest.mark.skipif(BACKEND != "jax", reason="metrics see the layer's weights elsewhere")
def test_on_jax_a_viterbi_metric_without_a_crf_loss_is_nan_rather_than_wrong(rng):
    x, y = models.data(rng)
    model, crf = models.tagger()
    model.compile("adam", loss=lambda y_true, y_pred: 0.0 * keras.ops.sum(y_true),
                  metrics=[crf.viterbi_accuracy])  # fmt: skip
    assert np.isnan(model.evaluate(x, y, verbose=0)[1])
