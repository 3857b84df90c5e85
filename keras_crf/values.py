"""What a CRF says about emissions: the values that a `ConditionalRandomField` computes.

All of them take emissions `(b, t, k)` as tensors or arrays: what the layer (or `model.predict`)
returned, or raw scores with a `mask`. Where the layer has constraints they hold here: illegal paths
have probability 0.
"""

import keras
import numpy as np
from keras import ops

from keras_crf import chains, linear_chain
from keras_crf.checks import check_labels, check_sets, integer_labels, label_weights
from keras_crf.compilation import is_concrete
from keras_crf.label_tables import LabelTables
from keras_crf.span_probability import span_log_probability
from keras_crf.viterbi import ViterbiDecoder


class Values:
    """Mixed into the layer, which provides `scores`, `constraints` and `_masked`."""

    # --- Scores under constraints ---

    @property
    def reach(self):
        """How far labels reach under the constraints, as `linear_chain` wants to know."""
        return self.constraints.reach if self.constraints else None

    def constrained(self, scores):
        """Scores with minus infinity for what the constraints forbid, boundaries included."""
        if self.constraints is None:
            return scores
        missing = [ops.zeros((self.num_labels,), "float32")] * (3 - len(scores))
        pairs = zip(self.constraints.tables(), [*scores, *missing], strict=True)
        return [ops.where(ops.convert_to_tensor(table), score, -float("inf"))
                for table, score in pairs]  # fmt: skip

    def decoding_scores(self):
        """Transitions, and start and end scores where there are any, as decoding sees them."""
        return self.constrained(self.scores())

    # --- Paths ---

    def decode(self, y, return_score=False, mask=None, allowed_labels=None, bonus=None):
        """Viterbi path.

        Args:
            y: emissions `(b, t, k)`.
            return_score: also return how good and how probable the path is.
            mask: `(b, t)`, true or non-zero = keep.
            allowed_labels: `(b, t, k)`, non-zero = the label may stand here; None allows all.
            bonus: `(b, t, k)` nats added to the emissions, such as those of a dictionary.

        Returns:
            `(b, t)` int32, `pad_value` where masked. With `return_score` also the scores of the
            paths and their log-probabilities among all legal paths, both `(b,)` in nats.
        """
        if isinstance(y, keras.KerasTensor):
            if return_score:
                raise ValueError("`return_score` takes values, not symbolic tensors.")
            return self(self._adjusted(y, allowed_labels, bonus), mask=mask, output="tags")
        emissions = self._adjusted(self._masked(y, mask), allowed_labels, bonus)
        tags = self._viterbi(emissions)
        if not return_score:
            return tags
        transitions, *boundary = self.decoding_scores()
        score = linear_chain.path_score(emissions, tags, transitions, *boundary)
        log_probability = linear_chain.log_likelihood(
            emissions, tags, transitions, *boundary, reach=self.reach
        )
        return tags, score, log_probability

    def _viterbi(self, emissions):
        return linear_chain.viterbi(emissions, *self.decoding_scores(), pad_value=self.pad_value)

    def _adjusted(self, emissions, allowed, bonus):
        """Emissions with what is known about single positions."""
        if bonus is not None:
            bonus = ops.cast(ops.convert_to_tensor(bonus), "float32")
            chains.check_axes("bonus", bonus, emissions, rank=3)
            raised = emissions + bonus
            emissions = ops.where(emissions == -float("inf"), emissions, raised)
        if allowed is not None:
            allowed = ops.cast(ops.convert_to_tensor(allowed), "bool")
            chains.check_axes("allowed_labels", allowed, emissions, rank=3)
            check_sets(ops.logical_and(allowed, emissions > -float("inf")), emissions)
            emissions = ops.where(allowed, emissions, -float("inf"))
        return emissions

    def n_best(self, y, n, mask=None):
        """The n best paths, all different, best first.

        A sequence with fewer legal paths gets rows of `pad_value` with score -inf.

        Returns:
            Paths `(b, n, t)` int32 and their scores `(b, n)` in nats.
        """
        transitions, *boundary = self.decoding_scores()
        emissions = self._masked(y, mask)
        return linear_chain.n_best(
            emissions, transitions, n, *boundary, pad_value=self.pad_value
        )  # fmt: skip

    def sample(self, y, n, seed=None, mask=None):
        """`(b, n, t)` int32: n independent paths from the distribution; `seed` is an integer."""
        transitions, *boundary = self.decoding_scores()
        emissions = self._masked(y, mask)
        return linear_chain.sample(
            emissions, transitions, n, *boundary,
            seed=seed, pad_value=self.pad_value, reach=self.reach,
        )  # fmt: skip

    def decoder(self):
        """A `ViterbiDecoder` in NumPy that holds scores and constraints of this moment."""
        names = ("start_scores", "end_scores")
        transitions, *boundary = (ops.convert_to_numpy(scores) for scores in self.scores())
        options = dict(zip(names, boundary, strict=False))
        if self.constraints:
            allowed, starts, ends = self.constraints.tables()
            options |= {"allowed": allowed, "starts": starts, "ends": ends}
        return ViterbiDecoder(transitions, **options)

    # --- Probabilities ---

    def marginals(self, y, mask=None):
        """Label probabilities `(b, t, k)`; 0 where masked."""
        if isinstance(y, keras.KerasTensor):
            return self(y, mask=mask, output="marginals")
        emissions = self._masked(y, mask)
        return linear_chain.marginals(emissions, *self.decoding_scores(), reach=self.reach)

    def log_partition(self, y, mask=None):
        """`(b,)` log of the sum of exp(score) over all paths, in nats."""
        emissions = self._masked(y, mask)
        return linear_chain.log_partition(emissions, *self.decoding_scores(), reach=self.reach)

    def log_probability(self, y, tags, mask=None):
        """`(b,)` log-probability of label paths `tags` `(b, t)` or `(b, t, 1)`, in nats.

        Positions whose label is `ignore_index` are masked out. Any other label outside `0..k-1` at
        an unmasked position raises a `ValueError` where values can be looked at, and gives NaN in a
        compiled graph.
        """
        emissions, tags = self._labelled(self._masked(y, mask), tags)
        return self._log_likelihood(emissions, tags, self.decoding_scores())

    def entropy(self, y, mask=None):
        """`(b,)` entropy of the distribution over paths, in nats."""
        emissions = self._masked(y, mask)
        return linear_chain.entropy(emissions, *self.decoding_scores(), reach=self.reach)

    def kl_divergence(self, y, other, mask=None):
        """`(b,)` divergence of the paths under emissions `y` from those under `other`, in nats.

        Both go with the scores of this layer, as in R-Drop (Liang et al., NeurIPS 2021): two passes
        through a model with dropout.
        """
        p, q = ((self._masked(x, mask), *self.decoding_scores()) for x in (y, other))
        return linear_chain.kl_divergence(p, q, reach=self.reach)

    def span_probability(self, y, spans, mask=None):
        """Probability that exactly these spans are on the path: same borders, same type.

        The layer must know `labels` and `scheme` (any but IOB1 and IOE1).

        Args:
            y: emissions `(b, t, k)`.
            spans: for each sequence a list of `(start, end, label)`, half-open positions; or
                `(b, s, 3)` int32 with the label as index into `span_types`, padded with -1.
            mask: `(b, t)`, true or non-zero = keep.

        Returns:
            `(b, s)` float32, 0 at padding.
        """
        tables = self._tables()
        if tables.spelling is None:
            raise ValueError(
                f"Span probabilities need a scheme that spells a span in one way, with all its "
                f"labels. Received: {self.scheme!r} with {self.labels}. Convert IOB1 to BIO and "
                "IOE1 to IOE2 with `TagSet.convert`."
            )
        chain = chains.fold(self._masked(y, mask), *self.decoding_scores())
        chain = chains.shift(chain, self.reach)
        spans = _as_spans(spans, tables.types, chain.kept.shape[1])
        return ops.exp(span_log_probability(chain, spans, tables))

    @property
    def span_types(self):
        """Names of the types of spans, in the order of their indices in `span_probability`."""
        return list(self._tables().types)

    def decode_spans(self, y, mask=None):
        """Spans of the Viterbi path with their exact probabilities, outside graphs.

        Returns:
            For each sequence a list of `(start, end, label, probability)`, half-open positions.
        """
        path = linear_chain.viterbi(self._masked(y, mask), *self.decoding_scores(), pad_value=-1)
        spans = [self._tables().spans(row) for row in ops.convert_to_numpy(path)]
        values = ops.convert_to_numpy(self.span_probability(y, spans, mask))
        return [
            [(*span, float(value)) for span, value in zip(row, chances, strict=False)]
            for row, chances in zip(spans, values, strict=True)
        ]

    def _names(self, labels, scheme):
        labels = self.labels if labels is None else list(labels)
        scheme = self.scheme if scheme is None else scheme
        if labels is None or not isinstance(scheme, str):
            raise ValueError(
                "Spans need the names of the labels and of their scheme: give `labels` and "
                f"`scheme` to the layer or to this method. Received: {labels}, {scheme!r}"
            )
        return labels, scheme

    def _tables(self):
        return LabelTables(*self._names(None, None))

    # --- What the losses compute ---

    def _log_likelihood(self, emissions, tags, scores, reach=None):
        transitions, *boundary = scores
        return linear_chain.log_likelihood(emissions, tags, transitions, *boundary, reach=reach)

    def _labelled(self, emissions, tags):
        """Emissions without positions to ignore, and checked labels (b, t) int32."""
        given, tags = tags, integer_labels(tags)
        emissions = ops.where((tags == self.ignore_index)[..., None], -float("inf"), emissions)
        check_labels(given, tags, emissions, self.ignore_index)
        return emissions, tags

    def _weighted(self, emissions):
        """Emissions as training sees them: less the logarithm of the label weights."""
        if self.label_weights is None:
            return emissions
        return emissions - ops.convert_to_tensor(np.log(self.label_weights).astype("float32"))

    def _training_scores(self):
        """Scores and reach, as the losses see them."""
        if self.constrain_loss:
            return self.decoding_scores(), self.reach
        return self.scores(), None

    def _legal_only(self, log_likelihood):
        """With constraints in the loss, a sequence that has no legal path contributes 0.

        Where values can be looked at it is named instead.
        """
        if not self.constrain_loss:
            return log_likelihood
        if is_concrete(log_likelihood):
            forbidden = np.flatnonzero(ops.convert_to_numpy(log_likelihood) == -np.inf)
            if len(forbidden):
                raise ValueError(
                    f"The labels of sequence {forbidden[0]} give weight to illegal paths only, or "
                    "to some (label smoothing does). Train with `constrain_loss=False`."
                )
        illegal = log_likelihood == -float("inf")
        return ops.where(illegal, ops.zeros_like(log_likelihood), log_likelihood)

    def training_log_likelihood(self, y, tags):
        """`(b,)` log-likelihood of label paths, for `sparse_loss`."""
        emissions, tags = self._labelled(self._masked(y), tags)
        if self.constrain_loss:
            self._check_legal(emissions, tags)
        scores, reach = self._training_scores()
        value = self._log_likelihood(self._weighted(emissions), tags, scores, reach)
        return self._legal_only(value)

    def training_dense_log_likelihood(self, y, weights):
        """`(b,)` expected log-likelihood under label weights, for `dense_loss`."""
        weights, labelled = label_weights(weights, self.num_labels, self.ignore_index)
        emissions = self._masked(y, labelled)
        scores, reach = self._training_scores()
        value = self._log_likelihood(self._weighted(emissions), weights, scores, reach)
        return self._legal_only(value)

    def training_partial_log_likelihood(self, y, sets):
        """`(b,)` log of the probability of all paths within sets, for `partial_loss`."""
        sets = ops.convert_to_tensor(sets)
        ignored = ops.all(sets == ops.cast(self.ignore_index, sets.dtype), axis=-1)
        emissions = self._masked(y, ops.logical_not(ignored))
        check_sets(sets, emissions)
        (transitions, *boundary), reach = self._training_scores()
        value = linear_chain.partial_log_likelihood(
            self._weighted(emissions), sets, transitions, *boundary, reach=reach
        )
        return self._legal_only(value)

    def _check_legal(self, emissions, tags):
        """Name the first sequence whose labels break the constraints."""
        if not (is_concrete(emissions) and is_concrete(tags)):
            return
        kept = ~np.all(ops.convert_to_numpy(emissions) == -np.inf, axis=-1)
        for row, (path, keep) in enumerate(zip(ops.convert_to_numpy(tags), kept, strict=True)):
            found = self.constraints.first_illegal_step(path[keep])
            if found:
                place, pair = np.flatnonzero(keep)[found[0]], [self._name_of(x) for x in found[1]]
                raise ValueError(
                    f"The labels of sequence {row} are illegal at position {place}: {pair[0]} "
                    f"followed by {pair[1]}. Mend them (`TagSet.check` lists every such place), or "
                    "train with `constrain_loss=False`."
                )

    def _name_of(self, label):
        if label is None:
            return "the border"
        return repr(self.labels[label]) if self.labels else f"label {label}"

    # --- From one set of labels to another ---

    def transfer_transitions(self, source, old_labels=None, new_labels=None):
        """Take over the scores of another layer for the labels that both have.

        To go on training after a label was added or the order has changed; the scores of new labels
        stay as they are. Do the same with the columns of the `Dense` kernel in front, and its bias.

        Args:
            source: a built `ConditionalRandomField`.
            old_labels: names of its labels; `source.labels` by default.
            new_labels: names of this layer's labels; `self.labels` by default.

        Returns:
            The names of the labels whose scores were taken over.
        """
        old_labels = source.labels if old_labels is None else old_labels
        new_labels = self.labels if new_labels is None else new_labels
        old = _names(old_labels, source, "old_labels")
        new = _names(new_labels, self, "new_labels")
        shared = [name for name in new if name in old]
        to, of = [new.index(name) for name in shared], [old.index(name) for name in shared]
        for name in set(self.score_shapes()) & set(source.score_shapes()):
            scores = ops.convert_to_numpy(getattr(self, name)).copy()
            given = ops.convert_to_numpy(getattr(source, name))
            ranks = scores.ndim
            scores[np.ix_(*[to] * ranks)] = given[np.ix_(*[of] * ranks)]
            getattr(self, f"_{name}").assign(scores / self.lr_multiplier)
        return shared


