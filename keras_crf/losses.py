"""Negative log-likelihood losses of a `ConditionalRandomField`.

Take them from the layer: `model.compile(loss=crf.sparse_loss)`.
"""

import warnings

import keras

from keras_crf.binding import Binding
from keras_crf.checks import check_sample_weight
from keras_crf.compilation import is_concrete


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
        self._binding = layer if isinstance(layer, Binding) else Binding(layer)

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Loss of a batch; `sample_weight` has the shape `(b,)`: one weight per sequence."""
        return super().__call__(y_true, y_pred, check_sample_weight(sample_weight))

    def call(self, y_true, y_pred):
        """`(b,)` losses in nats."""
        layer = self._binding.layer()
        layer.show_to_metrics()
        _warn_of_constant_scores(layer, y_pred)
        return -self.log_likelihood(layer, y_true, y_pred)

    def log_likelihood(self, layer, y_true, y_pred):
        """`(b,)` log-likelihoods in nats."""
        raise TypeError("ChainLoss is abstract: use `crf.sparse_loss` or `crf.dense_loss`")

    def get_config(self):
        """Arguments of the loss, and where its layer is to be found."""
        return {**super().get_config(), **self._binding.get_config()}

    @classmethod
    def from_config(cls, config):
        """The loss that `get_config` described, waiting for its layer."""
        arguments = {name: value for name, value in config.items() if name != "layer"}
        return cls(Binding.waiting(config), **arguments)


@keras.saving.register_keras_serializable("keras_crf")
class SparseLoss(ChainLoss):
    """Loss for integer labels `(b, t)` or `(b, t, 1)` of any numeric dtype."""

    default_name = "crf_sparse_loss"

    def log_likelihood(self, layer, y_true, y_pred):
        """Of the label path."""
        return layer.training_log_likelihood(y_pred, y_true)


@keras.saving.register_keras_serializable("keras_crf")
class DenseLoss(ChainLoss):
    """Loss for one-hot or soft labels `(b, t, k)`."""

    default_name = "crf_dense_loss"

    def log_likelihood(self, layer, y_true, y_pred):
        """Expected under the label weights."""
        return layer.training_dense_log_likelihood(y_pred, y_true)


@keras.saving.register_keras_serializable("keras_crf")
class PartialLoss(ChainLoss):
    """Loss for sets of allowed labels `(b, t, k)`."""

    default_name = "crf_partial_loss"

    def log_likelihood(self, layer, y_true, y_pred):
        """Of all paths within the sets."""
        return layer.training_partial_log_likelihood(y_pred, y_true)


def _warn_of_constant_scores(layer, y_pred):
    """On JAX, a loss outside Keras's scope sees the layer's weights as constants."""
    if keras.backend.backend() != "jax" or is_concrete(y_pred):
        return
    if all(is_concrete(scores) for scores in layer.scores()):
        warnings.warn(
            f"The emissions are being traced, but the transitions of layer {layer.name!r} are "
            "constants: they will get no gradient. In a training loop of your own on JAX, call "
            "the loss within `keras.StatelessScope(state_mapping=list(zip(model.trainable_variables"
            ", trainable_variables)))`.",
            stacklevel=3,
        )
