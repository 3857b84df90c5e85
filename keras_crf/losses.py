"""Negative log-likelihood losses of a `ConditionalRandomField`.

Take them from the layer: `model.compile(loss=crf.sparse_loss)`.
"""

import keras
from keras import ops

from keras_crf import binding


class ChainLoss(keras.losses.Loss):
    """Negative log-likelihood in nats: one sum per sequence, averaged over the batch.

    Args:
        layer: the `ConditionalRandomField` whose transitions are used.
        name: name of the loss.
        reduction: as in every Keras loss.
    """

    def __init__(self, layer, name=None, reduction="sum_over_batch_size", dtype=None):
        # Emissions are float32 whatever floatx is, and labels must survive the cast.
        super().__init__(name=name or self.default_name, reduction=reduction, dtype="float32")
        self._layer = lambda: layer

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Loss of a batch; `sample_weight` has the shape `(b,)`: one weight per sequence."""
        _check_sample_weight(sample_weight)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        """`(b,)` losses in nats."""
        layer = self._layer()
        layer.show_to_metrics()
        return -self.log_likelihood(layer, y_true, y_pred)

    def log_likelihood(self, layer, y_true, y_pred):
        """`(b,)` log-likelihoods in nats."""
        raise TypeError("ChainLoss is abstract: use `crf.sparse_loss` or `crf.dense_loss`")

    def get_config(self):
        """Arguments of the loss, and the key of its layer."""
        return {**super().get_config(), "layer": self._layer().key}

    @classmethod
    def from_config(cls, config):
        """The loss that `get_config` described, bound to the layer loaded just before."""
        config = dict(config)
        return cls(binding.find(config.pop("layer")), **config)


@keras.saving.register_keras_serializable("keras_crf")
class SparseLoss(ChainLoss):
    """Loss for integer labels `(b, t)` or `(b, t, 1)` of any numeric dtype."""

    default_name = "crf_sparse_loss"

    def log_likelihood(self, layer, y_true, y_pred):
        """Of the label path."""
        return layer.log_probability(y_pred, y_true)


@keras.saving.register_keras_serializable("keras_crf")
class DenseLoss(ChainLoss):
    """Loss for one-hot or soft labels `(b, t, k)`."""

    default_name = "crf_dense_loss"

    def log_likelihood(self, layer, y_true, y_pred):
        """Expected under the label weights."""
        return layer.dense_log_likelihood(y_pred, y_true)


def _check_sample_weight(sample_weight):
    shape = () if sample_weight is None else tuple(ops.shape(sample_weight))
    if len(shape) > 1 and shape[1:] != (1,):
        raise ValueError(
            "`sample_weight` must have the shape (batch,): the loss of a CRF is one value per "
            f"sequence. Received: {shape}. To leave single positions out, give them the layer's "
            "`ignore_index` as label, or mask them."
        )