def _as_spans(spans, types, length):
    """(b, s, 3) int32 tensor from lists of `(start, end, label)`, or such a tensor as it is."""
    if not isinstance(spans, list | tuple):
        return ops.cast(ops.convert_to_tensor(spans), "int32")
    array = np.full((len(spans), max(1, *map(len, spans), 0), 3), -1, "int32")
    for row, found in zip(array, spans, strict=True):
        for place, span in zip(row, found, strict=False):
            start, end, label = _one_span(span)
            if not 0 <= start < end <= (length or end) or label not in types:
                raise ValueError(
                    f"Spans are `(start, end, label)`, 0 <= start < end <= {length}, with a label "
                    f"out of {types}. Received: {(start, end, label)}"
                )
            place[:] = start, end, types.index(label)
    return ops.convert_to_tensor(array)


def _one_span(span):
    if not isinstance(span, list | tuple) or len(span) < 3:
        raise ValueError(
            "Expected for each sequence a list of spans `(start, end, label)`, as in "
            f'[[(0, 2, "PER")], []] for two sequences. Received the span: {span!r}'
        )
    return span[:3]


def _names(labels, layer, argument):
    if labels is None or len(labels) != layer.num_labels or len(set(labels)) != len(labels):
        raise ValueError(
            f"`{argument}` must hold {layer.num_labels} different names, one for each label of "
            f"layer {layer.name!r} in its order. Received: {labels}"
        )
    return list(labels)
