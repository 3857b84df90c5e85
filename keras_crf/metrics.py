"""Token accuracies of a `ConditionalRandomField`, exact over an epoch.

Take them from the layer: `model.compile(metrics=[crf.sparse_accuracy, crf.viterbi_accuracy])`.
Masked positions and labels equal to `ignore_index` do not count.
"""

import contextlib

import keras
from keras import ops

from keras_crf import binding, linear_chain
from keras_crf.compilation import is_concrete


class TokenAccuracy(keras.metrics.Metric):
    """Share of kept positions whose predicted label is right, over all batches since the reset."""

    def __init__(self, name, ignore_index=-100, dtype=None):
        super().__init__(name=name, dtype="float32")
        self.ignore_index = ignore_index
        self.right = self.add_weight(name="right", initializer="zeros")
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Count one batch: labels as for the loss, `y_pred` the layer's emissions `(b, t, k)`."""
        y_pred = ops.cast(ops.convert_to_tensor(y_pred), "float32")
        labels = self.labels(ops.convert_to_tensor(y_true))  # (b, t)
        kept = ops.logical_not(ops.all(y_pred == -float("inf"), axis=-1))
        weights = ops.cast(ops.logical_and(kept, labels != self.ignore_index), "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(ops.convert_to_tensor(sample_weight), "float32")
            weights = weights * ops.reshape(sample_weight, (-1, 1))
        right = ops.cast(self.predict(y_pred, weights > 0) == labels, "float32")
        self.right.assign_add(ops.sum(right * weights))
        self.total.assign_add(ops.sum(weights))

    def labels(self, y_true):
        """Integer labels `(b, t)` from `(b, t)` or `(b, t, 1)`."""
        if len(y_true.shape) == 3:
            y_true = y_true[..., 0]
        return ops.cast(y_true, "int32")

    def predict(self, y_pred, kept):
        """Labels `(b, t)`: the largest emission of each position by itself."""
        return ops.cast(ops.argmax(y_pred, axis=-1), "int32")

    def result(self):
        """Right / counted; 0 when nothing was counted."""
        return self.right / ops.maximum(self.total, 1e-7)

    def get_config(self):
        """Arguments of the metric."""
        return {**super().get_config(), "ignore_index": self.ignore_index}


@keras.saving.register_keras_serializable("keras_crf")
class SparseAccuracy(TokenAccuracy):
    """Accuracy of the emission argmax for integer labels; no transitions, no Viterbi."""

    def __init__(self, name="sparse_accuracy", **kwargs):
        super().__init__(name, **kwargs)


@keras.saving.register_keras_serializable("keras_crf")
class DenseAccuracy(TokenAccuracy):
    """Accuracy of the emission argmax for one-hot or soft labels `(b, t, k)`."""

    def __init__(self, name="dense_accuracy", **kwargs):
        super().__init__(name, **kwargs)

    def labels(self, y_true):
        """Integer labels `(b, t)` from `(b, t, k)`: the heaviest one."""
        return ops.cast(ops.argmax(y_true, axis=-1), "int32")


@keras.saving.register_keras_serializable("keras_crf")
class ViterbiAccuracy(TokenAccuracy):
    """Accuracy of the Viterbi path for integer labels.

    On JAX a metric cannot see the layer's weights while fitting: they are handed to the jitted
    step, and the metric runs outside the scope that holds them. The loss runs inside it, so it
    copies the scores into variables of this metric. They are NaN until a loss of the layer has done
    so, and then so is the result.
    """

    def __init__(self, layer, name="viterbi_accuracy", **kwargs):
        super().__init__(name, **kwargs)
        self._layer = lambda: layer
        self._copies = [
            self.add_weight(shape=shape, name=name, initializer=_nan)
            for name, shape in layer.score_shapes().items()
        ]
        layer.add_observer(self)

    def copy_scores(self, scores):
        """Keep the layer's effective scores where `update_state` can see them."""
        for copy, score in zip(self._copies, scores, strict=True):
            copy.assign(ops.stop_gradient(score))

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Count one batch; see `TokenAccuracy`."""
        if keras.backend.backend() != "jax":
            self.copy_scores(self._layer().scores())
        elif is_concrete(y_pred):
            # Keras takes the weights away during an epoch; reading them is then a TypeError.
            with contextlib.suppress(TypeError):
                self.copy_scores(self._layer().scores())
        super().update_state(y_true, y_pred, sample_weight)
        self.right.assign_add(sum(ops.sum(copy * 0.0) for copy in self._copies))

    def predict(self, y_pred, kept):
        """Labels `(b, t)` of the best path."""
        transitions, *boundary = (ops.convert_to_tensor(copy) for copy in self._copies)
        return linear_chain.viterbi(y_pred, transitions, *boundary, mask=kept)

    def reset_state(self):
        """Forget the counts, and the scores as well: they belong to one epoch."""
        for variable in (self.right, self.total):
            variable.assign(ops.zeros(()))
        for copy in self._copies:
            copy.assign(ops.full(copy.shape, float("nan")))

    def get_config(self):
        """Arguments of the metric, and the key of its layer."""
        return {**super().get_config(), "layer": self._layer().key}

    @classmethod
    def from_config(cls, config):
        """The metric that `get_config` described, bound to the layer loaded just before."""
        config = dict(config)
        return cls(binding.find(config.pop("layer")), **config)


def _nan(shape, dtype=None):
    return ops.full(shape, float("nan"), dtype=dtype)
