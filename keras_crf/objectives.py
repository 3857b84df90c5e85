"""What a `ConditionalRandomField` hands to `compile`: its losses and metrics."""

import keras

from keras_crf.losses import DenseLoss, PartialLoss, SparseLoss
from keras_crf.metrics import (
    DenseAccuracy,
    SpanF1,
    SpanPrecision,
    SpanRecall,
    SparseAccuracy,
    ViterbiAccuracy,
)


class Objectives:
    """Mixed into the layer; every access makes a new loss or metric."""

    @property
    def sparse_loss(self):
        """Loss for integer labels `(b, t)` or `(b, t, 1)`: nats per sequence, batch mean."""
        return SparseLoss(self)

    @property
    def dense_loss(self):
        """Loss for one-hot or soft labels `(b, t, k)`: nats per sequence, batch mean.

        A row of zeros and a row of `ignore_index` are masked out.
        """
        return DenseLoss(self)

    @property
    def partial_loss(self):
        """Loss for SETS of labels `(b, t, k)`, non-zero = possible: nats per sequence, batch mean.

        It is -log of the total probability of all paths within the sets (Tsuboi et al., COLING
        2008). An empty set is an error, and NaN in a compiled graph; a row of `ignore_index` is
        masked out.
        """
        return PartialLoss(self)

    @property
    def loss(self):
        """Alias of `sparse_loss`."""
        return self.sparse_loss

    @property
    def sparse_accuracy(self):
        """Token accuracy of the emission argmax, as in bert4keras; integer labels."""
        return SparseAccuracy(ignore_index=self.ignore_index)

    @property
    def dense_accuracy(self):
        """Token accuracy of the emission argmax, as in bert4keras; labels `(b, t, k)`."""
        return DenseAccuracy(ignore_index=self.ignore_index)

    @property
    def viterbi_accuracy(self):
        """Token accuracy of the Viterbi path; integer labels."""
        return ViterbiAccuracy(self, ignore_index=self.ignore_index)

    def span_f1(self, labels=None, scheme=None, name="span_f1"):
        """F1 of the spans (entities or words) of the Viterbi path, counted inside the graph.

        Args:
            labels: names of the labels in their order; those of the layer by default.
            scheme: name of a tag scheme; that of the layer by default.
            name: name of the metric: `val_span_f1` is in the logs.
        """
        return SpanF1(self, *self._names(labels, scheme), name, self.ignore_index)

    def span_precision(self, labels=None, scheme=None, name="span_precision"):
        """Precision of the same spans; see `span_f1`."""
        return SpanPrecision(self, *self._names(labels, scheme), name, self.ignore_index)

    def span_recall(self, labels=None, scheme=None, name="span_recall"):
        """Recall of the same spans; see `span_f1`."""
        return SpanRecall(self, *self._names(labels, scheme), name, self.ignore_index)

    def add_observer(self, metric):
        """Let the losses of this layer copy its scores into a metric (see `metrics`)."""
        self._observers.add(metric)
        if self.num_labels is not None:
            metric.prepare(self.score_shapes())

    def show_to_metrics(self):
        """Copy the scores into the metrics that cannot read them (see `metrics`)."""
        if keras.backend.backend() == "jax":
            for metric in self._observers:
                metric.copy_scores(self.scores())
