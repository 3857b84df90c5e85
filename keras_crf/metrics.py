"""Metrics of a `ConditionalRandomField`: token accuracies and span scores, exact over an epoch.

Take them from the layer: `model.compile(metrics=[crf.sparse_accuracy, crf.span_f1()])`.
Masked positions and labels equal to `ignore_index` do not count.
"""

import weakref

import keras
from keras import ops

from keras_crf import chains, linear_chain
from keras_crf.binding import Binding
from keras_crf.checks import check_labels, check_sample_weight, integer_labels, label_weights
from keras_crf.compilation import is_concrete
from keras_crf.label_tables import LabelTables


class TokenAccuracy(keras.metrics.Metric):
    """Share of kept positions whose predicted label is right, over all batches since the reset."""

    def __init__(self, name, ignore_index=-100, dtype=None):
        super().__init__(name=name, dtype="float32")
        self.ignore_index = ignore_index
        self.right = self.add_weight(name="right", initializer="zeros", dtype="float32")
        self.total = self.add_weight(name="total", initializer="zeros", dtype="float32")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Count one batch: labels as for the loss, `y_pred` the layer's emissions `(b, t, k)`."""
        y_pred = ops.cast(ops.convert_to_tensor(y_pred), "float32")
        labels, labelled = self.labels(y_true, y_pred)  # (b, t)
        kept = ops.logical_not(ops.all(y_pred == -float("inf"), axis=-1))
        kept = ops.logical_and(kept, labelled)
        weights = ops.cast(kept, "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(check_sample_weight(sample_weight), "float32")
            weights = weights * ops.reshape(sample_weight, (-1, 1))
        right = ops.cast(self.predict(y_pred, kept) == labels, "float32")
        self.right.assign_add(ops.sum(right * weights))
        self.total.assign_add(ops.sum(weights))

    def labels(self, y_true, y_pred):
        """Integer labels `(b, t)`, and where there are any."""
        labels = integer_labels(y_true)
        return labels, labels != self.ignore_index

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

    def labels(self, y_true, y_pred):
        """The heaviest label, and where there is one."""
        weights, labelled = label_weights(y_true, y_pred.shape[-1], self.ignore_index)
        return ops.cast(ops.argmax(weights, axis=-1), "int32"), labelled


def _from_config(cls, config):
    """The metric that `get_config` described, waiting for its layer."""
    arguments = {name: value for name, value in config.items() if name != "layer"}
    return cls(Binding.waiting(config), **arguments)


class Observers:
    """Metrics of a layer, as long as they live; not walked by Keras when it saves the layer."""

    def __init__(self):
        self._metrics = weakref.WeakSet()
        self.add = self._metrics.add

    def __iter__(self):
        return iter(list(self._metrics))


class LayerScores:
    """How a metric reads the scores of its layer, on every backend.

    On JAX a metric cannot see the layer's weights while fitting: they are handed to the jitted
    step, and the metric runs outside the scope that holds them. The loss runs inside it, so it
    copies the scores into variables of the metric. They are NaN until a loss of the layer has done
    so, and then so is the result.
    """

    def attach(self, layer):
        """Hold on to a layer, or to the `Binding` of one; call after `super().__init__`."""
        self._copies = []
        self._binding = layer if isinstance(layer, Binding) else Binding(layer)
        self._binding.then(lambda layer: layer.add_observer(self))

    def prepare(self, shapes):
        """Make room for copies of scores of these shapes, where copies are needed."""
        if keras.backend.backend() == "jax" and not self._copies:
            self._copies = [
                self.add_weight(shape=shape, name=name, initializer=_nan, dtype="float32")
                for name, shape in shapes.items()
            ]

    def copy_scores(self, scores):
        """Keep the layer's effective scores where `update_state` can see them."""
        for copy, score in zip(self._copies, scores, strict=True):
            copy.assign(ops.stop_gradient(score))

    def read_scores(self, y_pred):
        """Transitions, and start and end scores where there are any."""
        layer = self._binding.layer()
        if keras.backend.backend() != "jax" or is_concrete(y_pred):
            try:
                return layer.decoding_scores()
            except TypeError:  # Keras on JAX takes the weights away during an epoch
                pass
        return layer.constrained([ops.convert_to_tensor(copy) for copy in self._copies])

    def forget_scores(self):
        """Scores belong to one epoch."""
        for copy in self._copies:
            copy.assign(ops.full(copy.shape, float("nan"), dtype=copy.dtype))

    def unknown(self, scores):
        """NaN if the scores are not known, else 0."""
        missing = ops.any(ops.isnan(scores[0]))
        return ops.where(missing, ops.full((), float("nan"), "float32"), ops.zeros((), "float32"))


@keras.saving.register_keras_serializable("keras_crf")
class ViterbiAccuracy(LayerScores, TokenAccuracy):
    """Accuracy of the Viterbi path for integer labels."""

    def __init__(self, layer, name="viterbi_accuracy", **kwargs):
        super().__init__(name, **kwargs)
        self.attach(layer)

    def predict(self, y_pred, kept):
        """Labels `(b, t)` of the best path."""
        scores = self.read_scores(y_pred)
        self.right.assign_add(self.unknown(scores))
        transitions, *boundary = scores
        return linear_chain.viterbi(y_pred, transitions, *boundary, mask=kept)

    def reset_state(self):
        """Forget counts and scores."""
        for variable in (self.right, self.total):
            variable.assign(ops.zeros(variable.shape, dtype=variable.dtype))
        self.forget_scores()

    def get_config(self):
        """Arguments of the metric, and where its layer is to be found."""
        return {**super().get_config(), **self._binding.get_config()}

    from_config = classmethod(_from_config)


class SpanScore(LayerScores, keras.metrics.Metric):
    """Exact spans of the Viterbi path against those of the labels, counted over an epoch.

    Spans are read leniently, as conlleval does, from both; the figures are those of
    `scoring.score_spans` on the same spans. For word segmentation (scheme "SBME") the spans are
    words.

    Args:
        layer: the `ConditionalRandomField`.
        labels: names of its labels in their order; those of the layer by default.
        scheme: name of a tag scheme; that of the layer by default.
        name: name of the metric.
        ignore_index: positions with this label are left out.
    """

    def __init__(self, layer, labels, scheme, name, ignore_index=-100, dtype=None):
        super().__init__(name=name, dtype="float32")
        self.labels, self.scheme, self.ignore_index = list(labels), scheme, ignore_index
        tables = LabelTables(labels, scheme)
        self._tables = lambda: tables  # arrays that Keras need not track
        self.correct, self.gold, self.predicted = (
            self.add_weight(name=name, initializer="zeros", dtype="float32")
            for name in ("correct", "gold", "predicted")
        )
        self.attach(layer)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Count one batch: integer labels, and `y_pred` the layer's emissions `(b, t, k)`."""
        y_pred = ops.cast(ops.convert_to_tensor(y_pred), "float32")
        labels = integer_labels(y_true)
        kept = ops.logical_not(ops.all(y_pred == -float("inf"), axis=-1))
        kept = ops.logical_and(kept, labels != self.ignore_index)
        scores = self.read_scores(y_pred)
        path = linear_chain.viterbi(y_pred, *scores, mask=kept)
        check_labels(y_true, labels, y_pred, self.ignore_index)
        counts = count_spans(labels, path, kept, self._tables())  # (b,) each
        known = ops.logical_and(labels >= 0, labels < y_pred.shape[-1])
        known = ops.all(ops.logical_or(known, ops.logical_not(kept)))
        if sample_weight is not None:
            weight = ops.cast(check_sample_weight(sample_weight), "float32")
            counts = [count * ops.reshape(weight, (-1,)) for count in counts]
        correct = ops.where(known, ops.sum(counts[0]), float("nan"))  # a label that is none shows
        self.correct.assign_add(ops.cast(correct, "float32") + self.unknown(scores))
        self.gold.assign_add(ops.sum(counts[1]))
        self.predicted.assign_add(ops.sum(counts[2]))

    def reset_state(self):
        """Forget counts and scores."""
        for variable in (self.correct, self.gold, self.predicted):
            variable.assign(ops.zeros(variable.shape, dtype=variable.dtype))
        self.forget_scores()

    def get_config(self):
        """Arguments of the metric, and where its layer is to be found."""
        own = {"labels": self.labels, "scheme": self.scheme, "ignore_index": self.ignore_index}
        return {**super().get_config(), **own, **self._binding.get_config()}

    from_config = classmethod(_from_config)


@keras.saving.register_keras_serializable("keras_crf")
class SpanF1(SpanScore):
    """F1 of spans: 2 correct / (gold + predicted)."""

    def result(self):
        """F1; 0 when there is nothing."""
        return 2.0 * self.correct / ops.maximum(self.gold + self.predicted, 1.0)


@keras.saving.register_keras_serializable("keras_crf")
class SpanPrecision(SpanScore):
    """Precision of spans: correct / predicted."""

    def result(self):
        """Precision; 0 when nothing is predicted."""
        return self.correct / ops.maximum(self.predicted, 1.0)


@keras.saving.register_keras_serializable("keras_crf")
class SpanRecall(SpanScore):
    """Recall of spans: correct / gold."""

    def result(self):
        """Recall; 0 when there is nothing to find."""
        return self.correct / ops.maximum(self.gold, 1.0)


def count_spans(labels, path, kept, tables):
    """Numbers of correct, gold and predicted spans of each sequence: `(b,)` float32 each."""
    starts, ends, types = zip(*(_spans(tags, kept, tables) for tags in (labels, path)), strict=True)
    same = ops.logical_and(ops.logical_and(*starts), types[0] == types[1])
    correct = ops.logical_and(same, _closing(ends[0]) == _closing(ends[1]))
    return [ops.sum(ops.cast(x, "float32"), axis=1) for x in (correct, *starts)]


def _spans(tags, kept, tables):
    """Where spans start and end, and the type of each position: (b, t) each."""
    k = len(tables.type_of)
    tags = ops.where(kept, ops.clip(tags, 0, k - 1), 0)
    before = chains.previous_kept(kept)
    tags_before = ops.take_along_axis(tags, ops.cast(ops.maximum(before, 0), "int32"), axis=1)
    tags_before = ops.cast(ops.where(before >= 0, tags_before, k), "int32")
    goes_on = ops.convert_to_tensor(tables.goes_on.reshape(-1))
    continues = ops.take(goes_on, tags_before * (k + 1) + ops.cast(tags, "int32"))  # (b, t)
    continues = ops.logical_and(continues, kept)
    types = ops.take(ops.convert_to_tensor(tables.type_of), tags)
    inside = ops.logical_and(kept, types >= 0)
    starts = ops.logical_and(inside, ops.logical_not(continues))
    # A span ends where the next kept position does not go on with it.
    behind = ops.flip(chains.previous_kept(ops.flip(kept, axis=1)), axis=1)  # counted from the end
    position = ops.shape(kept)[1] - 1 - behind
    continued = ops.take_along_axis(
        continues, ops.cast(ops.clip(position, 0, ops.shape(kept)[1] - 1), "int32"), axis=1
    )
    continued = ops.logical_and(behind >= 0, continued)
    return starts, ops.logical_and(inside, ops.logical_not(continued)), types


def _closing(ends):
    """(b, t): distance from the end of the axis to the first end at or behind each position."""
    return ops.flip(chains.latest_kept(ops.flip(ends, axis=1)), axis=1)


def _nan(shape, dtype=None):
    return ops.full(shape, float("nan"), dtype=dtype)
