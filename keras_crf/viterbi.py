"""Viterbi decoding in NumPy, without Keras."""

import numpy as np

from keras_crf.best_paths import best_path, n_best_paths, path_scores
from keras_crf.constraints import legal


class ViterbiDecoder:
    """Best label paths from emissions, transition scores and constraints.

    It computes in float32, operation by operation like the decoder inside the graph, so that both
    return the same path on every input, ties included: between equal scores the lower last label
    wins, then the lower label before it, and so on.

    What is forbidden is minus infinity. Where constraints leave no path at all, nothing is raised:
    the score is minus infinity, which tells such a sequence from all others. The labels of `decode`
    are then valid ids that break some constraint; `n_best` has no path to give.

    Args:
        trans: `(k, k)` transition scores; `[i, j]` scores label i followed by label j. A plain
            attribute that may be replaced at any time, as in bert4keras.
        starts: label ids allowed at the first position, or booleans `(k,)`; None allows all.
        ends: label ids allowed at the last position, or booleans `(k,)`; None allows all.
        start_scores: `(k,)` scores of the first label; None for zeros.
        end_scores: `(k,)` scores of the last label; None for zeros.
        allowed: booleans `(k, k)`: `[i, j]` is true where label i may be followed by label j; None
            allows all.

    Example:
        decoder = crf.decoder()  # or ViterbiDecoder(trans, starts=[0, 1], ends=[0, 3])
        tags = decoder.decode(model.predict(x))
    """

    def __init__(
        self, trans, starts=None, ends=None, start_scores=None, end_scores=None, allowed=None
    ):
        self.trans = np.asarray(trans)
        if self.trans.ndim != 2 or len(set(self.trans.shape)) != 1:
            raise ValueError(
                f"`trans` must have the shape (labels, labels). Received: {self.trans.shape}"
            )
        self.num_labels = len(self.trans)
        self.start_scores = self._boundary("starts", starts, start_scores)
        self.end_scores = self._boundary("ends", ends, end_scores)
        self.allowed = None
        if allowed is not None:
            self.allowed = _checked("allowed", allowed, self.trans.shape, bool)

    @classmethod
    def from_labels(cls, labels, scheme, trans=None, start_scores=None, end_scores=None):
        """A decoder that gives legal tags only, for a CRF or for a model that ends in a softmax.

        Args:
            labels: the k tag names in the order of the model's outputs, such as
                `["O", "B-PER", "I-PER"]`.
            scheme: "BIO", "BIOES", "BMES"..., see `TagSet`.
            trans: `(k, k)` transition scores; None for zeros: constraints alone.
            start_scores: `(k,)` scores of the first label; None for zeros.
            end_scores: `(k,)` scores of the last label; None for zeros.

        Example:
            decoder = ViterbiDecoder.from_labels(labels, "BIO")
            tags = decoder.decode(np.log(probabilities))  # or logits, which give the same tags
        """
        allowed, starts, ends = legal(labels, scheme)
        trans = np.zeros(allowed.shape) if trans is None else trans
        return cls(trans, starts, ends, start_scores, end_scores, allowed)

    def _boundary(self, name, labels, scores):
        """(k,) scores, -inf for labels that are not allowed."""
        scores = np.zeros(self.num_labels) if scores is None else np.asarray(scores)
        if scores.shape != (self.num_labels,):
            raise ValueError(
                f"`{name[:-1]}_scores` must have the shape ({self.num_labels},). "
                f"Received: {scores.shape}"
            )
        return scores if labels is None else np.where(self._allowed(name, labels), scores, -np.inf)

    def _allowed(self, name, labels):
        """Label ids or booleans, as booleans (k,)."""
        labels = np.asarray([*labels])
        if labels.dtype == bool:
            return _checked(name, labels, (self.num_labels,), bool)
        unknown = [label for label in labels.tolist() if label not in range(self.num_labels)]
        if unknown:
            raise ValueError(
                f"`{name}` must hold label ids 0..{self.num_labels - 1}. Received: {unknown}"
            )
        return np.isin(np.arange(self.num_labels), labels)

    def decode(
        self, nodes, mask=None, pad_value=-1, bonus=None, allowed_labels=None, return_score=False
    ):
        """Best path of one sequence or of a batch; the arguments are not modified.

        Args:
            nodes: emissions `(t, k)` or `(b, t, k)`. Rows of minus infinity count as masked.
            mask: `(t,)` or `(b, t)`, true or non-zero = keep. Masked positions are removed from the
                chain.
            pad_value: what stands at masked positions.
            bonus: scores of the shape of `nodes` that are added to them, such as those of
                `Dictionary.bonus`.
            allowed_labels: booleans of the shape of `nodes`: the labels that may stand at each
                position.
            return_score: also return the score of the path.

        Returns:
            int64 labels `(t,)` or `(b, t)`, or a tuple of these and float64 scores in nats, `()` or
            `(b,)`: the sum of all scores along the path, 0 for a sequence without positions and
            minus infinity where the constraints leave no path.
        """
        lattice = _Lattice(self, nodes, mask, bonus, allowed_labels)
        paths = best_path(lattice.unary("float32"), self._transitions("float32"))
        tags = lattice.unwrap(np.where(lattice.kept, paths, pad_value))
        if not return_score:
            return tags
        return tags, lattice.unwrap(self._scores(lattice, paths[:, None])[:, 0])

    def n_best(self, nodes, n, mask=None, pad_value=-1, bonus=None, allowed_labels=None):
        """The n best paths, all different, best first; the first is that of `decode`.

        Args:
            nodes: emissions `(t, k)` or `(b, t, k)`, as in `decode`.
            n: number of paths.
            mask: as in `decode`.
            pad_value: what stands at masked positions, and in the place of paths that do not exist.
            bonus: as in `decode`.
            allowed_labels: as in `decode`.

        Returns:
            int64 paths `(n, t)` or `(b, n, t)` and their float64 scores in nats `(n,)` or `(b, n)`.
            Where fewer than n paths exist, the rest has the score minus infinity. Paths are ranked
            in float32 as in `decode`: two whose scores differ by less than its rounding may stand
            in either order.
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"`n` must be a number of paths, 1 or more. Received: {n!r}")
        lattice = _Lattice(self, nodes, mask, bonus, allowed_labels)
        parts = lattice.unary("float32"), self._transitions("float32"), lattice.kept
        paths, exists = n_best_paths(*parts, n)
        tags = np.where(lattice.kept[:, None] & exists[..., None], paths, pad_value)
        scores = np.where(exists, self._scores(lattice, paths), -np.inf)
        return lattice.unwrap(tags), lattice.unwrap(scores)

    def _transitions(self, dtype):
        trans = _checked("trans", self.trans, (self.num_labels, self.num_labels), dtype)
        return trans if self.allowed is None else np.where(self.allowed, trans, -np.inf)

    def _scores(self, lattice, paths):
        unary, trans = lattice.unary("float64"), self._transitions("float64")
        return path_scores(unary, trans, lattice.kept, paths)


class _Lattice:
    """What one call is about: a batch of sequences, checked, with all that acts on its labels."""

    def __init__(self, decoder, nodes, mask, bonus, allowed_labels):
        self.nodes = np.asarray(nodes)
        if self.nodes.ndim not in (2, 3) or self.nodes.shape[-1] != decoder.num_labels:
            raise ValueError(
                f"`nodes` must have the shape (time, {decoder.num_labels}) or (batch, time, "
                f"{decoder.num_labels}). Received: {self.nodes.shape}"
            )
        shape = self.nodes.shape
        self.bonus = None if bonus is None else _checked_bonus(bonus, shape)
        self.allowed = allowed_labels
        if allowed_labels is not None:
            self.allowed = _checked("allowed_labels", allowed_labels, shape, bool)
        self.start, self.end = decoder.start_scores, decoder.end_scores
        self.kept = ~np.all(self.nodes.astype("float32") == -np.inf, axis=-1)
        if mask is not None:
            self.kept &= _checked("mask", np.asarray(mask) != 0, shape[:-1], bool)
        self.kept = self._wrap(self.kept, 2)

    def unary(self, dtype):
        """(b, t, k): all that scores a label in its place, -inf in the rows of removed ones."""
        nodes = self.nodes.astype(dtype)
        if self.bonus is not None:
            nodes = nodes + self.bonus.astype(dtype)
        if self.allowed is not None:
            nodes = np.where(self.allowed, nodes, -np.inf)
        return self._fold(self._wrap(nodes, 3), self.start.astype(dtype), self.end.astype(dtype))

    def _fold(self, nodes, start, end):
        """Add start and end scores to the first and last kept position."""
        rank = np.cumsum(self.kept, axis=1)
        first, last = self.kept & (rank == 1), self.kept & (rank == rank[:, -1:])
        nodes = nodes + np.where(first[..., None], start, nodes.dtype.type(0))
        nodes = nodes + np.where(last[..., None], end, nodes.dtype.type(0))
        return np.where(self.kept[..., None], nodes, -np.inf)

    def _wrap(self, values, rank):
        return values if values.ndim == rank else values[None]

    def unwrap(self, values):
        """The results of a batch, or of its only sequence if that came alone."""
        return values if self.nodes.ndim == 3 else values[0]


def _checked(name, values, shape, dtype=None):
    """An array of a certain shape. Booleans must be booleans: scores of 0 would read as false."""
    values = np.asarray(values)
    if values.shape != shape:
        raise ValueError(f"`{name}` must have the shape {shape}. Received: {values.shape}")
    if dtype is bool and values.dtype != bool:
        raise ValueError(
            f"`{name}` must hold booleans, true = allowed. Received: {values.dtype}. For scores "
            "with minus infinity at what is forbidden pass `scores > -numpy.inf`."
        )
    return values if dtype is None else values.astype(dtype)


def _checked_bonus(bonus, shape):
    bonus = _checked("bonus", bonus, shape)
    if not (bonus < np.inf).all():  # infinity on a label that is forbidden would be NaN
        raise ValueError(
            "`bonus` must be below infinity, to force labels pass `allowed_labels`. Received: "
            f"{bonus[~(bonus < np.inf)][0]}"
        )
    return bonus
